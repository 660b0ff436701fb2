package patterns

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// blockedRepair is Strimzi's issue 9654: a pod is annotated to be restarted, and another one of the app is lost. To restart the
// first would break the quorum, so that step fails, and with it the pass; the step which makes the second anew comes after it,
// in this pass and in all that follow. Neither of the two can go on before the other has.
//
// A pass is, after the cached GET of the App:
//
//	1  GET pods (cached)  each by its name
//	2  DELETE pod         one that is annotated, under its UID, if all others are there and ready; else an error, with which the
//	                      buggy pass ends, while the correct one goes on and returns it in the end
//	3  POST pods          those that are missing
//	4  PUT App/status
//
// In the original it is the claim of the lost pod that the later step makes, without which the pod stays Pending; here it is the
// pod. Its fix is the feature ContinueReconciliationOnManualRollingUpdateFailure.
var blockedRepair = pattern{
	number: 14,
	name:   "blocked-repair",
	owns:   []client.Object{&corev1.Pod{}},
	buggy: variant{
		doc: "[Strimzi #9654](https://github.com/strimzi/strimzi-kafka-operator/issues/9654): " +
			"a restart that must wait for a lost pod keeps the operator from making that pod anew",
		new: newQuorum(false),
	},
	correct: variant{
		doc: "a restart that fails does not end the pass",
		new: newQuorum(true),
	},
	breaks: []string{"all-pods-come-back"},
	budget: 100,
}

// annotationRestart is on pods that a user wants to be restarted.
const annotationRestart = "patterns.example.com/restart"

// quorum keeps the pods of an app, and restarts them one at a time.
type quorum struct {
	clients
	goesOn bool // after a restart that failed
}

func newQuorum(goesOn bool) func(ctrl.Manager) reconcile.ObjectReconciler[*App] {
	return func(m ctrl.Manager) reconcile.ObjectReconciler[*App] {
		return &quorum{clients: clientsOf(m), goesOn: goesOn}
	}
}

// Reconcile makes one pass.
func (r *quorum) Reconcile(ctx context.Context, app *App) (reconcile.Result, error) {
	var pods []*corev1.Pod // those that are missing have no UID
	for i := range app.Spec.Replicas {
		pod := &corev1.Pod{ObjectMeta: meta(app, fmt.Sprintf("%s-%d", app.Name, i)), Spec: podSpec(app)}
		if err := r.Get(ctx, client.ObjectKeyFromObject(pod), pod); client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, err
		}
		pods = append(pods, pod)
	}
	failed := r.restart(ctx, pods)
	if failed != nil && !r.goesOn {
		return reconcile.Result{}, failed
	}
	ready := true
	for _, pod := range pods {
		if pod.UID == "" {
			if err := r.create(ctx, app, pod); err != nil {
				return reconcile.Result{}, err
			}
		}
		ready = ready && serves(pod)
	}
	if err := r.report(ctx, app, phase(ready)); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, failed
}

// restart deletes a pod that is to be restarted.
func (r *quorum) restart(ctx context.Context, pods []*corev1.Pod) error {
	for _, pod := range pods {
		if pod.Annotations[annotationRestart] == "" || terminating(pod) {
			continue
		}
		for _, other := range pods {
			if other != pod && !serves(other) {
				return fmt.Errorf("pod %s: cannot be restarted while %s does not serve", pod.Name, other.Name)
			}
		}
		return client.IgnoreNotFound(r.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}))
	}
	return nil
}

// serves reports whether a pod counts for the quorum.
func serves(pod *corev1.Pod) bool { return podReady(pod) && !terminating(pod) }
