package clickhouse

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
	"github.com/stalemate-dev/stalemate/sim/simtest/simtrack"
)

// The steps of the race, as runs name them.
const (
	scaleDown   = "operator(default/a) Update StatefulSet default/chi-a-0-0 #2"
	statusWrite = "kcm(default/chi-a-0-0) Update StatefulSet/status default/chi-a-0-0 #2"
	annotation  = "annotator(default/chi-a-0-0) Update StatefulSet default/chi-a-0-0 #1"
)

// cascade is the log of the original report, in order.
var cascade = []string{
	"switch from Update to Recreate",
	"doDeleteStatefulSet",
	"UNABLE to update",
	"StatefulSet create failed",
	"already exists",
	"Got recreate action. Ignore",
	"reconcile completed successfully",
}

func newWorld(t *testing.T, file, reconciler string) *sim.World {
	t.Helper()
	register := func(registry *scenarios.Registry) {
		Register(registry)
		for _, bug := range planted {
			bug.register(registry)
		}
	}
	scenario, registry := simtrack.Load(t, register, file)
	return simtrack.World(t, scenario, registry, map[string]string{"operator": reconciler})
}

func run(t *testing.T, world *sim.World, plan sim.Plan) *history.History {
	t.Helper()
	h, err := world.Run(plan)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestDefaultOrder checks that without interference every variant brings every scenario to a good end, by recreating the set.
func TestDefaultOrder(t *testing.T) {
	for _, file := range scenarioFiles {
		for _, v := range variants {
			t.Run(file+"/"+v.name, func(t *testing.T) {
				h := run(t, newWorld(t, file, v.name), sim.Plan{})
				if h.Outcome != history.Terminal {
					t.Errorf("the run ended %s: %s", h.Outcome, h.Reason)
				}
				for _, verdict := range h.Verdicts {
					if verdict.Status != property.Held {
						t.Errorf("%s: %s %s %v", verdict.Property.Name, verdict.Status, verdict.Error, verdict.Values)
					}
				}
				text := operatorLog(h)
				if !containsInOrder(text, []string{"doDeleteStatefulSet", "OK delete", "Create StatefulSet", "completed successfully"}) {
					t.Errorf("the set was not recreated:\n%s", text)
				}
			})
		}
	}
}

// TestRace checks that one write between the operator's Get and Update of the set is enough for issue 1990 in buggy, and
// harmless in the others.
func TestRace(t *testing.T) {
	tests := []struct {
		file, write string
		variants    []variant
		broken      []string // by buggy
	}{
		// The others have no Update to be raced: a set at 0 replicas is not scaled down again.
		{"recreate.yaml", statusWrite, variants[:1],
			[]string{"completed-means-scaled-up", "completed-means-replaced", "host-comes-back", "SwallowedError"}},
		{"recreate-scaled.yaml", annotation, variants, []string{"completed-means-replaced", "SwallowedError"}},
	}
	for _, test := range tests {
		for _, v := range test.variants {
			t.Run(test.file+"/"+v.name, func(t *testing.T) {
				world := newWorld(t, test.file, v.name)
				base := run(t, world, sim.Plan{})
				h := run(t, world, sim.Plan{Constraints: []schedule.Constraint{
					{Event: event(t, base, scaleDown), Waits: event(t, base, test.write)},
				}})
				if !h.Constraints[0].Matched {
					t.Errorf("the order did not come about: %s", h.Constraints[0])
				}
				var broken, want []string
				for _, verdict := range h.Broken() {
					broken = append(broken, verdict.Property.Name)
				}
				if v.name == "clickhouse/buggy" {
					want = test.broken
				}
				if diff := cmp.Diff(want, broken); diff != "" {
					t.Errorf("broken properties (-want +got):\n%s", diff)
				}
				text := operatorLog(h)
				if found := containsInOrder(text, cascade); found != (want != nil) {
					t.Errorf("the cascade is in the log: %t, want %t:\n%s", found, want != nil, text)
				}
			})
		}
	}
}

// completes is the property that only the scenarios with faults have.
const completes = "change-completes"

// planted are mistakes that no order is needed for, each in the place of deleteSet.
var planted = []variant{
	{name: "planted/left-at-zero", deleteSet: func(h *hostPass, ctx context.Context) error {
		set, err := h.get(ctx)
		if err != nil {
			return err
		}
		return h.scaleToZero(ctx, set)
	}},
	{name: "planted/renamed", deleteSet: func(h *hostPass, ctx context.Context) error {
		err := h.pollDelete(ctx)
		h.desired.Name = "chi-a-0-1"
		return err
	}},
	{name: "planted/one-too-many", deleteSet: func(h *hostPass, ctx context.Context) error {
		err := h.pollDelete(ctx)
		*h.desired.Spec.Replicas = 2
		return err
	}},
	{name: "planted/gives-up", deleteErrorEndsRecreate: true, deleteSet: func(*hostPass, context.Context) error {
		return errAbort
	}},
}

// TestPlantedBugs checks in every scenario that each property can be broken, and that none just repeats another.
func TestPlantedBugs(t *testing.T) {
	tests := map[string][]string{
		"planted/left-at-zero": {
			"completed-means-scaled-up", "completed-means-replaced", "host-comes-back", completes, "change-was-completed"},
		"planted/renamed": {
			"completed-means-scaled-up", "host-comes-back", completes, "recreate-path-was-reached", "change-was-completed"},
		"planted/one-too-many": {"host-comes-back", completes},
		"planted/gives-up":     {completes, "recreate-path-was-reached", "change-was-completed"},
	}
	for _, file := range scenarioFiles {
		for _, bug := range planted {
			t.Run(file+"/"+bug.name, func(t *testing.T) {
				h := run(t, newWorld(t, file, bug.name), sim.Plan{})
				var failed []string
				for _, verdict := range h.Verdicts {
					if verdict.Status != property.Held && verdict.Property.Type != property.Detector {
						failed = append(failed, verdict.Property.Name)
					}
				}
				want := slices.DeleteFunc(slices.Clone(tests[bug.name]), func(name string) bool {
					return name == completes && slices.Contains(orderFiles, file)
				})
				if diff := cmp.Diff(want, failed); diff != "" {
					t.Errorf("properties that do not hold (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// event returns the event of a run that has the name.
func event(t *testing.T, h *history.History, name string) schedule.Event {
	t.Helper()
	i := slices.IndexFunc(h.Records, func(r history.Record) bool { return r.Event.String() == name })
	if i < 0 {
		t.Fatalf("no step %s in the run", name)
	}
	return h.Records[i].Event
}

// operatorLog returns what the operator logged since the run began.
func operatorLog(h *history.History) string {
	var b strings.Builder
	for _, line := range h.Logs {
		if line.Actor == "operator" {
			b.WriteString(line.Message + "\n")
		}
	}
	return b.String()
}
