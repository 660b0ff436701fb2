package patterns

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// swallowedCancel is kustomize-controller's issue 1624, and in the way it ends issue 1962 of the VictoriaMetrics operator: a
// pass that waits for a rollout is cancelled when there is something newer to roll out. That is no error, and it returns none:
// the event of what is newer has the next pass begin. But that event has passed already, and was dropped, because by the
// cached status of the App it was about what runs anyway. Nothing wakes the operator up again, not even the interval at which
// it looks otherwise.
//
// An App takes its image from a ConfigMap, its source, as a Kustomization takes its revision from a GitRepository. An event of
// the source is dropped if the cached App is Ready with just that image; of the App itself only a new generation counts. A
// pass is, after the cached GET of the App:
//
//	1  GET source (cached)
//	2  GET set (cached)    POST it if there is none; PUT with the source's image, under its resourceVersion
//	3  PUT App/status      Progressing, with that image, if step 2 wrote or the status has another one
//	4  GET set, source     (cached) every second, until the set is rolled out, or the source has another image: then the pass is
//	                       cancelled, and the buggy one returns neither an error nor a time; the correct one comes back at once
//	5  PUT App/status      Ready; the next pass is five minutes later, or earlier
//
// It takes a rollback for a change to be about what runs anyway. The original builds and applies manifests instead of step 2,
// and makes requests for the old source as well as for the new one; that its predicate drops the event is what its authors
// suppose (pull request 1625), and nobody has shown.
var swallowedCancel = pattern{
	number:     12,
	name:       "swallowed-cancel",
	controller: sourceController,
	buggy: variant{
		doc: "[kustomize-controller #1624](https://github.com/fluxcd/kustomize-controller/issues/1624): " +
			"a cancelled pass trusts in an event that was dropped, and is the last one",
		new: newDeployer(reconcile.Result{}),
	},
	correct: variant{
		doc: "a cancelled pass is begun again",
		new: newDeployer(reconcile.Result{RequeueAfter: time.Second}),
	},
	breaks: []string{"source-is-rolled-out"},
	budget: 200,
}

const (
	// rolloutPause is how often a pass looks whether a set is rolled out, rolloutTimeout how long it does so.
	rolloutPause   = time.Second
	rolloutTimeout = 5 * time.Minute
	// interval is when a pass is due that nothing else has begun.
	interval = 5 * time.Minute
)

// errCancelled says that a pass was cancelled because there is something newer to roll out.
var errCancelled = errors.New("cancelled: the source has changed")

// deployer rolls out the image that the source of an app names.
type deployer struct {
	clients
	cancelled reconcile.Result // of a pass that was
}

func newDeployer(cancelled reconcile.Result) func(ctrl.Manager) reconcile.ObjectReconciler[*App] {
	return func(m ctrl.Manager) reconcile.ObjectReconciler[*App] {
		return &deployer{clients: clientsOf(m), cancelled: cancelled}
	}
}

// sourceController wakes the reconciler up for new generations of an app, and for changes of its source.
func sourceController(m ctrl.Manager) *ctrl.Builder {
	appOf := func(source client.Object) client.ObjectKey {
		return client.ObjectKey{Namespace: source.GetNamespace(), Name: source.GetLabels()[labelApp]}
	}
	isNews := func(source client.Object) bool {
		app := &App{}
		if m.GetClient().Get(context.Background(), appOf(source), app) != nil {
			return true
		}
		return app.Status.Phase != PhaseReady || app.Status.Image != source.(*corev1.ConfigMap).Data["image"]
	}
	request := func(_ context.Context, source client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: appOf(source)}}
	}
	return ctrl.NewControllerManagedBy(m).
		For(&App{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(request),
			builder.WithPredicates(predicate.NewPredicateFuncs(isNews)))
}

// Reconcile makes one pass.
func (r *deployer) Reconcile(ctx context.Context, app *App) (reconcile.Result, error) {
	image, err := r.image(ctx, app)
	if err != nil {
		return reconcile.Result{}, err
	}
	changed, err := r.apply(ctx, app, image)
	if err != nil {
		return reconcile.Result{}, err
	}
	if changed || app.Status.Image != image {
		app.Status.Phase, app.Status.Image = PhaseProgressing, image
		if err := r.Status().Update(ctx, app); err != nil {
			return reconcile.Result{}, err
		}
	}
	err = r.waitForRollout(ctx, app, image)
	if errors.Is(err, errCancelled) {
		return r.cancelled, nil
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: interval}, r.report(ctx, app, PhaseReady)
}

// image returns the image that the source of an app names.
func (r *deployer) image(ctx context.Context, app *App) (string, error) {
	source := &corev1.ConfigMap{}
	err := r.Get(ctx, client.ObjectKey{Namespace: app.Namespace, Name: app.Name + "-source"}, source)
	return source.Data["image"], err
}

// apply writes the set of an app, if it does not have the image, and reports whether it did.
func (r *deployer) apply(ctx context.Context, app *App, image string) (bool, error) {
	set := &appsv1.StatefulSet{}
	err := r.Get(ctx, client.ObjectKeyFromObject(app), set)
	if apierrors.IsNotFound(err) {
		if set, err = statefulSet(app); err != nil {
			return false, reconcile.TerminalError(err)
		}
		set.Spec.Template.Spec.Containers[0].Image = image
		return true, r.create(ctx, app, set)
	}
	if err != nil || imageOf(set) == image {
		return false, err
	}
	set.Spec.Template.Spec.Containers[0].Image = image
	return true, r.Update(ctx, set)
}

func imageOf(set *appsv1.StatefulSet) string { return set.Spec.Template.Spec.Containers[0].Image }

// waitForRollout waits until an image runs. It returns errCancelled if it is not the one that is wanted any more.
func (r *deployer) waitForRollout(ctx context.Context, app *App, image string) error {
	for range rolloutTimeout / rolloutPause {
		set := &appsv1.StatefulSet{}
		if err := r.Get(ctx, client.ObjectKeyFromObject(app), set); client.IgnoreNotFound(err) != nil {
			return err
		}
		wanted, err := r.image(ctx, app)
		switch {
		case err != nil:
			return err
		case wanted != image:
			return errCancelled
		case set.UID != "" && imageOf(set) == image && rolledOut(set):
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(rolloutPause):
		}
	}
	return fmt.Errorf("stateful set %s: not rolled out in %s", app.Name, rolloutTimeout)
}
