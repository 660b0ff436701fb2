package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Plan says what order a run takes.
type Plan struct {
	// Seed names the random streams of the run. Runs without a strategy use none.
	Seed int64
	// Constraints order single events against the default order.
	Constraints []schedule.Constraint
	// Faults are those that strike; Latencies are requests that come late without a fault.
	Faults    []schedule.Fault
	Latencies []schedule.Latency
	// Skip are the steps of the script, from 0, that are left out, sorted.
	Skip []int
	// Strategy decides what the default order leaves open; nil takes the default order. A strategy serves one run.
	Strategy Strategy
	// Record keeps the trace of the run, see [history.History.Trace].
	Record bool
}

// PlanOf returns the plan of a schedule.
func PlanOf(s *schedule.Schedule) Plan {
	return Plan{Seed: s.Origin.Seed, Constraints: s.Constraints, Faults: s.Faults, Latencies: s.Latencies, Skip: s.Skip}
}

// Strategy steers a run away from the default order.
type Strategy interface {
	// Choose picks one of the enabled steps, by its index. They are in default order: the first is the one that the
	// default order takes.
	Choose(enabled []Choice) int
	// Delay says how long a request that has just come up is held back, in virtual time; usually not at all.
	Delay(event schedule.Event) time.Duration
	// Permute returns the order in which an informer delivers the n objects of its initial list, or a cache lists n
	// objects: a permutation of 0 to n-1, or nil for the order of the keys. A real cluster has no fixed one.
	Permute(event schedule.Event, n int) []int
}

// Injector is a strategy that injects faults of the scenario's rules.
type Injector interface {
	Strategy
	// Inject is asked, for each rule that has not used up its budget, when an event that it matches comes up, and chooses one
	// of its faults that can strike there, or none. The fault's At is filled in.
	Inject(rule *FaultRule, event schedule.Event, faults []schedule.Fault) (fault schedule.Fault, strikes bool)
}

// Choice is an enabled step, as a strategy sees it.
type Choice struct {
	Event schedule.Event // without its occurrence
	// Continues is set for the thread that took the last step: choosing another one preempts it.
	Continues bool
	// Infrastructure is set for deliveries to caches and their handlers.
	Infrastructure bool
}

// pick asks the strategy.
func (e *engine) pick() stepper {
	slices.SortStableFunc(e.enabled, func(a, b stepper) int {
		return cmp.Or(cmp.Compare(e.rank(a), e.rank(b)), cmp.Compare(a.order(), b.order()))
	})
	choices := make([]Choice, len(e.enabled))
	for i, s := range e.enabled {
		choices[i] = Choice{Event: *s.base(), Continues: s.owner() == e.running, Infrastructure: s.infrastructure()}
	}
	return e.enabled[e.plan.Strategy.Choose(choices)]
}

// permuted puts what has no order of its own, an initial list or a list from a cache, into the order the strategy wants.
func permuted[T any](e *engine, event schedule.Event, items []T) []T {
	if e.plan.Strategy == nil || !e.scripted || len(items) < 2 {
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

// permutation is the order that the strategy wanted for n items in some step.
type permutation struct {
	step  int
	event schedule.Event
	n     int
	order []int
}

// permutation asks the strategy for an order, once for all who read the same in one step: which of them is first is chance.
func (e *engine) permutation(event schedule.Event, n int) []int {
	if last := &e.permuted; last.step != e.steps || last.event != event || last.n != n {
		*last = permutation{e.steps, event, n, e.plan.Strategy.Permute(event, n)}
	}
	return e.permuted.order
}
