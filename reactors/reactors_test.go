package reactors_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stalemate-dev/stalemate/reactors"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// TestEveryTypeHasAReactor checks that package schedule and this one know the same types.
func TestEveryTypeHasAReactor(t *testing.T) {
	for _, faultType := range schedule.FaultTypes() {
		fault := schedule.Fault{Type: faultType}
		if faultType == schedule.Upgrade {
			fault.Reconciler = "next"
		}
		if reactor, err := reactors.New(fault); err != nil || reactor == nil {
			t.Errorf("%s: %v", faultType, err)
		}
		if err := reactors.Validate(reactors.Complete(fault)); err != nil {
			t.Errorf("%s is not valid with its own defaults: %v", faultType, err)
		}
		if again := reactors.Complete(reactors.Complete(fault)); again != reactors.Complete(fault) {
			t.Errorf("%s: completing it twice gives %v", faultType, again)
		}
		if doc := reactors.Doc(faultType); doc == "" || strings.Contains(doc, "\n") {
			t.Errorf("%s: its description is %q", faultType, doc)
		}
	}
	if doc := reactors.Doc("Flood"); doc != "" {
		t.Errorf("an unknown type is described as %q", doc)
	}
}

func ExampleDoc() {
	for _, t := range schedule.FaultTypes() {
		fmt.Printf("%s: %s\n", t, reactors.Doc(t))
	}
	// Output:
	// Conflict: 409 to a write that carries a lock; injected, or by a write that really happens (by Injected or CompetingWrite)
	// Invalid: 422: validation or a policy refuses the object
	// Forbidden: 403: the actor may not
	// NotFound: 404
	// TooManyRequests: 429: the server sheds load; client-go tries again after a Retry-After (layer Transport or Client; retryAfter 1s)
	// InternalError: 500 (layer Transport or Client; retryAfter none)
	// ServerTimeout: 500 with a Retry-After: the storage is not reached; client-go tries again (layer Transport or Client; retryAfter 2s)
	// ServiceUnavailable: 503: the server is not reached (layer Transport or Client; retryAfter none)
	// Timeout: 504: the server gives up after 34s (a minute for a read), and has done nothing (layer Transport or Client; retryAfter none)
	// LostResponse: carried out, and then the connection breaks, or the server gives up (504) (as ConnectionLost or RequestTimeout)
	// AppliedTwice: carried out, and a 500 with a Retry-After makes client-go send it again (retryAfter 2s)
	// Delay: a request reaches the server late, or its response the client (at BeforeCall or AfterCommit; for 3m)
	// Wedge: a request is not made until the faults heal, like that of a kubelet which does not let go of a pod (for ever)
	// CacheLag: an informer is told late of an event, and of all that follow (max 30s)
	// WatchDrop: a watch ends, and goes on later from where it was: nothing is lost (for 800ms)
	// Relist: a watch ends for good (410), and a new list shows what came of the changes: tombstones, and new objects as updates (for 1s)
	// Crash: a process dies at a call, and starts again with an empty memory (at BeforeCall or AfterCommit; restartAfter 1s)
	// Upgrade: a process dies likewise, and another reconciler starts in its place (at BeforeCall or AfterCommit; restartAfter 1s; reconciler)
	// WebhookDenial: an admission webhook refuses a write (webhook the first)
	// WebhookFailure: a webhook does not answer: its failurePolicy decides (as ConnectionRefused or DeadlineExceeded; webhook the first)
	// LateDelete: a finalizer of somebody else keeps a deleted object for a while (for 30s)
}

var (
	update = schedule.Event{Actor: "operator", Incarnation: 1, Verb: schedule.Update, Kind: "StatefulSet", Name: "x"}
	get    = schedule.Event{Actor: "operator", Incarnation: 1, Verb: schedule.Get, Kind: "StatefulSet", Name: "x"}
)

func selectVerbs(verbs ...schedule.Verb) *schedule.Selector { return &schedule.Selector{Verbs: verbs} }

func with(t schedule.FaultType, p schedule.Params) schedule.Fault {
	return schedule.Fault{Type: t, Params: p}
}

// validations are faults, and what is wrong with them.
var validations = []struct {
	name  string
	fault schedule.Fault
	want  string // empty: valid
}{
	{"unknown type", with("Flood", schedule.Params{}), `fault "Flood": the type is unknown: use one of Conflict, Invalid, `},
	{"unknown means", with(schedule.Conflict, schedule.Params{Means: "Magic"}),
		`fault Conflict: means "Magic" is unknown: use Injected or CompetingWrite`},
	{"means of another type", with(schedule.Conflict, schedule.Params{Means: schedule.ConnectionLost}),
		`fault Conflict: means "ConnectionLost" is unknown: use Injected or CompetingWrite`},
	{"means of a type without", with(schedule.Crash, schedule.Params{Means: schedule.Injected}),
		`fault Crash: means "Injected" is no parameter of it: leave it out`},
	{"layer of a type without", with(schedule.Conflict, schedule.Params{Layer: schedule.Client}),
		`fault Conflict: layer "Client" is no parameter of it: leave it out`},
	{"unknown layer", with(schedule.Timeout, schedule.Params{Layer: "Middle"}),
		`fault Timeout: layer "Middle" is unknown: use Transport or Client`},
	{"unknown point", with(schedule.Crash, schedule.Params{Point: "Midway"}),
		`fault Crash: point "Midway" is unknown: use BeforeCall or AfterCommit`},
	{"point of a type without", with(schedule.Wedge, schedule.Params{Point: schedule.BeforeCall}),
		`fault Wedge: point "BeforeCall" is no parameter of it: leave it out`},
	{"Retry-After of a type without", with(schedule.Conflict, schedule.Params{RetryAfter: time.Second}),
		`fault Conflict: retryAfter 1s is no parameter of it: leave it out`},
	{"Retry-After of half a second", with(schedule.TooManyRequests, schedule.Params{RetryAfter: 1500 * time.Millisecond}),
		`fault TooManyRequests: retryAfter 1.5s is not in whole seconds, as the header is: round it`},
	{"Retry-After of centuries", with(schedule.TooManyRequests, schedule.Params{RetryAfter: sim.Forever}),
		`fault TooManyRequests: retryAfter 2562047h47m16.854775807s is longer than 8760h0m0s: give a shorter one`},
	{"applied twice without Retry-After", with(schedule.AppliedTwice, schedule.Params{RetryAfter: -1}),
		`fault AppliedTwice: retryAfter -1ns leaves out the header, without which client-go does not try again`},
	{"no Retry-After", with(schedule.TooManyRequests, schedule.Params{RetryAfter: -1}), ""},
	{"span of a type without", with(schedule.Timeout, schedule.Params{For: time.Second}),
		`fault Timeout: for 1s is no parameter of it: leave it out`},
	{"negative span", with(schedule.Delay, schedule.Params{For: -time.Second}),
		`fault Delay: for -1s is negative: give a span of virtual time`},
	{"endless delay", with(schedule.Delay, schedule.Params{For: sim.Forever}),
		`fault Delay: for 2562047h47m16.854775807s is longer than 8760h0m0s: give a shorter one`},
	{"endless wedge", with(schedule.Wedge, schedule.Params{For: sim.Forever}), ""},
	{"wedge of an hour", with(schedule.Wedge, schedule.Params{For: time.Hour}), ""},
	{"upgrade to nothing", with(schedule.Upgrade, schedule.Params{}),
		`fault Upgrade: reconciler is missing: name the one that starts in the place of the process's own`},
	{"crash to another reconciler", with(schedule.Crash, schedule.Params{Reconciler: "v2"}),
		`fault Crash: reconciler "v2" is no parameter of it: leave it out, or use Upgrade`},
	{"webhook of a type without", with(schedule.Invalid, schedule.Params{Webhook: "x"}),
		`fault Invalid: webhook "x" is no parameter of it: leave it out`},
	{"a webhook that is slow", with(schedule.WebhookFailure, schedule.Params{Means: schedule.DeadlineExceeded}), ""},
	{"a denial of some means", with(schedule.WebhookDenial, schedule.Params{Means: schedule.DeadlineExceeded}),
		`fault WebhookDenial: means "DeadlineExceeded" is no parameter of it: leave it out`},
	{"conflict at a read", schedule.Fault{Type: schedule.Conflict, At: get},
		`fault Conflict: it cannot strike at operator Get StatefulSet x: choose another event`},
	{"conflict at a write", schedule.Fault{Type: schedule.Conflict, At: update}, ""},
	{"conflict at selected reads", schedule.Fault{Type: schedule.Conflict, Select: selectVerbs(schedule.Get, schedule.Create)},
		`fault Conflict: it cannot strike at any actor Get|Create: select other verbs`},
	{"conflict at selected writes", schedule.Fault{Type: schedule.Conflict,
		Select: selectVerbs(schedule.Create, schedule.Update)}, ""},
	{"lag at selected deliveries", schedule.Fault{Type: schedule.CacheLag, Select: selectVerbs(schedule.Deliver)}, ""},
	{"crash anywhere", schedule.Fault{Type: schedule.Crash, Select: &schedule.Selector{}}, ""},
	{"two problems", with(schedule.Crash, schedule.Params{Point: "Midway", For: -1}),
		"fault Crash: point \"Midway\" is unknown: use BeforeCall or AfterCommit\nfault Crash: for -1ns is negative"},
}

func TestValidate(t *testing.T) {
	for _, test := range validations {
		t.Run(test.name, func(t *testing.T) {
			err := reactors.Validate(test.fault)
			if _, fromNew := reactors.New(test.fault); fmt.Sprint(fromNew) != fmt.Sprint(err) {
				t.Errorf("New says %v, Validate %v", fromNew, err)
			}
			switch {
			case err == nil && test.want != "":
				t.Errorf("valid, want %s", test.want)
			case err != nil && (test.want == "" || !strings.HasPrefix(err.Error(), test.want)):
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

func TestComplete(t *testing.T) {
	tests := []struct {
		fault schedule.Fault
		want  schedule.Params
	}{
		{schedule.Fault{Type: schedule.Conflict}, schedule.Params{Means: schedule.Injected}},
		{schedule.Fault{Type: schedule.Conflict, Params: schedule.Params{Means: schedule.CompetingWrite}},
			schedule.Params{Means: schedule.CompetingWrite}},
		{schedule.Fault{Type: schedule.TooManyRequests},
			schedule.Params{Layer: schedule.Transport, RetryAfter: time.Second}},
		{schedule.Fault{Type: schedule.TooManyRequests, Params: schedule.Params{Layer: schedule.Client, RetryAfter: -1}},
			schedule.Params{Layer: schedule.Client, RetryAfter: -1}},
		{schedule.Fault{Type: schedule.Delay, Params: schedule.Params{For: time.Hour}},
			schedule.Params{Point: schedule.BeforeCall, For: time.Hour}},
		{schedule.Fault{Type: schedule.Wedge}, schedule.Params{For: sim.Forever}},
		{schedule.Fault{Type: "Flood"}, schedule.Params{}},
	}
	for _, test := range tests {
		if got := reactors.Complete(test.fault).Params; got != test.want {
			t.Errorf("%s: %+v, want %+v", test.fault, got, test.want)
		}
	}
}
