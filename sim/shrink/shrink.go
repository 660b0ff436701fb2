// Package shrink makes a failing schedule small: it takes constraints, faults, latencies and steps of the script out as long
// as the run fails in the same way, until none can be taken out any more.
package shrink

import (
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Options bound the shrinking.
type Options struct {
	// Executions bounds the number of runs; 500 if zero.
	Executions int
	// Steps is the number of steps of the scenario's script, which are taken out, too.
	Steps int
}

// Result is what a schedule was shrunk to.
type Result struct {
	Schedule *schedule.Schedule
	// Run is the run under it.
	Run *history.History
	// Executions is the number of runs it took.
	Executions int
	// Minimal says that every element that is left was taken out once, and is needed.
	Minimal bool
}

// Runner executes a plan.
type Runner func(sim.Plan) (*history.History, error)
