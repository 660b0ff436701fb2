package simtest

import (
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
		s, own, err := c.loadSchedule(file)
		if err == nil && s == nil {
			continue // another scenario's
		}
		t.Run("schedule="+strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), func(t *testing.T) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			told, err := own.replay(s)
			if err != nil {
				t.Fatal(err)
			}
			switch wrong, report := regression(told), own.replayReport(told, line(t)); {
			case wrong != "":
				t.Errorf("%s: %s\n\n%s", own.names.Scenario, wrong, report)
			case own.given.verbose:
				t.Logf("%s", report)
			case told.Run.Failed():
				t.Logf("%s still shows the bug that it is the record of", file)
			}
		})
	}
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

// replay runs a schedule, of this case.
func (c *testCase) replay(s *scenarios.Schedule) (reports.Replayed, error) {
	world, err := sim.NewWorld(c.config)
	if err != nil {
		return reports.Replayed{}, explain(err)
	}
	replayed, err := explore.Replay(world, s.Spec, false)
	if err != nil {
		return reports.Replayed{}, explain(err)
	}
	return reports.Replayed{Replay: replayed, File: s.Path, Times: 1, Whole: replayed.Run.Failed()}, nil
}

// replayReport returns the report of a replay, which ends with a line.
func (c *testCase) replayReport(p reports.Replayed, line string) string {
	result := &history.Result{Command: line}
	c.head(result)
	var text strings.Builder
	if err := reports.Replay(&text, result, p, reports.Options{}); err != nil {
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
	s, own, err := c.loadSchedule(fromRoot(c.given.replay))
	if err != nil {
		t.Fatal(fmt.Errorf("-sim.replay: %w", err))
	}
	if s == nil {
		return false
	}
	told, err := own.replay(s)
	if err != nil {
		t.Fatal(err)
	}
	verdict := reports.JudgeReplay(&history.Result{}, told)
	switch report := own.replayReport(told, line(t, "-sim.replay="+c.given.replay)); {
	case verdict != reports.Passed:
		t.Errorf("%s: %s\n\n%s", own.names.Scenario, verdict, report)
	default:
		t.Logf("%s", report)
	}
	return true
}
