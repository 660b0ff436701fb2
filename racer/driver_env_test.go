package racer

import (
	"fmt"
	"slices"
	"time"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
)

// driverEnv is the environment of one racer.
type driverEnv struct {
	d         *driver
	name      string
	informers []*driverInformer
	queues    []*driverQueue
	timers    []*driverTimer
}

var _ sim.RacerEnv = (*driverEnv)(nil)

func (e *driverEnv) Now() time.Time { return e.d.now }

func (e *driverEnv) Kind(name string) *apiserver.Kind { return e.d.kind(name) }

func (e *driverEnv) Kinds() []*apiserver.Kind { return e.d.server.Kinds().All() }

func (e *driverEnv) Problem(message string) { e.Log(message) }

func (e *driverEnv) Log(message string) { e.d.logs = append(e.d.logs, e.name+": "+message) }

type driverInformer struct {
	d      *driver
	view   *cache.View
	handle func(cache.Delta)
	held   bool
}

func (e *driverEnv) Informer(kind *apiserver.Kind, handle func(cache.Delta)) *cache.View {
	view := cache.New(e.d.server, kind, cache.Selector{})
	e.informers = append(e.informers, &driverInformer{d: e.d, view: view, handle: handle})
	return view
}

// hold stops the racer's informer on a kind, or lets it go on.
func (e *driverEnv) hold(kind string, held bool) {
	for _, informer := range e.informers {
		if informer.view.Kind().Kind == kind {
			informer.held = held
		}
	}
}

// advance delivers the next event, or a new list if the watch breaks.
func (i *driverInformer) advance() {
	if i.d.breaks != nil && i.d.breaks() {
		i.relist()
		return
	}
	i.deliver(i.view.Advance())
}

func (i *driverInformer) relist() {
	for _, delta := range i.view.Relist() {
		i.deliver(delta)
	}
}

// catchUp delivers to the racer's informers all that is pending.
func (e *driverEnv) catchUp() {
	for _, informer := range e.informers {
		for _, ok := informer.view.Pending(); ok; _, ok = informer.view.Pending() {
			informer.advance()
		}
	}
}

// relist lets the racer's informer on a kind miss what is pending, and list anew.
func (e *driverEnv) relist(kind string) {
	for _, informer := range e.informers {
		if informer.view.Kind().Kind == kind {
			informer.relist()
		}
	}
}

func (i *driverInformer) deliver(delta cache.Delta) {
	i.d.see(delta.Object)
	i.d.see(delta.Old)
	if i.handle != nil {
		i.handle(delta)
	}
}

type driverTimer struct {
	at    time.Time
	since int
	f     func()
}

func (e *driverEnv) After(_ string, d time.Duration, f func()) (stop func()) {
	timer := &driverTimer{e.d.now.Add(d), e.d.stamp(), f}
	e.timers = append(e.timers, timer)
	return func() { e.remove(timer) }
}

func (e *driverEnv) remove(timer *driverTimer) {
	e.timers = slices.DeleteFunc(e.timers, func(t *driverTimer) bool { return t == timer })
}

func (e *driverEnv) fire(timer *driverTimer) {
	e.remove(timer)
	timer.f()
}

type queued struct {
	key   string
	since int
	at    time.Time
}

type driverQueue struct {
	env      *driverEnv
	workers  int
	begin    func(string) sim.Task
	ready    []queued
	waiting  []queued
	again    map[string]bool // added while being processed
	working  []*driverWorker
	failures map[string]int
}

func (e *driverEnv) Queue(_ string, workers int, begin func(string) sim.Task) sim.RacerQueue {
	q := &driverQueue{env: e, workers: workers, begin: begin, again: map[string]bool{}, failures: map[string]int{}}
	e.queues = append(e.queues, q)
	return q
}

func (q *driverQueue) Add(key string) {
	if q.busy(key) {
		q.again[key] = true
		return
	}
	if !slices.ContainsFunc(q.ready, func(i queued) bool { return i.key == key }) {
		q.ready = append(q.ready, queued{key: key, since: q.env.d.stamp()})
	}
}

// AddAfter keeps the earlier time of a key that waits already, as client-go's queue does.
func (q *driverQueue) AddAfter(key string, d time.Duration) {
	at := q.env.d.now.Add(d)
	if i := slices.IndexFunc(q.waiting, func(i queued) bool { return i.key == key }); i >= 0 {
		if at.Before(q.waiting[i].at) {
			q.waiting[i].at = at
		}
		return
	}
	q.waiting = append(q.waiting, queued{key: key, at: at})
}

func (q *driverQueue) busy(key string) bool {
	return slices.ContainsFunc(q.working, func(w *driverWorker) bool { return w.key == key })
}

func (q *driverQueue) promote() {
	for _, item := range q.waiting {
		if !item.at.After(q.env.d.now) {
			q.Add(item.key)
		}
	}
	q.waiting = slices.DeleteFunc(q.waiting, func(i queued) bool { return !i.at.After(q.env.d.now) })
}

func (q *driverQueue) next() int {
	if len(q.ready) == 0 || len(q.working) == q.workers {
		return -1
	}
	return 0
}

func (q *driverQueue) dequeue(at int) {
	w := &driverWorker{queue: q, key: q.ready[at].key}
	q.ready = slices.Delete(q.ready, at, at+1)
	q.working = append(q.working, w)
	w.task = q.begin(w.key)
	w.act(w.task.Next(nil))
}

type driverWorker struct {
	queue *driverQueue
	key   string
	task  sim.Task
	call  *apiserver.Request
	since int
}

func (w *driverWorker) do() {
	call := w.call
	w.call = nil
	w.act(w.task.Next(w.queue.env.d.do(w.queue.env.name, call)))
}

func (w *driverWorker) act(action sim.Action) {
	q := w.queue
	d := q.env.d
	request, wait, err := action.Parts()
	switch {
	case request != nil:
		w.call, w.since = request, d.stamp()
	case wait > 0:
		q.env.After("", wait, func() { w.act(w.task.Next(nil)) })
	default:
		q.working = slices.DeleteFunc(q.working, func(other *driverWorker) bool { return other == w })
		if err != nil {
			d.logs = append(d.logs, fmt.Sprintf("%s: %s: %v", q.env.name, w.key, err))
			q.AddAfter(w.key, min(5*time.Millisecond<<min(q.failures[w.key], 20), 1000*time.Second))
			q.failures[w.key]++
		} else {
			delete(q.failures, w.key)
		}
		if q.again[w.key] {
			delete(q.again, w.key)
			q.Add(w.key)
		}
	}
}
