package racer

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/apiserver/crd"
)

const scalableDefinition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shops.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Shop, listKind: ShopList, plural: shops, singular: shop}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {replicas: {type: integer}}}
          status: {type: object, properties: {replicas: {type: integer}}}
`

// scaled is a cluster with a target "web" of some kind, and an autoscaler.
type scaled struct {
	*driver
	kindName   string
	autoscaler *HorizontalPodAutoscaler
}

// newScaled makes the target with two replicas; the autoscaler has an object if it is given bounds.
func newScaled(t *testing.T, kind string, bounds [2]int32, recommends ...Recommendation) *scaled {
	s := &scaled{driver: newDriver(t, apiserver.V136), kindName: kind}
	kinds := apiserver.NewKinds(apiserver.V136)
	definitions, err := crd.Load([]byte(scalableDefinition))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kinds.AddCRD(definitions[0]); err != nil {
		t.Fatal(err)
	}
	s.server = apiserver.NewServer(kinds, func() time.Time { return s.now })
	options := HorizontalPodAutoscalerOptions{Namespace: "default", Recommends: recommends}
	apiVersion := "apps/v1"
	switch replicas := int32(2); kind {
	case "StatefulSet":
		s.create(kind, newSet(replicas))
	case "Deployment":
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
		set := newSet(replicas)
		d.Spec.Replicas, d.Spec.Selector, d.Spec.Template = &replicas, set.Spec.Selector, set.Spec.Template
		s.create(kind, d)
	default:
		apiVersion = "example.com/v1"
		s.create(kind, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": "web"},
			"spec": map[string]any{"replicas": int64(replicas)},
		}})
	}
	if bounds == [2]int32{} {
		options.Target = ScaleTarget{Kind: kind, Name: "web"}
	} else {
		options.Name = "web"
		hpa := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
		hpa.Spec.MinReplicas, hpa.Spec.MaxReplicas = &bounds[0], bounds[1]
		hpa.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: apiVersion, Kind: kind, Name: "web"}
		s.create("HorizontalPodAutoscaler", hpa)
	}
	s.autoscaler = NewHorizontalPodAutoscaler(options)
	s.start("hpa", s.autoscaler)
	s.calls = nil
	return s
}

func (s *scaled) replicas() int32 {
	replicas, _, _ := s.kind(s.kindName).Scale.Read(s.get(s.kindName, "web"))
	return replicas
}

// history runs for a while after the script has begun, and says when the number of replicas changed.
func (s *scaled) history(for_ time.Duration) string {
	s.autoscaler.ScriptBegins()
	begun, last := s.now, s.replicas()
	changes := []string{fmt.Sprint(last)}
	for s.now.Sub(begun) < for_ && s.step() {
		if n := s.replicas(); n != last {
			last = n
			changes = append(changes, fmt.Sprintf("%v %d", s.now.Sub(begun).Round(time.Second), n))
		}
	}
	return strings.Join(changes, ", ")
}

func TestHorizontalPodAutoscaler(t *testing.T) {
	at := func(at time.Duration, replicas int32) Recommendation {
		return Recommendation{At: at, Replicas: replicas}
	}
	for name, tt := range map[string]struct {
		bounds     [2]int32
		recommends []Recommendation
		want       string
	}{
		"nothing to do":        {bounds: [2]int32{1, 10}, want: "2"},
		"too few":              {bounds: [2]int32{3, 10}, want: "2, 15s 3"},
		"up":                   {[2]int32{1, 10}, []Recommendation{at(time.Minute, 3)}, "2, 1m0s 3"},
		"up in steps":          {[2]int32{1, 100}, []Recommendation{at(0, 20)}, "2, 0s 4, 15s 8, 30s 16, 45s 20"},
		"up to the bound":      {[2]int32{1, 3}, []Recommendation{at(0, 20)}, "2, 0s 3"},
		"down after a while":   {[2]int32{1, 10}, []Recommendation{at(0, 1)}, "2, 5m0s 1"},
		"down to the bound":    {[2]int32{2, 10}, []Recommendation{at(0, 3), at(time.Minute, 1)}, "2, 0s 3, 5m45s 2"},
		"no object":            {[2]int32{}, []Recommendation{at(0, 20), at(time.Minute, 0)}, "2, 0s 20, 1m0s 0"},
		"there and back again": {[2]int32{1, 10}, []Recommendation{at(0, 4), at(time.Minute, 2), at(2*time.Minute, 4)}, "2, 0s 4"},
	} {
		for _, kind := range []string{"StatefulSet", "Deployment", "Shop"} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				if got := newScaled(t, kind, tt.bounds, tt.recommends...).history(time.Hour); got != tt.want {
					t.Errorf("%s, want %s", got, tt.want)
				}
			})
		}
	}
}

// TestAutoscalerCalls is what is written when there is something to do, and when there is not.
func TestAutoscalerCalls(t *testing.T) {
	s := newScaled(t, "StatefulSet", [2]int32{1, 10}, Recommendation{Replicas: 3})
	s.history(time.Minute)
	var calls []string
	for _, call := range s.calls {
		calls = append(calls, strings.TrimPrefix(call, "hpa "))
	}
	want := []string{
		"Get StatefulSet/scale web -> 200", "Update StatefulSet/scale web -> 200", "Update HorizontalPodAutoscaler/status web -> 200",
		"Get StatefulSet/scale web -> 200", "Update HorizontalPodAutoscaler/status web -> 200",
		"Get StatefulSet/scale web -> 200",
	}
	if diff := cmp.Diff(want, calls[:min(len(want), len(calls))]); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	status := s.get("HorizontalPodAutoscaler", "web").(*autoscalingv2.HorizontalPodAutoscaler).Status
	if status.CurrentReplicas != 3 || status.DesiredReplicas != 3 || status.LastScaleTime == nil {
		t.Errorf("status %s", encode(t, status))
	}
	for kind, reason := range map[autoscalingv2.HorizontalPodAutoscalerConditionType]string{
		"AbleToScale": "ReadyForNewScale", "ScalingActive": "ValidMetricFound", "ScalingLimited": "DesiredWithinRange",
	} {
		found := false
		for _, c := range status.Conditions {
			found = found || c.Type == kind && c.Reason == reason
		}
		if !found {
			t.Errorf("no %s %s in %s", kind, reason, encode(t, status.Conditions))
		}
	}
}

// TestAutoscalerRaces has another one who writes the target between the autoscaler's read and its write: it tries again.
func TestAutoscalerRaces(t *testing.T) {
	s := newScaled(t, "StatefulSet", [2]int32{1, 10}, Recommendation{Replicas: 4})
	raced := 0
	s.refuse = func(actor string, r *apiserver.Request) *apiserver.Response {
		if actor == "hpa" && r.Verb == "Update" && r.Subresource == "scale" && raced < 3 {
			raced++
			s.patch("StatefulSet", "web", fmt.Sprintf(`{"metadata":{"annotations":{"n":"%d"}}}`, raced))
		}
		return nil
	}
	if got := s.history(20 * time.Second); got != "2, 0s 4" {
		t.Error(got)
	}
	if raced != 3 {
		t.Errorf("raced %d times", raced)
	}
}

// TestAutoscalerWithoutTarget says so in the status, and goes on when there is one.
func TestAutoscalerWithoutTarget(t *testing.T) {
	s := newScaled(t, "StatefulSet", [2]int32{3, 10})
	s.delete("StatefulSet", "web", "")
	for range 20 {
		s.step()
	}
	hpa := s.get("HorizontalPodAutoscaler", "web").(*autoscalingv2.HorizontalPodAutoscaler)
	if c := hpa.Status.Conditions; len(c) != 1 || c[0].Status != corev1.ConditionFalse || c[0].Reason != "FailedGetScale" {
		t.Errorf("conditions %s", encode(t, c))
	}
	s.create("StatefulSet", newSet(2))
	if got := s.history(time.Minute); got != "2, 15s 3" {
		t.Error(got)
	}
}

// TestAutoscalerAnyOrder plays with a StatefulSet controller and kubelets: the set has the recommended size in the end.
func TestAutoscalerAnyOrder(t *testing.T) {
	for seed := range uint64(20) {
		s := newScaled(t, "StatefulSet", [2]int32{1, 5}, Recommendation{Replicas: 4}, Recommendation{At: time.Minute, Replicas: 3})
		s.start("kcm", NewStatefulSetController(StatefulSetControllerOptions{Version: apiserver.V136}))
		s.start("kubelet", NewKubelet(KubeletOptions{Binds: true}))
		if seed > 0 {
			s.random = rand.New(rand.NewPCG(seed, 0))
		}
		s.autoscaler.ScriptBegins()
		s.settle()
		hpa := s.get("HorizontalPodAutoscaler", "web").(*autoscalingv2.HorizontalPodAutoscaler)
		if set := s.get("StatefulSet", "web").(*appsv1.StatefulSet); set.Status.ReadyReplicas != 3 || s.replicas() != 3 ||
			hpa.Status.DesiredReplicas != 3 {
			t.Errorf("seed %d: %d of %d ready, %d desired", seed, set.Status.ReadyReplicas, s.replicas(), hpa.Status.DesiredReplicas)
		}
	}
}
