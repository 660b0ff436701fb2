package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// FaultType says what goes wrong.
type FaultType string

// The types of faults. Those of a request come first: an error in place of the server's answer, before anything was done.
const (
	Conflict           FaultType = "Conflict"           // 409: somebody else wrote first
	Invalid            FaultType = "Invalid"            // 422: validation or a policy refuses the object
	Forbidden          FaultType = "Forbidden"          // 403: the actor may not
	NotFound           FaultType = "NotFound"           // 404
	TooManyRequests    FaultType = "TooManyRequests"    // 429
	InternalError      FaultType = "InternalError"      // 500
	ServerTimeout      FaultType = "ServerTimeout"      // 500 with Retry-After: the storage does not answer
	ServiceUnavailable FaultType = "ServiceUnavailable" // 503
	Timeout            FaultType = "Timeout"            // 504, and the request was not carried out

	// LostResponse: the request was carried out, and the client never learns of it.
	LostResponse FaultType = "LostResponse"
	// AppliedTwice: the request was carried out, its answer is one that client-go tries again by itself.
	AppliedTwice FaultType = "AppliedTwice"
	// Delay: a request reaches the server late, or its response the client.
	Delay FaultType = "Delay"
	// Wedge: a request is never made, until the faults heal: a kubelet that does not let go of a pod.
	Wedge FaultType = "Wedge"

	// CacheLag: an informer is told of an event, and of all that follow, late.
	CacheLag FaultType = "CacheLag"
	// WatchDrop: an informer's watch ends, and goes on later from where it was. Nothing is lost.
	WatchDrop FaultType = "WatchDrop"
	// Relist: an informer's watch ends and cannot go on from where it was (410), so it lists again: what happened in
	// between is seen as one change, a delete and a create as an update, and deletes as tombstones.
	Relist FaultType = "Relist"

	// Crash: a process dies before a call or after its commit, and starts again with an empty memory.
	Crash FaultType = "Crash"
	// Upgrade: a process dies, and another reconciler starts in its place.
	Upgrade FaultType = "Upgrade"

	// WebhookDenial: an admission webhook refuses a write.
	WebhookDenial FaultType = "WebhookDenial"
	// WebhookFailure: an admission webhook does not answer, so that its failure policy decides.
	WebhookFailure FaultType = "WebhookFailure"

	// LateDelete: a finalizer of somebody else keeps a deleted object for a while.
	LateDelete FaultType = "LateDelete"
)

// Layer says between whom an error arises.
type Layer string

// The layers. An error in the transport is one that client-go sees: it tries again by itself after a 429, or a 5xx with a
// Retry-After. One at the client is what the operator's client returns in the end.
const (
	Transport Layer = "Transport"
	Client    Layer = "Client"
)

// Point says when a fault strikes, relative to a request.
type Point string

// The points.
const (
	BeforeCall  Point = "BeforeCall"  // the server has not seen the request
	AfterCommit Point = "AfterCommit" // the server has carried it out, and the client has not seen the answer
)

// Means says how a fault comes about, where there are several ways.
type Means string

// The means. Injected and CompetingWrite are those of a Conflict; ConnectionLost and RequestTimeout those of a LostResponse;
// ConnectionRefused and DeadlineExceeded those of a WebhookFailure.
const (
	Injected       Means = "Injected"       // the error is made up; no object has changed
	CompetingWrite Means = "CompetingWrite" // somebody annotates the object just before, and the server finds the conflict
	ConnectionLost Means = "ConnectionLost" // the connection breaks: an error that is no API status
	RequestTimeout Means = "RequestTimeout" // the server gives up waiting for its own handler: 504
	// ConnectionRefused: nobody serves the webhook at the moment.
	ConnectionRefused Means = "ConnectionRefused"
	// DeadlineExceeded: the webhook takes longer than its timeoutSeconds.
	DeadlineExceeded Means = "DeadlineExceeded"
)

// Params are the parameters of faults, zero where a type has no use for one. Defaults are filled in by package reactors.
type Params struct {
	Layer      Layer         // errors: where they arise
	RetryAfter time.Duration // errors: the header Retry-After, in whole seconds; negative for none
	Means      Means         // Conflict, LostResponse, WebhookFailure
	Point      Point         // Crash, Upgrade; Delay: of the request, or of the response
	// For is a span of virtual time: of a Delay, CacheLag, WatchDrop or Relist; how long a LateDelete keeps the object; how
	// long a process is down in a Crash or Upgrade.
	For        time.Duration
	Reconciler string // Upgrade: the name of the one that starts
	// Webhook is the name of the admission webhook of a WebhookDenial or WebhookFailure; empty for the first that is called about
	// a request.
	Webhook string
}

// Fault is one fault at one event.
type Fault struct {
	Type FaultType
	// At is the event at which it strikes: a request, or for CacheLag, WatchDrop and Relist a Deliver.
	At Event
	// Select, if set, stands in place of At for an event as a person writes it: the first that matches, or the Occurrence-th.
	Select *Selector
	Params
}

// String returns the fault on one line: "LostResponse at operator Update StatefulSet default/web #2".
func (f Fault) String() string {
	var b strings.Builder
	b.WriteString(string(f.Type))
	for _, detail := range f.details() {
		b.WriteString(" " + detail)
	}
	b.WriteString(" at ")
	if f.Select != nil {
		b.WriteString(f.Select.String())
	} else {
		b.WriteString(f.At.String())
	}
	return b.String()
}

// details returns the parameters that are set, in words.
func (f Fault) details() []string {
	var details []string
	add := func(set bool, text string) {
		if set {
			details = append(details, text)
		}
	}
	add(f.Means != "", string(f.Means))
	add(f.Webhook != "", "of "+f.Webhook)
	add(f.Point != "", string(f.Point))
	add(f.Layer != "", "in the "+strings.ToLower(string(f.Layer)))
	add(f.RetryAfter > 0, "retry after "+f.RetryAfter.String())
	add(f.For != 0, "for "+f.For.String())
	add(f.Reconciler != "", "to "+f.Reconciler)
	return details
}

// CompareFaults orders faults by where they strike, and then by what they are.
func CompareFaults(a, b Fault) int {
	return cmp.Or(Compare(a.At, b.At), strings.Compare(a.String(), b.String()))
}

// Strikes reports whether a fault of this type can strike at such an event: on a request, on a write, or on a delivery.
func (t FaultType) Strikes(e Event) bool {
	if e.Return { // the way back of a response is no request
		return false
	}
	switch t {
	case CacheLag, WatchDrop, Relist:
		return e.Verb == Deliver
	case Conflict:
		return e.Verb == Update || e.Verb == Patch || e.Verb == Delete
	case WebhookDenial, WebhookFailure:
		return e.Verb.IsWrite()
	case Invalid:
		return e.Verb == Create || e.Verb == Update || e.Verb == Patch
	case LostResponse, AppliedTwice:
		return e.Verb.IsWrite()
	case LateDelete:
		return e.Verb == Delete && e.Subresource == ""
	case Crash, Upgrade:
		return e.Verb.IsRequest() && e.Incarnation > 0
	case NotFound:
		return e.Verb.IsRequest() && e.Name != "" && e.Verb != Create
	default:
		return e.Verb.IsRequest()
	}
}

// NeedsLock reports whether the fault can strike only at a write that carries a lock: a conflict that is made up.
func (f *Fault) NeedsLock() bool { return f.Type == Conflict && f.Means != CompetingWrite }

// NeedsWebhook reports whether the fault strikes at the call of an admission webhook.
func (f *Fault) NeedsWebhook() bool { return f.Type == WebhookDenial || f.Type == WebhookFailure }

// FindsWebhook reports whether the fault finds its webhook at a request about which some webhooks are called, in a cluster that
// knows some: a webhook that it names and the cluster does not know is one that is called about every write.
func (f *Fault) FindsWebhook(called, known []string) bool {
	switch {
	case f.Webhook == "":
		return len(called) > 0
	case slices.Contains(known, f.Webhook):
		return slices.Contains(called, f.Webhook)
	default:
		return true
	}
}

// FaultTypes returns all types of faults, in a fixed order.
func FaultTypes() []FaultType {
	return []FaultType{Conflict, Invalid, Forbidden, NotFound, TooManyRequests, InternalError, ServerTimeout,
		ServiceUnavailable, Timeout, LostResponse, AppliedTwice, Delay, Wedge, CacheLag, WatchDrop, Relist, Crash, Upgrade,
		WebhookDenial, WebhookFailure, LateDelete}
}

// Constraint says that one event must wait for another: it is held until that has happened, or until the hold's bound in
// virtual time has passed.
type Constraint struct {
	Event Event // the event that is held
	Waits Event // what it waits for
	// Order, if set, stands in place of the names, as a person writes them; a run finds the events.
	Order *Order
}

// String returns the constraint on one line.
func (c Constraint) String() string {
	if c.Order != nil {
		return c.Order.String()
	}
	return c.Event.String() + " waits for " + c.Waits.String()
}

// Order is a constraint by selectors. Both count the events of the whole run, each poll once.
type Order struct {
	// Hold selects the event that is held: the first that matches, or the Occurrence-th. Of several that could be next, it is
	// the first to come up.
	Hold Selector
	// From makes it a `between`: Hold then counts only requests that carry the revision which a read of this verb by the same
	// actor returned, and Until only what has happened since that read. Get stands for CachedGet, too, and List for
	// CachedList. It does not go with the way back of a response, which carries nothing.
	From Verb
	// Until selects what it waits for: the first event that matches, or the Occurrence-th.
	Until Selector
	// Times is how many of Until it waits for; zero means one. With an Occurrence in Until it is of no use.
	Times int
}

// String returns the order on one line.
func (o Order) String() string {
	until := o.Until.String()
	if o.Times > 1 {
		until = fmt.Sprintf("%d times %s", o.Times, until)
	}
	if o.From != "" {
		return fmt.Sprintf("between %s and %s, %s", o.From, o.Hold.String(), until)
	}
	return o.Hold.String() + " waits for " + until
}
