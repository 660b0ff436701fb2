package apiserver

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

func TestKindsTable(t *testing.T) {
	kinds := NewKinds(V137)
	gadget := schema.GroupVersionKind{Group: "g.example.com", Version: "v1", Kind: "Pod"}
	custom, err := kinds.AddType(gadget, "pods", true, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kinds.AddType(gadget, "pods", true, false); err == nil {
		t.Error("a kind was added twice")
	}
	for _, tt := range []struct {
		name      string
		got, want *Kind
	}{
		{"name of two kinds", kinds.ByName("Pod"), kinds.All()[podOrder]},
		{"qualified name", kinds.ByName("Pod.g.example.com"), custom},
		{"resource", kinds.ByGVR(schema.GroupVersionResource{Version: "v1", Resource: "pods"}), kinds.All()[podOrder]},
		{"kind", kinds.ByGVK(gadget), custom},
		{"Go type", kinds.Of(&appsv1.StatefulSet{}), kinds.All()[statefulSetOrder]},
		{"unknown", kinds.ByName("Turbine"), nil},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, tt.got, tt.want)
		}
	}
	for i, name := range []string{"StatefulSet", "Pod", "PersistentVolumeClaim", "ControllerRevision", "ConfigMap", "Secret",
		"Service", "Event", "Namespace", "Lease", "Node"} {
		if kinds.All()[i].Kind != name || kinds.All()[i].order != i {
			t.Errorf("kind %d is %s at %d, want %s", i, kinds.All()[i].Kind, kinds.All()[i].order, name)
		}
	}
}

// TestStatusRequiresSubresource checks that a custom resource without one keeps its status on writes to the main resource.
func TestStatusRequiresSubresource(t *testing.T) {
	test := newTester(t)
	kinds := NewKinds(V136)
	k, err := kinds.AddType(schema.GroupVersionKind{Group: "g.example.com", Version: "v1", Kind: "Plain"}, "plains", true, false)
	if err != nil {
		t.Fatal(err)
	}
	test.Server = NewServer(kinds, fixedClock)
	obj := newWidget("a")
	obj.SetGroupVersionKind(k.GroupVersionKind)
	obj.Object["status"] = map[string]any{"phase": "Ready"}
	stored := test.create(obj)
	if rawContent(stored)["status"] == nil {
		t.Error("the status was dropped")
	}
	edited := stored.DeepCopyObject().(Object)
	rawContent(edited)["status"] = map[string]any{"phase": "Failed"}
	update := Request{Verb: schedule.Update, Kind: k, Namespace: "default", Name: "a", Object: edited}
	if generation := test.do(&update).Object.GetGeneration(); generation != 2 {
		t.Errorf("a status change made generation %d, want 2", generation)
	}
	update.Subresource, update.Object = "status", stored.DeepCopyObject().(Object)
	if r := test.Do(&update); r.Code != 404 {
		t.Errorf("a write to the status subresource answered %d, want 404", r.Code)
	}
}
