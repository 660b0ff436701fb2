package sim

import (
	"context"
	"runtime"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Env is what the engine offers a program: calls to the API server, informers, queues, and a place in the history. Its
// methods that wait park the calling goroutine until the engine grants the step. After the process has died they never
// return.
type Env struct{ process *process }

// Name returns the actor's name.
func (env *Env) Name() string { return env.process.name }

// Incarnation says which start of the process this is, from 1.
func (env *Env) Incarnation() int { return env.process.incarnation }

// Kinds returns the kinds the API server knows.
func (env *Env) Kinds() *apiserver.Kinds { return env.process.engine.config.Kinds }

// Config returns the scenario's configuration.
func (env *Env) Config() *Config { return env.process.engine.config }

// Do makes a request to the API server, again and again as client-go does. The error is the context's, if that ended
// before the answer came, or that of a connection which broke; what the server answers is in the response.
func (env *Env) Do(ctx context.Context, r *apiserver.Request) (*apiserver.Response, error) {
	if r.UserAgent == "" {
		r.UserAgent = env.process.name // that of a real program is the name of its binary, unless it says otherwise
	}
	r.Access = env.process.config.Access
	o := &op{flight: flight{call: r, ctx: ctx}, event: requestEvent(r)}
	if err := env.process.park(ctx, o); err != nil {
		return nil, err
	}
	return o.response, o.err
}

// CachedGet reads an object from an informer's view, as of when the engine grants it; nil if it is not there. It does not
// end with the context, as reading from memory does not.
func (env *Env) CachedGet(ctx context.Context, i *Informer, namespace, name string) (apiserver.Object, error) {
	var found apiserver.Object
	err := env.read(ctx, i, namespace, name, func(*op) { found = i.View().Get(namespace, name) })
	return found, err
}

// CachedList lists the objects of a namespace (empty for all) from an informer's view. A real cache lists in random order;
// here it is that of the keys, unless the strategy wants another.
func (env *Env) CachedList(ctx context.Context, i *Informer, namespace string) ([]apiserver.Object, error) {
	var found []apiserver.Object
	err := env.read(ctx, i, namespace, "", func(o *op) {
		found = permuted(env.process.engine, o.event, i.View().List(namespace))
	})
	return found, err
}

func (env *Env) read(ctx context.Context, i *Informer, namespace, name string, read func(*op)) error {
	verb := schedule.CachedGet
	if name == "" {
		verb = schedule.CachedList
	}
	view := i.View()
	o := &op{
		thread: env.process.thread(ctx),
		event:  schedule.Event{Verb: verb, Kind: view.Kind().Name(), Namespace: namespace, Name: name},
		reads:  &cacheRead{view: view, key: types.NamespacedName{Namespace: namespace, Name: name}},
		exec:   func(o *op) { env.process.engine.readCache(o, read) },
	}
	return env.process.park(context.Background(), o)
}

// Controllers names the controllers that the process starts with. The name of a sole controller adds nothing to the names
// of events, and is left out of them, also if others join it later.
func (env *Env) Controllers(names []string) {
	if len(names) == 1 {
		env.process.sole = names[0]
	}
}

// As makes calls with the context returned belong to a controller outside its passes, or, without a name, to the process
// itself. Calls with a context that says nothing are taken for those of the event handler that runs, if one does.
func (env *Env) As(ctx context.Context, controller string) context.Context {
	p := env.process
	t := p.main
	if controller != "" {
		p.engine.mu.Lock()
		t = p.passThread(passKey{controller: controller})
		p.engine.mu.Unlock()
	}
	return context.WithValue(ctx, threadContextKey{}, t)
}

// Go runs f in a goroutine of the process. A panic in it is the outcome of the run.
func (env *Env) Go(f func()) { env.process.spawn(f) }

// Exit ends the process with an error, as [Program.Start] does when it returns one.
func (env *Env) Exit(err error) { env.process.exit(err) }

// Fail ends the run with an error of the harness, which is no finding.
func (env *Env) Fail(err error) { env.process.fail(err) }

// Panicked ends the run with a panic of a reconciler, which is a finding.
func (env *Env) Panicked(value any, stack []byte) { env.process.panicked(value, stack) }

// Log adds a line to the history, at the present virtual time and in the pass that the context belongs to. A logger that
// knows no pass, as one that a reconciler was made with, writes into the one that runs.
func (env *Env) Log(ctx context.Context, line history.Log) {
	p := env.process
	t := p.thread(ctx)
	if running := p.engine.running; t == p.main && running != nil && running.process == p {
		t = running
	}
	p.log(t, line)
}

// Gap says that the program touched something that is not modelled. It is reported with the verdict.
func (env *Env) Gap(text string) {
	e := env.process.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if !env.process.dead {
		e.gaps[text] = true
	}
}

// Pass begins a pass of a controller over a key: calls made with the context returned belong to it. The function
// returned ends it, with the error the pass came to.
func (env *Env) Pass(ctx context.Context, controller, key string) (context.Context, func(error)) {
	p := env.process
	e := p.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if p.dead {
		runtime.Goexit()
	}
	t := p.passThread(passKey{controller, key})
	if !t.dequeued { // a queue of the operator's own choice
		t.attempt++
		t.burst++
	}
	t.dequeued = false
	p.reconciled = true
	p.passes++
	return context.WithValue(ctx, threadContextKey{}, t), func(err error) {
		e.mu.Lock()
		defer e.mu.Unlock()
		if !p.dead {
			p.passes--
			p.ended(t, err)
		}
	}
}

// queueSource is a queue, as the engine sees it.
type queueSource interface {
	// wake makes ready what has waited for its time.
	wake(e *engine)
	deadline() (time.Duration, bool)
	unsettled(lastCommit time.Duration) bool
}

// Queue is the work queue of a controller: the same rules as controller-runtime's priority queue, or client-go's plain one,
// but without goroutines, and which worker gets which key, and when, is the engine's to say.
type Queue[K comparable] struct {
	process    *process
	controller string
	waiting    *thread // stands for workers that wait for a key
	limiter    workqueue.TypedRateLimiter[K]
	keyOf      func(K) string
	inner      *workQueue[K]
	shut       bool
}

// QueueRules say by which rules a queue hands out its keys.
type QueueRules uint8

// The rules of queues.
const (
	PriorityRules QueueRules = iota // of sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue
	PlainRules                      // of k8s.io/client-go/util/workqueue; priorities are ignored
)

// NewQueue makes a controller's queue. keyOf names a key.
func NewQueue[K comparable](
	env *Env, controller string, rules QueueRules, limiter workqueue.TypedRateLimiter[K], keyOf func(K) string,
) *Queue[K] {
	q := &Queue[K]{process: env.process, controller: controller, limiter: limiter, keyOf: keyOf, inner: newWorkQueue[K]()}
	q.inner.plain = rules == PlainRules
	e := env.process.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if env.process.dead {
		runtime.Goexit()
	}
	q.waiting = e.newThread(controller, "")
	e.queues = append(e.queues, q)
	return q
}

func (q *Queue[K]) of(p *process) bool              { return q.process == p }
func (q *Queue[K]) wake(e *engine)                  { q.inner.wake(e.clock, &e.sequence) }
func (q *Queue[K]) deadline() (time.Duration, bool) { return q.inner.deadline() }
func (q *Queue[K]) unsettled(lastCommit time.Duration) bool {
	return !q.shut && q.inner.unsettled(lastCommit)
}

func (q *Queue[K]) interval() time.Duration {
	if q.shut {
		return 0
	}
	return q.inner.interval()
}

// Add queues a key, to be handed out after a span of virtual time.
func (q *Queue[K]) Add(key K, priority int, after time.Duration) {
	e := q.process.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if q.shut || q.process.dead {
		return
	}
	now := e.elapsed()
	q.inner.wake(now, &e.sequence) // a key whose time came in the course of this step is ahead of this one
	e.sequence++
	q.inner.add(key, addition{priority: priority, after: after, now: now, since: e.sequence, cause: e.last})
	e.signal()
}

// RateLimited returns how long a key that failed is to wait.
func (q *Queue[K]) RateLimited(key K) time.Duration { return q.limiter.When(key) }

// Forget forgets a key's failures.
func (q *Queue[K]) Forget(key K) { q.limiter.Forget(key) }

// Failures returns how often a key has failed since it was forgotten.
func (q *Queue[K]) Failures(key K) int { return q.limiter.NumRequeues(key) }

// Len returns the number of keys that are ready.
func (q *Queue[K]) Len() int {
	q.process.engine.mu.Lock()
	defer q.process.engine.mu.Unlock()
	return q.inner.len()
}

// Get waits until the engine hands out a key. It returns false when the queue is shut down.
func (q *Queue[K]) Get() (key K, priority int, ok bool) {
	p := q.process
	o := &op{thread: q.waiting, event: schedule.Event{Verb: schedule.Dequeue}}
	o.ready = func() bool {
		item := q.inner.next()
		if item == nil {
			return q.shut
		}
		o.since = item.since
		o.event.Key = q.keyOf(item.key)
		return true
	}
	o.exec = func(o *op) {
		item := q.inner.next()
		if item == nil {
			return
		}
		key, priority, ok = item.key, item.priority, true
		q.inner.take(item, p.engine.clock)
		p.dequeued(o, passKey{q.controller, q.keyOf(key)}, item.cause)
	}
	if err := p.park(context.Background(), o); err != nil {
		panic(err) // the background context never ends
	}
	return key, priority, ok
}

// Done says that the worker is done with a key.
func (q *Queue[K]) Done(key K) {
	e := q.process.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sequence++
	q.inner.done(key, e.sequence)
}

// ShutDown ends all present and future waits of workers.
func (q *Queue[K]) ShutDown() {
	e := q.process.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	q.shut = true
	e.signal()
}

// ShuttingDown reports whether the queue was shut down.
func (q *Queue[K]) ShuttingDown() bool {
	q.process.engine.mu.Lock()
	defer q.process.engine.mu.Unlock()
	return q.shut
}
