package sim

import (
	"math"
	"slices"
	"time"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// The back-off of kube-controller-manager's work queues (k8s.io/client-go/util/workqueue/default_rate_limiters.go).
const (
	backoffBase = 5 * time.Millisecond
	backoffMax  = 1000 * time.Second
)

// racerActor is a racer in a run: its informers, queues and workers.
type racerActor struct {
	engine    *engine
	config    *RacerConfig
	racer     Racer
	main      *thread
	informers []*informer
	queues    []*racerQueue
	threads   map[passKey]*thread
}

var _ RacerEnv = (*racerActor)(nil)

func (e *engine) startRacer(config *RacerConfig) {
	a := &racerActor{engine: e, config: config, main: e.newThread("", ""), threads: map[passKey]*thread{}}
	e.racers = append(e.racers, a)
	e.note(a.main, schedule.Event{Actor: config.Name, Verb: schedule.Start}, -1)
	a.racer = config.New()
	if observer, ok := a.racer.(Observer); ok {
		e.observers = append(e.observers, observer)
	}
	if script, ok := a.racer.(Skipper); ok && config.WithScript && len(e.plan.Skip) > 0 {
		script.Skip(e.plan.Skip)
	}
	if _, ok := a.racer.(ClaimProtector); ok {
		e.server.ProtectClaims()
	}
	a.racer.Start(a)
	for _, inf := range a.informers {
		e.sync(inf)
	}
}

// Now implements RacerEnv.
func (a *racerActor) Now() time.Time { return a.engine.now() }

// Kind implements RacerEnv.
func (a *racerActor) Kind(name string) *apiserver.Kind { return a.engine.config.Kinds.ByName(name) }

// Kinds implements RacerEnv.
func (a *racerActor) Kinds() []*apiserver.Kind { return a.engine.config.Kinds.All() }

// Informer implements RacerEnv.
func (a *racerActor) Informer(kind *apiserver.Kind, handle func(cache.Delta)) *cache.View {
	inf := a.engine.newInformer(a.config.Name, 0, "", kind, cache.Selector{})
	inf.handle = handle
	a.informers = append(a.informers, inf)
	return inf.view
}

// Queue implements RacerEnv.
func (a *racerActor) Queue(name string, workers int, begin func(key string) Task) RacerQueue {
	q := &racerQueue{actor: a, name: name, begin: begin, inner: newWorkQueue[string](), failures: map[string]int{}}
	q.inner.plain = true // no controller of kube-controller-manager has a priority queue
	for range workers {
		q.workers = append(q.workers, &racerWorker{queue: q})
	}
	a.queues = append(a.queues, q)
	a.engine.queues = append(a.engine.queues, q)
	return q
}

// After implements RacerEnv.
func (a *racerActor) After(name string, d time.Duration, f func()) (stop func()) {
	event := schedule.Event{Actor: a.config.Name, Verb: schedule.Timer, Name: name}
	t := a.engine.newTimer(a.main, event, d, f)
	return func() { a.engine.stopTimer(t) }
}

// Log implements RacerEnv.
func (a *racerActor) Log(message string) {
	e := a.engine
	e.history.Logs = append(e.history.Logs, history.Log{At: e.clock, Actor: a.config.Name, Record: e.last, Message: message})
}

// Problem implements RacerEnv. One that comes up again and again is one problem.
func (a *racerActor) Problem(message string) {
	a.Log(message)
	h, problem := a.engine.history, a.config.Name+": "+message
	if !slices.Contains(h.Problems, problem) {
		h.Problems = append(h.Problems, problem)
	}
}

// gather lists the steps the racer may take.
func (a *racerActor) gather(e *engine) {
	for _, q := range a.queues {
		if q.enabled() {
			e.admit(q)
		}
		for _, w := range q.workers {
			if w.enabled() {
				e.admit(w)
			}
		}
	}
}

// thread returns the thread of the passes over a key.
func (a *racerActor) thread(queue, key string) *thread {
	at := passKey{queue, key}
	t := a.threads[at]
	if t == nil {
		t = a.engine.newThread(queue, key)
		t.story = a.config.WithScript
		a.threads[at] = t
	}
	return t
}

// controllerName returns the queue's name where it tells events apart.
func (a *racerActor) controllerName(queue string) string {
	if len(a.queues) == 1 {
		return ""
	}
	return queue
}

// racerQueue is a work queue of a racer. As a step it hands a key to an idle worker.
type racerQueue struct {
	local

	actor    *racerActor
	name     string
	begin    func(key string) Task
	inner    *workQueue[string]
	workers  []*racerWorker
	failures map[string]int
	event    schedule.Event
}

// Add implements RacerQueue.
func (q *racerQueue) Add(key string) { q.AddAfter(key, 0) }

// AddAfter implements RacerQueue.
func (q *racerQueue) AddAfter(key string, d time.Duration) {
	e := q.actor.engine
	q.inner.wake(e.clock, &e.sequence) // a key whose time came in the course of this step is ahead of this one
	e.sequence++
	q.inner.add(key, addition{after: d, now: e.clock, since: e.sequence, cause: e.last})
}

func (q *racerQueue) enabled() bool {
	item := q.inner.next()
	if item == nil || q.idle() == nil {
		return false
	}
	q.event = schedule.Event{Actor: q.actor.config.Name, Controller: q.actor.controllerName(q.name), Key: item.key,
		Verb: schedule.Dequeue}
	return true
}

func (q *racerQueue) idle() *racerWorker {
	for _, w := range q.workers {
		if w.task == nil {
			return w
		}
	}
	return nil
}

func (q *racerQueue) base() *schedule.Event { return &q.event }
func (q *racerQueue) owner() *thread        { return nil }
func (q *racerQueue) order() uint64         { return q.inner.next().since }
func (q *racerQueue) infrastructure() bool  { return false }

func (q *racerQueue) wake(e *engine)                          { q.inner.wake(e.clock, &e.sequence) }
func (q *racerQueue) deadline() (time.Duration, bool)         { return q.inner.deadline() }
func (q *racerQueue) unsettled(lastCommit time.Duration) bool { return q.inner.unsettled(lastCommit) }

// take hands the key that is next to an idle worker, which begins its pass: it looks at its caches and decides on its
// first call.
func (q *racerQueue) take(e *engine) {
	item, w := q.inner.next(), q.idle()
	q.inner.take(item, e.clock)
	w.key, w.thread = item.key, q.actor.thread(q.name, item.key)
	w.thread.attempt++
	w.thread.burst++
	e.note(w.thread, q.event, item.cause)
	e.running = w.thread
	w.task = q.begin(item.key)
	w.act(w.task.Next(nil))
}

// failed queues the key again after its back-off.
func (q *racerQueue) failed(key string, err error) {
	backoff := min(float64(backoffBase)*math.Pow(2, float64(q.failures[key])), float64(backoffMax))
	q.failures[key]++
	q.actor.Log("error syncing " + key + ", requeuing: " + err.Error())
	q.AddAfter(key, time.Duration(backoff))
}

// racerWorker carries out passes. As a step it makes the call its task has decided on.
type racerWorker struct {
	flight

	queue  *racerQueue
	thread *thread
	key    string
	task   Task // nil when idle
	event  schedule.Event
}

func (w *racerWorker) enabled() bool {
	return w.busy() && w.notBefore <= w.queue.actor.engine.clock
}

// busy reports whether the worker has a call to make, or one whose answer is on its way back.
func (w *racerWorker) busy() bool { return w.call != nil || w.returns > 0 }

func (w *racerWorker) base() *schedule.Event { return &w.event }
func (w *racerWorker) owner() *thread        { return w.thread }
func (w *racerWorker) order() uint64         { return w.since }
func (w *racerWorker) infrastructure() bool  { return false }
func (w *racerWorker) request() bool         { return w.call != nil }

func (w *racerWorker) sight(e *engine) (int64, bool) {
	if w.call == nil {
		return 0, false
	}
	return e.sight(w.call), true
}

// take makes the call and, unless it is kept, hands its answer to the task.
func (w *racerWorker) take(e *engine) {
	if w.returns > 0 {
		e.noteReturn(w)
	} else {
		at := e.standing(e.faultsAt(w))
		e.try(w, at)
		e.happenedAt(at)
	}
	if w.kept {
		w.kept = false
		return
	}
	w.call = nil
	w.act(w.task.Next(w.outcome()))
}

// act does what the task wants next.
func (w *racerWorker) act(action Action) {
	q := w.queue
	e := q.actor.engine
	switch {
	case action.request != nil:
		e.sequence++
		w.flight = flight{call: action.request, since: e.sequence}
		w.event = requestEvent(action.request)
		w.event.Actor, w.event.Controller, w.event.Key = q.actor.config.Name, q.actor.controllerName(q.name), w.key
		w.notBefore = e.delay(w)
	case action.wait > 0:
		event := schedule.Event{Actor: q.actor.config.Name, Controller: q.actor.controllerName(q.name), Key: w.key,
			Verb: schedule.Timer, Name: "wait"}
		e.newTimer(w.thread, event, action.wait, func() {
			w.thread.burst++
			w.act(w.task.Next(nil))
		})
	default:
		w.task = nil
		e.sequence++
		q.inner.done(w.key, e.sequence)
		if action.err != nil {
			q.failed(w.key, action.err)
		} else {
			delete(q.failures, w.key)
		}
	}
}

// requestEvent names a request, without its actor.
func requestEvent(r *apiserver.Request) schedule.Event {
	return schedule.Event{Verb: r.Verb, Kind: r.Kind.Name(), Namespace: r.Namespace, Name: r.Name, Subresource: r.Subresource}
}
