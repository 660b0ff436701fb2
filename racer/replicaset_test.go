package racer

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

func replicasOf(replicas int32) *appsv1.ReplicaSet {
	set := newSet(replicas)
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.ReplicaSetSpec{Replicas: set.Spec.Replicas, Selector: set.Spec.Selector, Template: set.Spec.Template},
	}
}

// newReplicasDriver returns a driver with a ReplicaSet controller alone, and its environment.
func newReplicasDriver(t *testing.T) (*driver, *driverEnv) {
	d := newDriver(t, apiserver.V136)
	return d, d.start("kcm", NewReplicaSetController(ReplicaSetControllerOptions{}))
}

func (d *driver) replicaSet() *appsv1.ReplicaSet {
	return d.get("ReplicaSet", "web").(*appsv1.ReplicaSet)
}

// TestReplicaSetCalls checks the calls of a ReplicaSet that is created, scaled and deleted.
func TestReplicaSetCalls(t *testing.T) {
	d, _ := newReplicasDriver(t)
	for _, step := range []struct {
		name string
		do   func()
		want []string
	}{
		{"create", func() { d.create("ReplicaSet", replicasOf(3)) },
			[]string{"Create Pod", "Create Pod", "Create Pod", "Update ReplicaSet/status web", "Update ReplicaSet/status web"}},
		{"scale down", func() { d.patch("ReplicaSet", "web", `{"spec":{"replicas":1}}`) },
			[]string{"Delete Pod", "Delete Pod", "Update ReplicaSet/status web", "Update ReplicaSet/status web"}},
		{"nothing of the spec", func() { d.patch("ReplicaSet", "web", `{"metadata":{"annotations":{"a":"b"}}}`) }, nil},
		{"no matching pods", func() { d.patch("Pod", d.names("Pod")[0], `{"metadata":{"labels":{"app":"other"}}}`) },
			[]string{"Patch Pod", "Create Pod", "Update ReplicaSet/status web", "Update ReplicaSet/status web"}},
	} {
		d.calls = nil
		step.do()
		d.settle()
		got := d.writes("kcm")
		for i := range got {
			if call, _, ok := strings.Cut(got[i], " Pod "); ok {
				got[i] = call + " Pod"
			}
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s: writes (-want +got):\n%s", step.name, diff)
		}
	}
}

// TestExpectations checks that what was asked for is not asked for again before the cache shows it.
func TestExpectations(t *testing.T) {
	d, env := newReplicasDriver(t)
	d.create("ReplicaSet", replicasOf(2))
	env.hold("Pod", true)
	d.settle()
	d.patch("ReplicaSet", "web", `{"metadata":{"annotations":{"a":"b"}}}`)
	d.settle()
	if pods := d.names("Pod"); len(pods) != 2 {
		t.Errorf("pods are %v, want two: the controller has not seen those that it created", pods)
	}
	env.hold("Pod", false)
	d.settle()
	env.hold("Pod", true)
	d.patch("ReplicaSet", "web", `{"spec":{"replicas":1}}`)
	d.settle()
	d.patch("ReplicaSet", "web", `{"metadata":{"annotations":{"a":"c"}}}`)
	d.settle()
	deletions := 0
	for _, call := range d.calls {
		if strings.HasPrefix(call, "kcm Delete Pod") {
			deletions++
		}
	}
	if deletions != 1 {
		t.Errorf("%d pods were deleted, want one: the controller has not seen that it goes", deletions)
	}
	env.hold("Pod", false)
	d.settle()
	if got := d.replicaSet().Status.Replicas; got != 1 {
		t.Errorf("status has %d replicas, want 1", got)
	}
}

// TestExpectationsExpire checks that the controller goes on after five minutes, if something makes it look.
func TestExpectationsExpire(t *testing.T) {
	now := time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)
	expected := expectations{}
	expected.expect("a", 2, 0, now)
	expected.created("a", 1)
	if expected.satisfied("a", now.Add(expectationsTimeout)) {
		t.Error("one of two creations was seen, and the time is not up")
	}
	if !expected.satisfied("a", now.Add(expectationsTimeout+1)) || !expected.satisfied("b", now) {
		t.Error("the time is up, or nothing was expected")
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p"}}
	expected.expectDeletions("a", []*corev1.Pod{pod}, now)
	expected.deleted("a", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "other"}})
	if expected.satisfied("a", now) {
		t.Error("another deletion was seen")
	}
	expected.deleted("a", pod)
	expected.deleted("a", pod)
	if !expected.satisfied("a", now) {
		t.Error("the deletion was seen")
	}
}

// TestSlowStart checks that creations come in batches of 1, 2 and 4, and end with the first batch in which one fails; that the
// status says so; and that the condition goes when nothing fails any more.
func TestSlowStart(t *testing.T) {
	d, _ := newReplicasDriver(t)
	creations := 0
	d.refuse = func(_ string, r *apiserver.Request) *apiserver.Response {
		if r.Verb != schedule.Create || r.Kind.Kind != "Pod" {
			return nil
		}
		if creations++; creations != 2 {
			return nil
		}
		return &apiserver.Response{Code: http.StatusForbidden, Err: newStatusError(http.StatusForbidden, metav1.StatusReasonForbidden)}
	}
	d.create("ReplicaSet", replicasOf(10))
	for range 1000 {
		if d.step(); d.replicaSet().Status.ObservedGeneration > 0 {
			break
		}
	}
	if pods := d.names("Pod"); len(pods) != 2 || creations != 3 {
		t.Errorf("%d creations made %d pods, want 3 to make 2", creations, len(pods))
	}
	if got := d.replicaSet().Status.Conditions; len(got) != 1 || got[0].Reason != "FailedCreate" {
		t.Errorf("conditions are %v, want FailedCreate", got)
	}
	d.settle()
	if status := d.replicaSet().Status; status.Replicas != 10 || len(status.Conditions) > 0 {
		t.Errorf("status is %s, want 10 replicas and no condition", replicaSetText(&status))
	}
}

// TestStatusIsTriedTwice checks that a status that was refused is put again after a read, and that the sync fails if it is refused
// again.
func TestStatusIsTriedTwice(t *testing.T) {
	d, _ := newReplicasDriver(t)
	d.refuse = func() func(string, *apiserver.Request) *apiserver.Response {
		return refuseWrites(schedule.Update, "ReplicaSet", 3, http.StatusConflict, metav1.StatusReasonConflict)
	}()
	d.create("ReplicaSet", replicasOf(0))
	d.settle()
	want := []string{
		"kcm Update ReplicaSet/status web -> 409", "kcm Get ReplicaSet web -> 200", "kcm Update ReplicaSet/status web -> 409",
		"kcm Update ReplicaSet/status web -> 409", "kcm Get ReplicaSet web -> 200", "kcm Update ReplicaSet/status web -> 200",
	}
	if diff := cmp.Diff(want, d.calls[1:]); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestReplicaSetAdopts checks that a ReplicaSet takes in a pod that matches, after a live read, and none while it is deleted.
func TestReplicaSetAdopts(t *testing.T) {
	d, _ := newReplicasDriver(t)
	pod := podFromTemplate(&replicasOf(1).Spec.Template, replicasOf(1), replicaSetGVK)
	pod.Name, pod.OwnerReferences = "stray", nil
	d.create("Pod", pod)
	set := replicasOf(1)
	set.Finalizers = []string{"example.com/hold"}
	d.create("ReplicaSet", set)
	d.settle()
	if names := d.names("Pod"); !slices.Equal(names, []string{"stray"}) || !metav1.IsControlledBy(d.get("Pod", "stray"), d.replicaSet()) {
		t.Errorf("pods are %v, want stray alone, controlled by the set", names)
	}
	if !slices.Contains(d.calls, "kcm Get ReplicaSet web -> 200") {
		t.Errorf("the set was not read before it adopted: %v", d.calls)
	}
	d.delete("ReplicaSet", "web", metav1.DeletePropagationBackground)
	other := podFromTemplate(&replicasOf(1).Spec.Template, replicasOf(1), replicaSetGVK)
	other.Name, other.OwnerReferences = "late", nil
	d.create("Pod", other)
	d.settle()
	if metav1.GetControllerOf(d.get("Pod", "late")) != nil {
		t.Error("a set that is being deleted adopted a pod")
	}
}

// TestDeletionOrder checks which pods go first: each is before the next, for one reason.
func TestDeletionOrder(t *testing.T) {
	now := time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)
	ready := func(ago time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodRunning
			p.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-ago))}}
		}
	}
	on := func(node string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = node } }
	cost := func(n int) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: fmt.Sprint(n)} }
	}
	restarted := func(n int32) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{RestartCount: n}} }
	}
	age := func(ago time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(now.Add(-ago)) }
	}
	pod := func(name string, change ...func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.PodStatus{Phase: corev1.PodPending}}
		for _, f := range append([]func(*corev1.Pod){on("empty")}, change...) {
			f(p)
		}
		return p
	}
	running := func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }
	want := []*corev1.Pod{
		pod("unassigned", on("")),
		pod("pending"),
		pod("not ready", running),
		pod("cheap", ready(time.Hour), cost(-1)),
		pod("in a crowd", ready(time.Hour), on("crowded")),
		pod("just ready", ready(time.Second)),
		pod("restarted", ready(time.Hour), restarted(2)),
		pod("young", ready(time.Hour), age(time.Minute)),
		pod("old", ready(time.Hour), age(24*time.Hour)),
		pod("dear", ready(time.Hour), cost(5)),
	}
	onNode := map[string]int{"empty": 1, "crowded": 3}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortStableFunc(got, func(a, b *corev1.Pod) int { return compareForDeletion(a, b, onNode, now) })
	for i := range want {
		if got[i].Name != want[i].Name {
			t.Errorf("number %d is %q, want %q", i+1, got[i].Name, want[i].Name)
		}
	}
}
