package client_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
)

// unspoilt returns a ConfigMap with something in each of its maps and slices.
func unspoilt(name string) *corev1.ConfigMap {
	cm := configMap(name, "n=1", ":l=1")
	cm.Annotations, cm.BinaryData = map[string]string{"a": "1"}, map[string][]byte{"b": []byte("1")}
	cm.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Secret", Name: "s", UID: "1"}}
	return cm
}

func isSpoilt(cm *corev1.ConfigMap) bool {
	return cm.Data["n"] != "1" || cm.Labels["l"] != "1" || cm.Annotations["a"] != "1" || cm.OwnerReferences[0].Name != "s" ||
		string(cm.BinaryData["b"]) != "1"
}

// spoil changes all that a program can reach from an object.
func spoil(obj ctrlclient.Object) {
	switch o := obj.(type) {
	case *corev1.ConfigMap:
		o.Data["n"], o.Labels["l"], o.Annotations["a"], o.OwnerReferences[0].Name = "spoilt", "spoilt", "spoilt", "spoilt"
		o.BinaryData["b"][0] = 'x'
	case *unstructured.Unstructured:
		o.Object["data"].(map[string]any)["n"] = "spoilt"
		metadata := o.Object["metadata"].(map[string]any)
		metadata["annotations"].(map[string]any)["a"], metadata["labels"].(map[string]any)["l"] = "spoilt", "spoilt"
		metadata["ownerReferences"].([]any)[0].(map[string]any)["name"] = "spoilt"
	case *metav1.PartialObjectMetadata:
		o.Labels["l"], o.Annotations["a"], o.OwnerReferences[0].Name = "spoilt", "spoilt", "spoilt"
	}
}

// spoiler reads an object in every way there is, creates another one, and spoils all that it gets.
func spoiler(ctx context.Context, m ctrl.Manager, request ctrl.Request) error {
	untyped := &unstructured.Unstructured{}
	untyped.SetGroupVersionKind(configMapsKind.GroupVersionKind())
	metadata := &metav1.PartialObjectMetadata{TypeMeta: configMapsKind}
	for _, reader := range []ctrlclient.Reader{m.GetCache(), m.GetAPIReader()} {
		for _, obj := range []ctrlclient.Object{&corev1.ConfigMap{}, untyped.DeepCopy(), metadata.DeepCopy()} {
			if err := reader.Get(ctx, request.NamespacedName, obj); err != nil {
				return err
			}
			spoil(obj)
		}
		list := &corev1.ConfigMapList{}
		if err := reader.List(ctx, list, ctrlclient.InNamespace("default")); err != nil {
			return err
		}
		for i := range list.Items {
			spoil(&list.Items[i])
		}
	}
	if request.Name != "a" {
		return nil
	}
	created := unspoilt("b")
	if err := m.GetClient().Create(ctx, created); err != nil {
		return ctrlclient.IgnoreAlreadyExists(err)
	}
	spoil(created)
	return nil
}

// TestCopies checks that nothing a program is handed leads back to what the server stores: whatever it does to the objects it
// has read, been told of or written, the store and later runs are as they were.
func TestCopies(t *testing.T) {
	setup := func(m ctrl.Manager) error {
		hear := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, obj ctrlclient.Object) []reconcile.Request {
			request := reconcile.Request{NamespacedName: ctrlclient.ObjectKeyFromObject(obj)}
			spoil(obj)
			return []reconcile.Request{request}
		})
		f := func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
			return ctrl.Result{}, spoiler(ctx, m, request)
		}
		return ctrl.NewControllerManagedBy(m).Named("spoiler").Watches(&corev1.ConfigMap{}, hear).
			Watches(&corev1.ConfigMap{}, hear, builder.OnlyMetadata).Complete(reconcile.Func(f))
	}
	world, err := sim.NewWorld(newConfig(setup, unspoilt("a")))
	if err != nil {
		t.Fatal(err)
	}
	var first uint64
	for n := range repetitions {
		h, err := world.Run(sim.Plan{})
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			first = h.Hash
		}
		if h.Hash != first || h.Outcome != history.Terminal {
			t.Fatalf("run %d: hash %x, outcome %s; the first run had %x\n%s", n, h.Hash, h.Outcome, first, dump(h))
		}
		for _, r := range h.Records {
			if cm, ok := r.After.(*corev1.ConfigMap); ok && isSpoilt(cm) {
				t.Fatalf("run %d: %s shows %v", n, r.Event, cm)
			}
		}
	}
}
