package patterns

import (
	"context"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/track"
	"github.com/stalemate-dev/stalemate/sim"
	simclient "github.com/stalemate-dev/stalemate/sim/client"
)

// pattern is a way in which operators have failed: one scenario, a reconciler that fails in it, and one that does not.
type pattern struct {
	// number is that of the pattern in the catalogue, see docs/patterns.md.
	number int
	// name is that of the scenario's file, and of the reconcilers: "patterns/<name>-buggy" and "patterns/<name>-correct".
	name string
	// owns are the kinds whose events wake the reconcilers up, beside the App's own.
	owns []client.Object
	// controller, if it is set, says what wakes the reconcilers up instead.
	controller func(ctrl.Manager) *ctrl.Builder
	// elected says that the operator has two instances, of which the holder of the Lease works. The second is
	// "patterns/<name>-leader".
	elected bool

	buggy, correct variant
	// partial are further reconcilers, by what follows the name: with a fix that was made upstream, and is not enough.
	partial map[string]variant
	// breaks are the properties that the buggy one breaks, and budget is the number of executions that this takes at most.
	breaks []string
	budget int
	// beyond are rows for what the correct one breaks in scenarios with faults that the pattern's own leaves out.
	beyond []track.Row
}

// variant is a reconciler of a pattern.
type variant struct {
	// doc says in one line what it does wrong, or does about it.
	doc string
	// new makes the reconciler, once per start of the process.
	new func(ctrl.Manager) reconcile.ObjectReconciler[*App]
}

// patterns are all there are, by their numbers.
var patterns = []pattern{
	terminatingClaim,
	staleList,
	duplicateRequest,
	recreatedOwner,
	staleSpec,
	staleStatus,
	swallowedCancel,
	externalCreate,
	blockedRepair,
	pinnedRollout,
}

// Register adds the reconcilers to a registry.
func Register(r *scenarios.Registry) {
	for _, p := range patterns {
		p.register(r, "buggy", p.buggy)
		p.register(r, "correct", p.correct)
		for _, suffix := range slices.Sorted(maps.Keys(p.partial)) {
			p.register(r, suffix, p.partial[suffix])
		}
		if p.elected {
			p.register(r, leaderIdentity, p.correct)
		}
	}
}

func (p *pattern) reconciler(suffix string) string { return "patterns/" + p.name + "-" + suffix }

func (p *pattern) register(r *scenarios.Registry, suffix string, v variant) {
	setUp := func(m ctrl.Manager) error { return p.setUp(m, v) }
	if p.elected {
		setUp = func(m ctrl.Manager) error { return p.setUpElected(m, v, suffix == leaderIdentity) }
	}
	r.Add(p.reconciler(suffix), scenarios.Reconciler{
		Doc:         v.doc,
		AddToScheme: AddToScheme,
		Program: func(o scenarios.ProgramOptions) sim.Program {
			return simclient.Manager(o.Scheme, setUp)
		},
	})
}

// setUp is the SetupWithManager that a scaffold generates.
func (p *pattern) setUp(m ctrl.Manager, v variant) error {
	return p.newController(m).Complete(reconcile.AsReconciler(m.GetClient(), v.new(m)))
}

func (p *pattern) newController(m ctrl.Manager) *ctrl.Builder {
	if p.controller != nil {
		return p.controller(m)
	}
	b := ctrl.NewControllerManagedBy(m).For(&App{})
	for _, kind := range p.owns {
		b = b.Owns(kind)
	}
	return b
}

// Track returns what is found in the patterns: each buggy reconciler fails, and no correct one does under the faults that the
// pattern's scenario is about.
func Track() []track.Row {
	var rows []track.Row
	for _, p := range patterns {
		row := func(suffix string, v variant) track.Row {
			return track.Row{Bug: v.doc, Pattern: p.number, Scenario: p.name + ".yaml",
				Controller: operator, Reconciler: p.reconciler(suffix)}
		}
		buggy := row("buggy", p.buggy)
		buggy.Breaks, buggy.Budget = p.breaks, p.budget
		rows = append(rows, buggy, row("correct", p.correct))
		rows = append(rows, p.beyond...)
	}
	for i := range rows {
		rows[i].Brief = true // beside the schedules by hand
	}
	return rows
}

// operator is the name of the process under test in all scenarios.
const operator = "operator"

// clients are what a reconciler needs of the manager.
type clients struct {
	// client reads from the caches and writes to the server.
	client.Client
	// live reads from the server.
	live   client.Reader
	scheme *runtime.Scheme
}

func clientsOf(m ctrl.Manager) clients {
	return clients{Client: m.GetClient(), live: m.GetAPIReader(), scheme: m.GetScheme()}
}

// create creates a child of an app, which owns it as its controller.
func (c *clients) create(ctx context.Context, app *App, child client.Object) error {
	if err := ctrl.SetControllerReference(app, child, c.scheme); err != nil {
		return err
	}
	return c.Create(ctx, child)
}

// report writes the status of an app, if it is another than what is stored.
func (c *clients) report(ctx context.Context, app *App, phase string) error {
	if app.Status.Phase == phase && app.Status.ObservedGeneration == app.Generation {
		return nil
	}
	app.Status.Phase, app.Status.ObservedGeneration = phase, app.Generation
	return c.Status().Update(ctx, app)
}

// upToDate reports whether an app from a cache is what the server has. If it is not, there is an event to come.
func (c *clients) upToDate(ctx context.Context, app *App) (bool, error) {
	current := &App{}
	err := c.live.Get(ctx, client.ObjectKeyFromObject(app), current)
	return err == nil && current.UID == app.UID && current.Generation == app.Generation, client.IgnoreNotFound(err)
}
