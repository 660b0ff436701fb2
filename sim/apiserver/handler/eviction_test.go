package handler_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/stalemate-dev/stalemate/sim/apiserver/handler"
)

// guarded makes a pod that is ready, and a budget that allows as many disruptions.
func guarded(t *testing.T, clientset kubernetes.Interface, name string, allowed int32) {
	t.Helper()
	labels := map[string]string{"app": name}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.PodSpec{NodeName: "node1", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	pods, budgets := clientset.CoreV1().Pods("default"), clientset.PolicyV1().PodDisruptionBudgets("default")
	pod, err := pods.Create(t.Context(), pod, metav1.CreateOptions{})
	if err == nil {
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		_, err = pods.UpdateStatus(t.Context(), pod, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: new(intstr.FromInt32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels},
	}}
	budget, err = budgets.Create(t.Context(), budget, metav1.CreateOptions{})
	if err == nil {
		budget.Status = policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: 1, DisruptionsAllowed: allowed, CurrentHealthy: 1, DesiredHealthy: 1, ExpectedPods: 1,
		}
		_, err = budgets.UpdateStatus(t.Context(), budget, metav1.UpdateOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestEviction(t *testing.T) {
	ways(t, func(t *testing.T, config *rest.Config, _ *handler.Local) {
		clientset := kubernetes.NewForConfigOrDie(config)
		guarded(t, clientset, "a", 1)
		guarded(t, clientset, "b", 0)
		guarded(t, clientset, "c", 1)
		pods := clientset.CoreV1().Pods("default")
		if err := pods.EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "a"}}); err != nil {
			t.Fatal(err)
		}
		pod, err := pods.Get(t.Context(), "a", metav1.GetOptions{})
		if err != nil || pod.DeletionTimestamp == nil || pod.Status.Conditions[1].Type != corev1.DisruptionTarget {
			t.Errorf("%v: %+v", err, pod)
		}
		err = pods.EvictV1(t.Context(), &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "b"}})
		if !apierrors.IsTooManyRequests(err) || !apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) {
			t.Errorf("an eviction that is not allowed: %v", err)
		}
		if _, ok := apierrors.SuggestsClientDelay(err); ok {
			t.Errorf("it says when to come back: %v", err)
		}
		older := &policyv1beta1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "c"}, DeleteOptions: &metav1.DeleteOptions{
			GracePeriodSeconds: new(int64(0)),
		}}
		if err := pods.EvictV1beta1(t.Context(), older); err != nil {
			t.Error(err)
		}
		if _, err := pods.Get(t.Context(), "c", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("after an eviction with grace 0: %v", err)
		}
	})
}

// TestEvictionAnswers checks what is sent for an eviction: that two budgets are a success of which the body says otherwise.
func TestEvictionAnswers(t *testing.T) {
	h := handler.New(newLocal(t))
	clientset := kubernetes.NewForConfigOrDie(h.Config())
	guarded(t, clientset, "a", 0)
	evict := func(body string) (code int, retryAfter, answer string) {
		r := httptest.NewRequest(http.MethodPost, "/api/v1/namespaces/default/pods/a/eviction", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		data, err := io.ReadAll(w.Result().Body)
		if err != nil {
			t.Fatal(err)
		}
		return w.Code, w.Header().Get("Retry-After"), string(bytes.TrimSpace(data))
	}
	const body = `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"a"}}`
	check := func(what string, code int, retryAfter, want string) {
		t.Helper()
		gotCode, gotRetry, got := evict(body)
		if gotCode != code || gotRetry != retryAfter || got != want {
			t.Errorf("%s: %d, Retry-After %q, %s\nwant %d, %q, %s", what, gotCode, gotRetry, got, code, retryAfter, want)
		}
	}
	const violates = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Cannot evict pod as it would violate ` +
		`the pod's disruption budget.","reason":"TooManyRequests","details":{"causes":[{"reason":"DisruptionBudget","message":"`
	check("over budget", 429, "", violates+`The disruption budget a needs 1 healthy pods and has 1 currently"}]},"code":429}`)

	budgets := clientset.PolicyV1().PodDisruptionBudgets("default")
	budget, err := budgets.Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	budget.Spec.MaxUnavailable = new(intstr.FromInt32(2))
	if budget, err = budgets.Update(t.Context(), budget, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	check("not observed", 429, "10", violates+`The disruption budget a is still being processed by the server."}],`+
		`"retryAfterSeconds":10},"code":429}`)

	second := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: budget.Spec}
	if _, err := budgets.Create(t.Context(), second, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	check("two budgets", 500, "", `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"This pod has more than `+
		`one PodDisruptionBudget, which the eviction subresource does not support.","code":500}`)
	for _, name := range []string{"a", "b"} {
		if err := budgets.Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	check("no budget", 201, "", `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}`)
}

// TestFinalize ends a namespace as its controller does.
func TestFinalize(t *testing.T) {
	ways(t, func(t *testing.T, config *rest.Config, _ *handler.Local) {
		namespaces := kubernetes.NewForConfigOrDie(config).CoreV1().Namespaces()
		ns, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := namespaces.Delete(t.Context(), "n", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		ns.ResourceVersion, ns.Spec.Finalizers = "", nil
		if ns, err = namespaces.Finalize(t.Context(), ns, metav1.UpdateOptions{}); err != nil || len(ns.Spec.Finalizers) != 0 {
			t.Errorf("%v: %+v", err, ns)
		}
		if _, err := namespaces.Get(t.Context(), "n", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("after the last finalizer: %v", err)
		}
	})
}
