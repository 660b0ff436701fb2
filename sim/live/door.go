package live

import (
	"context"
	"errors"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// errDied is what a program gets that has died.
var errDied = errors.New("the process has died")

// passage is a request on its way through the gate.
type passage struct {
	visit
	call  *call
	agent *process // nil for a racer
	// send makes the request to the real server.
	send func(context.Context) (*answer, error)
}

// pass lets a request through the gate: it waits for what holds it, makes it when it is its turn, and records it.
func (c *cluster) pass(ctx context.Context, p *passage) (*answer, error) {
	p.sight = func() int64 { return c.sight(p.call) }
	if err := c.gate.comeUp(ctx, &p.visit); err != nil {
		return nil, err
	}
	if p.agent != nil && p.agent.isDead() {
		return nil, errDied
	}
	leave, err := c.gate.enter(ctx)
	if err != nil {
		return nil, err
	}
	got, err := c.carryOut(ctx, p)
	leave()
	for _, s := range p.strikes {
		if s.fault.Type == schedule.Delay && s.fault.Point == schedule.AfterCommit {
			sleep(ctx, s.fault.For)
		}
	}
	if err == nil {
		back := visit{event: p.event, key: p.key}
		back.event.Return = true
		if c.gate.holdsAny(back.event) {
			err = c.gate.comeUp(ctx, &back)
			c.gate.done(&back, Step{}, 0)
		}
	}
	return got, err
}

// carryOut makes the request, unless a fault answers it, and records what came of it.
func (c *cluster) carryOut(ctx context.Context, p *passage) (got *answer, err error) {
	struck := c.gate.struck(p.strikes)
	sight, step := p.sight(), Step{Fault: struck.faultType()}
	if struck == nil || struck.carriedOut() {
		before := c.mirror.get(p.call.Kind, p.call.Namespace, p.call.Name)
		c.gate.announce(p.event)
		if got, err = p.send(ctx); err == nil {
			response := responseTo(p.call.Request, got)
			response.Before = before
			step.Committed = c.settle(p.call, response, before)
			response.Committed = step.Committed
			step.tell(response)
			c.gate.answered(p.event, p.call.Request, response)
		}
	}
	if struck != nil {
		if instead, broken := struck.answer(p.call, p.event.Actor); instead != nil || broken != nil {
			got, err = instead, broken
		}
		if p.agent != nil && (struck.crashes(schedule.BeforeCall) || struck.crashes(schedule.AfterCommit)) {
			p.agent.crash(struck.fault)
			got, err = nil, errDied
		}
	}
	if err != nil {
		step.Code, step.Message = noAnswer, err.Error()
	} else {
		step.tell(responseTo(p.call.Request, got))
	}
	c.gate.done(&p.visit, step, sight)
	return got, err
}

// noAnswer is the code of a request that got none, as in histories.
const noAnswer = -1

func (s *Step) tell(r *apiserver.Response) {
	s.Code, s.Reason, s.Message = r.Code, "", ""
	if r.Err != nil {
		s.Reason, s.Message = string(r.Err.ErrStatus.Reason), r.Err.ErrStatus.Message
	}
}

// settle waits until the mirror has what a write brought about, and returns the revision it was committed at, zero if it changed
// nothing.
func (c *cluster) settle(call *call, response *apiserver.Response, before apiserver.Object) int64 {
	if !call.Verb.IsWrite() || response.Err != nil || call.DryRun {
		return 0
	}
	const limit = 2 * time.Second
	namespace, name := call.Namespace, call.Name
	if response.Object != nil {
		namespace, name = response.Object.GetNamespace(), response.Object.GetName()
	}
	old := revisionOf(before)
	if response.Revision > old && call.Verb != schedule.Delete {
		c.mirror.await(call.Kind, limit, func(_ func(string, string) apiserver.Object, revision int64) bool {
			return revision >= response.Revision
		})
		return response.Revision
	}
	if unchanged(call, response, before) {
		return 0
	}
	// The object is gone, or terminating, or changed by a subresource whose answer does not say how.
	revision := int64(0)
	c.mirror.await(call.Kind, limit, func(get func(string, string) apiserver.Object, latest int64) bool {
		obj := get(namespace, name)
		revision = max(revisionOf(obj), latest)
		return obj == nil && before != nil || obj != nil && revisionOf(obj) > old
	})
	return max(revision, 1)
}

// unchanged reports whether a write that succeeded has changed nothing, as far as its answer says.
func unchanged(call *call, response *apiserver.Response, before apiserver.Object) bool {
	switch {
	case call.Verb == schedule.Delete:
		return response.Object != nil && before != nil && before.GetDeletionTimestamp() != nil && len(before.GetFinalizers()) > 0 &&
			response.Revision == revisionOf(before)
	case response.Object == nil:
		return false
	default: // an update that takes the last finalizer away is answered with the old revision
		return response.Object.GetDeletionTimestamp() == nil || len(response.Object.GetFinalizers()) > 0
	}
}

// sight returns what tells a poll from a request that is new; see engine.sight in package sim.
func (c *cluster) sight(call *call) int64 {
	revision := int64(0)
	if call.Name == "" {
		revision = c.mirror.newest(call.Kind)
	} else {
		revision = revisionOf(c.mirror.get(call.Kind, call.Namespace, call.Name))
	}
	if !call.Verb.IsWrite() {
		return revision
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(strconv.FormatInt(revision, 10) + " "))
	_, _ = h.Write(call.body)
	return int64(h.Sum64())
}

// eventOf names a request, without its actor.
func eventOf(r *apiserver.Request) schedule.Event {
	return schedule.Event{Verb: r.Verb, Kind: r.Kind.Name(), Namespace: r.Namespace, Name: r.Name, Subresource: r.Subresource}
}

// passes reports whether requests for a kind go by the gate: those that no scenario is about.
func passesBy(c *call) bool {
	return c == nil || c.Kind.Volatile || c.Kind.Resource == "leases" || c.Kind.Resource == "events"
}

// holdsAny reports whether a hold is about an event, whatever its occurrence.
func (g *gate) holdsAny(base schedule.Event) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, h := range g.holds {
		if h.event.Base() == base || h.waits.event.Base() == base {
			return true
		}
	}
	return false
}

// struck takes the first fault that acts at a request, nil if none does.
func (g *gate) struck(due []*strike) *strike {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range due {
		s.struck = true
	}
	if len(due) > 0 {
		return due[0]
	}
	return nil
}

func (s *strike) faultType() schedule.FaultType {
	if s == nil {
		return ""
	}
	return s.fault.Type
}

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
