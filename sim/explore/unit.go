package explore

import (
	"fmt"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// UnitKind says what a unit of work does.
type UnitKind string

// The kinds of units.
const (
	// SweepUnit is the default order, the committed schedules of the session's options, and all sweeps. There is one such unit
	// to a scenario.
	SweepUnit UnitKind = "Sweeps"
	// SeedUnit is runs by seed.
	SeedUnit UnitKind = "Seeds"
	// ScheduleUnit is runs under schedules, of a corpus for instance.
	ScheduleUnit UnitKind = "Schedules"
	// ShrinkUnit makes the schedule of one finding by seed small.
	ShrinkUnit UnitKind = "Shrink"
)

// Unit is a part of an exploration. What it comes to depends on the scenario, the session's options and the unit, and on nothing
// else: not on what was done before it, by whom, nor on time. So units may be spread over processes and machines, and a unit that
// was interrupted is done again from its beginning.
type Unit struct {
	Kind UnitKind `json:"kind"`
	// First, Step and Count choose the seeds of a SeedUnit: First, First+Step, and so on, Count of them. A Step of zero means one. Shard
	// k of n, from 0, of an exploration with Options.Seed b takes First = b+k and Step = n.
	First int64 `json:"first,omitempty"`
	Step  int64 `json:"step,omitempty"`
	Count int   `json:"count,omitempty"`
	// Schedules are those of a ScheduleUnit. One that has no elements and whose Origin names a strategy of runs by seed is such a run,
	// with the seed of its Origin.
	Schedules []*schedule.Schedule `json:"schedules,omitempty"`
	// Origin is the run that a ShrinkUnit starts from, see [Part.Pending].
	Origin *Origin `json:"origin,omitempty"`
	// Known are failures that other units came to before, see [Part.Failures]. A run that one of them accounts for is counted, and
	// its history not kept. They save time, and change nothing in what parts come to once they are merged.
	Known []Failure `json:"known,omitempty"`
	// Seen are the marks that other units have seen, see [Part.Marks]: this one does not report them again.
	Seen []Mark `json:"seen,omitempty"`
	// Skip are the numbers of executions, see [Execution.Number], that are left out as they end the process. They are counted.
	Skip []int `json:"skip,omitempty"`
}

// String says in words what the unit does: "100 seeds from 1 in steps of 2".
func (u *Unit) String() string {
	switch u.Kind {
	case SeedUnit:
		text := fmt.Sprintf("%s from %d", count(u.Count, "seed"), u.First)
		if u.step() != 1 {
			text += fmt.Sprintf(" in steps of %d", u.Step)
		}
		return text
	case ScheduleUnit:
		return count(len(u.Schedules), "schedule")
	case ShrinkUnit:
		if u.Origin == nil {
			return "shrink nothing"
		}
		return "shrink " + u.Origin.String()
	default:
		return string(u.Kind)
	}
}

func (u *Unit) step() int64 {
	if u.Step == 0 {
		return 1
	}
	return u.Step
}

// Origin says which run of an exploration something was seen in first. Origins have a total order, whatever order units are done
// in: by strategy, as [Run] takes them, and then by seed and execution.
type Origin struct {
	Strategy string `json:"strategy"`
	Seed     int64  `json:"seed"`
	// Execution is the number of the execution within its unit, as findings have it, for strategies that do not go by seed.
	Execution int `json:"execution,omitempty"`
}

// String returns the origin as words: "PCT, seed 42".
func (o Origin) String() string {
	if bySeed(o.Strategy) {
		return fmt.Sprintf("%s, seed %d", o.Strategy, o.Seed)
	}
	return fmt.Sprintf("%s, execution %d", o.Strategy, o.Execution)
}

// Purpose says what an execution is for.
type Purpose string

// The purposes of executions.
const (
	Settling  Purpose = "settling"  // the scenario comes to rest before its runs
	Exploring Purpose = "exploring" // a run that counts
	Checking  Purpose = "checking"  // a run once more, to see that nothing differs
	Recording Purpose = "recording" // a run once more, for its trace
	Pinning   Purpose = "pinning"   // what a strategy did, as a schedule
	Shrinking Purpose = "shrinking"
)

// Execution is what is about to run.
type Execution struct {
	// Number counts the executions of a unit, or those of [Open], from 1 and in their order. It is zero for Settling. Those that a
	// unit skips have a number, too.
	Number   int
	Purpose  Purpose
	Strategy string
	Seed     int64
	plan     *sim.Plan
}

// Schedule returns what is known of the run before it is made: its constraints, faults, latencies and orders, and its origin. A
// strategy by seed adds others, which its name and seed stand for.
func (e *Execution) Schedule() *schedule.Schedule {
	s := &schedule.Schedule{Origin: schedule.Origin{Strategy: e.Strategy, Seed: e.Seed}}
	if p := e.plan; p != nil {
		s.Constraints, s.Faults, s.Latencies, s.Orders, s.Skip = p.Constraints, p.Faults, p.Latencies, p.Orders, p.Skip
	}
	return s
}

// Record has the run tell what it does, see [sim.Plan.Recording]. It changes nothing in the run.
func (e *Execution) Record(to func(sim.Recorded)) { e.plan.Record, e.plan.Recording = true, to }
