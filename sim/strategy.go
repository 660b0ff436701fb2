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
	// Faults are those that strike; Latencies are steps that come late without a fault.
	Faults    []schedule.Fault
	Latencies []schedule.Latency
	// Orders put into another order what has none of its own.
	Orders []schedule.Permutation
	// Skip are the steps of the script, from 0, that are left out, sorted.
	Skip []int
	// Strategy decides what the default order leaves open; nil takes the default order. A strategy serves one run.
	Strategy Strategy
	// Record keeps the trace of the run, see [history.History.Trace].
	Record bool
}

// PlanOf returns the plan of a schedule.
func PlanOf(s *schedule.Schedule) Plan {
	return Plan{Seed: s.Origin.Seed, Constraints: s.Constraints, Faults: s.Faults, Latencies: s.Latencies, Orders: s.Orders,
		Skip: s.Skip}
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
	Event schedule.Event
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
		choices[i] = Choice{Event: e.name(s), Continues: s.owner() == e.running, Infrastructure: s.infrastructure()}
	}
	e.deviations.see(e, choices)
	chosen := e.plan.Strategy.Choose(choices)
	for i, passed := range choices[:chosen] {
		if passed.Event != choices[chosen].Event {
			e.deviations.pass(e, e.enabled[i], passed.Event)
		}
	}
	return e.enabled[chosen]
}

// permuted puts what has no order of its own, an initial list or a list from a cache, into the order the strategy wants.
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

// permutation is the order that the strategy wanted for n items in some step.
type permutation struct {
	step  int
	event schedule.Event
	n     int
	order []int
}

// permutation finds an order, once for all who read the same in one step: which of them is first is chance.
func (e *engine) permutation(event schedule.Event, n int) []int {
	if last := &e.permuted; last.step != e.steps || last.event != event || last.n != n {
		*last = permutation{e.steps, event, n, e.order(event, n)}
	}
	return e.permuted.order
}

// order returns the order that the plan says or, where it says nothing, that the strategy wants.
func (e *engine) order(event schedule.Event, n int) []int {
	at := comingUp{event, e.ordered[event]}
	e.ordered[event]++
	order, planned := e.orders[at]
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
