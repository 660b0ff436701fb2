package sim

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

const (
	// maxRetries is how often client-go makes a request again (k8s.io/client-go/rest/request.go, v0.36.0, NewRequest).
	maxRetries = 10
	// reconnect is client-go's pause after a connection that broke (rest/with_retry.go, retryAfterResponse).
	reconnect = time.Second
)

// flight is a call on its way: out of the actor's client, through client-go, which makes it again after some answers, to
// the server, and back.
type flight struct {
	call *apiserver.Request // nil if there is none to be made
	ctx  context.Context    // the caller's; nil for a racer
	// since is when the step became enabled, in the engine's count; notBefore is the virtual time before which it is not.
	since     uint64
	notBefore time.Duration

	tries int
	// failure is what broke the connection of the latest try, nil if nothing did; previous that of the latest one before it
	// that broke.
	failure, previous error
	// kept says that the call is not over: it is made again, or its answer is on its way back.
	kept bool
	// returns is the occurrence of the request whose answer is on its way back, zero if none is; record is its record.
	returns, record int
	// response and err are what the actor gets in the end.
	response *apiserver.Response
	err      error
}

// carrier is who has a call in flight: a goroutine of a program, or a worker of a racer.
type carrier interface {
	stepper
	inFlight() *flight
}

func (f *flight) inFlight() *flight { return f }

// answer is what comes back of a try: a response, or the error of a connection that broke.
type answer struct {
	response *apiserver.Response
	err      error
}

// write puts down what the actor saw.
func (a answer) write(r *history.Record) {
	r.Reason, r.Message = "", ""
	switch {
	case a.err != nil:
		r.Code, r.Message = history.NoAnswer, a.err.Error()
	case a.response.Err != nil:
		status := a.response.Err.Status()
		r.Code, r.Reason, r.Message = a.response.Code, string(status.Reason), status.Message
	default:
		r.Code = a.response.Code
	}
}

func (a answer) code() int {
	if a.err != nil {
		return history.NoAnswer
	}
	return a.response.Code
}

// try makes a call once, past the reactors and faults that are at its event: all that lies between an actor's client and the
// server. The call is over then, unless it is kept.
func (e *engine) try(s carrier, at []*armed) {
	f := s.inFlight()
	f.tries++
	v := e.announce(s.owner(), *s.base(), f.call)
	d := e.openDoor(s, &v, at)
	if d == nil {
		e.serve(&v)
		e.conclude(s, &v, answer{response: v.response}, nil)
		return
	}
	d.pass((*Door).before)
	if d.open() {
		e.serve(&v)
		d.response = v.response
	}
	if d.response != nil && d.crash == nil {
		d.pass((*Door).after)
	}
	e.conclude(s, &v, d.answer(), d)
}

// conclude records a try, and sees to what comes next. Unless that is something else, the actor has its answer.
func (e *engine) conclude(s carrier, v *visit, a answer, d *Door) {
	f := s.inFlight()
	wait, again := f.retry(a, d)
	v.again = again
	e.close(v, a, d)
	f.record, f.response, f.err = v.record, a.response, f.surfaced(a.err)
	switch {
	case d != nil && d.crash != nil:
		e.crash(d.process, *d.crash)
	case again:
		e.keep(s, later(e.backAt(d), wait))
	case d != nil && d.late > 0 || !e.alike && e.holds.returns.has(&e.history.Records[v.record]):
		e.sendBack(s, e.backAt(d))
	}
}

// keep has the step come up once more.
func (e *engine) keep(s carrier, notBefore time.Duration) {
	f := s.inFlight()
	e.sequence++
	f.kept, f.since, f.notBefore = true, e.sequence, notBefore
}

// retry says whether client-go makes the call again after an answer, and in how long (k8s.io/client-go/rest, v0.36.0:
// withRetry.IsNextRetry, checkWait, and isErrRetryableFunc in Request.request). It does so whatever the verb after a 429 or
// a 5xx with a Retry-After, which the server sends for details.retryAfterSeconds; and for a GET after a connection that broke.
func (f *flight) retry(a answer, d *Door) (wait time.Duration, again bool) {
	if f.failure != nil {
		f.previous = f.failure
	}
	f.failure = a.err
	if f.tries > maxRetries || d != nil && (d.final || d.crash != nil) {
		return 0, false
	}
	if a.err != nil {
		isGet := f.call.Verb == schedule.Get || f.call.Verb == schedule.List
		lost := utilnet.IsConnectionReset(a.err) || utilnet.IsProbableEOF(a.err) || utilnet.IsHTTP2ConnectionLost(a.err)
		return reconnect, isGet && lost
	}
	if a.response.Code != http.StatusTooManyRequests && a.response.Code < http.StatusInternalServerError {
		return 0, false
	}
	if a.response.Err == nil || a.response.Err.ErrStatus.Details == nil {
		return 0, false
	}
	seconds := a.response.Err.ErrStatus.Details.RetryAfterSeconds
	return time.Duration(seconds) * time.Second, seconds > 0
}

// surfaced returns the error as client-go returns it in the end: with that of an earlier try, if it was another one
// (withRetry.WrapPreviousError).
func (f *flight) surfaced(err error) error {
	if err == nil || f.previous == nil || err.Error() == f.previous.Error() {
		return err
	}
	previous := f.previous
	if outer, ok := previous.(*url.Error); ok && outer.Err != nil { //nolint:errorlint // client-go looks no deeper either
		previous = outer.Err
	}
	return fmt.Errorf("%w - error from a previous attempt: %s", err, previous.Error())
}

// outcome returns what a racer gets: of a broken connection an error as its client would see it, that is no API status.
func (f *flight) outcome() *apiserver.Response {
	if f.err == nil {
		return f.response
	}
	return &apiserver.Response{Code: history.NoAnswer, Err: &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Reason: metav1.StatusReasonUnknown, Message: f.err.Error(),
	}}}
}

// flightDeadline returns when the next call that is late goes on, or answer on its way back arrives; [Forever] if none will.
func (e *engine) flightDeadline() time.Duration {
	first := Forever
	consider := func(f *flight) {
		if f.notBefore > e.clock {
			first = min(first, f.notBefore)
		}
	}
	for _, o := range e.ops {
		consider(&o.flight)
	}
	for _, a := range e.racers {
		for _, q := range a.queues {
			for _, w := range q.workers {
				if w.busy() {
					consider(&w.flight)
				}
			}
		}
	}
	return first
}
