package client_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	appsv1apply "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1apply "k8s.io/client-go/applyconfigurations/core/v1"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim"
)

// ownersOf returns who owns something of an object.
func ownersOf(obj ctrlclient.Object) string {
	var names []string
	for _, e := range obj.GetManagedFields() {
		names = append(names, strings.TrimSuffix(fmt.Sprintf("%s %s/%s", e.Manager, e.Operation, e.Subresource), "/"))
	}
	return strings.Join(names, ", ")
}

// TestApply applies typed configurations, unstructured ones, and objects in the way that is deprecated.
func TestApply(t *testing.T) {
	const one, two = ctrlclient.FieldOwner("one"), ctrlclient.FieldOwner("two")
	config := func(data map[string]string) *corev1apply.ConfigMapApplyConfiguration {
		return corev1apply.ConfigMap("x", "default").WithData(data)
	}
	tests := []struct {
		name  string
		apply func(context.Context, ctrlclient.Client) error
		want  string // the error, the data of ConfigMap x, and who owns it
	}{
		{"typed", func(ctx context.Context, c ctrlclient.Client) error {
			return c.Apply(ctx, config(map[string]string{"k": "1"}), one)
		}, "<nil> map[k:1] one Apply"},
		{"conflict", func(ctx context.Context, c ctrlclient.Client) error {
			return c.Apply(ctx, config(map[string]string{"k": "2"}), two)
		}, `Apply failed with 1 conflict: conflict with "one": .data.k map[k:1] one Apply`},
		{"by force", func(ctx context.Context, c ctrlclient.Client) error {
			return c.Apply(ctx, config(map[string]string{"k": "2"}), two, ctrlclient.ForceOwnership)
		}, "<nil> map[k:2] two Apply"},
		{"dry run", func(ctx context.Context, c ctrlclient.Client) error {
			return c.Apply(ctx, config(map[string]string{"l": "2"}), two, ctrlclient.DryRunAll)
		}, "<nil> map[k:2] two Apply"},
		{"unstructured", func(ctx context.Context, c ctrlclient.Client) error {
			u := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "x", "namespace": "default"},
				"data": map[string]any{"l": "1"},
			}}
			return c.Apply(ctx, ctrlclient.ApplyConfigurationFromUnstructured(u), one)
		}, "<nil> map[k:2 l:1] one Apply, two Apply"},
		{"a patch", func(ctx context.Context, c ctrlclient.Client) error {
			cm := &corev1.ConfigMap{TypeMeta: configMapsKind, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}}
			cm.Data = map[string]string{"k": "3"}
			return c.Patch(ctx, cm, ctrlclient.Apply, one, ctrlclient.ForceOwnership)
		}, "<nil> map[k:3] one Apply"},
		{"an update", func(ctx context.Context, c ctrlclient.Client) error {
			cm := &corev1.ConfigMap{}
			if err := c.Get(ctx, key("x"), cm); err != nil {
				return err
			}
			cm.Data["k"] = "4"
			return c.Update(ctx, cm)
		}, "<nil> map[k:4] operator Update"},
		{"nobody", func(ctx context.Context, c ctrlclient.Client) error {
			return c.Apply(ctx, config(map[string]string{"k": "2"}))
		}, `PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch map[k:4] operator Update`},
	}
	var want []string
	for _, test := range tests {
		want = append(want, test.name+": "+test.want)
	}
	expect(t, sim.Plan{}, writing(func(ctx context.Context, c ctrlclient.Client, d *diary) error {
		for _, test := range tests {
			err := test.apply(ctx, c)
			cm := &unstructured.Unstructured{}
			cm.SetAPIVersion("v1")
			cm.SetKind("ConfigMap")
			if err := c.Get(ctx, key("x"), cm); err != nil { // read from the server
				return err
			}
			d.write("%s: %v %v %s", test.name, err, cm.Object["data"], ownersOf(cm))
		}
		return nil
	}), want...)
}

// TestApplyAnswer checks that the configuration is filled with the answer.
func TestApplyAnswer(t *testing.T) {
	expect(t, sim.Plan{}, writing(func(ctx context.Context, c ctrlclient.Client, d *diary) error {
		config := corev1apply.ConfigMap("x", "default").WithData(map[string]string{"k": "1"})
		if err := c.Apply(ctx, config, ctrlclient.FieldOwner("one")); err != nil {
			return err
		}
		d.write("%v %v", config.UID != nil, config.ResourceVersion != nil)
		again := corev1apply.ConfigMap("x", "default").WithData(map[string]string{"k": "2"}).WithUID("of another")
		err := c.Apply(ctx, again, ctrlclient.FieldOwner("one"))
		d.write("%v %v", apierrors.IsInvalid(err), err)
		return nil
	}), "true true", `true ConfigMap "x" is invalid: metadata.uid: Invalid value: "of another": field is immutable`)
}

// TestApplyStatus applies to the status of an object.
func TestApplyStatus(t *testing.T) {
	expect(t, sim.Plan{}, writing(func(ctx context.Context, c ctrlclient.Client, d *diary) error {
		set := statefulSet("s")
		if err := c.Create(ctx, set, ctrlclient.FieldOwner("one")); err != nil {
			return err
		}
		config := appsv1apply.StatefulSet("s", "default").WithStatus(appsv1apply.StatefulSetStatus().WithReplicas(2))
		if err := c.Status().Apply(ctx, config, ctrlclient.FieldOwner("one")); err != nil {
			return err
		}
		d.write("%d %v", *config.Status.Replicas, config.ResourceVersion != nil)
		if err := c.Get(ctx, key("s"), set); err != nil {
			return err
		}
		err := c.Status().Patch(ctx, set, ctrlclient.Apply, ctrlclient.FieldOwner("two"))
		d.write("%v", err)
		return nil
	}), "2 true", `metadata.managedFields must be nil`)
}
