package live

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Step is one thing that happened in a run against a real server: a request and its answer, or a delivery, as far as it came
// through the gate.
type Step struct {
	// At is the real time since the script began.
	At    time.Duration
	Event schedule.Event
	// Code, Reason and Message are the answer to a request, as the actor got it. Code is zero for what is no request.
	Code            int
	Reason, Message string
	// Committed is the revision at which a write was committed, zero if it changed nothing.
	Committed int64
	// Repeats counts how often a poll was repeated with the same answer.
	Repeats int
	// Held says for how long the gate held the step back.
	Held time.Duration
	// Fault is what struck at the step, empty if nothing did.
	Fault schedule.FaultType
}

// gate is what every request of a run passes, and every event that is delivered to a program under test: it gives them their
// names, holds back what the schedule holds, and keeps the record. Requests pass one at a time.
type gate struct {
	start atomic.Pointer[time.Time]
	turn  chan struct{} // whoever has put something in may make a request

	mu      sync.Mutex
	changed chan struct{} // closed, and made anew, whenever something has happened
	names   map[schedule.Event]*eventState
	threads map[threadKey]*thread
	steps   []Step
	commits map[int64]int // the steps that committed, by revision
	holds   []*hold
	strikes []*strike
	order   *follow
	armed   bool // the script has begun: holds and faults count
	// activity is when something last happened that keeps the run from being over, busy how many passes and requests go on.
	activity time.Time
	busy     int
	follow   []func(schedule.Event)

	judge   sync.Mutex // guards monitor
	monitor *property.Monitor
}

// eventState is what the gate knows of the events that share a name but for their occurrence. See eventState in package sim,
// whose rules these are.
type eventState struct {
	count, step    int
	sight          int64
	burst, commits int
	spoilt         bool
}

// threadKey names a sequence of steps in program order.
type threadKey struct {
	actor           string
	incarnation     int
	controller, key string
	deliveries      string // the kind, for those of an informer
}

// thread is the passes over a key, a racer's worker, or the deliveries of an informer.
type thread struct {
	last           int // the index of its latest step, -1 for none
	burst, commits int
	at             time.Time // when its latest step ended
}

func newGate() *gate {
	g := &gate{
		turn: make(chan struct{}, 1), changed: make(chan struct{}), names: map[schedule.Event]*eventState{},
		threads: map[threadKey]*thread{}, commits: map[int64]int{}, activity: time.Now(),
	}
	g.begin()
	return g
}

// begin sets the time from which times are told.
func (g *gate) begin() {
	now := time.Now()
	g.start.Store(&now)
}

// reset forgets what has happened, and begins to count anew.
func (g *gate) reset() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.activity = time.Now()
	g.begin()
	clear(g.names)
	clear(g.threads)
	clear(g.commits)
	g.steps = nil
}

// arm lets holds and faults count from now on.
func (g *gate) arm(holds []*hold, strikes []*strike, order *follow) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.holds, g.strikes, g.order, g.armed = holds, strikes, order, true
	g.activity = time.Now()
	g.begin()
}

// watch has a function told of every event, in their order.
func (g *gate) watch(f func(schedule.Event)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.follow = append(g.follow, f)
}

func (g *gate) now() time.Duration { return time.Since(*g.start.Load()) }

// wake tells whoever waits that something has happened. It is called with the lock.
func (g *gate) wake() {
	close(g.changed)
	g.changed = make(chan struct{})
}

// visit is one step that comes to the gate.
type visit struct {
	event schedule.Event // without its occurrence
	key   threadKey
	// sight tells what it would find now, which tells polls apart; nil for what is no poll.
	sight func() int64
	// cause is the revision that a delivery tells of.
	cause int64

	came     time.Time
	held     time.Duration
	ordered  bool // it waits for the order of the simulated run, and for nothing else
	released bool // it does so no longer
	strikes  []*strike
}

func (g *gate) threadOf(key threadKey) *thread {
	t := g.threads[key]
	if t == nil {
		t = &thread{last: -1}
		g.threads[key] = t
	}
	return t
}

// pause is how long a thread must have done nothing for its next request to count as one after a sleep.
const pause = 100 * time.Millisecond

// repeats reports whether the visit is a poll; see engine.repeats in package sim.
func (g *gate) repeats(v *visit, sight int64) bool {
	s, t := g.names[v.event], g.threadOf(v.key)
	if s == nil || v.sight == nil || s.count == 0 || s.spoilt || s.commits != t.commits || s.sight != sight {
		return false
	}
	return s.burst != t.burst
}

// isPoll reports whether the visit is a poll as things are now.
func (g *gate) isPoll(v *visit) bool { return v.sight != nil && g.repeats(v, v.sight()) }

// gone notes that a visit does not wait any more, as its caller has gone away.
func (g *gate) gone(v *visit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.armed {
		g.order.left(v)
	}
}

// name returns the event with the occurrence it would have now.
func (g *gate) name(v *visit) schedule.Event {
	event, sight := v.event, int64(0)
	if v.sight != nil {
		sight = v.sight()
	}
	event.Occurrence = 1
	if s := g.names[v.event]; s != nil {
		event.Occurrence = s.count + 1
		if g.repeats(v, sight) {
			event.Occurrence = s.count
		}
	}
	return event
}

// comeUp waits until nothing holds the step back any more. It returns early with the context's error.
func (g *gate) comeUp(ctx context.Context, v *visit) error {
	v.came = time.Now()
	g.mu.Lock()
	if t := g.threadOf(v.key); !t.at.IsZero() && v.came.Sub(t.at) > pause {
		t.burst++
	}
	g.mu.Unlock()
	for {
		until, changed, held := g.holdsBack(v)
		if !held {
			return ctx.Err()
		}
		ordered := v.ordered
		timer := time.NewTimer(time.Until(until))
		select {
		case <-ctx.Done():
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
		if !ordered {
			v.held = time.Since(v.came)
		}
		if ctx.Err() != nil {
			g.gone(v)
			return ctx.Err()
		}
	}
}

// holdsBack reports whether a step is held back, until when at most, and what is closed when that may have changed.
func (g *gate) holdsBack(v *visit) (until time.Time, changed <-chan struct{}, held bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.armed {
		return until, nil, false
	}
	var name schedule.Event
	for _, h := range g.holds {
		if h.event.Base() != v.event {
			continue
		}
		if name == (schedule.Event{}) {
			name = g.name(v)
		}
		if h.event != name || h.over {
			continue
		}
		if !h.cameUp {
			h.comeUp(g, v)
		}
		if h.stillHolds() && (until.IsZero() || h.deadline.Before(until)) {
			until, held = h.deadline, true
		}
	}
	v.strikes = g.strikesAt(v, name)
	for _, s := range v.strikes {
		if ready := v.came.Add(s.before()); s.before() > 0 && time.Now().Before(ready) && (until.IsZero() || ready.Before(until)) {
			until, held = ready, true
		}
	}
	if !held && !v.released {
		until, held = g.order.holds(v, g.isPoll(v))
		v.released, v.ordered = !held, held
	}
	return until, g.changed, held
}

// strikesAt returns the faults that are due at a step.
func (g *gate) strikesAt(v *visit, name schedule.Event) []*strike {
	var due []*strike
	for _, s := range g.strikes {
		if s.fault.At.Base() != v.event || s.struck {
			continue
		}
		if name == (schedule.Event{}) {
			name = g.name(v)
		}
		if s.fault.At == name {
			due = append(due, s)
		}
	}
	return due
}

// patience is how long a request waits for the one before it. A webhook that makes requests itself would wait for ever.
const patience = 5 * time.Second

// enter waits for the turn to make a request, and returns what gives it back.
func (g *gate) enter(ctx context.Context) (leave func(), err error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case g.turn <- struct{}{}:
		return func() { <-g.turn }, nil
	case <-timer.C:
		return func() {}, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// done records that a step took place.
func (g *gate) done(v *visit, s Step, sight int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	t := g.threadOf(v.key)
	state := g.names[v.event]
	if state == nil {
		state = &eventState{}
		g.names[v.event] = state
	}
	s.At, s.Event, s.Held = g.now(), v.event, v.held
	if g.repeats(v, sight) && s.Committed == 0 && len(v.strikes) == 0 {
		g.steps[state.step].Repeats++
		s.Event.Occurrence = state.count
	} else {
		state.count++
		s.Event.Occurrence = state.count
		state.step = len(g.steps)
		t.last = len(g.steps)
		g.steps = append(g.steps, s)
		g.happened(s.Event)
		if g.armed {
			g.order.happened(s.Event)
		}
	}
	if s.Committed != 0 {
		t.commits++
		g.commits[s.Committed] = state.step
		g.activity = time.Now()
	}
	state.sight, state.burst, state.commits, state.spoilt = sight, t.burst, t.commits, len(v.strikes) > 0
	t.at = time.Now()
	for _, f := range g.follow {
		f(s.Event)
	}
	g.wake()
}

// happened tells the holds.
func (g *gate) happened(event schedule.Event) {
	for _, h := range g.holds {
		if h.event == event {
			h.over, h.occurred = true, true
		}
		if h.cameUp && !h.over && h.waits.matches(event) {
			h.seen++
		}
	}
}

// began and ended keep count of what goes on. A pass that begins is a burst of its own.
func (g *gate) began(key threadKey) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.threadOf(key).burst++
	g.busy++
}

func (g *gate) ended() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.busy--
	g.wake()
}

// moved notes that the run is not over.
func (g *gate) moved() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.activity = time.Now()
}

// quiet returns for how long nothing has been committed, and whether anything is held or goes on.
func (g *gate) quiet() (time.Duration, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	still := g.busy == 0 && !slices.ContainsFunc(g.holds, func(h *hold) bool { return h.cameUp && h.stillHolds() && !h.over })
	return time.Since(g.activity), still
}

// changes returns a channel that is closed when something happens.
func (g *gate) changes() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.changed
}

// history returns what happened so far.
func (g *gate) history() []Step {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.steps)
}

// announce tells the properties of a request that is about to be made, answered of its answer.
func (g *gate) announce(event schedule.Event) {
	g.judge.Lock()
	defer g.judge.Unlock()
	if g.monitor != nil {
		g.monitor.Before(g.now(), event)
	}
}

func (g *gate) answered(event schedule.Event, request *apiserver.Request, response *apiserver.Response) {
	g.judge.Lock()
	defer g.judge.Unlock()
	if g.monitor != nil {
		g.monitor.After(g.now(), event, request, response)
	}
}

// committed tells the properties of a change to a kind.
func (g *gate) committed(kind string) {
	g.judge.Lock()
	defer g.judge.Unlock()
	if g.monitor != nil {
		g.monitor.Committed(g.now(), kind)
	}
}
