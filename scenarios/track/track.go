// Package track is the track record of reference reconcilers: which bugs are found, by which scenario, and how soon.
//
// A folder of reconcilers states its record as rows, Track() []track.Row, and a test of it explores them, see package simtrack:
//
//	func TestTrack(t *testing.T) { simtrack.Test(t, Track(), Register) }
//
// What each row came to is committed with the folder, as a [Record].
package track

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/detect"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
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
	// Brief keeps of the schedules of findings that of the first only, where all others are the same bug in other ways.
	Brief bool
}

// The most that the schedule of a finding may take once it is shrunk, see [Row.Check].
const (
	maxOrders = 2
	maxFaults = 1
)

// panicked stands in Breaks for a reconciler that panics.
const panicked = "panic"

// Name names the row: "recreate/clickhouse/buggy".
func (r *Row) Name() string {
	return strings.TrimSuffix(filepath.Base(r.Scenario), ".yaml") + "/" + r.Reconciler
}

// Folder is the folder of the reconcilers, below the folder scenarios: what their names begin with.
func (r *Row) Folder() string { return path.Dir(r.Reconciler) }

// Options say how to explore a row.
type Options struct {
	// Dir is the folder of the reconcilers; the working directory if empty.
	Dir string
	// Runs, if not zero, takes the place of the row's.
	Runs int
	// First ends the exploration with the first finding, which is not shrunk.
	First bool
}

// Outcome is what exploring a row came to.
type Outcome struct {
	// Entries are what came of each entry of the scenario's matrix, of which there is one if there is no matrix. There are none
	// if the exploration was to end with the first finding, and did.
	Entries []Entry
	// First is how many executions the first finding took, over all entries in their order; zero if there is none.
	First int
}

// Entry is what came of one entry of a scenario's matrix.
type Entry struct {
	Scenario *scenarios.Scenario
	Result   *history.Result
}

// errFound ends an exploration at the first finding.
var errFound = errors.New("found")

// Explore explores the row's scenario, once for each entry of its matrix. Register adds the reconcilers to a registry.
//
// Where the default order breaks all that the row states, nothing else is executed: the bug needs neither an order nor a fault.
func (r *Row) Explore(ctx context.Context, register func(*scenarios.Registry), o Options) (*Outcome, error) {
	registry := &scenarios.Registry{}
	register(registry)
	scenario, err := scenarios.Load(filepath.Join(o.Dir, r.Scenario), scenarios.Options{Registry: registry})
	if err != nil {
		return nil, err
	}
	outcome, executions := &Outcome{}, 0
	for _, entry := range scenario.Entries() {
		config, err := entry.Config(registry, r.Reconcilers())
		if err != nil {
			return nil, err
		}
		result, first, err := r.explore(ctx, config, entry.Steps(), o)
		if outcome.First == 0 && first > 0 {
			outcome.First = executions + first
		}
		if errors.Is(err, errFound) {
			return outcome, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", r.Name(), err)
		}
		result.Header = entry.Header(config, r.Reconcilers())
		outcome.Entries = append(outcome.Entries, Entry{entry, result})
		executions += result.Coverage.Executions
	}
	return outcome, nil
}

// explore explores one entry of the matrix, and returns how many executions its first finding took, too.
func (r *Row) explore(ctx context.Context, config *sim.Config, steps int, o Options) (*history.Result, int, error) {
	ending, end := context.WithCancel(ctx)
	defer end()
	first := 0
	options := explore.Options{Seed: 1, Runs: r.runs(o), ScriptSteps: steps, Found: func(f *history.Finding) error {
		if first == 0 {
			first = f.Execution
		}
		if o.First {
			return errFound
		}
		if f.Strategy == explore.DefaultOrder && r.stated(Broken(f.Run)) {
			end()
		}
		return nil
	}}
	if o.First {
		options.Shrink = -1
	}
	result, err := explore.Run(ending, config, options)
	if errors.Is(err, context.Canceled) && ctx.Err() == nil {
		err = nil
	}
	return result, first, err
}

// stated reports whether a run broke all that the row states.
func (r *Row) stated(broken []string) bool {
	return !slices.ContainsFunc(r.Breaks, func(name string) bool { return !slices.Contains(broken, name) })
}

// Reconcilers are the row's in place of those that the scenario has, by the names of controllers.
func (r *Row) Reconcilers() map[string]string { return map[string]string{r.Controller: r.Reconciler} }

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

// Executions returns how many executions there were.
func (o *Outcome) Executions() int {
	n := 0
	for _, entry := range o.Entries {
		n += entry.Result.Coverage.Executions
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

// Stated returns what a run broke of what its scenario states: the names of properties, and "panic", but no detectors.
func Stated(h *history.History) []string {
	var names []string
	for _, name := range Broken(h) {
		if !slices.Contains(detect.Types(), detect.Type(name)) {
			names = append(names, name)
		}
	}
	return names
}

// Check says where an outcome is another than the row states.
//
// The schedule of each finding must be one that a person can read: no more than two orders and one fault. What the schedule says
// of the order of steps counts as an order, in whatever form: a constraint, a step that comes late (which is what shrinking makes of
// a constraint whose step was held in vain), and an order of a list that has none of its own. A step of the script that is left out
// counts nothing: it makes the schedule smaller. A finding that only its whole trace brings about has no such schedule.
func (r *Row) Check(o *Outcome) error {
	var errs []error
	missing := slices.Clone(r.Breaks)
	for _, entry := range o.Entries {
		result := entry.Result
		for i := range result.Findings {
			f := &result.Findings[i]
			broken := Broken(f.Run)
			known := func(name string) bool { return slices.Contains(broken, name) }
			missing = slices.DeleteFunc(missing, known)
			if !slices.ContainsFunc(r.Breaks, known) {
				errs = append(errs, fmt.Errorf("%s: breaks %s, which its row does not state; it was found by %s",
					result.Scenario, strings.Join(broken, ", "), origin(f)))
			}
			if err := small(f.Schedule); err != nil {
				errs = append(errs, fmt.Errorf("%s: %s: %w", result.Scenario, strings.Join(broken, ", "), err))
			}
		}
		errs = append(errs, conclusive(result))
	}
	if len(missing) > 0 {
		errs = append(errs, fmt.Errorf("%s: %s not broken in %d executions", r.Name(), strings.Join(missing, ", "), o.Executions()))
	}
	if o.First > r.Budget {
		errs = append(errs, fmt.Errorf("%s: the first finding took %d executions, its budget is %d", r.Name(), o.First, r.Budget))
	}
	return errors.Join(errs...)
}

// origin says what made a finding, and what decides it.
func origin(f *history.Finding) string {
	words := []string{fmt.Sprintf("%s in execution %d", f.Strategy, f.Execution)}
	if s := f.Schedule; s != nil {
		for _, c := range s.Constraints {
			words = append(words, c.String())
		}
		for _, fault := range s.Faults {
			words = append(words, fault.String())
		}
		for _, l := range s.Latencies {
			words = append(words, fmt.Sprintf("%s comes %s late", l.At, l.For))
		}
		for _, o := range s.Orders {
			words = append(words, fmt.Sprintf("%s in order %d", o.At, o.Order))
		}
	}
	return strings.Join(words, "; ")
}

// small checks that a schedule is one that a person can read. The default order has none.
func small(s *schedule.Schedule) error {
	if s == nil {
		return nil
	}
	if s.Size() == 0 && !s.Origin.Minimal {
		return errors.New("only its whole trace brings it about")
	}
	if orders := s.Size() - len(s.Faults); orders > maxOrders || len(s.Faults) > maxFaults {
		return fmt.Errorf("the schedule takes %d orders and %d faults, more than %d and %d", orders, len(s.Faults), maxOrders, maxFaults)
	}
	return nil
}

// conclusive checks that a result rests on something: runs came to an end, the rules could be evaluated, and the path that the
// scenario is about was taken, as far as a Sometimes says so.
func conclusive(result *history.Result) error {
	var errs []error
	c := &result.Coverage
	if c.Inconclusive > 0 {
		errs = append(errs, fmt.Errorf("%s: %d of %d executions were inconclusive", result.Scenario, c.Inconclusive, c.Executions))
	}
	seen, sometimes := 0, 0
	for _, p := range c.Properties {
		if p.Invalid > 0 {
			errs = append(errs, fmt.Errorf("%s: %s is invalid: %s", result.Scenario, p.Property.Name, p.Error))
		}
		if p.Property.Type == property.Sometimes {
			sometimes++
			seen += min(p.Held, 1)
		}
	}
	if seen == 0 && sometimes > 0 {
		errs = append(errs, fmt.Errorf("%s: vacuous: no property of type Sometimes was ever seen to hold", result.Scenario))
	}
	for _, problem := range c.Problems {
		errs = append(errs, fmt.Errorf("%s: %s", result.Scenario, problem))
	}
	return errors.Join(errs...)
}
