package apiserver

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/apiserver/crd"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// TestPatchedKind has patches say that an object is something else, or nothing. Recorded from kube-apiserver v1.36.3.
func TestPatchedKind(t *testing.T) {
	const nameless = "the name of the object (a based on URL) was undeterminable: name must be provided"
	tests := []struct{ kind, subresource, patch, want string }{
		{"ConfigMap", "", `{"kind":null}`, ""},
		{"ConfigMap", "", `{"apiVersion":null}`, nameless},
		{"ConfigMap", "", `{"apiVersion":"v9"}`, `no kind "ConfigMap" is registered for version "v9" in scheme`},
		{"ConfigMap", "", `{"apiVersion":"a/b/c"}`, "unexpected GroupVersion string: a/b/c"},
		{"ConfigMap", "", `{"kind":1}`, "couldn't get version/kind; json parse error"},
		{"ConfigMap", "", `{"kind":"Pod"}`, "converting (v1.Pod) to (core.ConfigMap): unknown conversion"},
		{"Gauge", "", `{"kind":null}`, "Object 'Kind' is missing in"},
		{"Gauge", "", `{"apiVersion":null}`, "Object 'apiVersion' is missing in 'object has no apiVersion field'"},
		{"Gauge", "", `{"apiVersion":"v9"}`, `Gauge "a" is invalid: apiVersion: Invalid value: "v9": must be example.com/v1`},
		{"Gauge", "", `{"kind":"Other"}`, `Other.example.com "a" is invalid: kind: Invalid value: "Other": must be Gauge`},
		{"Gauge", "", `{"kind":"Other","metadata":{"resourceVersion":"1"}}`, "the object has been modified"},
		{"Gauge", "status", `{"kind":"Other","apiVersion":"v9"}`, ""},
	}
	for _, tt := range tests {
		for _, validation := range []string{"Ignore", "Warn"} {
			gauges := newGaugeTester(t)
			test, k := gauges.tester, gauges.v1
			if tt.kind != "Gauge" {
				test = newTester(t)
				k = test.kind(tt.kind)
			}
			created := test.Do(&Request{
				Verb: schedule.Create, Kind: k, Namespace: "default", Object: customTree(t, k, "{metadata: {name: a}}"),
			})
			if created.Err != nil {
				t.Fatal(created.Err)
			}
			response := test.Do(&Request{
				Verb: schedule.Patch, Kind: k, Namespace: "default", Name: "a", Subresource: tt.subresource,
				PatchType: types.MergePatchType, PatchData: []byte(tt.patch), FieldValidation: validation,
			})
			switch {
			case tt.want == "" && response.Err != nil:
				t.Errorf("%s: %s: %v", tt.kind, tt.patch, response.Err)
			case tt.want != "" && (response.Err == nil || !strings.Contains(response.Err.Error(), tt.want)):
				t.Errorf("%s: %s: %v, want %s", tt.kind, tt.patch, response.Err, tt.want)
			case response.Err == nil && response.Object.GetObjectKind().GroupVersionKind() != k.GroupVersionKind:
				t.Errorf("%s: %s: it is a %v", tt.kind, tt.patch, response.Object.GetObjectKind().GroupVersionKind())
			}
		}
	}
}

// TestLostOwners checks that a status whose kind cannot be told has no owners left: that is a write of its own.
func TestLostOwners(t *testing.T) {
	test := newGaugeTester(t)
	test.TrackManagedFields()
	created := test.send(schedule.Create, test.v1, "", "{metadata: {name: g}, spec: {replicas: 1}}")
	changed := test.send(schedule.Patch, test.v1, "status", "{apiVersion: v9}")
	if len(created.Object.GetManagedFields()) == 0 || changed.Committed == 0 || len(changed.Object.GetManagedFields()) > 0 {
		t.Errorf("%v became %v", created.Object, changed.Object)
	}
}

// TestEmptyMetadata applies what is empty in one version, and then in the other: it is owned all the same, and it is shown when the
// apply deletes the object. Recorded from kube-apiserver v1.36.3 and v1.37.1.
func TestEmptyMetadata(t *testing.T) {
	test := newGaugeTester(t)
	apply := func(k *Kind, manager, metadata string) *Response {
		return test.Do(&Request{
			Verb: schedule.Patch, Kind: k, Namespace: "default", Name: "g", PatchType: types.ApplyPatchType, FieldManager: manager,
			PatchData: []byte(`{"apiVersion": "` + k.GroupVersion().String() + `", "kind": "Gauge", "metadata": {"name": "g"` +
				metadata + `}, "spec": {"replicas": 1}}`),
		})
	}
	if response := apply(test.v1, "one", `, "annotations": {}`); response.Err != nil {
		t.Fatal(response.Err)
	}
	response := apply(test.beta, "two", `, "annotations": {}`)
	if want := `Apply failed with 1 conflict: conflict with "one": .metadata.annotations`; response.Err == nil ||
		response.Err.Error() != want {
		t.Errorf("%v, want %s", response.Err, want)
	}
	for _, version := range []string{"v1", "v1beta1"} {
		test = newGaugeTester(t)
		k := test.kinds.ByGVK(test.v1.GroupKind().WithVersion(version))
		apply(k, "one", `, "finalizers": ["example.com/a"]`)
		test.send(schedule.Delete, test.v1, "", "")
		response := apply(k, "one", `, "ownerReferences": []`)
		if response.Err != nil || test.Get(test.v1, "default", "g") != nil {
			t.Fatalf("%s: it is not deleted: %v", version, response.Err)
		}
		if owners, ok := rawMeta(response.Object)["ownerReferences"].([]any); !ok || len(owners) > 0 {
			t.Errorf("%s: the answer is %v", version, response.Object)
		}
	}
}

// TestStatusCreates applies to the status of what is not there: a Service comes to be.
func TestStatusCreates(t *testing.T) {
	for kind, want := range map[string]int{"Service": 422, "Pod": 404} {
		test := newTester(t)
		response := test.Do(&Request{
			Verb: schedule.Patch, Kind: test.kind(kind), Namespace: "default", Name: "a",
			Subresource: "status", PatchType: types.ApplyPatchType, FieldManager: "one",
			PatchData: []byte(`{"apiVersion":"v1","kind":"` + kind + `","metadata":{"name":"a"}}`),
		})
		if response.Err == nil || int(response.Err.ErrStatus.Code) != want {
			t.Errorf("%s: %v, want %d", kind, response.Err, want)
		}
	}
}

// TestUnreadableEmbedded sends embedded objects whose metadata cannot be read.
func TestUnreadableEmbedded(t *testing.T) {
	definitions, err := crd.Load([]byte(gearDefinition))
	if err != nil {
		t.Fatal(err)
	}
	kinds := NewKinds(V136)
	k, err := kinds.AddCRD(definitions[0])
	if err != nil {
		t.Fatal(err)
	}
	server := NewServer(kinds, fixedClock)
	const bad = `{spec: {inner: {apiVersion: v1, kind: X, metadata: {labels: 1}}}, metadata: {name: a}}`
	const want = `spec.inner.metadata: Invalid value: {"labels":1}: json: cannot unmarshal number into Go struct field`
	create := &Request{Verb: schedule.Create, Kind: k, Namespace: "default", Object: customTree(t, k, bad)}
	if response := server.Do(create); response.Err == nil ||
		!strings.Contains(response.Err.Error(), `Gear in version "v1" cannot be handled as a Gear: `+want) {
		t.Errorf("create: %v", response.Err)
	}
	create.Object = customTree(t, k, "{metadata: {name: a}}")
	if response := server.Do(create); response.Err != nil {
		t.Fatal(response.Err)
	}
	response := server.Do(&Request{
		Verb: schedule.Patch, Kind: k, Namespace: "default", Name: "a", PatchType: types.MergePatchType,
		PatchData: []byte(`{"spec":{"inner":{"apiVersion":"v1","kind":"X","metadata":{"labels":1}}}}`),
	})
	if response.Err == nil || response.Err.ErrStatus.Code != 422 || !strings.Contains(response.Err.Error(), want) {
		t.Errorf("patch: %v", response.Err)
	}
}
