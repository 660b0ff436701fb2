package sim

import (
	"fmt"
	"slices"

	"github.com/stalemate-dev/stalemate/sim/schedule"
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
	until := e.faultEnd(r.After)
	if until == Forever {
		return
	}
	e.disturbed(until)
	event := schedule.Event{Actor: p.name, Incarnation: p.incarnation, Verb: schedule.Timer, Name: "restart"}
	e.newTimer(p.main, event, until-e.clock, func() {
		e.launch(p.config, program, p.incarnation+1, e.last)
	})
}

// kill ends the process: its parked goroutines exit, its later calls never return, its context ends. Nothing of it is left in
// the engine.
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
	if p.cancel != nil {
		p.cancel()
	}
}
