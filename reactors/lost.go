package reactors

import (
	"errors"
	"io"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// lostRows are the faults of a commit: the request was carried out, and its answer does not arrive.
var lostRows = map[schedule.FaultType]*row{
	schedule.LostResponse: {
		doc:   "carried out, and then the connection breaks, or the server gives up (504)",
		means: []schedule.Means{schedule.ConnectionLost, schedule.RequestTimeout},
		make:  func(f schedule.Fault) sim.Reactor { return &lostResponse{fault: f} },
	},
	schedule.AppliedTwice: {
		doc:     "carried out, and a 500 with a Retry-After makes client-go send it again",
		retries: true, needsRetry: true, defaults: schedule.Params{RetryAfter: 2 * time.Second},
		make: func(f schedule.Fault) sim.Reactor { return &appliedTwice{fault: f} },
	},
}

// lostResponse takes the answer away.
//
// A lost connection is an io.EOF within a url.Error, which client-go does not try again for a write (rest/request.go:
// IsErrorRetryable only for GET). A server that gives up waiting for its own handler answers 504 while the handler goes on
// (k8s.io/apiserver/pkg/endpoints/handlers/finisher, v1.36); that has no Retry-After, and comes when the server's patience ends:
// everybody else has seen the write by then.
type lostResponse struct {
	idle
	fault schedule.Fault
}

// After implements [sim.Reactor].
func (l *lostResponse) After(d *sim.Door) {
	t := targetOf(d)
	err := t.lost(l.fault)
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok {
		answer(d, &t, l.fault, status)
	} else {
		d.Break(err)
	}
}

// lost returns what the client sees of a request whose answer is lost.
func (t *target) lost(f schedule.Fault) error {
	if f.Means == schedule.RequestTimeout {
		return t.timeout(f)
	}
	return t.broken(io.EOF)
}

// appliedTwice replaces the answer by one that client-go tries again: what stands between it and the storage has lost the
// connection after the commit, and cannot know. That is an aggregated API server (k8s.io/apiserver/pkg/storage/errors, v1.36), or
// a gateway in front of the server; one with etcd behind it says nothing of trying again. What the actor sees is the second
// answer: AlreadyExists after a create, a conflict after an update, not found after a delete.
type appliedTwice struct {
	idle
	fault schedule.Fault
}

// After implements [sim.Reactor].
func (a *appliedTwice) After(d *sim.Door) {
	t := targetOf(d)
	answer(d, &t, a.fault, t.serverTimeout(a.fault))
}
