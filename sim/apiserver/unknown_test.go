package apiserver

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// typeA is a kind of an operator that has a status, typeB one that has none.
type (
	typeA struct {
		unstructured.Unstructured
		Status struct{}
	}
	typeB struct{ unstructured.Unstructured }
)

// TestWithTypes checks which kinds of a scheme a table gets that does not have them, and how they are served.
func TestWithTypes(t *testing.T) {
	known := GoldenKinds(V136)
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, flowcontrolv1.AddToScheme, metav1.AddMetaToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	if known.WithTypes(scheme) != known {
		t.Error("Kubernetes' own kinds were added")
	}
	group := schema.GroupVersion{Group: "a.example.com", Version: "v1"}
	metav1.AddToGroupVersion(scheme, group)
	scheme.AddKnownTypeWithName(group.WithKind("Beta"), &typeB{})
	scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: group.Group, Version: "v1beta1", Kind: "Alpha"}, &typeA{})
	scheme.AddKnownTypeWithName(group.WithKind("Alpha"), &typeA{})
	scheme.AddKnownTypeWithName(group.WithKind("AlphaList"), &unstructured.UnstructuredList{})
	scheme.AddKnownTypeWithName(schema.GroupVersionKind{Group: "golden.example.com", Version: "v9", Kind: "Widget"}, &typeA{})

	kinds := known.WithTypes(scheme)
	var added []string
	for _, k := range kinds.All()[len(known.All()):] {
		added = append(added, k.Name()+" "+k.Resource)
	}
	if want := []string{"Alpha alphas", "Alpha.v1beta1.a.example.com alphas", "Beta betas"}; !slices.Equal(added, want) {
		t.Fatalf("added are %q, want %q", added, want)
	}
	if known.ByName("Alpha") != nil || known.ByGVK(group.WithKind("Alpha")) != nil {
		t.Error("the table itself has changed")
	}
	alpha, beta := kinds.ByName("Alpha"), kinds.ByName("Beta")
	if !alpha.HasStatus || beta.HasStatus {
		t.Error("the subresources are wrong")
	}
	test := &tester{T: t, time: fixedClock()}
	test.Server = NewServer(kinds, fixedClock)
	older := kinds.ByGVK(alpha.GroupKind().WithVersion("v1beta1"))
	obj := older.New()
	obj.SetName("a")
	rawContent(obj)["anything"] = "goes"
	test.do(&Request{Verb: schedule.Create, Kind: older, Namespace: "default", Object: obj})
	shown := test.do(&Request{Verb: schedule.Get, Kind: alpha, Namespace: "default", Name: "a"}).Object
	if content := rawContent(shown); content["anything"] != "goes" || content["apiVersion"] != "a.example.com/v1" {
		t.Errorf("it is shown as %v", content)
	}
	if gaps := test.Gaps(); len(gaps) == 0 || !strings.HasPrefix(gaps[0], "Alpha.a.example.com is not a known kind: it is treated as") {
		t.Errorf("gaps are %q", gaps)
	}
}
