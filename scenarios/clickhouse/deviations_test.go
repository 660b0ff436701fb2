package clickhouse

import (
	"slices"
	"testing"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// sameEvents reports whether two runs took the same steps in the same order.
func sameEvents(a, b *history.History) bool {
	return slices.EqualFunc(a.Records, b.Records, func(a, b history.Record) bool { return a.Event == b.Event })
}

// reread returns an event as it comes back from a file.
func reread(t *testing.T, e schedule.Event) schedule.Event {
	t.Helper()
	again, err := schedule.ParseEvent(e.String())
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// rereadTrace returns a trace as it comes back from a file.
func rereadTrace(t *testing.T, trace *schedule.Trace) *schedule.Trace {
	t.Helper()
	again := &schedule.Trace{Ties: trace.Ties}
	for _, e := range trace.Steps {
		again.Steps = append(again.Steps, reread(t, e))
	}
	for _, l := range trace.Latencies {
		l.At = reread(t, l.At)
		again.Latencies = append(again.Latencies, l)
	}
	for _, o := range trace.Orders {
		o.At = reread(t, o.At)
		again.Orders = append(again.Orders, o)
	}
	return again
}

// TestReplayOfWalks replays random walks: from their traces exactly, and by constraints and latencies against the default
// order with the same steps in at least 95 of 100 runs.
func TestReplayOfWalks(t *testing.T) {
	const seeds = 50
	for _, file := range scenarioFiles {
		world := newWorld(t, file, variants[0].name)
		reproduced, byConstraints, size := 0, 0, 0
		for seed := range int64(seeds) {
			h := run(t, world, sim.Plan{Seed: seed, Strategy: explore.NewWalk(seed), Record: true})
			exact := sim.NewTraceStrategy(rereadTrace(t, h.Trace))
			if again := run(t, world, sim.Plan{Strategy: exact}); again.Hash != h.Hash || exact.Diverged() != "" {
				t.Errorf("%s, seed %d: the trace gives hash %x, want %x; diverged: %q", file, seed, again.Hash, h.Hash, exact.Diverged())
			}
			var constraints []schedule.Constraint
			for _, c := range h.Deviations {
				constraints = append(constraints, schedule.Constraint{Event: reread(t, c.Event), Waits: reread(t, c.Waits)})
			}
			size += len(constraints) + len(h.Lateness)
			plan := sim.Plan{Constraints: constraints}
			if sameEvents(h, run(t, world, plan)) {
				byConstraints++
			}
			plan.Latencies, plan.Orders = h.Lateness, h.Trace.Orders
			if sameEvents(h, run(t, world, plan)) {
				reproduced++
			}
		}
		t.Logf("%s: of %d walks, %d are replayed by constraints and latencies, %d by constraints alone; on average %d elements",
			file, seeds, reproduced, byConstraints, size/seeds)
		if reproduced*100 < seeds*95 {
			t.Errorf("%s: %d of %d walks are replayed by constraints and latencies, want 95 %%", file, reproduced, seeds)
		}
	}
}

// TestBetween checks an order as a person writes it: that the annotator writes between the operator's Get of the set and the
// Update that rests on it.
func TestBetween(t *testing.T) {
	between := func(first schedule.Verb) schedule.Constraint {
		return schedule.Constraint{Order: &schedule.Order{
			Hold: schedule.Selector{Actor: "operator", Verbs: []schedule.Verb{schedule.Update}, Kind: "StatefulSet", Name: "chi-a-0-0",
				Occurrence: 1},
			From: first,
			Until: schedule.Selector{Actor: "annotator", Verbs: []schedule.Verb{schedule.Update}, Kind: "StatefulSet",
				Name: "chi-a-0-0"},
		}}
	}
	world := newWorld(t, "recreate-scaled.yaml", variants[0].name)
	h := run(t, world, sim.Plan{Constraints: []schedule.Constraint{between(schedule.Get)}})
	c := h.Constraints[0]
	if !c.Held || !c.Matched || c.Order == nil || c.Waits.Actor != "annotator" {
		t.Fatalf("the constraint came to %+v", c)
	}
	i := slices.IndexFunc(h.Records, func(r history.Record) bool { return r.Event == c.Event })
	j := slices.IndexFunc(h.Records, func(r history.Record) bool { return r.Event == c.Waits })
	update := h.Records[i]
	if j > i || update.ReadsFrom > j || h.Records[update.ReadsFrom].Event.Verb != schedule.Get || update.Code != 409 {
		t.Errorf("record %d, %s, rests on record %d and is answered %d; the annotator's is %d", i, c.Event, update.ReadsFrom,
			update.Code, j)
	}
	named := run(t, world, sim.Plan{Constraints: []schedule.Constraint{{Event: c.Event, Waits: c.Waits}}})
	if named.Hash != h.Hash {
		t.Errorf("the names that the order found give hash %x, want %x", named.Hash, h.Hash)
	}
	h = run(t, world, sim.Plan{Constraints: []schedule.Constraint{between(schedule.CachedGet)}})
	if c := h.Constraints[0]; c.Held || c.Matched || c.Event != (schedule.Event{}) {
		t.Errorf("an operator without a cache has no such pair, but the constraint came to %+v", c)
	}
}
