package seinode

import (
	"context"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
	simclient "github.com/stalemate-dev/stalemate/sim/client"
)

// variant is what differs between the versions of the operator: how the set is brought up to date.
type variant struct {
	name string
	doc  string

	// sync brings the set up to date and returns it as the server has it; nil if there was an impostor, and the set is to be
	// created by a later call.
	sync func(*pass, context.Context) (*appsv1.StatefulSet, error)
	// forgetsImpostor makes sync take the UID of the set that was lost out of the status, together with the impostor: whatever
	// set comes next is the operator's own.
	forgetsImpostor bool
}

// variants are the versions that can be chosen in a scenario, oldest first.
var variants = []variant{
	{
		name: "seinode/v345-first",
		doc:  "sei-k8s-controller #345, first commit: a set is updated whenever it is not as rendered, which it never is",
		sync: (*pass).syncTyped,
	},
	{
		name: "seinode/v345",
		doc:  "sei-k8s-controller #345: sets are applied, but one that a task creates after an impostor is taken for an impostor",
		sync: (*pass).syncApplied,
	},
	{
		name:            "seinode/v348",
		doc:             "sei-k8s-controller #348: whatever is found after an impostor is the operator's own set",
		sync:            (*pass).syncApplied,
		forgetsImpostor: true,
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
			return simclient.Reconcilers(o.Scheme, v.controller(o.LiveReads(false)))
		},
	})
}

// controller plugs the variant in: changes of a node's spec wake it, and anything that happens to what it owns.
func (v variant) controller(liveReads bool) simclient.Reconciler {
	return simclient.Reconciler{
		For:           &SeiNode{},
		ForPredicates: []predicate.Predicate{predicate.GenerationChangedPredicate{}},
		Owns:          []client.Object{&appsv1.StatefulSet{}, &corev1.Service{}},
		LiveReads:     liveReads,
		New: func(deps sim.Deps) (reconcile.Reconciler, error) {
			return newReconciler(v, deps), nil
		},
	}
}
