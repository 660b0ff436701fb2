package reactors

import (
	"time"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// watchRows are the faults of an informer's watch.
var watchRows = map[schedule.FaultType]*row{
	schedule.CacheLag: {
		doc:      "an informer is told late of an event, and of all that follow",
		defaults: schedule.Params{For: 30 * time.Second},
		make:     func(f schedule.Fault) sim.Reactor { return &lag{by: f.For} },
	},
	// The span is where client-go's back-off between two watches begins: k8s.io/client-go/tools/cache/reflector.go, v0.36,
	// 800 ms doubling to 30 s.
	schedule.WatchDrop: {
		doc:      "a watch ends, and goes on later from where it was: nothing is lost",
		defaults: schedule.Params{For: 800 * time.Millisecond},
		make:     func(f schedule.Fault) sim.Reactor { return &lag{by: f.For} },
	},
	schedule.Relist: {
		doc:      "a watch ends for good (410), and a new list shows what came of the changes: tombstones, and new objects as updates",
		defaults: schedule.Params{For: time.Second},
		make:     func(f schedule.Fault) sim.Reactor { return &relist{after: f.For} },
	},
}

// lag keeps an informer waiting.
type lag struct {
	idle
	by time.Duration
}

var _ sim.Streamer = &lag{}

// Deliver implements [sim.Streamer].
func (l *lag) Deliver(s *sim.Stream) { s.Lag(l.by) }

// relist makes an informer list again.
type relist struct {
	idle
	after time.Duration
}

var _ sim.Streamer = &relist{}

// Deliver implements [sim.Streamer].
func (r *relist) Deliver(s *sim.Stream) { s.Relist(r.after) }
