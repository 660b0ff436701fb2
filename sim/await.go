package sim

import (
	"context"
	"fmt"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Await parks until a condition holds, as reads do that wait for an informer to catch up. The engine looks at the condition
// whenever everything is parked, and lets the goroutine go on in a step of its own, which says how long it was held. The object
// (of a list without a name) is what is to be read. What is awaited, in words, is told if the run ends before it has come. The
// error is the context's, if that ended first.
func (env *Env) Await(
	ctx context.Context, kind *apiserver.Kind, namespace, name string, condition func() bool, what func() string,
) error {
	p := env.process
	since := p.engine.elapsed()
	return p.park(ctx, &op{
		event: schedule.Event{Verb: schedule.Await, Kind: kind.Name(), Namespace: namespace, Name: name},
		ready: condition, waits: what,
		exec: func(o *op) {
			p.engine.note(o.thread, o.event, -1)
			p.engine.history.Records[p.engine.last].Held = p.engine.clock - since
		},
	})
}

// awaited describes what goroutines of a process still wait for.
func (e *engine) awaited(p *process) []string {
	var texts []string
	for _, o := range e.ops {
		if o.process == p && o.waits != nil {
			texts = append(texts, fmt.Sprintf("%s waits before a read of %s: %s", p.name, o.event.Object(), o.waits()))
		}
	}
	return texts
}
