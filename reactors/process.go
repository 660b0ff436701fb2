package reactors

import (
	"time"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// processRows are the faults of a process. A second is about what the kubelet takes to start a container again the first
// time.
var processRows = map[schedule.FaultType]*row{
	schedule.Crash: {
		doc:    "a process dies at a call, and starts again with an empty memory",
		points: crashPoints, defaults: schedule.Params{For: time.Second}, make: newCrash,
	},
	schedule.Upgrade: {
		doc:    "a process dies likewise, and another reconciler starts in its place",
		points: crashPoints, defaults: schedule.Params{For: time.Second}, reconciler: true, make: newCrash,
	},
}

var crashPoints = []schedule.Point{schedule.BeforeCall, schedule.AfterCommit}

func newCrash(f schedule.Fault) sim.Reactor {
	return &crash{point: f.Point, restart: sim.Restart{After: f.For, Reconciler: f.Reconciler}}
}

// crash ends the process that makes a request.
type crash struct {
	point   schedule.Point
	restart sim.Restart
}

// Before implements [sim.Reactor].
func (c *crash) Before(d *sim.Door) {
	if c.point == schedule.BeforeCall {
		d.Crash(c.restart)
	}
}

// After implements [sim.Reactor].
func (c *crash) After(d *sim.Door) {
	if c.point == schedule.AfterCommit {
		d.Crash(c.restart)
	}
}
