package sim

import (
	"slices"
	"time"

	"github.com/stalemate-dev/stalemate/sim/cache"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// disturbance is what faults have made of an informer's watch. It is over, and zero again, with the informer's next step.
type disturbance struct {
	asked  bool // the reactors have been asked about the event that is pending
	since  time.Duration
	until  time.Duration // nothing is delivered before this time; Forever: never again
	relist bool          // what comes next is a new list, and no event
	by     []*armed      // those that disturbed it; those that asked for a new list first
}

// flows reports whether faults let the informer's next step be. Reactors are asked about each event once, when it comes up.
func (e *engine) flows(inf *informer) bool {
	if !inf.watch.asked {
		inf.watch.asked = true
		e.disturb(inf)
		if inf.unwatched {
			inf.watch.relist, inf.watch.until = true, max(inf.watch.until, e.nextList())
		}
	}
	if inf.watch.relist {
		inf.event = inf.list()
	}
	return inf.watch.until <= e.clock
}

// disturb lets reactors act on the informer's watch when an event is about to be delivered. Where several do, the longest lag
// counts, and it ends with a new list if one of them asked for that.
func (e *engine) disturb(inf *informer) {
	w := &inf.watch
	for _, a := range e.faultsAt(inf) {
		streamer, ok := a.reactor.(Streamer)
		if !ok {
			continue
		}
		s := &Stream{event: *inf.base()}
		s.event.Occurrence = e.occurrence(inf)
		streamer.Deliver(s)
		switch {
		case s.relist:
			w.relist = true
			w.by = slices.Insert(w.by, 0, a)
		case s.lag > 0:
			w.by = append(w.by, a)
		default:
			continue
		}
		w.since, w.until = e.clock, max(w.until, e.lasts(s.lag))
		e.struck(a, -1)
	}
}

// resume ends what faults made of the informer's watch, with the step that it has just taken. From here it takes a whole
// horizon again until the run is called terminal: actors have only now been told what they are to act on.
func (e *engine) resume(inf *informer) {
	w := inf.watch
	inf.watch = disturbance{}
	if len(w.by) == 0 {
		return
	}
	for _, a := range w.by {
		e.struck(a, inf.thread.last)
	}
	record := &e.history.Records[inf.thread.last]
	record.Held = max(record.Held, e.clock-w.since)
	if w.relist {
		record.Fault = schedule.Relist // also if it was no fault of the scenario's that asked for it
	}
	e.quiet.lastCommit = e.clock
}

// relist moves the informer to the present state in one step, as client-go's reflector does after a watch that the server
// cannot continue (410): nobody is told what came to pass in between, but for what the new list shows. The events that are
// lost keep their names: those after them are named as if they had been delivered.
func (e *engine) relist(inf *informer) {
	for _, ok := inf.view.Pending(); ok; _, ok = inf.view.Pending() {
		e.stateOf(inf.delivery(inf.view.Lose())).count++
	}
	deltas := inf.view.Relist()
	e.note(inf.thread, inf.list(), e.latestCommit(inf))
	e.lagging = true
	e.resume(inf)
	for _, delta := range relisted(permuted(e, inf.event, deltas)) {
		inf.deliver(delta)
	}
}

// relisted puts deletions first, which is all that is certain about the order in which a list is told of: client-go goes
// through maps for the objects that are gone, and since v0.35 for those of the list, too (tools/cache, reflector.go watchList).
func relisted(deltas []cache.Delta) []cache.Delta {
	sorted := slices.Clone(deltas)
	slices.SortStableFunc(sorted, func(a, b cache.Delta) int {
		switch {
		case a.Unknown == b.Unknown:
			return 0
		case a.Unknown:
			return -1
		default:
			return 1
		}
	})
	return sorted
}

// latestCommit returns the record of the latest commit to the informer's kind, -1 if the run has none.
func (e *engine) latestCommit(inf *informer) int {
	if log := e.server.Log(inf.view.Kind()); len(log) > 0 {
		if record, ok := e.commits[log[len(log)-1].Revision]; ok {
			return record
		}
	}
	return -1
}

// lagDeadline returns when the next of the informers that wait goes on, [Forever] if none will.
func (e *engine) lagDeadline() time.Duration {
	first := Forever
	for _, inf := range e.informers {
		if until := inf.watch.until; until > e.clock {
			first = min(first, until)
		}
	}
	return first
}
