package history_test

import (
	"testing"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
)

// TestFailed checks what makes a run a finding: a broken property or a panic, and nothing else.
func TestFailed(t *testing.T) {
	verdict := func(s property.Status) property.Verdict {
		return property.Verdict{Property: &property.Definition{Name: string(s)}, Status: s}
	}
	tests := []struct {
		name   string
		h      history.History
		failed bool
		broken int
	}{
		{"nothing", history.History{}, false, 0},
		{"all others", history.History{Outcome: history.Terminal, Verdicts: []property.Verdict{
			verdict(property.Held), verdict(property.NotExercised), verdict(property.Invalid)}}, false, 0},
		{"broken", history.History{Verdicts: []property.Verdict{
			verdict(property.Broken), verdict(property.Held), verdict(property.Broken)}}, true, 2},
		{"panicked", history.History{Outcome: history.Panicked}, true, 0},
		{"livelock", history.History{Outcome: history.Livelock}, false, 0},
		{"inconclusive", history.History{Outcome: history.Inconclusive}, false, 0},
	}
	for _, test := range tests {
		if got := test.h.Failed(); got != test.failed {
			t.Errorf("%s: failed is %v, want %v", test.name, got, test.failed)
		}
		if got := test.h.Broken(); len(got) != test.broken {
			t.Errorf("%s: %d are broken, want %d", test.name, len(got), test.broken)
		}
		result := history.Result{}
		if test.failed {
			result.Findings = append(result.Findings, history.Finding{Run: &test.h})
		}
		if result.Failed() != test.failed {
			t.Errorf("%s: the result has failed: %v, want %v", test.name, result.Failed(), test.failed)
		}
	}
}
