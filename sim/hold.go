package sim

import (
	"time"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// hold is what became of a constraint in this run: its event is not enabled until the one it waits for has happened,
// or until the bound has passed; the clock may pass over it.
type hold struct {
	constraint schedule.Constraint
	base       schedule.Event // the held event without its occurrence
	holding    bool           // the event has come up and is being held
	since      time.Duration  // when it came up
	deadline   time.Duration  // when a hold that has begun ends
	happened   bool           // what it waits for has happened
	over       bool           // the event was let go, or took place
	occurred   bool           // the event took place
	matched    bool           // what it waits for happened before it
}

func newHolds(constraints []schedule.Constraint) []*hold {
	var holds []*hold
	for _, c := range constraints {
		h := &hold{constraint: c, base: c.Event}
		h.base.Occurrence = 0
		holds = append(holds, h)
	}
	return holds
}

// held reports whether a constraint holds the step back.
func (e *engine) held(s stepper) bool {
	for _, h := range e.holds {
		if h.happened || h.over || *s.base() != h.base || e.occurrence(s) != h.constraint.Event.Occurrence {
			continue
		}
		if !h.holding {
			h.holding, h.since, h.deadline = true, e.clock, e.clock+e.config.Limits.HoldBound()
		}
		if e.clock < h.deadline {
			return true
		}
		h.over = true
		e.disturbed(e.clock)
	}
	return false
}

// released reports whether a constraint held the step until what it waits for happened. Only such a step comes between two
// steps of another thread that the default order takes without a break.
func (e *engine) released(s stepper) bool {
	for _, h := range e.holds {
		if h.holding && h.happened && !h.over && *s.base() == h.base && e.occurrence(s) == h.constraint.Event.Occurrence {
			return true
		}
	}
	return false
}

// happened tells the constraints of an event that took place.
func (e *engine) happened(event schedule.Event) {
	for _, h := range e.holds {
		switch event {
		case h.constraint.Waits:
			if h.inForce(e.clock) {
				e.disturbed(e.clock)
			}
			h.happened = true
			h.matched = h.matched || !h.over
		case h.constraint.Event:
			h.over, h.occurred = true, true
			if h.holding {
				e.history.Records[e.last].Held = e.clock - h.since
			}
		}
	}
}

// disturbed says that script, holds and delays go on until some time: what must come to pass has its span from there.
func (e *engine) disturbed(until time.Duration) {
	e.undisturbed = max(e.undisturbed, until)
	e.monitor.Settled(e.undisturbed)
}

// inForce reports whether the hold may still keep its step back. One whose step has gone away, as a call does whose context
// ends, is in force until its deadline.
func (h *hold) inForce(now time.Duration) bool {
	return h.holding && !h.happened && !h.over && now < h.deadline
}

// holdDeadline returns when the next hold that is in force ends, and false if none is.
func (e *engine) holdDeadline() (time.Duration, bool) {
	var first time.Duration
	found := false
	for _, h := range e.holds {
		if h.inForce(e.clock) && (!found || h.deadline < first) {
			first, found = h.deadline, true
		}
	}
	return first, found
}

func (e *engine) constraintResults() []history.ConstraintResult {
	var results []history.ConstraintResult
	for _, h := range e.holds {
		results = append(results, history.ConstraintResult{Constraint: h.constraint, Held: h.holding,
			Matched: h.matched && h.occurred})
	}
	return results
}
