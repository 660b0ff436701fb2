package reactors

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// requestRows are the faults of a request: an error in place of the server's answer, before anything was done.
var requestRows = map[schedule.FaultType]*row{
	schedule.Conflict: {
		doc:   "409 to a write that carries a lock; injected, or by a write that really happens",
		means: []schedule.Means{schedule.Injected, schedule.CompetingWrite}, build: (*target).conflict, make: newConflict,
	},
	schedule.Invalid:   refusal("422: validation or a policy refuses the object", (*target).invalid, nil),
	schedule.Forbidden: refusal("403: the actor may not", (*target).forbidden, nil),
	schedule.NotFound:  refusal("404", (*target).notFound, nil),
	schedule.TooManyRequests: refusal("429: the server sheds load; client-go tries again after a Retry-After",
		(*target).tooManyRequests, new(time.Second)),
	schedule.InternalError: refusal("500", (*target).internalError, new(time.Duration(0))),
	schedule.ServerTimeout: refusal("500 with a Retry-After: the storage is not reached; client-go tries again",
		(*target).serverTimeout, new(2*time.Second)),
	schedule.ServiceUnavailable: refusal("503: the server is not reached", (*target).serviceUnavailable, new(time.Duration(0))),
	schedule.Timeout: refusal("504: the server gives up after 34s (a minute for a read), and has done nothing",
		(*target).timeout, new(time.Duration(0))),
}

// errorFunc builds the error of a fault.
type errorFunc func(*target, schedule.Fault) *apierrors.StatusError

// refusal is the row of an error; retryAfter is nil for one that client-go never tries again.
func refusal(doc string, build errorFunc, retryAfter *time.Duration) *row {
	r := &row{doc: doc, build: build, make: func(f schedule.Fault) sim.Reactor { return &refuse{fault: f, build: build} }}
	if retryAfter != nil {
		r.layered, r.retries, r.defaults.RetryAfter = true, true, *retryAfter
	}
	return r
}

// refuse answers with an error, and the request is not carried out.
type refuse struct {
	idle
	fault schedule.Fault
	build errorFunc
}

// Before implements [sim.Reactor].
func (r *refuse) Before(d *sim.Door) {
	t := targetOf(d)
	answer(d, &t, r.fault, r.build(&t, r.fault))
}

// maxRetries is how often client-go makes a request again before it returns the error (k8s.io/client-go/rest/request.go, v0.36,
// NewRequest).
const maxRetries = 10

// answer answers with the error of a fault, and not before a real client would have it: a server gives its handler a while, and
// what client-go returns in the end has come back as often as it tried.
func answer(d *sim.Door, t *target, f schedule.Fault, err *apierrors.StatusError) {
	response := &apiserver.Response{Code: int(err.ErrStatus.Code), Err: err}
	late := time.Duration(0)
	if apierrors.IsTimeout(err) {
		late = t.patience()
	}
	if f.Layer == schedule.Client {
		d.AnswerClient(response)
		if wait := seconds(f); wait > 0 {
			late += maxRetries * (late + time.Duration(wait)*time.Second)
		}
	} else {
		d.Answer(response)
	}
	if late > 0 {
		d.DelayResponse(late)
	}
}
