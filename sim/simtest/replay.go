package simtest

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stalemate-dev/stalemate/reports"
	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// runCommitted runs the committed schedules of a case, each as a subtest.
func (c *testCase) runCommitted(t *testing.T) {
	t.Helper()
	files, err := c.scheduleFiles()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		s, err := c.loadSchedule(file)
		if err == nil && s == nil {
			continue // another scenario's
		}
		t.Run("schedule="+strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), func(t *testing.T) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			c.runSchedule(t, s)
		})
	}
}

// runSchedule runs a committed schedule. The record of a bug is about the reconcilers that it was recorded with: it says nothing
// to a test that replaces them. A test that all properties hold is one of whatever reconcilers the test runs.
func (c *testCase) runSchedule(t *testing.T, s *scenarios.Schedule) {
	t.Helper()
	if other := c.replacedOf(s); other != "" && s.Spec.Expect.Outcome == schedule.Violated {
		t.Skipf("%s is the record of a bug of %s, which this test replaces", s.Path, other)
	}
	own, told, err := c.replay(s)
	if err != nil {
		t.Fatal(err)
	}
	switch wrong, report := regression(told), own.replayReport(told, line(t)); {
	case wrong != "":
		t.Errorf("%s: %s\n\n%s", own.header.Scenario, wrong, report)
	case own.given.verbose:
		t.Logf("%s", report)
	case told.Run.Failed():
		t.Logf("%s still shows the bug that it is the record of", s.Path)
	}
}

// replacedOf returns a reconciler that a schedule was recorded with and that the test replaces; empty if there is none.
func (c *testCase) replacedOf(s *scenarios.Schedule) string {
	for _, controller := range s.Scenario.Manifest.Spec.Controllers {
		recorded := cmp.Or(s.Reconcilers[controller.Name], controller.Reconciler)
		if replaced, ok := c.options.overrides[controller.Name]; ok && replaced != recorded {
			return controller.Name + "=" + recorded
		}
	}
	return ""
}

// regression says why a committed schedule fails its test; it is empty if it does not. What a schedule expects is what
// is tested: one that expects Violated is the record of a known bug, and passes as long as the bug is there.
func regression(p reports.Replayed) string {
	verdict, expect := reports.JudgeReplay(&history.Result{}, p), p.Schedule.Expect
	switch {
	case verdict == reports.InvalidProperty || verdict == reports.Stale:
		return string(verdict)
	case expect.Outcome != schedule.Violated:
		if verdict == reports.Passed {
			return ""
		}
		return string(verdict)
	case p.Outcome == history.Reproduced:
		return ""
	case p.Outcome == history.ReproducedDifferently:
		return "broken, but not in the way that the schedule is the record of: look at the report, and pin it anew"
	case p.Matched < p.Elements: // and unmatched elements are to be ignored
		return ""
	default:
		return "the bug that this schedule is the record of seems fixed: set spec.expect.outcome to Holds, and drop what it expects besides"
	}
}

// withSchedule returns the case with the reconcilers and properties of a schedule. What the test replaces comes first.
func (c *testCase) withSchedule(s *scenarios.Schedule) (*testCase, error) {
	config, err := s.Config(&c.options.registry, c.options.overrides)
	if err != nil {
		return nil, err
	}
	if config, err = c.options.configured(config); err != nil {
		return nil, err
	}
	own := *c
	own.scenario, own.config, own.replaced = s.Scenario, config, s.Replaced(c.options.overrides)
	own.header = s.Scenario.Header(config, own.replaced)
	return &own, nil
}

// replay runs a schedule of this case. It returns the case with the schedule, too.
func (c *testCase) replay(s *scenarios.Schedule) (*testCase, reports.Replayed, error) {
	own, err := c.withSchedule(s)
	if err != nil {
		return nil, reports.Replayed{}, err
	}
	world, err := sim.NewWorld(own.config)
	if err != nil {
		return nil, reports.Replayed{}, explain(err)
	}
	told := reports.Replayed{File: s.Path, Times: 1}
	if told.Replay, err = explore.Replay(world, s.Spec, false); err != nil {
		return nil, reports.Replayed{}, explain(err)
	}
	if !told.Run.Failed() && s.Spec.Trace != nil && s.Spec.Expect.Outcome == schedule.Violated {
		// What a strategy did cannot always be expressed by elements.
		traced, err := explore.Replay(world, s.Spec, true)
		if err != nil {
			return nil, reports.Replayed{}, explain(err)
		}
		if traced.Diverged == "" && traced.Run.Failed() {
			told.Replay, told.Exact = traced, true
		}
	}
	told.Whole = told.Run.Failed()
	return own, told, nil
}

// replayReport returns the report of a replay, which ends with a line.
func (c *testCase) replayReport(p reports.Replayed, line string) string {
	var text strings.Builder
	result := &history.Result{Header: c.header, Command: line}
	if err := reports.Replay(&text, result, p, reports.Options{Width: reportWidth}); err != nil {
		return err.Error() + "\n" + line
	}
	return strings.TrimSpace(text.String())
}

// isInline reports whether a value of -sim.replay is a line of JSON, and not the name of a file.
func isInline(text string) bool { return strings.HasPrefix(strings.TrimSpace(text), "{") }

// runReplay runs what -sim.replay asks for, in place of everything else. It reports whether that is about this case.
func (c *testCase) runReplay(t *testing.T) bool {
	t.Helper()
	if isInline(c.given.replay) {
		w, err := newWorld(c)
		if err != nil {
			t.Fatal(err)
		}
		course, _ := w.Replayed()
		w.Check(t, course)
		return true
	}
	s, err := c.loadSchedule(fromRoot(c.given.replay))
	if err != nil {
		t.Fatal(fmt.Errorf("-sim.replay: %w", err))
	}
	if s == nil {
		return false
	}
	own, told, err := c.replay(s)
	if err != nil {
		t.Fatal(err)
	}
	verdict := reports.JudgeReplay(&history.Result{}, told)
	report := own.replayReport(told, line(t, "-sim.replay="+c.given.replay))
	if verdict != reports.Passed {
		t.Errorf("%s: %s\n\n%s", own.header.Scenario, verdict, report)
	} else {
		t.Logf("%s", report)
	}
	return true
}
