package reports

import (
	"slices"

	"github.com/stalemate-dev/stalemate/sim/history"
)

// Verdict says how an exploration came out.
type Verdict string

// The verdicts, in order of precedence: the first that applies is the result's.
const (
	// InvalidProperty means that evaluating a rule failed: the rule must be mended before anything can be said.
	InvalidProperty Verdict = "invalid property"
	// Nondeterministic means that one schedule, executed twice, gave two histories.
	Nondeterministic Verdict = "nondeterministic"
	// Broken means that there is a finding.
	Broken Verdict = "broken"
	// Inconclusive means that every execution ran into a limit.
	Inconclusive Verdict = "inconclusive"
	// Passed means that all properties held in every execution that came to an end.
	Passed Verdict = "passed"
)

// Judge says how a result came out. An exploration without a single execution is inconclusive.
func Judge(r *history.Result) Verdict {
	invalid := func(p history.PropertyCoverage) bool { return p.Invalid > 0 }
	switch {
	case slices.ContainsFunc(r.Coverage.Properties, invalid):
		return InvalidProperty
	case r.Diverged != "":
		return Nondeterministic
	case r.Failed():
		return Broken
	case r.Coverage.Inconclusive >= r.Coverage.Executions:
		return Inconclusive
	default:
		return Passed
	}
}
