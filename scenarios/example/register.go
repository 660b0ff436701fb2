package example

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/track"
	"github.com/stalemate-dev/stalemate/sim"
	simclient "github.com/stalemate-dev/stalemate/sim/client"
)

// owned are the kinds of what operators make.
var owned = []client.Object{&corev1.ConfigMap{}}

// Register adds the operators of the tutorial to a registry.
func Register(r *scenarios.Registry) {
	for _, o := range []struct {
		name, doc string
		publish   publisher
		owns      []client.Object // whose events begin a pass, beside those of Pages
	}{
		{"hello", "publishes Pages", hello, owned},
		{"race-buggy", "goes on as if nothing had happened when its write fails", raceBuggy, owned},
		{"race-fixed", "returns the error", raceFixed, owned},
		{"faults-buggy", "makes again what it has made, when it never heard the answer", faultsBuggy, nil},
		{"faults-fixed", "names what it makes, so that to make it again does nothing", faultsFixed, nil},
		{"lag-buggy", "believes its cache that something is not there", lagBuggy, owned},
		{"lag-fixed", "asks the API server", lagFixed, owned},
		{"crash-buggy", "says that it is done before it is", crashBuggy, owned},
		{"crash-fixed", "says it afterwards", crashFixed, owned},
	} {
		r.Add("example/"+o.name, scenarios.Reconciler{
			Doc:         o.doc,
			AddToScheme: AddToScheme,
			Program: func(options scenarios.ProgramOptions) sim.Program {
				return simclient.Manager(options.Scheme, func(m ctrl.Manager) error { return setUp(m, o.publish, o.owns) })
			},
		})
	}
}

// reconciler makes passes as a publisher does.
type reconciler struct {
	manager ctrl.Manager
	publish publisher
}

// Reconcile makes one pass.
func (r *reconciler) Reconcile(ctx context.Context, page *Page) (reconcile.Result, error) {
	return reconcile.Result{}, r.publish(ctx, r.manager.GetClient(), page)
}

// setUp is the SetupWithManager that a scaffold generates.
func setUp(m ctrl.Manager, publish publisher, owns []client.Object) error {
	controller := ctrl.NewControllerManagedBy(m).For(&Page{})
	for _, kind := range owns {
		controller = controller.Owns(kind)
	}
	return controller.Complete(reconcile.AsReconciler(m.GetClient(), &reconciler{m, publish}))
}

// Track returns what is found in the operators of the tutorial.
func Track() []track.Row {
	row := func(scenario, reconciler, bug string, budget int, breaks ...string) track.Row {
		return track.Row{Bug: bug, Scenario: scenario, Controller: "operator", Reconciler: "example/" + reconciler,
			Breaks: breaks, Budget: budget, Brief: true}
	}
	return []track.Row{
		row("1-hello.yaml", "hello", "nothing is wrong with it", 0),
		row("2-race.yaml", "race-buggy", "swallows a conflict", 50, "published-means-published", "SwallowedError"),
		row("2-race.yaml", "race-fixed", "returns it", 0),
		row("3-faults.yaml", "faults-buggy", "archives a text twice", 50, "archived-once"),
		row("3-faults.yaml", "faults-fixed", "names the archive", 0),
		row("4-lag.yaml", "lag-buggy", "leaves its ConfigMap behind", 50, "Orphans"),
		row("4-lag.yaml", "lag-fixed", "deletes it without looking", 0),
		row("5-crash.yaml", "crash-buggy", "dies in between", 50, "becomes-published"),
		row("5-crash.yaml", "crash-fixed", "says it afterwards", 0),
	}
}
