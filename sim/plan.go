package sim

import (
	"slices"

	"github.com/stalemate-dev/stalemate/sim/history"
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
	// State has the run say where it ended, see [history.History.State].
	State bool
	// Recording, if set with Record, is called before every step that the trace has, that step included: whoever writes down what
	// it gets knows of a run that ends the process which step did. What it gets is valid until it returns.
	Recording func(Recorded)
}

// Recorded is what a run has come to so far.
type Recorded struct {
	// Trace so far, with the step that is about to be taken.
	Trace *schedule.Trace
	// Faults of the plan, and those that the strategy injected so far.
	Faults []history.FaultResult
}

// PlanOf returns the plan of a schedule.
func PlanOf(s *schedule.Schedule) Plan {
	return Plan{Seed: s.Origin.Seed, Constraints: s.Constraints, Faults: s.Faults, Latencies: s.Latencies, Orders: s.Orders,
		Skip: s.Skip}
}

// undisturbed reports whether the plan leaves all to the default order.
func (p *Plan) undisturbed() bool {
	return p.Strategy == nil && len(p.Constraints)+len(p.Faults)+len(p.Latencies)+len(p.Orders)+len(p.Skip) == 0
}

// Complete fills in what the text of an event leaves out: that a step of a process is one of its first start.
func (c *Config) Complete(event schedule.Event) schedule.Event {
	isProcess := func(p Process) bool { return p.Name == event.Actor }
	if event.Incarnation == 0 && slices.ContainsFunc(c.Processes, isProcess) {
		event.Incarnation = 1
	}
	return event
}

// CompletePlan returns a plan whose events, which may be as they were read from their texts, have the names that they have in
// histories. It shares nothing with the one given that is written to.
func (c *Config) CompletePlan(plan Plan) Plan {
	plan.Constraints, plan.Faults = slices.Clone(plan.Constraints), slices.Clone(plan.Faults)
	plan.Latencies, plan.Orders = slices.Clone(plan.Latencies), slices.Clone(plan.Orders)
	for i := range plan.Constraints {
		if at := &plan.Constraints[i]; at.Order == nil {
			at.Event, at.Waits = c.Complete(at.Event), c.Complete(at.Waits)
		}
	}
	for i := range plan.Faults {
		if at := &plan.Faults[i]; at.Select == nil {
			at.At = c.Complete(at.At)
		}
	}
	for i := range plan.Latencies {
		plan.Latencies[i].At = c.Complete(plan.Latencies[i].At)
	}
	for i := range plan.Orders {
		plan.Orders[i].At = c.Complete(plan.Orders[i].At)
	}
	return plan
}
