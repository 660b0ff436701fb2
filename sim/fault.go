package sim

import (
	"time"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// intrude makes a request in the name of somebody who is neither a process nor a racer.
func (e *engine) intrude(actor string, r *apiserver.Request) *apiserver.Response {
	panic("not there yet: " + actor + r.Name)
}

func (e *engine) intrudeLater(actor string, after time.Duration, make func() *apiserver.Request) {
	panic("not there yet: " + actor)
}
