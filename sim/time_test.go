package sim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// The costs of steps, see engine.go.
const (
	requestCost = time.Millisecond + time.Nanosecond
	localCost   = time.Microsecond + time.Nanosecond
)

// TestOpaqueTimers checks the exact times that user code sees when it sleeps, and when its contexts and timers end.
func TestOpaqueTimers(t *testing.T) {
	var spans []time.Duration
	measure := func(f func() error) error {
		begin := time.Now()
		err := f()
		spans = append(spans, time.Since(begin))
		return err
	}
	h := run(t, newConfig(func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
		key := ctrlclient.ObjectKeyFromObject(cm)
		get := func() error { return c.Get(ctx, key, &corev1.ConfigMap{}) }
		sleep := func(d time.Duration) func() error {
			return func() error { time.Sleep(d); return nil }
		}
		expire := func(d time.Duration) func() error {
			return func() error {
				ctx, cancel := context.WithTimeout(ctx, d)
				defer cancel()
				<-ctx.Done()
				return nil
			}
		}
		after := func() error {
			timer := time.NewTimer(time.Hour)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-time.After(90 * time.Second):
			}
			return nil
		}
		for _, f := range []func() error{get, sleep(time.Second), sleep(time.Nanosecond), get, expire(7 * time.Minute), after, get} {
			if err := measure(f); err != nil {
				return ctrl.Result{}, err
			}
		}
		return ctrl.Result{}, nil
	}, configMap("a")), sim.Plan{})
	want := []time.Duration{requestCost, time.Second, time.Nanosecond, requestCost, 7 * time.Minute, 90 * time.Second, requestCost}
	if !slices.Equal(spans, want) {
		t.Errorf("spans are %v, want %v", spans, want)
	}
	if h.Outcome != history.Terminal {
		t.Errorf("the run ended %s: %s", h.Outcome, h.Reason)
	}
}

// TestCallWhoseContextEnds checks that a held call whose context ends returns at that time, by a step of its own, and with
// the context's error; and that a program that then goes on is not behind the clock.
func TestCallWhoseContextEnds(t *testing.T) {
	var begin, ended time.Time
	var failure error
	config := newConfig(func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		begin = time.Now()
		failure = set(ctx, c, cm, "x")
		ended = time.Now()
		return ctrl.Result{}, nil
	}, configMap("a"))
	held := schedule.Event{Actor: "operator", Incarnation: 1, Key: "default/a", Verb: schedule.Update, Kind: "ConfigMap",
		Namespace: "default", Name: "a", Occurrence: 1}
	h := run(t, config, sim.Plan{Constraints: []schedule.Constraint{{Event: held, Waits: schedule.Event{Actor: "nobody"}}}})
	if !errors.Is(failure, context.DeadlineExceeded) || ended.Sub(begin) != 10*time.Second+localCost {
		t.Errorf("the call ended with %v after %s, want the context's error after 10s and a step", failure, ended.Sub(begin))
	}
	i := slices.IndexFunc(h.Records, func(r history.Record) bool { return r.Event.Verb == schedule.Wake })
	if i < 0 || h.Records[i].Event.Key != "default/a" {
		t.Error("the call was not released by a step")
	}
	if value(h) != "" || h.Constraints[0].Matched {
		t.Errorf("value is %q and the constraint's matched %v; want a call that never took place", value(h), h.Constraints[0].Matched)
	}
}

// TestContextEndsBeforeTheAnswer checks that a call whose context ends while its answer is on the way fails with the context's
// error, though it took place, and leaves no step behind.
func TestContextEndsBeforeTheAnswer(t *testing.T) {
	var failure error
	config := newConfig(func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
		if cm.Data != nil {
			return ctrl.Result{}, nil
		}
		ctx, cancel := context.WithTimeout(ctx, requestCost/2)
		defer cancel()
		failure = set(ctx, c, cm, "x")
		return ctrl.Result{}, nil
	}, configMap("a"))
	h := run(t, config, sim.Plan{})
	if !errors.Is(failure, context.DeadlineExceeded) || value(h) != "x" {
		t.Errorf("the call ended with %v, and the value is %q; want the context's error, and a call that took place", failure, value(h))
	}
	if slices.ContainsFunc(h.Records, func(r history.Record) bool { return r.Event.Verb == schedule.Wake }) {
		t.Error("a step released a call that had returned")
	}
}

// TestInstantsAreUnique checks that no two steps share an instant, whatever they are: timers set in different steps then do
// not either.
func TestInstantsAreUnique(t *testing.T) {
	config := newConfig(func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
		if len(cm.Data["value"]) > 5 {
			return ctrl.Result{}, nil
		}
		time.Sleep(time.Second)
		return ctrl.Result{RequeueAfter: time.Second}, set(ctx, c, cm, cm.Data["value"]+"x")
	}, configMap("a"), configMap("b"), configMap("c"))
	for _, name := range []string{"second", "third"} {
		config.Processes = append(config.Processes, sim.Process{Name: name, Program: config.Processes[0].Program})
	}
	h := run(t, config, sim.Plan{})
	for i := 1; i < len(h.Records); i++ {
		before, r := h.Records[i-1], h.Records[i]
		if r.At <= before.At && r.Event.Verb != schedule.Start && before.At > 0 {
			t.Errorf("%s at %s comes after %s at %s", r.Event, r.At, before.Event, before.At)
		}
	}
}

// TestTimersOfTwoProcesses checks that sleeps of equal length end in the order in which they began, every time.
func TestTimersOfTwoProcesses(t *testing.T) {
	for range 20 {
		var mu sync.Mutex
		var order []string
		var ended []time.Time
		program := func(name string) sim.Program {
			return program(func(context.Context, ctrlclient.Client, *corev1.ConfigMap) (ctrl.Result, error) {
				time.Sleep(time.Minute)
				mu.Lock()
				defer mu.Unlock()
				order, ended = append(order, name), append(ended, time.Now())
				return ctrl.Result{}, nil
			})
		}
		config := newConfig(nil, configMap("a"))
		config.Processes = nil
		for _, name := range []string{"a", "b", "c"} {
			config.Processes = append(config.Processes, sim.Process{Name: name, Program: program(name)})
		}
		run(t, config, sim.Plan{})
		if got := fmt.Sprint(order); got != "[a b c]" {
			t.Fatalf("sleeps ended in the order %s", got)
		}
		if gap := ended[1].Sub(ended[0]); gap <= 0 {
			t.Fatalf("two sleeps ended %s apart", gap)
		}
	}
}

// TestEpoch checks that runs begin at the epoch, or after the settling, and that objects are dated by virtual time.
func TestEpoch(t *testing.T) {
	var seen []time.Time
	config := newConfig(func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
		seen = append(seen, time.Now())
		return ctrl.Result{}, nil
	}, configMap("a"))
	run(t, config, sim.Plan{})
	if len(seen) == 0 || seen[0].Before(sim.Epoch) || seen[0].After(sim.Epoch.Add(time.Second)) {
		t.Errorf("the first pass is at %v, want it within a second of %s", seen, sim.Epoch)
	}
	config.Unsettled = false
	world, err := sim.NewWorld(config)
	if err != nil {
		t.Fatal(err)
	}
	settled := sim.Epoch.Add(world.Settled().End)
	seen = nil
	if _, err := world.Run(sim.Plan{}); err != nil {
		t.Fatal(err)
	}
	if len(seen) == 0 || !seen[0].After(settled) || seen[0].After(settled.Add(2*time.Second)) {
		t.Errorf("the first pass after the settling is at %v, want it within two seconds of %s", seen, settled)
	}
}
