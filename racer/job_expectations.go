package racer

import "time"

// jobExpectations are the pods that a controller has made or deleted, for each of its objects, and is still to be told of. As long as
// there are any it neither makes nor deletes others; ControllerExpectations in pkg/controller/controller_utils.go, v1.36.3.
type jobExpectations map[string]expectedPods

type expectedPods struct {
	creations, deletions int
	since                time.Time
}

// jobExpectationsTimeout is how long a controller waits to be told: ExpectationsTimeout.
const jobExpectationsTimeout = 5 * time.Minute

// expect forgets what was expected for an object, and expects these from now on.
func (e jobExpectations) expect(key string, creations, deletions int, now time.Time) {
	e[key] = expectedPods{creations, deletions, now}
}

// lower notes that pods were seen, or that they never will be.
func (e jobExpectations) lower(key string, creations, deletions int) {
	if x, ok := e[key]; ok {
		x.creations -= creations
		x.deletions -= deletions
		e[key] = x
	}
}

// satisfied reports whether nothing is expected for an object, or has been for too long.
func (e jobExpectations) satisfied(key string, now time.Time) bool {
	x, ok := e[key]
	return !ok || x.creations <= 0 && x.deletions <= 0 || now.Sub(x.since) > jobExpectationsTimeout
}
