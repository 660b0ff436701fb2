package simgomega_test

import (
	"strings"
	"testing"

	"github.com/onsi/gomega/types"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/simtest"
	"github.com/stalemate-dev/stalemate/sim/simtest/simgomega"
)

// explored is an exploration of ten executions, with a property that some of them broke.
func explored(broken int, hash uint64) *simtest.Exploration {
	verdict := property.Verdict{Property: &property.Definition{Name: "p", Rule: "false"}, Status: property.Broken}
	run := &history.History{Outcome: history.Terminal, Verdicts: []property.Verdict{verdict}}
	result := &history.Result{Header: history.Header{Scenario: "s"}, Command: "go test . -sim.seed=1", Hash: hash}
	result.Coverage.Executions = 10
	result.Coverage.Properties = []history.PropertyCoverage{
		{Property: verdict.Property, Evaluations: 10, Held: 10 - broken, Broken: broken},
		{Property: &property.Definition{Name: "held"}, Evaluations: 10, Held: 10},
		{Property: &property.Definition{Name: "unseen"}},
		{Property: &property.Definition{Name: "invalid"}, Evaluations: 1, Error: "no such key"},
	}
	if broken > 0 {
		result.Findings = []history.Finding{{Signature: "p", Run: run}}
	}
	return &simtest.Exploration{Result: result}
}

func TestMatchers(t *testing.T) {
	ok, broken := explored(0, 1), explored(3, 1)
	invalid := explored(0, 1)
	invalid.Coverage.Properties[3].Invalid = 1
	hashes := uint64(0)
	tests := []struct {
		name    string
		matcher types.GomegaMatcher
		actual  any
		matches bool
		err     string
		message []string // of the failure, or of the one if the match was not wanted
	}{
		{"passed", simgomega.Converge(), ok, true, "", []string{"s: passed in 10 executions", "not to converge"}},
		{"broken", simgomega.Converge(), broken, false, "",
			[]string{"Expected s: broken in 10 executions\nto converge\n", "FINDING 1 OF 1", "\n  go test . -sim.seed=1$"}},
		{"no exploration", simgomega.Converge(), 1, false, "*simtest.Exploration", nil},
		{"held", simgomega.HoldAlways("held"), broken, true, "", []string{"not to hold held in every execution"}},
		{"not held", simgomega.HoldAlways("p"), broken, false, "", []string{"to hold p in every execution", "-sim.seed=1$"}},
		{"no such property", simgomega.HoldAlways("q"), ok, false, `s has no property "q"`, nil},
		{"never looked at", simgomega.HoldAlways("unseen"), ok, false, "never looked at", nil},
		{"invalid", simgomega.HoldAlways("invalid"), invalid, false, "invalid is invalid: no such key", nil},
		{"reproducible", simgomega.BeReproducible(), func() *simtest.Exploration { return ok }, true, "",
			[]string{"not to come to the same"}},
		{"not reproducible", simgomega.BeReproducible(), func() *simtest.Exploration { hashes++; return explored(0, hashes) },
			false, "", []string{"to come to the same history hash"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			matches, err := test.matcher.Match(test.actual)
			if matches != test.matches || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Fatalf("matches: %v, %v; want %v, %q", matches, err, test.matches, test.err)
			}
			if err != nil {
				return
			}
			message := test.matcher.FailureMessage(test.actual)
			if matches {
				message = test.matcher.NegatedFailureMessage(test.actual)
			}
			for _, want := range test.message {
				if want, atEnd := strings.CutSuffix(want, "$"); !strings.Contains(message, want) || atEnd && !strings.HasSuffix(message, want) {
					t.Errorf("%q is not where it belongs in the message:\n%s", want, message)
				}
			}
		})
	}
}
