package apiserver_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// BenchmarkAPIServerApply compares server-side apply with that of controller-runtime's fake client: of a configuration that
// changes a field each time, of one that changes nothing, and, ours only, what updates cost once somebody has applied, and the
// first apply to an object that was written a hundred times before.
func BenchmarkAPIServerApply(b *testing.B) {
	for _, what := range []string{"change", "nothing"} {
		eachStore(b, what, func(b *testing.B, s store, obj func(name string) client.Object) {
			config := configOf(obj("web"))
			b.ReportAllocs()
			for n := int64(0); b.Loop(); n++ {
				if what == "change" {
					setConfigField(config, n)
				}
				s.apply(config)
			}
		})
	}
	for _, kind := range benchKindNames {
		b.Run("update after apply/"+kind+"/ours", func(b *testing.B) {
			s := newOurs(kind)
			made := s.apply(configOf(benchObjects[kind]("web")))
			b.ReportAllocs()
			for n := int64(0); b.Loop(); n++ {
				setField(made, "status", n)
				made = s.status(made)
			}
		})
	}
	b.Run("first after 100 updates/statefulset/ours", func(b *testing.B) {
		s := newOurs("statefulset")
		made := s.create(benchSet("web"))
		for n := range int64(100) {
			setField(made, "spec", n)
			made = s.update(made)
		}
		snapshot := s.(*ours).server.Snapshot()
		config := configOf(benchSet("web"))
		b.ReportAllocs()
		for b.Loop() {
			s := &ours{server: snapshot.NewServer(func() time.Time { return epoch }), kind: benchKinds.ByName("StatefulSet")}
			s.apply(config)
		}
	})
}

// configOf returns an apply configuration with the metadata and the spec of an object.
func configOf(obj client.Object) *unstructured.Unstructured {
	data := must(json.Marshal(obj))
	config := &unstructured.Unstructured{}
	must(0, config.UnmarshalJSON(data))
	unstructured.RemoveNestedField(config.Object, "status")
	unstructured.RemoveNestedField(config.Object, "metadata", "creationTimestamp")
	return config
}

func setConfigField(config *unstructured.Unstructured, n int64) {
	name := "size"
	if config.GetKind() == "StatefulSet" {
		name = "replicas"
	}
	must(0, unstructured.SetNestedField(config.Object, n%1000, "spec", name))
}

func (o *ours) apply(config *unstructured.Unstructured) client.Object {
	response := o.server.Do(&apiserver.Request{
		Verb: schedule.Patch, Kind: o.kind, Namespace: "default", Name: config.GetName(), FieldManager: "one", Force: new(true),
		PatchType: types.ApplyPatchType, PatchData: must(json.Marshal(config)),
	})
	if response.Err != nil {
		panic(response.Err)
	}
	return response.Object.DeepCopyObject().(client.Object)
}

func (f *fakeStore) apply(config *unstructured.Unstructured) client.Object {
	u := config.DeepCopy()
	must(0, f.client.Patch(context.Background(), u, client.Apply, client.FieldOwner("one"), client.ForceOwnership))
	return u
}
