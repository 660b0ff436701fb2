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

// kept returns the steps of the script that are not left out.
func (e elements) kept(steps int) []int { return without(steps, e.skip) }

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

// deleted returns a copy of a list without its i-th element.
func deleted[T any](list []T, i int) []T { return slices.Delete(slices.Clone(list), i, i+1) }
