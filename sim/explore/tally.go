package explore

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Tally counts what was explored, and what a verdict rests on. Tallies of one scenario add up, in any order; the zero value adds
// nothing.
type Tally struct {
	Executions   int `json:"executions"`
	Inconclusive int `json:"inconclusive,omitempty"`
	// Skipped counts the executions that were left out, see [Unit.Skip].
	Skipped int `json:"skipped,omitempty"`
	// Hash is the sum of the hashes of the histories.
	Hash uint64 `json:"hash"`
	// Strategies are the accounts of the strategies, in the order in which [Run] takes them.
	Strategies []history.StrategyResult   `json:"strategies,omitempty"`
	Properties []history.PropertyCoverage `json:"properties,omitempty"`
	// Writes are the operator's writes that rest on a read, and whether one was ever overtaken.
	Writes map[string]bool  `json:"writes,omitempty"`
	Denied []history.Denial `json:"denied,omitempty"`
	// Gaps and Problems count in how many executions each came up.
	Gaps     map[string]int `json:"gaps,omitempty"`
	Problems map[string]int `json:"problems,omitempty"`
	Rules    []RuleTally    `json:"rules,omitempty"`
	// Struck counts the faults that struck, by their types, those of no rule among them.
	Struck map[schedule.FaultType]int `json:"struck,omitempty"`
	// Sites have what the faults of rules did at each call site, sorted.
	Sites []history.SiteResult `json:"sites,omitempty"`
	// Notes are further limits of what was explored, in sentences, sorted.
	Notes []string `json:"notes,omitempty"`

	sites map[siteKey]*history.SiteResult // those of Sites, while runs are counted
}

// siteKey is what the counts of a site are kept by.
type siteKey struct {
	rule  string
	typ   schedule.FaultType
	event schedule.Event
}

// RuleTally counts what a fault rule did.
type RuleTally struct {
	history.RuleResult
	// Types are the types of its faults, in their order and without repeats.
	Types []schedule.FaultType `json:"types,omitempty"`
}

func newTally(config *sim.Config) *Tally {
	t := &Tally{Writes: map[string]bool{}, Gaps: map[string]int{}, Problems: map[string]int{},
		Struck: map[schedule.FaultType]int{}, sites: map[siteKey]*history.SiteResult{}}
	for i := range config.Faults.Rules {
		rule := RuleTally{RuleResult: history.RuleResult{Name: config.Faults.Rules[i].Name}}
		for _, f := range config.Faults.Rules[i].Faults {
			if !slices.Contains(rule.Types, f.Type) {
				rule.Types = append(rule.Types, f.Type)
			}
		}
		t.Rules = append(t.Rules, rule)
	}
	definitions := append(config.Properties.Definitions(), config.Detectors.Definitions()...)
	for i := range definitions {
		t.Properties = append(t.Properties, history.PropertyCoverage{Property: &definitions[i]})
	}
	return t
}

// count counts a run.
func (t *Tally) count(h *history.History) {
	t.Executions++
	t.Hash += h.Hash
	if (h.Outcome == history.Inconclusive || h.Outcome == history.Livelock) && !h.Failed() { // else it says something
		t.Inconclusive++
	}
	for i, v := range h.Verdicts {
		p := &t.Properties[i]
		p.Evaluations += v.Evaluations
		switch v.Status {
		case property.Held:
			p.Held++
		case property.Broken:
			p.Broken++
		case property.Invalid:
			p.Invalid++
			if p.Error == "" {
				p.Error = v.Error
			}
		case property.NotExercised:
		}
	}
	t.Denied = history.MergeDenials(t.Denied, h.Denied)
	for _, gap := range h.Gaps {
		t.Gaps[gap]++
	}
	for _, problem := range slices.Compact(slices.Sorted(slices.Values(h.Problems))) {
		t.Problems[problem]++
	}
	t.countWrites(h)
	t.countFaults(h)
}

// countFaults counts what the fault rules did.
func (t *Tally) countFaults(h *history.History) {
	for i, rule := range h.Rules {
		t.Rules[i].Eligible += rule.Eligible
		t.Rules[i].Struck += rule.Struck
	}
	for i := range h.Faults {
		if h.Faults[i].Struck {
			t.Struck[h.Faults[i].Type]++
		}
	}
	for i := range h.Sites {
		s := &h.Sites[i]
		at := siteKey{s.Rule, s.Type, s.Site}
		sum := t.sites[at]
		if sum == nil {
			sum = &history.SiteResult{Rule: s.Rule, Type: s.Type, Site: s.Site}
			t.sites[at] = sum
		}
		sum.Eligible += s.Eligible
		sum.Struck += s.Struck
	}
}

// countWrites notes which writes of the operator that rest on a read were overtaken.
func (t *Tally) countWrites(h *history.History) {
	for j := range h.Records {
		r := &h.Records[j]
		if r.Event.Incarnation == 0 || !r.Event.Verb.IsWrite() || r.ReadsFrom < 0 {
			continue
		}
		name := r.Event.Actor + " " + string(r.Event.Verb) + " " + r.Event.Object()
		t.Writes[name] = t.Writes[name] || overtaker(h, j) >= 0
	}
}

// overtaker returns the index of the first commit of another actor to the object of a write between it and the read that it rests
// on, -1 if there is none.
func overtaker(h *history.History, at int) int {
	write := &h.Records[at]
	for i := write.ReadsFrom + 1; i < at; i++ {
		other := &h.Records[i]
		if other.Committed != 0 && other.Event.Actor != write.Event.Actor && history.Touch(other, write) {
			return i
		}
	}
	return -1
}

// close writes what was counted in a form that is encoded.
func (t *Tally) close() {
	for _, s := range t.sites {
		t.Sites = append(t.Sites, *s)
	}
	slices.SortFunc(t.Sites, history.CompareSites)
	t.sites = nil
}

// add adds another tally of the scenario.
func (t *Tally) add(other *Tally) {
	t.Executions += other.Executions
	t.Inconclusive += other.Inconclusive
	t.Skipped += other.Skipped
	t.Hash += other.Hash
	t.Strategies = mergeAccounts(t.Strategies, other.Strategies)
	t.Properties = mergeProperties(t.Properties, other.Properties)
	t.Writes = merged(t.Writes, other.Writes, func(a, b bool) bool { return a || b })
	t.Denied = history.MergeDenials(t.Denied, other.Denied)
	t.Gaps = merged(t.Gaps, other.Gaps, sum)
	t.Problems = merged(t.Problems, other.Problems, sum)
	t.Rules = mergeRules(t.Rules, other.Rules)
	t.Struck = merged(t.Struck, other.Struck, sum)
	t.Sites = history.MergeSites(t.Sites, other.Sites)
	t.Notes = slices.Compact(slices.Sorted(slices.Values(slices.Concat(t.Notes, other.Notes))))
}

func sum(a, b int) int { return a + b }

// merged returns a map with the entries of both, those of one key put together.
func merged[K comparable, V any](a, b map[K]V, together func(V, V) V) map[K]V {
	all := make(map[K]V, len(a)+len(b))
	maps.Copy(all, a)
	for key, value := range b {
		if other, both := all[key]; both {
			value = together(other, value)
		}
		all[key] = value
	}
	return all
}

func mergeAccounts(a, b []history.StrategyResult) []history.StrategyResult {
	all := slices.Clone(a)
	for _, s := range b {
		i := slices.IndexFunc(all, func(known history.StrategyResult) bool { return known.Name == s.Name })
		if i < 0 {
			all = append(all, s)
			continue
		}
		known := &all[i]
		known.Executions += s.Executions
		known.Findings += s.Findings
		known.Complete = known.Complete && s.Complete
		known.Scope = max(known.Scope, s.Scope)
		known.Candidates += s.Candidates
		known.Unmatched += s.Unmatched
		known.Inconclusive += s.Inconclusive
		known.Shrinking += s.Shrinking
	}
	slices.SortFunc(all, func(a, b history.StrategyResult) int {
		return cmp.Or(cmp.Compare(slices.Index(strategies, a.Name), slices.Index(strategies, b.Name)))
	})
	return all
}

// mergeProperties adds up what was seen of the properties of a scenario, which are the same in both unless one has none yet.
func mergeProperties(a, b []history.PropertyCoverage) []history.PropertyCoverage {
	if len(a) < len(b) {
		a, b = b, a
	}
	all := slices.Clone(a)
	for i, p := range b {
		all[i].Evaluations += p.Evaluations
		all[i].Held += p.Held
		all[i].Broken += p.Broken
		all[i].Invalid += p.Invalid
		if all[i].Error == "" || p.Error != "" && p.Error < all[i].Error {
			all[i].Error = p.Error
		}
	}
	return all
}

// mergeRules adds up what the rules of a scenario did, which are the same in both unless one has none yet.
func mergeRules(a, b []RuleTally) []RuleTally {
	if len(a) < len(b) {
		a, b = b, a
	}
	all := slices.Clone(a)
	for i, r := range b {
		all[i].Eligible += r.Eligible
		all[i].Struck += r.Struck
	}
	return all
}

// coverage returns the tally as results have it.
func (t *Tally) coverage() history.Coverage {
	c := history.Coverage{Executions: t.Executions, Inconclusive: t.Inconclusive, Properties: t.Properties,
		Denied: t.Denied, Gaps: slices.Sorted(maps.Keys(t.Gaps)), Sites: t.Sites}
	for name, raced := range t.Writes {
		if !raced {
			c.NeverRaced = append(c.NeverRaced, name)
		}
	}
	slices.Sort(c.NeverRaced)
	for _, problem := range slices.Sorted(maps.Keys(t.Problems)) {
		if t.Problems[problem] == t.Executions {
			c.Problems = append(c.Problems, problem)
		}
	}
	for _, rule := range t.Rules {
		c.Rules = append(c.Rules, rule.RuleResult)
	}
	c.Notes = append(t.faultNotes(), t.Notes...)
	return c
}

// faultNotes say which faults a pass says nothing of.
func (t *Tally) faultNotes() []string {
	if len(t.Rules) == 0 {
		return []string{"the scenario has no fault rules: no errors, lost responses, crashes, or caches that lag longer than a hold"}
	}
	var notes []string
	had := map[schedule.FaultType]bool{}
	for _, rule := range t.Rules {
		if rule.Eligible == 0 {
			notes = append(notes, fmt.Sprintf("fault rule %s is vacuous: nothing that happened matches it", rule.Name))
		}
		for _, typ := range rule.Types {
			had[typ] = true
			if rule.Eligible > 0 && t.Struck[typ] == 0 {
				notes = append(notes, fmt.Sprintf("fault rule %s: %s never struck", rule.Name, typ))
			}
		}
	}
	if note := absentNote(had); note != "" {
		notes = append(notes, note)
	}
	return notes
}

// absentNote says which types of faults no rule has, by whichever list is shorter; empty if rules have all.
func absentNote(had map[schedule.FaultType]bool) string {
	var present, absent []string
	for _, t := range schedule.FaultTypes() {
		if had[t] {
			present = append(present, string(t))
		} else {
			absent = append(absent, string(t))
		}
	}
	switch {
	case len(absent) == 0:
		return ""
	case len(absent) < len(present):
		return "no rule has these faults: " + strings.Join(absent, ", ")
	default:
		return "no rule has other faults than " + strings.Join(present, ", ")
	}
}
