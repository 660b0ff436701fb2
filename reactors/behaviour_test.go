package reactors_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// TestErrorsOfRequests checks what an operator sees of each error, when, and what client-go does about it.
func TestErrorsOfRequests(t *testing.T) {
	const (
		tooMany     = "update: the server has received too many requests and has asked us to try again later (put configmaps app)"
		unavailable = "update: the server is currently unable to handle the request (put configmaps app)"
		timeout     = "update: Timeout: request did not complete within requested timeout - context deadline exceeded"
	)
	tests := []struct {
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
			want: tooMany, at: "0s", calls: []string{"429"}},
		{name: "500", fault: schedule.InternalError, want: "update: Internal error occurred: etcdserver: leader changed", at: "0s",
			calls: []string{"500"}},
		{name: "500 with Retry-After", fault: schedule.InternalError, params: schedule.Params{RetryAfter: time.Second},
			want: "update: <nil>", at: "1s", calls: []string{"500 again", "200 committed"}},
		{name: "ServerTimeout", fault: schedule.ServerTimeout, want: "update: <nil>", at: "2s",
			calls: []string{"500 again", "200 committed"}},
		{name: "503", fault: schedule.ServiceUnavailable, want: unavailable, at: "0s", calls: []string{"503"}},
		{name: "503 with Retry-After", fault: schedule.ServiceUnavailable, params: schedule.Params{RetryAfter: 5 * time.Second},
			want: "update: <nil>", at: "5s", calls: []string{"503 again", "200 committed"}},
		{name: "504", fault: schedule.Timeout, want: timeout, at: "0s", calls: []string{"504"}},
		{name: "504 with Retry-After", fault: schedule.Timeout, params: schedule.Params{RetryAfter: time.Second},
			want: "update: <nil>", at: "1s", calls: []string{"504 again", "200 committed"}},
		{name: "504 after the commit", fault: schedule.LostResponse, params: schedule.Params{Means: schedule.RequestTimeout},
			want: timeout, at: "0s", calls: []string{"504 committed"}},
		{name: "connection lost", fault: schedule.LostResponse,
			want: `update: Put "https://10.96.0.1:443/api/v1/namespaces/default/configmaps/app": EOF`, at: "0s",
			calls: []string{"-1 committed"}},
		{name: "applied twice", fault: schedule.AppliedTwice, want: `update: Operation cannot be fulfilled on configmaps "app": ` +
			`the object has been modified; please apply your changes to the latest version and try again`, at: "2s",
			calls: []string{"500 again committed", "409"}},
	}
	for _, test := range tests {
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
			d.expect(t, h, append([]string{"0s created app 0"}, test.want...)...)
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

// TestLateDelete checks the life of an object that somebody else keeps.
func TestLateDelete(t *testing.T) {
	deleting := func(d *diary) operator {
		return d.once(func(ctx context.Context, live ctrlclient.Client) {
			d.write("delete: %v", live.Delete(ctx, secret("app")))
			for range 4 {
				found := &corev1.Secret{}
				err := live.Get(ctx, appKey, found)
				d.write("get: %v, %q, terminating %t", err, found.Finalizers, found.DeletionTimestamp != nil)
				time.Sleep(20 * time.Second)
			}
		})
	}
	const gone = `get: secrets "app" not found, [], terminating false`
	fault := at(schedule.LateDelete, schedule.Delete, "Secret", schedule.Params{})
	t.Run("plain", func(t *testing.T) {
		d := &diary{}
		h := d.run(t, scenario{given: []apiserver.Object{configMap(nil), secret("app")}}, deleting(d), fault)
		const kept = `get: <nil>, ["` + reactors.LateDeleteFinalizer + `"], terminating true`
		d.expect(t, h, "0s delete: <nil>", "0s "+kept, "20s "+kept, "40s "+gone, "1m0s "+gone)
		if n := slices.IndexFunc(h.Records, func(r history.Record) bool { return r.Event.Actor == reactors.Finalizer }); n < 0 {
			t.Error("it is nobody who keeps the object")
		}
	})
	t.Run("with another finalizer", func(t *testing.T) {
		kept := secret("app")
		kept.Finalizers = []string{"example.com/other"}
		d := &diary{}
		h := d.run(t, scenario{given: []apiserver.Object{configMap(nil), kept}}, deleting(d), fault)
		both := `get: <nil>, ["example.com/other" "` + reactors.LateDeleteFinalizer + `"], terminating true`
		other := `get: <nil>, ["example.com/other"], terminating true`
		d.expect(t, h, "0s delete: <nil>", "0s "+both, "20s "+both, "40s "+other, "1m0s "+other)
	})
	t.Run("deleted already", func(t *testing.T) {
		kept := secret("app")
		kept.Finalizers = []string{"example.com/other"}
		kept.DeletionTimestamp = &metav1.Time{Time: sim.Epoch}
		d := &diary{}
		h := d.try(t, scenario{given: []apiserver.Object{configMap(nil), kept}}, deleting(d), fault)
		other := `get: <nil>, ["example.com/other"], terminating true`
		d.expect(t, h, "0s delete: <nil>", "0s "+other, "20s "+other, "40s "+other, "1m0s "+other)
		if h.Faults[0].Struck {
			t.Error("it struck an object that is being deleted")
		}
	})
	t.Run("not there", func(t *testing.T) {
		d := &diary{}
		h := d.try(t, scenario{given: []apiserver.Object{configMap(nil)}}, deleting(d), fault)
		d.expect(t, h, `0s delete: secrets "app" not found`, "0s "+gone, "20s "+gone, "40s "+gone, "1m0s "+gone)
		if h.Faults[0].Struck {
			t.Error("it struck an object that is not there")
		}
	})
}
