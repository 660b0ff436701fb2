package client_test

import (
	"context"
	"os"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/apiserver/crd"
)

// TestCustomScale scales a custom resource through a client.
func TestCustomScale(t *testing.T) {
	text, err := os.ReadFile("../apiserver/testdata/gauges.yaml")
	if err != nil {
		t.Fatal(err)
	}
	definitions, err := crd.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	gauge := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(2)}}}
	gauge.SetGroupVersionKind(definitions[0].GroupVersionKind)
	gauge.SetNamespace("default")
	gauge.SetName("g")
	expect(t, sim.Plan{}, func(d *diary) *sim.Config {
		config := newConfig(func(m ctrl.Manager) error {
			return script(m, func(ctx context.Context, c ctrlclient.Client) error { return scaleGauge(ctx, c, gauge.DeepCopy(), d) })
		}, gauge)
		config.Kinds = apiserver.NewKinds(apiserver.V136)
		if _, err := config.Kinds.AddCRD(definitions[0]); err != nil {
			t.Fatal(err)
		}
		return config
	}, "there are 2", "updated: 4", "patched: 5", "the object has 5, in the other version 5")
}

func scaleGauge(ctx context.Context, c ctrlclient.Client, gauge *unstructured.Unstructured, d *diary) error {
	scale := &unstructured.Unstructured{}
	scale.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
	if err := c.SubResource("scale").Get(ctx, gauge, scale); err != nil {
		return err
	}
	d.write("there are %d", spec(scale))
	scale.Object["spec"] = map[string]any{"replicas": int64(4)}
	if err := c.SubResource("scale").Update(ctx, gauge, ctrlclient.WithSubResourceBody(scale)); err != nil {
		return err
	}
	d.write("updated: %d", spec(scale))
	patch := ctrlclient.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":5}}`))
	if err := c.SubResource("scale").Patch(ctx, gauge, patch, ctrlclient.WithSubResourceBody(scale)); err != nil {
		return err
	}
	d.write("patched: %d", spec(scale))
	older := &unstructured.Unstructured{}
	older.SetAPIVersion("example.com/v1beta1")
	older.SetKind("Gauge")
	for _, obj := range []*unstructured.Unstructured{gauge, older} {
		if err := c.Get(ctx, key("g"), obj); err != nil {
			return err
		}
	}
	d.write("the object has %d, in the other version %d", spec(gauge), spec(older))
	return nil
}

func spec(obj *unstructured.Unstructured) int64 {
	replicas, _, _ := unstructured.NestedInt64(obj.Object, "spec", "replicas")
	return replicas
}
