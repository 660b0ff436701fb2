package simtrack

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/track"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Load reads the scenario of a file, and makes the registry that it is run with. Register adds the reconcilers to it.
func Load(t testing.TB, register func(*scenarios.Registry), file string) (*scenarios.Scenario, *scenarios.Registry) {
	t.Helper()
	registry := &scenarios.Registry{}
	register(registry)
	scenario, err := scenarios.Load(file, scenarios.Options{Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	return scenario, registry
}

// World returns the world of a scenario, or of an entry of its matrix, with reconcilers in place of its own, by the names of its
// controllers.
func World(t testing.TB, scenario *scenarios.Scenario, registry *scenarios.Registry, reconcilers map[string]string) *sim.World {
	t.Helper()
	config, err := scenario.Config(registry, reconcilers)
	if err != nil {
		t.Fatal(err)
	}
	return worldOf(t, config)
}

func worldOf(t testing.TB, config *sim.Config) *sim.World {
	t.Helper()
	world, err := sim.NewWorld(config)
	if err != nil {
		t.Fatal(err)
	}
	return world
}

// Replay runs the schedule of a file, with reconcilers in place of its own, by the names of controllers. The run must come to rest.
func Replay(
	t testing.TB, register func(*scenarios.Registry), file string, reconcilers map[string]string,
) (*history.History, *schedule.Schedule) {
	t.Helper()
	registry := &scenarios.Registry{}
	register(registry)
	s, err := scenarios.LoadSchedule(file, scenarios.Options{Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	config, err := s.Config(registry, reconcilers)
	if err != nil {
		t.Fatal(err)
	}
	return Run(t, worldOf(t, config), sim.PlanOf(s.Spec)), s.Spec
}

// Run makes a run, which must come to rest.
func Run(t testing.TB, world *sim.World, plan sim.Plan) *history.History {
	t.Helper()
	h, err := world.Run(plan)
	if err != nil {
		t.Fatal(err)
	}
	if h.Outcome != history.Terminal {
		t.Errorf("the run ended %s: %s", h.Outcome, h.Reason)
	}
	return h
}

// Schedules replays every schedule of testdata/schedules: each must break the property that it names, by the orders and the faults
// that it names. Then is called for each of them, unless it is nil.
func Schedules(t *testing.T, register func(*scenarios.Registry), then func(t *testing.T, file string)) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(track.Schedules, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no schedules: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			h, s := Replay(t, register, file, nil)
			CameAbout(t, h)
			expect := s.Expect
			if broken := track.Broken(h); expect.Outcome != schedule.Violated || !slices.Contains(broken, expect.Property) {
				t.Errorf("it is to come to %+v, and breaks %q", expect, broken)
			}
			if then != nil {
				then(t, file)
			}
		})
	}
}

// CameAbout checks that all that a schedule asks for came about in its run: every order, and every fault.
func CameAbout(t testing.TB, h *history.History) {
	t.Helper()
	for _, c := range h.Constraints {
		if !c.Matched {
			t.Errorf("the order did not come about: %s", c)
		}
	}
	for _, fault := range h.Faults {
		if !fault.Struck {
			t.Errorf("%s did not strike", fault.Fault)
		}
	}
}

// Golden compares a text with a file, which SIM_UPDATE=1 writes.
func Golden(t testing.TB, file, got string) {
	t.Helper()
	if os.Getenv("SIM_UPDATE") == "1" {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v: SIM_UPDATE=1 writes it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s differs (-want +got); SIM_UPDATE=1 rewrites it:\n%s", file, diff)
	}
}
