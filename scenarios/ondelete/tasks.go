package ondelete

import (
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	applyappsv1 "k8s.io/client-go/applyconfigurations/apps/v1"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	applymetav1 "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldOwner is the field manager of what the operator applies.
const fieldOwner = "seinode-controller"

// labelNode is on the pods of a SeiNode, and has its name.
const labelNode = "sei.io/node"

// task is one kind of step of a plan. It reports whether it is done; if it is not, it is run again later.
type task struct {
	name string
	run  func(*reconciler, context.Context, *SeiNode) (done bool, err error)
}

// tasks are what a plan consists of, in their order.
var tasks = []task{
	{"apply-statefulset", func(r *reconciler, ctx context.Context, node *SeiNode) (bool, error) {
		err := r.applyStatefulSet(ctx, node)
		return err == nil, err
	}},
	{"replace-pod", (*reconciler).replacePod},
	{"observe-image", (*reconciler).observeImage},
}

// runTask runs the task of that name.
func (r *reconciler) runTask(ctx context.Context, node *SeiNode, name string) (done bool, err error) {
	i := slices.IndexFunc(tasks, func(t task) bool { return t.name == name })
	if i < 0 {
		return false, fmt.Errorf("task %s: there is no such task", name)
	}
	return tasks[i].run(r, ctx, node)
}

// applyStatefulSet applies the node's set.
func (r *reconciler) applyStatefulSet(ctx context.Context, node *SeiNode) error {
	selector := map[string]string{labelNode: node.Name}
	set := applyappsv1.StatefulSet(node.Name, node.Namespace).
		WithOwnerReferences(applymetav1.OwnerReference().
			WithAPIVersion(GroupVersion.String()).WithKind("SeiNode").WithName(node.Name).WithUID(node.UID).
			WithController(true).WithBlockOwnerDeletion(true)).
		WithSpec(applyappsv1.StatefulSetSpec().
			WithReplicas(1).
			WithServiceName(node.Name).
			WithUpdateStrategy(applyappsv1.StatefulSetUpdateStrategy().WithType(appsv1.OnDeleteStatefulSetStrategyType)).
			WithSelector(applymetav1.LabelSelector().WithMatchLabels(selector)).
			WithTemplate(applycorev1.PodTemplateSpec().
				WithLabels(selector).
				WithSpec(applycorev1.PodSpec().WithContainers(
					applycorev1.Container().WithName("seid").WithImage(node.Spec.Image)))))
	if err := r.client.Apply(ctx, set, client.FieldOwner(fieldOwner), client.ForceOwnership); err != nil {
		return fmt.Errorf("applying StatefulSet %s: %w", node.Name, err)
	}
	return nil
}

// observedSet reads the node's set, live. It is nil as long as there is none, or its controller has not seen its present spec.
func (r *reconciler) observedSet(ctx context.Context, node *SeiNode) (*appsv1.StatefulSet, error) {
	set := &appsv1.StatefulSet{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(node), set); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		return nil, fmt.Errorf("getting StatefulSet %s: %w", node.Name, err)
	}
	if !observed(set) {
		return nil, nil
	}
	return set, nil
}

// replacePod deletes the pods that are not at the set's update revision.
func (r *reconciler) replacePod(ctx context.Context, node *SeiNode) (done bool, err error) {
	set, err := r.observedSet(ctx, node)
	if set == nil {
		return false, err
	}
	if r.variant.byPods {
		return r.replaceUntilGone(ctx, set)
	}
	if set.Status.CurrentRevision == set.Status.UpdateRevision {
		return true, nil
	}
	pods, err := ownedPods(ctx, r.client, set)
	if err != nil {
		return false, err
	}
	for _, pod := range pods {
		if outdated(set, &pod) && pod.DeletionTimestamp == nil {
			if err := deletePod(ctx, r.client, &pod); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// replaceUntilGone deletes the live pods that are not at the set's update revision. It is done when there are none left.
func (r *reconciler) replaceUntilGone(ctx context.Context, set *appsv1.StatefulSet) (done bool, err error) {
	pods, err := ownedPods(ctx, r.live, set)
	if err != nil {
		return false, err
	}
	done = true
	for _, pod := range pods {
		if !outdated(set, &pod) {
			continue
		}
		done = false
		if pod.DeletionTimestamp == nil {
			if err := deletePod(ctx, r.client, &pod, client.Preconditions{UID: &pod.UID}); err != nil {
				return false, err
			}
		}
	}
	return done, nil
}

// outdated reports whether a pod was made from another template than the set has now.
func outdated(set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	revision := revisionOf(pod)
	return revision != "" && revision != set.Status.UpdateRevision
}

// observeImage waits until the image is rolled out, and notes it in the node's status.
func (r *reconciler) observeImage(ctx context.Context, node *SeiNode) (done bool, err error) {
	set, err := r.observedSet(ctx, node)
	if set == nil {
		return false, err
	}
	updated, err := r.updatedReplicas(ctx, set)
	if err != nil || updated < *set.Spec.Replicas {
		return false, err
	}
	node.Status.CurrentImage = node.Spec.Image // as in the original, also if what follows fails
	if r.variant.promotes && set.Status.CurrentRevision != set.Status.UpdateRevision {
		if err := r.promote(ctx, set); err != nil {
			return false, err
		}
	}
	return true, nil
}

// updatedReplicas counts the pods at the set's update revision, or has the set's controller count them.
func (r *reconciler) updatedReplicas(ctx context.Context, set *appsv1.StatefulSet) (int32, error) {
	if !r.variant.byPods {
		return set.Status.UpdatedReplicas, nil
	}
	pods, err := ownedPods(ctx, r.live, set)
	if err != nil {
		return 0, err
	}
	var updated int32
	for _, pod := range pods {
		if revisionOf(&pod) == set.Status.UpdateRevision && pod.DeletionTimestamp == nil {
			updated++
		}
	}
	return updated, nil
}

// promote does in kube-controller-manager's place what that does for rolling updates only: the update revision becomes the current
// one.
func (r *reconciler) promote(ctx context.Context, set *appsv1.StatefulSet) error {
	before := set.DeepCopy()
	set.Status.CurrentRevision = set.Status.UpdateRevision
	set.Status.CurrentReplicas = set.Status.UpdatedReplicas
	if err := r.client.Status().Patch(ctx, set, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("status of StatefulSet %s: %w", set.Name, err)
	}
	return nil
}
