package sim

import (
	"cmp"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// order is how far a run has found the events of a constraint by selectors.
//
// The held event is found when it comes up: of the steps that match and are not polls, the first to come up after the
// occurrences before it took place. From then on the hold is as if the event had been named.
type order struct {
	*schedule.Order
	occurrence, times int  // the ones wanted, from 1
	took              int  // how many events that Hold selects took place before the held one was found
	found             bool // the held event is known
	seen              int  // how many events that Until selects took place
}

func newOrder(o *schedule.Order) *order {
	return &order{Order: o, occurrence: max(1, o.Hold.Occurrence), times: max(1, cmp.Or(o.Until.Occurrence, o.Times))}
}

// bindOrders finds out whether a step that has come up is the one that an order holds.
func (e *engine) bindOrders(s stepper) {
	for _, h := range e.holds.orders {
		o := h.order
		if o.found || o.took+1 != o.occurrence || !o.Hold.Matches(*s.base()) || e.isPoll(s) {
			continue
		}
		read := -1
		if o.From != "" {
			if read = e.readBehind(s); read < 0 || !o.isRead(e.history.Records[read].Event.Verb) {
				continue
			}
		}
		o.found = true
		h.constraint.Event = e.name(s)
		e.holds.holdsBack(h)
		if o.From != "" {
			e.countSince(h, read)
		}
	}
}

// isRead reports whether the verb is the order's From: that of a request, or that of the same read from a cache.
func (o *order) isRead(verb schedule.Verb) bool {
	switch verb {
	case schedule.CachedGet:
		return o.From == verb || o.From == schedule.Get
	case schedule.CachedList:
		return o.From == verb || o.From == schedule.List
	default:
		return o.From == verb
	}
}

// readBehind returns the record whose answer gave a step the revision it carries, or -1.
func (e *engine) readBehind(s stepper) int {
	c, ok := s.(carrier)
	if !ok || c.inFlight().call == nil {
		return -1
	}
	r := c.inFlight().call
	carried := carriedRevision(r)
	if carried == 0 {
		return -1
	}
	return e.readsFrom(*s.base(), r.Kind, carried)
}

// countSince counts what an order waits for among the events that took place since a read.
func (e *engine) countSince(h *hold, read int) {
	since := &e.history.Records[read]
	latest := max(since.At, since.LastAt)
	for i := read + 1; i < len(e.history.Records); i++ {
		if r := &e.history.Records[i]; r.At > latest {
			e.countUntil(h, r)
		}
	}
}

// countOrder counts an event that took place among those that an order is about.
func (e *engine) countOrder(h *hold, r *history.Record) {
	o := h.order
	if !o.found && o.Hold.Matches(r.Event) &&
		(o.From == "" || r.ReadsFrom >= 0 && o.isRead(e.history.Records[r.ReadsFrom].Event.Verb)) {
		o.took++
	}
	if o.found || o.From == "" {
		e.countUntil(h, r)
	}
}

func (e *engine) countUntil(h *hold, r *history.Record) {
	o := h.order
	if h.happened || !o.Until.Matches(r.Event) {
		return
	}
	if o.seen++; o.seen == o.times {
		h.constraint.Waits = r.Event
		e.waitedFor(h)
	}
}
