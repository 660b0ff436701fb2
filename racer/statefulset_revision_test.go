package racer

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

func TestTruncateHistory(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	k.up(newSet(1, func(set *appsv1.StatefulSet) { set.Spec.RevisionHistoryLimit = new(int32(1)) }))
	for v := range 3 {
		k.patch("StatefulSet", "web", fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"v":"%d"}}}}}`, v))
		k.settle()
		if name := "web-0"; k.get("Pod", name) != nil && terminating(k.pod(name)) {
			k.remove(name)
			k.settle()
		}
		k.bind("web-0")
		k.ready("web-0")
		k.settle()
	}
	var numbers []int64
	for _, obj := range k.server.List(k.kind("ControllerRevision"), "default") {
		numbers = append(numbers, obj.(*appsv1.ControllerRevision).Revision)
	}
	slices.Sort(numbers)
	if !slices.Equal(numbers, []int64{3, 4}) {
		t.Errorf("revisions %v are left, want the live one and one more", numbers)
	}
}

func TestRevisionCollision(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	other := newSet(1)
	other.Spec.Template.Annotations = map[string]string{"v": "other"}
	k.create("StatefulSet", newSet(0))
	stored := k.set()
	taken, err := NewRevision(stored, 1)
	if err != nil {
		t.Fatal(err)
	}
	name := taken.Name
	data, err := revisionData(other)
	if err != nil {
		t.Fatal(err)
	}
	taken.Data.Raw, taken.OwnerReferences, taken.Labels = data, nil, nil
	k.create("ControllerRevision", taken)
	k.expect(
		"Create ControllerRevision rev -> 409",
		"Create ControllerRevision rev",
		"Update StatefulSet/status web {gen=1 repl=0 ready=0 cur=0 upd=0 c=u}")
	if s := k.set().Status; *s.CollisionCount != 1 || s.UpdateRevision == name {
		t.Errorf("status %+v after a collision with %s", s, name)
	}
}

// TestRevisionSemanticallyEqual gives the set a revision whose data lack a default: no new revision, no rollout.
func TestRevisionSemanticallyEqual(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	k.create("StatefulSet", newSet(0))
	revision, err := NewRevision(k.set(), 7)
	if err != nil {
		t.Fatal(err)
	}
	raw := strings.Replace(string(revision.Data.Raw), `"dnsPolicy":"ClusterFirst",`, "", 1)
	if raw == string(revision.Data.Raw) {
		t.Fatalf("no default to leave out in %s", raw)
	}
	revision.Data.Raw = []byte(raw)
	k.create("ControllerRevision", revision)
	k.expect("Update StatefulSet/status web {gen=1 repl=0 ready=0 cur=0 upd=0 c=u}")
	if got := k.set().Status.UpdateRevision; got != revision.Name {
		t.Errorf("update revision %s, want %s", got, revision.Name)
	}
}

// TestRevisionRenumberConflict lets somebody write the old revision between the controller's read and its PUT.
func TestRevisionRenumberConflict(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	k.up(newSet(0))
	first := k.names("ControllerRevision")[0]
	k.patch("StatefulSet", "web", `{"spec":{"template":{"metadata":{"annotations":{"v":"2"}}}}}`)
	k.settle()
	k.writes("kcm")
	done := false
	k.refuse = func(actor string, r *apiserver.Request) *apiserver.Response {
		if actor == "kcm" && r.Kind.Kind == "ControllerRevision" && !done {
			done = true
			k.patch("ControllerRevision", first, `{"metadata":{"annotations":{"by":"user"}}}`)
		}
		return nil
	}
	k.patch("StatefulSet", "web", `{"spec":{"template":{"metadata":{"annotations":null}}}}`)
	k.expect(
		"Update ControllerRevision rev -> 409",
		"Update ControllerRevision rev -> 409", // the cache has it only now
		"Update ControllerRevision rev",
		"Update StatefulSet/status web {gen=3 repl=0 ready=0 cur=0 upd=0 c=u}")
	revision := k.get("ControllerRevision", first).(*appsv1.ControllerRevision)
	if revision.Revision != 3 || revision.Annotations["by"] != "user" {
		t.Errorf("revision %d, annotations %v", revision.Revision, revision.Annotations)
	}
}

// TestRevisionRenumberedBefore has a second sync renumber a revision again, as its cache lacks the first sync's write. When
// the cache shows it after the conflict, there is nothing left to write.
func TestRevisionRenumberedBefore(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	k.up(newSet(0))
	k.patch("StatefulSet", "web", `{"spec":{"template":{"metadata":{"annotations":{"v":"2"}}}}}`)
	k.settle()
	k.writes("kcm")
	k.env.hold("ControllerRevision", true)
	k.after = func(_ string, r *apiserver.Request) {
		if r.Kind.Kind == "StatefulSet" && r.Subresource == "status" {
			k.after = func(_ string, r *apiserver.Request) { k.env.hold("ControllerRevision", r.Verb != schedule.Update) }
		}
	}
	k.patch("StatefulSet", "web", `{"spec":{"template":{"metadata":{"annotations":null}}}}`)
	k.expect(
		"Update ControllerRevision rev",
		"Update StatefulSet/status web {gen=3 repl=0 ready=0 cur=0 upd=0 c=u}",
		"Update ControllerRevision rev -> 409",
		"Update ControllerRevision rev -> 409") // the cache has it only now
}
