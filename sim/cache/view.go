package cache

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// Source is what a view follows: the API server.
type Source interface {
	// List returns the objects of a kind in the order of their storage keys; an empty namespace means all.
	List(kind *apiserver.Kind, namespace string) []apiserver.Object
	// Log returns the events of a kind since the beginning of the run. It only ever grows.
	Log(kind *apiserver.Kind) []apiserver.Event
	// Revision returns the revision of the latest commit.
	Revision() int64
}

// Selector says which objects of a kind a view holds. The zero value selects all.
type Selector struct {
	Namespace string // empty for all namespaces
	Labels    labels.Selector
	Fields    fields.Selector
}

// Delta is what one move of a view's cursor did.
type Delta struct {
	Type apiserver.EventType
	// Object is the object after the event; for a deletion its last state, at the revision of the deletion.
	Object apiserver.Object
	// Old is the object the view held before, nil for an addition.
	Old apiserver.Object
	// Initial is set for the events of the initial list.
	Initial bool
	// Resync is set for an update of an object to itself that only repeats what is known already.
	Resync bool
	// Unknown is set for a deletion that only a new list showed: Object is then the last state that the view was told of, at
	// the revision of that state, and whatever came after it is unknown (k8s.io/client-go/tools/cache,
	// DeletedFinalStateUnknown).
	Unknown bool
}

// Key returns the namespace and name of the object.
func (d Delta) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: d.Object.GetNamespace(), Name: d.Object.GetName()}
}

// Recreated reports an update from one object to another of the same name: the deletion of the one and the creation of the
// other went unseen, see [View.Relist]. The Kubernetes controllers that care treat it as both.
func (d Delta) Recreated() bool { return d.Old != nil && d.Old.GetUID() != d.Object.GetUID() }

// View is what one informer has been told so far: the state of a kind at some point of its event log, its cursor.
type View struct {
	source   Source
	kind     *apiserver.Kind
	selector Selector

	synced   bool
	cursor   int                    // events of the log the view has been told of, or need not be
	revision int64                  // of the newest of them, or of the initial list
	keys     []types.NamespacedName // sorted
	items    map[types.NamespacedName]apiserver.Object
}

// New makes a view of the objects of a kind that the selector chooses. It is empty until [View.Sync].
func New(source Source, kind *apiserver.Kind, selector Selector) *View {
	return &View{source: source, kind: kind, selector: selector, items: map[types.NamespacedName]apiserver.Object{}}
}

// Kind returns the kind of the view's objects.
func (v *View) Kind() *apiserver.Kind { return v.kind }

// Synced reports whether the view has its initial list.
func (v *View) Synced() bool { return v.synced }

// Sync fills the view with an initial list of the present state, and returns it as additions in the order of the
// storage keys. From here the view follows the event log.
func (v *View) Sync() []Delta {
	v.synced = true
	v.catchUp()
	var initial []Delta
	for _, obj := range v.list() {
		delta := Delta{Type: apiserver.Added, Object: obj, Initial: true}
		v.apply(delta)
		initial = append(initial, delta)
	}
	return initial
}

// Pending returns what the next move of the cursor will do, and false if the view has been told everything.
func (v *View) Pending() (Delta, bool) {
	if !v.synced {
		return Delta{}, false
	}
	for log := v.source.Log(v.kind); v.cursor < len(log); v.cursor++ {
		if delta, ok := v.delta(log[v.cursor]); ok {
			return delta, true
		}
		v.revision = log[v.cursor].Revision
	}
	return Delta{}, false
}

// Advance moves the cursor by one event, and returns what that did. There must be one pending.
func (v *View) Advance() Delta {
	delta, ok := v.Pending()
	if !ok {
		panic("cache: Advance without a pending event")
	}
	v.revision = v.source.Log(v.kind)[v.cursor].Revision
	v.cursor++
	v.apply(delta)
	return delta
}

// Lose moves the cursor past an event that the view is never told of, and returns what it would have done. There must be one
// pending. Only [View.Relist] makes the view right again.
func (v *View) Lose() Delta {
	delta, ok := v.Pending()
	if !ok {
		panic("cache: Lose without a pending event")
	}
	v.cursor++
	return delta
}

// Relist moves the view to the present state as a new list does after a watch that cannot go on from where it was, and
// returns what the view's followers are told: first, as deletions of unknown final state, what is gone; then all that the
// list holds, in the order of the storage keys, as updates of what the view held before and additions of what it did not. An
// object that has not changed is an update, too, at one and the same revision; one that was deleted and created again is an
// update to another UID. That is processReplacedAllInfo of k8s.io/client-go/tools/cache/controller.go, v0.36.
func (v *View) Relist() []Delta {
	var deltas, replaced []Delta
	listed := map[types.NamespacedName]bool{}
	for _, obj := range v.list() {
		delta := Delta{Type: apiserver.Added, Object: obj}
		if old := v.items[delta.Key()]; old != nil {
			delta.Type, delta.Old = apiserver.Modified, old
		}
		listed[delta.Key()] = true
		replaced = append(replaced, delta)
	}
	for _, key := range v.keys {
		if last := v.items[key]; !listed[key] {
			deltas = append(deltas, Delta{Type: apiserver.Deleted, Object: last, Old: last, Unknown: true})
		}
	}
	deltas = append(deltas, replaced...)
	v.catchUp()
	for _, delta := range deltas {
		v.apply(delta)
	}
	return deltas
}

// list returns the objects that the view chooses of the present state, in the order of the storage keys.
func (v *View) list() []apiserver.Object {
	var chosen []apiserver.Object
	for _, obj := range v.source.List(v.kind, v.selector.Namespace) {
		if v.kind.Matches(obj, v.selector.Labels, v.selector.Fields) {
			chosen = append(chosen, obj)
		}
	}
	return chosen
}

// catchUp moves the cursor to the end of the log.
func (v *View) catchUp() {
	v.cursor = len(v.source.Log(v.kind))
	v.revision = v.source.Revision()
}

// delta translates an event of the log into what a watch with the view's selector shows of it.
func (v *View) delta(event apiserver.Event) (Delta, bool) {
	event, ok := v.kind.Transition(event, v.selector.Namespace, v.selector.Labels, v.selector.Fields)
	if !ok {
		return Delta{}, false
	}
	return Delta{Type: event.Type, Object: event.Object, Old: event.Prev}, true
}

func (v *View) apply(delta Delta) {
	key := delta.Key()
	at, found := slices.BinarySearchFunc(v.keys, key, compareKeys)
	switch {
	case delta.Type == apiserver.Deleted && found:
		v.keys = slices.Delete(v.keys, at, at+1)
		delete(v.items, key)
	case delta.Type != apiserver.Deleted:
		if !found {
			v.keys = slices.Insert(v.keys, at, key)
		}
		v.items[key] = delta.Object
	}
}

// Get returns the object as the view has it, or nil. It is immutable.
func (v *View) Get(namespace, name string) apiserver.Object {
	return v.items[types.NamespacedName{Namespace: namespace, Name: name}]
}

// List returns the objects of a namespace (empty for all) in the order of their keys. They are immutable.
func (v *View) List(namespace string) []apiserver.Object {
	var list []apiserver.Object
	for _, key := range v.keys {
		if namespace == "" || key.Namespace == namespace {
			list = append(list, v.items[key])
		}
	}
	return list
}

// Revision returns the revision of the newest event the view has been told of.
func (v *View) Revision() int64 { return v.revision }

func compareKeys(a, b types.NamespacedName) int {
	return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}
