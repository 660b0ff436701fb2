package sim

import (
	"cmp"
	"time"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// holds are the constraints of a run.
type holds struct {
	all []*hold // in the plan's order, those of latencies last
	// byEvent finds those whose event is known by that event without its occurrence, byWaits those that wait for an event by
	// its full name.
	byEvent, byWaits map[schedule.Event][]*hold
	orders           []*hold // those by selectors
	released         int     // how many have let their step go that has not been taken yet
	returns          returns
}

// hold is what became of a constraint in this run: its event is not enabled until the one it waits for has happened,
// or until the bound has passed; the clock may pass over it.
type hold struct {
	constraint schedule.Constraint
	order      *order        // of a constraint by selectors
	late       time.Duration // of a latency: for how long it holds
	holding    bool          // the event has come up and is being held
	since      time.Duration // when it came up
	deadline   time.Duration // when a hold that has begun ends
	happened   bool          // what it waits for has happened
	over       bool          // the event was let go, or took place
	occurred   bool          // the event took place
	matched    bool          // what it waits for happened before it
}

// newHolds makes the holds of the plan's constraints, and of latencies at steps that do not come up like calls.
func newHolds(plan *Plan) holds {
	hs := holds{byEvent: map[schedule.Event][]*hold{}, byWaits: map[schedule.Event][]*hold{}}
	for _, c := range plan.Constraints {
		h := &hold{constraint: c}
		hs.all = append(hs.all, h)
		if c.Order != nil {
			h.order = newOrder(c.Order)
			hs.orders = append(hs.orders, h)
			continue
		}
		hs.holdsBack(h)
		hs.byWaits[c.Waits] = append(hs.byWaits[c.Waits], h)
	}
	for _, late := range plan.Latencies {
		if !comesUp(late.At) {
			h := &hold{constraint: schedule.Constraint{Event: late.At}, late: late.For}
			hs.all = append(hs.all, h)
			hs.holdsBack(h)
		}
	}
	hs.returns = returnsOf(plan)
	return hs
}

// holdsBack files a hold by the event it holds back, which is known now.
func (hs *holds) holdsBack(h *hold) {
	base := h.constraint.Event.Base()
	hs.byEvent[base] = append(hs.byEvent[base], h)
}

// held reports whether a constraint holds the step back.
func (e *engine) held(s stepper) bool {
	if len(e.holds.orders) > 0 {
		e.bindOrders(s)
	}
	held := false
	for _, h := range e.holds.byEvent[*s.base()] {
		if h.happened || h.over || e.occurrence(s) != h.constraint.Event.Occurrence {
			continue
		}
		if !h.holding {
			h.holding, h.since = true, e.clock
			h.deadline = later(e.clock, cmp.Or(h.late, e.config.Limits.HoldBound()))
		}
		if e.clock < h.deadline {
			held = true
			continue
		}
		h.over = true
		e.disturbed(e.clock)
	}
	return held
}

// released reports whether a constraint held the step until what it waits for happened. Only such a step comes between two
// steps of another thread that the default order takes without a break.
func (e *engine) released(s stepper) bool {
	if e.holds.released == 0 {
		return false
	}
	for _, h := range e.holds.byEvent[*s.base()] {
		if h.isReleased() && e.occurrence(s) == h.constraint.Event.Occurrence {
			return true
		}
	}
	return false
}

// happened tells the constraints of an event that took place.
func (e *engine) happened(r *history.Record) {
	if len(e.holds.all) == 0 {
		return
	}
	for _, h := range e.holds.byWaits[r.Event] {
		e.waitedFor(h)
	}
	for _, h := range e.holds.byEvent[r.Event.Base()] {
		if h.constraint.Event == r.Event {
			if h.isReleased() {
				e.holds.released--
			}
			h.over, h.occurred = true, true
			if h.holding {
				r.Held = e.clock - h.since
			}
		}
	}
	for _, h := range e.holds.orders {
		e.countOrder(h, r)
	}
}

// waitedFor says that what a hold waits for took place.
func (e *engine) waitedFor(h *hold) {
	if h.inForce(e.clock) {
		e.disturbed(e.clock)
	}
	if !h.happened && h.holding && !h.over {
		e.holds.released++
	}
	h.happened = true
	h.matched = h.matched || !h.over
}

// isReleased reports whether the hold has let its step go, and the step has not been taken.
func (h *hold) isReleased() bool { return h.holding && h.happened && !h.over }

// disturbed says that script, holds, delays and faults go on until some time: what must come to pass has its span from there.
// What goes on for ever gives nothing a span.
func (e *engine) disturbed(until time.Duration) {
	if until < Forever {
		e.undisturbed = max(e.undisturbed, until)
		e.monitor.Settled(e.undisturbed)
	}
}

// inForce reports whether the hold may still keep its step back. One whose step has gone away, as a call does whose context
// ends, is in force until its deadline.
func (h *hold) inForce(now time.Duration) bool {
	return h.holding && !h.happened && !h.over && now < h.deadline
}

// holdDeadline returns when the next hold that is in force ends, [Forever] if none is.
func (e *engine) holdDeadline() time.Duration {
	first := Forever
	for _, h := range e.holds.all {
		if h.inForce(e.clock) {
			first = min(first, h.deadline)
		}
	}
	return first
}

func (e *engine) constraintResults() []history.ConstraintResult {
	var results []history.ConstraintResult
	for _, h := range e.holds.all {
		if h.late > 0 {
			continue
		}
		results = append(results, history.ConstraintResult{Constraint: h.constraint, Held: h.holding,
			Matched: h.matched && h.occurred})
	}
	return results
}
