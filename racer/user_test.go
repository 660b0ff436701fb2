package racer

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

func newMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
}

func createMap(name string) *UserCreate { return &UserCreate{Kind: "ConfigMap", Object: newMap(name)} }

// userCalls records the user's calls with their times.
func userCalls(d *driver) func() []string {
	begin := d.now
	var calls []string
	d.after = func(actor string, _ *apiserver.Request) {
		if actor == "user" {
			last := strings.TrimPrefix(d.calls[len(d.calls)-1], "user ")
			calls = append(calls, d.now.Sub(begin).Round(time.Millisecond).String()+" "+last)
		}
	}
	return func() []string { return calls }
}

func TestUser(t *testing.T) {
	d := newDriver(t, apiserver.V136)
	steps := []UserStep{
		{Create: createMap("a")},
		{Patch: &UserPatch{Kind: "ConfigMap", Namespace: "default", Name: "a", Data: []byte(`{"data":{"k":"v"}}`)}},
		{At: time.Minute, Delete: &UserDelete{Kind: "ConfigMap", Namespace: "default", Name: "missing"}},
		{At: 30 * time.Second, Delete: &UserDelete{Kind: "ConfigMap", Namespace: "default", Name: "a"}}, // overdue
		{Create: &UserCreate{Kind: "Nothing", Object: newMap("x")}},
		{},
	}
	user := NewUser(UserOptions{Steps: steps})
	calls := userCalls(d)
	d.start("user", user)
	d.settle()
	want := []string{
		"0s Create ConfigMap a -> 201", "0s Patch ConfigMap a -> 200",
		"1m0s Delete ConfigMap missing -> 404", "1m0s Delete ConfigMap a -> 200",
	}
	if diff := cmp.Diff(want, calls()); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if !user.Finished() || len(d.logs) != 3 {
		t.Errorf("finished: %t, logs %q", user.Finished(), d.logs)
	}
	if steps[0].Create.Object.GetUID() != "" {
		t.Error("the step's own object was handed to the server")
	}
}

func TestUserRetries(t *testing.T) {
	d := newDriver(t, apiserver.V136)
	held := newMap("a")
	held.Finalizers = []string{"example.com/hold"}
	d.create("ConfigMap", held)
	d.delete("ConfigMap", "a", "")
	calls := userCalls(d)
	user := NewUser(UserOptions{Steps: []UserStep{{Create: createMap("a"), RetryWhile: metav1.StatusReasonAlreadyExists}}})
	d.start("user", user)
	for len(calls()) < 3 {
		d.run(1)
	}
	d.patch("ConfigMap", "a", `{"metadata":{"finalizers":null}}`)
	d.settle()
	want := []string{
		"0s Create ConfigMap a -> 409", "1s Create ConfigMap a -> 409", "2s Create ConfigMap a -> 409",
		"3s Create ConfigMap a -> 201",
	}
	if diff := cmp.Diff(want, calls()); diff != "" || !user.Finished() {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// TestUserSkips checks that skipped steps are not made, and that the others are made when they are due all the same.
func TestUserSkips(t *testing.T) {
	steps := []UserStep{
		{Create: createMap("a")},
		{At: 10 * time.Second, Create: createMap("b")},
		{At: 20 * time.Second, Create: createMap("c")},
		{After: &schedule.Selector{Actor: "gc"}, Create: createMap("d")},
	}
	for _, test := range []struct {
		steps []int
		want  []string
	}{
		{steps: []int{3}, want: []string{"0s Create ConfigMap a -> 201", "10s Create ConfigMap b -> 201", "20s Create ConfigMap c -> 201"}},
		{steps: []int{0, 1, 3}, want: []string{"20s Create ConfigMap c -> 201"}},
		{steps: []int{0, 1, 2, 3, 9}, want: nil},
	} {
		d := newDriver(t, apiserver.V136)
		user := NewUser(UserOptions{Steps: steps})
		user.Skip(test.steps)
		calls := userCalls(d)
		d.start("user", user)
		d.settle()
		if diff := cmp.Diff(test.want, calls()); diff != "" || !user.Finished() {
			t.Errorf("without %v: finished %t, calls (-want +got):\n%s", test.steps, user.Finished(), diff)
		}
	}
}

func TestUserAfterEvent(t *testing.T) {
	deletes := &schedule.Selector{Actor: "gc", Verbs: []schedule.Verb{schedule.Delete}, Occurrence: 2}
	event := schedule.Event{Actor: "gc", Verb: schedule.Delete, Kind: "Pod"}
	for _, early := range []bool{true, false} {
		d := newDriver(t, apiserver.V136)
		user := NewUser(UserOptions{Steps: []UserStep{
			{At: 10 * time.Second, Create: createMap("a")},
			{After: deletes, At: 5 * time.Second, Create: createMap("b")},
		}})
		calls := userCalls(d)
		d.start("user", user)
		user.Observe(event)
		if early {
			user.Observe(event)
		}
		d.settle()
		if early != user.Finished() {
			t.Fatalf("finished before the event: %t", user.Finished())
		}
		if !early {
			d.now = d.now.Add(time.Minute)
			user.Observe(schedule.Event{Actor: "kcm", Verb: schedule.Delete, Kind: "Pod"})
			user.Observe(event)
			d.settle()
		}
		want := []string{"10s Create ConfigMap a -> 201", "15s Create ConfigMap b -> 201"}
		if !early {
			want[1] = "1m15s Create ConfigMap b -> 201"
		}
		if diff := cmp.Diff(want, calls()); diff != "" {
			t.Errorf("early %t: calls (-want +got):\n%s", early, diff)
		}
	}
}

func TestAnnotator(t *testing.T) {
	d := newDriver(t, apiserver.V136)
	d.create("ConfigMap", newMap("a"))
	d.start("annotator", NewAnnotator(AnnotatorOptions{
		Kind: "ConfigMap", Namespace: "default", Name: "a", Interval: 200 * time.Millisecond, Times: 3}))
	conflicts := 0
	d.refuse = func(actor string, r *apiserver.Request) *apiserver.Response {
		if actor == "annotator" && r.Verb == schedule.Update && conflicts == 0 {
			conflicts++
			d.patch("ConfigMap", "a", `{"data":{"by":"user"}}`)
		}
		return nil
	}
	begin := d.now
	d.settle()
	want := []string{"Update ConfigMap a -> 409", "Update ConfigMap a", "Update ConfigMap a"}
	if got := d.writes("annotator"); !slices.Equal(got, want) {
		t.Errorf("writes %v, want %v", got, want)
	}
	if got := d.get("ConfigMap", "a").GetAnnotations()["stalemate.dev/touched"]; got != "3" {
		t.Errorf("annotation %q", got)
	}
	if took := d.commit.Sub(begin).Round(time.Millisecond); took != 600*time.Millisecond {
		t.Errorf("took %v, want 600ms", took)
	}
}

// TestAnnotatorStops when the object is not found, for good.
func TestAnnotatorStops(t *testing.T) {
	d := newDriver(t, apiserver.V136)
	d.create("ConfigMap", newMap("a"))
	d.start("annotator", NewAnnotator(AnnotatorOptions{Kind: "ConfigMap", Namespace: "default", Name: "a"}))
	for d.get("ConfigMap", "a").GetAnnotations() == nil {
		d.run(1)
	}
	d.delete("ConfigMap", "a", "")
	for !slices.Contains(d.calls, "annotator Get ConfigMap a -> 404") {
		d.run(1)
	}
	d.create("ConfigMap", newMap("a"))
	d.settle()
	if got := d.get("ConfigMap", "a").GetAnnotations(); got != nil {
		t.Errorf("it went on: %v", got)
	}
}
