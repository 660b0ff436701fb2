package simtest_test

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim/simtest"
)

// inExample is a test, for examples, which have none.
type inExample struct{ cleanups []func() }

func (*inExample) Helper()               {}
func (*inExample) Name() string          { return "Example" }
func (*inExample) Logf(string, ...any)   {}
func (*inExample) Errorf(string, ...any) {}
func (*inExample) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}
func (e *inExample) Cleanup(f func()) { e.cleanups = append(e.cleanups, f) }

func (e *inExample) end() {
	for _, f := range e.cleanups {
		f()
	}
}

func ExampleNewClient() {
	t := &inExample{} // in a test, what it is given
	defer t.end()
	ctx := context.Background()
	c := simtest.NewClient(t, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings"}, Data: map[string]string{"size": "3"},
	})

	var settings corev1.ConfigMap
	fmt.Println(c.Get(ctx, client.ObjectKey{Namespace: "shop", Name: "settings"}, &settings), settings.Data)
	stale := settings.DeepCopy()
	settings.Data["size"] = "4"
	fmt.Println(c.Update(ctx, &settings))
	fmt.Println(strings.Split(c.Update(ctx, stale).Error(), "; ")[0])
	fmt.Println(c.Create(ctx, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "web"}}))
	// Output:
	// <nil> map[size:3]
	// <nil>
	// Operation cannot be fulfilled on configmaps "settings": the object has been modified
	// namespaces "elsewhere" not found
}

func ExampleClientBuilder() {
	t := &inExample{}
	defer t.end()
	ctx := context.Background()
	server := simtest.NewClientBuilder(t).
		WithNamespaces("shop").
		WithIndex(&corev1.Pod{}, "image", func(obj client.Object) []string {
			return []string{obj.(*corev1.Pod).Spec.Containers[0].Image}
		}).
		Server()
	c := server.Client()

	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", GenerateName: "web-"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
	}
	fmt.Println(c.Create(ctx, pod), pod.Spec.RestartPolicy, pod.Status.Phase)
	var pods corev1.PodList
	fmt.Println(c.List(ctx, &pods, client.MatchingFields{"image": "web:1"}), len(pods.Items))
	fmt.Println(c.Delete(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "password"}}))
	for _, request := range server.Requests() {
		fmt.Println(request)
	}
	// Output:
	// <nil> Always Pending
	// <nil> 1
	// secrets "password" not found
	// Create Pod shop/web-6fdwf
	// List Pod
	// Delete Secret shop/password: 404 NotFound
}
