package simtest

import (
	"errors"
	"fmt"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
)

// testCase is one scenario, put together: one entry of its matrix, if it has one.
type testCase struct {
	scenario *scenarios.Scenario // nil for a Go value
	config   *sim.Config
	header   history.Header
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
		config, err := o.configured(subject.config)
		if err != nil {
			return nil, err
		}
		return []*testCase{{config: config, header: headerOf(config), options: o, given: given}}, nil
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
		if config, err = o.configured(config); err != nil {
			return nil, err
		}
		cases = append(cases, &testCase{
			scenario: entry, config: config, header: entry.Header(config, o.overrides), replaced: o.overrides, options: o, given: given,
		})
	}
	return cases, nil
}

// headerOf returns what reports say of a scenario that is a Go value: its processes are the reconcilers.
func headerOf(config *sim.Config) history.Header {
	h := history.Header{Scenario: config.Name, Variables: config.Properties.Variables(), Reactors: len(config.Reactors)}
	for _, p := range config.Processes {
		h.Reconcilers = append(h.Reconcilers, p.Name)
	}
	for _, r := range config.Racers {
		h.Racers = append(h.Racers, r.Name)
	}
	return h
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
