package cmd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stalemate-dev/stalemate/reactors"
	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/detect"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// simulation is the engine of the command: scenario files, run by package sim.
type simulation struct{ registry *scenarios.Registry }

func (s simulation) holdsSchedule(path string) (bool, error) {
	kind, err := scenarios.KindOf(path)
	return kind == scenarios.KindSchedule, err
}

func (s simulation) load(path string) ([]scenario, error) {
	loaded, err := scenarios.Load(path, scenarios.Options{Registry: s.registry})
	if err != nil {
		return nil, err
	}
	var entries []scenario
	for _, entry := range loaded.Entries() {
		entries = append(entries, simulated{entry, s.registry})
	}
	return entries, nil
}

func (s simulation) loadSchedule(path string) (recording, error) {
	loaded, err := scenarios.LoadSchedule(path, scenarios.Options{Registry: s.registry})
	if err != nil {
		return nil, err
	}
	return scheduled{loaded, s.registry}, nil
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

func (s simulation) faults() []entry {
	var entries []entry
	for _, fault := range schedule.FaultTypes() {
		entries = append(entries, entry{string(fault), reactors.Doc(fault)})
	}
	return entries
}

func (s simulation) detectors() []entry {
	var entries []entry
	for _, t := range detect.Types() {
		doc := detect.Doc(t)
		if detect.OptIn(t) {
			doc += " (off unless a scenario asks for it)"
		}
		entries = append(entries, entry{string(t), doc})
	}
	return entries
}

// simulated is a scenario with the registry its names are looked up in.
type simulated struct {
	*scenarios.Scenario
	registry *scenarios.Registry
}

func (s simulated) entry() []string {
	var values []string
	for _, m := range s.Manifest.Spec.Matrix {
		values = append(values, m.Name+"="+s.Values[m.Name])
	}
	return values
}

func (s simulated) prepare(overrides map[string]string) (exploration, error) {
	config, err := s.Config(s.registry, overrides)
	if err != nil {
		return nil, err
	}
	return ready{subject{s.Scenario, config, overrides}}, nil
}

// subject is a scenario that was put together.
type subject struct {
	of          *scenarios.Scenario
	config      *sim.Config
	reconcilers map[string]string // in place of the scenario's, by the names of controllers
}

func (s subject) header() history.Header { return s.of.Header(s.config, s.reconcilers) }

func (s subject) encode(file, name string, spec *schedule.Schedule) ([]byte, error) {
	return s.of.EncodeSchedule(file, scenarios.ScheduleFile{Name: name, Reconcilers: s.reconcilers, Spec: spec})
}

// ready is a scenario that is ready to be explored.
type ready struct{ subject }

func (r ready) explore(ctx context.Context, o options) (*history.Result, error) {
	runs := o.runs
	if runs == 0 {
		runs = -1 // none, where zero stands for the default
	}
	result, err := explore.Run(ctx, r.config, explore.Options{
		Seed:        o.seed,
		Runs:        runs,
		For:         o.budget,
		ScriptSteps: r.of.Steps(),
		Clock:       time.Now,
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
		return &history.Result{Diverged: whereApart(diverged)}, nil
	}
	return result, classified(err)
}

// whereApart says where two histories went apart.
func whereApart(e *explore.NondeterminismError) string {
	return fmt.Sprintf("step %d: %q the first time, %q the second", e.Step, e.First, e.Second)
}

// classified makes a usageError of an error for which the user's scenario is to blame, a nondeterminismError of one for which the
// operator is, and has others say all that they know.
func classified(err error) error {
	if wrongScenario(err) {
		return usageError{err}
	}
	if diverged, ok := errors.AsType[*explore.NondeterminismError](err); ok {
		return nondeterminismError{diverged}
	}
	if stuck, ok := errors.AsType[*sim.StuckError](err); ok {
		return fmt.Errorf("%w\n\n%s", err, stuck.Stacks)
	}
	return err
}

// wrongScenario reports whether an exploration could not begin for a reason that is the user's to mend.
func wrongScenario(err error) bool {
	_, settle := errors.AsType[*sim.SettleError](err)
	_, program := errors.AsType[*sim.ProgramError](err)
	return settle || program
}
