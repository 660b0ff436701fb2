package racer

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestIndexSets(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "3": "3", "1,2": "1,2", "0-3,5": "0-3,5", "0,1,2": "0-2", "2-9": "2-7", "x,1": "1", "8,9": "", "0-x,4": "4",
	} {
		if got := parseIndexes(text, 8).String(); got != want {
			t.Errorf("%q reads %q, want %q", text, got, want)
		}
	}
}

func TestJobBackoff(t *testing.T) {
	ended := func(at int) *corev1.Pod {
		pod := &corev1.Pod{}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.Unix(int64(at), 0)}}}}
		return pod
	}
	now := time.Unix(100, 0)
	for _, tt := range []struct {
		before            jobFailures
		succeeded, failed []*corev1.Pod
		want              time.Duration
	}{
		{jobFailures{}, nil, nil, 0},
		{jobFailures{}, nil, []*corev1.Pod{ended(98)}, 8 * time.Second},
		{jobFailures{}, nil, []*corev1.Pod{ended(98), ended(97)}, 18 * time.Second},
		{jobFailures{1, time.Unix(90, 0)}, nil, []*corev1.Pod{ended(100)}, 20 * time.Second},
		{jobFailures{1, time.Unix(50, 0)}, nil, nil, 0},
		{jobFailures{9, time.Unix(99, 0)}, nil, nil, 599 * time.Second},
		{jobFailures{3, time.Unix(99, 0)}, []*corev1.Pod{ended(99)}, nil, 0},
		{jobFailures{3, time.Unix(99, 0)}, []*corev1.Pod{ended(97)}, []*corev1.Pod{ended(96), ended(99)}, 9 * time.Second},
	} {
		if got := tt.before.with(tt.succeeded, tt.failed).wait(now); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt, got, tt.want)
		}
	}
}
