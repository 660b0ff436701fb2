package client

import (
	"context"
	"reflect"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/sim"
)

// newQueueFunc is the type of a controller's field NewQueue.
type newQueueFunc = func(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request]

// adopt puts the engine into a controller: its reconciler tells the engine when a pass begins and ends, and its queue is
// ours unless the operator chose one. It reports whether the runnable is a controller.
//
// Manager.Add is handed a *internal/controller.Controller, whose type cannot be named here but whose fields Name, Do and
// NewQueue are exported; that holds for controller-runtime v0.19 to v0.25. Controllers with request types of their own
// keep what they have.
func adopt(env *sim.Env, r manager.Runnable) bool {
	value := reflect.ValueOf(r)
	if value.Kind() != reflect.Pointer || value.Elem().Kind() != reflect.Struct {
		return false
	}
	field := func(name string) any {
		f := value.Elem().FieldByName(name)
		if !f.IsValid() || !f.CanAddr() || !f.Addr().CanInterface() {
			return nil
		}
		return f.Addr().Interface()
	}
	name, isNamed := field("Name").(*string)
	do, isController := field("Do").(*reconcile.Reconciler)
	newQueue, hasQueue := field("NewQueue").(*newQueueFunc)
	if !isNamed || !isController || !hasQueue {
		return false
	}
	*do = &reconciler{env: env, controller: *name, inner: *do}
	if functionName(*newQueue) == defaultNewQueue() {
		*newQueue = func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request],
		) workqueue.TypedRateLimitingInterface[reconcile.Request] {
			return &queue{sim.NewQueue(env, name, limiter, reconcile.Request.String)}
		}
	}
	return true
}

// defaultNewQueue names the function that controller-runtime gives a controller whose author chose no queue.
var defaultNewQueue = sync.OnceValue(func() string {
	skip := true
	probe, err := controller.NewTypedUnmanaged("probe", controller.Options{
		SkipNameValidation: &skip,
		Reconciler: reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			return reconcile.Result{}, nil
		}),
	})
	if err != nil {
		return ""
	}
	return functionName(reflect.ValueOf(probe).Elem().FieldByName("NewQueue").Interface().(newQueueFunc))
})

func functionName(f newQueueFunc) string {
	return runtime.FuncForPC(reflect.ValueOf(f).Pointer()).Name()
}

// reconciler tells the engine of passes.
type reconciler struct {
	env        *sim.Env
	controller string
	inner      reconcile.Reconciler
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (_ reconcile.Result, err error) {
	ctx, end := r.env.Pass(ctx, r.controller, request.String())
	defer end()
	defer func() {
		// controller-runtime would recover, and retry as after an error; that hides a bug.
		if value := recover(); value != nil {
			r.env.Panicked(value, debug.Stack())
		}
	}()
	logger := logr.FromContextOrDiscard(ctx)
	if sink, ok := logger.GetSink().(*logSink); ok {
		ctx = logr.NewContext(ctx, logger.WithSink(sink.in(ctx)))
	}
	return r.inner.Reconcile(ctx, request)
}

// queue is the engine's queue behind the interface of controller-runtime's priority queue.
type queue struct {
	inner *sim.Queue[reconcile.Request]
}

var _ priorityqueue.PriorityQueue[reconcile.Request] = &queue{}

// Add implements priorityqueue.PriorityQueue.
func (q *queue) Add(item reconcile.Request) { q.inner.Add(item, 0, 0) }

// AddAfter implements priorityqueue.PriorityQueue.
func (q *queue) AddAfter(item reconcile.Request, after time.Duration) { q.inner.Add(item, 0, after) }

// AddRateLimited implements priorityqueue.PriorityQueue.
func (q *queue) AddRateLimited(item reconcile.Request) {
	q.inner.Add(item, 0, q.inner.RateLimited(item))
}

// AddWithOpts implements priorityqueue.PriorityQueue.
func (q *queue) AddWithOpts(o priorityqueue.AddOpts, items ...reconcile.Request) {
	priority := 0
	if o.Priority != nil {
		priority = *o.Priority
	}
	for _, item := range items {
		after := o.After
		if o.RateLimited {
			if limited := q.inner.RateLimited(item); after == 0 || limited < after {
				after = limited
			}
		}
		q.inner.Add(item, priority, after)
	}
}

// Get implements priorityqueue.PriorityQueue.
func (q *queue) Get() (item reconcile.Request, shutdown bool) {
	item, _, shutdown = q.GetWithPriority()
	return item, shutdown
}

// GetWithPriority implements priorityqueue.PriorityQueue.
func (q *queue) GetWithPriority() (item reconcile.Request, priority int, shutdown bool) {
	item, priority, ok := q.inner.Get()
	return item, priority, !ok
}

// Done implements priorityqueue.PriorityQueue.
func (q *queue) Done(item reconcile.Request) { q.inner.Done(item) }

// Forget implements priorityqueue.PriorityQueue.
func (q *queue) Forget(item reconcile.Request) { q.inner.Forget(item) }

// NumRequeues implements priorityqueue.PriorityQueue.
func (q *queue) NumRequeues(item reconcile.Request) int { return q.inner.Failures(item) }

// Len implements priorityqueue.PriorityQueue.
func (q *queue) Len() int { return q.inner.Len() }

// ShutDown implements priorityqueue.PriorityQueue.
func (q *queue) ShutDown() { q.inner.ShutDown() }

// ShutDownWithDrain implements priorityqueue.PriorityQueue, and like controller-runtime's does not drain.
func (q *queue) ShutDownWithDrain() { q.inner.ShutDown() }

// ShuttingDown implements priorityqueue.PriorityQueue.
func (q *queue) ShuttingDown() bool { return q.inner.ShuttingDown() }
