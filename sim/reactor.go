package sim

import (
	"context"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Faults are what may go wrong in the runs of a scenario.
type Faults struct {
	// Rules say which faults may strike where.
	Rules []FaultRule
	// Max bounds the faults of one run; zero means one.
	Max int
	// HealAfter is the virtual time since the script began from which on no fault strikes, and what faults hold is let go.
	// Zero: never.
	HealAfter time.Duration
}

// FaultRule says which faults may strike at which events. Which of them do is a plan's to say, or a strategy's.
type FaultRule struct {
	// Name of the rule, for reports.
	Name string
	// Match chooses events. Those at which a fault cannot strike are none of the rule's, see [schedule.FaultType.Strikes].
	Match schedule.Selector
	// Faults are the variants that may strike at an event. Their At is empty.
	Faults []schedule.Fault
	// Max bounds the faults of the rule in one run; zero: only [Faults.Max] does.
	Max int
}

// Reactor stands at the API server's door and acts on requests: it makes a fault happen, or whatever else a test wants. A
// run makes its own reactors, as they may hold state. They are called on the engine's goroutine: they must neither block nor
// use a client. They act once the script has begun, and never while the scenario settles.
//
// A fault has struck where its reactor asked for something: one that only looks on has not.
type Reactor interface {
	// Before is called when a request is about to be carried out: not any more when a reactor before this one has answered
	// it, or broken the connection. What client-go makes again is a request of its own.
	Before(d *Door)
	// After is called when the server, or a reactor, has answered, and the answer has not gone back yet; not any more when a
	// reactor before this one has broken the connection.
	After(d *Door)
}

// Holder is a reactor that may hold a request back before it reaches the server.
type Holder interface {
	Reactor
	// Hold is called when a request first comes up, and says for how long it is held; [Forever] means until the faults heal.
	// A request that is held for ever keeps no run from being terminal.
	Hold(event schedule.Event) time.Duration
}

// Forever is longer than any run.
const Forever = time.Duration(1<<63 - 1)

// Streamer is a reactor that acts on an informer's watch.
type Streamer interface {
	Reactor
	// Deliver is called when an event is about to be delivered to an informer.
	Deliver(s *Stream)
}

// Door is a request at the API server's door, as a reactor sees it and what it may do about it.
type Door struct {
	engine   *engine
	process  *process // nil for a racer
	context  context.Context
	event    schedule.Event
	request  *apiserver.Request
	response *apiserver.Response
	reactors []*armed
	struck   []*armed // those of faults that did something, or held the request back
	current  *armed   // whose reactor is called

	// What reactors asked for.
	acted  bool          // the one that is called now has asked for something
	final  bool          // client-go does not get to see the answer, and does not try again
	broken error         // the connection broke
	late   time.Duration // the response goes back so much later
	crash  *Restart
}

// Restart says what becomes of a process that dies.
type Restart struct {
	// After is the virtual time that it is down.
	After time.Duration
	// Reconciler, if set, names the one that starts in its place, see [Process.Upgrades].
	Reconciler string
}

// Context returns the caller's context; it is context.Background for a racer.
func (d *Door) Context() context.Context { return d.context }

// Event returns the name of the request.
func (d *Door) Event() schedule.Event { return d.event }

// Request returns the request, which is not the reactor's to change.
func (d *Door) Request() *apiserver.Request { return d.request }

// Response returns the answer so far, nil if there is none.
func (d *Door) Response() *apiserver.Response { return d.response }

// Answer answers in place of the server: before the request was carried out instead of it, afterwards in place of its
// answer. client-go sees the answer, and tries again after some of them.
func (d *Door) Answer(response *apiserver.Response) {
	if response.Code == 0 && response.Err != nil {
		response.Code = int(response.Err.ErrStatus.Code)
	}
	d.acted, d.response, d.broken, d.final = true, response, nil, false
}

// AnswerClient answers like [Door.Answer], with what the actor's client returns in the end: client-go has no part in it.
func (d *Door) AnswerClient(response *apiserver.Response) {
	d.Answer(response)
	d.final = true
}

// Break breaks the connection: in place of an answer the actor's client gets the error. Before the request was carried
// out, it never is. client-go tries reads again.
func (d *Door) Break(err error) { d.acted, d.broken, d.final = true, err, false }

// Webhook answers in place of an admission webhook that the server calls about the request: the one of that name, or, without
// a name, the first. A name that no webhook of the cluster has stands for one more, which is asked about every write that
// nothing else refuses. If the server calls no such webhook the reactor has done nothing. The function is called while the
// server carries the request out; it may ask the Door for a delay of the response, and for nothing else.
func (d *Door) Webhook(name string, answer apiserver.WebhookClient) {
	a := d.current
	d.request.Webhook = &apiserver.WebhookFault{Name: name, Answer: func(call *apiserver.WebhookCall) (*admissionv1.AdmissionReview, error) {
		if !a.own && !slices.Contains(d.struck, a) {
			d.struck = append(d.struck, a)
		}
		return answer(call)
	}}
}

// DelayResponse lets the answer go back so much later.
func (d *Door) DelayResponse(by time.Duration) { d.acted, d.late = true, by }

// Crash ends the actor's process, and starts it again. Before the request was carried out, it never is; afterwards the
// answer is lost. A racer does not crash.
func (d *Door) Crash(r Restart) {
	if d.process != nil {
		d.acted, d.crash = true, &r
	}
}

// Do makes a request in the name of somebody else, at this moment. It is a step of its own in the history.
func (d *Door) Do(actor string, r *apiserver.Request) *apiserver.Response {
	d.acted = true
	return d.engine.intrude(actor, r)
}

// Get returns an object as the server has it at this moment, nil if there is none.
func (d *Door) Get(kind *apiserver.Kind, namespace, name string) apiserver.Object {
	return d.engine.server.Get(kind, namespace, name)
}

// Later makes a request in the name of somebody else after a span of virtual time, or when the faults heal. make is called
// at that time, and may return nil.
func (d *Door) Later(actor string, after time.Duration, make func() *apiserver.Request) {
	d.acted = true
	d.engine.intrudeLater(actor, after, make)
}

// Stream is an informer's watch, as a reactor sees it when an event is about to be delivered, and what it may do about it.
type Stream struct {
	event schedule.Event

	// What a reactor asked for.
	lag    time.Duration
	relist bool
}

// Event returns the name of the delivery.
func (s *Stream) Event() schedule.Event { return s.event }

// Lag delivers the event, and all after it, so much later, as a slow or broken watch that goes on from where it was does.
func (s *Stream) Lag(by time.Duration) { s.lag = by }

// Relist ends the watch for good: after the span nothing of what came to pass in between is delivered, but what a new list
// shows (k8s.io/client-go/tools/cache, Reflector.ListAndWatch and DeltaFIFO's Replace).
func (s *Stream) Relist(after time.Duration) { s.lag, s.relist = after, true }
