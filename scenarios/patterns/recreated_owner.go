package patterns

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// recreatedOwner is issue 648 of RabbitMQ's cluster operator, and issue 118 of cass-operator, where data went: a custom resource
// is deleted and made again under the same name. An instance of the operator that still sees the first one, which is being
// deleted, goes on with its deletion, and finds by their names and labels what belongs to the second one.
//
// A pass is, after the cached GET of the App:
//
//	1  it is not being deleted: PUT App with a finalizer, if it has none; GET set (cached), POST set, the correct one after a
//	                            live GET of the App; PUT App/status
//	2  else GET App (live)      the correct one only: it ends here if the cache is behind
//	3  DELETE set               by its name; by UID: GET it first (cached), and delete it, with its UID as a precondition, if this
//	                            App controls it by the UID
//	4  LIST claims (cached)     by the app's name in a label; by UID: by the App's UID besides
//	5  DELETE claims            by UID: with their UIDs as preconditions
//	6  PUT App                  without the finalizer, under its resourceVersion
//
// To go by UIDs is what RabbitMQ's operator does since then, and cassandra-operator (issue 402) with claims. It is not enough:
// kube-controller-manager may see the set of the first app a little longer than it is there, and make its claim once more. The
// set of the second app takes that claim over as it is, with the UID of the first in its label:
// testdata/schedules/recreated-owner-by-uid.yaml. As long as the finalizer is on the first app there is no second, and so the
// correct one asks the server besides.
var recreatedOwner = pattern{
	number:  6,
	name:    "recreated-owner",
	owns:    []client.Object{&appsv1.StatefulSet{}},
	elected: true,
	buggy: variant{
		doc: "[RabbitMQ #648](https://github.com/rabbitmq/cluster-operator/issues/648): " +
			"the deletion of an app goes on, after it was made again, with the children of its successor",
		new: newKeeper(keeper{}),
	},
	partial: map[string]variant{"by-uid": {
		doc: "children are known by the UID of their owner, and deleted by their own; but claims can be inherited",
		new: newKeeper(keeper{byUID: true}),
	}},
	correct: variant{
		doc: "children are known by UIDs, and an app is asked for again before anything of it is created or deleted",
		new: newKeeper(keeper{byUID: true, asksAgain: true}),
	},
	breaks: []string{"living-app-keeps-its-own"},
	budget: 200,
}

const (
	// labelOwner is on claims, with the UID of their app.
	labelOwner = "patterns.example.com/app-uid"
	// finalizer keeps an app until the operator has deleted its children.
	finalizer = "patterns.example.com/children"
)

// keeper keeps a set for each app, and deletes it with its claims.
type keeper struct {
	clients
	byUID     bool // knows children by UIDs
	asksAgain bool // before it creates or deletes anything
}

func newKeeper(k keeper) func(ctrl.Manager) reconcile.ObjectReconciler[*App] {
	return func(m ctrl.Manager) reconcile.ObjectReconciler[*App] {
		made := k
		made.clients = clientsOf(m)
		return &made
	}
}

// Reconcile makes one pass.
func (r *keeper) Reconcile(ctx context.Context, app *App) (reconcile.Result, error) {
	if terminating(app) {
		return reconcile.Result{}, r.tearDown(ctx, app)
	}
	if controllerutil.AddFinalizer(app, finalizer) {
		if err := r.Update(ctx, app); err != nil {
			return reconcile.Result{}, err
		}
	}
	set := &appsv1.StatefulSet{}
	err := r.Get(ctx, client.ObjectKeyFromObject(app), set)
	if apierrors.IsNotFound(err) {
		set, err = r.createSet(ctx, app)
	}
	if err != nil || set == nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, r.report(ctx, app, phase(setReady(set)))
}

// createSet creates the set of an app, or nothing if the app may be gone: its set would be garbage, collected and created again
// without a pause for as long as the cache is behind.
func (r *keeper) createSet(ctx context.Context, app *App) (*appsv1.StatefulSet, error) {
	if may, err := r.mayAct(ctx, app); err != nil || !may {
		return nil, err
	}
	set, err := statefulSet(app)
	if err != nil {
		return nil, reconcile.TerminalError(err)
	}
	metav1.SetMetaDataLabel(&set.Spec.VolumeClaimTemplates[0].ObjectMeta, labelOwner, string(app.UID))
	return set, r.create(ctx, app, set)
}

// mayAct reports whether an app is as the cache shows it, as far as the operator cares to ask.
func (r *keeper) mayAct(ctx context.Context, app *App) (bool, error) {
	if !r.asksAgain {
		return true, nil
	}
	return r.upToDate(ctx, app)
}

// tearDown deletes the children of an app, and lets it go.
func (r *keeper) tearDown(ctx context.Context, app *App) error {
	if !controllerutil.ContainsFinalizer(app, finalizer) {
		return nil
	}
	if may, err := r.mayAct(ctx, app); err != nil || !may {
		return err
	}
	if err := r.deleteSet(ctx, app); err != nil {
		return err
	}
	labels := client.MatchingLabels(labelsOf(app))
	if r.byUID {
		labels[labelOwner] = string(app.UID)
	}
	var claims corev1.PersistentVolumeClaimList
	if err := r.List(ctx, &claims, client.InNamespace(app.Namespace), labels); err != nil {
		return err
	}
	for i := range claims.Items {
		if err := r.remove(ctx, &claims.Items[i]); err != nil {
			return err
		}
	}
	controllerutil.RemoveFinalizer(app, finalizer)
	return r.Update(ctx, app)
}

func (r *keeper) deleteSet(ctx context.Context, app *App) error {
	set := &appsv1.StatefulSet{ObjectMeta: meta(app, app.Name)}
	if !r.byUID {
		return r.remove(ctx, set)
	}
	err := r.Get(ctx, client.ObjectKeyFromObject(app), set)
	if err != nil || !metav1.IsControlledBy(set, app) {
		return client.IgnoreNotFound(err)
	}
	return r.remove(ctx, set)
}

// remove deletes a child. One that is gone already will do.
func (r *keeper) remove(ctx context.Context, child client.Object) error {
	var options []client.DeleteOption
	if uid := child.GetUID(); r.byUID {
		options = append(options, client.Preconditions{UID: &uid})
	}
	return client.IgnoreNotFound(r.Delete(ctx, child, options...))
}
