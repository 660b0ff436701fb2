package simtest

import (
	"fmt"
	"strings"
	"time"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Course is how one run departs from the default order: in what a schedule says, and in single choices.
type Course struct {
	// Schedule has the constraints, the faults and the latencies. Nothing else of it counts.
	Schedule schedule.Schedule
	// Choices are made beside them, in the order of their At.
	Choices []Choice
}

// Choice takes another step than the default order at one point where several are enabled.
type Choice struct {
	// At is the number of the point, from 0.
	At int
	// Take is the number of the step there in default order, from 1: zero would be the default order's. Where there are
	// not so many, it counts on from the first.
	Take int
}

// Size returns the number of departures.
func (c Course) Size() int { return c.Schedule.Size() + len(c.Choices) }

// plan returns the plan of the course.
func (c Course) plan() sim.Plan {
	plan := sim.PlanOf(&c.Schedule)
	if len(c.Choices) > 0 {
		plan.Strategy = &tape{choices: c.Choices}
	}
	return plan
}

// String returns the course, with a line for each departure.
func (c Course) String() string {
	if c.Size() == 0 {
		return "the default order"
	}
	var lines []string
	for _, constraint := range c.Schedule.Constraints {
		lines = append(lines, constraint.String())
	}
	for _, fault := range c.Schedule.Faults {
		lines = append(lines, fault.String())
	}
	for _, latency := range c.Schedule.Latencies {
		lines = append(lines, fmt.Sprintf("%s comes %s late", latency.At, latency.For))
	}
	for _, choice := range c.Choices {
		lines = append(lines, fmt.Sprintf("at choice %d, take step %d", choice.At, choice.Take))
	}
	return strings.Join(lines, "\n")
}

// GoString returns the course as rapid prints what it has drawn.
func (c Course) GoString() string {
	if c.Size() < 2 {
		return c.String()
	}
	return "\n\t" + strings.ReplaceAll(c.String(), "\n", "\n\t")
}

// tape is a strategy that makes choices known beforehand.
type tape struct {
	choices []Choice
	points  int // so far
}

// Choose implements sim.Strategy.
func (t *tape) Choose(enabled []sim.Choice) int {
	if len(enabled) < 2 {
		return 0
	}
	at := t.points
	t.points++
	for len(t.choices) > 0 && t.choices[0].At < at {
		t.choices = t.choices[1:]
	}
	if len(t.choices) == 0 || t.choices[0].At != at {
		return 0
	}
	return t.choices[0].Take % len(enabled)
}

// Delay implements sim.Strategy.
func (t *tape) Delay(schedule.Event) time.Duration { return 0 }

// Permute implements sim.Strategy.
func (t *tape) Permute(schedule.Event, int) []int { return nil }
