package explore

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Replay runs a scenario under a schedule, and compares what it comes to with what the schedule expects. It goes by the
// schedule's constraints, faults and latencies, against the default order; an exact replay takes every step of its trace,
// and says where the operator takes another one.
//
// A schedule that expects a failure is reproduced by a run that fails in that way. One that expects all properties to hold is
// reproduced if they do and every element found its event, or need not; if a property is broken, it is reproduced differently.
// So an operator is at fault if [history.History.Failed] says so of the run, whatever the outcome.
func Replay(world *sim.World, s *schedule.Schedule, exact bool) (*history.Replay, error) {
	plan := sim.PlanOf(s)
	var follower *sim.TraceStrategy
	if exact {
		if s.Trace == nil {
			return nil, errors.New("explore: the schedule has no trace: replay it by its constraints and faults")
		}
		follower = sim.NewTraceStrategy(s.Trace)
		plan.Strategy = follower
	}
	h, err := world.Run(plan)
	if err != nil {
		return nil, err
	}
	r := compared(s, h)
	if exact {
		r.Diverged = follower.Diverged()
	}
	return &r, nil
}

// unmatched describes the elements of a schedule that did not find their events in a run. An order of a list is none of them:
// there may be nothing to put in order, and that may be what matters.
func unmatched(s *schedule.Schedule, h *history.History) []string {
	var texts []string
	for _, c := range h.Constraints {
		if !c.Matched {
			texts = append(texts, c.Constraint.String())
		}
	}
	for _, f := range h.Faults[:len(s.Faults)] {
		if !f.Struck {
			texts = append(texts, f.Fault.String())
		}
	}
	for _, l := range s.Latencies {
		if !slices.ContainsFunc(h.Records, func(r history.Record) bool { return r.Event.AsWritten() == l.At.AsWritten() }) {
			texts = append(texts, latencyText(l))
		}
	}
	return texts
}

func latencyText(l schedule.Latency) string { return fmt.Sprintf("%s takes %s", l.At, l.For) }

func outcome(s *schedule.Schedule, r *history.Replay) history.ReplayOutcome {
	failed := r.Run.Failed()
	fits := len(r.Unmatched) == 0 || s.WhenUnmatched == schedule.Ignore
	switch {
	case s.Expect.Outcome == schedule.Holds && !failed && fits:
		return history.Reproduced
	case !failed:
		return history.NotReproduced
	case s.Expect.Outcome != schedule.Holds && asExpected(s.Expect, r.Run):
		return history.Reproduced
	default:
		return history.ReproducedDifferently
	}
}

// asExpected reports whether a run that failed did so as expected, so far as that is known.
func asExpected(expect schedule.Expectation, h *history.History) bool {
	if expect.Signature != "" && expect.Signature != history.SignatureID(Signature(h)) {
		return false
	}
	return expect.Property == "" || slices.Contains(brokenProperties(h), expect.Property)
}

func brokenProperties(h *history.History) []string {
	var names []string
	for _, v := range h.Broken() {
		names = append(names, v.Property.Name)
	}
	return names
}

// committed runs the schedules that found something once.
func (x *explorer) committed(ctx context.Context) error {
	if len(x.options.Schedules) == 0 {
		return nil
	}
	account := x.begin(Committed, fmt.Sprintf("%s that found something once", count(len(x.options.Schedules), "schedule")))
	account.Candidates = len(x.options.Schedules)
	defer func() { x.playing = nil }()
	for _, s := range x.options.Schedules {
		if err := ctx.Err(); err != nil {
			return err
		}
		x.playing = s
		h, err := x.execute(ctx, sim.PlanOf(s), len(x.options.Schedules))
		if err != nil {
			return err
		}
		if h == nil {
			continue
		}
		r := compared(s, h)
		if len(r.Unmatched) > 0 {
			account.Unmatched++
		}
		x.result.Replays = append(x.result.Replays, r)
	}
	account.Complete = true
	return nil
}

// compared says how a run compares with what its schedule expects.
func compared(s *schedule.Schedule, h *history.History) history.Replay {
	r := history.Replay{Schedule: s, Run: h, Elements: s.Size(), SameHash: h.Hash == s.Expect.Hash, Unmatched: unmatched(s, h)}
	r.Matched = r.Elements - len(r.Unmatched)
	r.Outcome = outcome(s, &r)
	return r
}
