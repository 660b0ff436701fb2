package racer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// guarded is a cluster with a disruption controller and a StatefulSet "web" whose pods are ready.
type guarded struct {
	*driver
}

func newGuarded(t *testing.T, replicas int32, edit func(*policyv1.PodDisruptionBudgetSpec)) *guarded {
	g := &guarded{newDriver(t, apiserver.V136)}
	g.start("disruption", NewDisruptionController())
	g.start("kcm", NewStatefulSetController(StatefulSetControllerOptions{Version: apiserver.V136}))
	g.start("kubelet", NewKubelet(KubeletOptions{Binds: true}))
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "b"}}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	edit(&budget.Spec)
	g.create("PodDisruptionBudget", budget)
	if replicas > 0 {
		g.create("StatefulSet", newSet(replicas))
	}
	g.settle()
	return g
}

func (g *guarded) evict(name string) error {
	request := g.target("Pod", name).create(&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: name}})
	request.Subresource = "eviction"
	return failure(g.do("test", request))
}

func (g *guarded) status() string {
	g.t.Helper()
	b := g.get("PodDisruptionBudget", "b").(*policyv1.PodDisruptionBudget)
	text := fmt.Sprintf("%d allowed, %d/%d healthy of %d, %d disrupted, generation %d", b.Status.DisruptionsAllowed,
		b.Status.CurrentHealthy, b.Status.DesiredHealthy, b.Status.ExpectedPods, len(b.Status.DisruptedPods), b.Status.ObservedGeneration)
	for _, c := range b.Status.Conditions {
		text += fmt.Sprintf(", %s %s %s%s", c.Type, c.Status, c.Reason, strings.TrimRight(": "+c.Message, ": "))
	}
	return text
}

func atLeast(value intstr.IntOrString) func(*policyv1.PodDisruptionBudgetSpec) {
	return func(s *policyv1.PodDisruptionBudgetSpec) { s.MinAvailable = &value }
}

func atMost(value intstr.IntOrString) func(*policyv1.PodDisruptionBudgetSpec) {
	return func(s *policyv1.PodDisruptionBudgetSpec) { s.MaxUnavailable = &value }
}

func TestBudgets(t *testing.T) {
	const sufficient, insufficient = ", DisruptionAllowed True SufficientPods", ", DisruptionAllowed False InsufficientPods"
	for name, tt := range map[string]struct {
		replicas int32
		edit     func(*policyv1.PodDisruptionBudgetSpec)
		want     string
	}{
		"min":          {3, atLeast(intstr.FromInt32(2)), "1 allowed, 3/2 healthy of 3, 0 disrupted, generation 1" + sufficient},
		"min of all":   {3, atLeast(intstr.FromInt32(3)), "0 allowed, 3/3 healthy of 3, 0 disrupted, generation 1" + insufficient},
		"min in parts": {3, atLeast(intstr.FromString("50%")), "1 allowed, 3/2 healthy of 3, 0 disrupted, generation 1" + sufficient},
		"max":          {3, atMost(intstr.FromInt32(1)), "1 allowed, 3/2 healthy of 3, 0 disrupted, generation 1" + sufficient},
		"max in parts": {3, atMost(intstr.FromString("34%")), "2 allowed, 3/1 healthy of 3, 0 disrupted, generation 1" + sufficient},
		"max of all":   {2, atMost(intstr.FromInt32(5)), "2 allowed, 2/0 healthy of 2, 0 disrupted, generation 1" + sufficient},
		"no pods":      {0, atMost(intstr.FromInt32(1)), "0 allowed, 0/0 healthy of 0, 0 disrupted, generation 1" + insufficient},
		"no amount": {2, func(*policyv1.PodDisruptionBudgetSpec) {},
			"0 allowed, 2/0 healthy of 0, 0 disrupted, generation 1" + insufficient},
	} {
		t.Run(name, func(t *testing.T) {
			if got := newGuarded(t, tt.replicas, tt.edit).status(); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// TestEvictionsInTurn evicts pods as fast as the budget lets them go.
func TestEvictionsInTurn(t *testing.T) {
	g := newGuarded(t, 3, atMost(intstr.FromInt32(1)))
	if err := g.evict("web-0"); err != nil {
		t.Fatal(err)
	}
	if err := g.evict("web-1"); !apierrors.IsTooManyRequests(err) {
		t.Errorf("a second pod at once: %v", err)
	}
	g.settle() // the StatefulSet makes another one
	if got, want := g.status(), "1 allowed, 3/2 healthy of 3, 0 disrupted, generation 1, DisruptionAllowed True SufficientPods"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if err := g.evict("web-1"); err != nil {
		t.Errorf("a second pod later: %v", err)
	}
	g.patch("PodDisruptionBudget", "b", `{"spec":{"maxUnavailable":0}}`)
	if err := g.evict("web-2"); !apierrors.IsTooManyRequests(err) {
		t.Errorf("before the change is observed: %v", err)
	}
	g.settle()
	if err := g.evict("web-2"); !apierrors.IsTooManyRequests(err) {
		t.Errorf("after it is: %v", err)
	}
}

// TestEvictedInVain lets the delete of an evicted pod fail: two minutes later the budget counts it again, and its condition goes.
func TestEvictedInVain(t *testing.T) {
	g := newGuarded(t, 3, atLeast(intstr.FromInt32(2)))
	uid, began := g.get("Pod", "web-1").GetUID(), g.now
	request := g.target("Pod", "web-0").create(&policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Name: "web-0"}, DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}},
	})
	request.Subresource = "eviction"
	if err := failure(g.do("test", request)); !apierrors.IsConflict(err) {
		t.Fatal(err)
	}
	g.patchStatus("Pod", "web-0", `{"status":{"conditions":[{"type":"Ready","status":"True"},
		{"type":"DisruptionTarget","status":"True","reason":"EvictionByEvictionAPI","lastTransitionTime":"2099-01-01T00:00:00Z"}]}}`)
	const disrupted = "0 allowed, 2/2 healthy of 3, 1 disrupted, generation 1, DisruptionAllowed False InsufficientPods"
	for g.status() != disrupted {
		if !g.step() || g.now.Sub(began) > time.Minute {
			t.Fatalf("%s, want %s", g.status(), disrupted)
		}
	}
	g.settle()
	if got, want := g.status(), "1 allowed, 3/2 healthy of 3, 0 disrupted, generation 1, DisruptionAllowed True SufficientPods"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	condition := podCondition(g.get("Pod", "web-0").(*corev1.Pod), corev1.DisruptionTarget)
	if condition == nil || condition.Status != corev1.ConditionFalse || condition.Reason != "" {
		t.Errorf("condition %+v", condition)
	}
}

// TestBudgetFails has pods of controllers whose number of replicas nobody knows: nothing may be evicted, and the status says why.
func TestBudgetFails(t *testing.T) {
	for name, tt := range map[string]struct {
		owner metav1.OwnerReference
		want  string
	}{
		"gone": {metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "x", UID: "x"}, `found no controllers for pod "p"`},
		"without a scale": {metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: "x", UID: "x"},
			"jobs.batch does not implement the scale subresource"},
		"unknown": {metav1.OwnerReference{APIVersion: "e.x/v1", Kind: "Thing", Name: "x", UID: "x"},
			`no matches for kind "Thing" in version "e.x/v1"`},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuarded(t, 0, atMost(intstr.FromInt32(1)))
			tt.owner.Controller = new(true)
			g.create("Pod", &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Name: "p", Labels: map[string]string{"app": "web"}, OwnerReferences: []metav1.OwnerReference{tt.owner},
				},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
			})
			g.run(200)
			if got := g.status(); !strings.HasSuffix(got, "DisruptionAllowed False SyncFailed: "+tt.want) {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// TestScaleOfAnother asks the server for the scale of a controller that it has no informer on.
func TestScaleOfAnother(t *testing.T) {
	g := newGuarded(t, 0, atMost(intstr.FromInt32(1)))
	deployment := &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "d", Controller: new(true)}
	set := newSet(4)
	owner := g.must(g.target("Deployment", "d").create(deploymentOf("d", 4)))
	deployment.UID = owner.GetUID()
	g.create("Pod", &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "p", Labels: set.Spec.Template.Labels, OwnerReferences: []metav1.OwnerReference{*deployment},
		},
		Spec: set.Spec.Template.Spec,
	})
	g.settle()
	const want = "0 allowed, 1/3 healthy of 4, 0 disrupted, generation 1, DisruptionAllowed False InsufficientPods"
	if got := g.status(); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	reads := 0
	for _, call := range g.calls {
		if call == fmt.Sprintf("disruption %s Deployment/scale d -> 200", schedule.Get) {
			reads++
		}
	}
	if reads == 0 {
		t.Error("the scale was not read")
	}
}

func deploymentOf(name string, replicas int32) *appsv1.Deployment {
	set := newSet(replicas)
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Spec: appsv1.DeploymentSpec{
		Replicas: &replicas, Selector: set.Spec.Selector, Template: set.Spec.Template,
	}}
}
