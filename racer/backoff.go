package racer

import (
	"time"

	"github.com/stalemate-dev/stalemate/sim"
)

// backoff is one of the schedules of client-go's retry.RetryOnConflict, without its 10 % of jitter.
type backoff struct {
	tries  int
	pause  time.Duration
	factor int
}

// The schedules of client-go/util/retry, v0.36.
var (
	defaultRetry   = backoff{tries: 5, pause: 10 * time.Millisecond, factor: 1}
	defaultBackoff = backoff{tries: 4, pause: 10 * time.Millisecond, factor: 5}
)

// after returns how long to pause after a number of failed tries, and false if that was the last try.
func (b backoff) after(failed int) (time.Duration, bool) {
	if failed >= b.tries {
		return 0, false
	}
	pause := b.pause
	for range failed - 1 {
		pause *= time.Duration(b.factor)
	}
	return pause, true
}

// pacedQueue is a queue whose back-off after errors is not that of most controllers: first, doubled each time, up to last.
type pacedQueue struct {
	sim.RacerQueue
	env         sim.RacerEnv
	first, last time.Duration
	failures    map[string]int // in a row
}

func newPacedQueue(env sim.RacerEnv, first, last time.Duration, queue sim.RacerQueue) *pacedQueue {
	return &pacedQueue{RacerQueue: queue, env: env, first: first, last: last, failures: map[string]int{}}
}

// maxDoublings keeps the shift from overflowing: no back-off here takes as many to come to its end.
const maxDoublings = 20

// over ends a pass over a key; after an error another one comes, later each time.
func (q *pacedQueue) over(key string, err error) sim.Action {
	if err == nil {
		delete(q.failures, key)
		return sim.Done()
	}
	q.env.Log("error syncing " + key + ", requeuing: " + err.Error())
	q.AddAfter(key, min(q.first<<min(q.failures[key], maxDoublings), q.last))
	q.failures[key]++
	return sim.Done()
}
