package sim

import (
	"slices"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// permutations put what has no order of its own, an initial list or a list from a cache, into one.
type permutations struct {
	planned map[comingUp][]int
	times   map[schedule.Event]int // how often there was something to put in order, by event
	latest  permutation
}

// permutation is the order that was wanted for n items in some step.
type permutation struct {
	step  int
	event schedule.Event
	n     int
	order []int
}

func newPermutations(list []schedule.Permutation) permutations {
	p := permutations{planned: map[comingUp][]int{}, times: map[schedule.Event]int{}}
	for _, planned := range list {
		p.planned[comingUp{planned.At, planned.Repeat}] = planned.Order
	}
	return p
}

// permuted puts items into the order that the plan says or the strategy wants.
func permuted[T any](e *engine, event schedule.Event, items []T) []T {
	if e.plan.Strategy == nil && len(e.plan.Orders) == 0 || !e.scripted || len(items) < 2 {
		return items
	}
	order := e.permutation(event, len(items))
	if order == nil {
		return items
	}
	shuffled := make([]T, len(items))
	for i, from := range order {
		shuffled[i] = items[from]
	}
	return shuffled
}

// permutation finds an order, once for all who read the same in one step: which of them is first is chance.
func (e *engine) permutation(event schedule.Event, n int) []int {
	if last := &e.permutations.latest; last.step != e.steps || last.event != event || last.n != n {
		*last = permutation{e.steps, event, n, e.newPermutation(event, n)}
	}
	return e.permutations.latest.order
}

// newPermutation returns the order that the plan says or, where it says nothing, that the strategy wants; nil for that of the
// keys.
func (e *engine) newPermutation(event schedule.Event, n int) []int {
	at := comingUp{event, e.permutations.times[event]}
	e.permutations.times[event]++
	order, planned := e.permutations.planned[at]
	if !planned && e.plan.Strategy != nil {
		order = e.strategyOrder(at, n)
	}
	if !fits(order, n) { // there are more items now, or fewer
		return nil
	}
	if e.trace != nil && !planned && !slices.IsSorted(order) {
		e.trace.Orders = append(e.trace.Orders, schedule.Permutation{At: event, Repeat: at.nth, Order: slices.Clone(order)})
	}
	return order
}

// strategyOrder asks the strategy: one that follows a trace by the full name.
func (e *engine) strategyOrder(at comingUp, n int) []int {
	if f, ok := e.plan.Strategy.(follower); ok {
		return f.orderOf(at)
	}
	return e.plan.Strategy.Permute(at.name, n)
}

// fits reports whether an order is one of n items.
func fits(order []int, n int) bool {
	if len(order) != n {
		return false
	}
	seen := make([]bool, n)
	for _, i := range order {
		if i < 0 || i >= n || seen[i] {
			return false
		}
		seen[i] = true
	}
	return true
}
