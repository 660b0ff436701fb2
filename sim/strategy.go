package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

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
