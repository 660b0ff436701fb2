package sim

import (
	"slices"
	"time"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// timer is an engine timer: the engine knows it is there, and firing it is a step.
type timer struct {
	local

	at     time.Duration // virtual time since the run began
	event  schedule.Event
	thread *thread
	cause  int
	since  uint64 // when it fell due, zero before
	fire   func()
	// futile, if set, reports whether no run need go on for the timer.
	futile func() bool
}

// newTimer sets a timer. A thread's timers keep the order in which they fall due, and those that fall due together the
// order in which they were set.
func (e *engine) newTimer(t *thread, event schedule.Event, d time.Duration, fire func()) *timer {
	set := &timer{at: e.clock + max(d, tick), event: event, thread: t, cause: e.last, fire: fire}
	i, _ := slices.BinarySearchFunc(e.timers, set.at, func(other *timer, at time.Duration) int {
		if other.at <= at {
			return -1
		}
		return 1
	})
	e.timers = slices.Insert(e.timers, i, set)
	return set
}

func (e *engine) stopTimer(t *timer) {
	e.timers = slices.DeleteFunc(e.timers, func(other *timer) bool { return other == t })
}

func (t *timer) base() *schedule.Event { return &t.event }
func (t *timer) owner() *thread        { return t.thread }
func (t *timer) order() uint64         { return t.since }
func (t *timer) infrastructure() bool  { return false }

// take fires the timer.
func (t *timer) take(e *engine) {
	e.stopTimer(t)
	e.note(t.thread, t.event, t.cause)
	t.fire()
}
