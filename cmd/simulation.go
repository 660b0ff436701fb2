package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
)

// simulation is the engine of the command: scenario files, run by package sim.
type simulation struct{ registry *scenarios.Registry }

func (s simulation) load(path string) (scenario, error) {
	loaded, err := scenarios.Load(path, scenarios.Options{Registry: s.registry})
	if err != nil {
		return nil, err
	}
	return simulated{loaded, s.registry}, nil
}

func (s simulation) reconcilers() []entry {
	var entries []entry
	for _, name := range s.registry.Names() {
		reconciler, _ := s.registry.Get(name)
		entries = append(entries, entry{name, reconciler.Doc})
	}
	return entries
}

func (s simulation) racers() []entry {
	var entries []entry
	for _, racer := range scenarios.RacerDocs() {
		entries = append(entries, entry{string(racer.Type), racer.Doc})
	}
	return entries
}

// simulated is a scenario file with the registry its names are looked up in.
type simulated struct {
	*scenarios.Scenario
	registry *scenarios.Registry
}

func (s simulated) prepare(overrides map[string]string) (exploration, error) {
	config, err := s.Config(s.registry, overrides)
	if err != nil {
		return nil, err
	}
	header := history.Result{Scenario: s.Name, Variables: config.Properties.Variables()}
	for _, c := range s.Manifest.Spec.Controllers {
		reconciler := c.Reconciler
		if override, ok := overrides[c.Name]; ok {
			reconciler = override
		}
		header.Reconcilers = append(header.Reconcilers, fmt.Sprintf("%s=%s", c.Name, reconciler))
	}
	for _, r := range s.Manifest.Spec.Racers {
		header.Racers = append(header.Racers, fmt.Sprintf("%s=%s", r.Name, r.Type))
	}
	return ready{config, header}, nil
}

// ready is a scenario that was put together.
type ready struct {
	config *sim.Config
	names  history.Result
}

func (r ready) header() history.Result { return r.names }

func (r ready) explore(ctx context.Context, o options) (*history.Result, error) {
	runs := o.runs
	if runs == 0 {
		runs = -1 // none, where zero stands for the default
	}
	result, err := explore.Run(ctx, r.config, explore.Options{
		Seed:  o.seed,
		Runs:  runs,
		For:   o.budget,
		Clock: time.Now,
		Progress: func(p explore.Progress) {
			o.progress(progress{
				strategy: p.Strategy, executions: p.Executions, done: p.Done, total: p.Planned, findings: p.Findings,
			})
		},
		Found: func(f *history.Finding) error {
			o.finding(f)
			return nil
		},
	})
	if diverged, ok := errors.AsType[*explore.NondeterminismError](err); ok {
		step := fmt.Sprintf("step %d: %q the first time, %q the second", diverged.Step, diverged.First, diverged.Second)
		return &history.Result{Diverged: step}, nil
	}
	if wrongScenario(err) {
		return nil, usageError{err}
	}
	if stuck, ok := errors.AsType[*sim.StuckError](err); ok {
		return nil, fmt.Errorf("%w\n\n%s", err, stuck.Stacks)
	}
	return result, err
}

// wrongScenario reports whether an exploration could not begin for a reason that is the user's to mend.
func wrongScenario(err error) bool {
	_, settle := errors.AsType[*sim.SettleError](err)
	_, program := errors.AsType[*sim.ProgramError](err)
	return settle || program
}
