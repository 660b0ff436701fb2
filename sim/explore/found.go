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
// about. A run that a strategy steered is shrunk first, unless a finding accounts for it as it is; in a unit it is only taken
// note of.
func (x *explorer) found(ctx context.Context, plan sim.Plan, h *history.History) error {
	if x.unit != nil && steered(x.strategy.Name) {
		x.met(plan, h)
		return nil
	}
	finding := history.Finding{
		Signature: Signature(h), Strategy: x.strategy.Name, Seed: plan.Seed, Execution: x.tally.Executions,
		Elapsed: x.now().Sub(x.begun), Run: h,
	}
	switch {
	case x.playing != nil:
		played := *x.playing
		finding.Schedule = &played
	case bySeed(x.strategy.Name):
		findings := x.result.Findings
		if i := slices.IndexFunc(findings, func(f history.Finding) bool { return accountsFor(&f, h) }); i >= 0 {
			findings[i].Also++
			return nil
		}
		if err := x.pinDown(ctx, &finding); err != nil {
			return err
		}
	case len(plan.Constraints)+len(plan.Faults) > 0:
		finding.Schedule = &schedule.Schedule{Constraints: plan.Constraints, Faults: plan.Faults, Origin: x.sweptOrigin(plan)}
	}
	return x.file(&finding)
}

// met takes note of a run of a unit that failed.
func (x *explorer) met(plan sim.Plan, h *history.History) {
	f := failureOf(h)
	f.Origin = x.origin(plan)
	if f.Origin.Strategy == Corpus {
		f.Schedule = x.playing
	}
	x.unit.met(f, h)
}

// steered reports whether what a strategy finds is to be shrunk: runs by seed, and those of a corpus.
func steered(strategy string) bool { return strategy == Corpus || bySeed(strategy) }

// sweptOrigin says where the schedule of a swept plan comes from. What is swept is minimal. Without a single element the run is the
// default run, which does not fail in that way, or the finding would be that of the default run. Of two, the one that revealed
// the other was run alone and broke nothing, and the other one does not find its event alone.
func (x *explorer) sweptOrigin(plan sim.Plan) schedule.Origin {
	size := len(plan.Constraints) + len(plan.Faults)
	return schedule.Origin{Strategy: x.strategy.Name, Seed: plan.Seed, Size: size, Minimal: true}
}

// file puts a finding with those of the same bug, or adds it.
func (x *explorer) file(finding *history.Finding) error {
	findings := x.result.Findings
	i := slices.IndexFunc(findings, func(f history.Finding) bool { return sameBug(&f, finding) })
	if i >= 0 && !explainsBetter(finding.Run, findings[i].Run) {
		findings[i].Also++
		return nil
	}
	if err := x.complete(finding); err != nil {
		return err
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

// complete adds to the schedule of a finding, unless it has it, what its run comes to, and its trace.
func (x *explorer) complete(finding *history.Finding) error {
	s := finding.Schedule
	if s == nil || s.Expect.Hash == finding.Run.Hash {
		return nil
	}
	return complete(x.recorder, s, finding.Run)
}

// explainsBetter reports whether a run's order came about, and that of another one with the same failure did not.
func explainsBetter(h, known *history.History) bool {
	return len(h.Constraints) > 0 && matched(h) && !matched(known)
}

// matched reports whether every constraint of a run was.
func matched(h *history.History) bool {
	return !slices.ContainsFunc(h.Constraints, func(c history.ConstraintResult) bool { return !c.Matched })
}

// sameBug reports whether two findings are one.
func sameBug(known, other *history.Finding) bool { return bugOf(known).same(bugOf(other)) }

// bug is what tells findings apart.
type bug struct {
	signature, broken string
	elements          []string
}

func bugOf(f *history.Finding) bug {
	return bug{f.Signature, brokenWith(f.Run), elementsOf(f.Schedule)}
}

// same reports whether another finding is the same bug: they have one signature; or the other one needs all that the known one
// needs, which may be nothing in particular, to break the same with the same values.
func (b bug) same(other bug) bool {
	return b.signature == other.signature || b.broken == other.broken && contains(other.elements, b.elements)
}

// contains reports whether a list has all elements of another.
func contains(list, all []string) bool {
	return !slices.ContainsFunc(all, func(e string) bool { return !slices.Contains(list, e) })
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

// accountsFor reports whether a run that is not shrunk may be put down to a known finding, see [Failure.accountsFor].
func accountsFor(known *history.Finding, h *history.History) bool {
	f := failureOf(known.Run)
	if known.Schedule == nil {
		f.Origin.Strategy = DefaultOrder
	}
	other := failureOf(h)
	return f.accountsFor(&other)
}
