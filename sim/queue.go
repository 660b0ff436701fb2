package sim

import (
	"time"
)

// workQueue is a work queue with the rules of controller-runtime's priority queue
// (sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue, v0.24): a key is queued once; adding it again raises its
// priority and brings its time forward, never the other way; a key that a worker has is withheld until it is done. Of
// the keys that are ready the one of the highest priority comes first, and among those the one that became ready first.
//
// client-go's plain queue differs only in that a key added while it is being processed goes to the end when it is done;
// with one priority, and keys that become ready in the order they are added, that is the same order for all other keys.
type workQueue[K comparable] struct {
	items  []*queueItem[K]
	locked map[K]bool
	begun  map[K]passTimes
	// order counts the keys as they become ready.
	order uint64
	// waiting counts the items whose time has not come.
	waiting int
}

// passTimes says when the latest two passes over a key began.
type passTimes struct{ latest, previous time.Duration }

// addition says how a key is added.
type addition struct {
	priority int
	after    time.Duration // zero or less: ready at once
	now      time.Duration // virtual time since the run began
	since    uint64        // the engine's count of what becomes enabled
	cause    int           // the record in which it was added
}

type queueItem[K comparable] struct {
	key      K
	priority int
	ready    bool
	readyAt  time.Duration // of no meaning once ready
	order    uint64        // among the ready ones
	since    uint64        // the engine's count, when it became ready
	cause    int           // the record in which it was added, or made ready before its time
}

func newWorkQueue[K comparable]() *workQueue[K] {
	return &workQueue[K]{locked: map[K]bool{}, begun: map[K]passTimes{}}
}

// add queues a key.
func (q *workQueue[K]) add(key K, a addition) {
	item := q.find(key)
	if item == nil {
		item = &queueItem[K]{key: key, priority: a.priority, readyAt: a.now + a.after, cause: a.cause}
		q.items = append(q.items, item)
		q.waiting++
		if a.after <= 0 {
			q.makeReady(item, a.since)
		}
		return
	}
	if a.priority > item.priority {
		item.priority = a.priority
		if item.ready {
			q.order++
			item.order = q.order
		}
	}
	switch {
	case item.ready:
	case a.after <= 0:
		item.cause = a.cause
		q.makeReady(item, a.since)
	case a.now+a.after < item.readyAt:
		item.cause = a.cause
		item.readyAt = a.now + a.after
	}
}

func (q *workQueue[K]) makeReady(item *queueItem[K], since uint64) {
	q.order++
	q.waiting--
	item.ready, item.order, item.since = true, q.order, since
}

func (q *workQueue[K]) find(key K) *queueItem[K] {
	for _, item := range q.items {
		if item.key == key {
			return item
		}
	}
	return nil
}

// wake makes ready what has waited for its time, earliest first.
func (q *workQueue[K]) wake(now time.Duration, sequence *uint64) {
	for q.waiting > 0 {
		item := q.earliest()
		if item.readyAt > now {
			return
		}
		*sequence++
		q.makeReady(item, *sequence)
	}
}

func (q *workQueue[K]) earliest() *queueItem[K] {
	var first *queueItem[K]
	for _, item := range q.items {
		if !item.ready && (first == nil || item.readyAt < first.readyAt) {
			first = item
		}
	}
	return first
}

// next returns the key that is to be handed out next, or nil.
func (q *workQueue[K]) next() *queueItem[K] {
	var best *queueItem[K]
	for _, item := range q.items {
		if !item.ready || q.locked[item.key] {
			continue
		}
		if best == nil || item.priority > best.priority || item.priority == best.priority && item.order < best.order {
			best = item
		}
	}
	return best
}

// take hands the item out: its key is locked until done.
func (q *workQueue[K]) take(item *queueItem[K], now time.Duration) {
	times, again := q.begun[item.key]
	if !again {
		times.latest = neverBegun
	}
	q.begun[item.key] = passTimes{latest: now, previous: times.latest}
	for i := range q.items {
		if q.items[i] == item {
			q.items = append(q.items[:i], q.items[i+1:]...)
			break
		}
	}
	q.locked[item.key] = true
}

func (q *workQueue[K]) done(key K) { delete(q.locked, key) }

// neverBegun is earlier than any pass.
const neverBegun = -1

// unsettled reports whether the queue may still bring something new: a key is ready, or one waits for its time that has
// not been passed over twice since the last commit. The first pass after a commit may act on what it sees; the second,
// which the first one asked for, sees that time has passed. A third would see nothing that the second did not.
func (q *workQueue[K]) unsettled(lastCommit time.Duration) bool {
	for _, item := range q.items {
		times, ok := q.begun[item.key]
		if item.ready || !ok || times.previous <= lastCommit {
			return true
		}
	}
	return false
}

// deadline returns when the next key becomes ready by itself, and false if none will.
func (q *workQueue[K]) deadline() (time.Duration, bool) {
	if q.waiting == 0 {
		return 0, false
	}
	return q.earliest().readyAt, true
}

// len returns the number of keys that are ready.
func (q *workQueue[K]) len() int { return len(q.items) - q.waiting }
