package patterns

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// pinnedRollout is kubernetes's issue 67250: a rollout is taken back because its first pod does not come up. The set is as it
// was, but kube-controller-manager rolls out pods in their order, and waits for each of them, also for the one that cannot
// come up; only its deletion would give way to one that can. An operator that leaves all that to the set waits with it.
//
// A pass is, after the cached GET of the App:
//
//	1  GET set (cached)    POST it if there is none; PUT it, under its resourceVersion, if it is for another queue, and be done
//	2  LIST pods (cached)  the correct one only, once the status is about the set as it is
//	   DELETE pods         under their UIDs: those of another revision than the latest that still wait at a gate
//	3  PUT App/status
//
// What is wrong with the pod is that it is in a queue, behind a scheduling gate that nobody lifts, as Kueue does where there is
// quota; in the issue it is an image that cannot be pulled. The deletion is what the documentation of StatefulSets asks for by
// the name of forced rollback.
var pinnedRollout = pattern{
	number: 14,
	name:   "pinned-rollout",
	owns:   []client.Object{&appsv1.StatefulSet{}, &corev1.Pod{}},
	buggy: variant{
		doc: "[kubernetes #67250](https://github.com/kubernetes/kubernetes/issues/67250): " +
			"a rollout that is taken back waits for the broken pod that it was taken back for",
		new: newQueued(false),
	},
	correct: variant{
		doc: "a pod that cannot come up, and is not to any more, is deleted",
		new: newQueued(true),
	},
	breaks: []string{"app-comes-back"},
	budget: 100,
}

// gatePrefix and the name of a queue are the name of a scheduling gate.
const gatePrefix = "patterns.example.com/"

// queued keeps a set, the pods of which are in a queue.
type queued struct {
	clients
	unpins bool // what waits for a pod that cannot come up
}

func newQueued(unpins bool) func(ctrl.Manager) reconcile.ObjectReconciler[*App] {
	return func(m ctrl.Manager) reconcile.ObjectReconciler[*App] {
		return &queued{clients: clientsOf(m), unpins: unpins}
	}
}

// Reconcile makes one pass.
func (r *queued) Reconcile(ctx context.Context, app *App) (reconcile.Result, error) {
	var gates []corev1.PodSchedulingGate
	if queue := app.Spec.Queue; queue != "" {
		gates = append(gates, corev1.PodSchedulingGate{Name: gatePrefix + queue})
	}
	set := &appsv1.StatefulSet{}
	err := r.Get(ctx, client.ObjectKeyFromObject(app), set)
	if apierrors.IsNotFound(err) {
		if set, err = statefulSet(app); err != nil {
			return reconcile.Result{}, reconcile.TerminalError(err)
		}
		set.Spec.Template.Spec.SchedulingGates = gates
		return reconcile.Result{}, r.create(ctx, app, set)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if !slices.Equal(set.Spec.Template.Spec.SchedulingGates, gates) {
		set.Spec.Template.Spec.SchedulingGates = gates
		return reconcile.Result{}, r.Update(ctx, set)
	}
	if r.unpins && set.Status.ObservedGeneration == set.Generation {
		if err := r.unpin(ctx, app, set.Status.UpdateRevision); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{}, r.report(ctx, app, phase(rolledOut(set)))
}

// unpin deletes the pods that a rollout of a revision would wait for in vain.
func (r *queued) unpin(ctx context.Context, app *App, revision string) error {
	var pods corev1.PodList
	if err := r.List(ctx, &pods, client.InNamespace(app.Namespace), client.MatchingLabels(labelsOf(app))); err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		gated := len(pod.Spec.SchedulingGates) > 0
		if !gated || terminating(pod) || pod.Labels[appsv1.ControllerRevisionHashLabelKey] == revision {
			continue
		}
		if err := r.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}
