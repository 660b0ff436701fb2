package sim

import (
	"slices"
	"time"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// The response of a request goes back together with the commit, unless a schedule names its way back, or a fault makes it
// late: then that is a step of its own, which may be held and waited for. The name is the request's, with Return set.

// returns are the ways back that a schedule names.
type returns struct {
	events    map[schedule.Event]bool
	selectors []schedule.Selector
}

// returnsOf finds the ways back that a plan names.
func returnsOf(plan *Plan) returns {
	r := returns{events: map[schedule.Event]bool{}}
	for _, late := range plan.Latencies {
		if late.At.Return {
			r.events[late.At] = true
		}
	}
	for _, c := range plan.Constraints {
		if c.Order != nil {
			for _, s := range []schedule.Selector{c.Order.Hold, c.Order.Until} {
				if s.Return {
					r.selectors = append(r.selectors, s)
				}
			}
			continue
		}
		for _, event := range []schedule.Event{c.Event, c.Waits} {
			if event.Return {
				r.events[event] = true
			}
		}
	}
	return r
}

// has reports whether a schedule makes the way back of a request's answer a step of its own. That of a poll is none: it
// has the name of one that is over.
func (r *returns) has(request *history.Record) bool {
	if len(r.events) == 0 && len(r.selectors) == 0 || request.Repeats > 0 {
		return false
	}
	event := request.Event
	event.Return = true
	return r.events[event] || slices.ContainsFunc(r.selectors, func(s schedule.Selector) bool { return s.Matches(event) })
}

// backAt returns when an answer that may be late comes back.
func (e *engine) backAt(d *Door) time.Duration {
	if d == nil || d.late <= 0 {
		return e.clock
	}
	return e.lasts(d.late)
}

// sendBack makes the way back of an answer a step of its own, to be taken at some virtual time or later.
func (e *engine) sendBack(s carrier, until time.Duration) {
	e.keep(s, until)
	f := s.inFlight()
	f.call, f.returns = nil, e.history.Records[f.record].Event.Occurrence
	s.base().Return = true
}

// noteReturn records that an answer has come back.
func (e *engine) noteReturn(s carrier) {
	f, event := s.inFlight(), *s.base()
	event.Occurrence = f.returns
	f.returns = 0
	e.append(s.owner(), history.Record{Event: event, Cause: f.record, ReadsFrom: -1})
}
