package ondelete

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
	"github.com/stalemate-dev/stalemate/sim/simtest/simtrack"
)

// newWorld returns the world of a scenario, or of the entry of its matrix for a version of Kubernetes, with a reconciler in place
// of the file's.
func newWorld(t *testing.T, file, version, reconciler string) *sim.World {
	t.Helper()
	scenario, registry := simtrack.Load(t, Register, file)
	values := map[string]string{}
	if version != "" {
		values["version"] = version
	}
	entry, err := scenario.Select(values)
	if err != nil {
		t.Fatal(err)
	}
	return simtrack.World(t, entry, registry, map[string]string{"operator": reconciler})
}

// unheld returns the names of the properties that do not hold. Detectors are none of them.
func unheld(t *testing.T, h *history.History) []string {
	t.Helper()
	var names []string
	for _, verdict := range h.Verdicts {
		if verdict.Property.Type == property.Detector {
			continue
		}
		switch verdict.Status {
		case property.Held:
		case property.Invalid:
			t.Errorf("%s is invalid: %v", verdict.Property.Name, verdict.Error)
		default:
			names = append(names, verdict.Property.Name)
		}
	}
	return names
}

// TestDefaultOrder checks what comes of each scenario when nobody interferes; run twice, it comes about in the same way.
func TestDefaultOrder(t *testing.T) {
	tests := []struct {
		file, version, reconciler string
		unheld                    []string
	}{
		{"rollout-1.36.yaml", "", "replacer", []string{"update-rolled-out", "no-replica-non-current"}},
		{"rollout-1.37.yaml", "", "replacer", nil},
		{"oracle.yaml", "1.36", "replacer", []string{"equal-revisions-mean-replaced"}},
		{"oracle.yaml", "1.37", "replacer", nil},
		{"restart.yaml", "", "replacer", nil},
		{"observe-image.yaml", "1.36", "sei", nil},
		{"observe-image.yaml", "1.36", "sei-379", []string{"status-has-one-writer"}},
		{"observe-image.yaml", "1.36", "pods", nil},
		{"observe-image.yaml", "1.37", "sei", nil},
		{"observe-image.yaml", "1.37", "sei-379", []string{"status-has-one-writer"}},
		{"observe-image.yaml", "1.37", "pods", nil},
		{"lost-patch.yaml", "", "sei", []string{"update-rolled-out", "status-was-patched"}},
		{"lost-patch.yaml", "", "sei-379", nil},
		{"lost-patch.yaml", "", "pods", []string{"update-rolled-out", "status-was-patched"}},
		{"rollback.yaml", "", "sei", []string{"image-is-rolled-out"}},
		{"rollback.yaml", "", "sei-379", nil},
		{"rollback.yaml", "", "pods", nil},
		{"rollback-1.37.yaml", "", "sei", nil},
		{"rollback-1.37.yaml", "", "sei-379", nil},
		{"rollback-1.37.yaml", "", "pods", nil},
		{"rollback-faults.yaml", "", "pods", nil},
		{"midway.yaml", "", "sei", nil},
		{"midway.yaml", "", "sei-379", nil},
		{"midway.yaml", "", "pods", nil},
	}
	for _, test := range tests {
		t.Run(test.file+"/"+test.version+"/"+test.reconciler, func(t *testing.T) {
			world := newWorld(t, test.file, test.version, "ondelete/"+test.reconciler)
			h := simtrack.Run(t, world, sim.Plan{})
			if diff := cmp.Diff(test.unheld, unheld(t, h)); diff != "" {
				t.Errorf("properties that do not hold (-want +got):\n%s", diff)
			}
			if again := simtrack.Run(t, world, sim.Plan{}); again.Hash != h.Hash {
				t.Errorf("a second run has hash %x, the first %x", again.Hash, h.Hash)
			}
		})
	}
}

// TestCalls compares the requests of each operator in rollback.yaml, in the default order, with testdata/calls. A request
// that was repeated with the same answer has its last time, too.
func TestCalls(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			h := simtrack.Run(t, newWorld(t, "rollback.yaml", "", v.name), sim.Plan{})
			var got strings.Builder
			for i := range h.Records {
				r := &h.Records[i]
				cached := r.Event.Verb == schedule.CachedGet || r.Event.Verb == schedule.CachedList
				if r.Event.Actor != "operator" || r.Code == 0 && !cached || r.Event.Verb == schedule.Watch {
					continue
				}
				call := []string{string(r.Event.Verb), r.Event.Kind}
				if r.Event.Subresource != "" {
					call[1] += "/" + r.Event.Subresource
				}
				if r.Event.Name != "" {
					call = append(call, r.Event.Name)
				}
				if !cached {
					call = append(call, strconv.Itoa(r.Code))
				}
				fmt.Fprintf(&got, "%9.3fs  %s", r.At.Seconds(), strings.Join(call, " "))
				if r.Repeats > 0 {
					fmt.Fprintf(&got, ", and %d more until %.3fs", r.Repeats, r.LastAt.Seconds())
				}
				got.WriteByte('\n')
			}
			file := filepath.Join("testdata", "calls", strings.TrimPrefix(v.name, "ondelete/")+".txt")
			simtrack.Golden(t, file, got.String())
		})
	}
}
