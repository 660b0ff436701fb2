package apiserver

import (
	"cmp"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Since returns the events of a kind after a revision. What lies before a compaction is gone: the error is then the
// 410 Expired that a real server sends as the one event of such a watch.
func (s *Server) Since(k *Kind, revision int64) ([]Event, error) {
	if revision < s.compacted {
		return nil, s.tooOld(k, revision)
	}
	log := s.Log(k)
	first, found := slices.BinarySearchFunc(log, revision, func(e Event, r int64) int { return int(e.Revision - r) })
	if found {
		first++
	}
	return log[first:], nil
}

// WatchStart is where a watch begins.
type WatchStart struct {
	// Objects are those that the watch shows as they are at Revision, in the order of their storage keys, if they were asked
	// for. They are told as additions.
	Objects []Object
	// Revision is what the events follow: those up to it are not told. It may be still to come.
	Revision int64
	// Next is the index of the next event in the log of the kind.
	Next int
	// Failure is what a watch has to tell that cannot begin, as its one event of type ERROR; else nil.
	Failure *apierrors.StatusError
}

// StartWatch begins a watch of the kind of a request, which has the fields that a List has. With initial it begins with what
// exists; without, with the changes after the request's revision, or after now if it names none. An error refuses the
// request. What the event log holds from Next on is for the watch, as [Kind.Transition] shows it: Cacher.Watch in
// pkg/storage/cacher/cacher.go of k8s.io/apiserver v1.36.
func (s *Server) StartWatch(req *Request, initial bool) (*WatchStart, error) {
	if err := req.Kind.checkFieldSelector(req.FieldSelector); err != nil {
		return nil, err
	}
	revision, err := s.readRevision(req.ResourceVersion)
	if err != nil {
		return nil, err
	}
	start := &WatchStart{Revision: revision}
	switch {
	case initial && revision > s.revision:
		start.Failure = tooLargeRevision(revision, s.revision)
	case initial:
		list := s.Do(&Request{
			Verb: schedule.List, Kind: req.Kind, Namespace: req.Namespace,
			LabelSelector: req.LabelSelector, FieldSelector: req.FieldSelector,
		})
		start.Objects, start.Revision = list.Items, list.Revision
	case revision == 0:
		start.Revision = s.revision
	case revision < s.compacted:
		start.Failure = s.tooOld(req.Kind, revision)
	}
	start.Next, _ = slices.BinarySearchFunc(s.Log(req.Kind), start.Revision+1, byRevision)
	return start, nil
}

func byRevision(e Event, revision int64) int { return cmp.Compare(e.Revision, revision) }

// WithoutWatchCache makes the server read everything from its storage, as kube-apiserver --watch-cache=false does. All that a
// client can tell of it is how a watch is refused that comes too late.
func (s *Server) WithoutWatchCache() { s.uncached = true }

// tooOld is a watch from a revision whose successors are gone. Events have no watch cache by default:
// DefaultWatchCacheSizes in pkg/kubeapiserver/default_storage_factory_builder.go of k8s.io/kubernetes v1.36. The other text is
// that of pkg/storage/etcd3/errors.go.
func (s *Server) tooOld(k *Kind, revision int64) *statusError {
	if s.uncached || k.behind().order == eventOrder {
		return apierrors.NewResourceExpired("The resourceVersion for the provided watch is too old.")
	}
	return apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", revision, s.revision))
}

// Transition returns an event as a watch with a namespace and selectors shows it, and false if it shows nothing: an object
// that comes to match is added, one that ceases to match is deleted, as it last matched but at the new revision;
// pkg/storage/cacher/cache_watcher.go convertToWatchEvent. An empty namespace and nil selectors choose everything.
func (k *Kind) Transition(event Event, namespace string, byLabel labels.Selector, byField fields.Selector) (Event, bool) {
	matches := func(obj Object) bool {
		return obj != nil && (namespace == "" || obj.GetNamespace() == namespace) && k.Matches(obj, byLabel, byField)
	}
	before := matches(event.Prev)
	after := event.Type != Deleted && matches(event.Object)
	switch {
	case before && after:
		event.Type = Modified
	case after:
		event.Type, event.Prev = Added, nil
	case before && event.Type != Deleted:
		gone := k.shallowCopy(event.Prev)
		gone.SetResourceVersion(event.Object.GetResourceVersion())
		event.Type, event.Object = Deleted, gone
	case !before:
		return Event{}, false
	}
	return event, true
}
