package sim

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// process is one start of a program: its goroutines, caches and queues share life and death.
type process struct {
	engine      *engine
	name        string
	incarnation int
	config      *Process
	program     Program
	cancel      context.CancelFunc
	dead        bool  // guarded by engine.mu; calls of a dead process never return
	exited      error // guarded by engine.mu; what the program ended with, if it has
	reconciled  bool  // guarded by engine.mu; a pass has begun

	// began and previous are when the process started, and the one before it; backoff is the pause that was made before that,
	// zero if the one before has not ended by itself.
	began, previous, backoff time.Duration

	main    *thread
	threads map[passKey]*thread
	// sole is the name of the one controller that the process started with, if it is one: it adds nothing to the names of
	// events.
	sole string
	// handling is the registration whose handler runs now. Handlers of a process run one at a time, so that calls
	// they make have an owner.
	handling *registration
	// passes counts the passes that have begun and not ended; ends, by controller, those that have.
	passes int
	// webhooks answers the admission webhooks that the process serves, nil if it serves none; guarded by engine.mu.
	webhooks WebhookServer
	ends     map[string]*history.Passes
}

type passKey struct{ controller, key string }

// thread is a sequence of steps in program order: the passes of a controller over one key, an event handler, or what
// a process does outside of both. A thread holds one place at a time, unless the operator fans out.
type thread struct {
	id         int
	process    *process // of a pass of a program
	controller string
	key        string
	attempt    int
	// burst changes when the thread slept or began a new pass; commits when it changed the store. A request repeated in
	// a later burst with nothing committed in between is a poll.
	burst, commits int
	last           int // its latest record, -1 if none
	// story marks racers that start with the script.
	story bool
	// infra marks deliveries and event handlers.
	infra bool
	// dequeued says that the engine handed out the key, and has counted the attempt.
	dequeued bool
}

// op is a goroutine of a program that has parked: it waits for the engine to carry out exec and wake it.
type op struct {
	flight // the request to the server, if it is one

	process *process
	thread  *thread
	event   schedule.Event // without its occurrence

	// ready says whether the step is enabled; nil means always.
	ready func() bool
	// exec carries the step out, on the engine's goroutine; nil for a request, and for a step that only lets the goroutine
	// go on.
	exec func(*op)
	// reads is what a cached read reads.
	reads *cacheRead
	// waits says what is awaited by a step that may not become enabled by itself, see [Env.Await].
	waits func() string

	wake      chan struct{}
	granted   bool // guarded by engine.mu
	cancelled bool // guarded by engine.mu
	killed    bool
}

func (o *op) enabled() bool {
	return o.notBefore <= o.process.engine.clock && (o.ready == nil || o.ready())
}

func (o *op) base() *schedule.Event { return &o.event }
func (o *op) owner() *thread        { return o.thread }
func (o *op) order() uint64         { return o.since }
func (o *op) infrastructure() bool  { return o.thread.infra }
func (o *op) take(e *engine)        { e.grant(o) }
func (o *op) request() bool         { return o.call != nil }

func (o *op) sight(e *engine) (int64, bool) {
	switch {
	case o.call != nil:
		return e.sight(o.call), true
	case o.reads != nil:
		return o.reads.revision(), true
	default:
		return 0, false
	}
}

type threadContextKey struct{}

// thread returns the thread a context belongs to. One that says nothing, as that of an event handler or a webhook may, belongs
// to the handler that runs, if the caller is its goroutine: others may have been woken by what the handler did.
func (p *process) thread(ctx context.Context) *thread {
	if t, ok := ctx.Value(threadContextKey{}).(*thread); ok {
		return t
	}
	p.engine.mu.Lock()
	defer p.engine.mu.Unlock()
	if len(p.engine.asked) > 0 {
		if t, ok := p.asks(goroutineID()); ok {
			return t
		}
	}
	if p.handlingBusy() && p.handling.goroutine == goroutineID() {
		return p.handling.thread
	}
	return p.main
}

// park hands the op to the engine and waits until it is granted. It returns the context's error if that ended first:
// even then a grant releases the goroutine, so that the schedule says when it goes on. If the process has died it does
// not return, and only deferred functions of the goroutine run, which is as close to SIGKILL as Go comes.
func (p *process) park(ctx context.Context, o *op) error {
	e := p.engine
	o.process, o.wake = p, make(chan struct{}, 1)
	if o.thread == nil {
		o.thread = p.thread(ctx)
	}
	o.event.Actor, o.event.Incarnation = p.name, p.incarnation
	o.event.Controller, o.event.Key = p.controllerName(o.thread), o.thread.key
	e.arrive(o)
	select {
	case <-o.wake:
	case <-ctx.Done():
		e.abandon(o)
		<-o.wake
	}
	if o.killed {
		runtime.Goexit()
	}
	if o.cancelled {
		return ctx.Err()
	}
	return nil
}

func (p *process) controllerName(t *thread) string {
	if p.sole != "" && (t.infra || t.controller == p.sole) {
		return ""
	}
	return t.controller
}

// passThread returns the thread of the passes over a key.
func (p *process) passThread(at passKey) *thread {
	t := p.threads[at]
	if t == nil {
		t = p.engine.newThread(at.controller, at.key)
		t.process = p
		p.threads[at] = t
	}
	return t
}

// ended notes the end of a pass.
func (p *process) ended(t *thread, err error) {
	e, controller := p.engine, t.controller
	end := history.PassEnd{At: e.elapsed(), Thread: t.id, Attempt: t.attempt, Record: e.last}
	if err != nil {
		end.Error = err.Error()
	}
	e.history.Ends = append(e.history.Ends, end)
	if p.ends == nil {
		p.ends = map[string]*history.Passes{}
	}
	passes := p.ends[controller]
	if passes == nil {
		passes = &history.Passes{Actor: p.name, Controller: controller}
		p.ends[controller] = passes
	}
	passes.Total++
	if err != nil {
		passes.Failed++
		passes.LastError = err.Error()
	}
}

// dequeued begins a pass: the worker's steps from here on belong to the thread of the key.
func (p *process) dequeued(o *op, at passKey, cause int) {
	t := p.passThread(at)
	t.attempt++
	t.burst++
	t.dequeued = true
	o.event.Controller, o.event.Key = p.controllerName(t), at.key
	p.engine.note(t, o.event, cause)
	p.engine.running = t
}

// arrive announces a parked goroutine.
func (e *engine) arrive(o *op) {
	e.mu.Lock()
	dead := o.process.dead
	if !dead {
		e.arrived = append(e.arrived, o)
		e.signal()
	}
	e.mu.Unlock()
	if dead {
		runtime.Goexit()
	}
}

// abandon announces that the context of a parked goroutine has ended, unless it was granted before.
func (e *engine) abandon(o *op) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if o.granted || o.process.dead {
		return
	}
	o.cancelled = true
	e.arrived = append(e.arrived, o)
	e.signal()
}

// signal ends an advance of the clock: something has happened that the engine must look at.
func (e *engine) signal() {
	select {
	case e.arrival <- struct{}{}:
	default:
	}
}

// collect takes in the goroutines that parked since the last time, in the order of their names: goroutines that ran
// side by side arrive in an order of their own.
func (e *engine) collect() {
	e.mu.Lock()
	arrived := e.arrived
	e.arrived = e.spare[:0]
	e.spare = arrived
	select {
	case <-e.arrival:
	default:
	}
	e.takeLogs()
	e.takeResyncs()
	e.mu.Unlock()
	if len(arrived) > 1 {
		slices.SortStableFunc(arrived, compareOps)
	}
	for i, o := range arrived {
		if o.granted { // its context ended after the grant, while its answer was on the way
			continue
		}
		e.sequence++
		o.since = e.sequence
		if o.cancelled {
			e.ops = slices.DeleteFunc(e.ops, func(other *op) bool { return other == o })
			o.event = schedule.Event{Actor: o.event.Actor, Incarnation: o.event.Incarnation,
				Controller: o.event.Controller, Key: o.event.Key, Verb: schedule.Wake}
			o.ready, o.exec, o.reads, o.waits, o.flight = nil, nil, nil, nil, flight{since: o.since}
		}
		if o.thread != e.running || e.advanced {
			o.thread.burst++
		}
		switch {
		case o.call == nil && o.reads == nil:
		case i > 0 && compareOps(arrived[i-1], o) == 0: // a delay for one of those that are alike would be for any of them
			o.notBefore = arrived[i-1].notBefore
		default:
			o.notBefore = e.delay(o)
		}
		e.ops = append(e.ops, o)
	}
	e.advanced = false
}

// compareOps orders goroutines that parked in one step: by the names of their events, and calls of one name by what they
// send. Those that nothing tells apart are alike.
func compareOps(a, b *op) int {
	if c := schedule.Compare(a.event, b.event); c != 0 || a.call == nil || b.call == nil {
		return c
	}
	return apiserver.CompareBodies(a.call, b.call)
}

// grant carries out a parked goroutine's step, lets the goroutine go on, and waits until all is parked again.
func (e *engine) grant(o *op) {
	granted := e.unpark(o)
	at, held := e.faultsAtAll(granted)
	if held {
		return
	}
	e.alike = len(granted) > 1
	for _, o := range granted {
		switch {
		case o.process.dead: // of what another of them came upon
		case o.returns > 0:
			e.noteReturn(o)
		case o.call != nil:
			e.try(o, at)
		case o.exec != nil:
			o.exec(o)
		default:
			e.note(o.thread, o.event, -1)
		}
	}
	e.alike = false
	e.happenedAt(at)
	for _, o := range granted {
		switch {
		case o.process.dead:
			o.killed = true
			e.release(o)
		case o.kept:
			o.kept = false
			e.ops = append(e.ops, o)
		default:
			e.release(o)
		}
	}
	e.settle()
}

// unpark takes the op out of the parked ones, together with those that nothing tells from it: goroutines that an operator
// fanned out, all about to read the same thing, or with calls of one context that ended. Which of them comes first is not
// for us to say, so they go on together, and what they do next is put in order by name.
func (e *engine) unpark(o *op) []*op {
	granted := []*op{o}
	alike := o.event.Verb.IsRead() || o.event.Verb == schedule.Wake || o.event.Verb == schedule.Await
	e.ops = slices.DeleteFunc(e.ops, func(other *op) bool {
		if other == o {
			return true
		}
		tied := alike && other.thread == o.thread && other.event == o.event && other.enabled()
		if tied {
			granted = append(granted, other)
		}
		return tied
	})
	return granted
}

// release wakes the goroutine, after the virtual time that the step took.
func (e *engine) release(o *op) {
	e.pay()
	e.mu.Lock()
	o.granted = true
	e.mu.Unlock()
	o.wake <- struct{}{}
}

// newProcess makes the first process of a program.
func newProcess(e *engine, config *Process, program Program) *process {
	return &process{engine: e, name: config.Name, incarnation: 1, config: config, program: program, threads: map[passKey]*thread{}}
}

// launch starts a process, its program in a goroutine of its own; cause is the record of what made it start, or -1.
func (e *engine) launch(p *process, cause int) {
	e.processes = append(e.processes, p)
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel, p.main = cancel, e.newThread("", "")
	e.note(p.main, schedule.Event{Actor: p.name, Incarnation: p.incarnation, Verb: schedule.Start}, cause)
	p.began = e.clock
	e.pay()
	p.spawn(func() {
		if err := p.program.Start(ctx, &Env{process: p}); err != nil {
			p.exit(err)
		}
	})
	e.settle()
}

// exit announces that the program has ended with an error. Which of several at once comes first is chance, so that the text
// decides which is kept.
func (p *process) exit(err error) {
	e := p.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case p.dead:
	case p.exited == nil:
		p.exited = err
		e.exited = append(e.exited, p)
		e.signal()
	case err.Error() < p.exited.Error():
		p.exited = err
	}
}

// spawn runs f in a goroutine whose panic becomes the outcome of the run.
func (p *process) spawn(f func()) {
	go func() {
		defer func() {
			if value := recover(); value != nil {
				p.panicked(value, debug.Stack())
			}
		}()
		f()
	}()
}

// fail ends the run with an error of the process.
func (p *process) fail(err error) {
	e := p.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if !p.dead {
		e.fail(err)
	}
}

// fail ends the run with an error that is no finding. The caller holds e.mu, or is the engine while everything is parked.
func (e *engine) fail(err error) {
	if e.failure == nil {
		e.failure = err
	}
	e.signal()
}

// What differs between the stacks of equal runs: the values of arguments; and offsets, and the numbers of goroutines.
var (
	stackArguments = regexp.MustCompile(`(?m)\([^()\n]*0x[^\n]*\)$`)
	stackNumbers   = regexp.MustCompile(`(?m) \+0x[0-9a-f]+| in goroutine \d+|^goroutine \d+ \[.*\]:\n`)
)

// plainStack returns a stack without what differs between equal runs.
func plainStack(stack []byte) []byte {
	return stackNumbers.ReplaceAll(stackArguments.ReplaceAll(stack, []byte("()")), nil)
}

// panicked ends the run with a panic of the operator under test.
func (p *process) panicked(value any, stack []byte) {
	e := p.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.dead {
		return
	}
	if e.panic == "" {
		e.panic = fmt.Sprintf("%s: %v\n\n%s", p.name, value, plainStack(stack))
	}
	e.signal()
}

// log keeps a line until the next collect.
func (p *process) log(t *thread, line history.Log) {
	e := p.engine
	line.At = e.elapsed()
	line.Actor, line.Key, line.Attempt = p.name, t.key, t.attempt
	e.mu.Lock()
	defer e.mu.Unlock()
	if !p.dead {
		e.lines = append(e.lines, logLine{thread: t.id, Log: line})
	}
}

type logLine struct {
	history.Log
	thread int
}

// takeLogs moves the lines logged since the last collect into the history: those of one thread in their order, those
// of goroutines that ran side by side in the order of their threads. The lines outside of passes come from any number of
// goroutines, and are put in the order of their texts. The caller holds e.mu.
func (e *engine) takeLogs() {
	if len(e.lines) == 0 {
		return
	}
	slices.SortStableFunc(e.lines, func(a, b logLine) int {
		if c := cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.thread, b.thread)); c != 0 || a.Key != "" {
			return c
		}
		return cmp.Or(strings.Compare(a.Message, b.Message), slices.Compare(a.Values, b.Values))
	})
	for _, line := range e.lines {
		line.Record = e.last
		e.history.Logs = append(e.history.Logs, line.Log)
	}
	e.lines = e.lines[:0]
}
