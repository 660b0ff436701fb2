package sim

import (
	"fmt"
	"time"

	"github.com/stalemate-dev/stalemate/sim/history"
)

// The horizon: how long a run must be quiet to be called terminal, in virtual time.
const (
	// horizonAtRest is the least horizon while every worker waits for its queue.
	horizonAtRest = 10 * time.Minute
	// horizonInPass is the least horizon while a worker is in the middle of a pass: it sleeps or polls there, and only
	// its code knows for how long it will.
	horizonInPass = time.Hour
	// horizonPasses is how many passes of an operator that keeps looking the horizon spans, as far as they fit into
	// horizonInPass: only its code knows after how many of them it will do something.
	horizonPasses = 180
	// livelockRepeats is how often the cluster must have been in one and the same state, each time after a commit, for a
	// run that reaches a limit to be a livelock.
	livelockRepeats = 5
)

// quietness keeps what the terminal state is told by.
type quietness struct {
	lastCommit time.Duration
	longestGap time.Duration // between two commits
}

func (q *quietness) commit(now time.Duration) {
	q.longestGap = max(q.longestGap, now-q.lastCommit)
	q.lastCommit = now
}

// returning is a queue of an operator, whose keys may come back by themselves.
type returning interface {
	// interval returns the longest time that a key which waits is away for; zero if none is.
	interval() time.Duration
}

// horizon returns how long the run must be quiet: at least the constant for its situation, and twice the longest gap
// seen between two commits.
func (e *engine) horizon() time.Duration {
	least := horizonAtRest
	for _, q := range e.queues {
		if r, ok := q.(returning); ok {
			least = max(least, horizonPasses*min(r.interval(), horizonInPass/horizonPasses))
		}
	}
	for _, p := range e.processes {
		if p.passes > 0 {
			least = horizonInPass
		}
	}
	return max(least, 2*e.quiet.longestGap)
}

// idle is called when no step is enabled: either the run is terminal, or the clock goes on.
func (e *engine) idle() {
	if !e.scripted && e.atRest() {
		e.beginScript()
		return
	}
	horizon := e.quiet.lastCommit + e.horizon()
	limit := e.config.Limits.virtualTime()
	target := limit
	if horizon > e.clock {
		target = min(target, horizon)
	}
	pending := e.pendingDeadline(&target)
	if e.clock >= horizon && !pending {
		if !e.scripted {
			e.beginScript()
			return
		}
		e.terminal()
		return
	}
	if e.clock >= limit {
		if e.clock >= horizon && e.scripted && e.heldUntil() == Forever {
			e.terminal() // what is pending asks to look again later than the scenario wants to know about
		} else {
			e.limit("virtual time", limit)
		}
		return
	}
	e.advance(target)
}

func (e *engine) terminal() {
	e.history.Horizon = e.horizon()
	e.end(history.Terminal, fmt.Sprintf("no commit for %s", e.horizon()))
}

// heldUntil returns when the first of the steps that something holds back is let go; [Forever] if nothing does, or for ever.
func (e *engine) heldUntil() time.Duration {
	return min(e.holdDeadline(), e.lagDeadline(), e.flightDeadline(), e.faultDeadline())
}

// pendingDeadline brings the target forward to the next thing that the engine knows will happen. It reports whether the
// run must not be called terminal before that: a timer, a hold or a delay is pending, or a key is queued that has not seen the
// last commit.
func (e *engine) pendingDeadline(target *time.Duration) bool {
	first := e.heldUntil()
	*target = min(*target, first)
	pending := first < Forever
	for _, t := range e.timers {
		if t.at > e.clock { // one that is due is held, and comes up again when its hold ends
			*target = min(*target, t.at)
			pending = pending || t.futile == nil || !t.futile()
		}
	}
	for _, q := range e.queues {
		if at, ok := q.deadline(); ok {
			*target = min(*target, at)
			pending = pending || q.unsettled(e.quiet.lastCommit)
		}
	}
	return pending
}

// atRest reports whether nothing is going on: no pass, no timer, no key queued that has not been looked at.
func (e *engine) atRest() bool {
	for _, p := range e.processes {
		if p.passes > 0 {
			return false
		}
	}
	for _, q := range e.queues {
		if q.unsettled(e.quiet.lastCommit) {
			return false
		}
	}
	return len(e.timers) == 0
}

// limit ends a run that has reached a limit: a livelock if the cluster keeps coming back to one state.
func (e *engine) limit(what string, bound any) {
	outcome := history.Inconclusive
	if e.stateSeen >= livelockRepeats {
		outcome = history.Livelock
	}
	e.end(outcome, fmt.Sprintf("limit of %v %s reached", bound, what))
}

func (l *Limits) steps() int {
	if l.Steps > 0 {
		return l.Steps
	}
	return 20000
}

func (l *Limits) virtualTime() time.Duration {
	if l.VirtualTime > 0 {
		return l.VirtualTime
	}
	return 24 * time.Hour
}

// HoldBound returns for how long a constraint may hold a step, in virtual time.
func (l *Limits) HoldBound() time.Duration {
	if l.Hold > 0 {
		return l.Hold
	}
	return 120 * time.Second
}

func (l *Limits) stuck() time.Duration {
	if l.Stuck > 0 {
		return l.Stuck
	}
	return 30 * time.Second
}
