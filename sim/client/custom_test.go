package client_test

import (
	"context"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/client"
)

var gadgetKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}

// Gadget is a custom resource, as an operator's api package has it.
type Gadget struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   GadgetSpec   `json:"spec,omitempty"`
	Status GadgetStatus `json:"status,omitempty"`
}

// GadgetSpec is what is wanted.
type GadgetSpec struct {
	Sizes map[string]int `json:"sizes,omitempty"`
}

// GadgetStatus is what there is.
type GadgetStatus struct {
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Conditions         []metav1.Condition `json:"conditions,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (g *Gadget) DeepCopyObject() runtime.Object {
	clone := *g
	g.ObjectMeta.DeepCopyInto(&clone.ObjectMeta)
	clone.Spec.Sizes = maps.Clone(g.Spec.Sizes)
	clone.Status.Conditions = append([]metav1.Condition(nil), g.Status.Conditions...)
	return &clone
}

// GadgetList is a list of them.
type GadgetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Gadget `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (l *GadgetList) DeepCopyObject() runtime.Object {
	clone := *l
	clone.Items = make([]Gadget, len(l.Items))
	for i := range l.Items {
		clone.Items[i] = *l.Items[i].DeepCopyObject().(*Gadget)
	}
	return &clone
}

// newGadgets makes a scenario that knows Gadgets.
func newGadgets(t *testing.T, setup func(ctrl.Manager) error, given ...apiserver.Object) *sim.Config {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	scheme.AddKnownTypeWithName(gadgetKind, &Gadget{})
	scheme.AddKnownTypeWithName(gadgetKind.GroupVersion().WithKind("GadgetList"), &GadgetList{})
	metav1.AddToGroupVersion(scheme, gadgetKind.GroupVersion())
	kinds := apiserver.NewKinds(apiserver.V136)
	if _, err := kinds.AddType(gadgetKind, "gadgets", true, true); err != nil {
		t.Fatal(err)
	}
	return &sim.Config{
		Name: "gadgets", Kinds: kinds, Scheme: scheme, Unsettled: true, Given: given,
		Processes: []sim.Process{{Name: "operator", Program: client.Manager(scheme, setup)}},
	}
}

// gadgetReconciler brings a Gadget to its size and says so in its status.
func gadgetReconciler(m ctrl.Manager, d *diary) reconcile.Func {
	c := m.GetClient()
	return func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
		gadget := &Gadget{}
		if err := c.Get(ctx, request.NamespacedName, gadget); err != nil {
			return ctrl.Result{}, ctrlclient.IgnoreNotFound(err)
		}
		d.write("%s %s: generation %d, observed %d, size %d", gadget.Kind, gadget.Name, gadget.Generation,
			gadget.Status.ObservedGeneration, gadget.Spec.Sizes["x"])
		if gadget.Spec.Sizes["x"] < 2 {
			base := gadget.DeepCopyObject().(*Gadget)
			gadget.Spec.Sizes["x"]++
			gadget.Status.ObservedGeneration = 99 // the main resource ignores it
			return ctrl.Result{}, c.Patch(ctx, gadget, ctrlclient.MergeFromWithOptions(base, ctrlclient.MergeFromWithOptimisticLock{}))
		}
		gadget.Status.ObservedGeneration = gadget.Generation
		ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Done", LastTransitionTime: metav1.Now()}
		gadget.Status.Conditions = []metav1.Condition{ready}
		return ctrl.Result{}, c.Status().Update(ctx, gadget)
	}
}

// TestCustomResources checks a custom resource, which the server stores unstructured, in the forms a program has it in.
func TestCustomResources(t *testing.T) {
	expect(t, sim.Plan{}, func(d *diary) *sim.Config {
		gadget := &Gadget{Spec: GadgetSpec{Sizes: map[string]int{"x": 1}}}
		gadget.Namespace, gadget.Name = "default", "g"
		gadget.SetGroupVersionKind(gadgetKind)
		return newGadgets(t, func(m ctrl.Manager) error {
			err := script(m, func(ctx context.Context, c ctrlclient.Client) error {
				list, untyped := &GadgetList{}, &unstructured.Unstructured{}
				if err := c.List(ctx, list); err != nil {
					return err
				}
				d.write("list: %d, %s", len(list.Items), list.Items[0].Status.Conditions[0].Type)
				untyped.SetGroupVersionKind(gadgetKind)
				if err := c.Get(ctx, key("g"), untyped); err != nil {
					return err
				}
				size, _, err := unstructured.NestedInt64(untyped.Object, "spec", "sizes", "x")
				d.write("unstructured: %d", size)
				return err
			})
			if err != nil {
				return err
			}
			return ctrl.NewControllerManagedBy(m).For(&Gadget{}, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
				Complete(gadgetReconciler(m, d))
		}, gadget)
	}, "Gadget g: generation 1, observed 0, size 1", "Gadget g: generation 2, observed 0, size 2",
		"list: 1, Ready", "unstructured: 2")
}

// TestUnknownKind checks that a controller of a kind the scenario does not have is an error that names the kind.
func TestUnknownKind(t *testing.T) {
	world, err := sim.NewWorld(newConfig(func(m ctrl.Manager) error {
		return ctrl.NewControllerManagedBy(m).For(&flowcontrolv1.FlowSchema{}).Complete(nothing(&diary{}))
	}))
	if err != nil {
		t.Fatal(err)
	}
	const want = `no matches for kind "FlowSchema" in version "flowcontrol.apiserver.k8s.io/v1"`
	if _, err = world.Run(sim.Plan{}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error is %v, want one that names the kind", err)
	}
}
