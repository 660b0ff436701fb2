package sim

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// The kubelet's back-off before it starts a container again that has ended by itself (pkg/kubelet, v1.36): it doubles from one
// end to the next, and is as at first after a start that has lived for crashLoopReset.
const (
	crashLoopBase  = 10 * time.Second
	crashLoopMax   = 5 * time.Minute
	crashLoopReset = 2 * crashLoopMax
)

// crash ends a process at once, and has it start again after a while: with an empty memory, and with another program if the
// restart names one.
func (e *engine) crash(p *process, r Restart) {
	program, ok := p.program, true
	if r.Reconciler != "" {
		program, ok = p.config.Upgrades[r.Reconciler]
	}
	if !ok {
		e.fail(fmt.Errorf("process %q: cannot be upgraded to %q: no such program in its Upgrades", p.name, r.Reconciler))
		return
	}
	e.collect() // those that parked in this step die, too
	p.kill()
	if until := e.lasts(r.After); until < Forever {
		e.restart(p, p.successor(program), until-e.clock)
	}
}

// takeExits ends the processes whose programs have ended with an error.
func (e *engine) takeExits() {
	if len(e.exited) == 0 {
		return
	}
	slices.SortFunc(e.exited, func(a, b *process) int { return cmp.Compare(a.main.id, b.main.id) })
	for _, p := range e.exited {
		if !p.dead {
			e.exit(p)
		}
	}
	e.exited = nil
}

// exit ends a process whose program has ended with an error, and has it start again as the kubelet does: a crash loop is one of
// the things that happen to an operator. But if nothing disturbs the default order, and the program has reconciled nothing
// before its end, its set-up is wrong, and that is no history.
func (e *engine) exit(p *process) {
	if p.incarnation == 1 && !p.reconciled {
		e.notStarted = true
		if e.plan.undisturbed() {
			e.fail(&ProgramError{Process: p.name, Err: e.explained(p, p.exited)})
			return
		}
	}
	next := p.successor(p.program)
	next.backoff = crashLoopBase
	if p.backoff > 0 && e.clock-p.began < crashLoopReset {
		next.backoff = min(2*p.backoff, crashLoopMax)
	}
	e.history.Logs = append(e.history.Logs, history.Log{
		At: e.clock, Actor: p.name, Record: e.last, Level: -1, Message: "the process ends, and is started again after a back-off",
		Values: []string{"error=" + p.exited.Error(), "backoff=" + next.backoff.String()},
	})
	p.kill()
	e.restart(p, next, next.backoff)
}

// successor returns the process that takes the place of one that has ended.
func (p *process) successor(program Program) *process {
	next := newProcess(p.engine, p.config, program)
	next.incarnation, next.previous = p.incarnation+1, p.began
	return next
}

// precedes reports whether another process is a later start of the same program.
func (p *process) precedes(other *process) bool {
	return other.name == p.name && other.incarnation > p.incarnation
}

// restart starts a process after a while in which there was none.
func (e *engine) restart(ended, next *process, after time.Duration) {
	event := schedule.Event{Actor: ended.name, Incarnation: ended.incarnation, Verb: schedule.Timer, Name: "restart"}
	t := e.newTimer(ended.main, event, after, func() { e.launch(next, e.last) })
	t.futile = next.futile
}

// futile reports whether nobody need wait for the process to start: it has ended by itself twice, the last time with the cluster
// as it is now, and would only do so again.
func (p *process) futile() bool {
	return p.backoff > crashLoopBase && p.previous > p.engine.quiet.lastCommit
}

// kill ends the process: its parked goroutines exit, its later calls never return, its context ends. Nothing of it is left in
// the engine. Goroutines that wait for one of those that exit, and heed no context, never end; nor are they ever heard of.
func (p *process) kill() {
	e := p.engine
	e.mu.Lock()
	p.dead, p.passes = true, 0
	e.queues = slices.DeleteFunc(e.queues, func(q queueSource) bool {
		owned, ok := q.(interface{ of(p *process) bool })
		return ok && owned.of(p)
	})
	e.mu.Unlock()
	e.pay()
	for _, o := range e.ops {
		if o.process == p {
			o.killed = true
			e.release(o)
		}
	}
	e.ops = slices.DeleteFunc(e.ops, func(o *op) bool { return o.process == p })
	for _, r := range e.registrations {
		if r.process == p {
			close(r.feed)
		}
	}
	e.registrations = slices.DeleteFunc(e.registrations, func(r *registration) bool { return r.process == p })
	e.informers = slices.DeleteFunc(e.informers, func(inf *informer) bool {
		return inf.event.Actor == p.name && inf.event.Incarnation == p.incarnation
	})
	p.cancel()
	e.settle()
}
