package explore

import (
	"fmt"
	"slices"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Bugs groups findings that to a person's eye are one bug. It returns their indexes: of each group the finding that stands for it
// first, which is the one that needs the fewest elements, of several the first; and then the other ways to it, in their order.
//
// Two findings are ways to one bug if they break the same in the first place, and what they need has a site in common. What is broken
// in the first place is the first broken property in the scenario's order, or the first detector where no property is broken, or the
// function that panics. A site is a verb on a kind of objects by a controller, whatever the object's name, the reconcile key, the
// start of the process, and how often it came up; those of processes count, and those of racers where there are no others. What needs
// nothing is a way to all that breaks the same. All that is connected through others is one group.
//
// The assumption is that an operator has one place in its code for a verb on a kind. Where it has two with a bug each that breaks
// the same property, the second bug is listed as another way to the first. So no finding is left out of a group, and it is found
// again, as a bug of its own, when the first is mended.
func Bugs(findings []history.Finding) [][]int {
	group := make([]int, len(findings)) // by the index of its first finding
	for i := range findings {
		group[i] = i
		for j := range i {
			if group[j] != group[i] && oneBug(&findings[j], &findings[i]) {
				first, second := min(group[i], group[j]), max(group[i], group[j])
				for k := range group[:i+1] {
					if group[k] == second {
						group[k] = first
					}
				}
			}
		}
	}
	var bugs [][]int
	for i := range findings {
		if group[i] != i {
			continue
		}
		var ways []int
		for j := range findings {
			if group[j] == i {
				ways = append(ways, j)
			}
		}
		least := slices.MinFunc(ways, func(a, b int) int { return needed(&findings[a]) - needed(&findings[b]) })
		bugs = append(bugs, slices.Insert(slices.DeleteFunc(ways, func(j int) bool { return j == least }), 0, least))
	}
	return bugs
}

// needed returns how many elements a finding needs.
func needed(f *history.Finding) int {
	if f.Schedule == nil {
		return 0
	}
	return f.Schedule.Size()
}

// oneBug reports whether two findings are ways to one bug, without a third.
func oneBug(a, b *history.Finding) bool {
	if primary(a.Run) != primary(b.Run) {
		return false
	}
	sites := sitesOf(a.Schedule)
	others := sitesOf(b.Schedule)
	if len(sites) == 0 || len(others) == 0 {
		return true
	}
	return slices.ContainsFunc(sites, func(s string) bool { return slices.Contains(others, s) })
}

// primary returns what a run broke in the first place.
func primary(h *history.History) string {
	if h.Outcome == history.Panicked {
		return panicSignature(h.Panic)
	}
	broken := h.Broken()
	if i := slices.IndexFunc(broken, func(v property.Verdict) bool { return v.Property.Type != property.Detector }); i >= 0 {
		return broken[i].Property.Name
	}
	if len(broken) > 0 {
		return broken[0].Property.Name
	}
	return ""
}

// sitesOf returns the sites of what a schedule needs: of steps of processes, or of others where there are none of those.
func sitesOf(s *schedule.Schedule) []string {
	if s == nil {
		return nil
	}
	var own, others []string
	for _, e := range eventsOf(s) {
		site := fmt.Sprintf("%s %s %s %s/%s", e.Actor, e.Controller, e.Verb, e.Kind, e.Subresource)
		if e.Incarnation > 0 {
			own = append(own, site)
		} else {
			others = append(others, site)
		}
	}
	if len(own) > 0 {
		return own
	}
	return others
}

// eventsOf returns the events that the elements of a schedule name. Elements that a person wrote as selectors name none.
func eventsOf(s *schedule.Schedule) []schedule.Event {
	var events []schedule.Event
	for _, c := range s.Constraints {
		if c.Order == nil {
			events = append(events, c.Event, c.Waits)
		}
	}
	for _, f := range s.Faults {
		if f.Select == nil {
			events = append(events, f.At)
		}
	}
	for _, l := range s.Latencies {
		events = append(events, l.At)
	}
	for _, o := range s.Orders {
		events = append(events, o.At)
	}
	return events
}
