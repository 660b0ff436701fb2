package clickhouse

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
	"github.com/stalemate-dev/stalemate/sim/simtest/simtrack"
)

// TestSingleFaults lets each fault that a scenario allows strike at each call of the default order, one in each run, and
// compares what every version of the operator makes of it with a golden file: the properties that were broken, and by which
// faults. SIM_UPDATE=1 writes them anew.
func TestSingleFaults(t *testing.T) {
	for _, file := range faultFiles {
		t.Run(file, func(t *testing.T) {
			var b strings.Builder
			for _, v := range variants {
				struck, broken := singleFaults(t, file, v.name)
				if struck == 0 {
					t.Errorf("%s: no fault struck", v.name)
				}
				fmt.Fprintf(&b, "%s: %d faults\n", v.name, struck)
				for _, properties := range slices.Sorted(maps.Keys(broken)) {
					fmt.Fprintf(&b, "  broken: %s\n", properties)
					for _, fault := range broken[properties] {
						fmt.Fprintf(&b, "    %s\n", fault)
					}
				}
			}
			simtrack.Golden(t, "testdata/faults/"+strings.TrimSuffix(file, ".yaml")+".txt", b.String())
		})
	}
}

// singleFaults runs a scenario once with each fault, and returns how many there were, and those that broke something by the
// properties that were broken.
func singleFaults(t *testing.T, file, reconciler string) (struck int, broken map[string][]string) {
	t.Helper()
	world := newWorld(t, file, reconciler)
	broken = map[string][]string{}
	_, faults := explore.Candidates(run(t, world, sim.Plan{}), world.Config())
	for _, fault := range faults {
		h := run(t, world, sim.Plan{Faults: []schedule.Fault{fault}})
		if len(h.Faults) != 1 || !h.Faults[0].Struck {
			t.Errorf("%s %s: it did not strike", reconciler, fault)
		}
		if h.Outcome != history.Terminal {
			t.Errorf("%s %s: the run ended %s: %s", reconciler, fault, h.Outcome, h.Reason)
		}
		struck++
		var names []string
		for _, verdict := range h.Broken() {
			names = append(names, verdict.Property.Name)
		}
		if len(names) > 0 {
			properties := strings.Join(names, ", ")
			broken[properties] = append(broken[properties], fault.String())
		}
	}
	return struck, broken
}
