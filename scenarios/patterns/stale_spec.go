package patterns

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// staleSpec is ECK's issue 5274, with the data that is lost in issue 653 of RabbitMQ's cluster operator and issue 407 of
// Instaclustr's cassandra-operator: an app was scaled down and up again. An instance of the operator that still sees the lower
// number scales the set down once more, and the volume of the replica that was asked for goes with its pod.
//
// A pass is, after the cached GET of the App:
//
//	1  GET set (cached)   POST set if there is none; claims are deleted with the pods that a scale-down takes away
//	2  GET App (live)     the correct one only, before it scales down: it ends here if the cache is behind
//	3  PUT set            with the App's replicas, under its resourceVersion
//	4  PUT App/status
//
// Of the two reads in steps 1 and 2 that of the set comes first: whoever scaled up in between has written it, and step 3 is
// refused. The originals delete the claims themselves; here kube-controller-manager does, by the set's retention policy.
var staleSpec = pattern{
	number:  7,
	name:    "stale-spec",
	owns:    []client.Object{&appsv1.StatefulSet{}},
	elected: true,
	buggy: variant{
		doc: "[ECK #5274](https://github.com/elastic/cloud-on-k8s/issues/5274): " +
			"a scale-down that was taken back is done again by an operator that sees an old spec, and takes data with it",
		new: newScaler(false),
	},
	correct: variant{
		doc: "before it takes anything away it reads the spec from the server",
		new: newScaler(true),
	},
	breaks: []string{"wanted-replica-is-kept"},
	budget: 200,
}

// scaler keeps a set with as many replicas as an app asks for.
type scaler struct {
	clients
	asksAgain bool // before it scales down
}

func newScaler(asksAgain bool) func(ctrl.Manager) reconcile.ObjectReconciler[*App] {
	return func(m ctrl.Manager) reconcile.ObjectReconciler[*App] {
		return &scaler{clients: clientsOf(m), asksAgain: asksAgain}
	}
}

// Reconcile makes one pass.
func (r *scaler) Reconcile(ctx context.Context, app *App) (reconcile.Result, error) {
	set := &appsv1.StatefulSet{}
	err := r.Get(ctx, client.ObjectKeyFromObject(app), set)
	switch {
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, r.createSet(ctx, app)
	case err != nil:
		return reconcile.Result{}, err
	case *set.Spec.Replicas == app.Spec.Replicas:
		return reconcile.Result{}, r.report(ctx, app, phase(setReady(set)))
	}
	if r.asksAgain && app.Spec.Replicas < *set.Spec.Replicas {
		if current, err := r.upToDate(ctx, app); err != nil || !current {
			return reconcile.Result{}, err
		}
	}
	set.Spec.Replicas = &app.Spec.Replicas
	return reconcile.Result{}, r.Update(ctx, set)
}

func (r *scaler) createSet(ctx context.Context, app *App) error {
	set, err := statefulSet(app)
	if err != nil {
		return reconcile.TerminalError(err)
	}
	set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
		WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
		WhenScaled:  appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
	}
	return r.create(ctx, app, set)
}
