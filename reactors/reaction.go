package reactors

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgotesting "k8s.io/client-go/testing"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Reaction returns a fault as a reaction for the fake of a generated clientset, in front of whose chain it belongs:
//
//	clientset := fake.NewClientset()
//	reaction, err := reactors.Reaction(match, fault, clientset.Tracker())
//	clientset.PrependReactor("*", "*", reaction)
//
// It strikes once: at the first action that match chooses, or the Occurrence-th. A place that the fault names itself is not
// looked at. A fake has one client and no passes, so match may choose by verb, kind, namespace, name and subresource only. A
// Conflict passes over patches and deletes that carry no resourceVersion; an update is taken to carry one, as a fake's objects
// have none.
//
// Faults that strike before the request are an error in place of the fake's answer. LostResponse and AppliedTwice carry the
// request out on the tracker first, once or twice; reactions that come later in the chain do not see it. A fake has no
// transport: client-go tries nothing again by itself, whatever the layer, and an error with a Retry-After stands for
// attempts that were all in vain. What needs a clock, a process, a watch, or a store that knows optimistic locks and
// finalizers is an error: Delay, Wedge, Crash, Upgrade, CacheLag, WatchDrop, Relist, LateDelete, and a Conflict by a
// competing write.
func Reaction(
	match schedule.Selector, f schedule.Fault, tracker clientgotesting.ObjectTracker,
) (clientgotesting.ReactionFunc, error) {
	f.At, f.Select = schedule.Event{}, &match
	if err := errors.Join(Validate(f), checkMatch(&match)); err != nil {
		return nil, err
	}
	f = Complete(f)
	react, err := reaction(f, tracker)
	if err != nil {
		return nil, err
	}
	struck := false
	counter := schedule.Counter{Selector: match}
	return func(action clientgotesting.Action) (bool, runtime.Object, error) {
		t, event := nameAction(action, match.Kind)
		if struck || !f.Type.Strikes(event) || f.Type == schedule.Conflict && t.lock == "" || !counter.Match(event) {
			return false, nil, nil
		}
		struck = true
		return react(&t, action)
	}, nil
}

// reactFunc is the reaction of a fault at the action at which it strikes.
type reactFunc func(*target, clientgotesting.Action) (bool, runtime.Object, error)

func reaction(f schedule.Fault, tracker clientgotesting.ObjectTracker) (reactFunc, error) {
	build := rows[f.Type].build
	switch {
	case build != nil && f.Means != schedule.CompetingWrite:
		return func(t *target, _ clientgotesting.Action) (bool, runtime.Object, error) { return true, nil, build(t, f) }, nil
	case f.Type != schedule.LostResponse && f.Type != schedule.AppliedTwice:
		return nil, fmt.Errorf("fault %s: a clientset's fake cannot bring it about: use the simulated server", f)
	case tracker == nil:
		return nil, fmt.Errorf("fault %s: the tracker is nil: give the clientset's, which carries the request out", f.Type)
	}
	carryOut := clientgotesting.ObjectReaction(tracker)
	if f.Type == schedule.AppliedTwice {
		return func(t *target, action clientgotesting.Action) (bool, runtime.Object, error) {
			if handled, obj, err := carryOut(action.DeepCopy()); !handled || err != nil {
				return handled, obj, err
			}
			if t.lock != "" && t.verb != schedule.Delete { // a tracker takes any resourceVersion
				return true, nil, t.conflict(f)
			}
			return carryOut(action)
		}, nil
	}
	return func(t *target, action clientgotesting.Action) (bool, runtime.Object, error) {
		handled, _, err := carryOut(action)
		if !handled {
			return false, nil, err
		}
		return true, nil, t.lost(f)
	}, nil
}

// checkMatch refuses a selector that looks at what a fake does not know.
func checkMatch(match *schedule.Selector) error {
	var problems []error
	for _, field := range []struct {
		name string
		set  bool
	}{
		{"actor", match.Actor != ""}, {"incarnation", match.Incarnation != 0}, {"controller", match.Controller != ""},
		{"key", match.Key != ""}, {"return", match.Return},
	} {
		if field.set {
			problems = append(problems, fmt.Errorf("match: a clientset's fake knows no %s: leave it out", field.name))
		}
	}
	return errors.Join(problems...)
}

// nameAction says what an action is about, and names it as an event, as far as selectors may look at it. An action has no kind
// but that of its object; one without has the kind that is looked for, if the resource is its plural.
func nameAction(action clientgotesting.Action, kind string) (target, schedule.Event) {
	t := target{
		verb: actionVerbs[action.GetVerb()], group: action.GetResource().GroupVersion(), resource: action.GetResource().Resource,
		namespace: action.GetNamespace(), subresource: action.GetSubresource(),
	}
	t.lock = lockOfAction(action)
	switch action := action.(type) {
	case interface{ GetName() string }: // of get, patch and delete
		t.object = action.GetName()
	case interface{ GetObject() runtime.Object }: // of create and update
		if obj, err := meta.Accessor(action.GetObject()); err == nil {
			t.object = obj.GetName()
		}
		t.kind = reflect.Indirect(reflect.ValueOf(action.GetObject())).Type().Name()
	}
	t.name = t.inPath()
	name, group, _ := strings.Cut(kind, ".")
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: name})
	event := schedule.Event{Verb: t.verb, Namespace: t.namespace, Name: t.object, Subresource: t.subresource}
	if plural.Resource == t.resource && (group == "" || group == t.group.Group) {
		t.kind, event.Kind = name, kind
	}
	t.kind = cmp.Or(t.kind, t.resource)
	event.Kind = cmp.Or(event.Kind, t.kind)
	return t, event
}

// lockOfAction returns the resourceVersion that an action insists on. That of an update is not known: it may be any.
func lockOfAction(action clientgotesting.Action) string {
	r := apiserver.Request{Verb: actionVerbs[action.GetVerb()]}
	if r.Verb == schedule.Update {
		return "any"
	}
	switch action := action.(type) {
	case clientgotesting.PatchAction:
		r.PatchType, r.PatchData = action.GetPatchType(), action.GetPatch()
	case clientgotesting.DeleteAction:
		r.Delete = action.GetDeleteOptions()
	}
	return r.Lock()
}

var actionVerbs = map[string]schedule.Verb{
	"get": schedule.Get, "list": schedule.List, "watch": schedule.Watch, "create": schedule.Create, "update": schedule.Update,
	"patch": schedule.Patch, "delete": schedule.Delete, "delete-collection": schedule.DeleteCollection,
}
