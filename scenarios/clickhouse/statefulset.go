package clickhouse

import (
	"context"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// What to do after a create or an update, in the original's words: ErrCRUDAbort, ErrCRUDIgnore and ErrCRUDRecreate.
var (
	errAbort    = errors.New("crud error - should abort")
	errIgnore   = errors.New("crud error - should ignore")
	errRecreate = errors.New("crud error - should recreate")
)

// hostPass is the part of a pass that brings one host up to date.
type hostPass struct {
	*pass
	host    host
	desired *appsv1.StatefulSet
}

func (h *hostPass) key() types.NamespacedName { return client.ObjectKeyFromObject(h.desired) }

func (h *hostPass) get(ctx context.Context) (*appsv1.StatefulSet, error) {
	set := &appsv1.StatefulSet{}
	if err := h.client.Get(ctx, h.key(), set); err != nil {
		return nil, err
	}
	return set, nil
}

// reconcile is step 2: it looks at the StatefulSet, reconciles what the pod depends on, and looks again.
func (h *hostPass) reconcile(ctx context.Context) error {
	set, err := h.get(ctx)
	same := err == nil && set.Labels[labelObjectVersion] == h.desired.Labels[labelObjectVersion]

	if err := h.reconcileConfigMap(ctx); err != nil {
		return err
	}
	h.reconcileService(ctx)
	if same {
		h.status.HostsUnchanged++
		return nil
	}

	set, err = h.get(ctx)
	if apierrors.IsNotFound(err) {
		return h.create(ctx)
	}
	// A set that cannot be read goes on as one that is not ready, and so is recreated: "unreadable is not absent" came
	// after 0.27.1.
	return h.update(ctx, set)
}

// update is step 3. current is nil if it could not be read.
func (h *hostPass) update(ctx context.Context, current *appsv1.StatefulSet) error {
	h.logInfo("Update StatefulSet(%s) - started", h.key())
	action := errRecreate
	if current != nil && isReady(current) {
		action = h.put(ctx, current)
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case action == nil:
		h.status.HostsUpdated++
		h.logInfo("Update StatefulSet(%s) - completed", h.key())
		return nil
	case errors.Is(action, errRecreate): // recreate.onUpdateFailure: recreate, the default
		h.logInfo("Update StatefulSet(%s) switch from Update to Recreate", h.key())
		return h.recreate(ctx)
	default:
		h.logInfo("Update StatefulSet(%s) - got abort. Abort", h.key())
		return action
	}
}

// put writes the desired StatefulSet and waits for it. Whatever the error of the write, be it a passing one, the answer
// is to recreate. As there is no resourceVersion in it the write cannot conflict.
func (h *hostPass) put(ctx context.Context, current *appsv1.StatefulSet) error {
	set := h.desired.DeepCopy()
	if err := h.client.Update(ctx, set); err != nil {
		h.logError("StatefulSet update failed. err: %v", err)
		return errRecreate
	}
	if set.Generation == current.Generation {
		return nil
	}
	if err := h.waitReady(ctx); err != nil {
		h.logError("StatefulSet update wait failed. err: %v", err)
		return errAbort // update.onFailure: abort, the default
	}
	return nil
}

// recreate is steps 4 to 6.
func (h *hostPass) recreate(ctx context.Context) error {
	err := h.variant.deleteSet(h, ctx)
	if err != nil && h.variant.deleteErrorEndsRecreate {
		return err
	}
	h.reconcileClaims(ctx)
	return h.create(ctx)
}

// deleteSetOrGiveUp is doDeleteStatefulSet of 0.27.0: it scales to 0 first, and if that fails it gives up without a
// delete (bug 2). An error of the delete itself is only logged.
func (h *hostPass) deleteSetOrGiveUp(ctx context.Context) error {
	h.logInfo("doDeleteStatefulSet(): %s", h.key())
	set, err := h.get(ctx)
	if apierrors.IsNotFound(err) {
		h.logInfo("NEUTRAL not found StatefulSet %s", h.key())
		return err
	}
	if err != nil {
		h.logError("FAIL get StatefulSet %s err:%v", h.key(), err)
		return err
	}
	if err := h.scaleToZero(ctx, set); err != nil {
		h.logError("UNABLE to update StatefulSet %s", h.key())
		return err
	}
	_ = h.waitReady(ctx)
	_ = h.pollDelete(ctx)
	return nil
}

// deleteSetAnyway is doDeleteStatefulSet of patch A and later: scaling to 0 is a courtesy to the pod, and is left out if
// the set is there already; absent is deleted; an error of the delete is returned.
func (h *hostPass) deleteSetAnyway(ctx context.Context) error {
	h.logInfo("doDeleteStatefulSet(): %s", h.key())
	set, err := h.get(ctx)
	if apierrors.IsNotFound(err) {
		h.logInfo("NEUTRAL not found StatefulSet %s", h.key())
		return nil
	}
	if err != nil {
		h.logError("FAIL get StatefulSet %s err:%v", h.key(), err)
		return err
	}
	if set.Spec.Replicas == nil || *set.Spec.Replicas != 0 {
		if err := h.scaleToZero(ctx, set); err != nil {
			h.logError("unable to scale StatefulSet %s to 0, delete it all the same. err: %v", h.key(), err)
		} else {
			_ = h.waitReady(ctx)
		}
	}
	return h.pollDelete(ctx)
}

// scaleToZero writes replicas 0 at the revision that was read, so another write in between makes it a conflict.
func (h *hostPass) scaleToZero(ctx context.Context, set *appsv1.StatefulSet) error {
	zero := int32(0)
	set.Spec.Replicas = &zero
	return h.client.Update(ctx, set)
}

// pollDelete deletes the StatefulSet, and again every 5 s, until it is gone.
func (h *hostPass) pollDelete(ctx context.Context) error {
	err := poll(ctx, "delete StatefulSet: "+h.key().String(), func(ctx context.Context) (bool, error) {
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: h.desired.Namespace, Name: h.desired.Name}}
		err := h.client.Delete(ctx, set,
			client.PropagationPolicy(metav1.DeletePropagationForeground), client.GracePeriodSeconds(0))
		if client.IgnoreNotFound(err) != nil {
			h.logError("Error deleting StatefulSet: %s err: %v", h.key(), err)
		}
		_, err = h.get(ctx)
		return apierrors.IsNotFound(err), nil
	})
	if err != nil {
		h.logError("FAIL delete StatefulSet %s err: %v", h.key(), err)
		return err
	}
	h.logInfo("OK delete StatefulSet %s", h.key())
	return nil
}

// create is step 6. The host is counted as added before anyone looks at the outcome.
func (h *hostPass) create(ctx context.Context) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	h.logInfo("Create StatefulSet: %s", h.key())
	action := h.post(ctx)
	h.status.HostsAdded++
	_ = h.writeStatus(ctx)
	switch {
	case action == nil:
		return nil
	case errors.Is(action, errRecreate) && h.variant.createErrorEndsPass:
		return action
	case errors.Is(action, errRecreate):
		h.logInfo("Got recreate action. Ignore and continue for now")
		return nil
	default: // errIgnore
		h.logInfo("Create StatefulSet: %s - error ignored", h.key())
		return nil
	}
}

// post creates the StatefulSet and waits for it.
func (h *hostPass) post(ctx context.Context) error {
	if err := h.client.Create(ctx, h.desired.DeepCopy()); err != nil {
		h.logError("StatefulSet create failed. err: %v", err)
		return errRecreate
	}
	if err := h.waitReady(ctx); err != nil {
		h.logError("StatefulSet create wait failed. err: %v", err)
		return errIgnore // create.onFailure: ignore, the default
	}
	return nil
}

// waitReady polls until the StatefulSet is rolled out, then until its replicas are ready: up to twice 300 s.
func (h *hostPass) waitReady(ctx context.Context) error {
	for _, reached := range []func(*appsv1.StatefulSet) bool{isRolledOut, isReady} {
		err := poll(ctx, h.key().String(), func(ctx context.Context) (bool, error) {
			set, err := h.get(ctx)
			return err == nil && reached(set), err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// isRolledOut reports whether the newest spec was observed and all replicas were made from it. They need not be ready.
func isRolledOut(set *appsv1.StatefulSet) bool {
	s := set.Status
	return set.Spec.Replicas != nil &&
		s.ObservedGeneration == set.Generation &&
		s.CurrentReplicas == *set.Spec.Replicas &&
		s.UpdatedReplicas == *set.Spec.Replicas &&
		s.CurrentRevision == s.UpdateRevision
}

// isReady reports whether as many replicas are ready as are wanted. The status may be that of an older spec, and a pod
// that is going away may still be counted.
func isReady(set *appsv1.StatefulSet) bool {
	return set.Spec.Replicas != nil && set.Status.ReadyReplicas == *set.Spec.Replicas
}
