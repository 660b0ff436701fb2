package reactors_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/racer"
	"github.com/stalemate-dev/stalemate/reactors"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

var appKey = types.NamespacedName{Namespace: "default", Name: "app"}

// updating is an operator that reads, updates, and looks what has come of it.
func (d *diary) updating(change func(*corev1.ConfigMap)) operator {
	return d.once(func(ctx context.Context, live ctrlclient.Client) {
		app := &corev1.ConfigMap{}
		d.write("get: %v", live.Get(ctx, appKey, app))
		app.Data = map[string]string{"n": "1"}
		change(app)
		d.write("update: %v", live.Update(ctx, app))
		d.write("get: %v", live.Get(ctx, appKey, app))
		d.write("n=%s", app.Data["n"])
	})
}

const (
	tooMany     = "update: the server has received too many requests and has asked us to try again later (put configmaps app)"
	unavailable = "update: the server is currently unable to handle the request (put configmaps app)"
	timeout     = "update: Timeout: request did not complete within requested timeout - context deadline exceeded"
)

// errorsOfRequests are errors at an update, and what comes of them.
var errorsOfRequests = []struct {
	name   string
	fault  schedule.FaultType
	params schedule.Params
	want   string   // the line of the update
	at     string   // when it came back
	calls  []string // the attempts
}{
	{name: "Conflict", fault: schedule.Conflict, want: `update: Operation cannot be fulfilled on configmaps "app": the object ` +
		`has been modified; please apply your changes to the latest version and try again`, at: "0s", calls: []string{"409"}},
	{name: "Invalid", fault: schedule.Invalid, want: `update: ConfigMap "app" is invalid: spec: Forbidden: the object is ` +
		`refused by a fault of the simulation`, at: "0s", calls: []string{"422"}},
	{name: "Forbidden", fault: schedule.Forbidden, want: `update: configmaps "app" is forbidden: User ` +
		`"system:serviceaccount:default:operator" cannot update resource "configmaps" in API group "" in the namespace "default"`,
		at: "0s", calls: []string{"403"}},
	{name: "NotFound", fault: schedule.NotFound, want: `update: configmaps "app" not found`, at: "0s", calls: []string{"404"}},
	{name: "429", fault: schedule.TooManyRequests, want: "update: <nil>", at: "1s", calls: []string{"429 again", "200 committed"}},
	{name: "429 for long", fault: schedule.TooManyRequests, params: schedule.Params{RetryAfter: 7 * time.Second},
		want: "update: <nil>", at: "7s", calls: []string{"429 again", "200 committed"}},
	{name: "429 without Retry-After", fault: schedule.TooManyRequests, params: schedule.Params{RetryAfter: -1},
		want: tooMany, at: "0s", calls: []string{"429"}},
	{name: "429 at the client", fault: schedule.TooManyRequests, params: schedule.Params{Layer: schedule.Client},
		want: tooMany, at: "10s", calls: []string{"429"}},
	{name: "429 at the client without Retry-After", fault: schedule.TooManyRequests,
		params: schedule.Params{Layer: schedule.Client, RetryAfter: -time.Second}, want: tooMany, at: "0s", calls: []string{"429"}},
	{name: "500", fault: schedule.InternalError, want: `update: Internal error occurred: failed calling webhook ` +
		`"webhook.stalemate.dev": failed to call webhook: Post "https://webhook.stalemate.svc:443/?timeout=10s": ` +
		`dial tcp 10.96.0.2:443: connect: connection refused`, at: "0s", calls: []string{"500"}},
	{name: "500 with Retry-After", fault: schedule.InternalError, params: schedule.Params{RetryAfter: time.Second},
		want: "update: <nil>", at: "1s", calls: []string{"500 again", "200 committed"}},
	{name: "ServerTimeout", fault: schedule.ServerTimeout, want: "update: <nil>", at: "2s",
		calls: []string{"500 again", "200 committed"}},
	{name: "ServerTimeout at the client", fault: schedule.ServerTimeout, params: schedule.Params{Layer: schedule.Client},
		want: `update: The update operation against configmaps could not be completed at this time, please try again.`,
		at:   "20s", calls: []string{"500"}},
	{name: "503", fault: schedule.ServiceUnavailable, want: unavailable, at: "0s", calls: []string{"503"}},
	{name: "503 with Retry-After", fault: schedule.ServiceUnavailable, params: schedule.Params{RetryAfter: 5 * time.Second},
		want: "update: <nil>", at: "5s", calls: []string{"503 again", "200 committed"}},
	{name: "a webhook's refusal", fault: schedule.WebhookDenial, params: schedule.Params{Webhook: "policy.example.com"},
		want: `update: admission webhook "policy.example.com" denied the request: the object is refused by a fault of the simulation`,
		at:   "0s", calls: []string{"403"}},
	{name: "a webhook that is away", fault: schedule.WebhookFailure, params: schedule.Params{Webhook: "policy.example.com"},
		want: `update: Internal error occurred: failed calling webhook "policy.example.com": failed to call webhook: ` +
			`Post "https://webhook-service.default.svc:443/?timeout=10s": dial tcp 10.96.0.2:443: connect: connection refused`,
		at: "0s", calls: []string{"500"}},
	{name: "a webhook that is slow", fault: schedule.WebhookFailure,
		params: schedule.Params{Webhook: "policy.example.com", Means: schedule.DeadlineExceeded},
		want: `update: Internal error occurred: failed calling webhook "policy.example.com": failed to call webhook: ` +
			`Post "https://webhook-service.default.svc:443/?timeout=10s": context deadline exceeded`,
		at: "10s", calls: []string{"500"}},
	{name: "504", fault: schedule.Timeout, want: timeout, at: "34s", calls: []string{"504"}},
	{name: "504 with Retry-After", fault: schedule.Timeout, params: schedule.Params{RetryAfter: time.Second},
		want: "update: <nil>", at: "35s", calls: []string{"504 again", "200 committed"}},
	{name: "504 at the client", fault: schedule.Timeout, params: schedule.Params{Layer: schedule.Client}, want: timeout, at: "34s",
		calls: []string{"504"}},
	{name: "504 with Retry-After at the client", fault: schedule.Timeout,
		params: schedule.Params{RetryAfter: time.Second, Layer: schedule.Client}, want: timeout, at: "6m24s", calls: []string{"504"}},
	{name: "504 after the commit", fault: schedule.LostResponse, params: schedule.Params{Means: schedule.RequestTimeout},
		want: timeout, at: "34s", calls: []string{"504 committed"}},
	{name: "connection lost", fault: schedule.LostResponse,
		want: `update: Put "https://10.96.0.1:443/api/v1/namespaces/default/configmaps/app": EOF`, at: "0s",
		calls: []string{"-1 committed"}},
	{name: "applied twice", fault: schedule.AppliedTwice, want: `update: Operation cannot be fulfilled on configmaps "app": ` +
		`the object has been modified; please apply your changes to the latest version and try again`, at: "2s",
		calls: []string{"500 again committed", "409"}},
}

// TestErrorsOfRequests checks what an operator sees of each error, when, and what client-go does about it.
func TestErrorsOfRequests(t *testing.T) {
	for _, test := range errorsOfRequests {
		t.Run(test.name, func(t *testing.T) {
			d := &diary{}
			h := d.run(t, scenario{given: []apiserver.Object{configMap(nil)}}, d.updating(func(*corev1.ConfigMap) {}),
				at(test.fault, schedule.Update, "ConfigMap", test.params))
			n := "n="
			if slices.ContainsFunc(test.calls, func(call string) bool { return len(call) > 9 && call[len(call)-9:] == "committed" }) {
				n = "n=1"
			}
			d.expect(t, h, "0s get: <nil>", test.at+" "+test.want, test.at+" get: <nil>", test.at+" "+n)
			if diff := cmp.Diff(test.calls, attempts(h, schedule.Update)); diff != "" {
				t.Errorf("attempts (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPatience checks when a server gives up on each verb, and what it says.
func TestPatience(t *testing.T) {
	const (
		write = "34s Timeout: request did not complete within requested timeout - context deadline exceeded"
		read  = "1m0s Timeout: request did not complete within the allotted timeout"
	)
	tests := []struct {
		verb schedule.Verb
		call func(context.Context, ctrlclient.Client) error
		want string
	}{
		{schedule.Get, func(ctx context.Context, c ctrlclient.Client) error { return c.Get(ctx, appKey, &corev1.Secret{}) }, read},
		{schedule.List, func(ctx context.Context, c ctrlclient.Client) error { return c.List(ctx, &corev1.SecretList{}) }, read},
		{schedule.Create, func(ctx context.Context, c ctrlclient.Client) error { return c.Create(ctx, secret("new")) }, write},
		{schedule.Update, func(ctx context.Context, c ctrlclient.Client) error { return c.Update(ctx, secret("app")) }, write},
		{schedule.Patch, func(ctx context.Context, c ctrlclient.Client) error {
			return c.Patch(ctx, secret("app"), ctrlclient.RawPatch(types.MergePatchType, []byte("{}")))
		}, write},
		{schedule.Delete, func(ctx context.Context, c ctrlclient.Client) error { return c.Delete(ctx, secret("app")) }, write},
		{schedule.DeleteCollection, func(ctx context.Context, c ctrlclient.Client) error {
			return c.DeleteAllOf(ctx, &corev1.Secret{}, ctrlclient.InNamespace("default"))
		}, "1m0s" + write[3:]},
	}
	for _, test := range tests {
		t.Run(string(test.verb), func(t *testing.T) {
			d := &diary{}
			h := d.run(t, scenario{given: []apiserver.Object{configMap(nil), secret("app")}},
				d.once(func(ctx context.Context, live ctrlclient.Client) { d.write("%v", test.call(ctx, live)) }),
				at(schedule.Timeout, test.verb, "Secret", schedule.Params{}))
			d.expect(t, h, test.want)
			if slices.ContainsFunc(h.Records, func(r history.Record) bool { return r.Committed != 0 }) {
				t.Errorf("it was carried out%s", steps(h))
			}
		})
	}
}

// TestAppliedTwice checks what the second answer is.
func TestAppliedTwice(t *testing.T) {
	tests := []struct {
		verb schedule.Verb
		call func(context.Context, ctrlclient.Client) error
		want string
	}{
		{schedule.Create, func(ctx context.Context, c ctrlclient.Client) error { return c.Create(ctx, secret("new")) },
			`2s secrets "new" already exists`},
		{schedule.Delete, func(ctx context.Context, c ctrlclient.Client) error { return c.Delete(ctx, secret("old")) },
			`2s secrets "old" not found`},
		{schedule.Patch, func(ctx context.Context, c ctrlclient.Client) error {
			return c.Patch(ctx, secret("old"), ctrlclient.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`)))
		}, "2s <nil>"},
	}
	for _, test := range tests {
		t.Run(string(test.verb), func(t *testing.T) {
			d := &diary{}
			h := d.run(t, scenario{given: []apiserver.Object{configMap(nil), secret("old")}},
				d.once(func(ctx context.Context, live ctrlclient.Client) { d.write("%v", test.call(ctx, live)) }),
				at(schedule.AppliedTwice, test.verb, "Secret", schedule.Params{}))
			d.expect(t, h, test.want)
		})
	}
	t.Run("generated names", func(t *testing.T) { // which the body that is sent again does not have: two objects
		d := &diary{}
		h := d.run(t, scenario{given: []apiserver.Object{configMap(nil)}},
			d.once(func(ctx context.Context, live ctrlclient.Client) {
				generated := secret("")
				generated.GenerateName = "new-"
				list := &corev1.SecretList{}
				d.write("%v %v", live.Create(ctx, generated), live.List(ctx, list))
				last := len(list.Items) - 1
				d.write("%d, and the operator knows one of them: %t", len(list.Items), slices.ContainsFunc(list.Items,
					func(s corev1.Secret) bool { return s.UID == generated.UID }) && list.Items[0].Name != list.Items[last].Name)
			}), at(schedule.AppliedTwice, schedule.Create, "Secret", schedule.Params{}))
		d.expect(t, h, "2s <nil> <nil>", "2s 2, and the operator knows one of them: true")
	})
}

// TestCompetingWrite checks that it is the server who finds the conflict, and only where a write carries a lock.
func TestCompetingWrite(t *testing.T) {
	competing := schedule.Params{Means: schedule.CompetingWrite}
	const refused = `Operation cannot be fulfilled on configmaps "app": the object has been modified; please apply your changes ` +
		`to the latest version and try again`
	t.Run("update with a lock", func(t *testing.T) {
		d := &diary{}
		h := d.run(t, scenario{given: []apiserver.Object{configMap(nil)}},
			d.updating(func(*corev1.ConfigMap) {}), at(schedule.Conflict, schedule.Update, "ConfigMap", competing))
		d.expect(t, h, "0s get: <nil>", "0s update: "+refused, "0s get: <nil>", "0s n=")
		i := slices.IndexFunc(h.Records, func(r history.Record) bool { return r.Event.Actor == reactors.Rival })
		if i < 0 || h.Records[i].Code != 200 || h.Records[i+1].Event.Verb != schedule.Update {
			t.Fatalf("the rival's write does not come right before the update%s", steps(h))
		}
		if got := h.Records[i].After.GetAnnotations()[reactors.RivalAnnotation]; got != h.Records[i+1].Event.String() {
			t.Errorf("the rival wrote %q", got)
		}
	})
	t.Run("update without a lock", func(t *testing.T) {
		d := &diary{}
		h := d.run(t, scenario{given: []apiserver.Object{configMap(nil)}},
			d.updating(func(app *corev1.ConfigMap) { app.ResourceVersion = "" }), at(schedule.Conflict, schedule.Update, "ConfigMap", competing))
		d.expect(t, h, "0s get: <nil>", "0s update: <nil>", "0s get: <nil>", "0s n=1")
	})
	for _, locked := range []bool{true, false} {
		d := &diary{}
		h := d.run(t, scenario{given: []apiserver.Object{configMap(nil), secret("app")}},
			d.once(func(ctx context.Context, live ctrlclient.Client) {
				found := &corev1.Secret{}
				d.write("get: %v", live.Get(ctx, appKey, found))
				var options []ctrlclient.DeleteOption
				if locked {
					options = append(options, ctrlclient.Preconditions{ResourceVersion: &found.ResourceVersion})
				}
				err := live.Delete(ctx, found, options...)
				d.write("deleted: %t", err == nil)
			}), at(schedule.Conflict, schedule.Delete, "Secret", competing))
		want := "0s deleted: true"
		if locked {
			want = "0s deleted: false"
		}
		d.expect(t, h, "0s get: <nil>", want)
	}
}

// TestSlow checks when late requests and late responses take place.
func TestSlow(t *testing.T) {
	tests := []struct {
		name      string
		fault     schedule.Fault
		want      []string
		committed time.Duration
	}{
		{"late request", at(schedule.Delay, schedule.Update, "ConfigMap", schedule.Params{For: time.Minute}),
			[]string{"0s get: <nil>", "1m0s update: <nil>", "1m0s get: <nil>", "1m0s n=1"}, time.Minute},
		{"late response", at(schedule.Delay, schedule.Update, "ConfigMap", schedule.Params{For: time.Minute, Point: schedule.AfterCommit}),
			[]string{"0s get: <nil>", "1m0s update: <nil>", "1m0s get: <nil>", "1m0s n=1"}, 0},
		{"wedged for a while", at(schedule.Wedge, schedule.Update, "ConfigMap", schedule.Params{For: time.Hour}),
			[]string{"0s get: <nil>", "30m0s update: <nil>", "30m0s get: <nil>", "30m0s n=1"}, heal},
		{"wedged for good", at(schedule.Wedge, schedule.Update, "ConfigMap", schedule.Params{}),
			[]string{"0s get: <nil>", "30m0s update: <nil>", "30m0s get: <nil>", "30m0s n=1"}, heal},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := &diary{}
			h := d.run(t, scenario{given: []apiserver.Object{configMap(nil)}}, d.updating(func(*corev1.ConfigMap) {}), test.fault)
			d.expect(t, h, test.want...)
			i := slices.IndexFunc(h.Records, func(r history.Record) bool { return r.Event.Verb == schedule.Update })
			if got := h.Records[i].At.Truncate(time.Second); got != test.committed {
				t.Errorf("the server carried it out at %s, want %s", got, test.committed)
			}
		})
	}
}

// relabel is a user's step that changes a Secret.
func relabel(at time.Duration, n string) racer.UserStep {
	return racer.UserStep{At: at, Patch: &racer.UserPatch{Kind: "Secret", Namespace: "default", Name: "app",
		Data: []byte(`{"metadata":{"labels":{"n":"` + n + `"}}}`)}}
}

// TestWatches checks what the handlers of an informer are told, and when, if something happens to its watch at 10 s: of two
// changes, half a second apart; or of a delete and a create; or of a delete.
func TestWatches(t *testing.T) {
	numbered := secret("app")
	numbered.Labels = map[string]string{"n": "0"}
	recreated := numbered.DeepCopy()
	recreated.Labels["n"] = "9"
	changes := []racer.UserStep{relabel(10*time.Second, "1"), relabel(10500*time.Millisecond, "2"), relabel(time.Minute, "3")}
	remove := racer.UserStep{At: 10 * time.Second, Delete: &racer.UserDelete{Kind: "Secret", Namespace: "default", Name: "app"}}
	create := racer.UserStep{At: 10500 * time.Millisecond, Create: &racer.UserCreate{Kind: "Secret", Object: recreated}}
	last := "1m0s updated app 2 to 3, same object"
	tests := []struct {
		name  string
		fault schedule.FaultType // none if empty
		steps []racer.UserStep
		want  []string
	}{
		{"nothing", "", changes,
			[]string{"10s updated app 0 to 1, same object", "10.5s updated app 1 to 2, same object", last}},
		{"lag", schedule.CacheLag, changes,
			[]string{"40s updated app 0 to 1, same object", "40s updated app 1 to 2, same object", last}},
		{"drop", schedule.WatchDrop, changes,
			[]string{"10.8s updated app 0 to 1, same object", "10.8s updated app 1 to 2, same object", last}},
		{"relist", schedule.Relist, changes, []string{"11s updated app 0 to 2, same object", last}},
		{"recreated", "", []racer.UserStep{remove, create}, []string{"10s deleted app 0, tombstone false", "10.5s created app 9"}},
		{"lag over a recreate", schedule.CacheLag, []racer.UserStep{remove, create},
			[]string{"40s deleted app 0, tombstone false", "40s created app 9"}},
		{"relist over a recreate", schedule.Relist, []racer.UserStep{remove, create}, []string{"11s updated app 0 to 9, another object"}},
		{"relist over a change and a delete", schedule.Relist, []racer.UserStep{relabel(10*time.Second, "1"),
			{At: 10500 * time.Millisecond, Delete: remove.Delete}}, []string{"11s deleted app 0, tombstone true"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := &diary{}
			s := scenario{given: []apiserver.Object{configMap(nil), numbered}, racers: []sim.RacerConfig{user(test.steps...)}}
			var faults []schedule.Fault
			if test.fault != "" {
				faults = append(faults, at(test.fault, schedule.Deliver, "Secret", schedule.Params{}))
			}
			h := d.run(t, s, d.watching(), faults...)
			d.expect(t, h, append([]string{"0s created app 0, initial"}, test.want...)...)
		})
	}
}

// TestProcesses checks what a process that dies has done, when it is back, and as whom.
func TestProcesses(t *testing.T) {
	tests := []struct {
		name  string
		fault schedule.Fault
		want  []string
	}{
		{"before the call", at(schedule.Crash, schedule.Update, "ConfigMap", schedule.Params{}),
			[]string{"0s get: <nil>", "1s get: <nil>", "1s update: <nil>", "1s get: <nil>", "1s n=1"}},
		{"after the commit", at(schedule.Crash, schedule.Update, "ConfigMap",
			schedule.Params{Point: schedule.AfterCommit, For: 20 * time.Second}),
			[]string{"0s get: <nil>", "20s get: <nil>", "20s update: <nil>", "20s get: <nil>", "20s n=1"}},
		{"to the next version", at(schedule.Upgrade, schedule.Update, "ConfigMap", schedule.Params{Reconciler: "next"}),
			[]string{"0s get: <nil>", "1s next"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := &diary{}
			o := d.updating(func(*corev1.ConfigMap) {})
			s := scenario{given: []apiserver.Object{configMap(nil)}}
			if test.fault.Type == schedule.Upgrade {
				s.before, o = o, d.once(func(context.Context, ctrlclient.Client) { d.write("next") })
			}
			h := d.run(t, s, o, test.fault)
			d.expect(t, h, test.want...)
			committed := slices.ContainsFunc(h.Records, func(r history.Record) bool {
				return r.Event.Verb == schedule.Update && r.Event.Incarnation == 1 && r.Committed != 0
			})
			if committed != (test.fault.Point == schedule.AfterCommit) {
				t.Errorf("the first life's update was carried out: %t%s", committed, steps(h))
			}
		})
	}
}

// TestUpgradeLasts checks that a process which dies after its upgrade comes back as what it has become.
func TestUpgradeLasts(t *testing.T) {
	d := &diary{}
	version := func(name string) operator {
		return d.once(func(ctx context.Context, live ctrlclient.Client) {
			d.write("%s: %v", name, live.Get(ctx, appKey, &corev1.ConfigMap{}))
		})
	}
	get := schedule.Selector{Incarnation: 1, Verbs: []schedule.Verb{schedule.Get}}
	again := get
	again.Incarnation = 2
	h := d.run(t, scenario{given: []apiserver.Object{configMap(nil)}, before: version("old")}, version("new"),
		schedule.Fault{Type: schedule.Upgrade, Select: &get, Params: schedule.Params{Reconciler: "next", Point: schedule.AfterCommit}},
		schedule.Fault{Type: schedule.Crash, Select: &again, Params: schedule.Params{Point: schedule.AfterCommit}})
	d.expect(t, h, "2s new: <nil>")
}

// TestRestart checks what the next life of a process is told: a list of what there is. What came to pass in between, a change,
// a deletion, and a deletion and creation, it never hears of.
func TestRestart(t *testing.T) {
	named := func(name string) *corev1.Secret {
		s := secret(name)
		s.Labels = map[string]string{"n": "0"}
		return s
	}
	again := named("again")
	again.Labels["n"] = "9"
	remove := func(name string) racer.UserStep {
		return racer.UserStep{At: 10 * time.Second, Delete: &racer.UserDelete{Kind: "Secret", Namespace: "default", Name: name}}
	}
	for _, fault := range []schedule.Fault{
		at(schedule.Crash, schedule.Patch, "ConfigMap", schedule.Params{For: time.Minute}),
		at(schedule.Upgrade, schedule.Patch, "ConfigMap", schedule.Params{For: time.Minute, Reconciler: "next"}),
	} {
		d := &diary{}
		s := scenario{
			given: []apiserver.Object{configMap(nil), named("again"), named("app"), named("gone")},
			racers: []sim.RacerConfig{user(relabel(10*time.Second, "1"), remove("gone"), remove("again"),
				racer.UserStep{At: 11 * time.Second, Create: &racer.UserCreate{Kind: "Secret", Object: again}})},
		}
		h := d.run(t, s, d.watchingAnd(func(ctx context.Context, live ctrlclient.Client) {
			patch := ctrlclient.RawPatch(types.MergePatchType, []byte(`{"data":{"n":"1"}}`))
			d.write("patch: %v", live.Patch(ctx, configMap(nil), patch))
		}), fault)
		d.expect(t, h, "0s created again 0, initial", "0s created app 0, initial", "0s created gone 0, initial",
			"1m0s created again 9, initial", "1m0s created app 1, initial", "1m0s patch: <nil>", "1m0s patch: <nil>")
	}
}

// TestLostWriteIsSeen checks that a write whose answer is lost is one like any other to the cache of the operator that made it.
func TestLostWriteIsSeen(t *testing.T) {
	for _, means := range []schedule.Means{schedule.ConnectionLost, schedule.RequestTimeout} {
		d := &diary{}
		o := reconciling(func(deps sim.Deps) pass {
			d.begin = time.Now()
			return func(ctx context.Context, key types.NamespacedName) (ctrl.Result, error) {
				d.write("cached: %v", deps.Client.Get(ctx, key, &corev1.Secret{}))
				err := deps.Client.Create(ctx, secret("app"))
				d.write("created: %t, there already: %t", err == nil, apierrors.IsAlreadyExists(err))
				d.write("cached: %v", deps.Client.Get(ctx, key, &corev1.Secret{}))
				return ctrl.Result{}, ctrlclient.IgnoreAlreadyExists(err)
			}
		})
		h := d.run(t, scenario{given: []apiserver.Object{configMap(nil)}}, o,
			at(schedule.LostResponse, schedule.Create, "Secret", schedule.Params{Means: means}))
		after := map[schedule.Means]string{schedule.ConnectionLost: "0s", schedule.RequestTimeout: "34s"}[means]
		d.expect(t, h, `0s cached: Secret "app" not found`, after+" created: false, there already: false", after+" cached: <nil>",
			after+" cached: <nil>", after+" created: false, there already: true", after+" cached: <nil>")
	}
}
