package racer

import (
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// orphanAttempt strips the references of all dependents of an owner, and then its finalizer.
type orphanAttempt struct {
	gc         *GarbageCollector
	node       *node
	step       attemptStep
	dependents []*node
	next       int
	target     target
	errs       []error
	finalize   *finalizerRemoval
}

// Next implements [sim.Task]. The real collector patches the dependents concurrently; here they come in order.
func (a *orphanAttempt) Next(resp *apiserver.Response) sim.Action {
	switch a.step {
	case attemptBegin:
		if a.node == nil {
			return sim.Done()
		}
		a.dependents = a.node.sortedDependents()
	case attemptPatch, attemptMergePatch:
		err := failure(resp)
		if a.step == attemptPatch && apierrors.IsUnsupportedMediaType(err) {
			return a.mergePatch()
		}
		if err != nil && !apierrors.IsNotFound(err) {
			a.errs = append(a.errs, fmt.Errorf("orphaning %s failed, %w", a.dependents[a.next].identity, err))
		}
		a.next++
	case attemptMergeRead:
		return a.itemRead(resp)
	case attemptFinalize:
		return a.removeFinalizer(resp)
	default: // the other steps are not those of orphaning
	}
	return a.patchNext()
}

func (a *orphanAttempt) call(step attemptStep, request *apiserver.Request) sim.Action {
	a.step = step
	return sim.Call(request)
}

func (a *orphanAttempt) patchNext() sim.Action {
	for ; a.next < len(a.dependents); a.next++ {
		dependent := a.dependents[a.next]
		t, err := a.gc.target(dependent.identity)
		if err == nil {
			a.target = t
			return a.call(attemptPatch,
				t.patch(types.StrategicMergePatchType, releasePatch(dependent.uid, a.node.uid)))
		}
		a.errs = append(a.errs, err)
	}
	if err := utilerrors.NewAggregate(a.errs); err != nil {
		return sim.Fail(fmt.Errorf("failed to orphan dependents of owner %s: %w", a.node.identity, err))
	}
	t, err := a.gc.target(a.node.identity)
	if err != nil {
		return sim.Fail(err)
	}
	a.finalize = &finalizerRemoval{target: t, finalizer: metav1.FinalizerOrphanDependents}
	return a.removeFinalizer(nil)
}

// mergePatch patches the owners of a custom resource, which knows no strategic patch, as the informer shows it; it reads one
// that the informer does not have.
func (a *orphanAttempt) mergePatch() sim.Action {
	if obj := a.gc.cached(a.target); obj != nil {
		return a.mergePatchOf(obj)
	}
	return a.call(attemptMergeRead, a.target.get())
}

func (a *orphanAttempt) mergePatchOf(obj apiserver.Object) sim.Action {
	refs := without(obj.GetOwnerReferences(), []types.UID{a.node.uid})
	return a.call(attemptMergePatch, a.target.patch(types.MergePatchType, ownersMergePatch(obj.GetResourceVersion(), refs)))
}

func (a *orphanAttempt) itemRead(resp *apiserver.Response) sim.Action {
	if err := failure(resp); err != nil {
		if !apierrors.IsNotFound(err) {
			a.errs = append(a.errs, err)
		}
		a.next++
		return a.patchNext()
	}
	return a.mergePatchOf(resp.Object)
}

func (a *orphanAttempt) removeFinalizer(resp *apiserver.Response) sim.Action {
	a.step = attemptFinalize
	if action, yield := a.finalize.run(resp); yield {
		return action
	}
	if a.finalize.err != nil {
		return sim.Fail(a.finalize.err)
	}
	return sim.Done()
}

// finalizerRemoval takes one of the collector's finalizers off an owner: GET, then a merge patch at the revision read,
// again on a conflict. It goes by the owner's name alone.
type finalizerRemoval struct {
	target    target
	finalizer string
	state     removal
	failed    int
	err       error
}

// removal is where a finalizerRemoval stands.
type removal uint8

const (
	removalRead removal = iota
	removalReading
	removalPatching
)

// run returns true with an action to take, or false when the removal is over.
func (f *finalizerRemoval) run(resp *apiserver.Response) (sim.Action, bool) {
	switch f.state {
	case removalReading:
		err := failure(resp)
		if apierrors.IsNotFound(err) {
			return sim.Action{}, false
		}
		if err != nil {
			f.err = fmt.Errorf("cannot finalize owner %s: %w", f.target.name, err)
			return sim.Action{}, false
		}
		return f.patch(resp.Object)
	case removalPatching:
		f.err = failure(resp)
		if !apierrors.IsConflict(f.err) {
			return sim.Action{}, false
		}
		f.failed++
		pause, again := defaultBackoff.after(f.failed)
		if !again {
			return sim.Action{}, false
		}
		f.state, f.err = removalRead, nil
		return sim.Wait(pause), true
	default:
		f.state = removalReading
		return sim.Call(f.target.get()), true
	}
}

func (f *finalizerRemoval) patch(owner apiserver.Object) (sim.Action, bool) {
	if !hasFinalizer(owner, f.finalizer) {
		return sim.Action{}, false
	}
	rest := slices.DeleteFunc(slices.Clone(owner.GetFinalizers()), func(s string) bool { return s == f.finalizer })
	f.state = removalPatching
	patch := metadataPatch(map[string]any{"resourceVersion": owner.GetResourceVersion(), "finalizers": rest})
	return sim.Call(f.target.patch(types.MergePatchType, patch)), true
}

func ownersMergePatch(revision string, refs []metav1.OwnerReference) []byte {
	return metadataPatch(map[string]any{"resourceVersion": revision, "ownerReferences": refs})
}

func metadataPatch(metadata map[string]any) []byte {
	data, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		panic(err) // strings and references always encode
	}
	return data
}

func hasFinalizer(obj metav1.Object, finalizer string) bool {
	return slices.Contains(obj.GetFinalizers(), finalizer)
}
