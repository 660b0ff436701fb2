package ondelete

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/track"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// runSchedule runs a schedule, with a reconciler in place of its own unless that is empty. It returns what the schedule expects,
// too.
func runSchedule(t *testing.T, file, reconciler string) (*history.History, *schedule.Expectation) {
	t.Helper()
	registry := &scenarios.Registry{}
	Register(registry)
	s, err := scenarios.LoadSchedule(file, scenarios.Options{Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	overrides := map[string]string{}
	if reconciler != "" {
		overrides["operator"] = reconciler
	}
	config, err := s.Config(registry, overrides)
	if err != nil {
		t.Fatal(err)
	}
	world, err := sim.NewWorld(config)
	if err != nil {
		t.Fatal(err)
	}
	return run(t, world, sim.PlanOf(s.Spec)), &s.Spec.Expect
}

// TestSchedules checks that each schedule brings about what it expects, and that the same order does "ondelete/pods" no harm, where
// there is a node for it.
func TestSchedules(t *testing.T) {
	files, err := filepath.Glob("testdata/schedules/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			h, expect := runSchedule(t, file, "")
			if broken := track.Broken(h); !slices.Contains(broken, expect.Property) {
				t.Errorf("%s is to be broken, and these are: %q", expect.Property, broken)
			}
			for _, c := range h.Constraints {
				if !c.Matched {
					t.Errorf("the order did not come about: %s", c)
				}
			}
			if strings.Contains(file, "-replacer-") {
				return
			}
			// Where the operator is to repair currentRevision, all others leave it as kube-controller-manager does.
			h, _ = runSchedule(t, file, "ondelete/pods")
			broken := slices.DeleteFunc(unheld(t, h), func(name string) bool {
				return name == "update-rolled-out" || name == "status-was-patched"
			})
			if len(broken) > 0 {
				t.Errorf("with ondelete/pods, these do not hold: %q", broken)
			}
		})
	}
}

// TestLostPatch compares the writes of the set's status, one by one, from the patch on: it is overwritten by the status that was
// computed before it, and the set ends with the old revision.
func TestLostPatch(t *testing.T) {
	h, _ := runSchedule(t, "testdata/schedules/sync-in-flight.yaml", "")
	letter := letters(h)
	var writes []string
	for i := range h.Records {
		r := &h.Records[i]
		if r.Event.Kind != "StatefulSet" || r.Event.Subresource != "status" || len(writes) == 0 && r.Event.Actor != "operator" {
			continue
		}
		line := fmt.Sprintf("%s %s %d", r.Event.Actor, r.Event.Verb, r.Code)
		if set, ok := r.After.(*appsv1.StatefulSet); ok && r.Committed != 0 {
			s := &set.Status
			line += fmt.Sprintf(": current=%s update=%s cur=%d upd=%d ready=%d",
				letter(s.CurrentRevision), letter(s.UpdateRevision), s.CurrentReplicas, s.UpdatedReplicas, s.ReadyReplicas)
		}
		writes = append(writes, line)
	}
	want := []string{
		"operator Patch 200: current=B update=B cur=1 upd=1 ready=0",
		"kcm Update 409",
		"kcm Update 200: current=A update=B cur=0 upd=1 ready=1",
	}
	if diff := cmp.Diff(want, writes); diff != "" {
		t.Errorf("writes of the set's status (-want +got):\n%s", diff)
	}
}
