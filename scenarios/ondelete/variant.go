package ondelete

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
	simclient "github.com/stalemate-dev/stalemate/sim/client"
)

// variant is what differs between the operators that roll out a SeiNode's image.
type variant struct {
	name string
	doc  string

	// byPods makes replace-pod and observe-image ask the pods, live, at which revision they are, and not the set's status. The
	// task replace-pod is then over when no pod at another revision is left.
	byPods bool
	// promotes makes observe-image write currentRevision and currentReplicas into the status of the set (sei #379).
	promotes bool
	// replans makes a new plan when the active one was made for another image than that of the spec: also when that is the
	// image that was rolled out before, as the pods may be anywhere by now.
	replans bool
}

// variants are the operators that can be chosen in a scenario besides the replacer.
var variants = []variant{
	{
		name: "ondelete/sei",
		doc:  "sei-k8s-controller: takes the pods for replaced when currentRevision is updateRevision",
	},
	{
		name:     "ondelete/sei-379",
		doc:      "sei-k8s-controller with pull request 379: patches the status of the StatefulSet when a rollout is over",
		promotes: true,
	},
	{
		name:    "ondelete/pods",
		doc:     "asks the pods at which revision they are, leaves the set's status alone, and plans anew when the image changes",
		byPods:  true,
		replans: true,
	},
}

// Register adds the reconcilers to a registry.
func Register(r *scenarios.Registry) {
	r.Add("ondelete/replacer", scenarios.Reconciler{
		Doc: "replaces the pods of annotated OnDelete sets one at a time, and writes nothing else",
		Program: func(o scenarios.ProgramOptions) sim.Program {
			return simclient.Reconcilers(o.Scheme, simclient.Reconciler{
				For:       &appsv1.StatefulSet{},
				Owns:      []client.Object{&corev1.Pod{}},
				LiveReads: o.LiveReads(true),
				New: func(deps sim.Deps) (reconcile.Reconciler, error) {
					return &replacer{client: deps.Client, log: deps.Log}, nil
				},
			})
		},
	})
	for _, v := range variants {
		r.Add(v.name, scenarios.Reconciler{
			Doc:         v.doc,
			AddToScheme: AddToScheme,
			Program: func(o scenarios.ProgramOptions) sim.Program {
				return simclient.Reconcilers(o.Scheme, v.controller(o.LiveReads(false)))
			},
		})
	}
}

// controller plugs the variant in: changes of a SeiNode's spec wake it, and whatever happens to its set.
func (v variant) controller(liveReads bool) simclient.Reconciler {
	return simclient.Reconciler{
		For:           &SeiNode{},
		ForPredicates: []predicate.Predicate{predicate.GenerationChangedPredicate{}},
		Owns:          []client.Object{&appsv1.StatefulSet{}},
		LiveReads:     liveReads,
		New: func(deps sim.Deps) (reconcile.Reconciler, error) {
			return &reconciler{variant: v, client: deps.Client, live: deps.APIReader, log: deps.Log}, nil
		},
	}
}
