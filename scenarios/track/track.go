// Package track is the track record of reference reconcilers: which bugs are found, by which scenario, and how soon.
//
// A folder of reconcilers states its record as rows, and a test of it explores them:
//
//	for _, row := range Track() {
//		t.Run(row.Name(), func(t *testing.T) {
//			outcome, err := row.Explore(t.Context(), Register, track.Options{})
//			if err == nil {
//				err = row.Check(outcome)
//			}
//			if err != nil {
//				t.Fatal(err)
//			}
//		})
//	}
package track

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
)

// Row says what one reconciler comes to in one scenario.
type Row struct {
	// Bug says in one line of Markdown what is wrong with the reconciler, with a link where there is one; of a correct one, what
	// it does about it.
	Bug string
	// Pattern is the pattern of failure that this is an instance of, a number of docs/patterns.md; zero for none.
	Pattern int
	// Scenario is the scenario's file, relative to the folder of the reconcilers.
	Scenario string
	// Controller and Reconciler say what runs: "operator" and "clickhouse/buggy".
	Controller, Reconciler string
	// Breaks are the properties and detectors that are broken, each by some finding; and each finding breaks one of them. Of a
	// correct reconciler it is empty: nothing is found.
	Breaks []string
	// Budget is the number of executions within which the first finding is made, over all entries of the scenario's matrix in
	// their order.
	Budget int
	// Runs is the number of runs by seed after the sweeps, for each entry of the matrix; zero for none. A bug that needs an order
	// of more than one pair of steps, or more than one fault, needs them.
	Runs int
}

// The most that the schedule of a finding may take once it is shrunk.
const (
	maxConstraints = 2
	maxFaults      = 1
)

// panicked stands in Breaks for a reconciler that panics.
const panicked = "panic"

// Name names the row: "recreate/clickhouse/buggy".
func (r *Row) Name() string {
	return strings.TrimSuffix(filepath.Base(r.Scenario), ".yaml") + "/" + r.Reconciler
}

// Options say how to explore a row.
type Options struct {
	// Dir is the folder of the reconcilers; the working directory if empty.
	Dir string
	// Runs, if not zero, takes the place of the row's.
	Runs int
	// Clock tells real time, for the times of findings; nil stops it.
	Clock func() time.Time
	// First ends the exploration with the first finding, which is not shrunk.
	First bool
}

// Outcome is what exploring a row came to.
type Outcome struct {
	// Entries are the results for each entry of the scenario's matrix, of which there is one if there is no matrix.
	Entries []*history.Result
}

// errFound ends an exploration at the first finding.
var errFound = errors.New("found")

// Explore explores the row's scenario, once for each entry of its matrix. Register adds the reconcilers to a registry.
func (r *Row) Explore(ctx context.Context, register func(*scenarios.Registry), o Options) (*Outcome, error) {
	registry := &scenarios.Registry{}
	register(registry)
	scenario, err := scenarios.Load(filepath.Join(o.Dir, r.Scenario), scenarios.Options{Registry: registry})
	if err != nil {
		return nil, err
	}
	outcome := &Outcome{}
	for _, entry := range scenario.Entries() {
		reconcilers := map[string]string{r.Controller: r.Reconciler}
		config, err := entry.Config(registry, reconcilers)
		if err != nil {
			return nil, err
		}
		options := explore.Options{Seed: 1, Runs: r.runs(o), ScriptSteps: entry.Steps(), Clock: o.Clock}
		var first *history.Finding
		if o.First {
			options.Shrink = -1
			options.Found = func(f *history.Finding) error {
				first = f
				return errFound
			}
		}
		result, err := explore.Run(ctx, config, options)
		if errors.Is(err, errFound) {
			outcome.Entries = append(outcome.Entries, &history.Result{Findings: []history.Finding{*first}})
			return outcome, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Name(), err)
		}
		result.Header = entry.Header(config, reconcilers)
		outcome.Entries = append(outcome.Entries, result)
	}
	return outcome, nil
}

func (r *Row) runs(o Options) int {
	runs := r.Runs
	if o.Runs != 0 {
		runs = o.Runs
	}
	if runs == 0 {
		return -1 // none, where zero stands for the default
	}
	return runs
}

// Findings returns the findings of all entries.
func (o *Outcome) Findings() []*history.Finding {
	var all []*history.Finding
	for _, result := range o.Entries {
		for i := range result.Findings {
			all = append(all, &result.Findings[i])
		}
	}
	return all
}

// First returns after how many executions and how much time the first finding was made; zero if there was none.
func (o *Outcome) First() (executions int, elapsed time.Duration) {
	for _, result := range o.Entries {
		if len(result.Findings) > 0 {
			return executions + result.Findings[0].Execution, elapsed + result.Findings[0].Elapsed
		}
		executions += result.Coverage.Executions
		elapsed += result.Elapsed
	}
	return 0, 0
}

// Executions returns how many executions there were.
func (o *Outcome) Executions() int {
	n := 0
	for _, result := range o.Entries {
		n += result.Coverage.Executions
	}
	return n
}

// Broken returns what a run broke: the names of properties and detectors, and "panic".
func Broken(h *history.History) []string {
	var names []string
	if h.Outcome == history.Panicked {
		names = append(names, panicked)
	}
	for _, verdict := range h.Broken() {
		names = append(names, verdict.Property.Name)
	}
	return names
}

// Check says where an outcome is another than the row states.
func (r *Row) Check(o *Outcome) error {
	var errs []error
	missing := slices.Clone(r.Breaks)
	for _, result := range o.Entries {
		for i := range result.Findings {
			f := &result.Findings[i]
			broken := Broken(f.Run)
			known := func(name string) bool { return slices.Contains(broken, name) }
			missing = slices.DeleteFunc(missing, known)
			if !slices.ContainsFunc(r.Breaks, known) {
				errs = append(errs, fmt.Errorf("%s: breaks %s, which its row does not state; it was found by %s",
					result.Scenario, strings.Join(broken, ", "), origin(f)))
			}
			if err := small(f); err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", result.Scenario, strings.Join(broken, ", "), err))
			}
		}
		errs = append(errs, conclusive(result))
	}
	if len(missing) > 0 {
		errs = append(errs, fmt.Errorf("%s: %s not broken in %d executions", r.Name(), strings.Join(missing, ", "), o.Executions()))
	}
	if n, _ := o.First(); n > r.Budget {
		errs = append(errs, fmt.Errorf("%s: the first finding took %d executions, its budget is %d", r.Name(), n, r.Budget))
	}
	return errors.Join(errs...)
}

// origin says what made a finding, and what decides it.
func origin(f *history.Finding) string {
	text := fmt.Sprintf("%s in execution %d", f.Strategy, f.Execution)
	if s := f.Schedule; s != nil {
		for _, c := range s.Constraints {
			text += "; " + c.String()
		}
		for _, fault := range s.Faults {
			text += "; " + fault.String()
		}
	}
	return text
}

// small checks that the schedule of a finding is one that a person can read.
func small(f *history.Finding) error {
	s := f.Schedule
	if s == nil || len(s.Constraints) <= maxConstraints && len(s.Faults) <= maxFaults {
		return nil
	}
	return fmt.Errorf("the schedule takes %d constraints and %d faults, more than %d and %d",
		len(s.Constraints), len(s.Faults), maxConstraints, maxFaults)
}

// conclusive checks that a result rests on something: runs came to an end, the rules could be evaluated, and the path that the
// scenario is about was taken, as far as a Sometimes says so.
func conclusive(result *history.Result) error {
	var errs []error
	c := &result.Coverage
	if c.Inconclusive > 0 {
		errs = append(errs, fmt.Errorf("%s: %d of %d executions were inconclusive", result.Scenario, c.Inconclusive, c.Executions))
	}
	for _, p := range c.Properties {
		if p.Invalid > 0 {
			errs = append(errs, fmt.Errorf("%s: %s is invalid: %s", result.Scenario, p.Property.Name, p.Error))
		}
	}
	for _, problem := range c.Problems {
		errs = append(errs, fmt.Errorf("%s: %s", result.Scenario, problem))
	}
	return errors.Join(errs...)
}
