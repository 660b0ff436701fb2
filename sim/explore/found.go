package explore

import (
	"context"
	"fmt"
	"slices"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// found files a run that failed: with the finding it is the same bug as, or as a new one, with the schedule that brings it
// about. A run that a strategy steered is shrunk first, unless a finding accounts for it as it is.
func (x *explorer) found(ctx context.Context, plan sim.Plan, h *history.History) error {
	finding := history.Finding{
		Signature: Signature(h), Strategy: x.strategy.Name, Seed: plan.Seed, Execution: x.coverage.executions,
		Elapsed: x.now().Sub(x.begun), Run: h,
	}
	switch {
	case x.playing != nil:
		played := *x.playing
		finding.Schedule = &played
	case slices.Contains(seeded, x.strategy.Name):
		findings := x.result.Findings
		if i := slices.IndexFunc(findings, func(f history.Finding) bool { return accountsFor(&f, h) }); i >= 0 {
			findings[i].Also++
			return nil
		}
		if err := x.pinDown(ctx, &finding); err != nil {
			return err
		}
	case len(plan.Constraints)+len(plan.Faults) > 0:
		finding.Schedule = &schedule.Schedule{Constraints: plan.Constraints, Faults: plan.Faults, Origin: x.origin(plan)}
	}
	return x.file(&finding)
}

// origin says where the schedule of a swept plan comes from. What is swept is minimal. Without a single element the run is the
// default run, which does not fail in that way, or the finding would be that of the default run. Of two, the one that revealed
// the other was run alone and broke nothing, and the other one does not find its event alone.
func (x *explorer) origin(plan sim.Plan) schedule.Origin {
	size := len(plan.Constraints) + len(plan.Faults)
	return schedule.Origin{Strategy: x.strategy.Name, Seed: plan.Seed, Size: size, Minimal: true}
}

// file puts a finding with those of the same bug, or adds it. A run whose order came about as the plan says explains a
// finding better than one that was only delayed, and takes its place.
func (x *explorer) file(finding *history.Finding) error {
	findings := x.result.Findings
	i := slices.IndexFunc(findings, func(f history.Finding) bool { return sameBug(&f, finding) })
	if i >= 0 && !explainsBetter(finding.Run, findings[i].Run) {
		findings[i].Also++
		return nil
	}
	if s := finding.Schedule; s != nil && s.Expect.Hash != finding.Run.Hash {
		if err := complete(x.world, s, finding.Run); err != nil {
			return err
		}
	}
	if i < 0 {
		i = len(findings)
		x.result.Findings = append(findings, *finding)
	} else {
		finding.Also = findings[i].Also + 1
		findings[i] = *finding
	}
	if x.options.Found == nil {
		return nil
	}
	return x.options.Found(&x.result.Findings[i])
}

// explainsBetter reports whether a run's order came about, and that of another one with the same failure did not.
func explainsBetter(h, known *history.History) bool {
	return len(h.Constraints) > 0 && matched(h) && !matched(known)
}

// matched reports whether every constraint of a run was.
func matched(h *history.History) bool {
	return !slices.ContainsFunc(h.Constraints, func(c history.ConstraintResult) bool { return !c.Matched })
}

// sameBug reports whether two findings are one: they have one signature; or the other one needs all that the known one
// needs, which may be nothing in particular, to break the same with the same values.
func sameBug(known, other *history.Finding) bool {
	return known.Signature == other.Signature || brokenWith(known.Run) == brokenWith(other.Run) && needs(other, known)
}

// needs reports whether a finding's schedule has all elements that another one's has.
func needs(f, all *history.Finding) bool {
	elements := elementsOf(f.Schedule)
	return !slices.ContainsFunc(elementsOf(all.Schedule), func(e string) bool { return !slices.Contains(elements, e) })
}

// elementsOf names the elements of a schedule; the default order has none.
func elementsOf(s *schedule.Schedule) []string {
	var names []string
	if s == nil {
		return names
	}
	for _, c := range s.Constraints {
		names = append(names, c.String())
	}
	for _, f := range s.Faults {
		names = append(names, f.String())
	}
	for _, l := range s.Latencies {
		names = append(names, latencyText(l))
	}
	for _, o := range s.Orders {
		names = append(names, fmt.Sprintf("%s, time %d, in order %d", o.At, o.Repeat+1, o.Order))
	}
	return names
}

// accountsFor reports whether a run that is not shrunk may be put down to a known finding: it fails in the same way, and had
// the same faults that no failing write shows, whatever else there was.
func accountsFor(known *history.Finding, h *history.History) bool {
	if known.Schedule == nil && brokenWith(known.Run) == brokenWith(h) {
		return true
	}
	had := unseenFaults(h)
	return failure(known.Run) == failure(h) &&
		!slices.ContainsFunc(unseenFaults(known.Run), func(fault string) bool { return !slices.Contains(had, fault) })
}
