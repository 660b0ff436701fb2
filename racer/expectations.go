package racer

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// expectationsTimeout is how long a controller waits for what it expects to see (ExpectationsTimeout of
// pkg/controller/controller_utils.go, v1.36.3).
const expectationsTimeout = 5 * time.Minute

// expectations are the creations and deletions that a controller has asked for and not seen yet, by the key of the owner. Until
// it has, or the time is up, it creates and deletes nothing for that owner. Nobody wakes it when the time is up.
type expectations map[string]*expectation

type expectation struct {
	creations int
	deletions map[string]bool // by the key of the pod
	since     time.Time
}

// satisfied reports whether the controller may go on.
func (e expectations) satisfied(owner string, now time.Time) bool {
	expected := e[owner]
	return expected == nil || expected.creations <= 0 && len(expected.deletions) == 0 ||
		now.Sub(expected.since) > expectationsTimeout
}

// expectCreations forgets what was expected before.
func (e expectations) expectCreations(owner string, n int, now time.Time) {
	e[owner] = &expectation{creations: n, since: now}
}

// expectDeletions forgets what was expected before.
func (e expectations) expectDeletions(owner string, pods []*corev1.Pod, now time.Time) {
	expected := &expectation{deletions: map[string]bool{}, since: now}
	for _, pod := range pods {
		expected.deletions[key(pod.Namespace, pod.Name)] = true
	}
	e[owner] = expected
}

// created notes that n creations were seen, or will not be.
func (e expectations) created(owner string, n int) {
	if expected := e[owner]; expected != nil {
		expected.creations -= n
	}
}

// deleted notes that a deletion was seen, or will not be.
func (e expectations) deleted(owner string, pod *corev1.Pod) {
	if expected := e[owner]; expected != nil {
		delete(expected.deletions, key(pod.Namespace, pod.Name))
	}
}
