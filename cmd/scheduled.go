package cmd

import (
	"cmp"
	"context"
	"errors"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
	"github.com/stalemate-dev/stalemate/sim/shrink"
)

// scheduled is a schedule file with the registry its names are looked up in.
type scheduled struct {
	*scenarios.Schedule
	registry *scenarios.Registry
}

func (s scheduled) prepare(overrides map[string]string) (replayer, error) {
	config, err := s.Config(s.registry, overrides)
	if err != nil {
		return nil, err
	}
	return &replayable{subject: subject{s.Scenario, config, s.Replaced(overrides)}, file: s.Schedule}, nil
}

// replayable is a schedule that is ready to be replayed.
type replayable struct {
	subject
	file  *scenarios.Schedule
	world *sim.World // made when it is needed first: the scenario settles in it
}

func (r *replayable) scenario() string { return r.of.Path }

func (r *replayable) schedule() *schedule.Schedule { return r.file.Spec }

// encode keeps what the file has beside the schedule: its properties, for instance.
func (r *replayable) encode(file, name string, spec *schedule.Schedule) ([]byte, error) {
	content := r.file.File()
	content.Name, content.Spec, content.Reconcilers = cmp.Or(name, content.Name), spec, r.reconcilers
	return r.of.EncodeSchedule(file, content)
}

// settled returns the world that all runs of the schedule begin in.
func (r *replayable) settled() (*sim.World, error) {
	if r.world != nil {
		return r.world, nil
	}
	world, err := sim.NewWorld(r.config)
	if err != nil {
		return nil, classified(err)
	}
	r.world = world
	return world, nil
}

func (r *replayable) replay(exact bool) (*history.Replay, error) { return r.under(r.file.Spec, exact) }

func (r *replayable) run(s *schedule.Schedule) (*history.Replay, error) { return r.under(s, false) }

// under replays a schedule of the scenario.
func (r *replayable) under(s *schedule.Schedule, exact bool) (*history.Replay, error) {
	world, err := r.settled()
	if err != nil {
		return nil, err
	}
	replay, err := explore.Replay(world, s, exact)
	return replay, classified(err)
}

func (r *replayable) differ(first, second *history.History) string {
	if apart, ok := errors.AsType[*explore.NondeterminismError](explore.Compare(first, second)); ok {
		return whereApart(apart)
	}
	return ""
}

func (r *replayable) shrink(ctx context.Context) (*schedule.Schedule, error) {
	world, err := r.settled()
	if err != nil {
		return nil, err
	}
	large, err := r.failing(world)
	if err != nil {
		return nil, err
	}
	result, err := explore.Shrink(ctx, world, large, shrink.Options{Steps: r.of.Steps()})
	if err != nil {
		return nil, classified(err)
	}
	return result.Schedule, nil
}

// failing returns the schedule, or if its elements do not fail, one with all that it takes to come to what its trace comes to.
func (r *replayable) failing(world *sim.World) (*schedule.Schedule, error) {
	large := *r.file.Spec
	replay, err := r.under(&large, false)
	if err != nil {
		return nil, err
	}
	if !replay.Run.Failed() && large.Trace != nil {
		plan := sim.PlanOf(&large)
		plan.Strategy, plan.Record = sim.NewTraceStrategy(large.Trace), true
		traced, err := world.Run(plan)
		if err != nil {
			return nil, classified(err)
		}
		pinned, run, err := explore.Pin(world, traced)
		if err != nil {
			return nil, classified(err)
		}
		if run == traced {
			return nil, usageError{errors.New("only its trace brings it about, which constraints cannot express: it cannot be shrunk")}
		}
		pinned.WhenUnmatched, pinned.Origin = large.WhenUnmatched, large.Origin
		large = *pinned
	}
	large.Origin.Size = max(large.Origin.Size, large.Size()) // a person may have added elements since
	return &large, nil
}
