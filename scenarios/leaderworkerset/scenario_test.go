package leaderworkerset

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/track"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
	"github.com/stalemate-dev/stalemate/sim/simtest/simtrack"
)

func newWorld(t *testing.T, scenario *scenarios.Scenario, registry *scenarios.Registry, reconciler string) *sim.World {
	t.Helper()
	return simtrack.World(t, scenario, registry, map[string]string{"lws": reconciler})
}

func run(t *testing.T, world *sim.World, plan sim.Plan) *history.History {
	t.Helper()
	h := simtrack.Run(t, world, plan)
	for _, verdict := range h.Verdicts {
		unused := verdict.Status == property.NotExercised && verdict.Property.Type == property.Request
		if verdict.Status != property.Held && verdict.Status != property.Broken && !unused {
			t.Errorf("%s: %s %s", verdict.Property.Name, verdict.Status, verdict.Error)
		}
	}
	return h
}

// TestDefaultOrder compares what every version makes of every way to delete and create again, without interference, with a
// golden file: the properties that are broken. It does so twice: the histories must be the same.
func TestDefaultOrder(t *testing.T) {
	scenario, registry := simtrack.Load(t, Register, "delete-recreate.yaml")
	var b strings.Builder
	for _, entry := range scenario.Entries() {
		fmt.Fprintf(&b, "%s\n", entry.Entry)
		for _, v := range variants {
			world := newWorld(t, entry, registry, v.name)
			h := run(t, world, sim.Plan{})
			if again := run(t, world, sim.Plan{}); again.Hash != h.Hash {
				t.Errorf("%s, %s: a second run gives hash %x, want %x", entry.Entry, v.name, again.Hash, h.Hash)
			}
			fmt.Fprintf(&b, "  %s: %s\n", v.name, cmp.Or(strings.Join(track.Stated(h), ", "), "holds"))
		}
	}
	simtrack.Golden(t, "testdata/default-order.txt", b.String())
}

// call names a call without its actor and its number.
func call(r history.Record) string {
	kind := r.Event.Kind
	if r.Event.Subresource != "" {
		kind += "/" + r.Event.Subresource
	}
	return strings.TrimSuffix(fmt.Sprintf("%s %s %s", r.Event.Verb, kind, r.Event.Name), " ")
}

// TestCalls compares the calls of the operator, pass by pass, with golden files: of an LWS whose predecessor is gone, and of one
// that adopts its set and updates it. A cached read with the same answer as the one before it is not told again.
func TestCalls(t *testing.T) {
	scenario, registry := simtrack.Load(t, Register, "delete-recreate.yaml")
	for _, policy := range []string{"Background", "Orphan"} {
		t.Run(policy, func(t *testing.T) {
			entry, err := scenario.Select(map[string]string{"policy": policy, "delay": "0s", "reads": "Cached", "again": "lws-changed"})
			if err != nil {
				t.Fatal(err)
			}
			h := run(t, newWorld(t, entry, registry, "leaderworkerset/fixed"), sim.Plan{})
			var b strings.Builder
			pass := 0
			for _, r := range h.Records {
				if r.Event.Actor != "lws" || r.Attempt == 0 || r.Event.Kind == "Event" || r.Event.Verb == schedule.Dequeue {
					continue
				}
				if r.Attempt != pass {
					pass = r.Attempt
					fmt.Fprintf(&b, "pass %d\n", pass)
				}
				fmt.Fprintf(&b, "  %s", call(r))
				if r.Code != 0 {
					fmt.Fprintf(&b, " -> %d", r.Code)
				}
				b.WriteString("\n")
			}
			simtrack.Golden(t, "testdata/calls-"+strings.ToLower(policy)+".txt", b.String())
		})
	}
}

// TestRace holds the garbage collector back from the old set until the operator has applied the new one: fatal in the versions
// that take any set of the name, and harmless in the one that looks whose it is.
func TestRace(t *testing.T) {
	scenario, registry := simtrack.Load(t, Register, "background.yaml")
	slow := sim.Plan{Constraints: []schedule.Constraint{{Order: &schedule.Order{
		Hold:  schedule.Selector{Actor: "gc", Verbs: []schedule.Verb{schedule.Delete}, Kind: "StatefulSet"},
		Until: schedule.Selector{Actor: "lws", Verbs: []schedule.Verb{schedule.Patch}, Kind: "StatefulSet", Occurrence: 2},
	}}}}
	bad := []string{"no-revision-from-a-dying-set", "revision-has-its-own-key", "available-means-updated"}
	tests := []struct {
		variant string
		want    []string
	}{
		{"leaderworkerset/buggy", bad},
		{"leaderworkerset/fixed", bad},
		{"leaderworkerset/hardened", nil},
	}
	for _, test := range tests {
		t.Run(test.variant, func(t *testing.T) {
			world := newWorld(t, scenario, registry, test.variant)
			if broken := track.Stated(run(t, world, sim.Plan{})); len(broken) > 0 {
				t.Errorf("the default order breaks %v", broken)
			}
			h := run(t, world, slow)
			if !h.Constraints[0].Held {
				t.Errorf("nothing was held: %s", h.Constraints[0])
			}
			if diff := gocmp.Diff(test.want, track.Stated(h)); diff != "" {
				t.Errorf("broken properties (-want +got):\n%s", diff)
			}
		})
	}
}

// TestForced checks that the fix does what it is for: where the old set is being deleted, the default order is fatal without it.
func TestForced(t *testing.T) {
	scenario, registry := simtrack.Load(t, Register, "forced.yaml")
	for _, entry := range scenario.Entries() {
		for _, v := range variants {
			broken := track.Stated(run(t, newWorld(t, entry, registry, v.name), sim.Plan{}))
			if found := len(broken) > 0; found != (v.name == "leaderworkerset/buggy") {
				t.Errorf("%s, %s: breaks %v", entry.Entry, v.name, broken)
			}
		}
	}
}

// TestObjects checks that the two LeaderWorkerSets differ only in their image, once the webhook has filled in what one leaves out.
func TestObjects(t *testing.T) {
	first, changed := readLWS(t, "objects/lws.yaml"), readLWS(t, "objects/lws-changed.yaml")
	before := first.DeepCopy()
	for _, lws := range []*LeaderWorkerSet{first, changed} {
		if err := (lwsDefaults{}).Default(t.Context(), lws); err != nil {
			t.Fatal(err)
		}
	}
	if diff := gocmp.Diff(before, first); diff != "" {
		t.Errorf("lws.yaml leaves something out (-written +defaulted):\n%s", diff)
	}
	first.Spec.LeaderWorkerTemplate.WorkerTemplate.Spec.Containers[0].Image = "vllm:2"
	if diff := gocmp.Diff(first, changed); diff != "" {
		t.Errorf("the objects differ in more than their image (-lws.yaml +lws-changed.yaml):\n%s", diff)
	}
}

func readLWS(t *testing.T, file string) *LeaderWorkerSet {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lws := &LeaderWorkerSet{}
	if err := yaml.UnmarshalStrict(data, lws); err != nil {
		t.Fatal(err)
	}
	return lws
}
