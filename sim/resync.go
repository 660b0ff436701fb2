package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Resync has the handler told again and again, each time the period has passed, of everything that the informer's view holds: as
// updates of objects to themselves. It repairs nothing that the view was not told of. No run goes on for the sake of it.
func (r *Registration) Resync(period time.Duration) {
	e := r.inner.process.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	e.resyncs = append(e.resyncs, resync{r.inner, period})
	e.signal()
}

// resync is a handler that wants to hear of everything from time to time.
type resync struct {
	*registration
	period time.Duration
}

func (r resync) over() bool { return r.removed || r.process.dead || r.informer.stopped }

// takeResyncs sets the timers that handlers have asked for. The caller holds e.mu.
func (e *engine) takeResyncs() {
	slices.SortFunc(e.resyncs, func(a, b resync) int { return cmp.Compare(a.number, b.number) })
	for _, r := range e.resyncs {
		e.setResync(r)
	}
	e.resyncs = e.resyncs[:0]
}

// setResync sets the timer of a handler's next resync, as the resync period of client-go's shared informers does
// (k8s.io/client-go/tools/cache, v0.36: shared_informer.go, processorListener.shouldResync; the_real_fifo.go, Resync).
func (e *engine) setResync(r resync) {
	if r.over() {
		return
	}
	event := r.event
	event.Verb, event.Name = schedule.Timer, "resync of "+event.Kind+" for "+event.Controller
	event.Kind, event.Namespace, event.Controller = "", "", ""
	t := e.newTimer(r.thread, event, r.period, func() {
		if r.over() {
			return
		}
		for _, obj := range permuted(e, r.informer.list(), r.informer.view.List("")) {
			r.deltas = append(r.deltas, caused{cache.Delta{Type: apiserver.Modified, Object: obj, Old: obj, Resync: true}, r.thread.last})
		}
		e.setResync(r)
	})
	t.futile = func() bool { return true }
}
