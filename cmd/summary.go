package cmd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/stalemate-dev/stalemate/reports"
	"github.com/stalemate-dev/stalemate/sim/history"
)

// summed is the line of a summary: how one scenario or schedule came out.
type summed struct {
	verdict reports.Verdict
	name    string
	broken  []string // names of properties
	again   string   // the command line that shows it again
}

// sum takes note of how a scenario or schedule came out.
func (a *app) sum(verdict reports.Verdict, name, again string, runs ...*history.History) {
	line := summed{verdict: verdict, name: name, again: again}
	for _, h := range runs {
		for _, v := range h.Broken() {
			if !slices.Contains(line.broken, v.Property.Name) {
				line.broken = append(line.broken, v.Property.Name)
			}
		}
		if panicked := "panic in Reconcile"; h.Outcome == history.Panicked && !slices.Contains(line.broken, panicked) {
			line.broken = append(line.broken, panicked)
		}
	}
	a.summary = append(a.summary, line)
}

// summarize prints a line for each of several scenarios or schedules, so that nobody has to look for their reports.
func (a *app) summarize() error {
	if len(a.summary) < 2 {
		return nil
	}
	if _, err := fmt.Fprint(a.stdout, "\nSUMMARY\n"); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, line := range a.summary {
		_, _ = fmt.Fprintf(w, "  %s %s\t%s\t%s\t%s\n", marks[line.verdict], line.verdict, line.name, // Flush has the error
			cmp.Or(strings.Join(line.broken, ", "), "-"), line.again)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

// marks are what reports begin with.
var marks = map[reports.Verdict]string{
	reports.InvalidProperty: "!", reports.Nondeterministic: "!", reports.Broken: "✗", reports.Stale: "?", reports.Inconclusive: "?",
	reports.Passed: "✓",
}
