package sim_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

func newWorld(t *testing.T, config *sim.Config) *sim.World {
	t.Helper()
	world, err := sim.NewWorld(config)
	if err != nil {
		t.Fatal(err)
	}
	return world
}

func runIn(t *testing.T, world *sim.World, plan sim.Plan) *history.History {
	t.Helper()
	h, err := world.Run(plan)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestTraceReplays checks that every run is the same to the step under its own trace, and takes the same steps under its
// deviations: whatever polls, goroutines that are alike, caches and lists without an order there are.
func TestTraceReplays(t *testing.T) {
	for name, config := range map[string]*sim.Config{
		"writers": writers(), "fan-out": fanOut(), "alike": alike(), "sleepers": sleepers(),
	} {
		t.Run(name, func(t *testing.T) {
			world, reproduced := newWorld(t, config), 0
			const seeds = 30
			for seed := range int64(seeds) {
				h := runIn(t, world, sim.Plan{Seed: seed, Strategy: explore.NewWalk(seed), Record: true})
				exact := sim.NewTraceStrategy(h.Trace)
				again := runIn(t, world, sim.Plan{Strategy: exact, Record: true})
				if again.Hash != h.Hash || exact.Diverged() != "" {
					t.Fatalf("seed %d: under its trace the run has hash %x, want %x; diverged: %q", seed, again.Hash, h.Hash,
						exact.Diverged())
				}
				if !slices.Equal(again.Trace.Steps, h.Trace.Steps) || len(again.Trace.Latencies) != len(h.Trace.Latencies) ||
					len(again.Trace.Orders) != len(h.Trace.Orders) {
					t.Fatalf("seed %d: the trace of the replay is another one", seed)
				}
				other, err := world.Run(sim.Plan{Constraints: h.Deviations, Latencies: h.Lateness, Orders: h.Trace.Orders})
				if err == nil && slices.EqualFunc(h.Records, other.Records, func(a, b history.Record) bool { return a.Event == b.Event }) {
					reproduced++
				}
			}
			if reproduced*100 < seeds*95 {
				t.Errorf("%d of %d runs are replayed by constraints, latencies and orders, want 95 %%", reproduced, seeds)
			}
		})
	}
}

// TestTraceOfDefaultOrder checks that a run without a strategy has a trace, too, and no deviations.
func TestTraceOfDefaultOrder(t *testing.T) {
	world := newWorld(t, writers())
	h := runIn(t, world, sim.Plan{Record: true})
	exact := sim.NewTraceStrategy(h.Trace)
	if again := runIn(t, world, sim.Plan{Strategy: exact}); again.Hash != h.Hash || exact.Diverged() != "" {
		t.Errorf("hash %x, want %x; diverged: %q", again.Hash, h.Hash, exact.Diverged())
	}
	if len(h.Trace.Steps) != h.Steps || len(h.Trace.Latencies)+len(h.Trace.Orders)+len(h.Deviations)+len(h.Lateness) != 0 {
		t.Errorf("%d of %d steps, %+v, %v", len(h.Trace.Steps), h.Steps, h.Trace.Latencies, h.Deviations)
	}
	if h := runIn(t, world, sim.Plan{}); h.Trace != nil {
		t.Error("there is a trace that nobody asked for")
	}
}

// TestDiverged checks that a trace says where the code has changed: in a step, before its end, and after it.
func TestDiverged(t *testing.T) {
	counter := func(last int) *sim.World {
		return newWorld(t, newConfig(func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
			if len(cm.Data["value"]) == last {
				return ctrl.Result{}, nil
			}
			return ctrl.Result{RequeueAfter: 1}, set(ctx, c, cm, cm.Data["value"]+"x")
		}, configMap("a")))
	}
	two := runIn(t, counter(2), sim.Plan{Record: true})
	steps := len(two.Trace.Steps)
	tests := []struct {
		name  string
		world *sim.World
		trace schedule.Trace
		want  string
	}{
		{"same", counter(2), *two.Trace, ""},
		{"fewer", counter(1), *two.Trace, "the trace has operator(default/a) Update ConfigMap default/a #2, the run has ended"},
		{"more", counter(3), *two.Trace, "the trace has ended, enabled are operator(default/a) Update ConfigMap default/a #3"},
		{"other", counter(2), schedule.Trace{Steps: append(slices.Clone(two.Trace.Steps[:steps-1]), two.Trace.Steps[0])},
			"the trace has " + two.Trace.Steps[0].String() + ", enabled are " + two.Trace.Steps[steps-1].String()},
	}
	for _, test := range tests {
		exact := sim.NewTraceStrategy(&test.trace)
		runIn(t, test.world, sim.Plan{Strategy: exact})
		got := exact.Diverged()
		if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: diverged is %q, want %q", test.name, got, test.want)
		}
	}
}
