package sim_test

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// unavailableOnce lets faults of type ServiceUnavailable answer with a 503, and those of type LostResponse lose the answer.
func unavailableOnce(config *sim.Config) {
	strikes(config, map[schedule.FaultType]func() sim.Reactor{
		schedule.ServiceUnavailable: answering(unavailable(0)),
		schedule.LostResponse: func() sim.Reactor {
			return hooks{after: func(d *sim.Door) { d.Break(io.EOF) }}
		},
		schedule.NotFound: func() sim.Reactor { return hooks{} },
	})
}

// getter is a program that gets the ConfigMap "a" once a second, six times, and writes it after the third.
func getter(ctx context.Context, env *sim.Env) error {
	for n := range 6 {
		_, _ = env.Do(ctx, request(env, schedule.Get, "a"))
		if n == 2 {
			_, _ = env.Do(ctx, request(env, schedule.Update, "a"))
		}
		time.Sleep(time.Second)
	}
	return nil
}

// TestPlannedFaults checks at which events the faults of a plan strike: by name and by selector, each once, and polls
// counting as one event.
func TestPlannedFaults(t *testing.T) {
	gets := func(occurrence int) *schedule.Selector {
		return &schedule.Selector{Actor: "operator", Verbs: []schedule.Verb{schedule.Get}, Occurrence: occurrence}
	}
	down := func(at schedule.Event) schedule.Fault { return fault(schedule.ServiceUnavailable, at) }
	selected := func(t schedule.FaultType, s *schedule.Selector) schedule.Fault {
		return schedule.Fault{Type: t, Select: s}
	}
	for _, test := range []struct {
		name   string
		faults []schedule.Fault
		struck []schedule.Event // empty for one that has not
		trail  []string
	}{
		{"none", nil, nil, []string{"Get a #1 200", "Update a #1 200 committed", "Get a #2 200"}},
		{"by name", []schedule.Fault{down(named(schedule.Get, "a", 2))}, []schedule.Event{named(schedule.Get, "a", 2)},
			[]string{"Get a #1 200", "Update a #1 200 committed", "Get a #2 503 ServiceUnavailable", "Get a #3 200"}},
		{"what comes after it is no poll", []schedule.Fault{down(named(schedule.Get, "a", 1)), down(named(schedule.Get, "a", 2))},
			[]schedule.Event{named(schedule.Get, "a", 1), named(schedule.Get, "a", 2)},
			[]string{"Get a #1 503 ServiceUnavailable", "Get a #2 503 ServiceUnavailable", "Get a #3 200",
				"Update a #1 200 committed", "Get a #4 200"}},
		{"first selected", []schedule.Fault{selected(schedule.ServiceUnavailable, gets(0))},
			[]schedule.Event{named(schedule.Get, "a", 1)},
			[]string{"Get a #1 503 ServiceUnavailable", "Get a #2 200", "Update a #1 200 committed", "Get a #3 200"}},
		{"second selected", []schedule.Fault{selected(schedule.ServiceUnavailable, gets(2))},
			[]schedule.Event{named(schedule.Get, "a", 2)},
			[]string{"Get a #1 200", "Update a #1 200 committed", "Get a #2 503 ServiceUnavailable", "Get a #3 200"}},
		{"selected only where it can strike", []schedule.Fault{selected(schedule.LostResponse, &schedule.Selector{})},
			[]schedule.Event{named(schedule.Update, "a", 1)},
			[]string{"Get a #1 200", "Update a #1 -1 committed LostResponse", "Get a #2 200"}},
		{"two at one event", []schedule.Fault{selected(schedule.LostResponse, &schedule.Selector{}),
			down(named(schedule.Update, "a", 1))}, []schedule.Event{named(schedule.Update, "a", 1), named(schedule.Update, "a", 1)},
			[]string{"Get a #1 200", "Update a #1 -1 ServiceUnavailable"}},
		{"never comes up", []schedule.Fault{down(named(schedule.Get, "b", 1)), selected(schedule.ServiceUnavailable, gets(9))},
			[]schedule.Event{{}, {}}, []string{"Get a #1 200", "Update a #1 200 committed", "Get a #2 200"}},
		{"does nothing", []schedule.Fault{fault(schedule.NotFound, named(schedule.Get, "a", 1))}, []schedule.Event{{}},
			[]string{"Get a #1 200", "Update a #1 200 committed", "Get a #2 200"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := programConfig(getter, configMap("a"))
			unavailableOnce(config)
			h := run(t, config, sim.Plan{Faults: test.faults})
			expectTrail(t, h, test.trail...)
			for i, f := range h.Faults {
				struck := test.struck[i] != schedule.Event{}
				if f.Struck != struck || f.Type != test.faults[i].Type || struck != (f.Record >= 0) {
					t.Errorf("fault %d came to %+v", i, f)
				} else if struck && (f.At != test.struck[i] || h.Records[f.Record].Event != f.At) {
					t.Errorf("fault %d struck at %s in the record of %s, want %s", i, f.At, h.Records[f.Record].Event, test.struck[i])
				}
			}
		})
	}
}

// injecting is the default order with faults: it injects where the function says so, and remembers what it was asked.
type injecting struct {
	inject func(schedule.Event, []schedule.Fault) int // the index of the fault, or -1
	asked  []string
}

func (i *injecting) Choose([]sim.Choice) int            { return 0 }
func (i *injecting) Delay(schedule.Event) time.Duration { return 0 }
func (i *injecting) Permute(schedule.Event, int) []int  { return nil }

func (i *injecting) Inject(rule *sim.FaultRule, event schedule.Event, faults []schedule.Fault) (schedule.Fault, bool) {
	for _, f := range faults {
		if f.At != event {
			panic("At is not filled in: " + f.String())
		}
	}
	i.asked = append(i.asked, fmt.Sprintf("%s: %s %s #%d, %d", rule.Name, event.Verb, event.Name, event.Occurrence, len(faults)))
	if n := i.inject(event, faults); n >= 0 {
		return faults[n], true
	}
	return schedule.Fault{}, false
}

// ruleTest is a run with rules, and what comes of it.
type ruleTest struct {
	name     string
	faults   sim.Faults
	plan     []schedule.Fault
	strategy *injecting
	asked    []string
	struck   []string
	results  []history.RuleResult
}

func injectLast(_ schedule.Event, faults []schedule.Fault) int { return len(faults) - 1 }
func injectNone(schedule.Event, []schedule.Fault) int          { return -1 }

// counted is what the rules come to.
func counted(eligible, struck, writes, second int) []history.RuleResult {
	return []history.RuleResult{
		{Name: "any", Eligible: eligible, Struck: struck}, {Name: "writes", Eligible: writes}, {Name: "second", Eligible: second},
	}
}

func ruleTests() []ruleTest {
	return []ruleTest{
		{name: "no strategy", results: counted(3, 0, 1, 1)},
		{name: "never", strategy: &injecting{inject: injectNone}, results: counted(3, 0, 1, 1), asked: []string{
			"any: Get a #1, 1", "any: Update a #1, 2", "writes: Update a #1, 1", "any: Get a #2, 1", "second: Get a #2, 1"}},
		{name: "one fault a run", strategy: &injecting{inject: injectLast}, asked: []string{"any: Get a #1, 1"},
			struck:  []string{"any ServiceUnavailable Get #1"},
			results: counted(4, 1, 1, 1)},
		{name: "two faults a run", faults: sim.Faults{Max: 2}, strategy: &injecting{inject: injectLast},
			asked:   []string{"any: Get a #1, 1", "any: Get a #2, 1"},
			struck:  []string{"any ServiceUnavailable Get #1", "any ServiceUnavailable Get #2"},
			results: counted(5, 2, 1, 1)},
		{name: "healed", faults: sim.Faults{Max: 9, HealAfter: 1500 * time.Millisecond}, strategy: &injecting{inject: injectLast},
			asked:   []string{"any: Get a #1, 1", "any: Get a #2, 1", "second: Get a #2, 1"},
			struck:  []string{"any ServiceUnavailable Get #1", "any ServiceUnavailable Get #2"},
			results: counted(2, 2, 0, 1)},
		{name: "a planned fault that fits", plan: []schedule.Fault{fault(schedule.LostResponse, named(schedule.Update, "a", 1))},
			struck:  []string{"any LostResponse Update #1"},
			results: counted(3, 1, 1, 1)},
		{name: "a planned fault that does not", plan: []schedule.Fault{{Type: schedule.LostResponse,
			At: named(schedule.Update, "a", 1), Params: schedule.Params{For: 1}}}, struck: []string{" LostResponse Update #1"},
			results: counted(3, 0, 1, 1)},
		{name: "a planned fault counts", faults: sim.Faults{Max: 2}, strategy: &injecting{inject: injectLast},
			plan:    []schedule.Fault{fault(schedule.LostResponse, named(schedule.Update, "a", 1))},
			asked:   []string{"any: Get a #1, 1"},
			struck:  []string{"any LostResponse Update #1", "any ServiceUnavailable Get #1"},
			results: counted(4, 2, 1, 1)},
	}
}

// TestRules checks what a strategy is asked, within which budgets, and what is counted with and without one.
func TestRules(t *testing.T) {
	down, lose := schedule.Fault{Type: schedule.ServiceUnavailable}, schedule.Fault{Type: schedule.LostResponse}
	rules := []sim.FaultRule{
		{Name: "any", Match: schedule.Selector{Actor: "operator"}, Faults: []schedule.Fault{down, lose}},
		{Name: "writes", Match: schedule.Selector{}, Faults: []schedule.Fault{lose}},
		{Name: "second", Match: schedule.Selector{Verbs: []schedule.Verb{schedule.Get}, Occurrence: 2}, Faults: []schedule.Fault{down}},
	}
	for _, test := range ruleTests() {
		t.Run(test.name, func(t *testing.T) {
			config := programConfig(getter, configMap("a"))
			unavailableOnce(config)
			config.Faults = test.faults
			config.Faults.Rules = rules
			plan := sim.Plan{Faults: test.plan}
			if test.strategy != nil {
				plan.Strategy = test.strategy
			}
			h := run(t, config, plan)
			var struck []string
			for _, f := range h.Faults {
				struck = append(struck, fmt.Sprintf("%s %s %s #%d", f.Rule, f.Type, f.At.Verb, f.At.Occurrence))
				if !f.Struck || h.Records[f.Record].Event != f.At || h.Records[f.Record].Fault != f.Type {
					t.Errorf("fault %+v struck in record %+v", f, h.Records[f.Record])
				}
			}
			if !slices.Equal(struck, test.struck) {
				t.Errorf("struck: %q, want %q", struck, test.struck)
			}
			if !slices.Equal(h.Rules, test.results) {
				t.Errorf("the rules came to %+v, want %+v", h.Rules, test.results)
			}
			if test.strategy != nil && !slices.Equal(test.strategy.asked, test.asked) {
				t.Errorf("the strategy was asked %q, want %q", test.strategy.asked, test.asked)
			}
		})
	}
}

// TestConflictsNeedLocks checks that a conflict that is made up is counted, and looks for its place, only where a write carries a
// lock; one with a competing write at any.
func TestConflictsNeedLocks(t *testing.T) {
	config := programConfig(func(ctx context.Context, env *sim.Env) error {
		for _, revision := range []string{"", "0", "1"} {
			update := request(env, schedule.Update, "a")
			update.Object.SetResourceVersion(revision)
			_, _ = env.Do(ctx, update)
		}
		return nil
	}, configMap("a"))
	strikes(config, map[schedule.FaultType]func() sim.Reactor{schedule.Conflict: answering(conflict(0))})
	conflicts := schedule.Fault{Type: schedule.Conflict, Select: &schedule.Selector{Verbs: []schedule.Verb{schedule.Update}}}
	competing := conflicts
	competing.Means = schedule.CompetingWrite
	config.Faults.Rules = []sim.FaultRule{{Faults: []schedule.Fault{conflicts}}, {Faults: []schedule.Fault{competing}}}
	for n, fault := range []schedule.Fault{conflicts, competing} {
		h := run(t, config, sim.Plan{Faults: []schedule.Fault{fault}})
		if at := h.Faults[0].At.Occurrence; at != []int{3, 1}[n] || h.Rules[0].Eligible != 1 || h.Rules[1].Eligible != 3 {
			t.Errorf("%s struck at #%d, and the rules came to %+v", fault, at, h.Rules)
		}
	}
}

// TestRuleBudget checks that a rule's own budget leaves the others theirs, and that a fault which another one at the same event
// keeps from striking costs nothing.
func TestRuleBudget(t *testing.T) {
	config := programConfig(getter, configMap("a"))
	unavailableOnce(config)
	down := []schedule.Fault{{Type: schedule.ServiceUnavailable}}
	config.Faults = sim.Faults{Max: 3, Rules: []sim.FaultRule{
		{Name: "one", Faults: down, Max: 1}, {Name: "many", Faults: down},
	}}
	h := run(t, config, sim.Plan{Strategy: &injecting{inject: func(e schedule.Event, _ []schedule.Fault) int {
		if e.Verb == schedule.Get {
			return 0
		}
		return -1
	}}})
	if h.Rules[0].Struck != 1 || h.Rules[1].Struck != 2 || len(h.Faults) != 3 {
		t.Errorf("the rules came to %+v, the faults to %+v", h.Rules, h.Faults)
	}
}

// TestRuleBudgetOfOne checks what counts for the budget of a rule: a fault that is planned, and one that strikes, but none that
// was injected and did not; and that a request which is held back is struck once.
func TestRuleBudgetOfOne(t *testing.T) {
	held := schedule.Fault{Type: schedule.Delay}
	planned := fault(schedule.Delay, named(schedule.Get, "a", 1))
	for _, test := range []struct {
		name   string
		faults []schedule.Fault
		plan   []schedule.Fault
		asked  int
	}{
		{"a planned one", []schedule.Fault{held}, []schedule.Fault{planned}, 0},
		{"an injected one", []schedule.Fault{held}, nil, 1},
		{"two that do not strike", []schedule.Fault{held, {Type: schedule.NotFound}}, nil, 3},
	} {
		config := programConfig(getter, configMap("a"))
		strikes(config, map[schedule.FaultType]func() sim.Reactor{
			schedule.Delay:    func() sim.Reactor { return holder{hold: time.Second} },
			schedule.NotFound: func() sim.Reactor { return hooks{} },
		})
		config.Faults = sim.Faults{Max: 9, Rules: []sim.FaultRule{{Name: "one", Faults: test.faults, Max: 1}}}
		strategy := &injecting{inject: func(e schedule.Event, able []schedule.Fault) int {
			if e.Occurrence == 1 { // one that does nothing first, if there is one
				return len(able) - 1
			}
			return 0
		}}
		h := run(t, config, sim.Plan{Faults: test.plan, Strategy: strategy})
		if h.Rules[0].Struck != 1 || len(strategy.asked) != test.asked {
			t.Errorf("%s: it struck %d times, and the strategy was asked %q", test.name, h.Rules[0].Struck, strategy.asked)
		}
	}
}

// TestFaultErrors checks what ends a run with an error.
func TestFaultErrors(t *testing.T) {
	unknown := func(schedule.Fault) (sim.Reactor, error) { return nil, io.ErrNoProgress }
	rule := []sim.FaultRule{{Faults: []schedule.Fault{{Type: schedule.ServiceUnavailable}}}}
	planned := sim.Plan{Faults: []schedule.Fault{fault(schedule.ServiceUnavailable, named(schedule.Get, "nobody's", 1))}}
	injected := func() sim.Plan {
		return sim.Plan{Strategy: &injecting{inject: func(schedule.Event, []schedule.Fault) int { return 0 }}}
	}
	for _, test := range []struct {
		name       string
		rules      []sim.FaultRule
		plan       sim.Plan
		newReactor func(schedule.Fault) (sim.Reactor, error)
		want       string
	}{
		{"nobody to make a planned one", nil, planned, nil, "Config.NewReactor is nil"},
		{"nobody to make an injected one", rule, injected(), nil, "Config.NewReactor is nil"},
		{"planned, of unknown type", nil, planned, unknown, "fault ServiceUnavailable at operator Get ConfigMap default/nobody's #1: "},
		{"injected, of unknown type", rule, injected(), unknown, "fault ServiceUnavailable at operator Get ConfigMap default/a #1: "},
		{"rules only", rule, sim.Plan{}, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := programConfig(getter, configMap("a"))
			config.Faults.Rules, config.NewReactor = test.rules, test.newReactor
			world, err := sim.NewWorld(config)
			if err != nil {
				t.Fatal(err)
			}
			_, err = world.Run(test.plan)
			if (err == nil) != (test.want == "") || err != nil && !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("the run came to %v, want %q", err, test.want)
			}
		})
	}
}

// TestHeld checks requests that are held back: for a while, until the faults heal, and for ever.
func TestHeld(t *testing.T) {
	for _, test := range []struct {
		name     string
		hold     time.Duration
		heal     time.Duration
		released time.Duration // zero: never
	}{
		{"for a while", 15 * time.Minute, 0, 15 * time.Minute},
		{"until healed", sim.Forever, 40 * time.Minute, 40 * time.Minute},
		{"healed before its end", time.Hour, 20 * time.Minute, 20 * time.Minute},
		{"for ever", sim.Forever, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := newConfig(nil, configMap("a"))
			config.Processes = nil
			config.Racers = []sim.RacerConfig{{Name: "racer", WithScript: true, New: func() sim.Racer {
				return &caller{verbs: []schedule.Verb{schedule.Update, schedule.Patch}}
			}}}
			config.Faults.HealAfter = test.heal
			strikes(config, map[schedule.FaultType]func() sim.Reactor{
				schedule.Wedge: func() sim.Reactor { return holder{hold: test.hold} }})
			at := schedule.Event{Actor: "racer", Key: "pass", Verb: schedule.Update, Kind: "ConfigMap", Namespace: "default",
				Name: "a", Occurrence: 1}
			h := run(t, config, sim.Plan{Faults: []schedule.Fault{fault(schedule.Wedge, at)}})
			f := h.Faults[0]
			if h.Outcome != history.Terminal || !f.Struck || f.At != at {
				t.Fatalf("the run ended %s, the fault came to %+v", h.Outcome, f)
			}
			if test.released == 0 {
				if f.Record != -1 || len(requests(h)) > 0 || h.End > 11*time.Minute {
					t.Errorf("the fault came to %+v, the run to %q at %s", f, trail(h), h.End)
				}
				return
			}
			expectTrail(t, h, "Update a #1 200 committed Wedge", "Patch a #1 200 committed")
			if r := h.Records[f.Record]; !about(r.At, test.released) || !about(r.Held, test.released) {
				t.Errorf("the request was made at %s, held for %s; want both %s", r.At, r.Held, test.released)
			}
		})
	}
}

// TestOwnHolder checks that a reactor of the scenario's own that holds requests back sees each of them once all the same.
func TestOwnHolder(t *testing.T) {
	config := programConfig(getter, configMap("a"))
	before, after := 0, 0
	config.Reactors = []func() sim.Reactor{func() sim.Reactor {
		return holder{hooks{before: func(*sim.Door) { before++ }, after: func(*sim.Door) { after++ }}, time.Minute}
	}}
	h := run(t, config, sim.Plan{})
	if r := requests(h)[0]; !about(r.At, time.Minute) || !about(r.Held, time.Minute) {
		t.Errorf("the request was made at %s, held for %s; want both 1m", r.At, r.Held)
	}
	if before != h.Requests || after != h.Requests || h.Requests == 0 {
		t.Errorf("the reactor has seen %d of %d requests, and %d answers", before, h.Requests, after)
	}
}

// TestHealedLater checks that what a fault does later is done when the faults heal.
func TestHealedLater(t *testing.T) {
	for after, want := range map[time.Duration]time.Duration{
		time.Minute: time.Minute, time.Hour: 30 * time.Minute, sim.Forever: 30 * time.Minute,
	} {
		config := programConfig(getter, configMap("a"))
		config.Faults.HealAfter = 30 * time.Minute
		strikes(config, map[schedule.FaultType]func() sim.Reactor{schedule.LateDelete: func() sim.Reactor {
			return hooks{before: func(d *sim.Door) {
				d.Later("ghost", after, func() *apiserver.Request {
					return &apiserver.Request{Verb: schedule.Delete, Kind: d.Request().Kind, Namespace: "default", Name: "a"}
				})
			}}
		}})
		h := run(t, config, sim.Plan{Faults: []schedule.Fault{{Type: schedule.LateDelete, At: named(schedule.Delete, "a", 1)}}})
		if h.Faults[0].Struck {
			t.Error("the fault struck at no event")
		}
		config.Processes[0].Program = start(func(ctx context.Context, env *sim.Env) error {
			_, _ = env.Do(ctx, request(env, schedule.Delete, "b"))
			return nil
		})
		h = run(t, config, sim.Plan{Faults: []schedule.Fault{{Type: schedule.LateDelete, At: named(schedule.Delete, "b", 1)}}})
		expectTrail(t, h, "Delete b #1 404 LateDelete", "Delete a #1 200 committed")
		if at := requests(h)[1].At; !about(at, want) {
			t.Errorf("after %s, healing after 30m0s, it is done at %s, want %s", after, at, want)
		}
	}
}

// TestFaultsSettle checks from when on the span of an Eventually counts: from the last fault, or the end of what it holds.
func TestFaultsSettle(t *testing.T) {
	kinds := apiserver.NewKinds(apiserver.V136)
	set, errs := property.Compile(coreKinds{kinds}, written.variables, written.definitions)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for name, reactor := range map[string]func() sim.Reactor{
		"held":    func() sim.Reactor { return holder{hold: time.Minute} },
		"retried": answering(unavailable(9)),
		"crashed": func() sim.Reactor {
			return hooks{before: func(d *sim.Door) { d.Crash(sim.Restart{After: time.Minute}) }}
		},
	} {
		config := newConfig(setOnce("x"), configMap("a"))
		config.Kinds, config.Properties = kinds, set
		strikes(config, map[schedule.FaultType]func() sim.Reactor{schedule.Delay: reactor})
		h := run(t, config, sim.Plan{Faults: []schedule.Fault{
			fault(schedule.Delay, inPass(schedule.Update, "a", 1)), fault(schedule.Delay, inPass(schedule.Update, "a", 2)),
		}})
		if v := h.Verdicts[0]; v.Status != property.Held || v.At < 18*time.Second {
			t.Errorf("%s: %s is %s at %s, %s", name, v.Property.Name, v.Status, v.At, v.Note)
		}
	}
}

// TestNoFaultsWhileSettling checks that reactors and rules act only once the script has begun.
func TestNoFaultsWhileSettling(t *testing.T) {
	seen := 0
	config := newConfig(func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
		return ctrl.Result{}, nil
	}, configMap("a"))
	config.Unsettled = false
	config.Reactors = []func() sim.Reactor{func() sim.Reactor { return hooks{before: func(*sim.Door) { seen++ }} }}
	config.Faults.Rules = []sim.FaultRule{{Name: "all", Faults: []schedule.Fault{{Type: schedule.Crash}}}}
	config.Racers = []sim.RacerConfig{{Name: "racer", WithScript: true, New: func() sim.Racer {
		return &caller{verbs: []schedule.Verb{schedule.Patch}}
	}}}
	h := run(t, config, sim.Plan{})
	if len(requests(h)) != 3 || seen != 2 || h.Rules[0].Eligible != 1 {
		t.Errorf("of %q a reactor saw %d, and %d were eligible", trail(h), seen, h.Rules[0].Eligible)
	}
}

// walkAndInject is a random walk that injects faults at random.
type walkAndInject struct {
	sim.Strategy
	seed int64
}

func (w walkAndInject) Inject(_ *sim.FaultRule, event schedule.Event, faults []schedule.Fault) (schedule.Fault, bool) {
	stream := explore.NewStream(w.seed, event.String())
	return faults[stream.Below(len(faults))], stream.Below(8) == 0
}

// TestDeterminismOfInjectedFaults walks at random through several faults a run, with one and with two processors, and takes
// the faults that struck as the plan of another run.
func TestDeterminismOfInjectedFaults(t *testing.T) {
	for name, config := range map[string]*sim.Config{"writers": writers(), "fan-out": fanOut(), "sleepers": sleepers()} {
		t.Run(name, func(t *testing.T) {
			var all []schedule.Fault
			for kind := range everyReactor {
				all = append(all, schedule.Fault{Type: kind})
			}
			slices.SortFunc(all, schedule.CompareFaults)
			strikes(config, everyReactor)
			config.Faults = sim.Faults{Max: 4, HealAfter: time.Minute, Rules: []sim.FaultRule{{Name: "all", Faults: all}}}
			world, err := sim.NewWorld(config)
			if err != nil {
				t.Fatal(err)
			}
			struck := 0
			for seed := range int64(40) {
				var first *history.History
				for _, processors := range []int{1, 2} {
					plan := sim.Plan{Seed: seed, Strategy: walkAndInject{explore.NewWalk(seed), seed}}
					var h *history.History
					onProcessors(processors, func() { h, err = world.Run(plan) })
					switch {
					case err != nil:
						t.Fatal(err)
					case first == nil:
						first = h
					case h.Hash != first.Hash:
						t.Errorf("seed %d: %s", seed, difference(first, h))
					}
				}
				struck += len(first.Faults)
			}
			if struck < 40 {
				t.Errorf("only %d faults struck", struck)
			}
		})
	}
}

// TestSites checks that what rules do is counted by call sites and types of faults, too.
func TestSites(t *testing.T) {
	config := programConfig(getter, configMap("a"))
	unavailableOnce(config)
	down, lose := schedule.Fault{Type: schedule.ServiceUnavailable}, schedule.Fault{Type: schedule.LostResponse}
	late := schedule.Fault{Type: schedule.ServiceUnavailable, Params: schedule.Params{RetryAfter: time.Second}}
	config.Faults = sim.Faults{Max: 2, Rules: []sim.FaultRule{
		{Name: "any", Match: schedule.Selector{Actor: "operator"}, Faults: []schedule.Fault{down, lose, late}},
		{Name: "nowhere", Match: schedule.Selector{Actor: "nobody"}, Faults: []schedule.Fault{down}},
	}}
	h := run(t, config, sim.Plan{Faults: []schedule.Fault{fault(schedule.LostResponse, named(schedule.Update, "a", 1))},
		Strategy: &injecting{inject: injectLast}})
	at := func(verb schedule.Verb) schedule.Event {
		site := named(verb, "a", 0)
		site.Incarnation = 0
		return site
	}
	want := []history.SiteResult{
		{Rule: "any", Type: schedule.ServiceUnavailable, Site: at(schedule.Get), Eligible: 3, Struck: 1},
		{Rule: "any", Type: schedule.ServiceUnavailable, Site: at(schedule.Update), Eligible: 1},
		{Rule: "any", Type: schedule.LostResponse, Site: at(schedule.Update), Eligible: 1, Struck: 1},
	}
	if !slices.Equal(h.Sites, want) {
		t.Errorf("the sites came to %+v, want %+v", h.Sites, want)
	}
	if merged := history.MergeSites(h.Sites, want[:1], nil); len(merged) != 3 || !slices.IsSortedFunc(merged, history.CompareSites) ||
		!slices.ContainsFunc(merged, func(s history.SiteResult) bool { return s.Eligible == 6 && s.Struck == 2 }) {
		t.Errorf("merged, they are %+v", merged)
	}
}

// TestState checks that a run says where it ended, if it is asked to: the same where the masked state is the same.
func TestState(t *testing.T) {
	states := map[uint64][]string{}
	for _, name := range []string{"a", "b", "a"} {
		config := programConfig(getter, configMap(name))
		h := run(t, config, sim.Plan{State: true})
		states[h.State] = append(states[h.State], name)
		if without := run(t, config, sim.Plan{}); without.State != 0 || without.Hash != h.Hash {
			t.Errorf("without being asked the run says %x, and has the hash %x, not %x", without.State, without.Hash, h.Hash)
		}
	}
	if len(states) != 2 || len(states[0]) > 0 {
		t.Errorf("states are %v", states)
	}
}
