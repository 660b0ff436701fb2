package racer

import (
	"time"

	corev1 "k8s.io/api/core/v1"
)

// expectationsTimeout is how long a controller waits for what it expects to see (ExpectationsTimeout of
// pkg/controller/controller_utils.go, v1.36.3).
const expectationsTimeout = 5 * time.Minute

// expectations are the creations and deletions of pods that a controller has asked for and not seen yet, by the key of the owner
// (ControllerExpectations, and UIDTrackingControllerExpectations, of the same file). Until it has, or the time is up, it creates
// and deletes nothing for that owner. Nobody wakes it when the time is up.
type expectations map[string]*expectation

type expectation struct {
	creations, deletions int
	// named are the keys of the pods whose deletions count; nil where any counts.
	named map[string]bool
	since time.Time
}

// satisfied reports whether the controller may go on.
func (e expectations) satisfied(owner string, now time.Time) bool {
	expected := e[owner]
	return expected == nil || expected.creations <= 0 && expected.deletions <= 0 || now.Sub(expected.since) > expectationsTimeout
}

// expect forgets what was expected before.
func (e expectations) expect(owner string, creations, deletions int, now time.Time) {
	e[owner] = &expectation{creations: creations, deletions: deletions, since: now}
}

// expectDeletions forgets what was expected before. The deletions of other pods than these do not count.
func (e expectations) expectDeletions(owner string, pods []*corev1.Pod, now time.Time) {
	e.expect(owner, 0, len(pods), now)
	named := map[string]bool{}
	for _, pod := range pods {
		named[keyOf(pod)] = true
	}
	e[owner].named = named
}

// created notes that n creations were seen, or will not be.
func (e expectations) created(owner string, n int) {
	if expected := e[owner]; expected != nil {
		expected.creations -= n
	}
}

// deleted notes that the deletion of a pod was seen, or will not be. That of a named pod counts once: it is seen when the pod is
// Terminating, and again when it is gone.
func (e expectations) deleted(owner string, pod *corev1.Pod) {
	expected := e[owner]
	if expected == nil || expected.named != nil && !expected.named[keyOf(pod)] {
		return
	}
	delete(expected.named, keyOf(pod))
	expected.deletions--
}
