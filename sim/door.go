package sim

import (
	"context"
	"errors"
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

var (
	errCrashedBefore = errors.New("process crashed before the call")
	errCrashedAfter  = errors.New("process crashed before the answer came")
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
	v := e.announce(s, f.call)
	d := e.openDoor(s, v, at)
	if d == nil {
		e.serve(v)
		e.conclude(s, v, answer{response: v.response}, nil)
		return
	}
	d.pass((*Door).before)
	if d.open() {
		e.serve(v)
		d.response = v.response
	}
	if d.response != nil && d.crash == nil {
		d.pass((*Door).after)
	}
	e.conclude(s, v, d.answer(), d)
}

// conclude records a try, and sees to what comes next.
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
		if at := e.backAt(d); at < Forever {
			e.keep(s, at+wait)
		} else {
			e.keep(s, Forever)
		}
	case d != nil && d.late > 0 || e.holds.returns.has(&e.history.Records[v.record]):
		e.holdResponse(s, e.backAt(d))
	}
}

// backAt returns when an answer that may be late comes back.
func (e *engine) backAt(d *Door) time.Duration {
	if d == nil || d.late <= 0 {
		return e.clock
	}
	at := e.faultEnd(d.late)
	if at < Forever {
		e.disturbed(at)
	}
	return at
}

// keep has the step come up once more.
func (e *engine) keep(s carrier, notBefore time.Duration) {
	f := s.inFlight()
	e.sequence++
	f.kept, f.since, f.notBefore = true, e.sequence, notBefore
}

// holdResponse keeps the answer of a call that was made until some virtual time: its way back is a step of its own.
func (e *engine) holdResponse(s carrier, until time.Duration) {
	e.keep(s, until)
	f := s.inFlight()
	f.call, f.returns = nil, e.history.Records[f.record].Event.Occurrence
	s.base().Return = true
}

// noteReturn records that an answer has come back.
func (e *engine) noteReturn(s carrier) {
	f, event := s.inFlight(), *s.base()
	event.Occurrence = f.returns
	f.returns = 0
	e.append(s.owner(), history.Record{Event: event, Cause: f.record, ReadsFrom: -1})
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
	if wrapped, ok := previous.(*url.Error); ok && wrapped.Err != nil { // as client-go: no deeper than this
		previous = wrapped.Err
	}
	return fmt.Errorf("%w - error from a previous attempt: %s", err, previous)
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

// openDoor returns the door that a call passes, nil if nobody stands there.
func (e *engine) openDoor(s carrier, v *visit, at []*armed) *Door {
	own := e.ownReactors()
	if len(own) == 0 && len(at) == 0 {
		return nil
	}
	d := &Door{engine: e, context: s.inFlight().ctx, event: v.event, reactors: own}
	if d.context == nil {
		d.context = context.Background()
	}
	if o, ok := s.(*op); ok {
		d.process = o.process
	}
	for _, a := range at {
		if a.until > 0 {
			d.struck = append(d.struck, a)
		}
		if !e.healed() {
			d.reactors = append(d.reactors[:len(d.reactors):len(d.reactors)], a)
		}
	}
	// The server takes over what it is given, and the call may be made again.
	d.request = copyOf(v.request)
	v.request = d.request
	return d
}

// copyOf returns a request that may be given away.
func copyOf(r *apiserver.Request) *apiserver.Request {
	request := *r
	if r.Object != nil {
		request.Object = r.Object.DeepCopyObject().(apiserver.Object)
	}
	return &request
}

// pass calls a hook of the reactors, in order, until one has broken the connection, or, on the way in, answered.
func (d *Door) pass(hook func(*Door, Reactor)) {
	for _, a := range d.reactors {
		d.acted = false
		answered := d.response != nil
		hook(d, a.reactor)
		if d.acted && !a.own {
			d.struck = append(d.struck, a)
		}
		if d.broken != nil || d.crash != nil || !answered && d.response != nil {
			return
		}
	}
}

func (d *Door) before(r Reactor) { r.Before(d) }
func (d *Door) after(r Reactor)  { r.After(d) }

// open reports whether the request goes on to the server.
func (d *Door) open() bool { return d.response == nil && d.broken == nil && d.crash == nil }

// answer returns what comes back.
func (d *Door) answer() answer {
	switch {
	case d.crash != nil && d.response == nil:
		return answer{err: errCrashedBefore}
	case d.crash != nil:
		return answer{err: errCrashedAfter}
	case d.broken != nil:
		return answer{err: d.broken}
	default:
		return answer{response: d.response}
	}
}

// intruder is somebody who is neither a process nor a racer, and makes a request.
type intruder struct {
	event   schedule.Event
	thread  *thread
	request *apiserver.Request
}

func (i *intruder) base() *schedule.Event         { return &i.event }
func (i *intruder) owner() *thread                { return i.thread }
func (i *intruder) sight(e *engine) (int64, bool) { return e.sight(i.request), true }

// intrude makes a request in the name of somebody who is neither a process nor a racer. No reactor sees it.
func (e *engine) intrude(actor string, r *apiserver.Request) *apiserver.Response {
	e.clock += tick
	event := requestEvent(r)
	event.Actor = actor
	if r.UserAgent == "" {
		r.UserAgent = actor
	}
	v := e.announce(&intruder{event: event, thread: e.intruderThread(actor), request: r}, r)
	e.serve(v)
	e.close(v, answer{response: v.response}, nil)
	return v.response
}

// intrudeLater makes a request in the name of somebody after a span of virtual time, as far as the faults do not heal before.
// It is made by an engine timer, so that the run goes on until then.
func (e *engine) intrudeLater(actor string, after time.Duration, make func() *apiserver.Request) {
	until := e.faultEnd(after)
	if until == Forever {
		return
	}
	e.disturbed(until)
	event := schedule.Event{Actor: actor, Verb: schedule.Timer, Name: "later"}
	e.newTimer(e.intruderThread(actor), event, until-e.clock, func() {
		if r := make(); r != nil {
			e.intrude(actor, r)
		}
	})
}

func (e *engine) intruderThread(actor string) *thread {
	t := e.intruders[actor]
	if t == nil {
		t = e.newThread("", "")
		if e.intruders == nil {
			e.intruders = map[string]*thread{}
		}
		e.intruders[actor] = t
	}
	return t
}
