package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// TestQueueOracle compares the work queue with the queues it stands for, by random sequences of what controllers and event
// handlers do with one: the same keys must come out in the same order, at the same time and with the same priorities.
func TestQueueOracle(t *testing.T) {
	t.Run("priority", func(t *testing.T) {
		for seed := range uint64(300) {
			synctest.Test(t, func(t *testing.T) {
				real := priorityqueue.New[string]("oracle")
				defer real.ShutDown()
				compareQueues(t, seed, newWorkQueue[string](), oracle{
					add: func(key string, priority int, after time.Duration) {
						real.AddWithOpts(priorityqueue.AddOpts{Priority: &priority, After: after}, key)
					},
					get: func() (string, int) {
						key, priority, _ := real.GetWithPriority()
						return key, priority
					},
					done: real.Done, len: real.Len,
				})
			})
		}
	})
	t.Run("plain", func(t *testing.T) {
		for seed := range uint64(300) {
			synctest.Test(t, func(t *testing.T) {
				real := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[string]())
				defer real.ShutDown()
				ours := newWorkQueue[string]()
				ours.plain = true
				compareQueues(t, seed, ours, oracle{
					add: func(key string, _ int, after time.Duration) { real.AddAfter(key, after) },
					get: func() (string, int) {
						key, _ := real.Get()
						return key, 0
					},
					done: real.Done,
				})
			})
		}
	})
}

// oracle is a real queue. Those that count keys which are being processed, too, have a len.
type oracle struct {
	add  func(key string, priority int, after time.Duration)
	get  func() (key string, priority int)
	done func(key string)
	len  func() int
}

// compareQueues makes the same calls to both queues. No two of them, nor a call and a key's time, share an instant.
func compareQueues(t *testing.T, seed uint64, ours *workQueue[string], real oracle) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 0))
	var sequence uint64
	var taken []string
	var calls []string
	begin := time.Now()
	for range 60 {
		time.Sleep(time.Duration(random.IntN(4))*time.Millisecond + time.Nanosecond)
		now := time.Since(begin)
		ours.wake(now, &sequence)
		switch n := random.IntN(10); {
		case n < 5:
			key, priority := string(rune('a'+random.IntN(5))), random.IntN(3)
			after := max(0, time.Duration(random.IntN(12)-5)*time.Millisecond)
			calls = append(calls, fmt.Sprintf("add %s priority %d after %s", key, priority, after))
			sequence++
			ours.add(key, addition{priority: priority, after: after, now: now, since: sequence})
			real.add(key, priority, after)
		case n < 8 && ours.next() != nil:
			item := ours.next()
			ours.take(item, now)
			calls = append(calls, fmt.Sprintf("get %s priority %d", item.key, item.priority))
			key, priority := real.get()
			if key != item.key || priority != item.priority {
				t.Fatalf("seed %d: after %q the real queue hands out %s with priority %d", seed, calls, key, priority)
			}
			taken = append(taken, key)
		case n >= 8 && len(taken) > 0:
			i := random.IntN(len(taken))
			calls = append(calls, "done "+taken[i])
			sequence++
			ours.done(taken[i], sequence)
			real.done(taken[i])
			taken = slices.Delete(taken, i, i+1)
		}
		synctest.Wait()
		if real.len != nil && real.len() != ours.len() {
			t.Fatalf("seed %d: after %q the real queue has %d keys that are ready, ours %d", seed, calls, real.len(), ours.len())
		}
	}
}

// TestQueueSettled checks by which passes a key that keeps coming back has seen everything, and how long it is away for.
func TestQueueSettled(t *testing.T) {
	q := newWorkQueue[string]()
	pass := func(now, after time.Duration) {
		q.wake(now, new(uint64))
		q.take(q.next(), now)
		q.done("a", 0)
		q.add("a", addition{after: after, now: now})
	}
	expect := func(when string, lastCommit time.Duration, unsettled bool, interval time.Duration) {
		t.Helper()
		if got := q.unsettled(lastCommit); got != unsettled {
			t.Errorf("%s: unsettled is %v, want %v", when, got, unsettled)
		}
		if got := q.interval(); got != interval {
			t.Errorf("%s: interval is %s, want %s", when, got, interval)
		}
	}
	expect("empty", 0, false, 0)
	q.add("a", addition{})
	expect("ready", 0, true, 0)
	pass(time.Second, 10*time.Second)
	expect("after one pass", 0, true, 10*time.Second)
	pass(11*time.Second, 30*time.Second)
	expect("after two passes", 0, false, 30*time.Second)
	expect("after a commit between them", 5*time.Second, true, 30*time.Second)
	expect("after a commit since", 20*time.Second, true, 30*time.Second)
	if at, ok := q.deadline(); !ok || at != 41*time.Second {
		t.Errorf("deadline is %s, %v; want 41s", at, ok)
	}
}
