package sim

import (
	"cmp"
	"slices"
	"time"
)

// workQueue is a work queue with the rules of controller-runtime's priority queue
// (sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue, v0.24): a key is queued once; adding it again raises its
// priority and brings its time forward, never the other way; a key that a worker has is withheld until it is done. Of
// the keys that are ready the one of the highest priority comes first, and among those the one that came first: was added,
// got its priority, or reached its time. A key that is added while it waits for its time is ready at once, in the place
// it had.
//
// client-go's plain queue (k8s.io/client-go/util/workqueue) has no priorities; a key added while it is being processed goes
// to the end when it is done; and a key that is added while it waits for its time is queued besides, so that its time
// brings it up once more.
type workQueue[K comparable] struct {
	plain  bool
	items  []*queueItem[K]
	locked map[K]bool
	begun  map[K]passTimes
	order  uint64 // counts the keys as they come
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
	order    uint64        // of coming; among ready keys of one priority the lowest is next
	since    uint64        // the engine's count, when it became ready
	cause    int           // the record in which it was added, or made ready before its time
}

func newWorkQueue[K comparable]() *workQueue[K] {
	return &workQueue[K]{locked: map[K]bool{}, begun: map[K]passTimes{}}
}

// add queues a key.
func (q *workQueue[K]) add(key K, a addition) {
	if q.plain {
		a.priority = 0
	}
	item := q.find(key, a.after > 0)
	if item == nil {
		item = &queueItem[K]{key: key, priority: a.priority, readyAt: later(a.now, a.after), cause: a.cause, order: q.count()}
		q.items = append(q.items, item)
		q.waiting++
		if a.after <= 0 {
			q.makeReady(item, a.since)
		}
		return
	}
	if a.priority > item.priority {
		item.priority, item.order = a.priority, q.count()
	}
	switch {
	case item.ready:
	case a.after <= 0:
		item.cause = a.cause
		q.makeReady(item, a.since)
	case later(a.now, a.after) < item.readyAt:
		item.cause = a.cause
		item.readyAt = later(a.now, a.after)
	}
}

// count returns the next number in the order of coming.
func (q *workQueue[K]) count() uint64 {
	q.order++
	return q.order
}

func (q *workQueue[K]) makeReady(item *queueItem[K], since uint64) {
	q.waiting--
	item.ready, item.since = true, since
}

// find returns the item of a key, or nil. A plain queue keeps a key that waits for its time apart from one that is ready.
func (q *workQueue[K]) find(key K, waiting bool) *queueItem[K] {
	for _, item := range q.items {
		if item.key == key && (!q.plain || item.ready != waiting) {
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
		if q.plain && q.find(item.key, false) != nil {
			q.waiting--
			q.remove(item)
			continue
		}
		item.order = q.count()
		q.makeReady(item, *sequence)
	}
}

func (q *workQueue[K]) earliest() *queueItem[K] {
	var first *queueItem[K]
	for _, item := range q.items {
		if item.ready {
			continue
		}
		if first == nil || cmp.Or(cmp.Compare(item.readyAt, first.readyAt), cmp.Compare(item.order, first.order)) < 0 {
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
	q.remove(item)
	q.locked[item.key] = true
}

func (q *workQueue[K]) remove(item *queueItem[K]) {
	q.items = slices.DeleteFunc(q.items, func(other *queueItem[K]) bool { return other == item })
}

// done says that a worker is done with a key; since is the engine's count of what becomes enabled.
func (q *workQueue[K]) done(key K, since uint64) {
	delete(q.locked, key)
	if !q.plain {
		return
	}
	if item := q.find(key, false); item != nil {
		item.order, item.since = q.count(), since
	}
}

// neverBegun is earlier than any pass.
const neverBegun = -1

// unsettled reports whether the queue may still bring something new: a key is ready, or one waits for its time that has
// not been passed over twice since the last commit. The first pass after a commit may act on what it sees; the second,
// which the first one asked for, sees that time has passed. A third would see nothing that the second did not.
func (q *workQueue[K]) unsettled(lastCommit time.Duration) bool {
	for _, item := range q.items {
		times, ok := q.begun[item.key]
		if !item.ready && item.readyAt == Forever {
			continue
		}
		if item.ready || !ok || times.previous <= lastCommit {
			return true
		}
	}
	return false
}

// interval returns the longest time between the begin of the latest pass over a key and the time at which it comes back,
// of the keys that wait for theirs.
func (q *workQueue[K]) interval() time.Duration {
	var longest time.Duration
	for _, item := range q.items {
		if times, again := q.begun[item.key]; again && !item.ready {
			longest = max(longest, item.readyAt-times.latest)
		}
	}
	return longest
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
