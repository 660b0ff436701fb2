package shrink

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// elements are what may be taken out of a schedule, and the steps of the script that already are. They share no memory that
// is written to.
type elements struct {
	constraints []schedule.Constraint
	faults      []schedule.Fault
	latencies   []schedule.Latency
	orders      []schedule.Permutation
	skip        []int
}

// key tells elements apart.
func (e elements) key() string {
	var b strings.Builder
	for _, c := range e.constraints {
		fmt.Fprintf(&b, "constraint %s\n", c)
	}
	for _, f := range e.faults {
		fmt.Fprintf(&b, "fault %s\n", f)
	}
	for _, l := range e.latencies {
		fmt.Fprintf(&b, "latency %s %d %s\n", l.At, l.Repeat, l.For)
	}
	for _, o := range e.orders {
		fmt.Fprintf(&b, "order %s %d %d\n", o.At, o.Repeat, o.Order)
	}
	for _, step := range e.skip {
		fmt.Fprintf(&b, "skip %d\n", step)
	}
	return b.String()
}

// kind is one kind of elements.
type kind struct {
	n int // how many there are
	// only returns all elements of other kinds, and of this one those with these indices.
	only func(indices []int) elements
}

// kinds returns the kinds of elements, those first that are usually the least needed or decide the most about the others; steps
// is the number of steps of the script.
func (e elements) kinds(steps int) []kind {
	kept := without(steps, e.skip)
	return []kind{
		{len(e.faults), func(indices []int) elements { return e.withFaults(pick(e.faults, indices)) }},
		{len(kept), func(indices []int) elements { return e.withSkip(without(steps, pick(kept, indices))) }},
		{len(e.latencies), func(indices []int) elements { return e.withLatencies(pick(e.latencies, indices)) }},
		{len(e.orders), func(indices []int) elements { return e.withOrders(pick(e.orders, indices)) }},
		{len(e.constraints), func(indices []int) elements { return e.withConstraints(pick(e.constraints, indices)) }},
	}
}

func (e elements) withConstraints(list []schedule.Constraint) elements {
	e.constraints = list
	return e
}

func (e elements) withFaults(list []schedule.Fault) elements {
	e.faults = list
	return e
}

func (e elements) withLatencies(list []schedule.Latency) elements {
	e.latencies = list
	return e
}

func (e elements) withOrders(list []schedule.Permutation) elements {
	e.orders = list
	return e
}

func (e elements) withSkip(list []int) elements {
	e.skip = list
	return e
}

// pick returns the items of a list with these indices.
func pick[T any](list []T, indices []int) []T {
	picked := make([]T, len(indices))
	for i, index := range indices {
		picked[i] = list[index]
	}
	return picked
}

// without returns the numbers from 0 to n-1 that are not in a list.
func without(n int, list []int) []int {
	var others []int
	for i := range n {
		if !slices.Contains(list, i) {
			others = append(others, i)
		}
	}
	return others
}

// replaced returns a copy of a list with another i-th element.
func replaced[T any](list []T, i int, element T) []T {
	copied := slices.Clone(list)
	copied[i] = element
	return copied
}

// deleted returns a copy of a list without its i-th element.
func deleted[T any](list []T, i int) []T { return slices.Delete(slices.Clone(list), i, i+1) }
