package patterns

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// pinnedRollout is kubernetes's issue 67250: a rollout is taken back because its first pod does not come up. The set is as it
// was, but kube-controller-manager rolls out pods in their order, and waits for each of them, also for the one that cannot
// come up; only its deletion would give way to one that can. An operator that leaves all that to the set waits with it.
//
// A pass is, after the cached GET of the App:
//
//	1  GET set (cached)    POST it if there is none; PUT it, under its resourceVersion, if it is of another image, and be done
//	2  LIST pods (cached)  the correct one only, once the status is about the set as it is
//	   GET set             if there are pods to delete: they are not, while the cache is behind
//	   DELETE pods         under their UIDs: those of another revision than the latest that are not ready
//	3  PUT App/status
//
// What is wrong with the pod is an image that runs but is never ready; in the issue it cannot even be pulled. The deletion is what
// the documentation of StatefulSets asks for by the name of forced rollback.
var pinnedRollout = pattern{
	number:     14,
	name:       "pinned-rollout",
	controller: podsController,
	buggy: variant{
		doc: "[kubernetes #67250](https://github.com/kubernetes/kubernetes/issues/67250): " +
			"a rollout that is taken back waits for the broken pod that it was taken back for",
		new: newReleased(false),
	},
	correct: variant{
		doc: "a pod that cannot come up, and is not to any more, is deleted",
		new: newReleased(true),
	},
	breaks: []string{"app-comes-back"},
	budget: 100,
}

// podsController has an App's set wake it up, and the set's pods, which it does not own itself: it knows them by their label.
func podsController(m ctrl.Manager) *ctrl.Builder {
	toApp := func(_ context.Context, pod client.Object) []reconcile.Request {
		app, ok := pod.GetLabels()[labelApp]
		if !ok {
			return nil
		}
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: pod.GetNamespace(), Name: app}}}
	}
	return ctrl.NewControllerManagedBy(m).For(&App{}).Owns(&appsv1.StatefulSet{}).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(toApp))
}

// released keeps a set of the app's image.
type released struct {
	clients
	unpins bool // what waits for a pod that cannot come up
}

func newReleased(unpins bool) func(ctrl.Manager) reconcile.ObjectReconciler[*App] {
	return func(m ctrl.Manager) reconcile.ObjectReconciler[*App] {
		return &released{clients: clientsOf(m), unpins: unpins}
	}
}

// Reconcile makes one pass.
func (r *released) Reconcile(ctx context.Context, app *App) (reconcile.Result, error) {
	set := &appsv1.StatefulSet{}
	err := r.Get(ctx, client.ObjectKeyFromObject(app), set)
	if apierrors.IsNotFound(err) {
		if set, err = statefulSet(app); err != nil {
			return reconcile.Result{}, reconcile.TerminalError(err)
		}
		return reconcile.Result{}, r.create(ctx, app, set)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	if container := &set.Spec.Template.Spec.Containers[0]; container.Image != app.Spec.Image {
		container.Image = app.Spec.Image
		return reconcile.Result{}, r.Update(ctx, set)
	}
	if r.unpins && set.Status.ObservedGeneration == set.Generation {
		if err := r.unpin(ctx, app, set); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{}, r.report(ctx, app, phase(rolledOut(set)))
}

// unpin deletes the pods that the rollout of a set would wait for in vain: one that would have come up loses nothing by it, as the
// rollout deletes it, too. As long as a cache shows the set as it was, it would delete them over and over, while
// kube-controller-manager makes them for the set as it is; so it reads that from the server. The event that the cache is behind
// with brings the next pass.
func (r *released) unpin(ctx context.Context, app *App, cached *appsv1.StatefulSet) error {
	var pods corev1.PodList
	if err := r.List(ctx, &pods, client.InNamespace(app.Namespace), client.MatchingLabels(labelsOf(app))); err != nil {
		return err
	}
	pinned := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool {
		return podReady(&pod) || terminating(&pod) || pod.Labels[appsv1.ControllerRevisionHashLabelKey] == cached.Status.UpdateRevision
	})
	if len(pinned) == 0 {
		return nil
	}
	set := &appsv1.StatefulSet{}
	if err := r.live.Get(ctx, client.ObjectKeyFromObject(cached), set); err != nil || set.Generation != cached.Generation {
		return client.IgnoreNotFound(err)
	}
	for i := range pinned {
		pod := &pinned[i]
		if err := r.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}
