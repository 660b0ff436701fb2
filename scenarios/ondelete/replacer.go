package ondelete

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// replaceAnnotation, set to "true" on an OnDelete set, asks the replacer to replace its pods.
const replaceAnnotation = "ondelete.stalemate.dev/replace-pods"

// replacer deletes the pods of a set that are not at its update revision, the highest ordinal first, and each only when all pods
// are there and ready: what a person does by hand.
type replacer struct {
	client client.Client
	log    logr.Logger
}

// Reconcile deletes at most one pod. It waits for nothing: whatever it misses is an event of the set or of one of its pods.
func (r *replacer) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	set := &appsv1.StatefulSet{}
	if err := r.client.Get(ctx, req.NamespacedName, set); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if set.Spec.UpdateStrategy.Type != appsv1.OnDeleteStatefulSetStrategyType || set.Annotations[replaceAnnotation] != "true" {
		return reconcile.Result{}, nil
	}
	if !observed(set) {
		return reconcile.Result{}, nil
	}
	pods, err := ownedPods(ctx, r.client, set)
	if err != nil {
		return reconcile.Result{}, err
	}
	if len(pods) < int(*set.Spec.Replicas) || slices.ContainsFunc(pods, unfit) {
		return reconcile.Result{}, nil
	}
	for _, pod := range slices.Backward(pods) {
		if revisionOf(&pod) != set.Status.UpdateRevision {
			r.log.Info("replacing a pod", "pod", pod.Name)
			return reconcile.Result{}, deletePod(ctx, r.client, &pod, client.Preconditions{UID: &pod.UID})
		}
	}
	return reconcile.Result{}, nil
}

// observed reports whether the set's controller has seen the set's present spec, so that updateRevision is that of its template.
func observed(set *appsv1.StatefulSet) bool {
	return set.Status.ObservedGeneration >= set.Generation && set.Status.UpdateRevision != ""
}

func revisionOf(pod *corev1.Pod) string { return pod.Labels[appsv1.ControllerRevisionHashLabelKey] }

// unfit reports whether a pod is on its way out, or not ready.
func unfit(pod corev1.Pod) bool {
	return pod.DeletionTimestamp != nil || !slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// ownedPods lists the pods that the set's selector matches and that the set controls, in the order of their names.
func ownedPods(ctx context.Context, reader client.Reader, set *appsv1.StatefulSet) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := reader.List(ctx, pods, client.InNamespace(set.Namespace), client.MatchingLabels(set.Spec.Selector.MatchLabels))
	if err != nil {
		return nil, fmt.Errorf("pods of StatefulSet %s: %w", set.Name, err)
	}
	owned := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return !metav1.IsControlledBy(&pod, set) })
	slices.SortFunc(owned, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	return owned, nil
}

// deletePod deletes a pod; one that is gone already will do.
func deletePod(ctx context.Context, writer client.Writer, pod *corev1.Pod, options ...client.DeleteOption) error {
	if err := writer.Delete(ctx, pod, options...); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting pod %s: %w", pod.Name, err)
	}
	return nil
}
