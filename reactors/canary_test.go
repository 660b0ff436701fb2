package reactors_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/racer"
	"github.com/stalemate-dev/stalemate/reactors"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/client"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// A canary is a small operator with a bug that one type of fault brings out, and a twin without it. Every fault of every type
// is executed at every site of the default run, one at a time: of the buggy operator just the types of `by` must break a
// property, of the twin none. So a fault that stopped doing what it is for would be noticed, and one that does too much, too.
type canary struct {
	name string
	by   []schedule.FaultType
	scenario
	buggy, fixed operator
}

// operator makes an operator's program, for one scenario.
type operator func() sim.Program

// pass reconciles the ConfigMap of a name.
type pass func(ctx context.Context, key types.NamespacedName) (ctrl.Result, error)

// scenario is what is around an operator.
type scenario struct {
	given      []apiserver.Object
	racers     []sim.RacerConfig
	properties []property.Definition
	settled    bool
	// webhooks are those of the cluster; without them no fault of a webhook has a site.
	webhooks []apiserver.Hook
	// before, if set, is the operator at first, and the canary's that of an upgrade; next, if set, that of an upgrade of the
	// canary's, which else is the same again.
	before, next operator
}

var testScheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		panic(err)
	}
	return scheme
}()

// kindTable tells the property compiler of the kinds.
type kindTable struct{ kinds *apiserver.Kinds }

func (k kindTable) Lookup(name string) (property.Kind, bool) {
	kind := k.kinds.ByName(name)
	if kind == nil || kind.Type == nil {
		return property.Kind{}, false
	}
	return property.Kind{GroupVersionKind: kind.GroupVersionKind, Type: kind.Type}, true
}

// The objects of the scenarios: a ConfigMap "app" that is reconciled, and what belongs to it.
var variables = []property.Variable{
	{Name: "app", Kind: "ConfigMap", Namespace: "default", ObjectName: "app"},
	{Name: "child", Kind: "Secret", Namespace: "default", ObjectName: "app"},
	{Name: "children", Kind: "Secret", Namespace: "default"},
	{Name: "pod", Kind: "Pod", Namespace: "default", ObjectName: "app"},
}

// heal is when faults end: what is wedged by then goes on, so that operators may be asked to get somewhere.
const heal = 30 * time.Minute

// config returns the scenario around an operator.
func (s scenario) config(t *testing.T, o operator) *sim.Config {
	t.Helper()
	kinds := apiserver.NewKinds(apiserver.V136)
	set, errs := property.Compile(kindTable{kinds}, variables, s.properties)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	first, next := o, o
	if s.before != nil {
		first = s.before
	}
	if s.next != nil {
		next = s.next
	}
	return &sim.Config{
		Name: "canary", Kinds: kinds, Scheme: testScheme, Given: s.given, Unsettled: !s.settled, Racers: s.racers,
		Processes: []sim.Process{{Name: "operator", Program: first(), Upgrades: map[string]sim.Program{"next": next()}}},
		Faults:    sim.Faults{HealAfter: heal}, NewReactor: reactors.New, Properties: set,
		Webhooks: s.webhooks,
	}
}

// reconciling makes an operator of a function, which is called at each start of its process.
func reconciling(start func(sim.Deps) pass) operator {
	return func() sim.Program {
		return client.Reconcilers(testScheme, client.Reconciler{For: &corev1.ConfigMap{},
			New: func(deps sim.Deps) (reconcile.Reconciler, error) {
				run := start(deps)
				return reconcile.Func(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
					return run(ctx, request.NamespacedName)
				}), nil
			}})
	}
}

// action is what an operator does with the ConfigMap, as it has just read it from the server.
type action func(ctx context.Context, deps sim.Deps, app *corev1.ConfigMap) error

// acting makes an operator of an action, which is made at each start of its process.
func acting(start func() action) operator {
	return reconciling(func(deps sim.Deps) pass {
		act := start()
		return func(ctx context.Context, key types.NamespacedName) (ctrl.Result, error) {
			app := &corev1.ConfigMap{}
			if err := deps.Live.Get(ctx, key, app); err != nil {
				return ctrl.Result{}, ctrlclient.IgnoreNotFound(err)
			}
			return ctrl.Result{}, act(ctx, deps, app)
		}
	})
}

// always makes an operator of an action that remembers nothing.
func always(act action) operator { return acting(func() action { return act }) }

func setData(ctx context.Context, deps sim.Deps, app *corev1.ConfigMap, key, value string) error {
	if app.Data[key] == value {
		return nil
	}
	if app.Data == nil {
		app.Data = map[string]string{}
	}
	app.Data[key] = value
	return deps.Live.Update(ctx, app)
}

func configMap(data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "app"}, Data: data}
}

func secret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

func terminal(name, rule string) property.Definition {
	return property.Definition{Name: name, Type: property.Terminal, Rule: rule}
}

func invariant(name, rule string) property.Definition {
	return property.Definition{Name: name, Type: property.Always, Rule: rule}
}

// user is a racer that takes steps, once everything has settled.
func user(steps ...racer.UserStep) sim.RacerConfig {
	return sim.RacerConfig{Name: "user", WithScript: true, New: func() sim.Racer {
		return racer.NewUser(racer.UserOptions{Steps: steps})
	}}
}

var allCanaries = slices.Concat(requestCanaries, commitCanaries, slowCanaries, watchCanaries, processCanaries, webhookCanaries)

func TestCanaries(t *testing.T) {
	for _, c := range allCanaries {
		t.Run(c.name, func(t *testing.T) {
			t.Run("buggy", func(t *testing.T) { c.check(t, c.buggy, c.by) })
			t.Run("fixed", func(t *testing.T) { c.check(t, c.fixed, nil) })
		})
	}
}

// TestEveryFaultHasACanary keeps the canaries complete.
func TestEveryFaultHasACanary(t *testing.T) {
	for _, faultType := range schedule.FaultTypes() {
		only := []schedule.FaultType{faultType}
		if !slices.ContainsFunc(allCanaries, func(c canary) bool { return slices.Equal(c.by, only) }) {
			t.Errorf("no canary is broken by %s alone", faultType)
		}
	}
}

// check executes every fault at every site, and compares the types that break something with those that should.
func (c *canary) check(t *testing.T, o operator, by []schedule.FaultType) {
	world, standard := newWorld(t, c.config(t, o))
	if broken := brokenNames(standard); len(broken) > 0 || standard.Outcome != history.Terminal {
		t.Fatalf("without a fault: broken %q, %s: %s%s", broken, standard.Outcome, standard.Reason, steps(standard))
	}
	var breaking []schedule.FaultType
	sites := 0
	for _, fault := range everyFault() {
		// No operator can tell a false 404 from a true one: it may only be careful about what it does then.
		if fault.Type == schedule.NotFound && !slices.Contains(c.by, schedule.NotFound) {
			continue
		}
		for _, event := range sitesOf(fault, standard) {
			fault.At = event
			run := execute(t, world, fault)
			sites++
			if again := execute(t, world, fault); again.Hash != run.Hash {
				t.Errorf("%s gives two histories:%s\nand%s", fault, steps(run), steps(again))
			}
			if run.Outcome != history.Terminal && run.Outcome != history.Panicked {
				t.Errorf("%s: %s: %s", fault, run.Outcome, run.Reason)
			}
			if !run.Faults[0].Struck && !mayMiss(fault) {
				t.Errorf("%s did not strike%s", fault, steps(run))
			}
			if broken := brokenNames(run); len(broken) > 0 {
				if !slices.Contains(by, fault.Type) {
					t.Errorf("%s breaks %q%s", fault, broken, steps(run))
				}
				breaking = append(breaking, fault.Type)
			}
		}
	}
	for _, faultType := range by {
		if !slices.Contains(breaking, faultType) {
			t.Errorf("%s breaks nothing at any of %d sites of%s", faultType, sites, steps(standard))
		}
	}
}

// mayMiss reports whether a fault may find nothing to do: a late delete nothing to keep, and a conflict no lock or no object,
// as no canary deletes with a precondition.
func mayMiss(f schedule.Fault) bool {
	return f.Type == schedule.LateDelete || f.Type == schedule.Conflict && f.At.Verb == schedule.Delete
}

// everyFault returns the variants of all types, without a place.
func everyFault() []schedule.Fault {
	var faults []schedule.Fault
	add := func(t schedule.FaultType, p schedule.Params) {
		faults = append(faults, schedule.Fault{Type: t, Params: p})
	}
	for _, t := range schedule.FaultTypes() {
		switch t {
		case schedule.Conflict:
			add(t, schedule.Params{Means: schedule.Injected})
			add(t, schedule.Params{Means: schedule.CompetingWrite})
		case schedule.LostResponse:
			add(t, schedule.Params{Means: schedule.ConnectionLost})
			add(t, schedule.Params{Means: schedule.RequestTimeout})
		case schedule.TooManyRequests, schedule.ServerTimeout:
			add(t, schedule.Params{Layer: schedule.Transport})
			add(t, schedule.Params{Layer: schedule.Client})
		case schedule.Delay, schedule.Crash:
			add(t, schedule.Params{Point: schedule.BeforeCall})
			add(t, schedule.Params{Point: schedule.AfterCommit})
		case schedule.WebhookFailure:
			add(t, schedule.Params{Means: schedule.ConnectionRefused})
			add(t, schedule.Params{Means: schedule.DeadlineExceeded})
		case schedule.Upgrade:
			add(t, schedule.Params{Reconciler: "next", Point: schedule.BeforeCall})
			add(t, schedule.Params{Reconciler: "next", Point: schedule.AfterCommit})
		default:
			add(t, schedule.Params{})
		}
	}
	return faults
}

// sitesOf returns the events of a run at which a fault can strike. An error is the operator's to meet; a slow cluster may be
// slow for everybody but the user, who tells the story.
func sitesOf(fault schedule.Fault, h *history.History) []schedule.Event {
	var events []schedule.Event
	for i := range h.Records {
		event := h.Records[i].Event
		slow := fault.Type == schedule.Delay || fault.Type == schedule.Wedge
		strikes := fault.Type.Strikes(event) && (!fault.NeedsWebhook() || h.Records[i].Admits(&fault, h.Webhooks))
		if i >= h.ScriptBegins && strikes && (event.Actor == "operator" || slow && event.Actor != "user") {
			events = append(events, event)
		}
	}
	return events
}

func newWorld(t *testing.T, config *sim.Config) (*sim.World, *history.History) {
	t.Helper()
	world, err := sim.NewWorld(config)
	if err != nil {
		t.Fatal(err)
	}
	return world, execute(t, world)
}

func execute(t *testing.T, world *sim.World, faults ...schedule.Fault) *history.History {
	t.Helper()
	h, err := world.Run(sim.Plan{Faults: faults})
	if err != nil {
		t.Fatalf("%v: %v", faults, err)
	}
	return h
}

func brokenNames(h *history.History) []string {
	var names []string
	if h.Outcome == history.Panicked {
		names = append(names, "panic")
	}
	for _, v := range h.Verdicts {
		if v.Status == property.Broken || v.Status == property.Invalid {
			names = append(names, v.Property.Name)
		}
	}
	return names
}

// steps prints the requests, cached reads and deliveries of a run, for failures.
func steps(h *history.History) string {
	var b strings.Builder
	for i := range h.Records {
		r := &h.Records[i]
		if !r.Event.Verb.IsRequest() && !r.Event.Verb.IsRead() && r.Event.Verb != schedule.Deliver && r.Fault == "" {
			continue
		}
		fmt.Fprintf(&b, "\n\t%s %s %d %s", r.At, r.Event, r.Code, r.Reason)
		if r.Fault != "" {
			fmt.Fprintf(&b, " <- %s", r.Fault)
		}
		if r.Repeats > 0 {
			fmt.Fprintf(&b, " (and %d more until %s)", r.Repeats, r.LastAt)
		}
	}
	return b.String()
}
