package clickhouse

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/simtest/simtrack"
)

// TestPinnedSchedule checks that the schedule which tells issue 1990 still brings it about, and that in the versions with a
// fix the same order does no harm: they meet the conflict, too.
func TestPinnedSchedule(t *testing.T) {
	const file = "testdata/schedules/annotation-between-get-and-update.yaml"
	broken := []string{"completed-means-replaced", "create-only-when-gone", "completed-means-another-set"}
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			h, _ := simtrack.Replay(t, Register, file, map[string]string{"operator": v.name})
			if !h.Constraints[0].Matched {
				t.Errorf("the order did not come about: %s", h.Constraints[0])
			}
			var want, got []string
			if v.name == "clickhouse/buggy" {
				want = append(broken, "SwallowedError")
			}
			for _, verdict := range h.Verdicts {
				if verdict.Status == property.Broken {
					got = append(got, verdict.Property.Name)
				}
				if verdict.Property.Name == "conflict-did-happen" && verdict.Status != property.Held {
					t.Errorf("there was no conflict: %s", verdict.Status)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("broken properties (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSchedulesLoad loads every schedule, and checks that each says what it is to come to.
func TestSchedulesLoad(t *testing.T) {
	registry := &scenarios.Registry{}
	Register(registry)
	files, err := filepath.Glob("testdata/schedules/*.yaml")
	if err != nil || !slices.Contains(files, "testdata/schedules/annotation-between-get-and-update.yaml") {
		t.Fatal(files, err)
	}
	for _, file := range files {
		s, err := scenarios.LoadSchedule(file, scenarios.Options{Registry: registry})
		if err != nil {
			t.Error(err)
			continue
		}
		if s.Spec.Expect.Outcome == "" {
			t.Errorf("%s does not say what it is to come to", file)
		}
	}
}
