package apiserver_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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
	create(obj client.Object) client.Object
	update(obj client.Object) client.Object
	status(obj client.Object) client.Object
}

// BenchmarkAPIServer compares the server with controller-runtime's fake client, each with one object in the store, or an
// object more per operation for create.
func BenchmarkAPIServer(b *testing.B) {
	objects := map[string]func(name string) client.Object{"statefulset": benchSet, "custom": benchWidget}
	stores := map[string]func() store{"ours": newOurs, "fake": newFake}
	for _, verb := range []string{"get", "update", "status", "create"} {
		for _, kind := range []string{"statefulset", "custom"} {
			for _, which := range []string{"ours", "fake"} {
				b.Run(verb+"/"+kind+"/"+which, func(b *testing.B) {
					s := stores[which]()
					obj := objects[kind]
					if kind == "custom" && which == "ours" {
						s.(*ours).kind = widgetKind
					} else if f, ok := s.(*fakeStore); ok {
						f.empty = func() client.Object { return emptyLike(obj("x")) }
					}
					benchVerb(b, verb, s, obj)
				})
			}
		}
	}
}

func emptyLike(obj client.Object) client.Object {
	if _, ok := obj.(*unstructured.Unstructured); ok {
		empty := &unstructured.Unstructured{}
		empty.SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
		return empty
	}
	return &appsv1.StatefulSet{}
}

func benchVerb(b *testing.B, verb string, s store, make func(string) client.Object) {
	obj := s.create(make("web"))
	template := make("web")
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		n++
		switch verb {
		case "get":
			s.get("web")
		case "create":
			template.SetName(fmt.Sprintf("web-%d", n))
			s.create(template)
		case "update":
			setField(obj, "spec", int64(n))
			obj = s.update(obj)
		case "status":
			setField(obj, "status", int64(n))
			obj = s.status(obj)
		}
	}
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

func newOurs() store {
	server := apiserver.NewServer(benchKinds, func() time.Time { return epoch })
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

type fakeStore struct {
	client client.Client
	empty  func() client.Object
}

func newFake() store {
	scheme := runtime.NewScheme()
	must(0, clientscheme.AddToScheme(scheme))
	scheme.AddKnownTypeWithName(widgetGVK, &unstructured.Unstructured{})
	widget := &unstructured.Unstructured{}
	widget.SetGroupVersionKind(widgetGVK)
	builder := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&appsv1.StatefulSet{}, widget)
	return &fakeStore{client: builder.Build()}
}

func (f *fakeStore) get(name string) client.Object {
	obj := f.empty()
	must(0, f.client.Get(context.Background(), client.ObjectKey{Namespace: "default", Name: name}, obj))
	return obj
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
