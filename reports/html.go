package reports

import (
	"io"

	"github.com/stalemate-dev/stalemate/sim/history"
)

// HTMLOptions say what an HTML report holds. This file only stands in for the one of the HTML report, and is to be replaced by it.
type HTMLOptions struct {
	// Findings is the number of findings that are told with their timelines, the others getting what decides; 12 if zero.
	Findings int
	// Replay, if set, returns the command line that replays a finding; empty if there is none.
	Replay func(*history.Finding) string
}

// HTML writes the report of a result as one HTML file.
func HTML(w io.Writer, r *history.Result, _ HTMLOptions) error {
	_, err := io.WriteString(w, "<!doctype html><title>"+r.Scenario+"</title>\n")
	return err
}
