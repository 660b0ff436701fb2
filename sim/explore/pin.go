package explore

import (
	"context"
	"errors"
	"slices"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
	"github.com/stalemate-dev/stalemate/sim/shrink"
)

// pinDown gives a finding of a strategy a schedule that brings it about without the strategy, and shrinks it.
func (x *explorer) pinDown(ctx context.Context, finding *history.Finding) error {
	recorded, err := x.again(Recording, finding.Seed)
	if err == nil {
		err = Compare(finding.Run, recorded)
	}
	if err != nil {
		return err
	}
	return x.shrinkRecorded(ctx, finding, recorded)
}

// shrinkRecorded gives a finding the schedule that brings about a recorded run of its strategy, and shrinks it.
func (x *explorer) shrinkRecorded(ctx context.Context, finding *history.Finding, recorded *history.History) error {
	if err := x.pin(finding, recorded); err != nil {
		return err
	}
	if x.options.Shrink < 0 || finding.Run == recorded {
		return nil
	}
	return x.shrinkFinding(ctx, finding)
}

// pin gives a finding the schedule that brings about a recorded run of its strategy.
func (x *explorer) pin(finding *history.Finding, recorded *history.History) error {
	s, h, err := pin(x.runner(Pinning), recorded)
	if err != nil {
		return err
	}
	x.strategy.Shrinking++
	finding.Schedule, finding.Run = s, h
	s.Origin = schedule.Origin{Strategy: finding.Strategy, Seed: finding.Seed, Size: s.Size()}
	return nil
}

// shrinkFinding shrinks the schedule of a finding.
func (x *explorer) shrinkFinding(ctx context.Context, finding *history.Finding) error {
	runner := x.runner(Shrinking)
	run := func(plan sim.Plan) (*history.History, error) {
		x.strategy.Shrinking++
		x.progress()
		return runner(plan)
	}
	s, h := finding.Schedule, finding.Run
	smaller, err := small(ctx, run, s, h, shrink.Options{Executions: x.options.Shrink, Steps: x.options.ScriptSteps})
	switch {
	case err == nil:
		finding.Schedule, finding.Run, finding.Signature = smaller.Schedule, smaller.Run, Signature(smaller.Run)
	case errors.Is(err, ctx.Err()): // it stays as large as it is, but is not lost
	default:
		return err
	}
	return nil
}

// Pin returns a schedule under which a recorded run of a strategy fails without that strategy, and the run under it: what the
// strategy did is written as constraints, latencies, orders of lists, and faults. Where that does not fail in the same way, the
// schedule has the trace, and the run is the recorded one: it can be replayed exactly.
func Pin(world *sim.World, recorded *history.History) (*schedule.Schedule, *history.History, error) {
	return pin(world.Run, recorded)
}

// deviationsOf returns what a strategy did in a run as a schedule.
func deviationsOf(h *history.History) *schedule.Schedule {
	s := &schedule.Schedule{Constraints: h.Deviations, Latencies: h.Lateness}
	if h.Trace != nil {
		s.Orders = h.Trace.Orders
	}
	for _, f := range h.Faults {
		if f.Struck {
			s.Faults = append(s.Faults, f.Fault)
		}
	}
	return s
}

func pin(run shrink.Runner, recorded *history.History) (*schedule.Schedule, *history.History, error) {
	s := deviationsOf(recorded)
	h, err := run(sim.PlanOf(s))
	if err != nil || sameFailure(recorded)(h) {
		return s, h, err
	}
	s.Trace, s.Expect = recorded.Trace, expectation(recorded)
	return s, recorded, nil
}

// sayLate has findings of sweeps say what came about, if they held a step in vain: it came late. That is left until all is
// explored, as findings are told apart by the constraints that they were found with.
func (x *explorer) sayLate(ctx context.Context) error {
	if x.options.Shrink < 0 {
		return nil
	}
	for i := range x.result.Findings {
		f := &x.result.Findings[i]
		inVain := func(c schedule.Constraint) bool { return shrink.HeldInVain(f.Run, c) }
		if f.Schedule == nil || f.Strategy == Committed || !slices.ContainsFunc(f.Schedule.Constraints, inVain) {
			continue
		}
		x.strategy = x.accounts[slices.IndexFunc(x.accounts, func(a *history.StrategyResult) bool { return a.Name == f.Strategy })]
		runner := x.runner(Shrinking)
		run := func(plan sim.Plan) (*history.History, error) {
			x.strategy.Shrinking++
			return runner(plan)
		}
		late, err := small(ctx, run, f.Schedule, f.Run, shrink.Options{Executions: x.options.Shrink})
		if err != nil {
			return err
		}
		if Signature(late.Run) != f.Signature {
			continue
		}
		if err := complete(x.recorder, late.Schedule, late.Run); err != nil {
			return err
		}
		f.Schedule, f.Run = late.Schedule, late.Run
	}
	return nil
}

// small shrinks a schedule whose run fails.
func small(ctx context.Context, run shrink.Runner, s *schedule.Schedule, failing *history.History, o shrink.Options,
) (*shrink.Result, error) {
	unlessEnded := func(plan sim.Plan) (*history.History, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return run(plan)
	}
	return shrink.Shrink(s, failing, unlessEnded, sameFailure(failing), o)
}

// Shrink makes a schedule small whose run fails, see [shrink.Shrink]. The result says what its run comes to, and has a trace.
func Shrink(ctx context.Context, world *sim.World, s *schedule.Schedule, o shrink.Options) (*shrink.Result, error) {
	s = withFullNames(world, s)
	h, err := world.Run(sim.PlanOf(s))
	if err != nil {
		return nil, err
	}
	if !h.Failed() {
		return nil, errors.New("explore: the schedule does not fail any more: there is nothing to shrink")
	}
	result, err := small(ctx, world.Run, s, h, o)
	if err != nil {
		return nil, err
	}
	return result, complete(world.Run, result.Schedule, result.Run)
}

// withFullNames returns a schedule, as it may come from a file, with the names of events as histories have them.
func withFullNames(world *sim.World, s *schedule.Schedule) *schedule.Schedule {
	full, plan := *s, world.Config().CompletePlan(sim.PlanOf(s))
	full.Constraints, full.Faults, full.Latencies, full.Orders = plan.Constraints, plan.Faults, plan.Latencies, plan.Orders
	return &full
}

// ShrinkSeed executes the run with a seed, see [Survey.Strategy], and shrinks it if it fails. The result is nil if it does
// not, or if a schedule cannot express what the strategy did.
func ShrinkSeed(ctx context.Context, world *sim.World, survey *Survey, seed int64, o shrink.Options) (*shrink.Result, error) {
	name, strategy := survey.Strategy(seed)
	recorded, err := world.Run(sim.Plan{Seed: seed, Strategy: strategy, Record: true})
	if err != nil || !recorded.Failed() {
		return nil, err
	}
	s, h, err := Pin(world, recorded)
	if err != nil || h == recorded {
		return nil, err
	}
	s.Origin = schedule.Origin{Strategy: name, Seed: seed, Size: s.Size()}
	return small(ctx, world.Run, s, h, o)
}

// complete adds to a schedule what its run comes to, and its trace.
func complete(run shrink.Runner, s *schedule.Schedule, h *history.History) error {
	plan := sim.PlanOf(s)
	plan.Record = true
	recorded, err := run(plan)
	if errors.Is(err, errSkipped) { // then it has no trace
		s.Expect = expectation(h)
		return nil
	}
	if err == nil {
		err = Compare(h, recorded)
	}
	if err != nil {
		return err
	}
	s.Trace = recorded.Trace
	s.Expect = expectation(h)
	return nil
}

// expectation says what a run that failed came to.
func expectation(h *history.History) schedule.Expectation {
	e := schedule.Expectation{Outcome: schedule.Violated, Signature: history.SignatureID(Signature(h)), Hash: h.Hash}
	if names := brokenProperties(h); len(names) > 0 {
		e.Property = names[0]
	}
	return e
}
