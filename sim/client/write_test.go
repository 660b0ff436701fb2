package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// writing is a scenario of one pass over ConfigMap a that does something with the manager's client.
func writing(f func(ctx context.Context, c ctrlclient.Client, d *diary) error, given ...apiserver.Object) func(*diary) *sim.Config {
	return onceWith(func(ctx context.Context, m ctrl.Manager, d *diary) error {
		return f(ctx, m.GetClient(), d)
	}, append([]apiserver.Object{configMap("a", "n=1")}, given...)...)
}

// TestWriteErrors checks the errors of writes, also of those that client-go sends nowhere.
func TestWriteErrors(t *testing.T) {
	metadata := &metav1.PartialObjectMetadata{TypeMeta: configMapsKind, ObjectMeta: configMap("a").ObjectMeta}
	stale := configMap("a")
	stale.ResourceVersion = "1"
	nowhere := configMap("x")
	nowhere.Namespace = ""
	const onlyMetadata = "using only metadata -- did you mean to patch?"
	tests := []struct {
		name  string
		write func(context.Context, ctrlclient.Client) error
		want  string
	}{
		{"create again", func(ctx context.Context, c ctrlclient.Client) error { return c.Create(ctx, configMap("a")) },
			`configmaps "a" already exists`},
		{"update of nothing", func(ctx context.Context, c ctrlclient.Client) error { return c.Update(ctx, configMap("x")) },
			`configmaps "x" not found`},
		{"stale update", func(ctx context.Context, c ctrlclient.Client) error { return c.Update(ctx, stale.DeepCopy()) },
			`Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply your changes to the ` +
				`latest version and try again`},
		{"delete of nothing", func(ctx context.Context, c ctrlclient.Client) error { return c.Delete(ctx, configMap("x")) },
			`configmaps "x" not found`},
		{"create without a namespace", func(ctx context.Context, c ctrlclient.Client) error {
			return c.Create(ctx, nowhere.DeepCopy())
		}, "an empty namespace may not be set during creation"},
		{"update without a namespace", func(ctx context.Context, c ctrlclient.Client) error {
			return c.Update(ctx, nowhere.DeepCopy())
		}, "an empty namespace may not be set when a resource name is provided"},
		{"delete without a name", func(ctx context.Context, c ctrlclient.Client) error { return c.Delete(ctx, configMap("")) },
			"resource name may not be empty"},
		{"delete in all namespaces", func(ctx context.Context, c ctrlclient.Client) error {
			return c.DeleteAllOf(ctx, &corev1.ConfigMap{})
		}, "the server does not allow this method on the requested resource"},
		{"create metadata", func(ctx context.Context, c ctrlclient.Client) error { return c.Create(ctx, metadata.DeepCopy()) },
			"cannot create using only metadata"},
		{"update metadata", func(ctx context.Context, c ctrlclient.Client) error { return c.Update(ctx, metadata.DeepCopy()) },
			"cannot update " + onlyMetadata},
		{"update status of metadata", func(ctx context.Context, c ctrlclient.Client) error {
			return c.Status().Update(ctx, metadata.DeepCopy())
		}, "cannot update status " + onlyMetadata},
		{"no status", func(ctx context.Context, c ctrlclient.Client) error { return c.Status().Update(ctx, configMap("a")) },
			"the server could not find the requested resource"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect(t, sim.Plan{}, writing(func(ctx context.Context, c ctrlclient.Client, d *diary) error {
				d.write("%v", test.write(ctx, c))
				return nil
			}), test.want)
		})
	}
}

// TestPatches checks the kinds of patches a client can make.
func TestPatches(t *testing.T) {
	base := func(ctx context.Context, c ctrlclient.Client) (*corev1.ConfigMap, error) {
		cm := &corev1.ConfigMap{}
		return cm, c.Get(ctx, key("a"), cm)
	}
	tests := []struct {
		name  string
		patch func(read *corev1.ConfigMap) ctrlclient.Patch
		want  string // the data of the object after somebody else has set m=1, and we n=2
	}{
		{"merge", func(read *corev1.ConfigMap) ctrlclient.Patch { return ctrlclient.MergeFrom(read) },
			`<nil> {"m":"1","n":"2"}`},
		{"strategic merge", func(read *corev1.ConfigMap) ctrlclient.Patch { return ctrlclient.StrategicMergeFrom(read) },
			`<nil> {"m":"1","n":"2"}`},
		{"merge with lock", func(read *corev1.ConfigMap) ctrlclient.Patch {
			return ctrlclient.MergeFromWithOptions(read, ctrlclient.MergeFromWithOptimisticLock{})
		}, `Conflict {"n":"2"}`},
		{"json", func(*corev1.ConfigMap) ctrlclient.Patch {
			return ctrlclient.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/data/n","value":"2"}]`))
		}, `<nil> {"m":"1","n":"2"}`},
		{"raw merge", func(*corev1.ConfigMap) ctrlclient.Patch {
			return ctrlclient.RawPatch(types.MergePatchType, []byte(`{"data":{"n":null}}`))
		}, `<nil> {"m":"1"}`},
		{"json test fails", func(*corev1.ConfigMap) ctrlclient.Patch {
			return ctrlclient.RawPatch(types.JSONPatchType, []byte(`[{"op":"test","path":"/data/n","value":"9"}]`))
		}, `Invalid {"n":"2"}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			expect(t, sim.Plan{}, writing(func(ctx context.Context, c ctrlclient.Client, d *diary) error {
				cm, err := base(ctx, c)
				if err != nil {
					return err
				}
				patch := test.patch(cm.DeepCopy())
				other := cm.DeepCopy()
				other.Data["m"] = "1"
				if err := c.Update(ctx, other); err != nil {
					return err
				}
				cm.Data["n"] = "2"
				cm.TypeMeta = configMapsKind
				err = c.Patch(ctx, cm, patch)
				data, _ := json.Marshal(cm.Data)
				reason := "<nil>"
				if err != nil {
					reason = string(apierrors.ReasonForError(err))
				}
				d.write("%s %s", reason, data)
				if cm.TypeMeta != configMapsKind {
					d.write("type is %v", cm.TypeMeta)
				}
				return nil
			}), test.want)
		})
	}
}

// TestTypeMeta checks when a typed object keeps its apiVersion and kind: answers have none, and controller-runtime puts back
// what was there, but not after a Create or a Get.
func TestTypeMeta(t *testing.T) {
	expect(t, sim.Plan{}, writing(func(ctx context.Context, c ctrlclient.Client, d *diary) error {
		cm := configMap("x")
		steps := []struct {
			name string
			do   func() error
		}{
			{"create", func() error { return c.Create(ctx, cm) }},
			{"update", func() error { cm.Data = map[string]string{"n": "1"}; return c.Update(ctx, cm) }},
			{"patch", func() error { return c.Patch(ctx, cm, ctrlclient.RawPatch(types.MergePatchType, []byte(`{}`))) }},
			{"cached get", func() error { return c.Get(ctx, key("x"), cm) }},
		}
		for _, step := range steps {
			cm.TypeMeta = configMapsKind
			if err := step.do(); err != nil {
				return err
			}
			d.write("%s: %q", step.name, cm.Kind)
		}
		return nil
	}), `create: ""`, `update: "ConfigMap"`, `patch: "ConfigMap"`, `cached get: "ConfigMap"`)
}

// TestSubresources checks status and scale.
func TestSubresources(t *testing.T) {
	h := expect(t, sim.Plan{}, writing(func(ctx context.Context, c ctrlclient.Client, d *diary) error {
		set := statefulSet("web")
		if err := c.Get(ctx, key("web"), set); err != nil {
			return err
		}
		set.Status.Replicas, set.Spec.Replicas = 1, new(int32(9))
		if err := c.Status().Update(ctx, set); err != nil {
			return err
		}
		d.write("status: %d replicas, spec: %d", set.Status.Replicas, *set.Spec.Replicas)
		base := set.DeepCopy()
		set.Status.ReadyReplicas = 1
		if err := c.Status().Patch(ctx, set, ctrlclient.MergeFrom(base)); err != nil {
			return err
		}
		d.write("status: %d ready", set.Status.ReadyReplicas)

		scale := &autoscalingv1.Scale{}
		if err := c.SubResource("scale").Get(ctx, set, scale); err != nil {
			return err
		}
		d.write("scale %s: %d of %d, %s", scale.Name, scale.Status.Replicas, scale.Spec.Replicas, scale.Status.Selector)
		wanted := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 3}}
		if err := c.SubResource("scale").Update(ctx, set, ctrlclient.WithSubResourceBody(wanted)); err != nil {
			return err
		}
		d.write("scale %s/%s: %d", wanted.Namespace, wanted.Name, wanted.Spec.Replicas)
		patch := ctrlclient.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":4}}`))
		if err := c.SubResource("scale").Patch(ctx, set, patch, ctrlclient.WithSubResourceBody(scale)); err != nil {
			return err
		}
		d.write("scale: %d", scale.Spec.Replicas)

		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
		binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: "node"}}
		if err := c.SubResource("binding").Create(ctx, pod, binding); err != nil {
			return err
		}
		err := c.Get(ctx, key("p"), pod)
		d.write("%s is bound to %s", binding.Name, pod.Spec.NodeName)
		return err
	}, statefulSet("web"), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "main"}}}}),
		"status: 1 replicas, spec: 1", "status: 1 ready", "scale web: 1 of 1, app=web", "scale default/web: 3", "scale: 4",
		"p is bound to node")
	want := "Update StatefulSet/status default/web"
	if calls := called(h, schedule.Update); len(calls) != 2 || calls[0] != want {
		t.Errorf("updates are %q, want the first to be %q", calls, want)
	}
}

// TestControllerUtil checks the helpers that read, change and write.
func TestControllerUtil(t *testing.T) {
	expect(t, sim.Plan{}, writing(func(ctx context.Context, c ctrlclient.Client, d *diary) error {
		for _, value := range []string{"1", "1", "2"} {
			cm := configMap("x")
			result, err := controllerutil.CreateOrUpdate(ctx, c, cm, func() error { cm.Data = map[string]string{"n": value}; return nil })
			if err != nil {
				return err
			}
			d.write("update: %s", result)
		}
		owner := &corev1.ConfigMap{}
		if err := c.Get(ctx, key("a"), owner); err != nil {
			return err
		}
		for _, replicas := range []int32{0, 1, 1} {
			set := statefulSet("web")
			result, err := controllerutil.CreateOrPatch(ctx, c, set, func() error {
				set.Status.Replicas = replicas
				return controllerutil.SetControllerReference(owner, set, scheme)
			})
			if err != nil {
				return err
			}
			d.write("patch: %s", result)
		}
		cm := configMap("x")
		if err := c.Get(ctx, key("x"), cm); err != nil {
			return err
		}
		if controllerutil.AddFinalizer(cm, "example.com/f") {
			if err := c.Update(ctx, cm); err != nil {
				return err
			}
		}
		err := errors.Join(c.Delete(ctx, cm, ctrlclient.Preconditions{UID: &cm.UID}), c.Get(ctx, key("x"), cm))
		d.write("deleting: %v", !cm.DeletionTimestamp.IsZero())
		return err
	}), "update: created", "update: unchanged", "update: updated", "patch: created", "patch: updatedStatusOnly",
		"patch: unchanged", "deleting: true")
}

// TestDeleteAllOf checks what is chosen.
func TestDeleteAllOf(t *testing.T) {
	expect(t, sim.Plan{}, writing(func(ctx context.Context, c ctrlclient.Client, d *diary) error {
		metadata := &metav1.PartialObjectMetadata{TypeMeta: configMapsKind}
		err := errors.Join(
			c.DeleteAllOf(ctx, &corev1.ConfigMap{}, ctrlclient.InNamespace("default"), ctrlclient.MatchingLabels{"l": "1"}),
			c.DeleteAllOf(ctx, metadata, ctrlclient.InNamespace("default"), ctrlclient.MatchingFields{"metadata.name": "d"}))
		if err != nil {
			return err
		}
		list := &corev1.ConfigMapList{}
		err = c.List(ctx, list)
		for _, item := range list.Items {
			d.write("%s", item.Name)
		}
		return err
	}, configMap("b", ":l=1"), configMap("c", ":l=1"), configMap("d"), configMap("e")), "a", "e")
}

// TestUntyped checks writes of unstructured and metadata-only objects.
func TestUntyped(t *testing.T) {
	expect(t, sim.Plan{}, writing(func(ctx context.Context, c ctrlclient.Client, d *diary) error {
		untyped := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "default", "name": "x"},
			"data": map[string]any{"n": "1"},
		}}
		if err := c.Create(ctx, untyped); err != nil {
			return err
		}
		base := untyped.DeepCopy()
		if err := unstructured.SetNestedField(untyped.Object, "2", "data", "n"); err != nil {
			return err
		}
		if err := c.Patch(ctx, untyped, ctrlclient.MergeFrom(base)); err != nil {
			return err
		}
		metadata := &metav1.PartialObjectMetadata{TypeMeta: configMapsKind, ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}}
		patch := ctrlclient.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"l":"1"}}}`))
		if err := c.Patch(ctx, metadata, patch); err != nil {
			return err
		}
		d.write("%s %s %v", metadata.Kind, metadata.Name, metadata.Labels)
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(configMapsKind.GroupVersionKind())
		if err := c.List(ctx, list, ctrlclient.MatchingLabels{"l": "1"}); err != nil {
			return err
		}
		d.write("%s of %d: %v", list.GetKind(), len(list.Items), list.Items[0].Object["data"])
		return c.Delete(ctx, metadata)
	}), "ConfigMap x map[l:1]", "ConfigMapList of 1: map[n:2]")
}

// TestGoValuesInTrees checks that a tree with values which no decoder makes of JSON is written as a client would send it.
func TestGoValuesInTrees(t *testing.T) {
	expect(t, sim.Plan{}, writing(func(ctx context.Context, c ctrlclient.Client, d *diary) error {
		metadata := map[string]any{"namespace": "default", "name": "tree", "labels": map[string]string{"a": "b"}}
		tree := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Event", "metadata": metadata, "count": 3,
			"involvedObject": map[string]any{"kind": "ConfigMap", "name": "a", "namespace": "default"},
		}}
		if err := c.Create(ctx, tree); err != nil {
			return err
		}
		d.write("%v %v", tree.GetLabels(), tree.Object["count"])
		return nil
	}), "map[a:b] 3")
}
