// Package shrink makes a failing schedule small: it takes constraints, faults, latencies, orders of lists and steps of the
// script out as long as the run fails in the same way, until none can be taken out any more.
package shrink

import (
	"cmp"
	"slices"
	"time"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// DefaultExecutions is the number of runs that shrinking one schedule may take, unless told otherwise.
const DefaultExecutions = 500

// Options bound the shrinking.
type Options struct {
	// Executions bounds the number of runs; DefaultExecutions if zero.
	Executions int
	// Steps is the number of steps of the scenario's script, which are taken out, too.
	Steps int
}

// Result is what a schedule was shrunk to.
type Result struct {
	// Schedule is the schedule with fewer elements. Its Origin says how it was shrunk; it has no trace.
	Schedule *schedule.Schedule
	// Run is the run under it.
	Run *history.History
	// Executions is the number of runs it took.
	Executions int
	// Minimal says that every element that is left was taken out once, and is needed.
	Minimal bool
}

// Runner executes a plan.
type Runner func(sim.Plan) (*history.History, error)

// Shrink makes a schedule small whose run fails, as long as its runs fail in the same way. In this order: faults and steps of
// the script, latencies, orders of lists, and constraints are taken out; constraints move to steps that conflict, or become
// latencies if they were held in vain, and spans move to their defaults; and at last every element that is left is taken out
// once more, which proves that none can be. No plan is executed twice. The error is the runner's.
func Shrink(s *schedule.Schedule, failing *history.History, run Runner, same func(*history.History) bool, o Options,
) (*Result, error) {
	x := &shrinker{
		run: run, same: same, seed: s.Origin.Seed, budget: cmp.Or(o.Executions, DefaultExecutions),
		tried:   map[string]*history.History{},
		current: elements{s.Constraints, s.Faults, s.Latencies, s.Orders, s.Skip}, failing: failing,
	}
	x.tried[x.current.key()] = failing
	x.takeOut(o.Steps)
	for x.joinTwo() {
	}
	for i := range x.current.constraints {
		x.moveToConflict(i)
	}
	x.lateForVain()
	x.simplifySpans()
	minimal := x.proveMinimal(o.Steps)
	if x.err != nil {
		return nil, x.err
	}
	small := *s
	small.Constraints, small.Faults = x.current.constraints, x.current.faults
	small.Latencies, small.Orders, small.Skip = x.current.latencies, x.current.orders, x.current.skip
	small.Trace = nil
	small.Origin.Size = cmp.Or(s.Origin.Size, s.Size())
	small.Origin.Minimal, small.Origin.Executions = minimal, x.executions
	return &Result{Schedule: &small, Run: x.failing, Executions: x.executions, Minimal: minimal}, nil
}

// shrinker is one shrinking. Its current elements always are those of a run that fails in the same way.
type shrinker struct {
	run    Runner
	same   func(*history.History) bool
	seed   int64
	budget int
	// tried are the plans executed so far, with their runs; nil for those that did not fail in the same way.
	tried   map[string]*history.History
	current elements
	failing *history.History // the run of the current elements

	executions int
	spent      bool // something was not tried, for want of budget
	err        error
}

// try executes a plan of the elements, unless it was executed before, and keeps them if it fails in the same way.
func (x *shrinker) try(e elements) bool {
	key := e.key()
	failing, known := x.tried[key]
	switch {
	case known:
	case x.err != nil:
		return false
	case x.executions >= x.budget:
		x.spent = true
		return false
	default:
		failing = x.execute(e)
		x.tried[key] = failing
	}
	if failing == nil {
		return false
	}
	x.current, x.failing = e, failing
	return true
}

// execute runs the elements, and returns the run if it fails in the same way.
func (x *shrinker) execute(e elements) *history.History {
	x.executions++
	h, err := x.run(sim.Plan{Seed: x.seed, Constraints: e.constraints, Faults: e.faults, Latencies: e.latencies, Orders: e.orders,
		Skip: e.skip})
	if err != nil {
		x.err = err
		return nil
	}
	if !x.same(h) {
		return nil
	}
	return h
}

// takeOut takes out what can be, kind by kind.
func (x *shrinker) takeOut(steps int) {
	for i := range x.current.kinds(steps) {
		k := x.current.kinds(steps)[i]
		reduce(without(k.n, nil), func(kept []int) bool { return x.try(k.only(kept)) })
	}
}

// reduce finds a small part of the items that still fails; the whole does. It is delta debugging by prefixes: the shortest
// prefix that fails, found by halving, ends with an item that is needed. That one is kept, and what comes before it is
// reduced further. For k items out of n that takes k (log n + 1) runs. A prefix is tried rather than any half as its run is
// the failing run as far as its last item reaches: there the names of events are sure to be met again.
//
// Where taking an item out makes another one superfluous the result need not be minimal.
func reduce[T any](items []T, fails func([]T) bool) {
	var kept []T
	for len(items) > 0 && !fails(kept) {
		low, high := 0, len(items) // no failure with the items up to low, one with those up to high
		for high-low > 1 {
			if middle := (low + high) / 2; fails(slices.Concat(items[:middle], kept)) {
				high = middle
			} else {
				low = middle
			}
		}
		kept = slices.Concat(items[high-1:high], kept)
		items = items[:high-1]
	}
}

// joinTwo makes one constraint of two that are a chain: if a step waits for one of a thread that was held before that, it may
// as well wait for what that thread waited for.
func (x *shrinker) joinTwo() bool {
	records := x.failing.Records
	for i, first := range x.current.constraints {
		held := find(x.failing, first.Event)
		for j, second := range x.current.constraints {
			waits := find(x.failing, second.Waits)
			if i == j || held < 0 || waits < held || records[held].Thread != records[waits].Thread {
				continue
			}
			second.Waits = first.Waits
			if x.try(x.current.withConstraints(deleted(replaced(x.current.constraints, j, second), i))) {
				return true
			}
		}
	}
	return false
}

// moves is how many other places are tried for a constraint.
const moves = 4

// moveToConflict makes a constraint say what matters, if it does not: a step that it holds or waits for may just be next to
// one that does, on another object. One that a person wrote, by selectors, stays as it is.
func (x *shrinker) moveToConflict(i int) {
	c := x.current.constraints[i]
	if c.Order != nil {
		return
	}
	held, waits := find(x.failing, c.Event), find(x.failing, c.Waits)
	if held < 0 || waits < 0 || waits > held || history.Conflict(&x.failing.Records[waits], &x.failing.Records[held]) {
		return
	}
	for _, other := range conflicts(x.failing, held, waits) {
		if x.try(x.current.withConstraints(replaced(x.current.constraints, i, other))) {
			return
		}
	}
}

// conflicts returns constraints between steps that conflict, which may do in place of one between two that do not. Held is the
// same step, or a later one of its thread; it waits for the nearest that came before, or else for what the thread it waited
// for did next. Another actor's writes come first.
func conflicts(h *history.History, held, waits int) []schedule.Constraint {
	var others []schedule.Constraint
	for _, writes := range []bool{true, false} {
		for i := held; i < len(h.Records); i++ {
			first := &h.Records[i]
			if first.Thread != h.Records[held].Thread {
				continue
			}
			fits := func(second *history.Record) bool {
				write := second.Committed != 0 && second.Event.Actor != first.Event.Actor
				return write == writes && second.Thread != first.Thread && history.Conflict(second, first)
			}
			for _, j := range []int{before(h, waits, fits), next(h, waits, fits)} {
				if j >= 0 {
					others = append(others, schedule.Constraint{Event: first.Event, Waits: h.Records[j].Event})
				}
			}
			if len(others) >= moves {
				return others[:moves]
			}
		}
	}
	return others
}

// before returns the last record up to i that fits, -1 if none of the script does.
func before(h *history.History, i int, fits func(*history.Record) bool) int {
	for ; i >= h.ScriptBegins; i-- {
		if fits(&h.Records[i]) {
			return i
		}
	}
	return -1
}

// next returns the first record of the thread of i, and after i, that fits, -1 if none does.
func next(h *history.History, i int, fits func(*history.Record) bool) int {
	for j := i + 1; j < len(h.Records); j++ {
		if h.Records[j].Thread == h.Records[i].Thread && fits(&h.Records[j]) {
			return j
		}
	}
	return -1
}

// lateForVain writes a constraint whose step was held in vain as what that came to: a step that comes late. The step it waited
// for had no part in the run, and a schedule that names it would never be matched.
func (x *shrinker) lateForVain() {
	for i := 0; i < len(x.current.constraints); {
		c := x.current.constraints[i]
		if held := find(x.failing, c.Event); c.Order == nil && held >= 0 && HeldInVain(x.failing, c) {
			late := x.current.withConstraints(deleted(x.current.constraints, i))
			by := schedule.Latency{At: c.Event, For: x.failing.Records[held].Held}
			if x.try(late.withLatencies(append(slices.Clone(late.latencies), by))) {
				continue
			}
		}
		i++
	}
}

// HeldInVain reports whether a constraint of a run held its step for as long as it might, and what it waited for did not come.
func HeldInVain(h *history.History, c schedule.Constraint) bool {
	return slices.ContainsFunc(h.Constraints, func(r history.ConstraintResult) bool {
		return r.Constraint == c && r.Held && !r.Matched
	})
}

// roundSpans are the spans of latencies that are tried in place of those that a walk drew.
var roundSpans = []time.Duration{time.Second, 10 * time.Second, time.Minute}

// simplifySpans tries the default span for every fault, and a round one for every latency.
func (x *shrinker) simplifySpans() {
	for i, f := range x.current.faults {
		if f.For == 0 {
			continue
		}
		f.For = 0
		x.try(x.current.withFaults(replaced(x.current.faults, i, f)))
	}
	for i, l := range x.current.latencies {
		for _, span := range roundSpans {
			rounded := l
			rounded.For = span
			if rounded == l || x.try(x.current.withLatencies(replaced(x.current.latencies, i, rounded))) {
				break
			}
		}
	}
}

// proveMinimal takes every element out once, and reports whether none could be within the budget.
func (x *shrinker) proveMinimal(steps int) bool {
	for x.takeOutOne(steps) {
	}
	return !x.spent
}

// takeOutOne takes out the first element that can be.
func (x *shrinker) takeOutOne(steps int) bool {
	x.spent = false
	for _, k := range x.current.kinds(steps) {
		for i := range k.n {
			if x.try(k.only(without(k.n, []int{i}))) {
				return true
			}
		}
	}
	return false
}

// find returns the index of the first record of an event, -1 if there is none.
func find(h *history.History, event schedule.Event) int {
	return slices.IndexFunc(h.Records, func(r history.Record) bool { return r.Event == event })
}
