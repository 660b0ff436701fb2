package apiserver_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// store is what the benchmark compares: the operations of a client, with the copies a client must make. An object handed in
// stays the caller's; the one that comes back is the caller's as well.
type store interface {
	get(name string) client.Object
	list() int
	create(obj client.Object) client.Object
	update(obj client.Object) client.Object
	status(obj client.Object) client.Object
	apply(config *unstructured.Unstructured) client.Object
	// watch begins a watch of what comes from now on and returns what reads the next event.
	watch() (next func() client.Object)
}

var benchKindNames = []string{"statefulset", "custom"}

// benchObjects make the objects of the benchmarks.
var benchObjects = map[string]func(name string) client.Object{"statefulset": benchSet, "custom": benchWidget}

// eachStore runs a benchmark against the server and against controller-runtime's fake client, with StatefulSets and with
// custom resources.
func eachStore(b *testing.B, name string, run func(b *testing.B, s store, obj func(name string) client.Object)) {
	for _, kind := range benchKindNames {
		b.Run(name+"/"+kind+"/ours", func(b *testing.B) { run(b, newOurs(kind), benchObjects[kind]) })
		b.Run(name+"/"+kind+"/fake", func(b *testing.B) { run(b, newFake(kind), benchObjects[kind]) })
	}
}

// BenchmarkAPIServer compares the server with controller-runtime's fake client, each with one object in the store, or an
// object more per operation for create.
func BenchmarkAPIServer(b *testing.B) {
	for _, verb := range []string{"get", "update", "status", "create"} {
		eachStore(b, verb, func(b *testing.B, s store, obj func(name string) client.Object) { benchVerb(b, verb, s, obj) })
	}
}

// BenchmarkAPIServerList compares lists of a hundred objects.
func BenchmarkAPIServerList(b *testing.B) {
	eachStore(b, "100", func(b *testing.B, s store, obj func(name string) client.Object) {
		const count = 100
		fill(s, obj, count)
		b.ReportAllocs()
		for b.Loop() {
			if got := s.list(); got != count {
				b.Fatalf("the list has %d objects, want %d", got, count)
			}
		}
	})
}

// BenchmarkAPIServerWatch compares watches: of one that sees a thousand updates, each update included. The fake holds a
// hundred events at most that nobody has read yet, so each is read as it comes.
func BenchmarkAPIServerWatch(b *testing.B) {
	eachStore(b, "1000", func(b *testing.B, s store, makeObject func(name string) client.Object) {
		obj := s.create(makeObject("web"))
		b.ReportAllocs()
		n := int64(0)
		for b.Loop() {
			next := s.watch()
			for range 1000 {
				n++
				setField(obj, "status", n)
				obj = s.status(obj)
				if seen := next(); seen.GetResourceVersion() != obj.GetResourceVersion() {
					b.Fatalf("the watch tells revision %s, want %s", seen.GetResourceVersion(), obj.GetResourceVersion())
				}
			}
		}
	})
}

// BenchmarkAPIServerSize says what an operation costs with more and more objects in the store: of all of them, only list may
// grow, by what a single object costs.
func BenchmarkAPIServerSize(b *testing.B) {
	for _, verb := range []string{"get", "update", "status", "create", "apply", "list"} {
		for _, size := range []int{10, 100, 1_000, 10_000} {
			b.Run(fmt.Sprintf("%s/%d", verb, size), func(b *testing.B) { benchSize(b, verb, size) })
		}
	}
}

func benchSize(b *testing.B, verb string, size int) {
	s := newOurs("statefulset").(*ours)
	fill(s, benchSet, size)
	middle := objectName(size / 2)
	obj, config := s.get(middle), configOf(benchSet(middle))
	another := benchSet(middle + "x")
	b.ReportAllocs()
	for n := int64(0); b.Loop(); n++ {
		switch verb {
		case "get":
			s.get(middle)
		case "list":
			s.list()
		case "apply":
			setConfigField(config, n)
			s.apply(config)
		case "create": // one in, one out: the store stays as large as it is
			s.create(another)
			s.server.Do(&apiserver.Request{Verb: schedule.Delete, Kind: s.kind, Namespace: "default", Name: another.GetName()})
		default:
			obj = change(s, verb, obj, n)
		}
	}
	if verb == "list" {
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(size), "ns/object")
	}
}

// fill creates objects.
func fill(s store, obj func(name string) client.Object, count int) {
	for n := range count {
		s.create(obj(objectName(n)))
	}
}

func objectName(n int) string { return fmt.Sprintf("web-%05d", n) }

func benchVerb(b *testing.B, verb string, s store, makeObject func(string) client.Object) {
	obj := s.create(makeObject("web"))
	template := makeObject("web")
	b.ReportAllocs()
	for n := int64(0); b.Loop(); n++ {
		switch verb {
		case "get":
			s.get("web")
		case "create":
			template.SetName(objectName(int(n)))
			s.create(template)
		default:
			obj = change(s, verb, obj, n+1)
		}
	}
}

// change updates an object or its status.
func change(s store, verb string, obj client.Object, n int64) client.Object {
	if verb == "update" {
		setField(obj, "spec", n)
		return s.update(obj)
	}
	setField(obj, "status", n)
	return s.status(obj)
}

// setField changes something in the spec or the status.
func setField(obj client.Object, part string, n int64) {
	switch obj := obj.(type) {
	case *appsv1.StatefulSet:
		if part == "spec" {
			obj.Spec.Replicas = new(int32(n % 1000))
		} else {
			obj.Status.ObservedGeneration = n
			obj.Status.Replicas = int32(n % 1000)
		}
	case *unstructured.Unstructured:
		if err := unstructured.SetNestedField(obj.Object, n, part, "size"); err != nil {
			panic(err)
		}
	}
}

func benchSet(name string) client.Object {
	labels := map[string]string{"app": "web", "tier": "db", "release": "r1"}
	return &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: labels, Annotations: map[string]string{"a": "1"}},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(3)), ServiceName: "web", Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "db", Image: "db:1", Args: []string{"--port", "8123"},
					Env:   []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}},
					Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8123}},
				}}},
			},
		},
	}
}

func benchWidget(name string) client.Object {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "bench.example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"namespace": "default", "name": name, "labels": map[string]any{"app": "web", "tier": "db"}},
		"spec": map[string]any{
			"size": int64(1), "color": "red",
			"layout": map[string]any{
				"shards": []any{map[string]any{"name": "a", "replicas": int64(2)}, map[string]any{"name": "b"}},
			},
			"templates": []any{map[string]any{"name": "t", "image": "db:1", "env": map[string]any{"A": "1", "B": "2"}}},
		},
		"status": map[string]any{"size": int64(1)},
	}}
}

var (
	benchKinds = apiserver.NewKinds(apiserver.V136)
	widgetGVK  = schema.GroupVersionKind{Group: "bench.example.com", Version: "v1", Kind: "Widget"}
	widgetKind = must(benchKinds.AddType(widgetGVK, "widgets", true, true))
	epoch      = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

type ours struct {
	server *apiserver.Server
	kind   *apiserver.Kind
}

func newOurs(kind string) store {
	server := apiserver.NewServer(benchKinds, func() time.Time { return epoch })
	if kind == "custom" {
		return &ours{server: server, kind: widgetKind}
	}
	return &ours{server: server, kind: benchKinds.ByName("StatefulSet")}
}

func (o *ours) do(verb schedule.Verb, subresource, name string, obj client.Object) client.Object {
	req := &apiserver.Request{Verb: verb, Kind: o.kind, Namespace: "default", Name: name, Subresource: subresource}
	if obj != nil {
		req.Object = obj.DeepCopyObject().(apiserver.Object)
	}
	response := o.server.Do(req)
	if response.Err != nil {
		panic(response.Err)
	}
	return response.Object.DeepCopyObject().(client.Object)
}

func (o *ours) get(name string) client.Object { return o.do(schedule.Get, "", name, nil) }
func (o *ours) create(obj client.Object) client.Object {
	return o.do(schedule.Create, "", obj.GetName(), obj)
}
func (o *ours) update(obj client.Object) client.Object {
	return o.do(schedule.Update, "", obj.GetName(), obj)
}
func (o *ours) status(obj client.Object) client.Object {
	return o.do(schedule.Update, "status", obj.GetName(), obj)
}

func (o *ours) list() int {
	response := o.server.Do(&apiserver.Request{Verb: schedule.List, Kind: o.kind, Namespace: "default"})
	for _, item := range response.Items {
		item.DeepCopyObject()
	}
	return len(response.Items)
}

func (o *ours) watch() func() client.Object {
	start := must(o.server.StartWatch(&apiserver.Request{Verb: schedule.List, Kind: o.kind, Namespace: "default"}, false))
	at := start.Next
	return func() client.Object {
		for {
			event := o.server.Log(o.kind)[at]
			at++
			if shown, ok := o.kind.Transition(event, "default", nil, nil); ok {
				return shown.Object.DeepCopyObject().(client.Object)
			}
		}
	}
}

type fakeStore struct {
	client client.WithWatch
	custom bool
}

func newFake(kind string) store {
	scheme := runtime.NewScheme()
	must(0, clientscheme.AddToScheme(scheme))
	scheme.AddKnownTypeWithName(widgetGVK, &unstructured.Unstructured{})
	scheme.AddKnownTypeWithName(widgetGVK.GroupVersion().WithKind("WidgetList"), &unstructured.UnstructuredList{})
	widget := &unstructured.Unstructured{}
	widget.SetGroupVersionKind(widgetGVK)
	builder := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&appsv1.StatefulSet{}, widget)
	return &fakeStore{client: builder.Build(), custom: kind == "custom"}
}

func (f *fakeStore) get(name string) client.Object {
	var obj client.Object = &appsv1.StatefulSet{}
	if f.custom {
		obj = &unstructured.Unstructured{}
		obj.GetObjectKind().SetGroupVersionKind(widgetGVK)
	}
	must(0, f.client.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, obj))
	return obj
}

func (f *fakeStore) emptyList() client.ObjectList {
	if !f.custom {
		return &appsv1.StatefulSetList{}
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(widgetGVK.GroupVersion().WithKind("WidgetList"))
	return list
}

func (f *fakeStore) list() int {
	list := f.emptyList()
	must(0, f.client.List(context.Background(), list, client.InNamespace("default")))
	return meta.LenList(list)
}

func (f *fakeStore) watch() func() client.Object {
	w := must(f.client.Watch(context.Background(), f.emptyList(), client.InNamespace("default")))
	return func() client.Object { return (<-w.ResultChan()).Object.(client.Object) }
}

func (f *fakeStore) create(obj client.Object) client.Object {
	obj = obj.DeepCopyObject().(client.Object)
	obj.SetResourceVersion("")
	must(0, f.client.Create(context.Background(), obj))
	return obj
}

func (f *fakeStore) update(obj client.Object) client.Object {
	must(0, f.client.Update(context.Background(), obj))
	return obj
}

func (f *fakeStore) status(obj client.Object) client.Object {
	must(0, f.client.Status().Update(context.Background(), obj))
	return obj
}
