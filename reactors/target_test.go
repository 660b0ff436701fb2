package reactors

import (
	"errors"
	"io"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

var apps = schema.GroupVersion{Group: "apps", Version: "v1"}

// update is an update of a StatefulSet.
func update() target {
	return target{actor: "operator", verb: schedule.Update, group: apps, kind: "StatefulSet", resource: "statefulsets",
		namespace: "default", object: "x", name: "x"}
}

// predicates are those of apierrors that operators use, in their order.
var predicates = []struct {
	name  string
	holds func(error) bool
}{
	{"Conflict", apierrors.IsConflict}, {"Invalid", apierrors.IsInvalid}, {"Forbidden", apierrors.IsForbidden},
	{"NotFound", apierrors.IsNotFound}, {"TooManyRequests", apierrors.IsTooManyRequests},
	{"InternalError", apierrors.IsInternalError}, {"ServerTimeout", apierrors.IsServerTimeout},
	{"ServiceUnavailable", apierrors.IsServiceUnavailable}, {"Timeout", apierrors.IsTimeout},
	{"AlreadyExists", apierrors.IsAlreadyExists}, {"BadRequest", apierrors.IsBadRequest}, {"Gone", apierrors.IsGone},
	{"Unauthorized", apierrors.IsUnauthorized}, {"UnexpectedServerError", apierrors.IsUnexpectedServerError},
	{"UnexpectedObjectError", apierrors.IsUnexpectedObjectError},
}

func holding(err error) []string {
	var names []string
	for _, p := range predicates {
		if p.holds(err) {
			names = append(names, p.name)
		}
	}
	return names
}

// none is no suggestion of a delay.
const none = -1

// changed is the update with a change.
func changed(change func(*target)) target {
	t := update()
	change(&t)
	return t
}

// errorTests say what each error is to a client.
var errorTests = []struct {
	fault  schedule.Fault
	target target
	text   string
	is     []string
	code   int32
	delay  int // seconds that it suggests
}{
	{fault: schedule.Fault{Type: schedule.Conflict}, target: update(), text: `Operation cannot be fulfilled on ` +
		`statefulsets.apps "x": the object has been modified; please apply your changes to the latest version and try again`,
		is: []string{"Conflict"}, code: 409, delay: none},
	{fault: schedule.Fault{Type: schedule.Invalid}, target: update(), text: `StatefulSet.apps "x" is invalid: spec: ` +
		`Forbidden: the object is refused by a fault of the simulation`, is: []string{"Invalid"}, code: 422, delay: none},
	{fault: schedule.Fault{Type: schedule.Forbidden}, target: update(), text: `statefulsets.apps "x" is forbidden: ` +
		`User "system:serviceaccount:default:operator" cannot update resource "statefulsets" in API group "apps" in the ` +
		`namespace "default"`, is: []string{"Forbidden"}, code: 403, delay: none},
	{fault: schedule.Fault{Type: schedule.Forbidden}, target: changed(func(t *target) { t.subresource = "status" }),
		text: `statefulsets.apps "x" is forbidden: User "system:serviceaccount:default:operator" cannot update resource ` +
			`"statefulsets/status" in API group "apps" in the namespace "default"`,
		is: []string{"Forbidden"}, code: 403, delay: none},
	{fault: schedule.Fault{Type: schedule.Forbidden}, target: target{actor: "operator", verb: schedule.List,
		group: schema.GroupVersion{Version: "v1"}, kind: "Node", resource: "nodes"},
		text: `nodes is forbidden: User "system:serviceaccount:default:operator" cannot list resource "nodes" in API group "" ` +
			`at the cluster scope`, is: []string{"Forbidden"}, code: 403, delay: none},
	{fault: schedule.Fault{Type: schedule.NotFound}, target: update(), text: `statefulsets.apps "x" not found`,
		is: []string{"NotFound"}, code: 404, delay: none},
	{fault: schedule.Fault{Type: schedule.TooManyRequests}, target: update(), text: `the server has received too many ` +
		`requests and has asked us to try again later (put statefulsets.apps x)`,
		is: []string{"TooManyRequests", "UnexpectedServerError"}, code: 429, delay: 1},
	{fault: schedule.Fault{Type: schedule.TooManyRequests, Params: schedule.Params{RetryAfter: -time.Minute}}, target: update(),
		text: `the server has received too many requests and has asked us to try again later (put statefulsets.apps x)`,
		is:   []string{"TooManyRequests", "UnexpectedServerError"}, code: 429, delay: none},
	{fault: schedule.Fault{Type: schedule.InternalError}, target: update(),
		text: `Internal error occurred: failed calling webhook "webhook.stalemate.dev": failed to call webhook: ` +
			`Post "https://webhook.stalemate.svc:443/?timeout=10s": dial tcp 10.96.0.2:443: connect: connection refused`,
		is: []string{"InternalError"}, code: 500, delay: none},
	{fault: schedule.Fault{Type: schedule.InternalError, Params: schedule.Params{RetryAfter: time.Second}},
		target: changed(func(t *target) { t.verb = schedule.Get }),
		text:   `Internal error occurred: failed to decrypt DEK, error: rpc error: code = Unavailable desc = the plugin is away`,
		is:     []string{"InternalError"}, code: 500, delay: 1},
	{fault: schedule.Fault{Type: schedule.ServerTimeout}, target: update(), text: `The update operation against ` +
		`statefulsets.apps could not be completed at this time, please try again.`,
		is: []string{"ServerTimeout"}, code: 500, delay: 2},
	{fault: schedule.Fault{Type: schedule.ServiceUnavailable}, target: update(), text: `the server is currently unable to ` +
		`handle the request (put statefulsets.apps x)`,
		is: []string{"ServiceUnavailable", "UnexpectedServerError"}, code: 503, delay: none},
	{fault: schedule.Fault{Type: schedule.ServiceUnavailable, Params: schedule.Params{RetryAfter: 5 * time.Second}},
		target: changed(func(t *target) { t.verb, t.name = schedule.Create, "" }),
		text:   `the server is currently unable to handle the request (post statefulsets.apps)`,
		is:     []string{"ServiceUnavailable", "UnexpectedServerError"}, code: 503, delay: 5},
	{fault: schedule.Fault{Type: schedule.Timeout}, target: update(), text: `Timeout: request did not complete within ` +
		`requested timeout - context deadline exceeded`, is: []string{"Timeout"}, code: 504, delay: none},
	{fault: schedule.Fault{Type: schedule.Timeout}, target: changed(func(t *target) { t.verb = schedule.List }),
		text: `Timeout: request did not complete within the allotted timeout`, is: []string{"Timeout"}, code: 504, delay: none},
}

// TestErrors checks what each error is to a client: the text, what apierrors says of it, and whether it suggests a delay.
func TestErrors(t *testing.T) {
	for _, test := range errorTests {
		t.Run(string(test.fault.Type), func(t *testing.T) {
			err := rows[test.fault.Type].build(&test.target, Complete(test.fault))
			if err.Error() != test.text {
				t.Errorf("text:\n\t%s\nwant\n\t%s", err, test.text)
			}
			if err.ErrStatus.Code != test.code {
				t.Errorf("code %d, want %d", err.ErrStatus.Code, test.code)
			}
			if got := string(err.ErrStatus.Reason); got != test.is[0] {
				t.Errorf("reason %q, want %q", got, test.is[0])
			}
			if diff := cmp.Diff(test.is, holding(err)); diff != "" {
				t.Errorf("apierrors says (-want +got):\n%s", diff)
			}
			delay, suggested := apierrors.SuggestsClientDelay(err)
			if !suggested {
				delay = none
			}
			if delay != test.delay || err.ErrStatus.Details.RetryAfterSeconds < 0 {
				t.Errorf("suggests a delay of %d s, want %d", delay, test.delay)
			}
		})
	}
}

// TestCauses checks the details that operators look into.
func TestCauses(t *testing.T) {
	subject := update()
	want := []metav1.StatusCause{{Type: "FieldValueForbidden", Field: "spec",
		Message: "Forbidden: the object is refused by a fault of the simulation"}}
	if diff := cmp.Diff(want, subject.invalid(schedule.Fault{}).ErrStatus.Details.Causes); diff != "" {
		t.Errorf("causes of Invalid (-want +got):\n%s", diff)
	}
	details := subject.conflict(schedule.Fault{}).ErrStatus.Details
	if diff := cmp.Diff(&metav1.StatusDetails{Name: "x", Group: "apps", Kind: "statefulsets"}, details); diff != "" {
		t.Errorf("details of Conflict (-want +got):\n%s", diff)
	}
}

func TestServerTimeoutOperations(t *testing.T) {
	for verb, want := range map[schedule.Verb]string{
		schedule.Get: "get", schedule.List: "list", schedule.Create: "create", schedule.Update: "update",
		schedule.Patch: "update", schedule.Delete: "delete", schedule.DeleteCollection: "list",
	} {
		subject := update()
		subject.verb = verb
		if got := subject.serverTimeout(schedule.Fault{}).ErrStatus.Details.Name; got != want {
			t.Errorf("a %s is a %q operation, want %q", verb, got, want)
		}
	}
}

// TestLostConnection checks that a broken connection is what net/http says of one, and nothing to apierrors.
func TestLostConnection(t *testing.T) {
	core := schema.GroupVersion{Version: "v1"}
	tests := []struct {
		target target
		want   string
	}{
		{update(), `Put "https://10.96.0.1:443/apis/apps/v1/namespaces/default/statefulsets/x": EOF`},
		{target{verb: schedule.Create, group: core, resource: "pods", namespace: "a", object: "b"},
			`Post "https://10.96.0.1:443/api/v1/namespaces/a/pods": EOF`},
		{target{verb: schedule.Patch, group: core, resource: "nodes", name: "n", subresource: "status"},
			`Patch "https://10.96.0.1:443/api/v1/nodes/n/status": EOF`},
		{target{verb: schedule.DeleteCollection, group: core, resource: "pods", namespace: "a"},
			`Delete "https://10.96.0.1:443/api/v1/namespaces/a/pods": EOF`},
	}
	for _, test := range tests {
		err := test.target.lost(Complete(schedule.Fault{Type: schedule.LostResponse}))
		if err.Error() != test.want {
			t.Errorf("got %s, want %s", err, test.want)
		}
		if _, ok := errors.AsType[*url.Error](err); !ok || !errors.Is(err, io.EOF) || !utilnet.IsProbableEOF(err) {
			t.Errorf("%v is a %T, and no connection that was closed", err, err)
		}
		if is := holding(err); len(is) > 0 || apierrors.ReasonForError(err) != metav1.StatusReasonUnknown {
			t.Errorf("apierrors says it is %v", is)
		}
	}
}

func TestLostByTimeout(t *testing.T) {
	subject := update()
	err := subject.lost(schedule.Fault{Type: schedule.LostResponse, Params: schedule.Params{Means: schedule.RequestTimeout}})
	if is := holding(err); !cmp.Equal(is, []string{"Timeout"}) {
		t.Errorf("apierrors says it is %v", is)
	}
	if _, delay := apierrors.SuggestsClientDelay(err); delay {
		t.Error("it suggests a delay, so client-go would try again")
	}
}
