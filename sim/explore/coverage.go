package explore

import (
	"maps"
	"slices"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
)

// coverage gathers what a verdict rests on.
type coverage struct {
	executions   int
	inconclusive int
	properties   []history.PropertyCoverage
	writes       map[string]bool // the operator's writes, and whether one was ever overtaken
	gaps         map[string]bool
	problems     map[string]int // in how many executions each came up
}

func newCoverage(config *sim.Config) *coverage {
	c := &coverage{writes: map[string]bool{}, gaps: map[string]bool{}, problems: map[string]int{}}
	definitions := config.Properties.Definitions()
	for i := range definitions {
		c.properties = append(c.properties, history.PropertyCoverage{Property: &definitions[i]})
	}
	return c
}

func (c *coverage) add(h *history.History) {
	c.executions++
	if h.Outcome == history.Inconclusive || h.Outcome == history.Livelock {
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
	for _, gap := range h.Gaps {
		c.gaps[gap] = true
	}
	for _, problem := range slices.Compact(slices.Sorted(slices.Values(h.Problems))) {
		c.problems[problem]++
	}
	c.addWrites(h)
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
		if other.Committed != 0 && other.Event.Actor != write.Event.Actor && touch(other, write) {
			return true
		}
	}
	return false
}

func (c *coverage) result(standard *history.History) history.Coverage {
	result := history.Coverage{Executions: c.executions, Inconclusive: c.inconclusive, Properties: c.properties,
		Gaps: slices.Sorted(maps.Keys(c.gaps))}
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
	result.Notes = []string{
		"no faults are injected yet: no errors, lost responses, crashes, or caches that lag longer than a hold",
	}
	if standard.Outcome == history.Terminal {
		result.Notes = append(result.Notes, "a state counts as terminal after "+standard.Horizon.String()+
			" of virtual time without a commit")
	}
	return result
}
