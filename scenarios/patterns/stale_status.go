package patterns

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// staleStatus is m3db-operator's issue 268, StarRocks' pull request 801 and scylla-operator's 1624: an app has two racks, a set
// for each, which are to be rolled one after the other so that one of them always serves. An operator that has just written the
// first set reads it back before kube-controller-manager has looked at it. The status still tells how the previous spec was
// rolled out, all is well by it, and the second rack is taken down together with the first.
//
// A pass is, after the cached GET of the App:
//
//	1  GET sets (cached)  POST the first that is missing, and be done
//	2  one of them is not rolled out: PUT App/status, and wait for the event; the buggy one goes by the counts and revisions of
//	   the status, the correct one asks first whether observedGeneration is the generation
//	3  PUT set            the first that has another image, under its resourceVersion, and be done
//	4  PUT App/status
//
// The originals have as many racks as there are failure domains; two will do.
var staleStatus = pattern{
	number:     8,
	name:       "stale-status",
	controller: rackController,
	buggy: variant{
		doc: "[m3db-operator #268](https://github.com/m3db/m3db-operator/issues/268): " +
			"the status of a set that was just written is about its previous spec, and the next one is rolled as well",
		new: newRacks(statusRolledOut),
	},
	correct: variant{
		doc: "a status counts once `observedGeneration` is the generation",
		new: newRacks(rolledOut),
	},
	breaks: []string{"one-rack-serves"},
	budget: 50,
}

// racks keeps a set for each rack of an app, and rolls them one after the other.
type racks struct {
	clients
	// rolledOut reports whether a set has done all that its spec says.
	rolledOut func(*appsv1.StatefulSet) bool
}

func newRacks(rolledOut func(*appsv1.StatefulSet) bool) func(ctrl.Manager) reconcile.ObjectReconciler[*App] {
	return func(m ctrl.Manager) reconcile.ObjectReconciler[*App] {
		return &racks{clients: clientsOf(m), rolledOut: rolledOut}
	}
}

// labelRack is on the pods of a set, with the name of its rack.
const labelRack = "patterns.example.com/rack"

// rackController wakes the reconciler up as m3db's informers do, where a set's event has to wait for the queue's rate limit.
// That is 5 ms, in which kube-controller-manager mostly has seen the set.
func rackController(m ctrl.Manager) *ctrl.Builder {
	enqueue := func(set client.Object, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		key := client.ObjectKey{Namespace: set.GetNamespace(), Name: set.GetLabels()[labelApp]}
		q.AddRateLimited(reconcile.Request{NamespacedName: key})
	}
	return ctrl.NewControllerManagedBy(m).For(&App{}).Watches(&appsv1.StatefulSet{}, handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			enqueue(e.Object, q)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			enqueue(e.ObjectNew, q)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			enqueue(e.Object, q)
		},
	})
}

// Reconcile makes one pass.
func (r *racks) Reconcile(ctx context.Context, app *App) (reconcile.Result, error) {
	var sets []*appsv1.StatefulSet
	for _, rack := range []string{"a", "b"} {
		set := &appsv1.StatefulSet{}
		err := r.Get(ctx, client.ObjectKey{Namespace: app.Namespace, Name: app.Name + "-" + rack}, set)
		if apierrors.IsNotFound(err) {
			return reconcile.Result{}, r.createRack(ctx, app, rack)
		}
		if err != nil {
			return reconcile.Result{}, err
		}
		sets = append(sets, set)
	}
	for _, set := range sets {
		if !r.rolledOut(set) {
			return reconcile.Result{}, r.report(ctx, app, PhaseProgressing)
		}
	}
	for _, set := range sets {
		if image := &set.Spec.Template.Spec.Containers[0].Image; *image != app.Spec.Image {
			*image = app.Spec.Image
			return reconcile.Result{}, r.Update(ctx, set)
		}
	}
	return reconcile.Result{}, r.report(ctx, app, PhaseReady)
}

func (r *racks) createRack(ctx context.Context, app *App, rack string) error {
	set, err := statefulSet(app)
	if err != nil {
		return reconcile.TerminalError(err)
	}
	set.Name += "-" + rack
	set.Spec.Template.Labels[labelRack] = rack
	set.Spec.Selector.MatchLabels = set.Spec.Template.Labels
	return r.create(ctx, app, set)
}
