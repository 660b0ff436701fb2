package reactors

import (
	"time"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// beyondHold is longer than a constraint may hold a step (two minutes, unless a scenario says otherwise): what comes so late
// is a slow cluster, and no order of a healthy one.
const beyondHold = 3 * time.Minute

// slowRows are the faults of a slow cluster.
var slowRows = map[schedule.FaultType]*row{
	schedule.Delay: {
		doc:    "a request reaches the server late, or its response the client",
		points: []schedule.Point{schedule.BeforeCall, schedule.AfterCommit}, defaults: schedule.Params{For: beyondHold},
		make: newDelay,
	},
	schedule.Wedge: {
		doc:      "a request is not made until the faults heal, like that of a kubelet which does not let go of a pod",
		defaults: schedule.Params{For: sim.Forever},
		make:     func(f schedule.Fault) sim.Reactor { return &late{by: f.For} },
	},
}

func newDelay(f schedule.Fault) sim.Reactor {
	if f.Point == schedule.AfterCommit {
		return &lateResponse{by: f.For}
	}
	return &late{by: f.For}
}

// late holds a request back.
type late struct {
	idle
	by time.Duration
}

var _ sim.Holder = &late{}

// Hold implements [sim.Holder].
func (l *late) Hold(schedule.Event) time.Duration { return l.by }

// lateResponse holds a response back.
type lateResponse struct {
	idle
	by time.Duration
}

// After implements [sim.Reactor].
func (l *lateResponse) After(d *sim.Door) { d.DelayResponse(l.by) }
