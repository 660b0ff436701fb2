package explore

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// coverage gathers what a verdict rests on.
type coverage struct {
	executions   int
	inconclusive int
	properties   []history.PropertyCoverage
	writes       map[string]bool // the operator's writes, and whether one was ever overtaken
	denied       []history.Denial
	gaps         map[string]bool
	problems     map[string]int // in how many executions each came up
	faults       *sim.Faults
	rules        []history.RuleResult
	struck       map[schedule.FaultType]bool
}

func newCoverage(config *sim.Config) *coverage {
	c := &coverage{writes: map[string]bool{}, gaps: map[string]bool{}, problems: map[string]int{},
		faults: &config.Faults, struck: map[schedule.FaultType]bool{}}
	for i := range config.Faults.Rules {
		c.rules = append(c.rules, history.RuleResult{Name: config.Faults.Rules[i].Name})
	}
	definitions := append(config.Properties.Definitions(), config.Detectors.Definitions()...)
	for i := range definitions {
		c.properties = append(c.properties, history.PropertyCoverage{Property: &definitions[i]})
	}
	return c
}

func (c *coverage) add(h *history.History) {
	c.executions++
	if (h.Outcome == history.Inconclusive || h.Outcome == history.Livelock) && !h.Failed() { // else it says something
		c.inconclusive++
	}
	for i, v := range h.Verdicts {
		p := &c.properties[i]
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
	c.denied = history.MergeDenials(c.denied, h.Denied)
	for _, gap := range h.Gaps {
		c.gaps[gap] = true
	}
	for _, problem := range slices.Compact(slices.Sorted(slices.Values(h.Problems))) {
		c.problems[problem]++
	}
	c.addWrites(h)
	c.addFaults(h)
}

// addFaults counts what the fault rules did.
func (c *coverage) addFaults(h *history.History) {
	for i, rule := range h.Rules {
		c.rules[i].Eligible += rule.Eligible
		c.rules[i].Struck += rule.Struck
	}
	for i := range h.Faults {
		if h.Faults[i].Struck {
			c.struck[h.Faults[i].Type] = true
		}
	}
}

// addWrites notes which writes of the operator that rest on a read were overtaken: another actor committed to their object
// between that read and the write.
func (c *coverage) addWrites(h *history.History) {
	for j := range h.Records {
		r := &h.Records[j]
		if r.Event.Incarnation == 0 || !r.Event.Verb.IsWrite() || r.ReadsFrom < 0 {
			continue
		}
		name := r.Event.Actor + " " + string(r.Event.Verb) + " " + r.Event.Object()
		c.writes[name] = c.writes[name] || overtaken(h, r, j)
	}
}

func overtaken(h *history.History, write *history.Record, at int) bool {
	for i := write.ReadsFrom + 1; i < at; i++ {
		other := &h.Records[i]
		if other.Committed != 0 && other.Event.Actor != write.Event.Actor && history.Touch(other, write) {
			return true
		}
	}
	return false
}

func (c *coverage) result(standard *history.History) history.Coverage {
	result := history.Coverage{Executions: c.executions, Inconclusive: c.inconclusive, Properties: c.properties,
		Denied: c.denied, Gaps: slices.Sorted(maps.Keys(c.gaps))}
	for name, raced := range c.writes {
		if !raced {
			result.NeverRaced = append(result.NeverRaced, name)
		}
	}
	slices.Sort(result.NeverRaced)
	for _, problem := range slices.Sorted(maps.Keys(c.problems)) {
		if c.problems[problem] == c.executions {
			result.Problems = append(result.Problems, problem)
		}
	}
	result.Rules, result.Notes = c.rules, c.faultNotes()
	if standard.Outcome == history.Terminal {
		result.Notes = append(result.Notes, "a state counts as terminal after "+standard.Horizon.String()+
			" of virtual time without a commit")
	}
	return result
}

// faultNotes say which faults a pass says nothing of.
func (c *coverage) faultNotes() []string {
	if len(c.rules) == 0 {
		return []string{"the scenario has no fault rules: no errors, lost responses, crashes, or caches that lag longer than a hold"}
	}
	var notes []string
	had := map[schedule.FaultType]bool{}
	for i, rule := range c.rules {
		if rule.Eligible == 0 {
			notes = append(notes, fmt.Sprintf("fault rule %s is vacuous: nothing that happened matches it", rule.Name))
		}
		for _, f := range c.faults.Rules[i].Faults {
			had[f.Type] = true
			if note := fmt.Sprintf("fault rule %s: %s never struck", rule.Name, f.Type); rule.Eligible > 0 && !c.struck[f.Type] &&
				!slices.Contains(notes, note) {
				notes = append(notes, note)
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
