package handler_test

import (
	"context"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/stalemate-dev/stalemate/sim/apiserver/handler"
)

// owner is a reconciler that keeps a ConfigMap for each StatefulSet, counts its Pods by an index, and reports through the
// status of a Widget, which it knows as unstructured.
type owner struct{ client.Client }

func (o *owner) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var set appsv1.StatefulSet
	if err := o.Get(ctx, req.NamespacedName, &set); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	owned := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: set.Name + "-config", Namespace: set.Namespace}}
	if _, err := controllerutil.CreateOrUpdate(ctx, o.Client, owned, func() error {
		owned.Data = map[string]string{"service": set.Spec.ServiceName}
		return controllerutil.SetControllerReference(&set, owned, o.Scheme())
	}); err != nil {
		return ctrl.Result{}, err
	}
	var pods corev1.PodList
	if err := o.List(ctx, &pods, client.InNamespace(set.Namespace), client.MatchingFields{"spec.nodeName": "node1"}); err != nil {
		return ctrl.Result{}, err
	}
	report := widget(set.Name, 1)
	report.SetNamespace(set.Namespace)
	if err := o.Create(ctx, report); err != nil && !apierrors.IsAlreadyExists(err) {
		return ctrl.Result{}, err
	}
	if err := o.Get(ctx, req.NamespacedName, report); err != nil {
		return ctrl.Result{}, err
	}
	if err := unstructured.SetNestedField(report.Object, "Seen", "status", "phase"); err != nil {
		return ctrl.Result{}, err
	}
	if err := o.Status().Update(ctx, report); err != nil {
		return ctrl.Result{}, err
	}
	set.Status.ObservedGeneration = set.Generation
	return ctrl.Result{}, o.Status().Update(ctx, &set)
}

// runManager runs a manager with the reconciler until a StatefulSet has been dealt with, twice: when it is created, and when
// what was made for it is deleted.
func runManager(t *testing.T, cfg *rest.Config) {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	skip := true
	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Metrics:    server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: &skip},
	})
	if err != nil {
		t.Fatal(err)
	}
	byNode := func(obj client.Object) []string { return []string{obj.(*corev1.Pod).Spec.NodeName} }
	if err := mgr.GetFieldIndexer().IndexField(t.Context(), &corev1.Pod{}, "spec.nodeName", byNode); err != nil {
		t.Fatal(err)
	}
	builder := ctrl.NewControllerManagedBy(mgr).For(&appsv1.StatefulSet{}).Owns(&corev1.ConfigMap{})
	if err := builder.Complete(&owner{mgr.GetClient()}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	user, err := client.New(cfg, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	set := statefulSet("web")
	set.Namespace = "default"
	if err := user.Create(ctx, set); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKey{Namespace: "default", Name: "web-config"}
	var owned corev1.ConfigMap
	eventually(t, "the ConfigMap is made", func() bool { return user.Get(ctx, key, &owned) == nil })
	eventually(t, "the generation is observed", func() bool {
		return user.Get(ctx, client.ObjectKeyFromObject(set), set) == nil && set.Status.ObservedGeneration == 1
	})
	first := owned.UID
	if err := user.Delete(ctx, &owned); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the ConfigMap is made again", func() bool { return user.Get(ctx, key, &owned) == nil && owned.UID != first })
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 1000 {
		if holds() {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatalf("not within 10 s: %s", what)
}

// TestManager runs an unmodified controller-runtime manager, with its cache and its reflectors.
func TestManager(t *testing.T) {
	t.Run("round trips", func(t *testing.T) { runManager(t, handler.New(newLocal(t)).Config()) })
	t.Run("bubble", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { runManager(t, handler.New(newLocal(t)).Config()) })
	})
	t.Run("connection", func(t *testing.T) {
		s := httptest.NewServer(handler.New(newLocal(t)))
		t.Cleanup(s.Close)
		cfg := &rest.Config{Host: s.URL, QPS: -1}
		runManager(t, cfg)
	})
	t.Run("JSON", func(t *testing.T) {
		cfg := handler.New(newLocal(t)).Config()
		cfg.ContentType = runtime.ContentTypeJSON
		runManager(t, cfg)
	})
}

// TestPartialMetadata watches metadata with controller-runtime's cache and reads it with its client.
func TestPartialMetadata(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := handler.New(newLocal(t)).Config()
		user, err := client.NewWithWatch(cfg, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		set := statefulSet("web")
		set.Namespace = "default"
		if err := user.Create(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		var one metav1.PartialObjectMetadata
		one.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("StatefulSet"))
		if err := user.Get(t.Context(), client.ObjectKeyFromObject(set), &one); err != nil || one.UID != set.UID {
			t.Errorf("%+v %v", one, err)
		}
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("StatefulSetList"))
		if err := user.List(t.Context(), &list); err != nil || len(list.Items) != 1 || list.Items[0].UID != set.UID {
			t.Errorf("%+v %v", list, err)
		}
		w, err := user.Watch(t.Context(), &list)
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		if event := <-w.ResultChan(); event.Object.(*metav1.PartialObjectMetadata).UID != set.UID {
			t.Errorf("saw %+v", event)
		}
	})
}
