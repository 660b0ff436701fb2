package shrink_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
	"github.com/stalemate-dev/stalemate/sim/shrink"
)

// A model stands in for a scenario: its runs fail by what the plan has. It counts them, and refuses to run a plan twice.
type model struct {
	t interface {
		Helper()
		Errorf(format string, args ...any)
	}
	fails func(sim.Plan) bool
	// records are those of every run.
	records    []history.Record
	executions int
	seen       map[string]bool
}

func (m *model) run(plan sim.Plan) (*history.History, error) {
	m.t.Helper()
	m.executions++
	key := fmt.Sprint(plan.Constraints, plan.Faults, plan.Latencies, plan.Orders, plan.Skip)
	if m.seen == nil {
		m.seen = map[string]bool{}
	}
	if m.seen[key] {
		m.t.Errorf("a plan is executed twice: %s", key)
	}
	m.seen[key] = true
	return m.history(m.fails(plan)), nil
}

func (m *model) history(failed bool) *history.History {
	h := &history.History{Records: m.records, Outcome: history.Terminal}
	if failed {
		h.Outcome = history.Panicked
	}
	return h
}

func event(actor string, n int) schedule.Event {
	return schedule.Event{Actor: actor, Verb: schedule.Update, Kind: "ConfigMap", Name: actor, Occurrence: n}
}

// constraints, faults and latencies are elements with numbers.
func constraints(numbers ...int) []schedule.Constraint {
	var all []schedule.Constraint
	for _, n := range numbers {
		all = append(all, schedule.Constraint{Event: event("held", n), Waits: event("other", n)})
	}
	return all
}

func faults(numbers ...int) []schedule.Fault {
	var all []schedule.Fault
	for _, n := range numbers {
		all = append(all, schedule.Fault{Type: schedule.Crash, At: event("op", n)})
	}
	return all
}

func latencies(numbers ...int) []schedule.Latency {
	var all []schedule.Latency
	for _, n := range numbers {
		all = append(all, schedule.Latency{At: event("late", n), For: time.Second})
	}
	return all
}

func orders(numbers ...int) []schedule.Permutation {
	var all []schedule.Permutation
	for _, n := range numbers {
		all = append(all, schedule.Permutation{At: event("list", 0), Repeat: n, Order: []int{1, 0}})
	}
	return all
}

func upTo(n int) []int {
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	return numbers
}

// has reports whether a plan has all elements that are needed.
func has(plan sim.Plan, needed *schedule.Schedule) bool {
	return contains(plan.Constraints, needed.Constraints) && contains(plan.Faults, needed.Faults) &&
		contains(plan.Latencies, needed.Latencies) && contains(repeats(plan.Orders), repeats(needed.Orders)) &&
		!slices.ContainsFunc(plan.Skip, func(step int) bool { return !slices.Contains(needed.Skip, step) })
}

func repeats(orders []schedule.Permutation) []int {
	var numbers []int
	for _, o := range orders {
		numbers = append(numbers, o.Repeat)
	}
	return numbers
}

func contains[T comparable](list, all []T) bool {
	return !slices.ContainsFunc(all, func(item T) bool { return !slices.Contains(list, item) })
}

func mustShrink(t *testing.T, s *schedule.Schedule, m *model, o shrink.Options) *shrink.Result {
	t.Helper()
	result, err := shrink.Shrink(s, m.history(true), m.run, (*history.History).Failed, o)
	if err != nil {
		t.Fatal(err)
	}
	if result.Executions != m.executions || result.Schedule.Origin.Executions != m.executions {
		t.Errorf("executions are %d and %d, want %d", result.Executions, result.Schedule.Origin.Executions, m.executions)
	}
	if !result.Run.Failed() {
		t.Error("the run of the result does not fail")
	}
	return result
}

func TestShrink(t *testing.T) {
	full := schedule.Schedule{Constraints: constraints(upTo(76)...), Faults: faults(upTo(4)...), Latencies: latencies(upTo(10)...),
		Orders: orders(upTo(10)...)}
	tests := []struct {
		name   string
		needed schedule.Schedule // Skip: what may be skipped
		most   int               // executions
	}{
		{"nothing", schedule.Schedule{}, 4},
		{"one order of a list", schedule.Schedule{Orders: orders(4)}, 12},
		{"one fault", schedule.Schedule{Faults: faults(2)}, 8},
		{"one constraint", schedule.Schedule{Constraints: constraints(40)}, 14},
		{"the last constraint", schedule.Schedule{Constraints: constraints(75)}, 14},
		{"one latency", schedule.Schedule{Latencies: latencies(9)}, 12},
		{"a constraint and a fault", schedule.Schedule{Constraints: constraints(7), Faults: faults(0)}, 20},
		{"two constraints", schedule.Schedule{Constraints: constraints(3, 70)}, 22},
		{"three constraints", schedule.Schedule{Constraints: constraints(3, 4, 5)}, 30},
		{"a step of the script", schedule.Schedule{Constraints: constraints(5), Skip: []int{0, 2}}, 22},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := &model{t: t, fails: func(p sim.Plan) bool { return has(p, &test.needed) }}
			s, steps := full, 0
			if test.needed.Skip != nil {
				steps = 3
			}
			result := mustShrink(t, &s, m, shrink.Options{Steps: steps})
			got := result.Schedule
			if !slices.Equal(got.Constraints, test.needed.Constraints) || !slices.Equal(got.Faults, test.needed.Faults) ||
				!slices.Equal(got.Latencies, test.needed.Latencies) ||
				!slices.Equal(repeats(got.Orders), repeats(test.needed.Orders)) || !slices.Equal(got.Skip, test.needed.Skip) {
				t.Errorf("shrunk to %v %v %v, skipping %v", got.Constraints, got.Faults, got.Latencies, got.Skip)
			}
			if !result.Minimal || !got.Origin.Minimal || got.Origin.Size != 100 {
				t.Errorf("minimal is %v, origin %+v; want minimal, from 100", result.Minimal, got.Origin)
			}
			if result.Executions > test.most {
				t.Errorf("%d executions, want at most %d", result.Executions, test.most)
			}
		})
	}
	if len(full.Constraints) != 76 || full.Constraints[3] != constraints(3)[0] || full.Faults[1] != faults(1)[0] {
		t.Error("shrinking changed the schedule it was given")
	}
}

// TestShrinkAlternatives checks that the result is minimal where elements stand in for each other, and where taking one out
// makes another superfluous.
func TestShrinkAlternatives(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		element := rapid.IntRange(0, 29)
		causes := rapid.SliceOfN(rapid.SliceOfNDistinct(element, 1, 4, rapid.ID[int]), 1, 4).Draw(t, "causes")
		spoils := rapid.SliceOfN(element, 0, 3).Draw(t, "spoils") // an even number of those present, or there is no failure
		present := func(p sim.Plan) []int {
			var numbers []int
			for _, f := range p.Faults {
				numbers = append(numbers, f.At.Occurrence)
			}
			for _, l := range p.Latencies {
				numbers = append(numbers, l.At.Occurrence)
			}
			for _, c := range p.Constraints {
				numbers = append(numbers, c.Event.Occurrence)
			}
			return numbers
		}
		fails := func(p sim.Plan) bool {
			numbers := present(p)
			spoiled := 0
			for _, n := range spoils {
				if slices.Contains(numbers, n) {
					spoiled++
				}
			}
			return spoiled%2 == 0 && slices.ContainsFunc(causes, func(cause []int) bool { return contains(numbers, cause) })
		}
		all := upTo(30)
		s := &schedule.Schedule{Faults: faults(all[:5]...), Latencies: latencies(all[5:10]...), Constraints: constraints(all[10:]...)}
		if !fails(sim.PlanOf(s)) {
			t.Skip("the whole does not fail")
		}
		m := &model{t: t, fails: fails}
		result, err := shrink.Shrink(s, m.history(true), m.run, (*history.History).Failed, shrink.Options{})
		if err != nil {
			t.Fatal(err)
		}
		small := result.Schedule
		if !fails(sim.PlanOf(small)) || !result.Minimal {
			t.Fatalf("%v fails: %v; minimal: %v", present(sim.PlanOf(small)), fails(sim.PlanOf(small)), result.Minimal)
		}
		for i := range small.Faults {
			one := *small
			one.Faults = slices.Delete(slices.Clone(small.Faults), i, i+1)
			checkNeeded(t, &one, fails)
		}
		for i := range small.Latencies {
			one := *small
			one.Latencies = slices.Delete(slices.Clone(small.Latencies), i, i+1)
			checkNeeded(t, &one, fails)
		}
		for i := range small.Constraints {
			one := *small
			one.Constraints = slices.Delete(slices.Clone(small.Constraints), i, i+1)
			checkNeeded(t, &one, fails)
		}
		if result.Executions > 200 {
			t.Errorf("%d executions", result.Executions)
		}
	})
}

func checkNeeded(t *rapid.T, without *schedule.Schedule, fails func(sim.Plan) bool) {
	if fails(sim.PlanOf(without)) {
		t.Errorf("still fails with one element less: %v %v %v", without.Faults, without.Latencies, without.Constraints)
	}
}

// TestShrinkBudget checks that a result is called minimal only if the budget sufficed to prove it.
func TestShrinkBudget(t *testing.T) {
	needed := &schedule.Schedule{Constraints: constraints(3, 30)}
	fails := func(p sim.Plan) bool { return has(p, needed) }
	minimal := false
	for budget := 1; budget <= 60; budget++ {
		m := &model{t: t, fails: fails}
		s := &schedule.Schedule{Constraints: constraints(upTo(40)...)}
		result := mustShrink(t, s, m, shrink.Options{Executions: budget})
		if result.Executions > budget {
			t.Errorf("%d executions, want at most %d", result.Executions, budget)
		}
		if result.Minimal && len(result.Schedule.Constraints) > 2 {
			t.Errorf("with %d executions, %d are left, and minimal is %v", budget, len(result.Schedule.Constraints), result.Minimal)
		}
		if minimal && !result.Minimal {
			t.Errorf("less was enough than %d executions", budget)
		}
		minimal = result.Minimal
	}
	if !minimal {
		t.Error("never minimal")
	}
}

// TestShrinkError checks that the runner's error ends it.
func TestShrinkError(t *testing.T) {
	broken := errors.New("broken")
	n := 0
	_, err := shrink.Shrink(&schedule.Schedule{Faults: faults(1, 2)}, &history.History{}, func(sim.Plan) (*history.History, error) {
		n++
		return nil, broken
	}, (*history.History).Failed, shrink.Options{})
	if !errors.Is(err, broken) || n != 1 {
		t.Errorf("error is %v after %d runs, want that of the first", err, n)
	}
}

// TestShrinkSpans checks that spans become their defaults, or round, where that fails, too.
func TestShrinkSpans(t *testing.T) {
	fault := schedule.Fault{Type: schedule.CacheLag, At: event("op", 1), Params: schedule.Params{For: 37 * time.Second}}
	late := schedule.Latency{At: event("late", 1), For: 4096 * time.Millisecond}
	for _, test := range []struct {
		name           string
		least          time.Duration // that a latency must have
		fault, latency time.Duration
		faultDefault   bool // the fault's default is enough
	}{
		{"short", 0, 0, time.Second, true},
		{"longer", 2 * time.Second, 37 * time.Second, 10 * time.Second, false},
	} {
		m := &model{t: t, fails: func(p sim.Plan) bool {
			return len(p.Faults) == 1 && (test.faultDefault || p.Faults[0].For > 0) &&
				len(p.Latencies) == 1 && p.Latencies[0].For >= test.least
		}}
		s := &schedule.Schedule{Faults: []schedule.Fault{fault}, Latencies: []schedule.Latency{late}}
		got := mustShrink(t, s, m, shrink.Options{}).Schedule
		if got.Faults[0].For != test.fault || got.Latencies[0].For != test.latency {
			t.Errorf("%s: spans are %s and %s, want %s and %s", test.name, got.Faults[0].For, got.Latencies[0].For, test.fault, test.latency)
		}
	}
}

// steps are the records of a run: each of a thread, by an actor on an object. Those of actor op are an operator's.
func steps(records ...history.Record) []history.Record {
	for i := range records {
		r := &records[i]
		r.Event.Verb, r.Event.Kind, r.Event.Namespace, r.Event.Occurrence = schedule.Update, "ConfigMap", "default", 1
		if r.Event.Actor == "op" {
			r.Event.Incarnation = 1
		}
		r.Committed = int64(i) + 1
	}
	return records
}

func record(thread int, actor, name string) history.Record {
	return history.Record{Thread: thread, Event: schedule.Event{Actor: actor, Name: name}}
}

// TestShrinkMoves checks that a constraint between bystanders is made to hold and to wait for what conflicts.
func TestShrinkMoves(t *testing.T) {
	records := steps(record(2, "racer", "a"), record(3, "bystander", "b"), record(5, "later", "c"), record(4, "op", "unrelated"),
		record(4, "op", "a"), record(5, "later", "a"))
	racer, bystander, first, unrelated, update := records[0].Event, records[1].Event, records[2].Event, records[3].Event, records[4].Event
	then := records[5].Event
	for _, test := range []struct{ start, want schedule.Constraint }{
		{schedule.Constraint{Event: update, Waits: bystander}, schedule.Constraint{Event: update, Waits: racer}},
		{schedule.Constraint{Event: unrelated, Waits: bystander}, schedule.Constraint{Event: update, Waits: racer}},
		{schedule.Constraint{Event: unrelated, Waits: racer}, schedule.Constraint{Event: update, Waits: racer}},
		{schedule.Constraint{Event: update, Waits: first}, schedule.Constraint{Event: update, Waits: then}},
		{schedule.Constraint{Event: update, Waits: racer}, schedule.Constraint{Event: update, Waits: racer}},
	} {
		m := &model{t: t, records: records, fails: func(p sim.Plan) bool {
			return len(p.Constraints) == 1 && (p.Constraints[0] == test.start || p.Constraints[0] == test.want)
		}}
		result := mustShrink(t, &schedule.Schedule{Constraints: []schedule.Constraint{test.start}}, m, shrink.Options{})
		if got := result.Schedule.Constraints; len(got) != 1 || got[0] != test.want || !result.Minimal {
			t.Errorf("%s becomes %v, minimal: %v; want %s", test.start, got, result.Minimal, test.want)
		}
	}
}

// TestShrinkJoins checks that a chain of constraints becomes one, where that will do.
func TestShrinkJoins(t *testing.T) {
	records := steps(record(4, "op", "a"), record(3, "between", "b"), record(3, "between", "c"), record(2, "racer", "a"))
	for i := range records[1:3] {
		records[1+i].Event.Occurrence = i + 1
	}
	first := schedule.Constraint{Event: records[1].Event, Waits: records[0].Event}
	second := schedule.Constraint{Event: records[3].Event, Waits: records[2].Event}
	joined := schedule.Constraint{Event: records[3].Event, Waits: records[0].Event}
	for _, sufficient := range []bool{true, false} {
		m := &model{t: t, records: records, fails: func(p sim.Plan) bool {
			return contains(p.Constraints, []schedule.Constraint{first, second}) ||
				sufficient && slices.Contains(p.Constraints, joined)
		}}
		want := []schedule.Constraint{first, second}
		if sufficient {
			want = []schedule.Constraint{joined}
		}
		result := mustShrink(t, &schedule.Schedule{Constraints: []schedule.Constraint{first, second}}, m, shrink.Options{})
		if got := result.Schedule.Constraints; !slices.Equal(got, want) || !result.Minimal {
			t.Errorf("a chain becomes %v, want %v", got, want)
		}
	}
}
