package live

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// The back-off of kube-controller-manager's work queues, as in package sim.
const (
	backoffBase = 5 * time.Millisecond
	backoffMax  = 1000 * time.Second
)

// racer plays a racer of ours against the real server: its step machine is driven by real watches, real time and real answers.
type racer struct {
	cluster *cluster
	config  *sim.RacerConfig
	wake    chan struct{} // has something in it when there may be something to do

	mu        sync.Mutex // is held whenever code of the racer runs
	inner     sim.Racer
	informers []*informer
	queues    []*queue
	timers    int // that are running

	observing sync.Mutex // guards observed; the gate is locked when it is taken, so the racer must not be
	observed  []schedule.Event
}

var _ sim.RacerEnv = (*racer)(nil)

// startRacer starts a racer.
func (c *cluster) startRacer(config *sim.RacerConfig, skip []int) *racer {
	r := &racer{cluster: c, config: config, wake: make(chan struct{}, 1), inner: config.New()}
	if script, ok := r.inner.(sim.Skipper); ok && config.WithScript && len(skip) > 0 {
		script.Skip(skip)
	}
	if _, ok := r.inner.(sim.Observer); ok {
		c.gate.watch(func(event schedule.Event) {
			r.observing.Lock()
			r.observed = append(r.observed, event)
			r.observing.Unlock()
			r.signal()
		})
	}
	r.mu.Lock()
	r.inner.Start(r)
	for _, i := range r.informers {
		r.sync(i)
	}
	r.mu.Unlock()
	go r.run(c.ctx)
	return r
}

func (r *racer) signal() {
	select {
	case r.wake <- struct{}{}:
	default: // it is awake
	}
}

// run takes the racer's steps as they come up.
func (r *racer) run(ctx context.Context) {
	for ctx.Err() == nil {
		changed := r.cluster.mirror.changes()
		gate := r.cluster.gate.changes()
		due, more := r.step(ctx)
		if more {
			continue
		}
		timer := time.NewTimer(due)
		select {
		case <-r.wake:
		case <-changed:
		case <-gate:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// step takes one step, or says in what time there may be another.
func (r *racer) step(ctx context.Context) (due time.Duration, more bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if event, ok := r.nextObserved(); ok {
		r.inner.(sim.Observer).Observe(event)
		return 0, true
	}
	if slices.ContainsFunc(r.informers, r.deliver) {
		return 0, true
	}
	due = time.Hour
	for _, q := range r.queues {
		taken, next := q.step(ctx)
		if taken {
			return 0, true
		}
		due = min(due, next)
	}
	return due, false
}

func (r *racer) nextObserved() (schedule.Event, bool) {
	r.observing.Lock()
	defer r.observing.Unlock()
	if len(r.observed) == 0 {
		return schedule.Event{}, false
	}
	event := r.observed[0]
	r.observed = r.observed[1:]
	return event, true
}

// scriptBegins tells the racer that the script begins.
func (r *racer) scriptBegins() {
	if listener, ok := r.inner.(sim.ScriptListener); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		listener.ScriptBegins()
	}
}

// idle reports whether nothing is going to happen by itself.
func (r *racer) idle() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.observing.Lock()
	defer r.observing.Unlock()
	return r.timers == 0 && len(r.observed) == 0 && !slices.ContainsFunc(r.queues, func(q *queue) bool { return !q.idle() })
}

// Now implements [sim.RacerEnv].
func (r *racer) Now() time.Time { return time.Now() }

// Kind implements [sim.RacerEnv].
func (r *racer) Kind(name string) *apiserver.Kind { return r.cluster.kinds.ByName(name) }

// Kinds implements [sim.RacerEnv].
func (r *racer) Kinds() []*apiserver.Kind { return r.cluster.kinds.All() }

// Log implements [sim.RacerEnv].
func (r *racer) Log(string) {}

// Problem implements [sim.RacerEnv].
func (r *racer) Problem(message string) { r.cluster.problem(r.config.Name + ": " + message) }

// After implements [sim.RacerEnv].
func (r *racer) After(name string, d time.Duration, f func()) (stop func()) {
	r.timers++
	over := false
	end := func() bool { // with the lock
		if over {
			return false
		}
		over = true
		r.timers--
		return true
	}
	event := schedule.Event{Actor: r.config.Name, Verb: schedule.Timer, Name: name}
	timer := time.AfterFunc(d, func() {
		r.cluster.gate.done(&visit{event: event, key: threadKey{actor: r.config.Name, key: name}}, Step{}, 0)
		r.mu.Lock()
		defer r.mu.Unlock()
		if end() {
			f()
			r.signal()
		}
	})
	return func() {
		timer.Stop()
		end()
	}
}

// informer is one of a racer.
type informer struct {
	view   *cache.View
	handle func(cache.Delta)
}

// Informer implements [sim.RacerEnv].
func (r *racer) Informer(kind *apiserver.Kind, handle func(cache.Delta)) *cache.View {
	i := &informer{view: cache.New(source{r.cluster.mirror}, kind, cache.Selector{}), handle: handle}
	r.informers = append(r.informers, i)
	return i.view
}

func (r *racer) sync(i *informer) {
	for _, delta := range i.view.Sync() {
		if i.handle != nil {
			i.handle(delta)
		}
	}
}

// deliver lets an informer see its next event, unless there is none or it is held.
func (r *racer) deliver(i *informer) bool {
	delta, ok := i.view.Pending()
	if !ok {
		return false
	}
	key := delta.Key()
	v := &visit{
		event: schedule.Event{Actor: r.config.Name, Verb: schedule.Deliver, Kind: i.view.Kind().Name(), Namespace: key.Namespace,
			Name: key.Name},
		key:   threadKey{actor: r.config.Name, deliveries: i.view.Kind().Name()},
		cause: revisionOf(delta.Object), came: time.Now(),
	}
	if _, _, held := r.cluster.gate.holdsBack(v); held {
		return false
	}
	i.view.Advance()
	r.cluster.gate.done(v, Step{}, 0)
	if i.handle != nil {
		i.handle(delta)
	}
	return true
}

// queue is a work queue of a racer, with the rules of client-go's.
type queue struct {
	racer   *racer
	name    string
	workers int
	begin   func(key string) sim.Task

	ready      []string
	processing map[string]bool
	again      map[string]bool      // were added while they were processed
	later      map[string]time.Time // wait for their time
	retried    map[string]bool      // wait because they failed
	failures   map[string]int
}

// Queue implements [sim.RacerEnv].
func (r *racer) Queue(name string, workers int, begin func(key string) sim.Task) sim.RacerQueue {
	q := &queue{racer: r, name: name, workers: workers, begin: begin, processing: map[string]bool{}, again: map[string]bool{},
		later: map[string]time.Time{}, retried: map[string]bool{}, failures: map[string]int{}}
	r.queues = append(r.queues, q)
	return q
}

// Add implements [sim.RacerQueue].
func (q *queue) Add(key string) {
	q.racer.signal()
	switch {
	case slices.Contains(q.ready, key):
	case q.processing[key]:
		q.again[key] = true
	default:
		q.ready = append(q.ready, key)
	}
}

// AddAfter implements [sim.RacerQueue].
func (q *queue) AddAfter(key string, d time.Duration) {
	if d <= 0 {
		q.Add(key)
		return
	}
	at := time.Now().Add(d)
	if before, ok := q.later[key]; !ok || at.Before(before) {
		q.later[key] = at
		delete(q.retried, key)
	}
	q.racer.signal()
}

// idle reports whether nothing is due or being done. A key that is tried again and again is no reason to wait.
func (q *queue) idle() bool {
	if len(q.ready) > 0 || len(q.processing) > 0 {
		return false
	}
	for key := range q.later {
		if !q.retried[key] {
			return false
		}
	}
	return true
}

// step hands a key to a worker, or says in what time one may be due.
func (q *queue) step(ctx context.Context) (taken bool, due time.Duration) {
	due = time.Hour
	for key, at := range q.later {
		if wait := time.Until(at); wait > 0 {
			due = min(due, wait)
			continue
		}
		delete(q.later, key)
		delete(q.retried, key)
		q.Add(key)
	}
	if len(q.ready) == 0 || len(q.processing) >= q.workers {
		return false, due
	}
	key := q.ready[0]
	v := &visit{event: schedule.Event{Actor: q.racer.config.Name, Controller: q.controller(), Key: key, Verb: schedule.Dequeue},
		key: q.thread(key), came: time.Now()}
	if _, _, held := q.racer.cluster.gate.holdsBack(v); held {
		return false, due
	}
	q.ready = q.ready[1:]
	q.processing[key] = true
	q.racer.cluster.gate.done(v, Step{}, 0)
	q.racer.cluster.gate.began(q.thread(key))
	go q.work(ctx, key)
	return true, 0
}

func (q *queue) thread(key string) threadKey {
	return threadKey{actor: q.racer.config.Name, controller: q.name, key: key}
}

// controller returns the queue's name where it tells events apart.
func (q *queue) controller() string {
	if len(q.racer.queues) == 1 {
		return ""
	}
	return q.name
}

// work is one pass over a key.
func (q *queue) work(ctx context.Context, key string) {
	r := q.racer
	defer r.cluster.gate.ended()
	r.mu.Lock()
	defer r.mu.Unlock()
	task := q.begin(key)
	action := task.Next(nil)
	for ctx.Err() == nil {
		request, wait, err := action.Parts()
		switch {
		case request != nil:
			r.mu.Unlock()
			response := r.call(ctx, q, key, request)
			r.mu.Lock()
			action = task.Next(response)
		case wait > 0:
			r.mu.Unlock()
			sleep(ctx, wait)
			r.cluster.gate.began(q.thread(key)) // what it does next is of another burst
			r.cluster.gate.ended()
			r.mu.Lock()
			action = task.Next(nil)
		default:
			q.finish(key, err)
			return
		}
	}
}

// finish ends a pass.
func (q *queue) finish(key string, err error) {
	delete(q.processing, key)
	if q.again[key] {
		delete(q.again, key)
		q.Add(key)
	}
	q.racer.signal()
	if err == nil {
		delete(q.failures, key)
		return
	}
	backoff := min(float64(backoffBase)*math.Pow(2, float64(q.failures[key])), float64(backoffMax))
	q.failures[key]++
	_, waits := q.later[key]
	q.AddAfter(key, time.Duration(backoff))
	q.retried[key] = !waits
}

// call makes a request to the real server.
func (r *racer) call(ctx context.Context, q *queue, key string, request *apiserver.Request) *apiserver.Response {
	p := &passage{call: &call{Request: request}, visit: visit{event: eventOf(request), key: q.thread(key)}}
	p.event.Actor, p.event.Controller, p.event.Key = r.config.Name, q.controller(), key
	method, path, query, body, contentType, err := write(request)
	if err != nil {
		return failed(err)
	}
	p.call.body = body
	p.send = func(ctx context.Context) (*answer, error) {
		return r.cluster.server.sendAs(ctx, method, path, query, body, contentType, r.config.Name)
	}
	answer, err := r.cluster.pass(ctx, p)
	if err != nil {
		return failed(err)
	}
	return responseTo(request, answer)
}

// failed is the response to a request that could not be made.
func failed(err error) *apiserver.Response {
	return &apiserver.Response{Code: http.StatusInternalServerError, Err: apierrors.NewInternalError(err)}
}

// methods are those of the verbs.
var methods = map[schedule.Verb]string{
	schedule.Get: http.MethodGet, schedule.List: http.MethodGet, schedule.Create: http.MethodPost, schedule.Update: http.MethodPut,
	schedule.Patch: http.MethodPatch, schedule.Delete: http.MethodDelete, schedule.DeleteCollection: http.MethodDelete,
}

// subresourceKinds are the kinds of bodies that are not of the kind of the resource.
var subresourceKinds = map[string]schema.GroupVersionKind{
	"binding":  {Version: "v1", Kind: "Binding"},
	"eviction": {Group: "policy", Version: "v1", Kind: "Eviction"},
	"scale":    {Group: "autoscaling", Version: "v1", Kind: "Scale"},
}

// write returns what a request is on the wire.
func write(r *apiserver.Request) (method, path string, query url.Values, body []byte, contentType string, err error) {
	method, query, contentType = methods[r.Verb], url.Values{}, "application/json"
	name := r.Name
	if r.Verb == schedule.Create && r.Subresource == "" {
		name = ""
	}
	path = pathOf(r.Kind, r.Namespace, name, r.Subresource)
	set := func(key, value string) {
		if value != "" {
			query.Set(key, value)
		}
	}
	set("fieldManager", r.FieldManager)
	if r.Force != nil {
		set("force", fmt.Sprint(*r.Force))
	}
	if r.DryRun {
		set("dryRun", "All")
	}
	set("resourceVersion", r.ResourceVersion)
	set("resourceVersionMatch", string(r.ResourceVersionMatch))
	set("continue", r.Continue)
	if r.Limit > 0 {
		set("limit", fmt.Sprint(r.Limit))
	}
	if r.LabelSelector != nil {
		set("labelSelector", r.LabelSelector.String())
	}
	if r.FieldSelector != nil {
		set("fieldSelector", r.FieldSelector.String())
	}
	switch r.Verb {
	case schedule.Create, schedule.Update:
		gvk, ok := subresourceKinds[r.Subresource]
		if !ok {
			gvk = r.Kind.GroupVersionKind
		}
		r.Object.GetObjectKind().SetGroupVersionKind(gvk)
		body, err = json.Marshal(r.Object)
	case schedule.Patch:
		body, contentType = r.PatchData, string(r.PatchType)
	case schedule.Delete, schedule.DeleteCollection:
		body, err = json.Marshal(r.Delete)
	default: // reads have none
	}
	return method, path, query, body, contentType, err
}
