package simtest

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/stalemate-dev/stalemate/reports"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// World is a scenario for tests that choose the orders and faults of its runs themselves: with rapid, by fuzzing, or by
// hand. Several tests may use it, one after the other or at once.
type World struct {
	world     *sim.World
	scenario  *testCase
	byDefault *history.History
	points    int // at which the default order had a choice
	reorders  []schedule.Constraint
	faults    []schedule.Fault
	requests  []schedule.Event
	replayed  *Course
}

// NewWorld puts a scenario together and runs its default order once, which says what there is to reorder and to
// disturb. It fails the test where that is not possible. A scenario with a matrix is [Run]'s.
func NewWorld(t TB, subject Subject, opts ...Option) *World {
	t.Helper()
	c, err := loadOne(subject, opts)
	if err != nil {
		t.Fatalf("%v", err)
	}
	w, err := newWorld(c)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return w
}

func newWorld(c *testCase) (w *World, err error) {
	w = &World{scenario: c}
	if c.given.has("replay") {
		if err := w.readReplay(c.given.replay); err != nil {
			return nil, fmt.Errorf("-sim.replay: %w", err)
		}
		c = w.scenario
	}
	if w.world, err = sim.NewWorld(c.config); err != nil {
		return nil, explain(err)
	}
	points := &tape{}
	if w.byDefault, err = w.world.Run(sim.Plan{Strategy: points}); err != nil {
		return nil, explain(err)
	}
	w.points = points.points
	w.reorders, w.faults = explore.Candidates(w.byDefault, c.config)
	for i := w.byDefault.ScriptBegins; i < len(w.byDefault.Records); i++ {
		if e := w.byDefault.Records[i].Event; e.Verb.IsRequest() {
			w.requests = append(w.requests, e)
		}
	}
	return w, nil
}

// Default returns the history of the default order.
func (w *World) Default() *history.History { return w.byDefault }

// Reorders returns the constraints that turn round two conflicting steps of the default order, the most decisive first.
func (w *World) Reorders() []schedule.Constraint { return w.reorders }

// Faults returns the faults of the scenario's rules at each event of the default order that they match, and how many of
// them a run may have.
func (w *World) Faults() (faults []schedule.Fault, atMost int) {
	return w.faults, cmp.Or(w.scenario.config.Faults.Max, 1)
}

// Requests returns the names of the requests of the default order, which may come late: by up to the bound, or it would
// be a fault.
func (w *World) Requests() (names []schedule.Event, bound time.Duration) {
	return w.requests, w.scenario.config.Limits.HoldBound()
}

// Choices returns the number of points at which the default order has a choice.
func (w *World) Choices() int { return w.points }

// Replayed returns the course that -sim.replay asks for: the only one that generators are to draw.
func (w *World) Replayed() (course Course, ok bool) {
	if w.replayed == nil {
		return Course{}, false
	}
	return *w.replayed, true
}

// Run runs the scenario on a course.
func (w *World) Run(c Course) (*history.History, error) {
	h, err := w.world.Run(c.plan())
	if err != nil {
		return nil, explain(err)
	}
	return h, nil
}

// Check runs the scenario on a course, and fails the test if that breaks a property. The message ends with a line that
// runs it again.
func (w *World) Check(t TB, c Course) {
	t.Helper()
	switch f, err := w.Try(t, c); {
	case err != nil:
		t.Fatalf("%v", err)
	case f != nil:
		t.Errorf("%s\n\n%s", f.Summary, f.Report)
	}
}

// Failure is a run that broke a property.
type Failure struct {
	// Summary is one line that is the same for every run with the same bug.
	Summary string
	// Report tells the run, and ends with the line that runs it again.
	Report string
	Run    *history.History
}

// Try is [World.Check] for those who fail tests their own way, as rapid wants it. The failure is nil if nothing was
// broken. An error says that nothing can be said.
func (w *World) Try(t TB, c Course) (*Failure, error) {
	h, err := w.Run(c)
	if err != nil {
		return nil, err
	}
	if !h.Failed() {
		return nil, invalid(h)
	}
	result := w.result(c, h)
	if result.Command, err = w.line(t, c, result); err != nil {
		return nil, err
	}
	text, err := findingReport(result)
	if err != nil {
		return nil, err
	}
	summary := strings.ReplaceAll(explore.Signature(h), "\n", "; ")
	return &Failure{Summary: fmt.Sprintf("%s: broken: %s", result.Scenario, summary), Report: text, Run: h}, nil
}

func findingReport(result *history.Result) (string, error) {
	var text strings.Builder
	err := reports.Finding(&text, result, 0, reports.Options{Width: reportWidth})
	return strings.TrimSpace(text.String()), err
}

// result returns what a report of one run needs.
func (w *World) result(c Course, h *history.History) *history.Result {
	result := &history.Result{Header: w.scenario.header, Default: w.byDefault}
	result.Coverage.Executions = 1
	s := c.Schedule
	result.Findings = []history.Finding{{
		Signature: explore.Signature(h), Strategy: reports.HandDrawn, Execution: 1, Run: h, Schedule: &s,
	}}
	return result
}

// invalid returns an error if a rule could not be evaluated in a run.
func invalid(h *history.History) error {
	for _, v := range h.Verdicts {
		if v.Status == property.Invalid {
			return fmt.Errorf("property %s is invalid: %s: mend the rule %q", v.Property.Name, v.Error, v.Property.Rule)
		}
	}
	return nil
}

// readReplay reads what -sim.replay asks for. A schedule may have reconcilers and properties of its own.
func (w *World) readReplay(text string) error {
	if isInline(text) {
		course, err := parseCourse(text)
		if err != nil {
			return err
		}
		w.replayed = &course
		return nil
	}
	s, err := w.scenario.loadSchedule(fromRoot(text))
	if err != nil {
		return err
	}
	if s == nil {
		return fmt.Errorf("%s is a schedule of another scenario", text)
	}
	w.replayed = &Course{Schedule: *s.Spec}
	w.scenario, err = w.scenario.withSchedule(s)
	return err
}

// line returns the line that runs a course again: by the schedule in a file, if the test was asked to write one, and
// else by the course itself.
func (w *World) line(t TB, c Course, result *history.Result) (string, error) {
	if w.replayed != nil {
		return line(t, "-sim.replay="+w.scenario.given.replay), nil // which may say what a course does not
	}
	inline := line(t)
	if text := c.inline(); text != "" {
		inline = line(t, "-sim.replay="+text)
	}
	folder, err := w.scenario.artifacts(t)
	if err != nil || folder == nil {
		return inline, err
	}
	finding := &result.Findings[0]
	if finding.Schedule, err = w.pin(c, finding.Run); err != nil {
		return "", err
	}
	files := folder.findings(w.scenario, func(file string) string {
		if finding.Schedule.Trace != nil {
			return "" // a course has no trace
		}
		return replayLine(t, file)
	})
	if files == nil {
		return inline, nil
	}
	result.Command = inline
	return cmp.Or(files.ReplayLine(result)(finding), inline), files.Finish(result)
}

// pin returns the schedule of a course. Choices have no words in one: they are written as what they came to, or where that
// does not break the same, as a trace.
func (w *World) pin(c Course, h *history.History) (*schedule.Schedule, error) {
	s := c.Schedule
	if len(c.Choices) == 0 {
		return &s, nil
	}
	plan := c.plan()
	plan.Record = true
	recorded, err := w.world.Run(plan)
	if err != nil {
		return nil, err
	}
	if err := explore.Compare(h, recorded); err != nil {
		return nil, err
	}
	pinned, _, err := explore.Pin(w.world, recorded)
	return pinned, err
}
