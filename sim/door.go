package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

var (
	errCrashedBefore = errors.New("process crashed before the call")
	errCrashedAfter  = errors.New("process crashed before the answer came")
)

// openDoor returns the door that a call passes, nil if nobody stands there.
func (e *engine) openDoor(s carrier, v *visit, at []*armed) *Door {
	own := e.ownReactors()
	if len(own) == 0 && len(at) == 0 {
		return nil
	}
	d := &Door{engine: e, context: s.inFlight().ctx, event: v.event, reactors: own}
	if d.context == nil {
		d.context = context.Background()
	}
	if o, ok := s.(*op); ok {
		d.process = o.process
	}
	for _, a := range at {
		if a.until > 0 {
			d.struck = append(d.struck, a)
		}
		if !a.own && !e.healed() {
			d.reactors = append(slices.Clip(d.reactors), a)
		}
	}
	// The server takes over what it is given, and the call may be made again.
	d.request = copyOf(v.request)
	v.request = d.request
	return d
}

// copyOf returns a request that may be given away.
func copyOf(r *apiserver.Request) *apiserver.Request {
	request := *r
	if r.Object != nil {
		request.Object = r.Object.DeepCopyObject().(apiserver.Object)
	}
	return &request
}

// pass calls a hook of the reactors, in order, until one has broken the connection, or, on the way in, answered.
func (d *Door) pass(hook func(*Door, Reactor)) {
	for _, a := range d.reactors {
		d.acted, d.current = false, a
		answered := d.response != nil
		hook(d, a.reactor)
		if d.acted && !a.own {
			d.struck = append(d.struck, a)
		}
		if d.broken != nil || d.crash != nil || !answered && d.response != nil {
			return
		}
	}
}

func (d *Door) before(r Reactor) { r.Before(d) }
func (d *Door) after(r Reactor)  { r.After(d) }

// open reports whether the request goes on to the server.
func (d *Door) open() bool { return d.response == nil && d.broken == nil && d.crash == nil }

// answer returns what comes back.
func (d *Door) answer() answer {
	switch {
	case d.crash != nil && d.response == nil:
		return answer{err: errCrashedBefore}
	case d.crash != nil:
		return answer{err: errCrashedAfter}
	case d.broken != nil:
		return answer{err: d.broken}
	default:
		return answer{response: d.response}
	}
}

// intrude makes a request in the name of somebody who is neither a process nor a racer. No reactor sees it.
func (e *engine) intrude(actor string, r *apiserver.Request) *apiserver.Response {
	e.clock += tick
	event := requestEvent(r)
	event.Actor = actor
	if r.UserAgent == "" {
		r.UserAgent = actor
	}
	v := e.announce(e.intruderThread(actor), event, r)
	e.serve(&v)
	e.close(&v, answer{response: v.response}, nil)
	return v.response
}

// intrudeLater makes a request in the name of somebody after a span of virtual time, as far as the faults do not heal before.
// It is made by an engine timer, so that the run goes on until then.
func (e *engine) intrudeLater(actor string, after time.Duration, make func() *apiserver.Request) {
	until := e.lasts(after)
	if until == Forever {
		return
	}
	event := schedule.Event{Actor: actor, Verb: schedule.Timer, Name: "later"}
	e.newTimer(e.intruderThread(actor), event, until-e.clock, func() {
		if r := make(); r != nil {
			e.intrude(actor, r)
		}
	})
}

func (e *engine) intruderThread(actor string) *thread {
	t := e.intruders[actor]
	if t == nil {
		t = e.newThread("", "")
		if e.intruders == nil {
			e.intruders = map[string]*thread{}
		}
		e.intruders[actor] = t
	}
	return t
}
