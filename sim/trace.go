package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Complete fills in what the text of an event leaves out: that a step of a process is one of its first start.
func (c *Config) Complete(event schedule.Event) schedule.Event {
	isProcess := func(p Process) bool { return p.Name == event.Actor }
	if event.Incarnation == 0 && slices.ContainsFunc(c.Processes, isProcess) {
		event.Incarnation = 1
	}
	return event
}

// complete returns the plan with complete names.
func (c *Config) complete(plan *Plan) *Plan {
	completed := *plan
	completed.Constraints = slices.Clone(plan.Constraints)
	for i := range completed.Constraints {
		if at := &completed.Constraints[i]; at.Order == nil {
			at.Event, at.Waits = c.Complete(at.Event), c.Complete(at.Waits)
		}
	}
	completed.Faults = slices.Clone(plan.Faults)
	for i := range completed.Faults {
		if at := &completed.Faults[i]; at.Select == nil {
			at.At = c.Complete(at.At)
		}
	}
	completed.Orders = slices.Clone(plan.Orders)
	for i := range completed.Orders {
		completed.Orders[i].At = c.Complete(completed.Orders[i].At)
	}
	completed.Latencies = slices.Clone(plan.Latencies)
	for i := range completed.Latencies {
		completed.Latencies[i].At = c.Complete(completed.Latencies[i].At)
	}
	return &completed
}

// recordStep adds the step that is about to be taken to the trace.
func (e *engine) recordStep(s stepper) {
	trace := e.trace
	if trace == nil || !e.scripted {
		return
	}
	name := e.name(s)
	trace.Steps = append(trace.Steps, name)
	tied := 0
	for _, other := range e.enabled {
		if other == s {
			break
		}
		if *other.base() == *s.base() && e.name(other) == name {
			tied++
		}
	}
	if tied > 0 {
		trace.Ties = append(trace.Ties, schedule.Tie{Step: len(trace.Steps) - 1, Index: tied})
	}
}

// orders are permutations by where they apply.
type orders map[comingUp][]int

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

func newOrders(list []schedule.Permutation) orders {
	o := orders{}
	for _, p := range list {
		o[comingUp{p.At, p.Repeat}] = p.Order
	}
	return o
}

// follower is a strategy that follows a trace: it is asked for every step, also where there is no choice, and for delays
// and orders by full names.
type follower interface {
	Strategy
	delayOf(at comingUp) time.Duration
	orderOf(at comingUp) []int
}

// TraceStrategy repeats a run from its trace, step by step. What else the run was made under, its constraints, faults and
// latencies, must be in the plan as it was. It serves one run.
type TraceStrategy struct {
	trace     *schedule.Trace
	next      int // the step to take, as an index
	diverged  string
	latencies map[comingUp]time.Duration
	orders    orders
	ties      map[int]int
}

var _ follower = (*TraceStrategy)(nil)

// NewTraceStrategy returns a strategy that repeats the run of a trace.
func NewTraceStrategy(t *schedule.Trace) *TraceStrategy {
	s := &TraceStrategy{trace: t, latencies: map[comingUp]time.Duration{}, orders: orders{}, ties: map[int]int{}}
	for _, late := range t.Latencies {
		s.latencies[comingUp{written(late.At), late.Repeat}] = late.For
	}
	for _, p := range t.Orders {
		s.orders[comingUp{written(p.At), p.Repeat}] = p.Order
	}
	for _, tie := range t.Ties {
		s.ties[tie.Step] = tie.Index
	}
	return s
}

// written returns an event as it comes back from its text, which leaves out the first start of a process.
func written(event schedule.Event) schedule.Event {
	if event.Incarnation == 1 {
		event.Incarnation = 0
	}
	return event
}

// Diverged says where the run went another way than the trace: "step 37: the trace has X, enabled are Y, Z". It is empty if
// the run is the same to its last step.
func (s *TraceStrategy) Diverged() string {
	if s.diverged == "" && s.next < len(s.trace.Steps) {
		return fmt.Sprintf("step %d: the trace has %s, the run has ended", s.next+1, s.trace.Steps[s.next])
	}
	return s.diverged
}

// Choose implements [Strategy]. From where the run has diverged it goes on in default order.
func (s *TraceStrategy) Choose(enabled []Choice) int {
	if s.diverged != "" {
		return 0
	}
	if s.next == len(s.trace.Steps) {
		s.diverged = fmt.Sprintf("step %d: the trace has ended, enabled are %s", s.next+1, names(enabled))
		return 0
	}
	wanted, tied := written(s.trace.Steps[s.next]), s.ties[s.next]
	for i := range enabled {
		if written(enabled[i].Event) != wanted {
			continue
		}
		if tied--; tied < 0 {
			s.next++
			return i
		}
	}
	s.diverged = fmt.Sprintf("step %d: the trace has %s, enabled are %s", s.next+1, wanted, names(enabled))
	return 0
}

func names(enabled []Choice) string {
	var texts []string
	for _, c := range enabled {
		texts = append(texts, c.Event.String())
	}
	return strings.Join(texts, ", ")
}

// Delay implements [Strategy]. The engine asks by full names instead.
func (s *TraceStrategy) Delay(schedule.Event) time.Duration { return 0 }

func (s *TraceStrategy) delayOf(at comingUp) time.Duration {
	return s.latencies[comingUp{written(at.name), at.nth}]
}

// Permute implements [Strategy]. The engine asks by full names instead.
func (s *TraceStrategy) Permute(schedule.Event, int) []int { return nil }

func (s *TraceStrategy) orderOf(at comingUp) []int {
	return s.orders[comingUp{written(at.name), at.nth}]
}
