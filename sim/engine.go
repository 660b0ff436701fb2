package sim

import (
	"sync"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/canon"
	"github.com/stalemate-dev/stalemate/sim/detect"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Costs in virtual time. They are constant in the default order, in sweeps and in replays: what a call takes longer
// than that is a choice of the exploration, or a fault.
const (
	requestLatency = time.Millisecond
	localLatency   = time.Microsecond
	// tick is added to every step, so that no two steps, and no two timers that user code sets in them, share an instant.
	tick = time.Nanosecond
)

// engine drives one run, from one goroutine of the run's bubble: grant one step, wait until every goroutine is parked,
// look at what is enabled, choose, grant the next.
type engine struct {
	config   *Config
	plan     *Plan
	server   *apiserver.Server
	monitor  *property.Monitor
	history  *history.History
	hash     canon.Hasher
	progress *atomic.Int64 // steps taken, for the watchdog

	start time.Time
	// clock is the virtual time since the run began. It may be ahead of the bubble's own clock, see pay.
	clock    time.Duration
	sequence uint64 // counts what becomes enabled
	steps    int

	// mu guards what goroutines of programs touch while they run: these fields, queues, and the marked fields of ops,
	// processes and registrations. While everything is parked the engine needs no lock.
	mu      sync.Mutex
	arrived []*op
	spare   []*op
	arrival chan struct{}
	lines   []logLine
	resyncs []resync // that handlers have asked for, and which have no timer yet
	failure error
	panic   string
	asked   []*asking       // the webhooks that are being asked, each about a request of the one before it
	exited  []*process      // those whose programs have ended, and which have not died yet
	gaps    map[string]bool // what programs touched that is not modelled

	processes     []*process
	ops           []*op
	queues        []queueSource
	informers     []*informer
	registrations []*registration
	informed      uint64 // counts the informers there have been, registered the registrations
	registered    uint64
	racers        []*racerActor
	observers     []Observer
	timers        []*timer
	threads       int
	lagging       bool    // some informer may have events pending
	running       *thread // the thread whose step was granted last
	alike         bool    // the step is that of several goroutines that nothing tells apart: none of them has a name of its own
	advanced      bool    // the clock has moved by itself since the last collect
	enabled       []stepper
	holds         holds
	latencies     latencies
	permutations  permutations
	trace         *schedule.Trace
	deviations    deviations
	faults        *faults            // nil if nothing can go wrong, and nobody stands at the door
	intruders     map[string]*thread // by actor; they are neither processes nor racers
	undisturbed   time.Duration      // when the last of script, holds and delays is over, as far as is known
	settling      bool               // this run finds the settled state
	of            *run
	final         *detect.State // where a run for a baseline came to
	scripted      bool          // the script has begun
	notStarted    bool          // a program ended before it had reconciled anything
	died          bool          // a process died before the end of the run

	events    map[schedule.Event]*eventState
	commits   map[int64]int // revision to record
	last      int           // the latest record, -1 if none
	quiet     quietness
	state     uint64                      // the hash of the cluster's canonical state, from that at the begin
	states    map[uint64]int              // how often each has been seen
	stateSeen int                         // the most often any has been seen
	contents  map[apiserver.Object]uint64 // canonical hashes of objects
	hashed    int64                       // the revision that state is of
	outcome   history.Outcome
	reason    string
}

// stepper is something that may take a step: a parked goroutine, an informer's cursor, a racer's worker, a timer.
type stepper interface {
	// base returns the event the step will be, without its occurrence.
	base() *schedule.Event
	owner() *thread
	// order is when the step became enabled, in the engine's count.
	order() uint64
	// infrastructure marks steps that the default order takes first: it keeps caches fresh.
	infrastructure() bool
	// request says that the step is a request to the server, and takes as long as one; see also local.
	request() bool
	// sight returns what tells a poll from a step that is new, see engine.sight; false for steps that read and write nothing.
	sight(e *engine) (sight int64, ok bool)
	take(e *engine)
}

// local is what steps have in common that are no request.
type local struct{}

func (local) request() bool               { return false }
func (local) sight(*engine) (int64, bool) { return 0, false }

// loop takes steps until the run is over.
func (e *engine) loop() error {
	for e.outcome == "" {
		e.collect()
		if err := e.interrupted(); err != nil || e.outcome != "" {
			return err
		}
		if s := e.choose(); s != nil {
			e.step(s)
			continue
		}
		e.idle()
	}
	return nil
}

// step takes one step.
func (e *engine) step(s stepper) {
	e.steps++
	e.progress.Add(1)
	e.recordStep(s)
	e.deviations.taken(e, s)
	latency := localLatency
	if s.request() {
		latency = requestLatency
	}
	e.clock += latency + tick
	e.running = s.owner()
	s.take(e)
	if e.steps >= e.config.Limits.steps() {
		e.limit("steps", e.config.Limits.steps())
	}
}

// interrupted looks at what goroutines of the program reported.
func (e *engine) interrupted() error {
	switch {
	case e.failure != nil:
	case e.panic != "":
		e.end(history.Panicked, "a reconciler panicked")
		e.history.Panic = e.panic
	default:
		e.takeExits()
	}
	return e.failure
}

func (e *engine) end(outcome history.Outcome, reason string) {
	if e.outcome == "" {
		e.outcome, e.reason = outcome, reason
	}
}

// settle waits until every goroutine of the bubble is parked.
func (e *engine) settle() { synctest.Wait() }

// elapsed is the virtual time since the run began by the bubble's own clock: within a bubble, package time knows no other.
func (e *engine) elapsed() time.Duration { return time.Since(e.start) }

// now is the virtual time, as actors see it.
func (e *engine) now() time.Time { return e.start.Add(e.clock) }

// pay lets the bubble's clock catch up with the engine's. Steps that wake no goroutine of a program only add to the
// engine's clock, as moving the bubble's costs more than they do; it is paid before any such goroutine runs, so that
// none ever sees it behind. A timer of user code within that span fires in the course of it, and not before.
func (e *engine) pay() {
	if owed := e.clock - e.elapsed(); owed > 0 {
		e.fence()
		time.Sleep(owed)
		e.fence()
	}
}

// fence orders what the engine has done before what goroutines do that take mu later, and what such have done before what
// the engine does next: virtual time keeps them apart, but in Go's memory model it orders nothing.
func (e *engine) fence() {
	e.mu.Lock()
	defer e.mu.Unlock()
}

// advance lets the clock go on until a goroutine parks or the deadline is reached.
func (e *engine) advance(until time.Duration) {
	e.pay()
	e.settle()
	e.mu.Lock()
	arrived := len(e.arrived) > 0
	e.mu.Unlock()
	e.advanced = true
	if arrived {
		return
	}
	timer := time.NewTimer(until - e.clock)
	select {
	case <-e.arrival:
		timer.Stop()
	case <-timer.C:
	}
	e.clock = max(e.clock, e.elapsed())
	e.settle()
}

// choose returns the step to take next, or nil if none is enabled.
func (e *engine) choose() stepper {
	e.gather()
	if len(e.enabled) == 0 {
		return nil
	}
	if e.plan.Strategy == nil || !e.scripted {
		return e.first()
	}
	if _, follows := e.plan.Strategy.(follower); len(e.enabled) == 1 && !follows {
		return e.first()
	}
	return e.pick()
}

// gather lists the steps that are enabled and not held.
func (e *engine) gather() {
	e.enabled = e.enabled[:0]
	if e.lagging {
		e.lagging = false
		for _, inf := range e.informers {
			if inf.enabled() {
				e.lagging = true
				if e.flows(inf) {
					e.admit(inf)
				}
			}
		}
	}
	for _, r := range e.registrations {
		if r.enabled() {
			e.admit(r)
		}
	}
	for _, q := range e.queues {
		q.wake(e)
	}
	for _, o := range e.ops {
		if o.enabled() {
			e.admit(o)
		}
	}
	for _, r := range e.racers {
		r.gather(e)
	}
	for _, t := range e.timers {
		if t.at <= e.clock {
			if t.since == 0 {
				e.sequence++
				t.since = e.sequence
			}
			e.admit(t)
		}
	}
}

// admit adds an enabled step to the choice, unless a fault or a constraint holds it.
func (e *engine) admit(s stepper) {
	if e.faults != nil && s.request() && e.heldBack(s) {
		return
	}
	if len(e.holds.all) > 0 && e.held(s) {
		return
	}
	e.enabled = append(e.enabled, s)
}

// first returns what the default order takes: deliveries to caches and their handlers, so that caches are fresh; then
// what a constraint held until now, so that it comes right after what it waited for; then the thread that runs already,
// so that nothing is preempted; then what has been enabled for longest.
func (e *engine) first() stepper {
	best, bestRank := e.enabled[0], e.rank(e.enabled[0])
	for _, s := range e.enabled[1:] {
		if rank := e.rank(s); rank < bestRank || rank == bestRank && s.order() < best.order() {
			best, bestRank = s, rank
		}
	}
	return best
}

func (e *engine) rank(s stepper) int {
	switch {
	case s.infrastructure():
		return 0
	case e.released(s):
		return 1
	case s.owner() == e.running:
		return 2
	default:
		return 3
	}
}

func (e *engine) newThread(controller, key string) *thread {
	e.threads++
	return &thread{id: e.threads, controller: controller, key: key, last: -1}
}
