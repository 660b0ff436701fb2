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
// Two findings are ways to one bug if they break something in common, and what they need has a site in common. What is broken are
// properties, or detectors where no property is, and the function that panics. A site is a verb on a kind of objects by a controller,
// whatever the object's name, the reconcile key, the start of the process, and how often it came up; of an element, those of processes
// count, or else those of racers. What needs nothing is a way to all that breaks something in common with it. All that is connected
// through others is one group.
//
// The assumption is that an operator has one place in its code for a verb on a kind. Where it has two with a bug each that break
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
	if !intersect(brokenThings(a.Run), brokenThings(b.Run)) {
		return false
	}
	sites, others := sitesOf(a.Schedule), sitesOf(b.Schedule)
	return len(sites) == 0 || len(others) == 0 || intersect(sites, others)
}

func intersect(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// brokenThings names what a run broke: a function that panicked, and properties, or else detectors.
func brokenThings(h *history.History) []string {
	var things, detected []string
	if h.Outcome == history.Panicked {
		things = append(things, panicSignature(h.Panic))
	}
	for _, v := range h.Broken() {
		if v.Property.Type == property.Detector {
			detected = append(detected, v.Property.Name)
		} else {
			things = append(things, v.Property.Name)
		}
	}
	if len(things) == 0 {
		return detected
	}
	return things
}

// sitesOf returns the sites of what a schedule needs. Elements that a person wrote as selectors have none.
func sitesOf(s *schedule.Schedule) []string {
	if s == nil {
		return nil
	}
	var sites []string
	for _, c := range s.Constraints {
		if c.Order == nil {
			sites = append(sites, elementSites(c.Event, c.Waits)...)
		}
	}
	for _, f := range s.Faults {
		if f.Select == nil {
			sites = append(sites, elementSites(f.At)...)
		}
	}
	for _, l := range s.Latencies {
		sites = append(sites, elementSites(l.At)...)
	}
	for _, o := range s.Orders {
		sites = append(sites, elementSites(o.At)...)
	}
	return sites
}

// elementSites returns the sites of the events of an element: of steps of processes, or of racers where it has none of those.
func elementSites(events ...schedule.Event) []string {
	var own, others []string
	for _, e := range events {
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
