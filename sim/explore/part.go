package explore

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Part is what one unit came to, or several: parts merge, see [Merge]. But for histories it is encoded as JSON; those are in
// [Part.Bodies], and are put back by [Part.Attach].
type Part struct {
	// Units counts the units that the part is of.
	Units int `json:"units"`
	// Scenario is the scenario's name, Seed that of the exploration's options.
	Scenario string `json:"scenario"`
	Seed     int64  `json:"seed"`
	Tally    Tally  `json:"tally"`
	// Failures are the ways in which runs failed, in the order in which they are findings: one for each signature.
	Failures []Failure `json:"failures,omitempty"`
	// Shrunk are what ShrinkUnits came to, in the order of their origins.
	Shrunk []Shrinkage `json:"shrunk,omitempty"`
	// Novel are the runs that showed what no run before them had shown, in the order of their origins.
	Novel []Novelty `json:"novel,omitempty"`

	kept    []*history.Finding // for each of Failures; nil for those that are not kept
	shrunk  []*history.Finding // for each of Shrunk; nil for those that are not kept
	replays []history.Replay
	run     *history.History // in the default order
}

// Failure is a way in which runs fail: what tells runs apart before anything is shrunk.
type Failure struct {
	// Signature is that of the run as it was met, see [Signature]. Broken and Failing are parts of it: what was broken, with which
	// values; and that with the last writes that failed. Faults are those that struck and that no failing write shows.
	Signature string   `json:"signature"`
	Broken    string   `json:"broken"`
	Failing   string   `json:"failing"`
	Faults    []string `json:"faults,omitempty"`
	// Class is the signature without values, see [MaxWays].
	Class string `json:"class"`
	// Origin is the first run that failed so, and Count how many did.
	Origin Origin `json:"origin"`
	Count  int    `json:"count"`
	// Kept says that the history of that run was kept. The part has it as long as a finding may need it, see [Part.Bodies].
	Kept bool `json:"kept,omitempty"`
	// Place is the place among the findings of a SweepUnit, from 1; zero for others. Elements are those of its schedule as it was found.
	Place    int      `json:"place,omitempty"`
	Elements []string `json:"elements,omitempty"`
	// Schedule is the schedule of a corpus that brought the run about.
	Schedule *schedule.Schedule `json:"schedule,omitempty"`
}

// MaxWays is how many findings there are at most, from runs by seed, of failures that differ only in the values that broken rules read:
// a list of revisions may have any length, and each would be shrunk. Those that come first are shrunk; of others a part has the first run
// of each, by its origin, and they count for the first finding of their class.
const MaxWays = 3

func failureOf(h *history.History) Failure {
	class := append(brokenProperties(h), slices.Concat(lastFailures(h), unseenFaults(h))...)
	if h.Outcome == history.Panicked {
		class = append(class, panicSignature(h.Panic))
	}
	return Failure{Signature: Signature(h), Broken: brokenWith(h), Failing: failure(h), Faults: unseenFaults(h),
		Class: strings.Join(class, "\n"), Count: 1}
}

// accountsFor reports whether a run that is not shrunk may be put down to a known failure: it fails in the same way, and had the
// same faults that no failing write shows, whatever else there was. What the default order breaks needs nothing.
func (f *Failure) accountsFor(other *Failure) bool {
	if f.Origin.Strategy == DefaultOrder && f.Broken == other.Broken {
		return true
	}
	return f.Failing == other.Failing && contains(other.Faults, f.Faults)
}

// compareFailures orders failures as they are findings: those of sweeps first, in their order, and then by their origins.
func compareFailures(a, b *Failure) int {
	if a.Place > 0 && b.Place > 0 {
		return cmp.Compare(a.Place, b.Place)
	}
	return cmp.Or(cmp.Compare(b.Place, a.Place), CompareOrigins(a.Origin, b.Origin), strings.Compare(a.Signature, b.Signature))
}

// CompareOrigins orders origins by strategy, as [Run] takes them, but for those of runs by seed, which go by their seeds.
func CompareOrigins(a, b Origin) int {
	rank := func(o Origin) int {
		if bySeed(o.Strategy) {
			return len(strategies)
		}
		return slices.Index(strategies, o.Strategy)
	}
	byExecution := cmp.Compare(a.Execution, b.Execution)
	if bySeed(a.Strategy) {
		byExecution = 0
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), byExecution, cmp.Compare(a.Seed, b.Seed), strings.Compare(a.Strategy, b.Strategy))
}

// Shrinkage is what a ShrinkUnit came to.
type Shrinkage struct {
	// Origin is that of the failure.
	Origin Origin `json:"origin"`
	// Kept says that the part has the history of the shrunk run; else it could not be shrunk, as that ends the process.
	Kept bool `json:"kept,omitempty"`
}

// Merge puts parts of one exploration together. Its result does not depend on their order, nor on how they were put together before;
// no unit may be in two of them. It leaves the parts as they are.
func Merge(parts ...*Part) *Part {
	m := &Part{}
	for _, p := range parts {
		if p.Units == 0 {
			continue
		}
		if m.Units == 0 || p.Seed < m.Seed {
			m.Seed = p.Seed
		}
		m.Units += p.Units
		m.Scenario = max(m.Scenario, p.Scenario)
		m.Tally.add(&p.Tally)
		for i := range p.Failures {
			m.addFailure(p.Failures[i], bodyAt(p.kept, i))
		}
		for i := range p.Shrunk {
			m.addShrunk(p.Shrunk[i], bodyAt(p.shrunk, i))
		}
		if m.run == nil {
			m.run = p.run
		}
		m.replays = append(m.replays, p.replays...)
	}
	m.Novel = mergeNovelties(parts)
	for i, needed := range m.needed() {
		if !needed {
			m.kept[i] = nil
		}
	}
	return m
}

// bodyAt returns one of the findings of a part, nil if they have not been attached.
func bodyAt(findings []*history.Finding, i int) *history.Finding {
	if findings == nil {
		return nil
	}
	return findings[i]
}

// addFailure adds a failure, with its body if it is kept, at its place. Of those with one signature the first stands for all,
// and one that is kept comes before all that are not.
func (p *Part) addFailure(f Failure, body *history.Finding) {
	if i := slices.IndexFunc(p.Failures, func(known Failure) bool { return known.Signature == f.Signature }); i >= 0 {
		known := p.Failures[i]
		total := known.Count + f.Count
		if known.Kept && !f.Kept || known.Kept == f.Kept && compareFailures(&known, &f) <= 0 {
			f, body = known, bodyAt(p.kept, i)
		}
		f.Count = total
		p.Failures, p.kept = slices.Delete(p.Failures, i, i+1), slices.Delete(p.kept, i, i+1)
	}
	i, _ := slices.BinarySearchFunc(p.Failures, f, func(a, b Failure) int { return compareFailures(&a, &b) })
	p.Failures, p.kept = slices.Insert(p.Failures, i, f), slices.Insert(p.kept, i, body)
}

// addShrunk adds what was shrunk, at its place.
func (p *Part) addShrunk(s Shrinkage, body *history.Finding) {
	i, known := slices.BinarySearchFunc(p.Shrunk, s, func(a, b Shrinkage) int {
		return CompareOrigins(a.Origin, b.Origin)
	})
	switch {
	case !known:
		p.Shrunk, p.shrunk = slices.Insert(p.Shrunk, i, s), slices.Insert(p.shrunk, i, body)
	case s.Kept && !p.Shrunk[i].Kept:
		p.Shrunk[i], p.shrunk[i] = s, body
	}
}

// minimal reports whether no other failure accounts for one.
func (p *Part) minimal(f *Failure) bool {
	return !slices.ContainsFunc(p.Failures, func(other Failure) bool {
		return other.Signature != f.Signature && other.accountsFor(f)
	})
}

// chosen returns the indexes of the failures that are to be findings, in their order: those of sweeps, and of others those that are
// among the first MaxWays of their class, and minimal. What is chosen of two parts together was chosen of one of them, as there are no
// fewer before it, and no fewer that account for it, than there are in its own.
func (p *Part) chosen() []int {
	var chosen []int
	ways := map[string]int{}
	for i := range p.Failures {
		f := &p.Failures[i]
		ways[f.Class]++
		if f.Place > 0 || f.Kept && ways[f.Class] <= MaxWays && p.minimal(f) {
			chosen = append(chosen, i)
		}
	}
	return chosen
}

// needed reports for each failure whether a finding may need its history, in the part or in one that it is merged into. It does not once
// the run was shrunk; nor if another failure accounts for it, or MaxWays that are kept come before it in its class: what is merged
// takes none of them away, and lets them only begin earlier. So what a part takes on disk and in memory is bounded by the ways in which
// its runs fail, and not by how many units came upon them.
func (p *Part) needed() []bool {
	needed := make([]bool, len(p.Failures))
	ways := map[string]int{}
	for i := range p.Failures {
		f := &p.Failures[i]
		if !f.Kept {
			continue
		}
		ways[f.Class]++
		if f.Place > 0 {
			needed[i] = true
			continue
		}
		at := p.shrunkFrom(f)
		needed[i] = (at < 0 || !p.Shrunk[at].Kept) && ways[f.Class] <= MaxWays && p.minimal(f)
	}
	return needed
}

// Known returns the failures that account for others: what other units should know, see [Unit.Known].
func (p *Part) Known() []Failure {
	var known []Failure
	for _, i := range p.chosen() {
		f := p.Failures[i]
		f.Schedule, f.Elements = nil, nil
		known = append(known, f)
	}
	return known
}

// Pending returns the units that shrink what has to be shrunk and is not, in the order of their origins. What has to be shrunk depends
// on the runs that failed only, and not on what others were shrunk to: so the shards of an exploration have shrunk, once nothing is
// pending in any of them, all that is needed when their parts are merged.
func (p *Part) Pending() []Unit {
	var units []Unit
	for _, i := range p.chosen() {
		f := &p.Failures[i]
		if f.Place > 0 || p.shrunkFrom(f) >= 0 {
			continue
		}
		unit := Unit{Kind: ShrinkUnit, Origin: &f.Origin}
		if f.Schedule != nil {
			unit.Schedules = []*schedule.Schedule{f.Schedule}
		}
		units = append(units, unit)
	}
	return units
}

// shrunkFrom returns the index of what a failure was shrunk to, -1 if it was not.
func (p *Part) shrunkFrom(f *Failure) int {
	return slices.IndexFunc(p.Shrunk, func(s Shrinkage) bool { return s.Origin == f.Origin })
}

// Result returns what the exploration came to so far. Of its header only the scenario's name is known. Executions are numbered as
// if one exploration had executed all units in order; Elapsed is zero, and the Hash is the sum of those of all executions.
//
// Findings are those of the sweeps, and then those of runs by seed and of a corpus, each as it was shrunk, or as it was met where it
// was not. What accounts for a run that failed, and which findings are one, is decided as [Run] does, with one difference: Run
// knows only what came before, so that it may have a finding more where a run came up later that accounts for it.
func (p *Part) Result() *history.Result {
	r := &history.Result{Header: history.Header{Scenario: p.Scenario}, Seed: p.Seed, Default: p.run, Replays: p.replays,
		Strategies: p.Tally.Strategies, Coverage: p.Tally.coverage(), Hash: p.Tally.Hash}
	l := &ledger{byFailure: map[string]int{}, byClass: map[string]int{}}
	for _, i := range p.chosen() {
		if f := &p.Failures[i]; f.Place > 0 {
			l.add(f, bodyAt(p.kept, i), f.Elements)
		} else {
			p.fileSteered(l, f, bodyAt(p.kept, i))
		}
	}
	for i := range p.Failures {
		l.account(&p.Failures[i])
	}
	for i := range l.entries {
		r.Findings = append(r.Findings, l.entries[i].finding)
		number(&r.Findings[i], p)
	}
	return r
}

// fileSteered files a failure of a run by seed, or of a corpus, as it was shrunk.
func (p *Part) fileSteered(l *ledger, f *Failure, body *history.Finding) {
	if i := p.shrunkFrom(f); i >= 0 && bodyAt(p.shrunk, i) != nil {
		body = p.shrunk[i]
	}
	if body != nil && !l.accounted(f) {
		l.file(f, body)
	}
}

// number gives a finding the number of its execution in an exploration that executes all in order.
func number(f *history.Finding, p *Part) {
	if !steered(f.Strategy) {
		return
	}
	before := 0
	for _, s := range p.Tally.Strategies {
		if !bySeed(s.Name) && s.Name != f.Strategy {
			before += s.Executions
		}
	}
	if bySeed(f.Strategy) {
		f.Execution = before + int(f.Seed-p.Seed) + 1
	} else {
		f.Execution += before
	}
}

// ledger is where the failures of parts become findings.
type ledger struct {
	entries []entry
	// byFailure has the index of the entry that a failure was filed as, by its signature, and byClass that of the first of its class.
	byFailure, byClass map[string]int
}

// filed takes note of the entry that a failure was filed as.
func (l *ledger) filed(f *Failure, i int) {
	l.byFailure[f.Signature] = i
	if _, known := l.byClass[f.Class]; !known {
		l.byClass[f.Class] = i
	}
}

// entry is a finding, with what tells it from others.
type entry struct {
	finding history.Finding
	failure Failure
	bug     bug
}

// add adds a finding. Elements are those that tell it from others.
func (l *ledger) add(f *Failure, body *history.Finding, elements []string) {
	if body == nil {
		return
	}
	e := entry{finding: *body, failure: failureOf(body.Run), bug: bug{body.Signature, brokenWith(body.Run), elements}}
	e.finding.Also = -1 // it is the first of itself
	if body.Schedule == nil {
		e.failure.Origin.Strategy = DefaultOrder
	}
	l.filed(f, len(l.entries))
	l.entries = append(l.entries, e)
}

// accounted reports whether a finding accounts for a failure, and takes note of which.
func (l *ledger) accounted(f *Failure) bool {
	i := slices.IndexFunc(l.entries, func(e entry) bool { return e.failure.accountsFor(f) })
	if i >= 0 {
		l.filed(f, i)
	}
	return i >= 0
}

// file adds a finding, unless it is the same bug as another one.
func (l *ledger) file(f *Failure, body *history.Finding) {
	b := bugOf(body)
	i := slices.IndexFunc(l.entries, func(e entry) bool { return e.bug.same(b) })
	switch {
	case i < 0:
		l.add(f, body, b.elements)
	case explainsBetter(body.Run, l.entries[i].finding.Run):
		e := &l.entries[i]
		also := e.finding.Also
		e.finding, e.failure, e.bug = *body, failureOf(body.Run), b
		e.finding.Also = also
		l.filed(f, i)
	default:
		l.filed(f, i)
	}
}

// account adds the runs that failed in one way to the finding that they are put down to: the one it was filed as, or one that
// accounts for it, or else the first of its class, or that breaks the same. What accounted for it before that was shrunk need not do so
// after.
func (l *ledger) account(f *Failure) {
	i, known := l.byFailure[f.Signature]
	if !known {
		i = slices.IndexFunc(l.entries, func(e entry) bool { return e.failure.accountsFor(f) })
	}
	if first, known := l.byClass[f.Class]; i < 0 && known {
		i = first
	}
	if i < 0 {
		i = slices.IndexFunc(l.entries, func(e entry) bool { return e.bug.broken == f.Broken })
	}
	if i >= 0 {
		l.entries[i].finding.Also += f.Count
	}
}

// Bodies returns what JSON does not carry: findings with their histories, replays and the default run. It is to be encoded beside
// the part. What no finding can need any more is left out.
func (p *Part) Bodies() *history.Result {
	bodies := &history.Result{Header: history.Header{Scenario: p.Scenario}, Seed: p.Seed, Default: p.run, Replays: p.replays}
	for i, needed := range p.needed() {
		if f := bodyAt(p.kept, i); needed && f != nil {
			bodies.Findings = append(bodies.Findings, *f)
		}
	}
	for _, f := range p.shrunk {
		if f != nil {
			bodies.Findings = append(bodies.Findings, *f)
		}
	}
	return bodies
}

// Attach puts back what [Part.Bodies] returned. It is an error if that is not of this part.
func (p *Part) Attach(bodies *history.Result) error {
	if err := p.check(); err != nil {
		return err
	}
	left := bodies.Findings
	next := func(has bool, origin Origin) (*history.Finding, error) {
		if !has {
			return nil, nil
		}
		if len(left) == 0 {
			return nil, fmt.Errorf("explore: part of %s: the finding of %s is missing", p.Scenario, origin)
		}
		f := &left[0]
		if f.Strategy != origin.Strategy || f.Seed != origin.Seed {
			return nil, fmt.Errorf("explore: part of %s: a finding is of %s, seed %d, want %s", p.Scenario, f.Strategy, f.Seed, origin)
		}
		left = left[1:]
		return f, nil
	}
	kept, shrunk := make([]*history.Finding, len(p.Failures)), make([]*history.Finding, len(p.Shrunk))
	var err error
	for i, needed := range p.needed() {
		if kept[i], err = next(needed, p.Failures[i].Origin); err != nil {
			return err
		}
	}
	for i := range p.Shrunk {
		if shrunk[i], err = next(p.Shrunk[i].Kept, p.Shrunk[i].Origin); err != nil {
			return err
		}
	}
	if len(left) > 0 {
		return fmt.Errorf("explore: part of %s: %s too many", p.Scenario, count(len(left), "finding"))
	}
	p.kept, p.shrunk, p.replays, p.run = kept, shrunk, bodies.Replays, bodies.Default
	return nil
}
