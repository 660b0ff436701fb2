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

// fieldOf returns a pointer to the exported field of a runnable that has the name and the type, or nil.
//
// Manager.Add is handed a *internal/controller.Controller, whose type cannot be named here but whose fields Name, Do and
// NewQueue are exported; that holds for controller-runtime v0.19 to v0.25.
func fieldOf[T any](r manager.Runnable, name string) *T {
	value := reflect.ValueOf(r)
	if value.Kind() != reflect.Pointer || value.Elem().Kind() != reflect.Struct {
		return nil
	}
	field := value.Elem().FieldByName(name)
	if !field.IsValid() || !field.CanAddr() || !field.Addr().CanInterface() {
		return nil
	}
	pointer, _ := reflect.TypeAssert[*T](field.Addr())
	return pointer
}

// controllerName returns the name of a runnable that is a controller, whatever the type of its requests.
func controllerName(r manager.Runnable) (string, bool) {
	name := fieldOf[string](r, "Name")
	if name == nil {
		return "", false
	}
	value := reflect.ValueOf(r).Elem()
	return *name, value.FieldByName("Do").IsValid() && value.FieldByName("NewQueue").IsValid()
}

// adopter puts the engine into the controllers of a process.
type adopter struct {
	env   *sim.Env
	rules *queueRules
	adds  *addBuffer
}

// adopt puts the engine into a controller: its reconciler tells the engine when a pass begins and ends, and its queue is
// ours unless the operator chose one. It reports whether the runnable is a controller of reconcile.Requests; those with
// requests of another type keep what they have.
func (a *adopter) adopt(r manager.Runnable) bool {
	name := fieldOf[string](r, "Name")
	do := fieldOf[reconcile.Reconciler](r, "Do")
	newQueue := fieldOf[newQueueFunc](r, "NewQueue")
	if name == nil || do == nil || newQueue == nil {
		return false
	}
	*do = &reconciler{env: a.env, controller: *name, inner: *do}
	if functionName(reflect.ValueOf(*newQueue)) == defaultNewQueue() {
		rules := a.rules.of(*name, *newQueue)
		*newQueue = func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request],
		) workqueue.TypedRateLimitingInterface[reconcile.Request] {
			q := &queue{inner: sim.NewQueue(a.env, name, rules, limiter, reconcile.Request.String), adds: a.adds}
			if rules == sim.PlainRules {
				return plainQueue{q}
			}
			return &priorityQueue{q}
		}
	}
	return true
}

// queueRules remembers, by the names of a program's controllers, which of controller-runtime's two queues each has.
type queueRules struct {
	mu    sync.Mutex
	known map[string]sim.QueueRules
}

// of finds out which queue a function makes, by making one: what the controller's option UsePriorityQueue said is hidden in
// it. As that costs some goroutines, and a program sets up the same controllers in each run, it is done once.
func (k *queueRules) of(controller string, newQueue newQueueFunc) sim.QueueRules {
	k.mu.Lock()
	defer k.mu.Unlock()
	rules, ok := k.known[controller]
	if !ok {
		limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Second)
		probe := newQueue(controller, limiter)
		probe.ShutDown()
		rules = sim.PlainRules
		if _, ok := probe.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
			rules = sim.PriorityRules
		}
		if k.known == nil {
			k.known = map[string]sim.QueueRules{}
		}
		k.known[controller] = rules
	}
	return rules
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
	return functionName(reflect.ValueOf(probe).Elem().FieldByName("NewQueue"))
})

func functionName(function reflect.Value) string { return runtime.FuncForPC(function.Pointer()).Name() }

// reconciler tells the engine of passes.
type reconciler struct {
	env        *sim.Env
	controller string
	inner      reconcile.Reconciler
}

// Reconcile implements reconcile.Reconciler.
func (r *reconciler) Reconcile(ctx context.Context, request reconcile.Request) (_ reconcile.Result, err error) {
	ctx, end := r.env.Pass(ctx, r.controller, request.String())
	defer func() { end(err) }()
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
