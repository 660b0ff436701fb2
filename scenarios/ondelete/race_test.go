package ondelete

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/stalemate-dev/stalemate/sim/simtest/simtrack"
)

// TestSchedules checks that each schedule brings about what it expects, and that the same order does "ondelete/pods" no harm, where
// there is a node for it.
func TestSchedules(t *testing.T) {
	simtrack.Schedules(t, Register, func(t *testing.T, file string) {
		if strings.Contains(file, "-replacer-") {
			return
		}
		// Where the operator is to repair currentRevision, all others leave it as kube-controller-manager does.
		h, _ := simtrack.Replay(t, Register, file, map[string]string{"operator": "ondelete/pods"})
		broken := slices.DeleteFunc(unheld(t, h), func(name string) bool {
			return name == "update-rolled-out" || name == "status-was-patched"
		})
		if len(broken) > 0 {
			t.Errorf("with ondelete/pods, these do not hold: %q", broken)
		}
	})
}

// TestLostPatch compares the writes of the set's status, one by one, from the patch on: it is overwritten by the status that was
// computed before it, and the set ends with the old revision.
func TestLostPatch(t *testing.T) {
	h, _ := simtrack.Replay(t, Register, "testdata/schedules/sync-in-flight.yaml", nil)
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
