package simtest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
)

// testCase is one scenario, put together: one entry of its matrix, if it has one.
type testCase struct {
	scenario *scenarios.Scenario // nil for a Go value
	config   *sim.Config
	names    history.Result    // what reports say of the scenario, with no result yet
	replaced map[string]string // reconcilers that were replaced, by the names of controllers
	owner    TB                // the test that was called with the subject
	options  *options
	given    *settings
}

// load puts a subject together: a case for each entry of its matrix.
func load(subject Subject, opts []Option) ([]*testCase, error) {
	given, err := theSettings()
	if err != nil {
		return nil, err
	}
	o, err := newOptions(opts)
	if err != nil {
		return nil, err
	}
	switch {
	case subject.config != nil:
		names := history.Result{Scenario: subject.config.Name, Variables: subject.config.Properties.Variables()}
		return []*testCase{{config: subject.config, names: names, options: o, given: given}}, nil
	case subject.path == "":
		return nil, errors.New("nothing to test: give simtest.Scenario a path, or simtest.Config a value")
	}
	scenario, err := scenarios.Load(subject.path, scenarios.Options{Registry: &o.registry})
	if err != nil {
		return nil, err
	}
	var cases []*testCase
	for _, entry := range scenario.Entries() {
		config, err := entry.Config(&o.registry, o.overrides)
		if err != nil {
			return nil, err
		}
		cases = append(cases, newCase(entry, config, o.overrides, o, given))
	}
	return cases, nil
}

// loadOne puts together a subject that has no matrix.
func loadOne(subject Subject, opts []Option) (*testCase, error) {
	cases, err := load(subject, opts)
	if err != nil {
		return nil, err
	}
	if len(cases) > 1 {
		return nil, fmt.Errorf("%s has a matrix: only simtest.Run runs its entries; write one scenario without a matrix for this test",
			subject.path)
	}
	return cases[0], nil
}

// newCase returns the case of a scenario and its configuration, in which reconcilers were replaced.
func newCase(s *scenarios.Scenario, config *sim.Config, replaced map[string]string, o *options, given *settings) *testCase {
	c := &testCase{scenario: s, config: config, replaced: replaced, options: o, given: given}
	c.names = history.Result{Scenario: s.Name, Path: s.Path, Variables: config.Properties.Variables()}
	if s.Entry != "" {
		c.names.Scenario += " (" + s.Entry + ")"
	}
	for _, controller := range s.Manifest.Spec.Controllers {
		reconciler := controller.Reconciler
		if other, ok := replaced[controller.Name]; ok {
			reconciler = other
		}
		c.names.Reconcilers = append(c.names.Reconcilers, controller.Name+"="+reconciler)
	}
	for _, r := range s.Manifest.Spec.Racers {
		c.names.Racers = append(c.names.Racers, fmt.Sprintf("%s=%s", r.Name, r.Type))
	}
	return c
}

// head fills in what a result has from its scenario.
func (c *testCase) head(r *history.Result) {
	r.Scenario, r.Path, r.Variables = c.names.Scenario, c.names.Path, c.names.Variables
	r.Reconcilers, r.Racers = c.names.Reconcilers, c.names.Racers
}

// loadSchedule loads a schedule file, if it is one of the case's scenario and entry; nil if it is another's. The case
// it returns has the reconcilers and properties of the schedule.
func (c *testCase) loadSchedule(file string) (*scenarios.Schedule, *testCase, error) {
	if kind, err := scenarios.KindOf(file); err != nil || kind != scenarios.KindSchedule {
		if err == nil {
			err = fmt.Errorf("%s: a scenario, not a schedule", file)
		}
		return nil, nil, err
	}
	// Without a registry: another scenario's reconcilers may be none of this test's.
	s, err := scenarios.LoadSchedule(file, scenarios.Options{})
	if err != nil {
		return nil, nil, err
	}
	if c.scenario == nil || !sameFile(s.Scenario.Path, c.scenario.Path) || !maps.Equal(s.Scenario.Values, c.scenario.Values) {
		return nil, nil, nil
	}
	if s, err = scenarios.LoadSchedule(file, scenarios.Options{Registry: &c.options.registry}); err != nil {
		return nil, nil, err
	}
	config, err := s.Config(&c.options.registry, c.options.overrides)
	if err != nil {
		return nil, nil, err
	}
	replaced := map[string]string{}
	maps.Copy(replaced, s.Reconcilers)
	maps.Copy(replaced, c.options.overrides)
	return s, newCase(s.Scenario, config, replaced, c.options, c.given), nil
}

func sameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// scheduleFiles returns the schedule files that are committed beside the test, and beside its scenario, where
// `stalemate pin` puts them, sorted. A file of which it cannot be told what it holds is among them, for a broken
// schedule must not go unnoticed.
func (c *testCase) scheduleFiles() ([]string, error) {
	if c.scenario == nil {
		return nil, nil
	}
	var files []string
	for _, folder := range c.options.scheduleFolders(c.scenario.Path) {
		inside, err := filesIn(folder)
		if err != nil {
			return nil, err
		}
		for _, file := range inside {
			if kind, err := scenarios.KindOf(file); (err != nil || kind == scenarios.KindSchedule) &&
				!slices.ContainsFunc(files, func(known string) bool { return sameFile(known, file) }) {
				files = append(files, file)
			}
		}
	}
	return files, nil
}
