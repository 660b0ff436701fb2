package explore

import (
	"fmt"
	"testing"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// TestBugs checks which findings are ways to one bug.
func TestBugs(t *testing.T) {
	parse := func(text string) schedule.Event {
		event, err := schedule.ParseEvent(text)
		if err != nil {
			t.Fatal(err)
		}
		if event.Actor == "op" {
			event.Incarnation = 1
		}
		return event
	}
	order := func(held, waits string) *schedule.Schedule {
		return &schedule.Schedule{Constraints: []schedule.Constraint{{Event: parse(held), Waits: parse(waits)}}}
	}
	fault := func(typ schedule.FaultType, at string) *schedule.Schedule {
		return &schedule.Schedule{Faults: []schedule.Fault{{Type: typ, At: parse(at)}}}
	}
	both := func(a, b *schedule.Schedule) *schedule.Schedule {
		return &schedule.Schedule{Constraints: append(a.Constraints, b.Constraints...), Faults: append(a.Faults, b.Faults...)}
	}
	breaks := func(s *schedule.Schedule, names ...string) history.Finding {
		h := &history.History{}
		for _, name := range names {
			p := &property.Definition{Name: name}
			if name == "Detected" {
				p.Type = property.Detector
			}
			h.Verdicts = append(h.Verdicts, property.Verdict{Property: p, Status: property.Broken})
		}
		return history.Finding{Run: h, Schedule: s}
	}
	const update, create = "op(default/a) Update ConfigMap default/a #2", "op(default/b) Create Secret default/b #1"
	other, user := "op(default/b) Update ConfigMap default/b #1", "user Patch ConfigMap default/a #1"
	tests := []struct {
		name     string
		findings []history.Finding
		want     string
	}{
		{"none", nil, "[]"},
		{"one site by another key and occurrence", []history.Finding{breaks(order(update, user), "p"),
			breaks(fault(schedule.Conflict, other), "p")}, "[[0 1]]"},
		{"two sites", []history.Finding{breaks(order(update, user), "p"), breaks(fault(schedule.Conflict, create), "p")}, "[[0] [1]]"},
		{"the racer's site is none where the operator has one", []history.Finding{breaks(order(update, user), "p"),
			breaks(order(create, user), "p")}, "[[0] [1]]"},
		{"racers' sites", []history.Finding{breaks(order("gc Delete Secret default/a #1", user), "p"),
			breaks(order("gc Delete Secret default/b #1", "kcm Get Pod default/a #1"), "p")}, "[[0 1]]"},
		{"racers' sites of an element without others", []history.Finding{breaks(order("gc Delete Secret default/a #1", user), "p"),
			breaks(both(order(create, user), order("gc Delete Secret default/b #1", "kcm Get Pod default/a #1")), "p")}, "[[0 1]]"},
		{"another property", []history.Finding{breaks(order(update, user), "p"), breaks(order(update, user), "q")}, "[[0] [1]]"},
		{"one property in common", []history.Finding{breaks(order(update, user), "p", "q"), breaks(order(update, user), "q", "r")},
			"[[0 1]]"},
		{"a property before a detector", []history.Finding{breaks(order(update, user), "Detected", "p"), breaks(order(update, user), "p")},
			"[[0 1]]"},
		{"a detector alone", []history.Finding{breaks(order(update, user), "Detected"), breaks(order(update, user), "p")}, "[[0] [1]]"},
		{"by way of a third", []history.Finding{breaks(order(update, user), "p"), breaks(fault(schedule.Invalid, create), "p"),
			breaks(both(order(update, user), fault(schedule.Invalid, create)), "p")}, "[[0 1 2]]"},
		{"nothing is needed", []history.Finding{breaks(order(update, user), "p"), breaks(fault(schedule.Invalid, create), "p"),
			breaks(nil, "p")}, "[[2 0 1]]"},
		{"the smallest stands for all", []history.Finding{breaks(both(order(update, user), order(other, user)), "p"),
			breaks(order(create, user), "p"), breaks(order(update, user), "p")}, "[[2 0] [1]]"},
	}
	for _, test := range tests {
		bugs := Bugs(test.findings)
		if got := fmt.Sprint(bugs); got != test.want {
			t.Errorf("%s: bugs are %s, want %s", test.name, got, test.want)
		}
	}
}
