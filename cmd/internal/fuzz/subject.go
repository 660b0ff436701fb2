package fuzz

import (
	"cmp"
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
)

// load loads the entry of the scenario, and puts it together with its reconcilers.
func (s *Subject) load(registry *scenarios.Registry) (*scenarios.Scenario, *sim.Config, error) {
	if s.File == "" {
		return loadCanary()
	}
	whole, err := scenarios.Load(s.File, scenarios.Options{Registry: registry})
	if err != nil {
		return nil, nil, err
	}
	scenario, err := whole.Select(s.Values)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", s.File, err)
	}
	config, err := scenario.Config(registry, s.Reconcilers)
	return scenario, config, err
}

// canaryFiles are the files of the built-in canary.
//
//go:embed canary
var canaryFiles embed.FS

// loadCanary loads the built-in canary, whose reconciler no other scenario can name.
func loadCanary() (*scenarios.Scenario, *sim.Config, error) {
	registry := &scenarios.Registry{}
	registry.Add(canaryReconciler, lostUpdate())
	scenario, err := scenarios.LoadFS(canaryFiles, "canary/scenario.yaml", scenarios.Options{Registry: registry})
	if err != nil {
		return nil, nil, err
	}
	config, err := scenario.Config(registry, nil)
	return scenario, config, err
}

// words are what tells the subject from others: "operator=clickhouse/patch-a, policy=Foreground".
func (s *Subject) words() string {
	var words []string
	for _, pairs := range []map[string]string{s.Reconcilers, s.Values} {
		for _, name := range slices.Sorted(maps.Keys(pairs)) {
			words = append(words, name+"="+pairs[name])
		}
	}
	return strings.Join(words, ", ")
}

// text names the subject: "scenarios/clickhouse/recreate.yaml (operator=clickhouse/patch-a)".
func (s *Subject) text() string {
	name := cmp.Or(s.File, "the built-in canary")
	if words := s.words(); words != "" {
		name += " (" + words + ")"
	}
	return name
}
