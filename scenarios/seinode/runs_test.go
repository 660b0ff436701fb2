package seinode

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stalemate-dev/stalemate/scenarios/track"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
	"github.com/stalemate-dev/stalemate/sim/simtest/simtrack"
)

// scenarioFiles returns the scenarios of this folder.
func scenarioFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	return files
}

func newWorld(t *testing.T, file, reconciler string) *sim.World {
	t.Helper()
	scenario, registry := simtrack.Load(t, Register, file)
	return simtrack.World(t, scenario, registry, map[string]string{"operator": reconciler})
}

func run(t *testing.T, world *sim.World, plan sim.Plan) *history.History {
	t.Helper()
	return simtrack.Run(t, world, world.Config().CompletePlan(plan))
}

func event(t *testing.T, name string) schedule.Event {
	t.Helper()
	e, err := schedule.ParseEvent(name)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// operatorCalls returns the calls of the operator, pass by pass. One that repeats an earlier one, with the same answer, has no
// record of its own.
func operatorCalls(h *history.History) string {
	var b strings.Builder
	pass := 0
	for i := range h.Records {
		r := &h.Records[i]
		verb := r.Event.Verb
		if r.Event.Actor != "operator" || !verb.IsRequest() && verb != schedule.CachedGet || r.Attempt == 0 {
			continue
		}
		if r.Attempt != pass {
			pass = r.Attempt
			fmt.Fprintf(&b, "pass %d\n", pass)
		}
		answer := ""
		switch {
		case r.Code >= 300:
			answer = fmt.Sprintf(" -> %d %s", r.Code, r.Reason)
		case verb.IsWrite() && r.Committed == 0:
			answer = " -> no change"
		}
		fmt.Fprintf(&b, "  %s %s%s\n", verb, strings.TrimSuffix(r.Event.Kind+"/"+r.Event.Subresource, "/"), answer)
	}
	return b.String()
}

// TestDefaultOrder runs every scenario with every variant without interference: it ends, and breaks nothing but what the variant
// breaks whatever the order. The operator's calls are those of the golden files, which SIM_UPDATE=1 writes anew.
func TestDefaultOrder(t *testing.T) {
	always := map[string][]string{
		"restored.yaml/seinode/v345":        {deletesItsOwn},
		"restored-cached.yaml/seinode/v345": {deletesItsOwn},
		"rest.yaml/seinode/v345-first":      {idleUpdates},
	}
	for _, file := range scenarioFiles(t) {
		for _, v := range variants {
			name := file + "/" + v.name
			t.Run(name, func(t *testing.T) {
				world := newWorld(t, file, v.name)
				h := run(t, world, sim.Plan{})
				if diff := cmp.Diff(always[name], track.Stated(h)); diff != "" {
					t.Errorf("broken (-want +got):\n%s", diff)
				}
				for _, verdict := range h.Verdicts {
					if verdict.Status == property.Invalid {
						t.Errorf("%s: %s", verdict.Property.Name, verdict.Error)
					}
				}
				if again := run(t, world, sim.Plan{}); again.Hash != h.Hash {
					t.Errorf("two runs have hashes %x and %x", h.Hash, again.Hash)
				}
				path := fmt.Sprintf("testdata/calls/%s-%s.txt", strings.TrimSuffix(file, ".yaml"), filepath.Base(v.name))
				simtrack.Golden(t, path, operatorCalls(h))
			})
		}
	}
}

// TestCacheSpeed checks that the caches decide which variant deletes a set of its own. With fast ones v345 does. With one that shows
// the impostor for one look longer, that is the task's look, and v345 does no harm; v345-first deletes by its name what it has just
// created, and so does v348, where that look is the next pass's. With a status that is a pass old, every variant does.
func TestCacheSpeed(t *testing.T) {
	hold := func(deliver, read string) []schedule.Constraint {
		return []schedule.Constraint{{
			Event: event(t, "operator Deliver "+deliver), Waits: event(t, "operator(default/rpc-0) CachedGet "+read),
		}}
	}
	tests := []struct {
		name   string
		order  []schedule.Constraint
		broken []string // the variants
	}{
		{"fast", nil, []string{"seinode/v345"}},
		{"slow", hold("StatefulSet default/rpc-0 #1", "StatefulSet default/rpc-0 #2"),
			[]string{"seinode/v345-first", "seinode/v348"}},
		{"slow status", hold("SeiNode default/rpc-0 #1", "SeiNode default/rpc-0 #3"),
			[]string{"seinode/v345-first", "seinode/v345", "seinode/v348"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var broken []string
			for _, v := range variants {
				h := run(t, newWorld(t, "restored-cached.yaml", v.name), sim.Plan{Constraints: test.order})
				if slices.Contains(track.Stated(h), deletesItsOwn) {
					broken = append(broken, v.name)
				}
				simtrack.CameAbout(t, h)
			}
			if diff := cmp.Diff(test.broken, broken); diff != "" {
				t.Errorf("the variants that delete a set of their own (-want +got):\n%s", diff)
			}
		})
	}
}

// TestChurn deletes the set once by hand and refuses the first writes of the status that follow. Each costs v345 a set of its own;
// v348 gets by with half as many, as it adopts what it finds after each.
func TestChurn(t *testing.T) {
	tests := map[string][]int{ // the sets deleted, by the number of refusals
		"seinode/v345-first": {0, 1, 2, 3, 4, 5, 6},
		"seinode/v345":       {0, 1, 2, 3, 4, 5, 6},
		"seinode/v348":       {0, 1, 1, 2, 2, 3, 3},
	}
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			world := newWorld(t, "faults.yaml", v.name)
			var got []int
			for refusals := range len(tests[v.name]) {
				var plan sim.Plan
				for n := range refusals {
					name := fmt.Sprintf("operator(default/rpc-0) Patch SeiNode/status default/rpc-0 #%d", n+1)
					plan.Faults = append(plan.Faults, schedule.Fault{Type: schedule.Conflict, At: event(t, name)})
				}
				h := run(t, world, plan)
				simtrack.CameAbout(t, h)
				got = append(got, deletions(h))
			}
			if diff := cmp.Diff(tests[v.name], got); diff != "" {
				t.Errorf("sets of its own that the operator deleted (-want +got):\n%s", diff)
			}
		})
	}
}

// deletions counts the sets that the operator has deleted.
func deletions(h *history.History) int {
	n := 0
	for i := range h.Records {
		r := &h.Records[i]
		if r.Event.Actor == "operator" && r.Event.Verb == schedule.Delete && r.Event.Kind == "StatefulSet" && r.Committed != 0 {
			n++
		}
	}
	return n
}
