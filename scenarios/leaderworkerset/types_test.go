package leaderworkerset

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim/simtest/simtrack"
)

func TestLeaderWorkerSet(t *testing.T) {
	simtrack.Resource(t, "crds/leaderworkerset.yaml", GroupVersion, &LeaderWorkerSet{}, &LeaderWorkerSetList{})
}

// TestPodDefaults checks which pods get the index of their group.
func TestPodDefaults(t *testing.T) {
	leader := map[string]string{labelName: "web", labelWorkerIndex: "0"}
	tests := []struct {
		name   string
		labels map[string]string
		want   string
		err    bool
	}{
		{"web-0", leader, "0", false},
		{"web-12", leader, "12", false},
		{"web", leader, "", true},
		{"web-", leader, "", true},
		{"web-0", map[string]string{labelName: "web", labelWorkerIndex: "1"}, "", false},
		{"web-0", map[string]string{"app": "web"}, "", false},
		{"web-0", map[string]string{labelName: "web", labelWorkerIndex: "0", labelGroupIndex: "3"}, "3", false},
	}
	for _, test := range tests {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: test.name, Labels: map[string]string{}}}
		maps.Copy(pod.Labels, test.labels)
		err := podDefaults{}.Default(t.Context(), pod)
		if got := pod.Labels[labelGroupIndex]; got != test.want || (err != nil) != test.err {
			t.Errorf("%s %v: group index %q, %v; want %q, error %t", test.name, test.labels, got, err, test.want, test.err)
		}
	}
}
