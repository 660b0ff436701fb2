package simtest_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	widgetv1 "github.com/stalemate-dev/stalemate/cmd/testdata/widget/api/v1"
	"github.com/stalemate-dev/stalemate/sim/simtest"
)

// benchClients make the clients that are compared.
func benchClients(b *testing.B) map[string]func(...client.Object) client.WithWatch {
	scheme := newScheme(b)
	return map[string]func(...client.Object) client.WithWatch{
		"simtest": func(objects ...client.Object) client.WithWatch {
			return simtest.NewClientBuilder(b).WithScheme(scheme).WithCRDs(widgetCRD).WithObjects(objects...).Build()
		},
		"fake": func(objects ...client.Object) client.WithWatch {
			return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
				WithStatusSubresource(&widgetv1.Widget{}).Build()
		},
	}
}

// benchObjects are ten objects as unit tests have them.
func benchObjects() []client.Object {
	var all []client.Object
	for i := range 5 {
		all = append(all, aSet(fmt.Sprintf("web-%d", i)), aWidget(fmt.Sprintf("w-%d", i)))
	}
	return all
}

// BenchmarkNewClient builds a client with ten objects, and with none.
func BenchmarkNewClient(b *testing.B) {
	for _, objects := range [][]client.Object{nil, benchObjects()} {
		for _, which := range []string{"simtest", "fake"} {
			b.Run(fmt.Sprintf("objects=%d/%s", len(objects), which), func(b *testing.B) {
				build := benchClients(b)[which]
				b.ReportAllocs()
				for b.Loop() {
					build(objects...)
				}
			})
		}
	}
}

// benchKind is a kind of object, with what the benchmarks change of it.
type benchKind struct {
	name   string
	make   func(name string) client.Object
	list   func() client.ObjectList
	spec   func(obj client.Object, n int)
	status func(obj client.Object, n int)
}

var benchKinds = []benchKind{
	{
		"statefulset", func(name string) client.Object { return aSet(name) }, func() client.ObjectList { return &appsv1.StatefulSetList{} },
		func(obj client.Object, n int) { obj.(*appsv1.StatefulSet).Spec.Replicas = new(int32(n % 1000)) },
		func(obj client.Object, n int) { obj.(*appsv1.StatefulSet).Status.Replicas = int32(n % 1000) },
	},
	{
		"widget", func(name string) client.Object { return aWidget(name) }, func() client.ObjectList { return &widgetv1.WidgetList{} },
		func(obj client.Object, n int) { obj.(*widgetv1.Widget).Spec.Replicas = int32(n % 1000) },
		func(obj client.Object, n int) { obj.(*widgetv1.Widget).Status.Phase = fmt.Sprint(n) },
	},
}

// BenchmarkClient compares single calls of the client with those of controller-runtime's fake client.
func BenchmarkClient(b *testing.B) {
	for _, verb := range []string{"Create", "Get", "Update", "StatusUpdate", "Patch", "Apply", "CreateDelete", "List100"} {
		for _, kind := range benchKinds {
			for _, which := range []string{"simtest", "fake"} {
				b.Run(fmt.Sprintf("%s/%s/%s", verb, kind.name, which), func(b *testing.B) {
					c := benchClients(b)[which]()
					b.ReportAllocs()
					kind.run(b, verb, c)
				})
			}
		}
	}
}

func (k benchKind) run(b *testing.B, verb string, c client.Client) {
	ctx := b.Context()
	check := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	obj := k.make("web")
	check(c.Create(ctx, obj))
	gvk, err := c.GroupVersionKindFor(obj)
	check(err)
	if verb == "List100" {
		for i := range 99 {
			check(c.Create(ctx, k.make(fmt.Sprintf("other-%d", i))))
		}
	}
	n := 0
	for b.Loop() {
		n++
		switch verb {
		case "Create":
			check(c.Create(ctx, k.make(fmt.Sprintf("web-%d", n))))
		case "Get":
			check(c.Get(ctx, client.ObjectKeyFromObject(obj), obj))
		case "Update":
			k.spec(obj, n)
			check(c.Update(ctx, obj))
		case "StatusUpdate":
			k.status(obj, n)
			check(c.Status().Update(ctx, obj))
		case "Patch":
			base := obj.DeepCopyObject().(client.Object)
			k.spec(obj, n)
			check(c.Patch(ctx, obj, client.MergeFrom(base)))
		case "Apply":
			applied := k.make("web")
			applied.GetObjectKind().SetGroupVersionKind(gvk)
			k.spec(applied, n)
			check(c.Patch(ctx, applied, client.Apply, client.FieldOwner("bench"), client.ForceOwnership)) //nolint:staticcheck // many still do
		case "CreateDelete":
			other := k.make("other")
			check(c.Create(ctx, other))
			check(c.Delete(ctx, other))
		case "List100":
			check(c.List(ctx, k.list()))
		}
	}
}
