package sim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/cache"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// startsOf returns when the operator started, in whole seconds.
func startsOf(h *history.History) []int {
	var times []int
	for _, r := range h.Records {
		if r.Event.Verb == schedule.Start && r.Event.Actor == "operator" {
			times = append(times, int(r.At.Round(time.Second).Seconds()))
		}
	}
	return times
}

// reconcileOnce makes a pass that reads a ConfigMap.
func reconcileOnce(ctx context.Context, env *sim.Env) {
	ctx, done := env.Pass(ctx, "web", "default/a")
	_, err := env.Do(ctx, request(env, schedule.Get, "a"))
	done(err)
}

// endsAfter is a program that reads a ConfigMap, and ends after a while.
func endsAfter(d time.Duration) start {
	return func(ctx context.Context, env *sim.Env) error {
		reconcileOnce(ctx, env)
		time.Sleep(d)
		return errors.New("lease lost")
	}
}

// expectCrashLoop checks when the operator started, and that the run says so if it does not stay up.
func expectCrashLoop(t *testing.T, h *history.History, up bool, starts ...int) {
	t.Helper()
	if got := startsOf(h); !slices.Equal(got, starts) {
		t.Errorf("the process starts after %v seconds, want %v", got, starts)
	}
	if h.Outcome != history.Terminal {
		t.Errorf("the run ended %s (%s)", h.Outcome, h.Reason)
	}
	want := fmt.Sprintf("operator is in a crash loop: start %d ended with ", len(starts))
	if got := strings.Join(h.Unfinished, "\n"); up && got != "" || !up && !strings.HasPrefix(got, want) {
		t.Errorf("unfinished are %q", h.Unfinished)
	}
	ends := 0
	for _, line := range h.Logs {
		if line.Level == -1 && line.Actor == "operator" && strings.HasPrefix(line.Values[0], "error=") {
			ends++
		}
	}
	if ends == 0 {
		t.Errorf("the logs are %+v, want why the process ended", h.Logs)
	}
}

// TestCrashLoop checks that a program which ends with an error is started again as by the kubelet, and for how long a run goes
// on for one that does so for ever: a horizon, in which it has ended twice and more.
func TestCrashLoop(t *testing.T) {
	never := endsAfter(0)
	atLast := func(ctx context.Context, env *sim.Env) error {
		if env.Incarnation() < 4 {
			return never(ctx, env)
		}
		_, err := env.Do(ctx, request(env, schedule.Update, "a"))
		return err
	}
	for _, test := range []struct {
		name    string
		program start
		commit  time.Duration // when a racer commits something, if it does
		up      bool
		starts  []int
	}{
		{"doubled", never, 0, false, []int{0, 10, 30, 70, 150, 310}},
		{"up to five minutes", never, 1000 * time.Second, false, []int{0, 10, 30, 70, 150, 310, 610, 910, 1210, 1510, 1810, 2110, 2410, 2710}},
		{"as at first after a long life", endsAfter(11 * time.Minute), 9 * time.Minute, true, []int{0, 670, 1340}},
		{"until it stays up", atLast, 0, true, []int{0, 10, 30, 70}},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := programConfig(test.program, configMap("a"))
			if test.commit > 0 {
				config.Racers = []sim.RacerConfig{{Name: "racer", New: func() sim.Racer {
					return &caller{at: test.commit, verbs: []schedule.Verb{schedule.Patch}}
				}}}
			}
			expectCrashLoop(t, run(t, config, sim.Plan{}), test.up, test.starts...)
		})
	}
}

// TestCrashLoopOfLaterStarts checks that a program which does not come up after a crash, or an upgrade, is a history.
func TestCrashLoopOfLaterStarts(t *testing.T) {
	fails := start(func(context.Context, *sim.Env) error { return errors.New("no CRD") })
	config := programConfig(func(ctx context.Context, env *sim.Env) error {
		if n := env.Incarnation(); n == 2 || n == 3 {
			return fails(ctx, env)
		}
		_, err := env.Do(ctx, request(env, schedule.Get, "a"))
		return err
	}, configMap("a"))
	plan := sim.Plan{Faults: []schedule.Fault{fault(schedule.Crash, named(schedule.Get, "a", 1))}}
	crashing(config, sim.Restart{After: time.Second})
	expectCrashLoop(t, run(t, config, plan), true, 0, 1, 11, 31)
	config.Processes[0].Upgrades = map[string]sim.Program{"new": fails}
	crashing(config, sim.Restart{After: time.Second, Reconciler: "new"})
	expectCrashLoop(t, run(t, config, plan), false, 0, 1, 11, 31, 71, 151, 311)
}

// TestHeldStart checks that a program which gives up as its first start is held for too long is a history, too, and that the
// set-up is to blame all the same where it fails in the default order.
func TestHeldStart(t *testing.T) {
	ready := true
	config := programConfig(func(ctx context.Context, env *sim.Env) error {
		if !ready {
			return errors.New("no POD_NAMESPACE")
		}
		synced, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		if _, err := env.Informer(synced, env.Kinds().ByName("ConfigMap"), "", cache.Selector{}); err != nil {
			return err
		}
		reconcileOnce(ctx, env)
		<-ctx.Done()
		return ctx.Err()
	}, configMap("a"))
	world, err := sim.NewWorld(config)
	if err != nil {
		t.Fatal(err)
	}
	synced := schedule.Event{Actor: "operator", Incarnation: 1, Verb: schedule.Sync, Kind: "ConfigMap", Occurrence: 1}
	plan := sim.Plan{Constraints: []schedule.Constraint{{Event: synced, Waits: named(schedule.Delete, "a", 1)}}}
	h, err := world.Run(plan)
	if err != nil {
		t.Fatal(err)
	}
	expectCrashLoop(t, h, true, 0, 70)
	ready = false
	if _, err := world.Run(plan); err == nil || err.Error() != `process "operator" does not start: no POD_NAMESPACE` {
		t.Errorf("error is %v, want the set-up's", err)
	}
}
