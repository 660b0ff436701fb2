package reports

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
)

// closing writes what the verdict rests on, where it ends, and how to see it again.
func (t *text) closing() {
	t.covered()
	t.notCovered()
	t.heading("RUN IT AGAIN")
	t.linef("  %s", t.result.Command)
}

// covered says what was explored, and how each property fared.
func (t *text) covered() {
	if fields := t.coverage(); len(fields) > 0 {
		t.heading("COVERED")
		t.fields(fields)
	}
}

// coverage says what was explored, and how each property fared; nothing before the end, when it is not known.
func (t *text) coverage() []field {
	if len(t.result.Strategies)+len(t.result.Coverage.Properties) == 0 {
		return nil
	}
	var fields []field
	for _, s := range t.result.Strategies {
		fields = append(fields, field{s.Name, plain, strategyWords(s)})
		if s.Scope != "" {
			fields = append(fields, field{"", dim, s.Scope})
		}
	}
	var words []string
	for _, p := range t.result.Coverage.Properties {
		if p.Property.Type != property.Detector {
			words = append(words, propertyWords(p))
		}
	}
	fields = slices.Concat(fields, listed("properties", plain, words), listed("detectors", plain, t.detectors()))
	fired, never := ruleWords(t.result.Coverage.Rules)
	rules := append(listed("faults", plain, fired), listed("faults", yellow, never)...)
	for i := range rules {
		if i > 0 {
			rules[i].name = ""
		}
	}
	fields = append(fields, rules...)
	if t.result.Hash != 0 { // there is none before the end
		hash := fmt.Sprintf("%016x over %s", t.result.Hash, count(t.result.Coverage.Executions, "execution"))
		fields = append(fields, field{"history hash", plain, hash})
	}
	return fields
}

// listed makes fields of lines that share a name.
func listed(name string, s style, lines []string) []field {
	var fields []field
	for _, line := range lines {
		fields = append(fields, field{name, s, line})
		name = ""
	}
	return fields
}

// detectors says what the detectors came to: those that found nothing share a line.
func (t *text) detectors() []string {
	var lines, quiet []string
	for _, p := range t.result.Coverage.Properties {
		switch {
		case p.Property.Type != property.Detector:
		case p.Broken > 0:
			lines = append(lines, propertyWords(p))
		case exercised(p):
			quiet = append(quiet, p.Property.Name)
		}
	}
	if len(quiet) > 0 {
		lines = append(lines, "found nothing: "+strings.Join(quiet, ", "))
	}
	return lines
}

// strategyWords says how far a strategy came.
func strategyWords(s history.StrategyResult) string {
	words := []string{count(s.Executions, "execution")}
	switch {
	case s.Candidates > 0 && s.Complete:
		words = append(words, fmt.Sprintf("complete: all %d candidates", s.Candidates))
	case s.Name == "sweep" && s.Complete && s.Executions == 0:
		words = []string{"nothing to reorder: no two steps of different actors conflicted"}
	case s.Complete && s.Executions == 0:
		words = []string{"nothing to do: no event at which a fault could strike"}
	case s.Candidates > 0:
		words = append(words, fmt.Sprintf("NOT complete: %s", count(s.Candidates, "candidate")))
	case !s.Complete && s.Executions == 0:
		words = []string{"not run"}
	}
	if s.Unmatched > 0 {
		words = append(words, fmt.Sprintf("%d %s", s.Unmatched, unmatchedWords(s.Name)))
	}
	if s.Inconclusive > 0 {
		words = append(words, fmt.Sprintf("%d ran into a limit", s.Inconclusive))
	}
	if s.Findings > 0 {
		words = append(words, fmt.Sprintf("%d failed", s.Findings))
	}
	if s.Shrinking > 0 {
		words = append(words, fmt.Sprintf("%d more to shrink what was found", s.Shrinking))
	}
	return strings.Join(words, "; ")
}

// unmatchedWords say what it means that a candidate of a strategy was unmatched.
func unmatchedWords(strategy string) string {
	switch strategy {
	case "sweep":
		return "whose order did not come about"
	case "committed schedules":
		return "that do not fit any more"
	default:
		return "whose fault did not strike"
	}
}

// propertyWords says how a property fared over all executions.
func propertyWords(p history.PropertyCoverage) string {
	var how []string
	switch {
	case !exercised(p):
		how = append(how, "NEVER EXERCISED")
	case p.Property.Type == property.Sometimes:
		how = append(how, fmt.Sprintf("seen in %s", count(p.Held, "execution")))
	case p.Held > 0:
		how = append(how, fmt.Sprintf("held in %s", count(p.Held, "execution")))
	}
	if p.Broken > 0 && p.Property.Type != property.Sometimes {
		how = append(how, fmt.Sprintf("broken in %d", p.Broken))
	}
	if p.Invalid > 0 {
		how = append(how, fmt.Sprintf("invalid in %d", p.Invalid))
	}
	return fmt.Sprintf("%s (%s): %s", p.Property.Name, p.Property.Type, strings.Join(how, ", "))
}

// maxListed is how many lines a list of what is not covered has at most.
const maxListed = 12

// notCovered says where the verdict ends, so that a pass never looks stronger than it is.
func (t *text) notCovered() {
	limits := t.limits()
	if len(limits) == 0 {
		return
	}
	t.heading("NOT COVERED")
	for _, l := range limits {
		t.text("  - ", plain, l.words)
		for _, line := range l.list {
			t.text("      ", plain, line)
		}
	}
}

// limit is something that a verdict does not cover, with what belongs under it.
type limit struct {
	words string
	list  []string
}

// limits say where the verdict ends.
func (t *text) limits() []limit {
	c := &t.result.Coverage
	var lines []string
	var idle []string
	for _, p := range t.vacuous() {
		if p.Property.Type == property.Detector {
			idle = append(idle, p.Property.Name)
			continue
		}
		lines = append(lines, fmt.Sprintf("property %s was never exercised: it says nothing", p.Property.Name))
	}
	if len(idle) > 0 {
		lines = append(lines, "detectors that had nothing to judge: "+strings.Join(idle, ", "))
	}
	for _, s := range t.result.Strategies {
		if !s.Complete && s.Candidates > 0 {
			lines = append(lines, fmt.Sprintf("%s: the budget ended before all %d candidates were executed", s.Name, s.Candidates))
		}
	}
	if d := t.result.Default; d != nil {
		for _, p := range d.Passes {
			if often(p) {
				lines = append(lines, failedPasses(d, p))
			}
		}
	}
	if c.Inconclusive > 0 {
		lines = append(lines, fmt.Sprintf("%d of %s ran into a limit and say nothing about terminal states",
			c.Inconclusive, count(c.Executions, "execution")))
	}
	var all []limit
	for _, line := range append(lines, c.Notes...) {
		all = append(all, limit{words: line})
	}
	if len(c.NeverRaced) > 0 {
		words := "writes of the operator that no execution saw overtaken by another actor's:"
		all = append(all, limit{words, atMost(c.NeverRaced)})
	}
	if len(c.Gaps) > 0 {
		all = append(all, limit{"touched, but not modelled:", atMost(c.Gaps)})
	}
	return all
}

// atMost returns the first lines of a list, and says how many it left out.
func atMost(lines []string) []string {
	if more := len(lines) - maxListed; more > 0 {
		return append(slices.Clone(lines[:maxListed]), fmt.Sprintf("and %d more", more))
	}
	return lines
}
