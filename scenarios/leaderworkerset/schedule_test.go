package leaderworkerset

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/track"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// TestSchedules replays what was found in the fixed version: each schedule still breaks the property that it names.
func TestSchedules(t *testing.T) {
	registry := &scenarios.Registry{}
	Register(registry)
	files, err := filepath.Glob("testdata/schedules/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no schedules: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			s, err := scenarios.LoadSchedule(file, scenarios.Options{Registry: registry})
			if err != nil {
				t.Fatal(err)
			}
			config, err := s.Config(registry, nil)
			if err != nil {
				t.Fatal(err)
			}
			world, err := sim.NewWorld(config)
			if err != nil {
				t.Fatal(err)
			}
			broken := track.Broken(run(t, world, sim.PlanOf(s.Spec)))
			if s.Spec.Expect.Outcome != schedule.Violated || !slices.Contains(broken, s.Spec.Expect.Property) {
				t.Errorf("it is to come to %+v, and breaks %v", s.Spec.Expect, broken)
			}
		})
	}
}
