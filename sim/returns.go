package sim

import (
	"slices"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// The response of a request goes back together with the commit, unless a schedule names its way back: then that is a step
// of its own, which may be held and waited for. The name is the request's, with Return set.

// returns are the ways back that a schedule names.
type returns struct {
	named     map[schedule.Event]bool
	selectors []schedule.Selector
}

// returnsOf finds the ways back that a plan names.
func returnsOf(plan *Plan) returns {
	r := returns{named: map[schedule.Event]bool{}}
	for _, late := range plan.Latencies {
		if late.At.Return {
			r.named[late.At] = true
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
				r.named[event] = true
			}
		}
	}
	return r
}

// has reports whether the way back of this name is one of them.
func (r *returns) has(event schedule.Event) bool {
	return r.named[event] || slices.ContainsFunc(r.selectors, func(s schedule.Selector) bool { return s.Matches(event) })
}

// wayBack returns the name of the way back of the request that was carried out last, under the name of base, and whether
// a schedule makes it a step. That of a poll is none: it has the name of one that is over.
func (e *engine) wayBack(base schedule.Event) (schedule.Event, bool) {
	if len(e.holds.returns.named) == 0 && len(e.holds.returns.selectors) == 0 || e.last < 0 {
		return schedule.Event{}, false
	}
	last := &e.history.Records[e.last]
	event := last.Event
	if last.Repeats > 0 || baseOf(event) != base || !base.Verb.IsRequest() || base.Return {
		return schedule.Event{}, false
	}
	event.Return = true
	return event, e.holds.returns.has(event)
}

// returned is the way back of a response, as part of an op or of a racer's worker.
type returned struct {
	event    schedule.Event // with the occurrence of the request
	response *apiserver.Response
}

// parkResponse makes the way back of an op's response a step of its own, if a schedule names it.
func (e *engine) parkResponse(o *op) bool {
	event, named := e.wayBack(o.event)
	if !named {
		return false
	}
	e.sequence++
	o.since, o.back = e.sequence, &returned{event: event}
	o.event, o.call, o.reads, o.ready, o.notBefore = baseOf(event), nil, nil, nil, 0
	o.exec = func(o *op) { e.noteReturn(o.thread, o.back) }
	e.ops = append(e.ops, o)
	return true
}

// parkAnswer does the same for a racer's worker.
func (w *racerWorker) parkAnswer(response *apiserver.Response) bool {
	e := w.queue.actor.engine
	event, named := e.wayBack(w.event)
	if !named {
		return false
	}
	e.sequence++
	w.event, w.since, w.back = baseOf(event), e.sequence, &returned{event: event, response: response}
	return true
}

// takeBack hands the task the answer whose way back was a step of its own.
func (w *racerWorker) takeBack(e *engine) {
	back := w.back
	w.back = nil
	e.noteReturn(w.thread, back)
	w.act(w.task.Next(back.response))
}

// noteReturn records that a response has come back.
func (e *engine) noteReturn(t *thread, back *returned) {
	e.append(t, history.Record{Event: back.event, Cause: -1, ReadsFrom: -1})
}

// backOf returns the way back that the step is, or nil.
func backOf(s stepper) *returned {
	switch s := s.(type) {
	case *op:
		return s.back
	case *racerWorker:
		return s.back
	default:
		return nil
	}
}
