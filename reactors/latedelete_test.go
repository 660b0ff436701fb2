package reactors_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/racer"
	"github.com/stalemate-dev/stalemate/reactors"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// keptFor30s is a fault that keeps the Secret "app" when the operator deletes it.
var keptFor30s = at(schedule.LateDelete, schedule.Delete, "Secret", schedule.Params{})

// deleting is an operator that deletes the Secret "app", and looks every 20 s what has come of it.
func (d *diary) deleting() operator {
	return d.once(func(ctx context.Context, live ctrlclient.Client) {
		d.write("delete: %v", live.Delete(ctx, secret("app")))
		for range 4 {
			found := &corev1.Secret{}
			err := live.Get(ctx, appKey, found)
			d.write("get: %v, %q, terminating %t", err, found.Finalizers, found.DeletionTimestamp != nil)
			time.Sleep(20 * time.Second)
		}
	})
}

// What such an operator sees of a Secret that is gone, and of one with finalizers.
const seenGone = `get: secrets "app" not found, [], terminating false`

func seenKept(terminating bool, finalizers ...string) string {
	return fmt.Sprintf("get: <nil>, %q, terminating %t", finalizers, terminating)
}

const (
	lateFinalizer  = reactors.LateDeleteFinalizer
	otherFinalizer = "example.com/other"
)

func keptBy(finalizers ...string) *corev1.Secret {
	kept := secret("app")
	kept.Finalizers = finalizers
	return kept
}

// TestLateDelete checks the life of an object that somebody else keeps, and which ones it leaves alone.
func TestLateDelete(t *testing.T) {
	terminating := keptBy(otherFinalizer)
	terminating.DeletionTimestamp = &metav1.Time{Time: sim.Epoch}
	tests := []struct {
		name   string
		given  *corev1.Secret // nil for none
		struck bool
		want   [5]string // at the delete, and at 0, 20, 40 and 60 s
	}{
		{"plain", secret("app"), true,
			[5]string{"<nil>", seenKept(true, lateFinalizer), seenKept(true, lateFinalizer), seenGone, seenGone}},
		{"with another finalizer", keptBy(otherFinalizer), true, [5]string{"<nil>", seenKept(true, otherFinalizer, lateFinalizer),
			seenKept(true, otherFinalizer, lateFinalizer), seenKept(true, otherFinalizer), seenKept(true, otherFinalizer)}},
		{"deleted already", terminating, false, [5]string{"<nil>", seenKept(true, otherFinalizer), seenKept(true, otherFinalizer),
			seenKept(true, otherFinalizer), seenKept(true, otherFinalizer)}},
		{"kept already", keptBy(lateFinalizer), false, [5]string{"<nil>", seenKept(true, lateFinalizer), seenKept(true, lateFinalizer),
			seenKept(true, lateFinalizer), seenKept(true, lateFinalizer)}},
		{"not there", nil, false, [5]string{`secrets "app" not found`, seenGone, seenGone, seenGone, seenGone}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := scenario{given: []apiserver.Object{configMap(nil)}}
			if test.given != nil {
				s.given = append(s.given, test.given)
			}
			d := &diary{}
			h := d.try(t, s, d.deleting(), keptFor30s)
			d.expect(t, h, "0s delete: "+test.want[0], "0s "+test.want[1], "20s "+test.want[2], "40s "+test.want[3], "1m0s "+test.want[4])
			if h.Faults[0].Struck != test.struck {
				t.Errorf("it struck: %t", !test.struck)
			}
		})
	}
}

// TestLateDeleteOfADryRun checks that nothing is kept of what is not deleted.
func TestLateDeleteOfADryRun(t *testing.T) {
	d := &diary{}
	h := d.try(t, scenario{given: []apiserver.Object{configMap(nil), secret("app")}},
		d.once(func(ctx context.Context, live ctrlclient.Client) {
			d.write("delete: %v", live.Delete(ctx, secret("app"), ctrlclient.DryRunAll))
		}), keptFor30s)
	d.expect(t, h, "0s delete: <nil>")
	if h.Faults[0].Struck {
		t.Error("it struck")
	}
}

// TestLateDeleteCounts checks that an object which is kept has another generation, and that a second delete changes nothing.
func TestLateDeleteCounts(t *testing.T) {
	labels := map[string]string{"app": "app"}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "app"},
		Spec: appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}},
	}
	d := &diary{}
	h := d.run(t, scenario{given: []apiserver.Object{configMap(nil), set}},
		d.once(func(ctx context.Context, live ctrlclient.Client) {
			for range 2 {
				d.write("delete: %v", live.Delete(ctx, set.DeepCopy()))
				found := &appsv1.StatefulSet{}
				err := live.Get(ctx, appKey, found)
				d.write("get: %v, generation %d, grace %d", err, found.Generation, *found.DeletionGracePeriodSeconds)
				d.write("terminating since %s", found.DeletionTimestamp.Sub(d.begin).Truncate(time.Second))
				time.Sleep(10 * time.Second)
			}
		}), at(schedule.LateDelete, schedule.Delete, "StatefulSet", schedule.Params{}))
	d.expect(t, h, "0s delete: <nil>", "0s get: <nil>, generation 2, grace 0", "0s terminating since 0s",
		"10s delete: <nil>", "10s get: <nil>, generation 2, grace 0", "10s terminating since 0s")
}

// TestLateDeleteIsTold checks what followers are told of an object that is kept: of two changes, and of a deletion when it goes.
func TestLateDeleteIsTold(t *testing.T) {
	numbered := secret("app")
	numbered.Labels = map[string]string{"n": "0"}
	remove := racer.UserStep{At: 10 * time.Second, Delete: &racer.UserDelete{Kind: "Secret", Namespace: "default", Name: "app"}}
	users := keptFor30s
	users.Select = &schedule.Selector{Actor: "user", Verbs: []schedule.Verb{schedule.Delete}}
	d := &diary{}
	h := d.run(t, scenario{given: []apiserver.Object{configMap(nil), numbered}, racers: []sim.RacerConfig{user(remove)}}, d.watching(),
		users)
	const changed = "10s updated app 0 to 0, same object"
	d.expect(t, h, "0s created app 0, initial", changed, changed, "40s deleted app 0, tombstone false")
}

// TestLateDeleteOfAnother checks that nothing is taken from an object of the same name that has come in between, whatever its
// finalizers.
func TestLateDeleteOfAnother(t *testing.T) {
	release := racer.UserStep{At: 10 * time.Second, Patch: &racer.UserPatch{Kind: "Secret", Namespace: "default", Name: "app",
		Data: []byte(`{"metadata":{"finalizers":null}}`)}}
	create := racer.UserStep{At: 11 * time.Second, Create: &racer.UserCreate{Kind: "Secret", Object: keptBy(lateFinalizer)}}
	d := &diary{}
	h := d.run(t, scenario{given: []apiserver.Object{configMap(nil), secret("app")},
		racers: []sim.RacerConfig{user(release, create)}}, d.deleting(), keptFor30s)
	another := seenKept(false, lateFinalizer)
	d.expect(t, h, "0s delete: <nil>", "0s "+seenKept(true, lateFinalizer), "20s "+another, "40s "+another, "1m0s "+another)
}

// TestLateDeleteReleased checks that nothing is done about a finalizer that somebody else has taken away, be the object gone
// with it or not.
func TestLateDeleteReleased(t *testing.T) {
	release := racer.UserStep{At: 10 * time.Second, Patch: &racer.UserPatch{Kind: "Secret", Namespace: "default", Name: "app",
		Type: types.StrategicMergePatchType,
		Data: []byte(`{"metadata":{"$deleteFromPrimitiveList/finalizers":["` + lateFinalizer + `"]}}`)}}
	for want, given := range map[string]*corev1.Secret{seenGone: secret("app"), seenKept(true, otherFinalizer): keptBy(otherFinalizer)} {
		d := &diary{}
		h := d.run(t, scenario{given: []apiserver.Object{configMap(nil), given}, racers: []sim.RacerConfig{user(release)}},
			d.deleting(), keptFor30s)
		var made []time.Duration
		for i := range h.Records {
			if r := &h.Records[i]; r.Event.Actor == reactors.Finalizer && r.Event.Verb.IsRequest() {
				made = append(made, r.At.Truncate(time.Second))
			}
		}
		if last := d.lines[len(d.lines)-1]; !slices.Equal(made, []time.Duration{0}) || last != "1m0s "+want {
			t.Errorf("its requests are at %s, and in the end the operator's %s, want %s%s", made, last, want, steps(h))
		}
	}
}
