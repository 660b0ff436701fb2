package patterns

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/scenarios/track"
)

// staleList is KubeRay's issues 704 and 715: the number of pods to make is the difference between what is asked for and what a
// list from the cache shows. The cache may not show yet what the last pass has made, and as the names are generated the server
// has nothing to object to: more pods are made than were asked for, and some of them are deleted again.
//
// A pass is, after the cached GET of the App:
//
//	1  LIST pods (cached)  the correct one ends here while it does not show every pod that it has made
//	2  POST pods           with a generated name, as many as are missing; or DELETE pods, the last ones, as many as there are too many
//	3  PUT App/status
//
// The correct one keeps in its memory what it has made, as KubeRay does by now (controllers/ray/expectations), and the
// ReplicaSet controller. That is enough, since the first list after a restart shows all that was made before; but not where a
// POST is carried out and its client sees an error: stale-list-lost.yaml. Names that follow from what is asked for would be.
var staleList = pattern{
	number: 4,
	name:   "stale-list",
	owns:   []client.Object{&corev1.Pod{}},
	buggy: variant{
		doc: "[KubeRay #715](https://github.com/ray-project/kuberay/issues/715): " +
			"pods are counted in a cache that does not show yet what the last pass has made",
		new: newWorkers(true),
	},
	correct: variant{
		doc: "a pass waits until the cache shows all that was made before",
		new: newWorkers(false),
	},
	breaks: []string{"no-more-than-asked-for"},
	budget: 50,
	beyond: []track.Row{{
		Bug:     "KubeRay's expectations know nothing of a pod that was made while the client saw an error",
		Pattern: 4, Scenario: "stale-list-lost.yaml", Controller: operator, Reconciler: "patterns/stale-list-correct",
		Breaks: []string{"no-more-than-asked-for"}, Budget: 50,
	}},
}

// workers keeps as many pods as an app asks for.
type workers struct {
	clients
	// forget makes it forget at once what it has made.
	forget bool
	// made are the names of pods it has made that no list has shown yet.
	made map[types.NamespacedName][]string
}

func newWorkers(forget bool) func(ctrl.Manager) reconcile.ObjectReconciler[*App] {
	return func(m ctrl.Manager) reconcile.ObjectReconciler[*App] {
		return &workers{clients: clientsOf(m), forget: forget, made: map[types.NamespacedName][]string{}}
	}
}

// Reconcile makes one pass.
func (r *workers) Reconcile(ctx context.Context, app *App) (reconcile.Result, error) {
	var list corev1.PodList
	if err := r.List(ctx, &list, client.InNamespace(app.Namespace), client.MatchingLabels(labelsOf(app))); err != nil {
		return reconcile.Result{}, err
	}
	if shown, err := r.showsAllMade(ctx, app, list.Items); err != nil || !shown {
		return reconcile.Result{}, err // a pod that comes to be shown is an event
	}
	pods := slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return terminating(&pod) })
	want := int(app.Spec.Replicas)
	for range want - len(pods) {
		if err := r.add(ctx, app); err != nil {
			return reconcile.Result{}, err
		}
	}
	for i := want; i < len(pods); i++ {
		if err := r.Delete(ctx, &pods[i]); client.IgnoreNotFound(err) != nil {
			return reconcile.Result{}, err
		}
	}
	ready := len(pods) == want && !slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return !podReady(&pod) })
	return reconcile.Result{}, r.report(ctx, app, phase(ready))
}

func (r *workers) add(ctx context.Context, app *App) error {
	pod := &corev1.Pod{ObjectMeta: meta(app, ""), Spec: podSpec(app)}
	pod.GenerateName = app.Name + "-"
	if err := r.create(ctx, app, pod); err != nil {
		return err
	}
	if !r.forget {
		key := client.ObjectKeyFromObject(app)
		r.made[key] = append(r.made[key], pod.Name)
	}
	return nil
}

// showsAllMade reports whether a list shows all pods that were made, but for those that have gone since.
func (r *workers) showsAllMade(ctx context.Context, app *App, pods []corev1.Pod) (bool, error) {
	key := client.ObjectKeyFromObject(app)
	for _, name := range r.made[key] {
		if slices.ContainsFunc(pods, func(pod corev1.Pod) bool { return pod.Name == name }) {
			continue
		}
		err := r.live.Get(ctx, types.NamespacedName{Namespace: app.Namespace, Name: name}, &corev1.Pod{})
		if !apierrors.IsNotFound(err) {
			return false, err
		}
	}
	delete(r.made, key)
	return true, nil
}
