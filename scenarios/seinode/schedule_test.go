package seinode

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/track"
	"github.com/stalemate-dev/stalemate/sim"
)

// TestSchedules replays what was found in v348: each breaks what it is to break, by what it names.
func TestSchedules(t *testing.T) {
	registry := &scenarios.Registry{}
	Register(registry)
	files, err := filepath.Glob("testdata/schedules/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
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
			h := run(t, world, sim.PlanOf(s.Spec))
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
			if want := s.Spec.Expect.Property; want == "" || !slices.Contains(track.Broken(h), want) {
				t.Errorf("broken: %q, want %q", track.Broken(h), want)
			}
		})
	}
}
