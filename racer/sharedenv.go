package racer

import (
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
)

// sharedEnv is the environment of several controllers in one process, which share their informers.
type sharedEnv struct {
	sim.RacerEnv
	informers map[*apiserver.Kind]*sharedInformer
}

type sharedInformer struct {
	view     *cache.View
	handlers []func(cache.Delta)
}

// Informer implements [sim.RacerEnv]. The handlers are called in the order in which they were added.
func (e *sharedEnv) Informer(kind *apiserver.Kind, handle func(cache.Delta)) *cache.View {
	shared := e.informers[kind]
	if shared == nil {
		shared = &sharedInformer{}
		e.informers[kind] = shared
		shared.view = e.RacerEnv.Informer(kind, func(d cache.Delta) {
			for _, handle := range shared.handlers {
				handle(d)
			}
		})
	}
	if handle != nil {
		shared.handlers = append(shared.handlers, handle)
	}
	return shared.view
}
