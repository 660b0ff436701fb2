package simtest

import (
	"testing"

	"github.com/stalemate-dev/stalemate/reports"
)

// Run explores a scenario as `stalemate run` does: the default order, the sweep, and random runs. It fails the test if
// a property is broken, and where nothing can be said: a rule that cannot be evaluated, an operator that is
// nondeterministic, runs that come to no end.
//
// Subtests are, within one for each entry of the scenario's matrix if it has one, one for each committed schedule of
// the scenario ("schedule=NAME"), and then "explore". Committed schedules are those in testdata/schedules beside the
// test, and beside the scenario. Each tests what it expects: Holds, as `stalemate pin` has it, is a regression test;
// Violated is the record of a known bug, and fails once the bug is gone, or breaks something else. A schedule that is
// stale fails, unless it says whenUnmatched: Ignore. A known bug is no excuse for what the exploration finds.
//
// The reconcilers of [Replace] come before those of a schedule, and these before those of the scenario. The record of a
// bug is skipped where the test replaces the reconcilers that it was recorded with.
func Run(t *testing.T, subject Subject, opts ...Option) {
	t.Helper()
	cases, err := load(subject, opts)
	if err != nil {
		t.Fatal(err)
	}
	if cases[0].given.has("replay") {
		runReplay(t, cases)
		return
	}
	for _, c := range cases {
		c.owner = t
		if c.scenario == nil || c.scenario.Entry == "" {
			c.run(t)
			continue
		}
		t.Run(c.scenario.Entry, c.run)
	}
}

// runReplay runs what -sim.replay asks for with the case that it is about.
func runReplay(t *testing.T, cases []*testCase) {
	t.Helper()
	for _, c := range cases {
		if c.runReplay(t) {
			return
		}
	}
	t.Skipf("%s is a schedule of another scenario", cases[0].given.replay)
}

// run runs one scenario.
func (c *testCase) run(t *testing.T) {
	t.Helper()
	c.runCommitted(t)
	t.Run("explore", func(t *testing.T) {
		t.Helper()
		result, err := c.explore(t.Context(), t)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case result.Verdict() != reports.Passed:
			t.Errorf("%s: %s\n\n%s", result.Scenario, result.Verdict(), result.Report())
		case c.given.verbose:
			t.Logf("%s", result.Report())
		}
	})
}
