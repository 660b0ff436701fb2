package live

import (
	"slices"
	"time"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// A schedule says little: what it does not say takes the default order, in which one thread goes on as long as it can. follow has
// the real cluster take the order that the simulated run had, as far as that goes: a request waits for the one before it there, if
// that was another thread's. As real programs do not make the same requests, it does not wait for what does not come: where nothing
// moves for a moment, the request goes on that comes first in the simulated order.
type follow struct {
	places map[schedule.Event]int // the order, by loose name; those in it count from 1
	before []schedule.Event       // what the event at a place waits for; the zero event for nothing

	counts  map[schedule.Event]int // how often each loose name, without its occurrence, came up
	waiting map[*visit]int         // the places of those that wait
	moved   time.Time              // when something happened last
}

// moment is how long nothing must move for a request to go on that waits for another one.
const moment = 300 * time.Millisecond

// newFollow returns the order of a simulated run. Moments are of real time, as the cluster is real.
func newFollow(config *sim.Config, h *history.History) *follow {
	f := &follow{places: map[schedule.Event]int{}, counts: map[schedule.Event]int{}, waiting: map[*visit]int{}, moved: time.Now()}
	counts := map[schedule.Event]int{}
	mine := func(actor string) bool {
		return slices.ContainsFunc(config.Processes, func(p sim.Process) bool { return p.Name == actor })
	}
	var last schedule.Event
	thread := -1
	for i := h.ScriptBegins; i < len(h.Records); i++ {
		r := &h.Records[i]
		if kind := config.Kinds.ByName(r.Event.Kind); kind != nil && kind.Volatile || !ordered(r.Event, mine(r.Event.Actor)) {
			continue
		}
		name := loose(r.Event)
		counts[name]++
		name.Occurrence = counts[name]
		before := last
		if r.Thread == thread {
			before = schedule.Event{}
		}
		f.places[name] = len(f.before)
		f.before = append(f.before, before)
		last, thread = name, r.Thread
	}
	return f
}

// ordered reports whether a step takes part in the order: writes, and of the processes under test also reads, what their caches are
// told, and the begins of their passes.
func ordered(event schedule.Event, mine bool) bool {
	switch event.Verb {
	case schedule.Get, schedule.List, schedule.CachedGet, schedule.CachedList, schedule.Deliver, schedule.Dequeue:
		return mine && !event.Return
	default:
		return event.Verb.IsWrite() && !event.Return
	}
}

// loose returns the name that an event has whoever plays its actor, without its occurrence.
func loose(event schedule.Event) schedule.Event {
	if event.Occurrence = 0; event.Verb != schedule.Dequeue {
		event.Controller, event.Key = "", ""
	}
	return event
}

// happened counts an event.
func (f *follow) happened(event schedule.Event) {
	f.counts[loose(event)]++
	f.moved = time.Now()
}

// arrived and left keep the list of those that wait.
func (f *follow) left(v *visit) { delete(f.waiting, v) }

// holds reports whether a visit waits for another event, and until when if nothing moves. repeated says that it is a poll.
func (f *follow) holds(v *visit, repeated bool) (until time.Time, held bool) {
	name := loose(v.event)
	name.Occurrence = f.counts[name] + 1
	if repeated {
		name.Occurrence--
	}
	place, known := f.places[name]
	if !known {
		return until, false
	}
	before := f.before[place]
	base := before
	base.Occurrence = 0
	if before == (schedule.Event{}) || f.counts[base] >= before.Occurrence {
		f.left(v)
		return until, false
	}
	if _, waits := f.waiting[v]; !waits {
		f.waiting[v] = place
		f.moved = time.Now()
	}
	until = f.moved.Add(moment)
	if time.Now().Before(until) {
		return until, true
	}
	for _, other := range f.waiting {
		if other < place {
			return time.Now().Add(moment), true
		}
	}
	f.left(v)
	f.moved = time.Now()
	return until, false
}
