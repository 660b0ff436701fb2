package cmd_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	widgetv1 "github.com/stalemate-dev/stalemate/cmd/testdata/widget/api/v1"
	"github.com/stalemate-dev/stalemate/cmd/testdata/widget/controller"
)

func TestReconcileWithFake(t *testing.T) {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(widgetv1.AddToScheme(scheme))
	shop := ctrlclient.ObjectKey{Namespace: "default", Name: "shop"}
	widget := &widgetv1.Widget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop"},
		Spec:       widgetv1.WidgetSpec{Replicas: 3},
	}
	c := fake.NewClientBuilder().
		WithScheme(scheme).
		WithObjects(widget).
		WithStatusSubresource(&widgetv1.Widget{}).
		Build()

	r := &controller.WidgetReconciler{Client: c, Scheme: scheme}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: shop}); err != nil {
		t.Fatal(err)
	}
	set := &appsv1.StatefulSet{}
	if err := c.Get(t.Context(), shop, set); err != nil || *set.Spec.Replicas != 3 {
		t.Fatalf("the set has not 3 replicas: %v, %v", set.Spec.Replicas, err)
	}

	// What the StatefulSet controller would do.
	set.Status = appsv1.StatefulSetStatus{ObservedGeneration: set.Generation, Replicas: 3, ReadyReplicas: 3}
	if err := c.Status().Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: shop}); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), shop, widget); err != nil || widget.Status.Phase != "Ready" {
		t.Errorf("the widget is %q: %v", widget.Status.Phase, err)
	}
}
