package explore

import (
	"fmt"
	"slices"
)

// check reports what is wrong in a part that was read: what no unit comes to.
func (p *Part) check() error {
	wrong := func(what string) error { return fmt.Errorf("explore: part of %s: %s", p.Scenario, what) }
	t := &p.Tally
	if min(p.Units, t.Executions, t.Inconclusive, t.Skipped) < 0 {
		return wrong("units and executions: want none below zero")
	}
	for _, s := range t.Strategies {
		if !slices.Contains(strategies, s.Name) && !bySeed(s.Name) {
			return wrong(fmt.Sprintf("there is no strategy %.80q", s.Name))
		}
		if min(s.Executions, s.Findings, s.Candidates, s.Unmatched, s.Inconclusive, s.Shrinking) < 0 {
			return wrong(fmt.Sprintf("%s: want no counts below zero", s.Name))
		}
	}
	for _, c := range t.Properties {
		if c.Property == nil || min(c.Evaluations, c.Held, c.Broken, c.Invalid) < 0 {
			return wrong("properties: want one for each count, and none below zero")
		}
	}
	for i := range p.Failures {
		if f := &p.Failures[i]; f.Count < 1 || f.Place < 0 {
			return wrong(fmt.Sprintf("the failures of %s: want counts above zero, and places not below", f.Origin))
		}
	}
	return nil
}
