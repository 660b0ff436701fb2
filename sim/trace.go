package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

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
	if e.plan.Recording != nil {
		trace.Latencies = e.deviations.chosenLatencies()
		e.plan.Recording(Recorded{Trace: trace, Faults: e.history.Faults})
	}
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
	orders    map[comingUp][]int
	ties      map[int]int
}

var _ follower = (*TraceStrategy)(nil)

// NewTraceStrategy returns a strategy that repeats the run of a trace.
func NewTraceStrategy(t *schedule.Trace) *TraceStrategy {
	s := &TraceStrategy{trace: t, latencies: map[comingUp]time.Duration{}, orders: map[comingUp][]int{}, ties: map[int]int{}}
	for _, late := range t.Latencies {
		s.latencies[comingUp{late.At.AsWritten(), late.Repeat}] = late.For
	}
	for _, p := range t.Orders {
		s.orders[comingUp{p.At.AsWritten(), p.Repeat}] = p.Order
	}
	for _, tie := range t.Ties {
		s.ties[tie.Step] = tie.Index
	}
	return s
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
	wanted, tied := s.trace.Steps[s.next].AsWritten(), s.ties[s.next]
	for i := range enabled {
		if enabled[i].Event.AsWritten() != wanted {
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
	return s.latencies[comingUp{at.name.AsWritten(), at.nth}]
}

// Permute implements [Strategy]. The engine asks by full names instead.
func (s *TraceStrategy) Permute(schedule.Event, int) []int { return nil }

func (s *TraceStrategy) orderOf(at comingUp) []int {
	return s.orders[comingUp{at.name.AsWritten(), at.nth}]
}
