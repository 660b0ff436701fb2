package leaderworkerset

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// parseGroups reads the states of groups, one letter each from the first on: U is updated and ready, u updated, O old and ready,
// o old.
func parseGroups(text string) []group {
	var groups []group
	for _, letter := range text {
		groups = append(groups, group{ready: strings.ContainsRune("UO", letter), updated: strings.ContainsRune("Uu", letter)})
	}
	return groups
}

func TestNextPartition(t *testing.T) {
	tests := []struct {
		groups string
		step   int32
		want   int32
	}{
		{"OOOO", 1, 3}, // the last one first
		{"OOOo", 1, 3}, // it is on its way
		{"OOOU", 1, 2}, // it is done: the next one
		{"OOOu", 1, 3}, // it is not ready yet
		{"OOUU", 1, 1},
		{"UUUU", 1, 0},
		{"OOOO", 2, 2},
		{"oOOO", 1, 4}, // one is unavailable already
		{"oOOU", 1, 3}, // what is updated may be passed over
		{"oooo", 1, 3}, // nothing is lost by updating what is not ready
		{"", 1, 0},
	}
	for _, test := range tests {
		if got := nextPartition(parseGroups(test.groups), test.step); got != test.want {
			t.Errorf("%q, %d at a time: partition %d, want %d", test.groups, test.step, got, test.want)
		}
	}
}

// TestRollout checks how far the set is brought, from an LWS, the set that was found, and the pods.
func TestRollout(t *testing.T) {
	const key = "new"
	set := func(replicas, partition int32, before string) *appsv1.StatefulSet {
		return &appsv1.StatefulSet{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{annotationReplicas: before}},
			Spec: appsv1.StatefulSetSpec{Replicas: &replicas, UpdateStrategy: appsv1.StatefulSetUpdateStrategy{
				RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition},
			}},
		}
	}
	tests := []struct {
		name             string
		replicas         int32
		surge, partition int32 // of the LWS
		set              *appsv1.StatefulSet
		begins           bool
		groups           string
		want             rollout
	}{
		{name: "no set", replicas: 3, want: rollout{0, 3}},
		{name: "no set, in part", replicas: 3, partition: 2, want: rollout{2, 3}},
		{name: "at rest", replicas: 3, set: set(3, 0, "3"), groups: "UUU", want: rollout{0, 3}},
		{name: "scaled up", replicas: 3, set: set(2, 0, "2"), groups: "UU", want: rollout{0, 3}},
		{name: "begins", replicas: 3, set: set(3, 0, "3"), begins: true, groups: "OOO", want: rollout{3, 3}},
		{name: "begins with a surge", replicas: 3, surge: 1, set: set(3, 0, "3"), begins: true, groups: "OOO", want: rollout{3, 4}},
		{name: "begins, surge for all", replicas: 2, surge: 5, set: set(2, 0, "2"), begins: true, groups: "OO", want: rollout{2, 3}},
		{name: "goes on", replicas: 3, set: set(3, 3, "3"), groups: "OOO", want: rollout{2, 3}},
		{name: "goes on in part", replicas: 3, partition: 2, set: set(3, 2, "3"), groups: "OOU", want: rollout{2, 3}},
		{name: "waits", replicas: 3, set: set(3, 2, "3"), groups: "OOu", want: rollout{2, 3}},
		{name: "never back", replicas: 3, set: set(3, 1, "3"), groups: "OOU", want: rollout{1, 3}},
		{name: "the surge goes last", replicas: 3, surge: 1, set: set(4, 1, "3"), groups: "OUUU", want: rollout{0, 3}},
		{name: "scaled meanwhile", replicas: 4, set: set(3, 2, "3"), groups: "OOU", want: rollout{2, 4}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			lws := &LeaderWorkerSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
			lws.Spec.Replicas = &test.replicas
			lws.Spec.RolloutStrategy.RollingUpdateConfiguration = &RollingUpdateConfiguration{
				Partition: &test.partition, MaxUnavailable: intstr.FromInt32(1), MaxSurge: intstr.FromInt32(test.surge),
			}
			c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(leaderPods(test.groups, key)...).Build()
			p := &pass{reconciler: &reconciler{client: c, recorder: record.NewFakeRecorder(10)}, lws: lws}
			got, err := p.rollout(t.Context(), test.set, key, test.begins)
			if err != nil || got != test.want {
				t.Errorf("%+v %v, want %+v", got, err, test.want)
			}
		})
	}
}

// leaderPods makes the leaders of groups.
func leaderPods(groups, key string) []client.Object {
	var pods []client.Object
	for i, g := range parseGroups(groups) {
		index := string(rune('0' + i))
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-" + index, Labels: map[string]string{
			labelName: "web", labelWorkerIndex: "0", labelGroupIndex: index, labelKey: "old",
		}}}
		if g.updated {
			pod.Labels[labelKey] = key
		}
		if g.ready {
			pod.Status.Phase = corev1.PodRunning
			pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		}
		pods = append(pods, pod)
	}
	return pods
}
