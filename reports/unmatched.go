package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// whyUnmatched says for each element of a schedule that found no event what is missing, in the order of a replay's Unmatched:
// orders, faults, latencies. It is nil where the run does not tell.
func whyUnmatched(r *history.Replay) []string {
	var whys []string
	for _, c := range r.Run.Constraints {
		if !c.Matched {
			whys = append(whys, whyNotInOrder(r.Run, c))
		}
	}
	for _, f := range r.Run.Faults[:min(len(r.Run.Faults), len(r.Schedule.Faults))] {
		if !f.Struck {
			whys = append(whys, whyNoStrike(r.Run, f.Fault))
		}
	}
	for _, l := range r.Schedule.Latencies {
		if findWritten(r.Run, l.At) < 0 {
			whys = append(whys, noSuchEvent(r.Run, l.At))
		}
	}
	if len(whys) != len(r.Unmatched) {
		return nil
	}
	return whys
}

// whyNotInOrder says which side of an order is missing.
func whyNotInOrder(h *history.History, c history.ConstraintResult) string {
	held := findWritten(h, c.Event)
	switch {
	case c.Order != nil && c.Event == (schedule.Event{}):
		return "no event came up that it chooses to be held"
	case held < 0 && !c.Held:
		return noSuchEvent(h, c.Event)
	case c.Order != nil && c.Waits == (schedule.Event{}):
		return fmt.Sprintf("%s was held%s, but no event came that it chooses to wait for", c.Event, howLong(h, held))
	case findWritten(h, c.Waits) < 0:
		return fmt.Sprintf("held%s, but %s never came (limits.hold bounds that)%s", howLong(h, held), c.Waits, nearest(h, c.Waits))
	default:
		return fmt.Sprintf("held%s, but %s came only later (limits.hold bounds that)", howLong(h, held), c.Waits)
	}
}

// howLong says for how long the step at an index was held, if that is known.
func howLong(h *history.History, i int) string {
	if i < 0 || h.Records[i].Held <= 0 {
		return ""
	}
	return " for " + span(h.Records[i].Held)
}

// whyNoStrike says why a fault did not strike.
func whyNoStrike(h *history.History, f schedule.Fault) string {
	switch {
	case f.At == (schedule.Event{}):
		return "no event came up that its selector chooses"
	case findWritten(h, f.At) >= 0:
		return "the event came up, but the fault could not strike there: it had healed by then, or the step was another kind of call"
	default:
		return noSuchEvent(h, f.At)
	}
}

// noSuchEvent says that an event did not come up, and which did that have a name like it.
func noSuchEvent(h *history.History, e schedule.Event) string {
	return fmt.Sprintf("%s never came up%s", e, nearest(h, e))
}

// findWritten returns the index of the record of an event as it is written in a file, or -1.
func findWritten(h *history.History, e schedule.Event) int {
	return slices.IndexFunc(h.Records, func(r history.Record) bool { return r.Event.AsWritten() == e.AsWritten() })
}

const (
	// maxNear is how many names are told that are like one which did not come up.
	maxNear = 3
	// minLikeness is how like it they must be: of its kind, with its verb or its object at least.
	minLikeness = 8
)

// nearest tells the names of a run that are like one which did not come up, the most like first.
func nearest(h *history.History, e schedule.Event) string {
	type candidate struct {
		name     schedule.Event
		likeness int
	}
	var near []candidate
	seen := map[schedule.Event]bool{}
	for i := range h.Records {
		if name := h.Records[i].Event; !seen[name] && likeness(name, e) >= minLikeness {
			near = append(near, candidate{name, likeness(name, e)})
			seen[name] = true
		}
	}
	slices.SortStableFunc(near, func(a, b candidate) int { return cmp.Compare(b.likeness, a.likeness) })
	var names []string
	for _, c := range near[:min(len(near), maxNear)] {
		names = append(names, c.name.String())
	}
	if len(names) == 0 {
		return ""
	}
	return "; names like it that did: " + strings.Join(names, "; ")
}

// likeness says how much of its name an event shares with another one. Kind, verb and object tell the most.
func likeness(a, b schedule.Event) int {
	sum := 0
	for _, part := range []struct {
		same   bool
		weight int
	}{
		{a.Kind == b.Kind, 5}, {a.Verb == b.Verb, 3}, {a.Name == b.Name, 3}, {a.Actor == b.Actor, 2}, {a.Subresource == b.Subresource, 1},
		{a.Namespace == b.Namespace, 1}, {a.Controller == b.Controller && a.Key == b.Key, 1},
	} {
		if part.same {
			sum += part.weight
		}
	}
	return sum
}
