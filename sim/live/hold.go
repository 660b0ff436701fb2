package live

import (
	"time"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// hold is a constraint of the schedule, or a latency, as the gate plays it: when its event comes up, it waits until what it waits
// for has happened.
//
// In a real cluster other actors write more or less often than in the simulation, as their writes meet more or less often. The
// event waited for is therefore not counted from the beginning, as its name does: the hold waits for as many events of that name
// as the simulation had between the step before the held one, in the order of its program, and the release.
type hold struct {
	event schedule.Event
	waits pattern
	needs int
	late  time.Duration // of a latency: for how long it holds
	bound time.Duration // for how long a hold may take

	cameUp, over, occurred bool
	seen                   int
	deadline               time.Time
}

// pattern chooses events by what is known of them also where another program than ours makes them.
type pattern struct {
	event schedule.Event
	// loose is set for actors that are played by kube-controller-manager, which does not tell what key it works on.
	loose bool
}

func (p pattern) matches(event schedule.Event) bool {
	want := p.event.Base()
	event = event.Base()
	if p.loose {
		want.Controller, want.Key, event.Controller, event.Key = "", "", "", ""
	}
	return want == event
}

// comeUp begins to hold. What has happened since the thread's last step counts, and for a delivery since the write it tells of.
func (h *hold) comeUp(g *gate, v *visit) {
	h.cameUp = true
	if h.late > 0 {
		h.deadline = v.came.Add(h.late)
		return
	}
	h.deadline = v.came.Add(h.bound)
	from := g.threadOf(v.key).last + 1
	if cause, ok := g.commits[v.cause]; ok {
		from = max(from, cause+1)
	}
	for i := from; i < len(g.steps); i++ {
		if h.waits.matches(g.steps[i].Event) {
			h.seen++
		}
	}
}

func (h *hold) stillHolds() bool {
	return (h.late > 0 || h.seen < h.needs) && time.Now().Before(h.deadline)
}

// met reports whether what the hold is for came about.
func (h *hold) met() bool { return h.occurred && (h.late > 0 || h.seen >= h.needs) }
