package apiserver

import (
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// Since returns the events of a kind after a revision. What lies before a compaction is gone: the error is then the
// 410 Expired that a real server sends as the one event of such a watch.
func (s *Server) Since(k *Kind, revision int64) ([]Event, error) {
	if revision < s.compacted {
		return nil, apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", revision, s.revision))
	}
	log := s.table(k).log
	first, found := slices.BinarySearchFunc(log, revision, func(e Event, r int64) int { return int(e.Revision - r) })
	if found {
		first++
	}
	return log[first:], nil
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
