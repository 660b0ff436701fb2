package explore

import (
	"cmp"
	"slices"
	"time"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// pct is probabilistic concurrency testing (Burckhardt, Kothari, Musuvathi, Nagarakatte: A Randomized Scheduler with
// Probabilistic Guarantees of Finding Bugs, ASPLOS 2010). Every lane has a priority at random, and the highest of those
// enabled goes on. At a few choices, drawn from as many as the default run has, the lane that is about to go on falls
// behind all others. A bug of depth d, in a run of k choices among n lanes, is hit with a probability of at least 1/(n k^(d-1)).
//
// Informers and handlers have lanes of their own, so that some caches lag throughout a run. A selective one falls behind only
// before steps that conflict with another one.
//
// Whoever is last goes on as soon as all others wait for time to pass, which they do most of the time. So in half of the runs
// the change points are calls that come up, and such a call is late, too.
type pct struct {
	streams
	// points are the choices, or calls, from 1, at which a lane falls behind; of those of a contested step, where contested is set.
	points    []int
	contested map[schedule.Event]bool
	late      bool
	// fair is the number of choices after which the default order goes on, so that a starved actor is no livelock.
	fair    int
	shuffle bool
	// lag lets some informers and handlers lag for the whole run: they go on only when nobody else can. Where their priority is drawn
	// like any other, there is always some actor that they come before.
	lag bool

	choices, counted int
	priorities       map[lane]priority
}

// fairAfter is how many times the default run's choices are made by priority.
const fairAfter = 3

// newPCT returns a strategy that looks for bugs of a depth: that many choices, one of them the priorities, must come right.
func newPCT(seed int64, depth int, survey *Survey, selective, late bool) *pct {
	p := &pct{streams: newStreams(seed, "pct"), late: late, fair: fairAfter * max(1, survey.choices.all),
		priorities: map[lane]priority{}}
	p.shuffle = p.named("shuffle").Below(2) == 1
	counted := survey.choices
	if p.late {
		counted = survey.calls
	}
	among := counted.all
	if selective {
		among, p.contested = counted.contested, survey.contested
	}
	points := p.named("points")
	for range depth - 1 {
		p.points = append(p.points, 1+points.Below(max(1, among)))
	}
	return p
}

// lane is a sequence of steps that has one priority: a reconcile of a key, a racer's work on one, an informer, a handler.
type lane struct {
	actor           string
	incarnation     int
	controller, key string
	verb            schedule.Verb // of an informer or a handler
	kind            string
}

func laneOf(c *sim.Choice) lane {
	l := lane{actor: c.Event.Actor, incarnation: c.Event.Incarnation, controller: c.Event.Controller, key: c.Event.Key}
	if c.Infrastructure {
		l.verb, l.kind = c.Event.Verb, c.Event.Kind
	}
	return l
}

// priority is that of a lane. One that fell behind comes after all that did not.
type priority struct {
	behind int // the change point at which it fell behind, from firstBehind; an earlier one in the list is further behind
	drawn  uint64
}

const (
	lagging     = 1 // is further behind than any change point
	firstBehind = 2
)

// lagOdds is that one in so many informers and handlers lags.
const lagOdds = 3

func comparePriorities(a, b priority) int {
	if (a.behind == 0) != (b.behind == 0) {
		return cmp.Compare(b.behind, a.behind)
	}
	return cmp.Or(cmp.Compare(a.behind, b.behind), cmp.Compare(a.drawn, b.drawn))
}

// Choose implements sim.Strategy.
func (p *pct) Choose(enabled []sim.Choice) int {
	p.choices++
	if p.choices > p.fair {
		return 0
	}
	best := p.highest(enabled)
	if !p.late && p.changes(&enabled[best]) {
		best = p.highest(enabled)
	}
	return best
}

// changes counts a step, and lets its lane fall behind if this is a change point.
func (p *pct) changes(c *sim.Choice) bool {
	if p.contested != nil && !p.contested[c.Event.Base()] {
		return false
	}
	p.counted++
	point := slices.Index(p.points, p.counted)
	if point >= 0 {
		p.priorities[laneOf(c)] = priority{behind: firstBehind + point}
	}
	return point >= 0
}

// highest returns the choice whose lane has the highest priority; of several the first.
func (p *pct) highest(enabled []sim.Choice) int {
	best := 0
	for i := 1; i < len(enabled); i++ {
		if comparePriorities(p.priority(&enabled[i]), p.priority(&enabled[best])) > 0 {
			best = i
		}
	}
	return best
}

func (p *pct) priority(c *sim.Choice) priority {
	l := laneOf(c)
	known, ok := p.priorities[l]
	if !ok {
		event := schedule.Event{Actor: l.actor, Incarnation: l.incarnation, Controller: l.controller, Key: l.key, Verb: l.verb, Kind: l.kind}
		known = priority{drawn: p.of("priority", event).Next()}
		if p.lag && c.Infrastructure && p.of("lag", event).Below(lagOdds) == 0 {
			known.behind = lagging
		}
		p.priorities[l] = known
	}
	return known
}

// Delay implements sim.Strategy.
func (p *pct) Delay(event schedule.Event) time.Duration {
	if !p.late || !p.changes(&sim.Choice{Event: event}) {
		return 0
	}
	return p.of("delay", event).delay()
}

// Permute implements sim.Strategy.
func (p *pct) Permute(event schedule.Event, n int) []int {
	if !p.shuffle {
		return nil
	}
	return p.of("permute", event).permutation(n)
}
