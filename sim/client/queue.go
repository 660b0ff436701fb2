package client

import (
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/sim"
)

// addBuffer holds back what an event handler adds in an order that no run repeats, and adds it in the order of the keys
// when the handler is done. Handlers of a process run one at a time.
type addBuffer struct {
	mu     sync.Mutex
	active bool
	held   []heldAdd
}

type heldAdd struct {
	item reconcile.Request
	add  func()
}

// hold keeps an addition back, or reports that there is no need to.
func (b *addBuffer) hold(item reconcile.Request, add func()) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.active {
		b.held = append(b.held, heldAdd{item, add})
	}
	return b.active
}

func (b *addBuffer) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.active = true
}

func (b *addBuffer) end() {
	b.mu.Lock()
	held := b.held
	b.active, b.held = false, nil
	b.mu.Unlock()
	slices.SortStableFunc(held, func(a, b heldAdd) int { return strings.Compare(a.item.String(), b.item.String()) })
	for _, h := range held {
		h.add()
	}
}

// queue is the engine's queue behind the interfaces of a controller's queue.
type queue struct {
	inner *sim.Queue[reconcile.Request]
	adds  *addBuffer
}

// priorityQueue is a queue where controller-runtime has its priority queue.
type priorityQueue struct{ *queue }

// plainQueue is a queue where controller-runtime has client-go's: event handlers can tell the two apart.
type plainQueue struct{ *queue }

var (
	_ priorityqueue.PriorityQueue[reconcile.Request]          = &priorityQueue{}
	_ workqueue.TypedRateLimitingInterface[reconcile.Request] = plainQueue{}
)

func (q *queue) add(item reconcile.Request, priority int, after time.Duration) {
	if !q.adds.hold(item, func() { q.inner.Add(item, priority, after) }) {
		q.inner.Add(item, priority, after)
	}
}

// Add implements workqueue.TypedRateLimitingInterface.
func (q *queue) Add(item reconcile.Request) { q.add(item, 0, 0) }

// AddAfter implements workqueue.TypedRateLimitingInterface.
func (q *queue) AddAfter(item reconcile.Request, after time.Duration) { q.add(item, 0, after) }

// AddRateLimited implements workqueue.TypedRateLimitingInterface.
func (q *queue) AddRateLimited(item reconcile.Request) { q.add(item, 0, q.inner.RateLimited(item)) }

// AddWithOpts implements priorityqueue.PriorityQueue.
func (q *priorityQueue) AddWithOpts(o priorityqueue.AddOpts, items ...reconcile.Request) {
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
		q.add(item, priority, after)
	}
}

// Get implements workqueue.TypedRateLimitingInterface.
func (q *queue) Get() (item reconcile.Request, shutdown bool) {
	item, _, ok := q.inner.Get()
	return item, !ok
}

// GetWithPriority implements priorityqueue.PriorityQueue.
func (q *priorityQueue) GetWithPriority() (item reconcile.Request, priority int, shutdown bool) {
	item, priority, ok := q.inner.Get()
	return item, priority, !ok
}

// Done implements workqueue.TypedRateLimitingInterface.
func (q *queue) Done(item reconcile.Request) { q.inner.Done(item) }

// Forget implements workqueue.TypedRateLimitingInterface.
func (q *queue) Forget(item reconcile.Request) { q.inner.Forget(item) }

// NumRequeues implements workqueue.TypedRateLimitingInterface.
func (q *queue) NumRequeues(item reconcile.Request) int { return q.inner.Failures(item) }

// Len implements workqueue.TypedRateLimitingInterface.
func (q *queue) Len() int { return q.inner.Len() }

// ShutDown implements workqueue.TypedRateLimitingInterface.
func (q *queue) ShutDown() { q.inner.ShutDown() }

// ShutDownWithDrain implements workqueue.TypedRateLimitingInterface. It does not drain, as a process that ends does not.
func (q *queue) ShutDownWithDrain() { q.inner.ShutDown() }

// ShuttingDown implements workqueue.TypedRateLimitingInterface.
func (q *queue) ShuttingDown() bool { return q.inner.ShuttingDown() }
