package fuzz

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/client"
)

const (
	// canaryReconciler is the reconciler of the built-in canary, and canaryBreaks the property that it breaks.
	canaryReconciler = "canary/lost-update"
	canaryBreaks     = "no-lost-update"
)

// lostUpdate is a reconciler with a planted bug: it writes back the whole of what it has read, without saying which revision that was.
func lostUpdate() scenarios.Reconciler {
	return scenarios.Reconciler{Doc: "overwrites what others have written", Program: func(o scenarios.ProgramOptions) sim.Program {
		return client.Reconcilers(o.Scheme, client.Reconciler{
			For: &corev1.ConfigMap{},
			New: func(d sim.Deps) (reconcile.Reconciler, error) {
				return reconcile.AsReconciler(d.Client, reconcile.ObjectReconciler[*corev1.ConfigMap](&overwriter{d.Client})), nil
			},
		})
	}}
}

// overwriter is the reconciler of the built-in canary.
type overwriter struct{ client ctrlclient.Client }

// Reconcile makes one pass.
func (o *overwriter) Reconcile(ctx context.Context, shared *corev1.ConfigMap) (ctrl.Result, error) {
	if shared.Data["asked"] != "yes" || shared.Data["seen"] == "yes" {
		return ctrl.Result{}, nil
	}
	shared.Data["seen"] = "yes"
	shared.ResourceVersion = "" // the planted bug: any revision will do
	return ctrl.Result{}, o.client.Update(ctx, shared)
}
