package simtest_test

import (
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim/simtest"
)

// TestObjectsAreCopies changes every object that a client was given, or has handed out: no other reader sees it.
func TestObjectsAreCopies(t *testing.T) {
	ctx := t.Context()
	given, created := aSet("given"), aSet("created")
	given.Spec.Replicas, created.Spec.Replicas = new(int32(1)), new(int32(1))
	c := simtest.NewClientBuilder(t).WithScheme(newScheme(t)).WithObjects(given).Build()
	spoil := func(sets ...*appsv1.StatefulSet) {
		for _, s := range sets {
			*s.Spec.Replicas = 99
			s.Spec.Selector.MatchLabels["spoilt"] = "yes"
			s.Spec.Template.Labels["spoilt"] = "yes"
			s.Spec.Template.Spec.Containers[0].Image = "spoilt"
		}
	}
	read := func(name string) *appsv1.StatefulSet {
		t.Helper()
		s := &appsv1.StatefulSet{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, s); err != nil {
			t.Fatal(err)
		}
		return s
	}
	before := read("given")
	spoil(given)
	watching, err := c.Watch(ctx, &appsv1.StatefulSetList{})
	if err != nil {
		t.Fatal(err)
	}
	all := &appsv1.StatefulSetList{}
	same, dry, patched := read("given"), read("given"), read("given")
	for what, problem := range map[string]error{
		"list": c.List(ctx, all), "an update of nothing": c.Update(ctx, same), "a dry run": c.Update(ctx, dry, client.DryRunAll),
		"a patch of nothing": c.Patch(ctx, patched, client.RawPatch(types.MergePatchType, []byte("{}"))),
	} {
		if problem != nil {
			t.Fatalf("%s: %v", what, problem)
		}
	}
	told := (<-watching.ResultChan()).Object.(*appsv1.StatefulSet)
	spoil(&all.Items[0], same, dry, patched, told, read("given"))
	if after := read("given"); !reflect.DeepEqual(after, before) {
		t.Errorf("what the server holds has changed: %+v", after.Spec)
	}
	if err := c.Create(ctx, created); err != nil {
		t.Fatal(err)
	}
	kept := created.DeepCopy()
	spoil(created)
	told = (<-watching.ResultChan()).Object.(*appsv1.StatefulSet)
	if after := read("created"); !reflect.DeepEqual(after.Spec, kept.Spec) || !reflect.DeepEqual(told.Spec, kept.Spec) {
		t.Errorf("what was created has changed: %+v, %+v", after.Spec, told.Spec)
	}
}
