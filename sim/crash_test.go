package sim_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// crashing lets faults of type Crash and Upgrade end processes before a call, and LostResponse after it.
func crashing(config *sim.Config, r sim.Restart) {
	before := func() sim.Reactor { return hooks{before: func(d *sim.Door) { d.Crash(r) }} }
	strikes(config, map[schedule.FaultType]func() sim.Reactor{
		schedule.Crash: before, schedule.Upgrade: before,
		schedule.LostResponse: func() sim.Reactor { return hooks{after: func(d *sim.Door) { d.Crash(r) }} },
	})
}

// setOnce is an operator that writes a value into every ConfigMap, once.
func setOnce(value string) reconcileFunc {
	return func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
		if cm.Data != nil {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, set(ctx, c, cm, value)
	}
}

// TestCrash checks what becomes of the request at which a process dies, that its next start lists everything again, and that
// both are counted as one controller.
func TestCrash(t *testing.T) {
	for name, test := range map[string]struct {
		fault schedule.FaultType
		trail []string
	}{
		"before": {schedule.Crash, []string{
			"Get a #1 200", "Update a #1 -1 Crash",
			"[2] Get a #1 200", "[2] Update a #1 200 committed", "[2] Get a #2 200",
			"[2] Get b #1 200", "[2] Update b #1 200 committed", "[2] Get b #2 200"}},
		"after": {schedule.LostResponse, []string{
			"Get a #1 200", "Update a #1 -1 committed LostResponse",
			"[2] Get a #1 200", "[2] Get b #1 200", "[2] Update b #1 200 committed", "[2] Get b #2 200"}},
	} {
		t.Run(name, func(t *testing.T) {
			config := newConfig(setOnce("x"), configMap("a"), configMap("b"))
			crashing(config, sim.Restart{After: 5 * time.Second})
			h := run(t, config, sim.Plan{Faults: []schedule.Fault{fault(test.fault, inPass(schedule.Update, "a", 1))}})
			expectTrail(t, h, test.trail...)
			expectRestart(t, h, 5*time.Second)
			if f := h.Faults[0]; !f.Struck || h.Records[f.Record].Message != "process crashed before the "+
				map[string]string{"before": "call", "after": "answer came"}[name] {
				t.Errorf("the fault came to %+v: %+v", f, h.Records[f.Record])
			}
			passes := len(slices.DeleteFunc(slices.Clone(h.Records), func(r history.Record) bool {
				return r.Event.Verb != schedule.Dequeue || r.Event.Incarnation < 2
			}))
			if len(h.Passes) != 1 || h.Passes[0].Total != passes || h.Passes[0].Failed != 0 {
				t.Errorf("the passes are %+v, want %d, as that in which the process died never ended", h.Passes, passes)
			}
		})
	}
}

// expectRestart checks that the process started anew once, and lived on: the run came to rest, and nothing was left over.
func expectRestart(t *testing.T, h *history.History, after time.Duration) {
	t.Helper()
	crashed := time.Duration(-1)
	starts := 0
	for i, r := range h.Records {
		switch {
		case r.Fault != "" && crashed < 0:
			crashed = r.At
		case r.Event.Actor == "operator" && r.Event.Incarnation == 1 && crashed >= 0 && r.Event.Verb != schedule.Timer:
			t.Errorf("the dead process took the step %s", r.Event)
		case r.Event.Verb == schedule.Start && r.Event.Incarnation == 2:
			starts++
			if !about(r.At-crashed, after) {
				t.Errorf("the process starts again %s after it died, want %s", r.At-crashed, after)
			}
			if timer := h.Records[r.Cause].Event; r.Cause != i-1 || timer.Verb != schedule.Timer || timer.Name != "restart" {
				t.Errorf("the process starts because of %s", timer)
			}
		}
	}
	if starts != 1 {
		t.Errorf("the process started again %d times", starts)
	}
	if h.Outcome != history.Terminal || len(h.Unfinished) > 0 {
		t.Errorf("the run ended %s (%s), unfinished: %q\n%s", h.Outcome, h.Reason, h.Unfinished, h.Panic)
	}
}

// TestCrashOfManyGoroutines checks that all of a process dies at once: what is in the middle of a call, of an event
// handler, or of a sleep, and that nothing it still says counts.
func TestCrashOfManyGoroutines(t *testing.T) {
	var mu sync.Mutex
	var reached []string
	program := func(ctx context.Context, env *sim.Env) error {
		first := env.Incarnation() == 1
		say := func(what string) {
			mu.Lock()
			defer mu.Unlock()
			if first {
				reached = append(reached, what)
			}
		}
		env.Go(func() {
			time.Sleep(10 * time.Second)
			env.Log(ctx, history.Log{Message: "still here"})
			env.Gap("of a dead process")
			say("sleeper awake")
			_, _ = env.Do(ctx, request(env, schedule.Delete, "a"))
			say("sleeper done")
		})
		env.Go(func() {
			<-ctx.Done()
			env.Fail(errors.New("failed after its death"))
			panic("panicked after its death")
		})
		for range 3 {
			env.Go(func() {
				_, _ = env.Do(ctx, request(env, schedule.Get, "b"))
				say("reader done")
			})
		}
		informer, err := env.Informer(ctx, env.Kinds().ByName("ConfigMap"), "", cache.Selector{})
		if err != nil {
			return err
		}
		_, err = informer.AddHandler(ctx, "handler", func(d cache.Delta) {
			_, _ = env.Do(ctx, request(env, schedule.Get, d.Object.GetName()+"-seen"))
			say("handler done")
		})
		if err == nil {
			<-ctx.Done()
			err = errors.New("stopped")
		}
		return err
	}
	for _, at := range []schedule.Event{named(schedule.Get, "b", 2), {Controller: "handler", Actor: "operator", Incarnation: 1,
		Verb: schedule.Get, Kind: "ConfigMap", Namespace: "default", Name: "a-seen", Occurrence: 1}} {
		t.Run(at.String(), func(t *testing.T) {
			reached = nil
			config := programConfig(program, configMap("a"))
			crashing(config, sim.Restart{After: time.Second})
			h := run(t, config, sim.Plan{Faults: []schedule.Fault{fault(schedule.Crash, at)}})
			expectRestart(t, h, time.Second)
			if !slices.Equal(reached, []string{"sleeper awake"}) &&
				!slices.Equal(reached, []string{"reader done", "reader done", "reader done", "sleeper awake"}) {
				t.Errorf("the dead process did %q, want that only its sleep ends", reached)
			}
			if len(h.Logs) != 1 || h.Logs[0].At < 11*time.Second || len(h.Gaps) != 1 {
				t.Errorf("the logs are %+v, the gaps %q; want those of the living process", h.Logs, h.Gaps)
			}
		})
	}
}

// TestCrashLeavesGoroutines checks that goroutines which wait for one that died in a call keep the run from nothing, and are not
// described: what that costs grows with every run that leaves some.
func TestCrashLeavesGoroutines(t *testing.T) {
	config := programConfig(func(ctx context.Context, env *sim.Env) error {
		done := make(chan error)
		env.Go(func() {
			_, err := env.Do(ctx, request(env, schedule.Get, "a"))
			done <- err
		})
		return <-done
	}, configMap("a"))
	crashing(config, sim.Restart{After: time.Second})
	h := run(t, config, sim.Plan{Faults: []schedule.Fault{fault(schedule.Crash, named(schedule.Get, "a", 1))}})
	expectTrail(t, h, "Get a #1 -1 Crash", "[2] Get a #1 200")
	want := []string{"goroutines that may wait for those of a process which died have not ended"}
	if h.Outcome != history.Terminal || !slices.Equal(h.Unfinished, want) {
		t.Errorf("the run ended %s (%s), unfinished are %q", h.Outcome, h.Reason, h.Unfinished)
	}
}

// TestUpgrade checks that another program can start in the place of one that dies, that it stays, and what happens if there is
// none of its name.
func TestUpgrade(t *testing.T) {
	config := newConfig(setOnce("old"), configMap("a"), configMap("b"))
	config.Processes[0].Upgrades = map[string]sim.Program{"new": program(setOnce("new"))}
	crashing(config, sim.Restart{Reconciler: "new"})
	again := inPass(schedule.Update, "b", 1)
	again.Incarnation = 2
	plan := sim.Plan{Faults: []schedule.Fault{
		fault(schedule.Upgrade, inPass(schedule.Update, "b", 1)), fault(schedule.Upgrade, again),
	}}
	h := run(t, config, plan)
	if value(h) != "new" || len(h.Faults) != 2 || !h.Faults[0].Struck || !h.Faults[1].Struck {
		t.Errorf("the last value written is %q, and the faults came to %+v", value(h), h.Faults)
	}
	if last := h.Records[len(h.Records)-1].Event; last.Incarnation != 3 {
		t.Errorf("the last event is %s, want one of the third start", last)
	}
	crashing(config, sim.Restart{Reconciler: "newer"})
	world, err := sim.NewWorld(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := world.Run(plan); err == nil || !strings.Contains(err.Error(), `process "operator": cannot be upgraded to "newer"`) {
		t.Errorf("the run with an unknown upgrade came to %v", err)
	}
}

// TestCrashForGood checks that a process that does not start again leaves a run that comes to rest.
func TestCrashForGood(t *testing.T) {
	config := newConfig(setOnce("x"), configMap("a"))
	crashing(config, sim.Restart{After: sim.Forever})
	plan := sim.Plan{Faults: []schedule.Fault{fault(schedule.Crash, inPass(schedule.Update, "a", 1))}}
	h := run(t, config, plan)
	expectTrail(t, h, "Get a #1 200", "Update a #1 -1 Crash")
	if h.Outcome != history.Terminal || h.End > time.Hour {
		t.Errorf("the run ended %s after %s", h.Outcome, h.End)
	}
	config.Faults.HealAfter = time.Hour
	h = run(t, config, plan)
	expectTrail(t, h, "Get a #1 200", "Update a #1 -1 Crash", "[2] Get a #1 200", "[2] Update a #1 200 committed",
		"[2] Get a #2 200")
	if at := requests(h)[2].At; !about(at, time.Hour) {
		t.Errorf("the process is back after %s, want it back when the faults heal", at)
	}
}

// TestCrashBesideOthers checks that the other processes and the racers live on.
func TestCrashBesideOthers(t *testing.T) {
	config := newConfig(setOnce("x"), configMap("a"))
	config.Processes = append(config.Processes, sim.Process{Name: "other", Program: start(
		func(ctx context.Context, env *sim.Env) error {
			informer, err := env.Informer(ctx, env.Kinds().ByName("ConfigMap"), "", cache.Selector{})
			if err != nil {
				return err
			}
			_, err = informer.AddHandler(ctx, "handler", func(d cache.Delta) {
				if d.Type == apiserver.Modified {
					_, _ = env.Do(ctx, request(env, schedule.Get, "seen-"+d.Object.GetResourceVersion()))
				}
			})
			return err
		})})
	config.Racers = []sim.RacerConfig{{Name: "racer", New: func() sim.Racer {
		return &caller{at: time.Minute, verbs: []schedule.Verb{schedule.Patch}}
	}}}
	crashing(config, sim.Restart{After: 5 * time.Minute})
	h := run(t, config, sim.Plan{Faults: []schedule.Fault{fault(schedule.LostResponse, inPass(schedule.Update, "a", 1))}})
	seen := 0
	for _, r := range requests(h) {
		if r.Event.Actor == "other" {
			seen++
		}
	}
	if seen != 2 {
		t.Errorf("the other process has seen %d changes, want 2: %q", seen, trail(h))
	}
	expectRestart(t, h, 5*time.Minute)
}

// everyReactor is one of each thing that a reactor may do, under the name of some fault.
var everyReactor = map[schedule.FaultType]func() sim.Reactor{
	schedule.Crash: func() sim.Reactor {
		return hooks{before: func(d *sim.Door) { d.Crash(sim.Restart{After: time.Second}) }}
	},
	schedule.LostResponse: func() sim.Reactor {
		return hooks{after: func(d *sim.Door) { d.Crash(sim.Restart{After: time.Second}) }}
	},
	schedule.InternalError: func() sim.Reactor { return hooks{after: func(d *sim.Door) { d.Break(io.EOF) }} },
	schedule.Forbidden:     answering(conflict(0)),
	schedule.AppliedTwice: func() sim.Reactor {
		return hooks{after: func(d *sim.Door) { d.Answer(&apiserver.Response{Err: unavailable(1)}) }}
	},
	schedule.Delay: func() sim.Reactor { return holder{hold: time.Second} },
	schedule.Timeout: func() sim.Reactor {
		return hooks{after: func(d *sim.Door) { d.DelayResponse(7 * time.Second) }}
	},
}

// TestDeterminismOfFaults strikes with every fault at every request of operators, twice each, with one and with two
// processors: the histories must be the same, and every fault must strike. No goroutine may be left over, but of operators
// whose passes wait for what goroutines send that die in a call: nobody honours a context there.
func TestDeterminismOfFaults(t *testing.T) {
	for name, config := range map[string]*sim.Config{"fan-out": fanOut(), "alike": alike(), "sleepers": sleepers()} {
		t.Run(name, func(t *testing.T) {
			strikes(config, everyReactor)
			config.Faults.Rules = []sim.FaultRule{{Name: "all", Faults: []schedule.Fault{{Type: schedule.Crash}}}}
			sites := requests(run(t, config, sim.Plan{}))
			n := 0
			for i, site := range sites {
				if site.Event.Incarnation == 0 {
					continue
				}
				for j, kind := range schedule.FaultTypes() {
					if everyReactor[kind] == nil || !kind.Strikes(site.Event) || (i+j)%2 != 0 {
						continue
					}
					n++
					h := repeatable(t, config, sim.Plan{Faults: []schedule.Fault{fault(kind, site.Event)}})
					if len(h.Unfinished) > 0 && name == "sleepers" {
						t.Errorf("%s: left over: %q", h.Faults[0], h.Unfinished)
					}
				}
			}
			if n < 10 {
				t.Errorf("there were only %d faults", n)
			}
		})
	}
}

// repeatable executes a plan of one fault with one and with two processors.
func repeatable(t *testing.T, config *sim.Config, plan sim.Plan) *history.History {
	t.Helper()
	world, err := sim.NewWorld(config)
	if err != nil {
		t.Fatal(err)
	}
	var first *history.History
	for _, processors := range []int{1, 1, 2} {
		var h *history.History
		onProcessors(processors, func() { h, err = world.Run(plan) })
		switch {
		case err != nil:
			t.Fatalf("%s: %v", plan.Faults[0], err)
		case first == nil:
			first = h
		case h.Hash != first.Hash:
			t.Errorf("%s: %s", plan.Faults[0], difference(first, h))
		}
	}
	if !first.Faults[0].Struck {
		t.Errorf("%s has not struck", plan.Faults[0])
	}
	if first.Outcome != history.Terminal {
		t.Errorf("%s: the run ended %s (%s)", plan.Faults[0], first.Outcome, first.Reason)
	}
	return first
}

// difference returns the first steps in which two histories differ.
func difference(a, b *history.History) string {
	for i := range min(len(a.Records), len(b.Records)) {
		if x, y := a.Records[i], b.Records[i]; x.Event != y.Event || x.At != y.At || x.Code != y.Code {
			return fmt.Sprintf("step %d: %s %s %d, and %s %s %d", i, x.At, x.Event, x.Code, y.At, y.Event, y.Code)
		}
	}
	return fmt.Sprintf("%d and %d steps", len(a.Records), len(b.Records))
}
