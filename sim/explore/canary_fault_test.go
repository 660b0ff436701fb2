package explore_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/reactors"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
	"github.com/stalemate-dev/stalemate/sim/shrink"
)

// withFaults adds fault rules to a scenario.
func withFaults(build func(testing.TB, reconcileFunc) *sim.Config, rules ...sim.FaultRule) func(testing.TB, reconcileFunc) *sim.Config {
	return func(t testing.TB, f reconcileFunc) *sim.Config {
		config := build(t, f)
		config.Faults, config.NewReactor = sim.Faults{Rules: rules}, reactors.New
		return config
	}
}

// onWrites is a rule for faults at the operator's writes.
func onWrites(name string, faults ...schedule.Fault) sim.FaultRule {
	return sim.FaultRule{Name: name, Faults: faults, Match: schedule.Selector{Actor: "operator",
		Verbs: []schedule.Verb{schedule.Create, schedule.Update, schedule.Patch, schedule.Delete}}}
}

func atClient(t schedule.FaultType) schedule.Fault {
	return schedule.Fault{Type: t, Params: schedule.Params{Layer: schedule.Client}}
}

// twoStep is a scenario whose bug needs an order and a fault: the operator makes a second attempt after a conflict, and takes
// any failure of that one for success.
func twoStep(t testing.TB, careless bool) *sim.Config {
	return withFaults(scenario{
		given:      []apiserver.Object{configMap("app", map[string]string{"want": "1"})},
		racers:     []sim.RacerConfig{user(after(10*time.Second, mergePatch(`{"metadata":{"labels":{"a":"b"}}}`)))},
		properties: []property.Definition{terminal("done-means-had", `child == null || app.?data["have"].orValue("") == "1"`)},
	}.build(), onWrites("unavailable", atClient(schedule.ServiceUnavailable), atClient(schedule.InternalError)))(t,
		announce(func(ctx context.Context, deps sim.Deps, app *corev1.ConfigMap) error {
			if err := deps.Live.Get(ctx, ctrlclient.ObjectKeyFromObject(app), &corev1.Secret{}); !apierrors.IsNotFound(err) {
				return err
			}
			err := setData(ctx, deps, app, "have", "1")
			if apierrors.IsConflict(err) {
				if err = deps.Live.Get(ctx, ctrlclient.ObjectKeyFromObject(app), app); err != nil {
					return err
				}
				if err = setData(ctx, deps, app, "have", "1"); careless {
					err = nil
				}
			}
			if err != nil {
				return err
			}
			return createChild(ctx, deps, app)
		}))
}

// TestDepthTwo checks that a bug that needs an order and a fault is found: by the sweep of what only the order reveals, and
// without that by runs by seed, which are shrunk to those two.
func TestDepthTwo(t *testing.T) {
	for _, test := range []struct {
		name    string
		options explore.Options
		by      []string
	}{
		{"revealed", explore.Options{Runs: -1}, []string{explore.RevealedSweep}},
		{"by seed", explore.Options{Seed: 1, Runs: 2000, Revealed: -1},
			[]string{explore.PCT, explore.SelectivePCT, explore.RandomWalk}},
	} {
		t.Run(test.name, func(t *testing.T) {
			result := explored(t, twoStep(t, true), test.options)
			if len(result.Findings) == 0 {
				t.Fatalf("nothing found in %d executions; %+v", result.Coverage.Executions, result.Strategies)
			}
			for i := range result.Findings {
				f := &result.Findings[i]
				s := f.Schedule
				if !slices.Contains(test.by, f.Strategy) || len(s.Constraints) != 1 || len(s.Faults) != 1 || s.Size() != 2 {
					t.Errorf("%s found %v %v %v, from %d elements", f.Strategy, s.Constraints, s.Faults, s.Latencies, s.Origin.Size)
				}
				if !s.Origin.Minimal {
					t.Errorf("%v %v is not known to be minimal", s.Constraints, s.Faults)
				}
				checkReplays(t, twoStep(t, true), s)
			}
			if twin := explored(t, twoStep(t, false), test.options); twin.Failed() {
				t.Errorf("the twin has findings: %v", signatures(twin))
			}
		})
	}
}

// checkReplays checks that a finding's schedule brings about the same run each time, and exactly.
func checkReplays(t *testing.T, config *sim.Config, s *schedule.Schedule) {
	t.Helper()
	world, err := sim.NewWorld(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, exact := range []bool{false, true, false} {
		r, err := explore.Replay(world, s, exact)
		if err != nil {
			t.Fatal(err)
		}
		if r.Outcome != history.Reproduced || !r.SameHash || r.Matched != s.Size() || r.Diverged != "" {
			t.Errorf("replay (exact: %v): %s, %d of %d matched, unmatched %q, same hash %v, diverged %q",
				exact, r.Outcome, r.Matched, r.Elements, r.Unmatched, r.SameHash, r.Diverged)
		}
	}
}

// startedOperator notes that it has started before it creates the child, and never looks again; and it takes a refusal for
// success.
func startedOperator(careless bool) reconcileFunc {
	return announce(func(ctx context.Context, deps sim.Deps, app *corev1.ConfigMap) error {
		if careless && app.Data["started"] == "true" {
			return nil
		}
		if err := setData(ctx, deps, app, "started", "true"); err != nil {
			return err
		}
		err := createChild(ctx, deps, app)
		if careless && apierrors.IsForbidden(err) {
			return nil
		}
		return err
	})
}

// TestFaultFindings checks that two faults that break one property are two findings, and that one fault is one finding,
// wherever it strikes.
func TestFaultFindings(t *testing.T) {
	build := withFaults(scenario{
		given:      []apiserver.Object{configMap("app", nil)},
		properties: []property.Definition{terminal("a-child", "child != null")},
	}.build(), onWrites("refused", schedule.Fault{Type: schedule.Forbidden}),
		onWrites("crash", schedule.Fault{Type: schedule.Crash, Params: schedule.Params{Point: schedule.BeforeCall}},
			schedule.Fault{Type: schedule.Crash, Params: schedule.Params{Point: schedule.AfterCommit}}))
	result := explored(t, build(t, startedOperator(true)), explore.Options{Runs: -1})
	var got []string
	for i := range result.Findings {
		f := &result.Findings[i]
		got = append(got, f.Signature[strings.Index(f.Signature, "\n")+1:])
		if f.Strategy != explore.FaultSweep || f.Schedule.Size() != 1 || !f.Schedule.Origin.Minimal {
			t.Errorf("%s found %v: %+v", f.Strategy, f.Schedule.Faults, f.Schedule.Origin)
		}
		checkReplays(t, build(t, startedOperator(true)), f.Schedule)
	}
	if want := []string{"fault Crash", "operator Create Secret 403"}; !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("findings are %q, want %q", got, want)
	}
	if n := slices.IndexFunc(result.Findings, func(f history.Finding) bool { return strings.Contains(f.Signature, "Crash") }); n >= 0 &&
		result.Findings[n].Also == 0 {
		t.Error("the crash after the note and that before the child are not one finding")
	}
	if twin := explored(t, build(t, startedOperator(false)), explore.Options{Seed: 1, Runs: 200}); twin.Failed() {
		t.Errorf("the twin has findings: %v", signatures(twin))
	}
}

// TestFaultSweepCounts checks the account of the sweep of faults, and what the verdict says of rules that did nothing.
func TestFaultSweepCounts(t *testing.T) {
	build := withFaults(scenario{
		given:      []apiserver.Object{configMap("app", nil)},
		properties: []property.Definition{terminal("a-child", "child != null")},
	}.build(), onWrites("refused", schedule.Fault{Type: schedule.Forbidden}, schedule.Fault{Type: schedule.NotFound}),
		sim.FaultRule{Name: "elsewhere", Match: schedule.Selector{Kind: "Pod"}, Faults: []schedule.Fault{{Type: schedule.Conflict}}})
	result := explored(t, build(t, startedOperator(false)), explore.Options{Runs: -1})
	i := slices.IndexFunc(result.Strategies, func(s history.StrategyResult) bool { return s.Name == explore.FaultSweep })
	if i < 0 {
		t.Fatalf("strategies are %+v", result.Strategies)
	}
	// Forbidden at the update and two creates; NotFound at the update alone.
	if sweep := result.Strategies[i]; sweep.Candidates != 4 || sweep.Executions != 4 || sweep.Unmatched != 0 || !sweep.Complete {
		t.Errorf("the account is %+v", sweep)
	}
	rules := result.Coverage.Rules
	if len(rules) != 2 || rules[0].Struck != 4 || rules[0].Eligible == 0 || rules[1].Eligible+rules[1].Struck != 0 {
		t.Errorf("rules are %+v", rules)
	}
	notes := strings.Join(result.Coverage.Notes, "\n")
	for _, want := range []string{"fault rule elsewhere is vacuous", "no rule has other faults than Conflict, Forbidden, NotFound"} {
		if !strings.Contains(notes, want) {
			t.Errorf("notes are\n%s\nwant %q among them", notes, want)
		}
	}
}

// TestCommitted checks that committed schedules are run first, and compared with what they expect.
func TestCommitted(t *testing.T) {
	found := explored(t, twoStep(t, true), explore.Options{Runs: -1})
	if len(found.Findings) == 0 {
		t.Fatal("nothing found")
	}
	committed := []*schedule.Schedule{found.Findings[0].Schedule}
	again := explored(t, twoStep(t, true), explore.Options{Runs: -1, Schedules: committed})
	if f := again.Findings[0]; f.Strategy != explore.Committed || f.Signature != found.Findings[0].Signature {
		t.Errorf("the first finding is that of %s: %s", f.Strategy, f.Signature)
	}
	if r := again.Replays; len(r) != 1 || r[0].Outcome != history.Reproduced || !r[0].SameHash {
		t.Errorf("replays are %+v", r)
	}
	fixed := explored(t, twoStep(t, false), explore.Options{Runs: -1, Schedules: committed})
	if r := fixed.Replays; len(r) != 1 || r[0].Outcome != history.NotReproduced || r[0].Stale() {
		t.Errorf("of the twin, replays are %+v", r)
	}
}

// BenchmarkShrink shrinks the failing runs by seed of scenarios with planted bugs, and prints how small they become, in
// constraints, faults and latencies, and in how many executions.
func BenchmarkShrink(b *testing.B) {
	t := &testing.T{}
	configs := []*sim.Config{twoStep(t, true)}
	for _, c := range slices.Concat(sweepCanaries, staleCacheCanaries) {
		configs = append(configs, c.config(t, c.buggy))
	}
	var elements, executions []float64
	for b.Loop() {
		elements, executions = nil, nil
		for _, config := range configs {
			world := must(sim.NewWorld(config))
			survey := must(explore.NewSurvey(world))
			for seed := range int64(200) {
				result := must(explore.ShrinkSeed(b.Context(), world, survey, seed, shrink.Options{}))
				if result != nil {
					elements = append(elements, float64(result.Schedule.Size()))
					executions = append(executions, float64(result.Executions))
				}
			}
		}
	}
	b.ReportMetric(median(elements), "median-elements")
	b.ReportMetric(median(executions), "median-executions")
	b.ReportMetric(float64(len(elements)), "failures")
}

func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}
