package clickhouse

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
	simclient "github.com/stalemate-dev/stalemate/sim/client"
)

// variant is what differs between the versions of the operator: three decisions on the recreate path.
type variant struct {
	name string
	doc  string

	// deleteSet removes the host's StatefulSet and waits until it is gone.
	deleteSet func(*hostPass, context.Context) error
	// deleteErrorEndsRecreate makes recreate return the error of deleteSet. Otherwise it is dropped, and claims and set
	// are created over whatever is left (bug 1: `_ = doDelete`).
	deleteErrorEndsRecreate bool
	// createErrorEndsPass makes create return ErrCRUDRecreate, so that the CHI ends Aborted, with an event. Otherwise
	// create logs "Got recreate action. Ignore and continue for now" and succeeds (bug 3).
	createErrorEndsPass bool
}

// variants are the versions that can be chosen in a scenario, oldest first.
var variants = []variant{
	{
		name:      "clickhouse/buggy",
		doc:       "clickhouse-operator 0.27.0: a failed scale to 0 skips the delete, and the CHI still ends Completed (#1990)",
		deleteSet: (*hostPass).deleteSetOrGiveUp,
	},
	{
		name:      "clickhouse/patch-a",
		doc:       "0.27.0 with patch A: a failed scale to 0 no longer skips the delete",
		deleteSet: (*hostPass).deleteSetAnyway,
	},
	{
		name:                    "clickhouse/patch-ab",
		doc:                     "0.27.0 with patches A and B (#1993): recreate also returns the error of the delete",
		deleteSet:               (*hostPass).deleteSetAnyway,
		deleteErrorEndsRecreate: true,
	},
	{
		name:                    "clickhouse/v0.27.1",
		doc:                     "clickhouse-operator 0.27.1: patches A and B, and a failed create ends Aborted instead of Completed",
		deleteSet:               (*hostPass).deleteSetAnyway,
		deleteErrorEndsRecreate: true,
		createErrorEndsPass:     true,
	},
}

// Register adds the variants to a registry.
func Register(r *scenarios.Registry) {
	for _, v := range variants {
		v.register(r)
	}
}

func (v variant) register(r *scenarios.Registry) {
	r.Add(v.name, scenarios.Reconciler{
		Doc:         v.doc,
		AddToScheme: AddToScheme,
		Program: func(o scenarios.ProgramOptions) sim.Program {
			return simclient.Reconcilers(o.Scheme, v.controller(o.LiveReads(true)))
		},
	})
}

// controller plugs the variant in under the queue rules of the original: only events of CHIs count, and of these the ADD
// (at start, too), the DELETE, and updates that changed the generation.
func (v variant) controller(liveReads bool) simclient.Reconciler {
	return simclient.Reconciler{
		For:           &ClickHouseInstallation{},
		ForPredicates: []predicate.Predicate{predicate.GenerationChangedPredicate{}},
		LiveReads:     liveReads,
		New: func(deps sim.Deps) (reconcile.Reconciler, error) {
			return newReconciler(v, deps), nil
		},
	}
}
