package cmd_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	widgetv1 "github.com/stalemate-dev/stalemate/cmd/testdata/widget/api/v1"
	"github.com/stalemate-dev/stalemate/cmd/testdata/widget/controller"
	"github.com/stalemate-dev/stalemate/sim/simtest"
)

// With the definition at hand the server defaults, prunes and validates custom resources, too.
func TestWidgetIsValidated(t *testing.T) {
	scheme := runtime.NewScheme()
	utilruntime.Must(widgetv1.AddToScheme(scheme))
	c := simtest.NewClientBuilder(t).WithScheme(scheme).WithCRDs("testdata/widget/config/crd/bases").Build()
	widget := &widgetv1.Widget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop"},
		Spec:       widgetv1.WidgetSpec{Replicas: -1},
	}
	if err := c.Create(t.Context(), widget); !apierrors.IsInvalid(err) {
		t.Errorf("a widget with -1 replicas was created: %v", err)
	}
}

// Behind the client there is a server to ask what happened, and to reach in other ways.
func TestReconcileRequests(t *testing.T) {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(widgetv1.AddToScheme(scheme))
	shop := ctrlclient.ObjectKey{Namespace: "default", Name: "shop"}
	server := simtest.NewClientBuilder(t).WithScheme(scheme).
		WithObjects(&widgetv1.Widget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "shop"}}).
		Server()

	r := &controller.WidgetReconciler{Client: server.Client(), Scheme: scheme}
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: shop}); err != nil {
		t.Fatal(err)
	}
	var requests []string
	for _, request := range server.Requests() {
		requests = append(requests, request.String())
	}
	if want := []string{
		"Get Widget default/shop",
		"Get StatefulSet default/shop: 404 NotFound",
		"Create StatefulSet default/shop",
		"Update Widget/status default/shop",
	}; !slices.Equal(requests, want) {
		t.Errorf("the requests are %q", requests)
	}

	clientset, err := kubernetes.NewForConfig(server.Config())
	if err != nil {
		t.Fatal(err)
	}
	set, err := clientset.AppsV1().StatefulSets("default").Get(t.Context(), "shop", metav1.GetOptions{})
	if err != nil || set.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		t.Errorf("the clientset sees another set: %v", err)
	}
}
