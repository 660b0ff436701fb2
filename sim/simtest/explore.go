package simtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stalemate-dev/stalemate/reports"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
)

const (
	// shortCut is what -short divides the number of random runs by.
	shortCut = 5
	// reportWidth leaves room for the indentation of what a subtest says.
	reportWidth = 104
)

// Exploration is what an exploration came to.
type Exploration struct {
	// Result is all of it. Its Command is the line that shows the first finding again: by its schedule, if that was
	// written to a file, and else by exploring again.
	*history.Result
	// replay returns the line that replays a finding; nil if findings were written to no files.
	replay func(*history.Finding) string
}

// Verdict says how the exploration came out.
func (e *Exploration) Verdict() reports.Verdict { return reports.Judge(e.Result) }

// Report returns the report, which ends with the line that finds the same again.
func (e *Exploration) Report() string {
	var text strings.Builder
	if err := reports.Text(&text, e.Result, reports.Options{Width: reportWidth, Replay: e.replay}); err != nil {
		return err.Error() + "\n" + e.Command
	}
	return strings.TrimSpace(text.String())
}

// String says in a line how the exploration came out.
func (e *Exploration) String() string {
	return fmt.Sprintf("%s: %s in %d executions", e.Scenario, e.Verdict(), e.Coverage.Executions)
}

// GomegaString keeps Gomega from printing all of the histories.
func (e *Exploration) GomegaString() string { return e.String() }

// Explore explores a scenario and returns what it came to, for tests that judge for themselves. It fails the test where
// the scenario cannot be run, and where it has a matrix, which only [Run] goes through.
func Explore(t TB, subject Subject, opts ...Option) *Exploration {
	t.Helper()
	c, err := loadOne(subject, opts)
	if err != nil {
		t.Fatalf("%v", err)
	}
	c.owner = t
	e, err := c.explore(contextOf(t), t)
	if err != nil {
		t.Fatalf("%v", err)
	}
	if c.given.verbose {
		t.Logf("%s, history hash %016x", e, e.Hash)
	}
	return e
}

// explore explores the scenario. Its errors say what to do.
func (c *testCase) explore(ctx context.Context, t TB) (*Exploration, error) {
	t.Helper()
	if err := c.fitsDeadline(t); err != nil {
		return nil, err
	}
	result, err := explore.Run(ctx, c.config, c.budget())
	if err != nil {
		return nil, explain(err)
	}
	result.Header, result.Command = c.header, line(t, c.arguments(result)...)
	e := &Exploration{Result: result}
	return e, c.write(t, e)
}

// write writes what the exploration came to, if the test was asked to.
func (c *testCase) write(t TB, e *Exploration) error {
	t.Helper()
	folder, err := c.artifacts(t)
	if err != nil {
		return err
	}
	files := folder.findings(c, func(file string) string { return replayLine(c.owner, file) })
	if err := files.Finish(e.Result); err != nil {
		return err
	}
	if e.replay = files.ReplayLine(e.Result); e.replay != nil && len(e.Findings) > 0 {
		e.Command = cmp.Or(e.replay(&e.Findings[0]), e.Command)
	}
	return folder.report(t, e.Report())
}

// budget returns how far a test explores, as flags, variables and the test say. -short has no say in what flags and
// variables give.
func (c *testCase) budget() explore.Options {
	o := explore.Options{Seed: c.options.seed, Runs: c.options.runs, Clock: time.Now}
	if c.scenario != nil {
		o.ScriptSteps = c.scenario.Steps()
	}
	if o.Runs == notGiven {
		o.Runs = explore.DefaultRuns
	}
	if testing.Short() {
		o.Runs /= shortCut
	}
	if c.given.has("seed") {
		o.Seed = c.given.seed
	}
	switch {
	case c.given.has("runs"):
		o.Runs = c.given.runs
	case c.given.has("for"):
		o.For = c.given.budget
	}
	if o.Runs == 0 {
		o.Runs = -1 // none, where zero stands for the default
	}
	return o
}

// arguments returns the flags that make a test explore as far again. One that ended by time is repeated by number.
func (c *testCase) arguments(r *history.Result) []string {
	arguments := []string{"-sim.seed=" + strconv.FormatInt(r.Seed, 10)}
	switch {
	case c.given.has("runs"):
		arguments = append(arguments, "-sim.runs="+strconv.Itoa(c.given.runs))
	case c.given.has("for"):
		arguments = append(arguments, "-sim.runs="+strconv.Itoa(runsBySeed(r)))
	}
	return arguments
}

// runsBySeed returns how many random runs were made.
func runsBySeed(r *history.Result) int {
	runs := 0
	for _, s := range r.Strategies {
		if slices.Contains([]string{explore.PCT, explore.SelectivePCT, explore.RandomWalk}, s.Name) {
			runs += s.Executions
		}
	}
	return runs
}

// fitsDeadline checks that the tests' deadline leaves as much time as the exploration is to take: real time, and outside of all runs.
func (c *testCase) fitsDeadline(t TB) error {
	limited, ok := t.(interface{ Deadline() (time.Time, bool) })
	if !ok || !c.given.has("for") {
		return nil
	}
	if end, ok := limited.Deadline(); ok && time.Until(end) < c.given.budget {
		return fmt.Errorf("-sim.for=%s is longer than the time that go test leaves: add -timeout=0, or a longer one", c.given.budget)
	}
	return nil
}

// explain adds to an error what is needed to mend it.
func explain(err error) error {
	if stuck, ok := errors.AsType[*sim.StuckError](err); ok {
		return fmt.Errorf("%w\n\n%s", err, stuck.Stacks)
	}
	return err
}

// contextOf returns the context of a test.
func contextOf(t TB) context.Context {
	if c, ok := t.(interface{ Context() context.Context }); ok {
		return c.Context()
	}
	return context.Background()
}
