package simrapid_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/clickhouse"
	"github.com/stalemate-dev/stalemate/sim/schedule"
	"github.com/stalemate-dev/stalemate/sim/simtest"
	"github.com/stalemate-dev/stalemate/sim/simtest/simrapid"
)

func worldOf(t *testing.T, file, variant string) *simtest.World {
	t.Helper()
	registry := &scenarios.Registry{}
	clickhouse.Register(registry)
	return simtest.NewWorld(t, simtest.Scenario("../../../scenarios/clickhouse/"+file), simtest.Registry(registry),
		simtest.Replace("operator", variant))
}

// TestCourses checks that what is drawn is within bounds, that all kinds of departures are, and nothing at all, too.
func TestCourses(t *testing.T) {
	w := worldOf(t, "recreate-errors.yaml", "clickhouse/buggy")
	courses := simrapid.Courses(w)
	_, atMost := w.Faults()
	_, bound := w.Requests()
	var reorders, faults, latencies, choices, nothing int
	for seed := range 200 {
		c := courses.Example(seed)
		s := &c.Schedule
		if len(s.Faults) > atMost {
			t.Errorf("%s\nhas more than %d faults", c, atMost)
		}
		seen := map[schedule.Event]bool{}
		for _, l := range s.Latencies {
			if l.For <= 0 || l.For > bound || seen[l.At] {
				t.Errorf("%s\nis out of bounds, or twice", c)
			}
			seen[l.At] = true
		}
		for i, choice := range c.Choices {
			if choice.At < 0 || choice.At >= w.Choices() || choice.Take < 1 || i > 0 && choice.At <= c.Choices[i-1].At {
				t.Errorf("%s\nis out of bounds, or not in order", c)
			}
		}
		reorders += len(s.Constraints)
		faults += len(s.Faults)
		latencies += len(s.Latencies)
		choices += len(c.Choices)
		if c.Size() == 0 {
			nothing++
		}
	}
	for what, n := range map[string]int{
		"constraints": reorders, "faults": faults, "latencies": latencies, "choices": choices, "empty courses": nothing,
	} {
		if n < 5 {
			t.Errorf("only %d %s in 200 courses", n, what)
		}
	}
}

// TestFixed checks that nothing is found in an operator that has been fixed.
func TestFixed(t *testing.T) {
	rapid.Check(t, simrapid.Property(worldOf(t, "recreate.yaml", "clickhouse/v0.27.1")))
}
