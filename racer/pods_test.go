package racer

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

func TestMinReadySeconds(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	k.create("StatefulSet", newSet(2, minReady(10)))
	k.settle()
	k.bind("web-0")
	k.ready("web-0")
	k.writes("kcm")
	at := k.now
	for k.set().Status.ReadyReplicas == 0 {
		k.run(1)
	}
	if s := k.set().Status; s.ReadyReplicas != 1 || s.AvailableReplicas != 0 || k.now.Sub(at) > time.Second {
		t.Errorf("after %v: %+v", k.now.Sub(at), s)
	}
	k.settle()
	if s := k.set().Status; s.AvailableReplicas != 1 || len(k.names("Pod")) != 2 {
		t.Errorf("after its ten seconds: %+v, pods %v", s, k.names("Pod"))
	}
}

// TestAvailabilityAtOneInstant lets a pod become available in the middle of a sync: the status says how it was when the sync
// began, and another sync follows at once.
func TestAvailabilityAtOneInstant(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	k.create("StatefulSet", newSet(1, parallel, minReady(10)))
	k.settle()
	k.bind("web-0")
	k.ready("web-0")
	k.patch("StatefulSet", "web", `{"spec":{"replicas":2}}`)
	var statuses []string
	k.after = func(_ string, r *apiserver.Request) {
		if r.Verb == schedule.Create && r.Kind.Kind == "Pod" {
			k.now = k.now.Add(11 * time.Second)
		}
		if r.Subresource == "status" {
			s := r.Object.(*appsv1.StatefulSet).Status
			statuses = append(statuses, fmt.Sprintf("ready=%d available=%d", s.ReadyReplicas, s.AvailableReplicas))
		}
	}
	created := k.now
	k.run(60)
	if len(statuses) < 2 || statuses[0] != "ready=1 available=0" || statuses[len(statuses)-1] != "ready=1 available=1" {
		t.Errorf("statuses %v, want none available at first and one at last", statuses)
	}
	if took := k.now.Sub(created); took > 12*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestNextAvailability(t *testing.T) {
	now := time.Date(2099, 1, 1, 0, 0, 10, 0, time.UTC)
	readySince := func(since time.Time) *corev1.Pod {
		pod := newTestPod("web-0")
		pod.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(since)}}
		return pod
	}
	pods := []*corev1.Pod{
		newTestPod("web-1"), readySince(time.Time{}), readySince(now.Add(-10 * time.Second)),
		readySince(now.Add(-2 * time.Second)), readySince(now.Add(-3 * time.Second)), readySince(now),
	}
	if at, ok := nextAvailability(pods, 10, now); !ok || at.Sub(now) != 7*time.Second {
		t.Errorf("the next pod becomes available in %v (%t), want 7s", at.Sub(now), ok)
	}
	if at, ok := nextAvailability(pods[:3], 10, now); ok {
		t.Errorf("a pod becomes available at %v, want none", at)
	}
}

func TestAvailable(t *testing.T) {
	now := time.Date(2099, 1, 1, 0, 0, 10, 0, time.UTC)
	tests := []struct {
		status   corev1.ConditionStatus
		since    time.Time
		minReady int32
		want     bool
	}{
		{corev1.ConditionTrue, now.Add(-10 * time.Second), 10, true},
		{corev1.ConditionTrue, now.Add(-9 * time.Second), 10, false},
		{corev1.ConditionFalse, now.Add(-time.Hour), 10, false},
		{corev1.ConditionFalse, time.Time{}, 0, false},
		{corev1.ConditionTrue, time.Time{}, 0, true},
		{corev1.ConditionTrue, time.Time{}, 10, false}, // it has no lastTransitionTime to count from
	}
	for _, test := range tests {
		pod := newTestPod("web-0")
		pod.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodReady, Status: test.status, LastTransitionTime: metav1.NewTime(test.since)}}
		if got := available(pod, test.minReady, now); got != test.want {
			t.Errorf("Ready=%s since %v, minReadySeconds %d: available %t", test.status, test.since, test.minReady, got)
		}
	}
}
