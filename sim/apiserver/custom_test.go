package apiserver

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/stalemate-dev/stalemate/sim/apiserver/crd"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// gaugeTester makes requests for Gauges, in the namespace default.
type gaugeTester struct {
	*tester
	v1, beta *Kind
}

func newGaugeTester(t *testing.T) *gaugeTester {
	text, err := os.ReadFile("testdata/gauges.yaml")
	if err != nil {
		t.Fatal(err)
	}
	definitions, err := crd.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	kinds := NewKinds(V136)
	v1, err := kinds.AddCRD(definitions[0])
	if err != nil {
		t.Fatal(err)
	}
	test := &gaugeTester{tester: &tester{T: t, time: fixedClock()}, v1: v1}
	test.beta = kinds.ByGVK(v1.GroupKind().WithVersion("v1beta1"))
	test.Server = NewServer(kinds, fixedClock)
	return test
}

// tree decodes an object that is written as YAML.
func customTree(t *testing.T, k *Kind, text string) Object {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	obj, err := k.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

func (t *gaugeTester) send(verb schedule.Verb, k *Kind, subresource, text string) *Response {
	t.Helper()
	req := &Request{Verb: verb, Kind: k, Namespace: "default", Name: "g", Subresource: subresource, FieldManager: "tester"}
	switch verb {
	case schedule.Patch:
		data, err := yaml.YAMLToJSON([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		req.PatchType, req.PatchData = types.MergePatchType, data
	case schedule.Create, schedule.Update:
		req.Object = customTree(t.T, k, text)
	}
	return t.Do(req)
}

// mustSend makes a request that must succeed, and returns what it shows but for the metadata.
func (t *gaugeTester) mustSend(verb schedule.Verb, k *Kind, subresource, text string) map[string]any {
	t.Helper()
	response := t.send(verb, k, subresource, text)
	if response.Err != nil {
		t.Fatalf("%s %s: %v", verb, k.Version, response.Err)
	}
	return bareContent(response.Object)
}

func bareContent(obj Object) map[string]any {
	content := rawContent(obj.DeepCopyObject().(Object))
	delete(content, "metadata")
	delete(content, "kind")
	return content
}

func (t *gaugeTester) same(what string, k *Kind, want string, have map[string]any) {
	t.Helper()
	if diff := cmp.Diff(bareContent(customTree(t.T, k, "{kind: Gauge, "+strings.TrimPrefix(want, "{"))), have); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// TestVersions plays the life of an object of which each version knows something else.
func TestVersions(t *testing.T) {
	test := newGaugeTester(t)
	made := test.mustSend(schedule.Create, test.beta, "",
		"{metadata: {name: g}, spec: {old: x, replicas: 500, more: 1}, status: {count: 1, replicas: 7}}")
	test.same("as it was sent, but for what v1 does not know", test.beta,
		"{apiVersion: example.com/v1beta1, spec: {replicas: 500, color: red}, status: {replicas: 7}}", made)
	test.same("in the other version", test.v1,
		"{apiVersion: example.com/v1, spec: {replicas: 500, color: red}, status: {replicas: 7}}",
		test.mustSend(schedule.Get, test.v1, "", ""))

	if events := test.Log(test.beta); len(events) != 1 || events[0].Object.GetObjectKind().GroupVersionKind() != test.beta.GroupVersionKind {
		t.Errorf("a watch of v1beta1 shows %v", events)
	}
	list := test.do(&Request{Verb: schedule.List, Kind: test.beta, Namespace: "default"})
	if len(list.Items) != 1 || bareContent(list.Items[0])["apiVersion"] != "example.com/v1beta1" {
		t.Errorf("a list of v1beta1 shows %v", list.Items)
	}

	stored := test.Get(test.v1, "default", "g")
	stale := stored.DeepCopyObject().(Object)
	changed := stored.DeepCopyObject().(Object)
	rawContent(changed)["spec"] = map[string]any{"replicas": int64(500), "color": "blue"}
	response := test.do(&Request{Verb: schedule.Update, Kind: test.v1, Namespace: "default", Name: "g", Object: changed})
	if response.Object.GetGeneration() != 2 {
		t.Errorf("the generation is %d after a change of the spec", response.Object.GetGeneration())
	}
	seen := test.beta.shown(stale)
	conflict := test.Do(&Request{Verb: schedule.Update, Kind: test.beta, Namespace: "default", Name: "g", Object: seen})
	if conflict.Code != 409 {
		t.Errorf("a stale update of the other version is answered with %d: %v", conflict.Code, conflict.Err)
	}
	test.do(&Request{Verb: schedule.Delete, Kind: test.beta, Namespace: "default", Name: "g"})
	if obj := test.Get(test.v1, "default", "g"); obj != nil {
		t.Errorf("%v is left", obj)
	}
}

// TestVersionRules checks that each version has its own rules, and that an update is not refused for what it does not change.
func TestVersionRules(t *testing.T) {
	test := newGaugeTester(t)
	create := func(k *Kind, spec string) *Response {
		return test.send(schedule.Create, k, "", "{metadata: {name: g}, spec: "+spec+"}")
	}
	refusal := func(what string, response *Response, want string) {
		t.Helper()
		if response.Err == nil || !strings.HasSuffix(response.Err.Error(), want) {
			t.Errorf("%s: %v, want %s", what, response.Err, want)
		}
	}
	refusal("schema", create(test.v1, "{replicas: 500}"),
		"spec.replicas: Invalid value: 500: spec.replicas in body should be less than or equal to 100")
	refusal("rule", create(test.v1, "{replicas: 13}"), "spec.replicas: Invalid value: 13: brings bad luck")
	refusal("rules are not checked", create(test.v1, "{replicas: many}"), `is invalid: [spec.replicas: Invalid value: "string": `+
		`spec.replicas in body must be of type integer: "string", .spec.replicas: Invalid value: 0: .spec.replicas accessor error: `+
		`many is of the type string, expected int64, <nil>: Invalid value: null: some validation rules were not checked because `+
		`the object was invalid; correct the existing errors to complete validation]`)
	refusal("a name", test.Do(&Request{Verb: schedule.Create, Kind: test.v1, Namespace: "default",
		Object: customTree(t, test.v1, "{metadata: {name: much-too-long}}")}),
		"is invalid: [metadata.name: Too long: may not be more than 12 bytes, <nil>: Invalid value: null: some validation rules "+
			"were not checked because the object was invalid; correct the existing errors to complete validation]")

	test.mustSend(schedule.Create, test.beta, "", "{metadata: {name: g}, spec: {replicas: 13}}")
	test.mustSend(schedule.Patch, test.v1, "", "{spec: {color: blue}}")
	refusal("schema, of a change", test.send(schedule.Patch, test.v1, "", "{spec: {replicas: 101}}"), "equal to 100")

	test.mustSend(schedule.Patch, test.v1, "status", "{status: {replicas: 3}}")
	response := test.send(schedule.Patch, test.v1, "status", "{status: {replicas: 2}}")
	refusal("a transition", response, `Gauge.example.com "g" is invalid: status.replicas: Forbidden: not less than 3`)
	if cause := response.Err.ErrStatus.Details.Causes[0]; cause.Type != metav1.CauseTypeForbidden {
		t.Errorf("the cause is %v", cause)
	}
	refusal("a version without the subresource", test.send(schedule.Patch, test.beta, "status", "{}"), `gauges.example.com "g" not found`)
	test.same("it is part of the object there", test.beta,
		"{apiVersion: example.com/v1beta1, spec: {replicas: 13, color: blue}, status: {replicas: 1}}",
		test.mustSend(schedule.Patch, test.beta, "", "{status: {replicas: 1}}"))
}

// TestVersionWarnings checks what requests for a deprecated version are warned of.
func TestVersionWarnings(t *testing.T) {
	test := newGaugeTester(t)
	want := []string{"example.com/v1beta1 Gauge is deprecated; use example.com/v1 Gauge"}
	response := test.do(&Request{Verb: schedule.List, Kind: test.beta, Namespace: "default"})
	if diff := cmp.Diff(want, response.Warnings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if response := test.do(&Request{Verb: schedule.List, Kind: test.v1}); response.Warnings != nil {
		t.Errorf("v1 is warned of: %q", response.Warnings)
	}
}

// TestFinalizerWarnings checks what is said of the names of finalizers that are new.
func TestFinalizerWarnings(t *testing.T) {
	test := newGaugeTester(t)
	const advice = " to avoid accidental conflicts with other finalizer writers"
	tests := []struct {
		verb       schedule.Verb
		finalizers string
		want       []string
	}{
		{schedule.Create, "[example.com/a, b, foregroundDeletion, c.example.com]", []string{
			`metadata.finalizers: "b": prefer a domain-qualified finalizer name` + advice,
			`metadata.finalizers: "c.example.com": prefer a domain-qualified finalizer name including a path (/)` + advice,
		}},
		{schedule.Patch, "[b, d]", []string{`metadata.finalizers: "d": prefer a domain-qualified finalizer name` + advice}},
		{schedule.Patch, "[b]", nil},
	}
	for _, tt := range tests {
		response := test.send(tt.verb, test.v1, "", "{metadata: {name: g, finalizers: "+tt.finalizers+"}}")
		if response.Err != nil {
			t.Fatal(response.Err)
		}
		if diff := cmp.Diff(tt.want, response.Warnings); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.finalizers, diff)
		}
	}
}

// TestVersionsOwned applies to an object in two versions.
func TestVersionsOwned(t *testing.T) {
	test := newGaugeTester(t)
	apply := func(k *Kind, manager, spec string) *Response {
		return test.Do(&Request{
			Verb: schedule.Patch, Kind: k, Namespace: "default", Name: "g", PatchType: types.ApplyPatchType, FieldManager: manager,
			PatchData: []byte(`{"apiVersion": "` + k.GroupVersion().String() + `", "kind": "Gauge", "metadata": {"name": "g"}, ` +
				`"spec": ` + spec + `}`),
		})
	}
	if response := apply(test.v1, "one", `{"replicas": 1, "color": "blue"}`); response.Err != nil {
		t.Fatal(response.Err)
	}
	response := apply(test.beta, "two", `{"replicas": 2}`)
	const want = `Apply failed with 1 conflict: conflict with "one": .spec.replicas`
	if response.Err == nil || response.Err.Error() != want {
		t.Fatalf("%v, want %s", response.Err, want)
	}
	if response := apply(test.beta, "two", `{"replicas": 1}`); response.Err != nil {
		t.Fatal(response.Err)
	}
	response = apply(test.v1, "one", `{"color": "blue"}`)
	var have []string
	for _, entry := range response.Object.GetManagedFields() {
		have = append(have, entry.Manager+" "+entry.APIVersion+" "+string(entry.FieldsV1.Raw))
	}
	slices.Sort(have)
	if diff := cmp.Diff([]string{
		`one example.com/v1 {"f:spec":{"f:color":{}}}`, `two example.com/v1beta1 {"f:spec":{"f:replicas":{}}}`,
	}, have); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestVersionNames checks by which names the versions of a kind are found, and that those which are not served are not there.
func TestVersionNames(t *testing.T) {
	test := newGaugeTester(t)
	kinds := test.Kinds()
	if test.v1.Name() != "Gauge" || test.beta.Name() != "Gauge.v1beta1.example.com" || kinds.ByName("Gauge") != test.v1 {
		t.Errorf("they are called %s and %s", test.v1.Name(), test.beta.Name())
	}
	gvr := schema.GroupVersionResource{Group: "example.com", Version: "v1beta1", Resource: "gauges"}
	if kinds.ByGVR(gvr) != test.beta || kinds.ByGVK(test.v1.GroupKind().WithVersion("v1alpha1")) != nil {
		t.Error("what is served is wrong")
	}
}

// TestLoadVersions gives objects in a version that is not the stored one, one of which owns the other.
func TestLoadVersions(t *testing.T) {
	test := newGaugeTester(t)
	owner := customTree(t, test.beta,
		"{apiVersion: example.com/v1beta1, kind: Gauge, metadata: {name: a, namespace: default}, status: {replicas: 3}}")
	owned := customTree(t, test.v1, `{metadata: {name: b, namespace: default,
		ownerReferences: [{apiVersion: example.com/v1beta1, kind: Gauge, name: a}]}}`)
	if err := test.LoadAll([]Object{owner, owned}); err != nil {
		t.Fatal(err)
	}
	a, b := test.Get(test.v1, "default", "a"), test.Get(test.beta, "default", "b")
	if b.GetOwnerReferences()[0].UID != a.GetUID() || b.GetObjectKind().GroupVersionKind() != test.beta.GroupVersionKind {
		t.Errorf("the owner is %v of %v", a, b)
	}
}

// TestDefinitionsAreObjects reads a definition as operators do that wait for it.
func TestDefinitionsAreObjects(t *testing.T) {
	test := newGaugeTester(t)
	k := test.Kinds().ByName("CustomResourceDefinition")
	definition := test.Get(k, "", "gauges.example.com").(*apiextensionsv1.CustomResourceDefinition)
	if definition.UID == "" || definition.Generation != 1 || definition.CreationTimestamp.IsZero() ||
		!slices.Equal(definition.Status.StoredVersions, []string{"v1"}) || definition.Status.AcceptedNames.ListKind != "GaugeList" {
		t.Errorf("it is %+v", definition)
	}
	for _, kind := range []apiextensionsv1.CustomResourceDefinitionConditionType{apiextensionsv1.Established, apiextensionsv1.NamesAccepted} {
		if !slices.ContainsFunc(definition.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == kind && c.Status == apiextensionsv1.ConditionTrue && !c.LastTransitionTime.IsZero()
		}) {
			t.Errorf("it is not %s", kind)
		}
	}
	again := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "gauges.example.com"}, Spec: definition.Spec}
	response := test.Do(&Request{Verb: schedule.Create, Kind: k, Object: again})
	if response.Code != 409 {
		t.Errorf("creating it again is answered with %d", response.Code)
	}
	given := definition.DeepCopy()
	given.Labels = map[string]string{"a": "b"}
	if err := test.Load(given); err != nil {
		t.Errorf("it cannot be given: %v", err)
	}
}

// TestCustomScale reads and writes the scale subresource of a custom resource.
func TestCustomScale(t *testing.T) {
	test := newGaugeTester(t)
	test.mustSend(schedule.Create, test.v1, "", "{metadata: {name: g}, spec: {replicas: 2}}")
	test.mustSend(schedule.Patch, test.v1, "status", "{status: {replicas: 1, selector: a=b}}")
	scaleOf := func(response *Response) *autoscalingv1.Scale {
		t.Helper()
		if response.Err != nil {
			t.Fatal(response.Err)
		}
		return response.Object.(*autoscalingv1.Scale)
	}
	scale := scaleOf(test.send(schedule.Get, test.v1, "scale", ""))
	if scale.Spec.Replicas != 2 || scale.Status.Replicas != 1 || scale.Status.Selector != "a=b" || scale.Name != "g" || scale.UID == "" {
		t.Errorf("it shows %+v", scale)
	}
	before := test.Get(test.v1, "default", "g")
	scale = scaleOf(test.send(schedule.Patch, test.v1, "scale", "{spec: {replicas: 4}}"))
	stored := test.Get(test.v1, "default", "g")
	if scale.Spec.Replicas != 4 || stored.GetGeneration() != 2 || scale.ResourceVersion != stored.GetResourceVersion() {
		t.Errorf("after a patch it is %+v of %+v", scale, stored)
	}
	test.same("it writes nothing else", test.v1, "{apiVersion: example.com/v1, spec: {replicas: 4, color: red}, "+
		"status: {replicas: 1, selector: a=b}}", bareContent(stored))
	if spec := rawContent(before)["spec"].(map[string]any); spec["replicas"] != int64(2) {
		t.Error("the earlier state changed with it")
	}
	scale = scaleOf(test.send(schedule.Patch, test.beta, "scale", "{spec: {replicas: 3}}"))
	if scale.Spec.Replicas != 0 { // what v1 does not know is not stored
		t.Errorf("v1beta1 shows %+v", scale)
	}
}

// TestCustomScaleRefused checks what is wrong with requests for the scale of a custom resource.
func TestCustomScaleRefused(t *testing.T) {
	put := func(replicas int32, change func(*autoscalingv1.Scale)) func(*gaugeTester) *Response {
		return func(test *gaugeTester) *Response {
			scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Name: "g"}, Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
			if change != nil {
				change(scale)
			}
			return test.Do(&Request{Verb: schedule.Update, Kind: test.v1, Namespace: "default", Name: "g", Subresource: "scale", Object: scale})
		}
	}
	patch := func(k func(*gaugeTester) *Kind, kind types.PatchType, data string) func(*gaugeTester) *Response {
		return func(test *gaugeTester) *Response {
			return test.Do(&Request{
				Verb: schedule.Patch, Kind: k(test), Namespace: "default", Name: "g", Subresource: "scale", PatchType: kind, PatchData: []byte(data),
			})
		}
	}
	v1 := func(test *gaugeTester) *Kind { return test.v1 }
	beta := func(test *gaugeTester) *Kind { return test.beta }
	tests := []struct {
		name    string
		request func(*gaugeTester) *Response
		code    int
		message string
	}{
		{"fine", put(5, nil), 200, ""},
		{"negative", put(-1, nil), 422, `Gauge.example.com "g" is invalid: .spec.replicas: Invalid value: -1: should be a non-negative integer`},
		{"schema", put(101, nil), 422, "less than or equal to 100"},
		{"rule", put(13, nil), 422, "brings bad luck"},
		{"stale", put(5, func(s *autoscalingv1.Scale) { s.ResourceVersion = "1" }), 409, "the object has been modified"},
		{"another one", put(5, func(s *autoscalingv1.Scale) { s.UID = "x" }), 409, "Precondition failed: UID in precondition: x"},
		{"another name", put(5, func(s *autoscalingv1.Scale) { s.Name = "x" }), 400, "does not match the name on the URL"},
		{"absent", func(test *gaugeTester) *Response {
			return test.Do(&Request{Verb: schedule.Get, Kind: test.v1, Namespace: "default", Name: "x", Subresource: "scale"})
		}, 404, `gauges.example.com "x" not found`},
		{"deleted", func(test *gaugeTester) *Response { return test.send(schedule.Delete, test.v1, "scale", "") }, 405,
			"delete is not supported on resources of kind"},
		{"strategic", patch(v1, types.StrategicMergePatchType, "{}"), 415, "application/merge-patch+json"},
		{"nothing asked for", func(test *gaugeTester) *Response { return test.send(schedule.Get, test.beta, "scale", "") }, 500,
			`Internal error occurred: the spec replicas field ".spec.wanted.count" does not exist`},
		{"still nothing", patch(beta, types.MergePatchType, `{}`), 400, `the spec replicas field ".spec.wanted.count" cannot be empty`},
		{"not a number", func(test *gaugeTester) *Response {
			test.mustSend(schedule.Patch, test.beta, "", "{status: {replicas: many}}")
			return test.send(schedule.Get, test.v1, "scale", "")
		}, 500, `.status.replicas accessor error: many is of the type string, expected int64`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			test := newGaugeTester(t)
			test.mustSend(schedule.Create, test.v1, "", "{metadata: {name: g}, spec: {replicas: 2}}")
			response := tt.request(test)
			if response.Code != tt.code || response.Err != nil && !strings.Contains(response.Err.Error(), tt.message) {
				t.Errorf("answered with %d: %v", response.Code, response.Err)
			}
		})
	}
}

// TestCustomScaleOwned applies to the scale of a custom resource, which fails, and updates it: the owner of the replicas is the one
// of the object's field.
func TestCustomScaleOwned(t *testing.T) {
	test := newGaugeTester(t)
	send := func(patchType types.PatchType, subresource, manager, config string, force *bool) *Response {
		return test.Do(&Request{
			Verb: schedule.Patch, Kind: test.v1, Namespace: "default", Name: "g", Subresource: subresource, PatchType: patchType,
			FieldManager: manager, Force: force, PatchData: []byte(config),
		})
	}
	const gauge = `{"apiVersion": "example.com/v1", "kind": "Gauge", "metadata": {"name": "g"}, "spec": {"replicas": 1}}`
	const scale = `{"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "g"}, "spec": {"replicas": 3}}`
	if response := send(types.ApplyPatchType, "", "owner", gauge, nil); response.Err != nil {
		t.Fatal(response.Err)
	}
	const conflict = `Apply failed with 1 conflict: conflict with "owner": .spec.replicas`
	if response := send(types.ApplyPatchType, "scale", "scaler", scale, nil); response.Err == nil || response.Err.Error() != conflict {
		t.Fatalf("%v, want %s", response.Err, conflict)
	}
	const want = "failed to convert new object (/g; autoscaling/v1, Kind=Scale) to proper version: " +
		"request to convert CR to an invalid group/version: autoscaling/v1"
	if response := send(types.ApplyPatchType, "scale", "scaler", scale, new(true)); response.Err == nil || response.Err.Error() != want {
		t.Fatalf("%v, want %s", response.Err, want)
	}
	if response := send(types.MergePatchType, "scale", "scaler", `{"spec": {"replicas": 3}}`, nil); response.Err != nil {
		t.Fatal(response.Err)
	}
	var have []string
	for _, entry := range test.WithManagedFields(test.v1, test.Get(test.v1, "default", "g")).GetManagedFields() {
		have = append(have, entry.Manager+" "+entry.Subresource+" "+entry.APIVersion+" "+string(entry.FieldsV1.Raw))
	}
	if diff := cmp.Diff([]string{`scaler scale example.com/v1 {"f:spec":{"f:replicas":{}}}`}, have); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAppliedEmpty applies what is empty in the metadata of a custom resource: that makes a new revision every time.
func TestAppliedEmpty(t *testing.T) {
	test := newGaugeTester(t)
	send := func(patchType types.PatchType, text string) int64 {
		response := test.Do(&Request{
			Verb: schedule.Patch, Kind: test.v1, Namespace: "default", Name: "g", PatchType: patchType, FieldManager: "m",
			PatchData: []byte(text),
		})
		if response.Err != nil {
			t.Fatal(response.Err)
		}
		return response.Committed
	}
	const gauge = `{"apiVersion": "example.com/v1", "kind": "Gauge", "metadata": {"name": "g"%s}, "spec": {"replicas": 1}}`
	plain, empty := fmt.Sprintf(gauge, ""), fmt.Sprintf(gauge, `, "labels": {}`)
	steps := []struct {
		patchType types.PatchType
		text      string
		commits   bool
	}{
		{types.ApplyPatchType, plain, true},
		{types.ApplyPatchType, plain, false},
		{types.ApplyPatchType, empty, true}, // the fields it owns are others
		{types.ApplyPatchType, empty, true},
		{types.ApplyPatchType, empty, true},
		{types.MergePatchType, `{}`, true}, // stores it without what is empty
		{types.MergePatchType, `{}`, false},
	}
	for i, step := range steps {
		if committed := send(step.patchType, step.text); (committed != 0) != step.commits {
			t.Errorf("step %d: commits revision %d, want one: %t", i, committed, step.commits)
		}
	}
}

// TestDefinedTwice adds a definition of which one version is known already.
func TestDefinedTwice(t *testing.T) {
	test := newGaugeTester(t)
	text, err := os.ReadFile("testdata/gauges.yaml")
	if err != nil {
		t.Fatal(err)
	}
	definitions, err := crd.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := test.Kinds().AddCRD(definitions[0]); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("error is %v", err)
	}
}
