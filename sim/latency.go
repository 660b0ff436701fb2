package sim

import (
	"time"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// latencies are the delays of single steps, from the begin of the script on: a request or a cached read is late by its span
// from when it comes up. Other steps are held for theirs, see [newHolds].
type latencies struct {
	spans map[comingUp]time.Duration
	times map[schedule.Event]int // how often a name has come up
}

// comingUp is the n-th time, from 0, that a name comes up: a poll goes by the name of the event it repeats.
type comingUp struct {
	name schedule.Event
	nth  int
}

func newLatencies(list []schedule.Latency) latencies {
	l := latencies{spans: map[comingUp]time.Duration{}, times: map[schedule.Event]int{}}
	for _, late := range list {
		at := comingUp{late.At, late.Repeat}
		l.spans[at] = later(l.spans[at], late.For)
	}
	return l
}

// comesUp reports whether steps of this name come up once, as calls do, rather than become enabled again and again.
func comesUp(event schedule.Event) bool {
	return (event.Verb.IsRequest() || event.Verb.IsRead()) && !event.Return
}

// arrival is a step of a run with a strategy that was late, or could have been.
type arrival struct {
	comingUp
	at     time.Duration
	chosen time.Duration // for how long the strategy delayed it
	late   time.Duration // for how long it is to be delayed for the same order without the strategy
	passed bool          // whether it was passed over as a poll
}

// delay returns until when a call that has just come up is held back: as the plan says or, where it says nothing, as the
// strategy wants. Strategies delay requests only.
func (e *engine) delay(s stepper) time.Duration {
	if !e.scripted || e.plan.Strategy == nil && len(e.latencies.spans) == 0 {
		return 0
	}
	name := e.name(s)
	came := &arrival{comingUp: comingUp{name, e.latencies.times[name]}, at: e.clock}
	e.latencies.times[name]++
	d, planned := e.latencies.spans[came.comingUp]
	if !planned && e.plan.Strategy != nil && s.request() {
		d = e.strategyDelay(came.comingUp)
		came.chosen = max(d, 0)
	}
	if e.plan.Strategy != nil {
		e.deviations.comesUp(e, s, came, d)
	}
	if d <= 0 {
		return 0
	}
	until := later(e.clock, d)
	e.disturbed(until)
	return until
}

// strategyDelay asks the strategy: one that follows a trace by the full name.
func (e *engine) strategyDelay(at comingUp) time.Duration {
	if f, ok := e.plan.Strategy.(follower); ok {
		return f.delayOf(at)
	}
	return e.plan.Strategy.Delay(at.name.Base())
}

// latenciesOf lists the delays of those arrivals that have one.
func latenciesOf(arrivals []*arrival, of func(*arrival) time.Duration) []schedule.Latency {
	var list []schedule.Latency
	for _, a := range arrivals {
		if d := of(a); d > 0 {
			list = append(list, schedule.Latency{At: a.name, Repeat: a.nth, For: d})
		}
	}
	return list
}
