package reports

import (
	"fmt"
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
	// Stale means that part of a schedule that was replayed found no event, and nothing was broken: neither a pass nor a finding.
	Stale Verdict = "stale"
	// Inconclusive means that every execution ran into a limit, or that the run in the default order, which all others
	// depart from, did not get anywhere: it did not come to rest, or every reconcile of a controller failed.
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
	case r.Coverage.Inconclusive >= r.Coverage.Executions, len(r.Coverage.Problems) > 0, len(doubts(r.Default)) > 0:
		return Inconclusive
	default:
		return Passed
	}
}

// doubts say, in sentences, why the run in the default order is no basis for a pass; there are none where it is one.
func doubts(d *history.History) []string {
	if d == nil {
		return nil
	}
	var all []string
	if d.Outcome == history.Livelock || d.Outcome == history.Inconclusive {
		all = append(all, fmt.Sprintf("The default order did not come to rest: %s after %s, at %s of virtual time: %s.",
			d.Outcome, count(d.Steps, "step"), clock(d.End), d.Reason))
	}
	for _, p := range d.Passes {
		if p.Failed > 0 && p.Failed == p.Total {
			all = append(all, failedPasses(d, p))
		}
	}
	return all
}

// failedPasses says how many passes of a controller failed in the default order.
func failedPasses(d *history.History, p history.Passes) string {
	name := p.Actor
	if slices.ContainsFunc(d.Passes, func(o history.Passes) bool { return o.Actor == p.Actor && o.Controller != p.Controller }) {
		name = controllerName(p.Actor, p.Controller)
	}
	return fmt.Sprintf("%s: %d of %s failed in the default order, last: %s", name, p.Failed, count(p.Total, "reconcile"), p.LastError)
}

// often reports whether a controller failed in half of its passes or more, though not in all.
func often(p history.Passes) bool { return p.Failed > 0 && p.Failed < p.Total && 2*p.Failed >= p.Total }
