package clickhouse

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// getThenCreateOrUpdate reads the live object into current; it creates desired if there is none, and updates current if
// merge says that it changed it.
func (h *hostPass) getThenCreateOrUpdate(
	ctx context.Context, desired, current client.Object, merge func() (changed bool),
) error {
	err := h.client.Get(ctx, client.ObjectKeyFromObject(desired), current)
	switch {
	case apierrors.IsNotFound(err):
		return h.client.Create(ctx, desired)
	case err != nil:
		return err
	case merge():
		return h.client.Update(ctx, current)
	default:
		return nil
	}
}

// reconcileConfigMap brings the host's configuration up to date. The original waits for a changed one to reach the pod;
// that wait is zero here.
func (h *hostPass) reconcileConfigMap(ctx context.Context) error {
	desired, current := h.host.configMap(), &corev1.ConfigMap{}
	err := h.getThenCreateOrUpdate(ctx, desired, current, func() bool {
		return replace(&current.Data, desired.Data)
	})
	if err != nil {
		h.logError("unable to reconcile ConfigMap %s err: %v", client.ObjectKeyFromObject(desired), err)
	}
	return err
}

// reconcileService brings the host's service up to date. An error does not stop the pass.
func (h *hostPass) reconcileService(ctx context.Context) {
	desired, current := h.host.service(), &corev1.Service{}
	err := h.getThenCreateOrUpdate(ctx, desired, current, func() bool {
		selector := replace(&current.Spec.Selector, desired.Spec.Selector)
		ports := replace(&current.Spec.Ports, desired.Spec.Ports)
		return selector || ports
	})
	if err != nil {
		h.logError("unable to reconcile Service %s err: %v", client.ObjectKeyFromObject(desired), err)
	}
}

// reconcileClaims is step 5: every claim asks for what its template asks for. Errors are logged and dropped.
func (h *hostPass) reconcileClaims(ctx context.Context) {
	for _, template := range h.desired.Spec.VolumeClaimTemplates {
		if ctx.Err() != nil {
			return
		}
		desired, current := h.host.claim(template), &corev1.PersistentVolumeClaim{}
		err := h.getThenCreateOrUpdate(ctx, desired, current, func() bool {
			return replace(&current.Spec.Resources.Requests, desired.Spec.Resources.Requests)
		})
		if err != nil {
			h.logError("unable to reconcile PVC %s err: %v", client.ObjectKeyFromObject(desired), err)
		}
	}
}

// replace sets a field and reports whether that changed anything.
func replace[T any](field *T, value T) (changed bool) {
	if equality.Semantic.DeepEqual(*field, value) {
		return false
	}
	*field = value
	return true
}
