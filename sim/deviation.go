package sim

import (
	"time"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// deviations are what brings about, against the default order, the order that a strategy chose.
//
// Where the strategy picks a step, it passes over those that the default order would have taken before it. A step passed
// over must wait for what came last before it was taken in the end. Under these constraints the default order makes the
// same choices, step by step: at each of them all that was passed over there is held, as what it waits for is still to
// come, so that the step picked is the first of those left; and a step whose wait is over comes before all others of its
// kind (see engine.first), as it did.
//
// Constraints need names, and a poll has none of its own: it goes by that of the event it repeats. So a poll passed over
// is made late by as much as it was, and so is a step passed over that was taken right after a poll.
type deviations struct {
	passed      map[schedule.Event]int // how many records there were when the event was first passed over
	constraints []schedule.Constraint
	arrivals    []*arrival
	waiting     map[stepper]*arrival             // those that have not been taken
	seen        map[schedule.Event]time.Duration // when a step that is no call was first enabled next to others
	polled      bool                             // the latest step has left no record
}

// comesUp takes note of a request that has come up, to be taken after a delay, if any.
func (d *deviations) comesUp(e *engine, s stepper, came *arrival, delay time.Duration) {
	if d.waiting == nil {
		d.waiting = map[stepper]*arrival{}
	}
	d.arrivals = append(d.arrivals, came)
	d.waiting[s] = came
	if delay > 0 {
		came.late = delay
		d.pass(e, s, came.name)
	}
}

// see takes note of the steps that are enabled.
func (d *deviations) see(e *engine, enabled []Choice) {
	if d.seen == nil {
		d.seen = map[schedule.Event]time.Duration{}
	}
	for i := range enabled {
		if event := enabled[i].Event; !comesUp(event) {
			if _, again := d.seen[event]; !again {
				d.seen[event] = e.clock
			}
		}
	}
}

// pass takes note that a step was passed over, or delayed.
func (d *deviations) pass(e *engine, s stepper, name schedule.Event) {
	if came := d.waiting[s]; came != nil && e.isPoll(s) {
		came.passed = true
	}
	if d.passed == nil {
		d.passed = map[schedule.Event]int{}
	}
	if _, again := d.passed[name]; !again {
		d.passed[name] = len(e.history.Records)
	}
}

// taken is told that a step is about to be taken.
func (d *deviations) taken(e *engine, s stepper) {
	if e.plan.Strategy == nil || !e.scripted {
		return
	}
	name, poll := e.name(s), e.isPoll(s)
	passed, ok := d.passed[name]
	delete(d.passed, name)
	came := d.waiting[s]
	delete(d.waiting, s)
	switch {
	case came != nil && (came.passed || ok && d.polled):
		came.late = e.clock - came.at
	case came == nil && ok && d.polled:
		d.arrivals = append(d.arrivals, &arrival{comingUp: comingUp{name: name}, late: e.clock - d.seen[name]})
	}
	d.polled = poll
	if last := len(e.history.Records) - 1; ok && last >= passed && !poll {
		d.constraints = append(d.constraints, schedule.Constraint{Event: name, Waits: e.history.Records[last].Event})
	}
}

// tell puts what was found into the history.
func (d *deviations) tell(h *history.History) {
	h.Deviations = d.constraints
	h.Lateness = latenciesOf(d.arrivals, func(a *arrival) time.Duration { return a.late })
	if h.Trace != nil {
		h.Trace.Latencies = d.chosenLatencies()
	}
}

// chosenLatencies are the delays that the strategy has chosen so far.
func (d *deviations) chosenLatencies() []schedule.Latency {
	return latenciesOf(d.arrivals, func(a *arrival) time.Duration { return a.chosen })
}
