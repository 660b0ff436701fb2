package apiserver

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// TestLastFinalizer takes the last finalizer of a deleted object in every way there is. The object goes in one commit, whose
// event carries what was stored before, at the revision of the delete.
func TestLastFinalizer(t *testing.T) {
	patches := map[types.PatchType]string{
		types.MergePatchType:          `{"metadata":{"finalizers":null}}`,
		types.JSONPatchType:           `[{"op":"remove","path":"/metadata/finalizers"}]`,
		types.StrategicMergePatchType: `{"metadata":{"$deleteFromPrimitiveList/finalizers":["e.x/f"]}}`,
		"":                            "", // a PUT
	}
	for _, kind := range []string{"StatefulSet", "Pod", "ConfigMap", "Widget"} {
		for patchType, patch := range patches {
			for _, subresource := range []string{"", "status"} {
				if kind == "Widget" && patchType == types.StrategicMergePatchType || kind == "ConfigMap" && subresource != "" {
					continue
				}
				t.Run(strings.Join([]string{kind, subresource, string(patchType)}, " "), func(t *testing.T) {
					w := newHostile(t)
					takeLastFinalizer(w, w.kind(kind), patchType, patch, subresource)
				})
			}
		}
	}
}

func takeLastFinalizer(w *walk, k *Kind, patchType types.PatchType, patch, subresource string) {
	request := func(verb schedule.Verb, subresource string, edit func(Object)) *Request {
		obj := w.Get(k, "default", "a").DeepCopyObject().(Object)
		edit(obj)
		return &Request{Verb: verb, Kind: k, Namespace: "default", Name: "a", Subresource: subresource, Object: obj}
	}
	w.perform(request(schedule.Update, "", func(o Object) { o.SetFinalizers([]string{"e.x/f"}) }))
	w.perform(request(schedule.Delete, "", func(Object) {}))
	marked := w.Get(k, "default", "a")
	if marked.GetDeletionTimestamp() == nil || *marked.GetDeletionGracePeriodSeconds() != 0 {
		w.Fatalf("not marked: %+v", marked)
	}
	req := request(schedule.Update, subresource, func(o Object) { o.SetFinalizers(nil) })
	if patch != "" {
		req.Verb, req.Object, req.PatchType, req.PatchData = schedule.Patch, nil, patchType, []byte(patch)
	}
	dry := *req
	dry.DryRun = true
	if dry.Object != nil {
		dry.Object = dry.Object.DeepCopyObject().(Object)
	}
	if response := w.perform(&dry); response.Code != 200 || w.Get(k, "default", "a") != marked {
		w.Errorf("a dry run: %d %v, or it changed the object", response.Code, response.Err)
	}
	response := w.perform(req)
	if k.StatusKeeps == ResetAllButStatus && subresource == "status" {
		if response.Committed != 0 || w.Get(k, "default", "a") != marked {
			w.Errorf("a write of the status took the finalizer of a custom resource")
		}
		return
	}
	if response.Code != 200 || w.Get(k, "default", "a") != nil {
		w.Fatalf("%d %v, and the object is still there", response.Code, response.Err)
	}
	if got := response.Object; len(got.GetFinalizers()) != 0 || got.GetResourceVersion() != marked.GetResourceVersion() {
		w.Errorf("answered with finalizers %v at %s", got.GetFinalizers(), got.GetResourceVersion())
	}
	event := w.Log(k)[len(w.Log(k))-1]
	if event.Type != Deleted || !slices.Equal(event.Object.GetFinalizers(), []string{"e.x/f"}) || event.Prev != marked {
		w.Errorf("the event is %+v", event)
	}
	w.checkUnchanged()
}

// TestRecreated makes writes that were meant for an object which has since been deleted and created again.
func TestRecreated(t *testing.T) {
	w := newHostile(t)
	k := w.kind("ConfigMap")
	first := w.Get(k, "default", "a")
	w.perform(&Request{Verb: schedule.Delete, Kind: k, Namespace: "default", Name: "a"})
	w.perform(&Request{Verb: schedule.Create, Kind: k, Namespace: "default", Object: newConfig("a")})
	stale := func(edit func(*corev1.ConfigMap)) *Request {
		obj := first.DeepCopyObject().(*corev1.ConfigMap)
		obj.Data["k"] = "from before"
		edit(obj)
		return &Request{Verb: schedule.Update, Kind: k, Namespace: "default", Name: "a", Object: obj}
	}
	patch := func(text string) *Request {
		return &Request{
			Verb: schedule.Patch, Kind: k, Namespace: "default", Name: "a", PatchType: types.MergePatchType, PatchData: []byte(text),
		}
	}
	for name, tt := range map[string]struct {
		req  *Request
		code int
		want string
	}{
		"uid and revision": {stale(func(*corev1.ConfigMap) {}), 409, "UID in precondition"},
		"uid":              {stale(func(c *corev1.ConfigMap) { c.ResourceVersion = "" }), 409, "UID in precondition"},
		"revision":         {stale(func(c *corev1.ConfigMap) { c.UID = "" }), 409, "the object has been modified"},
		"patched revision": {patch(`{"metadata":{"resourceVersion":"` + first.GetResourceVersion() + `"}}`), 409, "been modified"},
		"patched uid":      {patch(`{"metadata":{"uid":"` + string(first.GetUID()) + `"}}`), 422, "field is immutable"},
		"delete": {&Request{Verb: schedule.Delete, Kind: k, Namespace: "default", Name: "a", Delete: metav1.DeleteOptions{
			Preconditions: &metav1.Preconditions{UID: new(first.GetUID())},
		}}, 409, "might have been deleted and then recreated"},
	} {
		if response := w.perform(tt.req); response.Code != tt.code || !strings.Contains(response.Err.Error(), tt.want) {
			t.Errorf("%s: %d %v, want %d %s", name, response.Code, response.Err, tt.code, tt.want)
		}
	}
	if response := w.perform(stale(func(c *corev1.ConfigMap) { c.UID, c.ResourceVersion = "", "" })); response.Committed == 0 {
		t.Errorf("without uid and revision the last write wins: %v", response.Err)
	}
}

// TestTerminatingNamespace checks that a namespace which is going away can be written to, but neither filled nor removed
// before its own finalizers are gone.
func TestTerminatingNamespace(t *testing.T) {
	w := &walk{tester: newTester(t), stored: map[Object]string{}}
	k := w.kind("Namespace")
	do := func(verb schedule.Verb, edit func(*Request)) *Response {
		req := &Request{Verb: verb, Kind: k, Name: "n"}
		edit(req)
		return w.perform(req)
	}
	remove := func() *Response { return do(schedule.Delete, func(*Request) {}) }
	do(schedule.Create, func(r *Request) {
		r.Object = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n", Namespace: "x"}}
	})
	wrong := do(schedule.Delete, func(r *Request) {
		r.Delete.Preconditions = &metav1.Preconditions{ResourceVersion: new("1")}
	})
	if wrong.Code != 409 || !strings.Contains(wrong.Err.Error(), "ResourceVersion in precondition: 1") {
		t.Errorf("a precondition that does not hold: %d %v", wrong.Code, wrong.Err)
	}
	remove()
	if again := remove(); again.Code != 200 || again.Committed != 0 {
		t.Errorf("a second delete: %d, committed at %d", again.Code, again.Committed)
	}
	for _, patch := range []string{`{"metadata":{"labels":{"a":"b"}}}`, `{"spec":{"finalizers":null}}`, `{"status":{"phase":"Active"}}`} {
		response := do(schedule.Patch, func(r *Request) { r.PatchType, r.PatchData = types.MergePatchType, []byte(patch) })
		if response.Code != 200 || w.Get(k, "", "n") == nil {
			t.Fatalf("%s: %d %v, or the namespace is gone", patch, response.Code, response.Err)
		}
	}
	obj := newConfig("a")
	full := w.perform(&Request{Verb: schedule.Create, Kind: w.kind("ConfigMap"), Namespace: "n", Object: obj})
	if full.Code != 403 || full.Err.ErrStatus.Details.Causes[0].Type != corev1.NamespaceTerminatingCause {
		t.Errorf("a create in it: %d %v", full.Code, full.Err)
	}
	ns := w.Get(k, "", "n").(*corev1.Namespace)
	if len(ns.Spec.Finalizers) != 1 || ns.Status.Phase != corev1.NamespaceTerminating || ns.Labels["a"] != "b" {
		t.Errorf("patches left %+v", ns)
	}
}

// TestRepeatedOwners checks that a reference which is there twice is stored once, with a warning.
func TestRepeatedOwners(t *testing.T) {
	const patch = `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"X","name":"x","uid":"u"},` +
		`{"apiVersion":"v1","kind":"X","name":"x","uid":"u"},{"apiVersion":"v1","kind":"Y","name":"y","uid":"u"}]}}`
	for _, kind := range []string{"ConfigMap", "Widget"} {
		w := newHostile(t)
		k := w.kind(kind)
		response := w.perform(&Request{
			Verb: schedule.Patch, Kind: k, Namespace: "default", Name: "a", PatchType: types.MergePatchType, PatchData: []byte(patch),
		})
		if got := w.Get(k, "default", "a").GetOwnerReferences(); response.Code != 200 || len(got) != 2 {
			t.Errorf("%s: %d %v, references %v", kind, response.Code, response.Err, got)
		}
		if len(response.Warnings) != 1 || !strings.HasSuffix(response.Warnings[0], "duplicate UID(s) observed: u") {
			t.Errorf("%s: warnings %q", kind, response.Warnings)
		}
		obj := w.Get(k, "default", "a").DeepCopyObject().(Object)
		obj.SetOwnerReferences(append(obj.GetOwnerReferences(), obj.GetOwnerReferences()...))
		response = w.perform(&Request{Verb: schedule.Update, Kind: k, Namespace: "default", Name: "a", Object: obj})
		if response.Code != 200 || response.Committed != 0 || len(response.Warnings) != 1 {
			t.Errorf("%s: a PUT: %d %v, committed at %d, %q", kind, response.Code, response.Err, response.Committed, response.Warnings)
		}
	}
}

// TestGenerateNameTaken creates an object whose first eight names are all taken.
func TestGenerateNameTaken(t *testing.T) {
	test := newTester(t)
	obj := newConfig("")
	obj.GenerateName, obj.Namespace = "x-", "default"
	k := test.kind("ConfigMap")
	for n := range nameAttempts - 1 {
		test.create(newConfig(generatedName("x-", nameRole(k, obj), n)))
	}
	last := generatedName("x-", nameRole(k, obj), nameAttempts-1)
	if got := test.create(obj.DeepCopy()).GetName(); got != last {
		t.Errorf("the eighth attempt gives %s, want %s", got, last)
	}
	test = newTester(t)
	for n := range nameAttempts {
		test.create(newConfig(generatedName("x-", nameRole(k, obj), n)))
	}
	response := test.Do(&Request{Verb: schedule.Create, Kind: k, Namespace: "default", Object: obj})
	if response.Code != 409 || !strings.Contains(response.Err.Error(), "the server was not able to generate a unique name") ||
		response.Err.ErrStatus.Details.RetryAfterSeconds != 1 {
		t.Errorf("eight names that are taken: %d %v", response.Code, response.Err)
	}
}

// TestLoadCopies checks that loading leaves the caller's object alone, and that numbers of any Go type may be written.
func TestLoadCopies(t *testing.T) {
	test := newTester(t)
	widget := newWidget("w")
	widget.Object["spec"].(map[string]any)["size"] = 3 // an int, which JSON decoders never make
	config := newConfig("c")
	if err := test.LoadAll([]Object{widget, config}); err != nil {
		t.Fatal(err)
	}
	if config.UID != "" || config.Namespace != "" || widget.GetUID() != "" {
		t.Errorf("the caller's objects were written to: %+v, %+v", config, widget.Object)
	}
	config.Data["k"] = "changed"
	if got := test.Get(test.kind("ConfigMap"), "default", "c").(*corev1.ConfigMap); got.Data["k"] != "v" {
		t.Error("the store shares the caller's object")
	}
	stored := test.Get(test.kind("Widget"), "default", "w")
	if response := change(test, "", stored, func(*unstructured.Unstructured) {}); response.Committed != 0 {
		t.Errorf("a write of what was loaded was committed at %d", response.Committed)
	}
}

// TestCustomWithoutStatus checks a custom resource whose status is no subresource: it is a field like any other.
func TestCustomWithoutStatus(t *testing.T) {
	w := &walk{tester: newTester(t), stored: map[Object]string{}}
	w.Server = NewServer(patchKinds(), fixedClock)
	k := w.kind("Free")
	obj := newWidget("a")
	obj.SetKind("Free")
	obj.Object["status"] = map[string]any{"phase": "New"}
	request := func(verb schedule.Verb, subresource string) *Response {
		return w.perform(&Request{
			Verb: verb, Kind: k, Namespace: "default", Name: "a", Subresource: subresource, Object: obj.DeepCopy(),
		})
	}
	if made := request(schedule.Create, "").Object.(*unstructured.Unstructured); made.Object["status"] == nil {
		t.Error("a create dropped the status")
	}
	if response := request(schedule.Update, "status"); response.Code != 404 {
		t.Errorf("a write to /status: %d, want 404", response.Code)
	}
	obj = w.Get(k, "default", "a").DeepCopyObject().(*unstructured.Unstructured)
	obj.Object["status"] = map[string]any{"phase": "Old"}
	if response := request(schedule.Update, ""); response.Committed == 0 || response.Object.GetGeneration() != 2 {
		t.Errorf("an update of the status: %d %v, generation %d", response.Code, response.Err, response.Object.GetGeneration())
	}
}

// TestPodGraceEdges deletes a pod that is in its grace period already.
func TestPodGraceEdges(t *testing.T) {
	seconds := func(n int64) metav1.DeleteOptions { return metav1.DeleteOptions{GracePeriodSeconds: &n} }
	test := newTester(t)
	pod := test.create(newPod("p", "node1"))
	marked := test.remove(pod, metav1.DeleteOptions{})
	policy := metav1.DeletePropagationForeground
	if frozen := test.remove(pod, metav1.DeleteOptions{PropagationPolicy: &policy}); frozen.Committed != 0 {
		t.Errorf("another policy was taken during the grace period: %v", frozen.Object.GetFinalizers())
	}
	test.time = test.time.Add(20 * time.Second)
	shorter := test.remove(pod, seconds(5)).Object // which would have ended 15 seconds ago
	if !shorter.GetDeletionTimestamp().Time.Equal(test.time) || *shorter.GetDeletionGracePeriodSeconds() != 1 {
		t.Errorf("shortened into the past: ends at %v with grace %d", shorter.GetDeletionTimestamp(), *shorter.GetDeletionGracePeriodSeconds())
	}
	if shorter.GetGeneration() != marked.Object.GetGeneration() || shorter.GetGeneration() != 2 {
		t.Errorf("generation %d, want 2", shorter.GetGeneration())
	}
	negative := test.create(newPod("q", "node1"))
	if got := test.remove(negative, seconds(-5)).Object; *got.GetDeletionGracePeriodSeconds() != 1 {
		t.Errorf("a negative grace period became %d, want 1", *got.GetDeletionGracePeriodSeconds())
	}
}

// TestLostUpdate has two writers add to a list with merge patches made from the same state: the first one's item is lost,
// and nobody is told.
func TestLostUpdate(t *testing.T) {
	w := newHostile(t)
	k := w.kind("Widget")
	for _, finalizer := range []string{"e.x/first", "e.x/second"} {
		response := w.perform(&Request{
			Verb: schedule.Patch, Kind: k, Namespace: "default", Name: "a",
			PatchType: types.MergePatchType, PatchData: []byte(`{"metadata":{"finalizers":["` + finalizer + `"]}}`),
		})
		if response.Code != 200 || response.Committed == 0 {
			t.Errorf("%s: %d %v", finalizer, response.Code, response.Err)
		}
	}
	if got := w.Get(k, "default", "a").GetFinalizers(); !slices.Equal(got, []string{"e.x/second"}) {
		t.Errorf("finalizers %v", got)
	}
}

// TestFieldTransition checks that an object comes into a watch with a field selector when the field comes to match.
func TestFieldTransition(t *testing.T) {
	test := newTester(t)
	k := test.kind("Pod")
	test.create(newPod("p", ""))
	test.do(&Request{
		Verb: schedule.Create, Kind: k, Namespace: "default", Name: "p", Subresource: "binding",
		Object: &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: corev1.ObjectReference{Name: "node1"}},
	})
	var bound, unbound []string
	for _, event := range test.Log(k) {
		if e, ok := k.Transition(event, "", nil, fields.OneTermEqualSelector("spec.nodeName", "node1")); ok {
			bound = append(bound, e.Type.String())
		}
		if e, ok := k.Transition(event, "default", nil, fields.OneTermEqualSelector("spec.nodeName", "")); ok {
			unbound = append(unbound, e.Type.String())
		}
		if e, ok := k.Transition(event, "elsewhere", nil, nil); ok {
			t.Errorf("a watch of another namespace shows %v", e)
		}
	}
	if !slices.Equal(bound, []string{"ADDED"}) || !slices.Equal(unbound, []string{"ADDED", "DELETED"}) {
		t.Errorf("bound to the node: %v; bound to none: %v", bound, unbound)
	}
}
