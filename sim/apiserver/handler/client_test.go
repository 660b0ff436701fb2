package handler_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	applyv1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/apiserver/crd"
	"github.com/stalemate-dev/stalemate/sim/apiserver/handler"
)

var widgets = schema.GroupVersionResource{Group: "golden.example.com", Version: "v1", Resource: "widgets"}

// newLocal returns a backend with the kinds of Kubernetes 1.36 and the custom resource of the recordings.
func newLocal(t testing.TB) *handler.Local {
	t.Helper()
	return handler.NewLocal(apiserver.NewServer(kinds(), time.Now))
}

var kinds = sync.OnceValue(func() *apiserver.Kinds {
	text, err := os.ReadFile("../testdata/widgets.yaml")
	if err != nil {
		panic(err)
	}
	definitions, err := crd.Load(text)
	if err != nil {
		panic(err)
	}
	kinds := apiserver.NewKinds(apiserver.V136)
	if _, err := kinds.AddCRD(definitions[0]); err != nil {
		panic(err)
	}
	return kinds
})

// ways runs a test for each way to reach a handler: in process, in process in a bubble, and over a connection; in JSON and
// in protobuf.
func ways(t *testing.T, run func(t *testing.T, config *rest.Config, backend *handler.Local)) {
	t.Helper()
	for _, contentType := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		_, short, _ := strings.Cut(contentType, "/")
		t.Run("round trips "+short, func(t *testing.T) {
			backend := newLocal(t)
			config := handler.New(backend).Config()
			config.ContentType = contentType
			run(t, config, backend)
		})
		t.Run("bubble "+short, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				backend := newLocal(t)
				config := handler.New(backend).Config()
				config.ContentType = contentType
				run(t, config, backend)
			})
		})
		t.Run("connection "+short, func(t *testing.T) {
			backend := newLocal(t)
			server := httptest.NewServer(handler.New(backend))
			t.Cleanup(server.Close)
			run(t, &rest.Config{Host: server.URL, QPS: -1, ContentConfig: rest.ContentConfig{ContentType: contentType}}, backend)
		})
	}
}

func configMap(name string, data string) *corev1.ConfigMap {
	meta := metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}}
	return &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"k": data}}
}

func statefulSet(name string) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.StatefulSetSpec{
		ServiceName: "svc", Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "busybox:1"}}},
		},
	}}
}

func widget(name string, size int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "golden.example.com/v1", "kind": "Widget",
		"metadata": map[string]any{"name": name}, "spec": map[string]any{"size": size, "color": "red"},
	}}
}

// TestTypedClient uses a generated clientset as programs do.
func TestTypedClient(t *testing.T) {
	ways(t, func(t *testing.T, config *rest.Config, _ *handler.Local) {
		clientset, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		sets := clientset.AppsV1().StatefulSets("default")
		created, err := sets.Create(ctx, statefulSet("web"), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if created.UID == "" || created.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyAlways || *created.Spec.Replicas != 1 {
			t.Errorf("created without UID or defaults: %+v", created)
		}
		if _, err := sets.Create(ctx, statefulSet("web"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
			t.Errorf("a second create: %v, want AlreadyExists", err)
		}
		created.Status.Replicas = 1
		if _, err := sets.UpdateStatus(ctx, created, metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
		if _, err := sets.Update(ctx, created, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("a stale update: %v, want Conflict", err)
		}
		scale, err := sets.GetScale(ctx, "web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		scale.Spec.Replicas = 3
		if _, err := sets.UpdateScale(ctx, "web", scale, metav1.UpdateOptions{}); err != nil {
			t.Error(err)
		}
		patch := []byte(`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"busybox:2"}]}}}}`)
		patched, err := sets.Patch(ctx, "web", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if err != nil {
			t.Fatal(err)
		}
		containers := patched.Spec.Template.Spec.Containers
		if len(containers) != 1 || containers[0].Image != "busybox:2" || *patched.Spec.Replicas != 3 || patched.Status.Replicas != 1 {
			t.Errorf("patched: %+v", patched)
		}
		options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions("other")}
		if err := sets.Delete(ctx, "web", options); !apierrors.IsConflict(err) {
			t.Errorf("a delete with a wrong UID: %v, want Conflict", err)
		}
		options.Preconditions = metav1.NewUIDPreconditions(string(created.UID))
		if err := sets.Delete(ctx, "web", options); err != nil {
			t.Error(err)
		}
		if _, err := sets.Get(ctx, "web", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("get after delete: %v, want NotFound", err)
		}
		testCollections(t, clientset)
		testApply(t, clientset)
	})
}

// testApply applies as two managers.
func testApply(t *testing.T, clientset kubernetes.Interface) {
	t.Helper()
	maps := clientset.CoreV1().ConfigMaps("default")
	config := applyv1.ConfigMap("applied", "default").WithData(map[string]string{"k": "1"})
	applied, err := maps.Apply(t.Context(), config, metav1.ApplyOptions{FieldManager: "one"})
	if err != nil {
		t.Fatal(err)
	}
	if len(applied.ManagedFields) != 1 || applied.ManagedFields[0].Manager != "one" {
		t.Errorf("managed by %v", applied.ManagedFields)
	}
	config.WithData(map[string]string{"k": "2"})
	if _, err := maps.Apply(t.Context(), config, metav1.ApplyOptions{FieldManager: "two"}); !apierrors.IsConflict(err) {
		t.Errorf("another manager: %v, want Conflict", err)
	}
	applied, err = maps.Apply(t.Context(), config, metav1.ApplyOptions{FieldManager: "two", Force: true})
	if err != nil || applied.Data["k"] != "2" {
		t.Errorf("by force: %v %v", applied, err)
	}
}

// testCollections lists page by page, by label and by field, and deletes what it lists.
func testCollections(t *testing.T, clientset kubernetes.Interface) {
	t.Helper()
	ctx := t.Context()
	maps := clientset.CoreV1().ConfigMaps("default")
	for i := range 5 {
		if _, err := maps.Create(ctx, configMap(fmt.Sprint("m", i), "v"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	options := metav1.ListOptions{Limit: 2}
	for {
		page, err := maps.List(ctx, options)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			names = append(names, item.Name)
		}
		if options.Continue = page.Continue; options.Continue == "" {
			break
		}
	}
	if want := []string{"m0", "m1", "m2", "m3", "m4"}; !slices.Equal(names, want) {
		t.Errorf("pages: %v, want %v", names, want)
	}
	for _, options := range []metav1.ListOptions{{LabelSelector: "app=m3"}, {FieldSelector: "metadata.name=m3"}} {
		list, err := maps.List(ctx, options)
		if err != nil || len(list.Items) != 1 || list.Items[0].Name != "m3" {
			t.Errorf("%+v: %v %v", options, list, err)
		}
	}
	err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "app in (m0, m1)"})
	if err != nil {
		t.Error(err)
	}
	if list, err := maps.List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 3 {
		t.Errorf("after the delete: %v %v", list, err)
	}
	if _, err := maps.List(ctx, metav1.ListOptions{FieldSelector: "data.k=v"}); !apierrors.IsBadRequest(err) {
		t.Errorf("an unknown field selector: %v, want BadRequest", err)
	}
}

// TestWatch watches with a generated client, and sees what happens to what it selects.
func TestWatch(t *testing.T) {
	ways(t, func(t *testing.T, config *rest.Config, _ *handler.Local) {
		clientset, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		maps := clientset.CoreV1().ConfigMaps("default")
		w, err := maps.Watch(t.Context(), metav1.ListOptions{LabelSelector: "app=a"})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		for _, name := range []string{"a", "b"} {
			if _, err := maps.Create(t.Context(), configMap(name, "v"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if err := maps.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := maps.Create(t.Context(), configMap("a", "w"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"ADDED a v", "DELETED a v", "ADDED a w"} {
			event := <-w.ResultChan()
			got := event.Object.(*corev1.ConfigMap)
			if seen := fmt.Sprint(event.Type, " ", got.Name, " ", got.Data["k"]); seen != want {
				t.Errorf("saw %s, want %s", seen, want)
			}
		}
	})
}

// TestWatchEnds ends watches in every way a client has; nothing of them may stay behind, as the bubble would tell.
func TestWatchEnds(t *testing.T) {
	for name, end := range map[string]func(w watch.Interface, cancel context.CancelFunc){
		"stop":    func(w watch.Interface, _ context.CancelFunc) { w.Stop() },
		"context": func(_ watch.Interface, cancel context.CancelFunc) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clientset, err := kubernetes.NewForConfig(handler.New(newLocal(t)).Config())
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				w, err := clientset.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{ResourceVersion: "1"})
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				end(w, cancel)
				for event := range w.ResultChan() {
					// Over a connection, too, a client that cancels its context is told that this is what went wrong.
					status, ok := event.Object.(*metav1.Status)
					if !ok || ctx.Err() == nil || !strings.Contains(status.Message, "context canceled") {
						t.Errorf("saw %v", event)
					}
				}
			})
		})
	}
}

// TestBookmarks waits for the bookmarks of a watch in virtual time.
func TestBookmarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clientset, err := kubernetes.NewForConfig(handler.New(newLocal(t)).Config())
		if err != nil {
			t.Fatal(err)
		}
		maps := clientset.CoreV1().ConfigMaps("default")
		timeout := int64(150)
		begin := time.Now()
		w, err := maps.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1", AllowWatchBookmarks: true, TimeoutSeconds: &timeout})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := clientset.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		var seen []string
		for event := range w.ResultChan() {
			seen = append(seen, fmt.Sprint(event.Type, time.Since(begin)))
		}
		seen = append(seen, fmt.Sprint("END", time.Since(begin)))
		want := []string{"BOOKMARK1m0s", "BOOKMARK2m0s", "BOOKMARK2m28s", "END2m30s"}
		if !slices.Equal(seen, want) {
			t.Errorf("saw %v, want %v", seen, want)
		}
	})
}

// TestDynamicClient uses a custom resource, as objects and as metadata.
func TestDynamicClient(t *testing.T) {
	ways(t, func(t *testing.T, config *rest.Config, _ *handler.Local) {
		if config.ContentType != runtime.ContentTypeJSON {
			t.Skip("the dynamic client always speaks JSON")
		}
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		ctx := t.Context()
		resource := client.Resource(widgets).Namespace("default")
		created, err := resource.Create(ctx, widget("w", 1), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := unstructured.SetNestedField(created.Object, int64(-1), "spec", "size"); err != nil {
			t.Fatal(err)
		}
		if _, err := resource.Update(ctx, created, metav1.UpdateOptions{}); !apierrors.IsInvalid(err) {
			t.Errorf("a negative size: %v, want Invalid", err)
		}
		patch := []byte(`{"status":{"phase":"Ready"}}`)
		if _, err := resource.Patch(ctx, "w", types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			t.Error(err)
		}
		_, err = resource.Patch(ctx, "w", types.StrategicMergePatchType, patch, metav1.PatchOptions{})
		if !apierrors.IsUnsupportedMediaType(err) {
			t.Errorf("a strategic patch: %v, want UnsupportedMediaType", err)
		}
		list, err := resource.List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			t.Fatalf("%v %v", list, err)
		}
		if phase, _, _ := unstructured.NestedString(list.Items[0].Object, "status", "phase"); phase != "Ready" {
			t.Errorf("listed %v", list.Items[0])
		}
		testMetadata(t, config)
		if err := resource.Delete(ctx, "w", metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// testMetadata reads the widget as metadata.
func testMetadata(t *testing.T, config *rest.Config) {
	t.Helper()
	client, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	resource := client.Resource(widgets).Namespace("default")
	one, err := resource.Get(t.Context(), "w", metav1.GetOptions{})
	if err != nil || one.Name != "w" || one.UID == "" {
		t.Errorf("%+v %v", one, err)
	}
	list, err := resource.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(list.Items) != 1 || list.Items[0].UID != one.UID || list.ResourceVersion == "" {
		t.Errorf("%+v %v", list, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w, err := resource.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if event := <-w.ResultChan(); event.Type != watch.Added || event.Object.(*metav1.PartialObjectMetadata).Name != "w" {
		t.Errorf("saw %+v", event)
	}
}

// TestDiscovery finds kinds by discovery, plain and aggregated.
func TestDiscovery(t *testing.T) {
	for name, legacy := range map[string]bool{"aggregated": false, "plain": true} {
		t.Run(name, func(t *testing.T) {
			client, err := discovery.NewDiscoveryClientForConfig(handler.New(newLocal(t)).Config())
			if err != nil {
				t.Fatal(err)
			}
			client.UseLegacyDiscovery = legacy
			version, err := client.ServerVersion()
			if err != nil || version.GitVersion != "v1.36.3" {
				t.Errorf("%v %v", version, err)
			}
			if _, err := client.ServerPreferredNamespacedResources(); err != nil {
				t.Error(err)
			}
			mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(client))
			for _, kind := range kinds().All() {
				mapping, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
				if err != nil {
					t.Errorf("%s: %v", kind, err)
					continue
				}
				if mapping.Resource.Resource != kind.Resource || (mapping.Scope.Name() == "namespace") != kind.Namespaced {
					t.Errorf("%s: %+v", kind, mapping)
				}
			}
			for _, short := range []string{"sts", "statefulset", "statefulsets"} {
				expander := restmapper.NewShortcutExpander(mapper, client, nil)
				gvr, err := expander.ResourceFor(schema.GroupVersionResource{Resource: short})
				if err != nil || gvr.Resource != "statefulsets" {
					t.Errorf("%s: %v %v", short, gvr, err)
				}
			}
			if legacy {
				return
			}
			_, resources, err := client.ServerGroupsAndResources()
			if err != nil || len(resources) == 0 {
				t.Errorf("%v %v", resources, err)
			}
		})
	}
}
