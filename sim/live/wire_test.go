package live

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// TestWire checks that a request is read from the wire as it was written there.
func TestWire(t *testing.T) {
	kinds := apiserver.NewKinds(apiserver.V136)
	set, pod, node := kinds.ByName("StatefulSet"), kinds.ByName("Pod"), kinds.ByName("Node")
	named := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "default", Name: name, ResourceVersion: "7"}
	}
	for _, test := range []struct {
		request *apiserver.Request
		method  string
		path    string
	}{
		{&apiserver.Request{Verb: schedule.Get, Kind: set, Namespace: "default", Name: "web"},
			"GET", "/apis/apps/v1/namespaces/default/statefulsets/web"},
		{&apiserver.Request{Verb: schedule.List, Kind: pod, Namespace: "default"}, "GET", "/api/v1/namespaces/default/pods"},
		{&apiserver.Request{Verb: schedule.List, Kind: pod}, "GET", "/api/v1/pods"},
		{&apiserver.Request{Verb: schedule.Get, Kind: node, Name: "n1"}, "GET", "/api/v1/nodes/n1"},
		{&apiserver.Request{Verb: schedule.Create, Kind: set, Namespace: "default", Name: "web",
			Object: &appsv1.StatefulSet{ObjectMeta: named("web")}}, "POST", "/apis/apps/v1/namespaces/default/statefulsets"},
		{&apiserver.Request{Verb: schedule.Update, Kind: set, Namespace: "default", Name: "web", Subresource: "status",
			Object: &appsv1.StatefulSet{ObjectMeta: named("web")}}, "PUT", "/apis/apps/v1/namespaces/default/statefulsets/web/status"},
		{&apiserver.Request{Verb: schedule.Create, Kind: pod, Namespace: "default", Name: "p", Subresource: "binding",
			Object: &corev1.Binding{ObjectMeta: named("p")}}, "POST", "/api/v1/namespaces/default/pods/p/binding"},
		{&apiserver.Request{Verb: schedule.Patch, Kind: pod, Namespace: "default", Name: "p", PatchType: types.MergePatchType,
			PatchData: []byte(`{"metadata":{"resourceVersion":"7"}}`)}, "PATCH", "/api/v1/namespaces/default/pods/p"},
		{&apiserver.Request{Verb: schedule.Delete, Kind: pod, Namespace: "default", Name: "p",
			Delete: metav1.DeleteOptions{GracePeriodSeconds: new(int64)}}, "DELETE", "/api/v1/namespaces/default/pods/p"},
		{&apiserver.Request{Verb: schedule.DeleteCollection, Kind: pod, Namespace: "default"}, "DELETE", "/api/v1/namespaces/default/pods"},
	} {
		method, path, query, body, contentType, err := write(test.request)
		if err != nil {
			t.Fatal(err)
		}
		if method != test.method || path != test.path {
			t.Errorf("it is %s %s, want %s %s", method, path, test.method, test.path)
		}
		r, err := http.NewRequestWithContext(t.Context(), method, "http://server"+path+encoded(query), bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", contentType)
		got := read(kinds, r, body)
		if got == nil || eventOf(got.Request) != eventOf(test.request) {
			t.Errorf("%s %s is read as %+v, want %s", method, path, got, eventOf(test.request))
			continue
		}
		if lock := got.Lock(); test.request.Verb == schedule.Patch && lock != "7" {
			t.Errorf("the lock of a patch is %q, want 7", lock)
		}
		if o := got.Delete.GracePeriodSeconds; test.request.Name != "" && test.request.Verb == schedule.Delete && (o == nil || *o != 0) {
			t.Errorf("the options of the delete are lost: %+v", got.Delete)
		}
	}
	for _, path := range []string{"/healthz", "/api", "/apis/apps/v1", "/apis/none.example.com/v1/things", "/"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := read(kinds, r, nil); got != nil {
			t.Errorf("%s is taken for a request for %s", path, got.Kind)
		}
	}
}

// TestShifted checks that times of the simulation become those of now, and others stay.
func TestShifted(t *testing.T) {
	at := sim.Epoch.Add(time.Hour).Format(time.RFC3339)
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	got, err := shifted([]byte(`{"a":{"t":"`+at+`"},"l":["`+at+`","2020-01-01T00:00:00Z","x"],"n":12345678901234567}`), now.Sub(sim.Epoch))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"a":{"t":"2026-05-01T13:00:00Z"},"l":["2026-05-01T13:00:00Z","2020-01-01T00:00:00Z","x"],"n":12345678901234567}`
	if string(got) != want {
		t.Errorf("it is %s, want %s", got, want)
	}
}

func TestRegistryKey(t *testing.T) {
	kinds := apiserver.NewKinds(apiserver.V136)
	obj := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}}
	for kind, want := range map[string]string{
		"Pod": "/registry/pods/default/x", "StatefulSet": "/registry/statefulsets/default/x", "Service": "/registry/services/specs/default/x",
	} {
		if got := registryKey(kinds.ByName(kind), obj); got != want {
			t.Errorf("the key of a %s is %s, want %s", kind, got, want)
		}
	}
	if got := registryKey(kinds.ByName("Node"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}); got != "/registry/minions/n" {
		t.Errorf("the key of a Node is %s", got)
	}
}

// scripted is a server that answers every request with the same body.
type scripted struct{ body string }

func (s scripted) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(s.body)), Request: r}, nil
}

// TestStream checks that an informer's watch tells of events as steps, that the initial list is one of them, and that faults end a
// watch in their ways.
func TestStream(t *testing.T) {
	line := func(what, name string, annotations map[string]string) string {
		obj := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, ResourceVersion: "9", Annotations: annotations,
		}}
		data, err := json.Marshal(map[string]any{"type": what, "object": obj})
		if err != nil {
			t.Fatal(err)
		}
		return string(data) + "\n"
	}
	body := line("ADDED", "a", nil) + line("BOOKMARK", "", map[string]string{metav1.InitialEventsAnnotationKey: "true"}) +
		line("MODIFIED", "a", nil) + line("MODIFIED", "a", nil)
	for fault, want := range map[schedule.FaultType]string{
		"": "ADDED BOOKMARK MODIFIED MODIFIED", schedule.WatchDrop: "ADDED BOOKMARK MODIFIED", schedule.Relist: "ADDED BOOKMARK MODIFIED ERROR",
	} {
		kinds := apiserver.NewKinds(apiserver.V136)
		c := &cluster{ctx: t.Context(), kinds: kinds, gate: newGate(), config: &sim.Config{}}
		var strikes []*strike
		if fault != "" {
			at := event(t, "operator Deliver Pod default/a #2")
			at.Incarnation = 1
			strikes = append(strikes, newStrike(schedule.Fault{Type: fault, At: at, Params: schedule.Params{For: time.Millisecond}}))
		}
		c.gate.arm(nil, strikes, noOrder())
		p := &process{cluster: c, config: &sim.Process{Name: "operator"}, incarnation: 1, seen: map[string]int64{},
			pauses: map[*apiserver.Kind]*pauses{}}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server/api/v1/pods?watch=true&sendInitialEvents=true", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := (&transport{process: p, inner: scripted{body}}).RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		for decoder := json.NewDecoder(bytes.NewReader(text)); ; {
			var e struct{ Type string }
			if decoder.Decode(&e) != nil {
				break
			}
			told = append(told, e.Type)
		}
		if got := strings.Join(told, " "); got != want {
			t.Errorf("with fault %q the informer is told %s, want %s", fault, got, want)
		}
		if steps := c.gate.history(); steps[0].Event.Verb != schedule.Sync || steps[1].Event.Verb != schedule.Deliver {
			t.Errorf("the first steps are %s and %s, want Sync and Deliver", steps[0].Event, steps[1].Event)
		}
	}
}
