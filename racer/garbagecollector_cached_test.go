package racer

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

var widgetKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

// newCustom is a cluster with the kind Widget, in which only the garbage collector runs.
func newCustom(t *testing.T) *collected {
	t.Helper()
	d := newDriver(t, apiserver.V136)
	if _, err := d.server.Kinds().AddType(widgetKind, "widgets", true, true); err != nil {
		t.Fatal(err)
	}
	return &collected{driver: d, env: d.start("gc", NewGarbageCollector(GarbageCollectorOptions{}))}
}

func (c *collected) widget(name string, owners ...metav1.OwnerReference) apiserver.Object {
	c.t.Helper()
	obj := &unstructured.Unstructured{}
	obj.SetGroupVersionKind(widgetKind)
	obj.SetName(name)
	obj.SetOwnerReferences(owners)
	return c.create("Widget", obj)
}

func (c *collected) callsOf(prefix string) []string {
	return slices.DeleteFunc(slices.Clone(c.calls), func(call string) bool { return !strings.HasPrefix(call, prefix) })
}

// TestMergePatchOfStaleCache has the collector patch the owners of a custom resource as its informer shows it. Nothing is read
// for that; and what the informer has not seen is a conflict, until it has.
func TestMergePatchOfStaleCache(t *testing.T) {
	c := newCustom(t)
	a, keeper := c.owned("a"), c.owned("keeper")
	c.widget("w", refTo(a), refTo(keeper))
	c.settle()
	c.env.hold("Widget", true)
	c.patch("Widget", "w", `{"metadata":{"labels":{"by":"user"}}}`)
	c.delete("ConfigMap", "a", metav1.DeletePropagationOrphan)
	c.calls = nil
	c.run(40)
	patches := c.callsOf("gc Patch Widget w")
	if len(patches) < 4 || patches[0] != "gc Patch Widget w -> 415" || patches[1] != "gc Patch Widget w -> 409" {
		t.Errorf("patches %q", patches)
	}
	if reads := c.callsOf("gc Get Widget w"); len(reads) != 0 {
		t.Errorf("it reads what its informer has: %q", reads)
	}
	c.env.hold("Widget", false)
	c.settle()
	if refs := c.get("Widget", "w").GetOwnerReferences(); len(refs) != 1 || refs[0].Name != "keeper" {
		t.Errorf("owners %v", refs)
	}
}

// TestMergePatchUncached has an item that the informer does not have any more, while the server still does: it is read.
func TestMergePatchUncached(t *testing.T) {
	c := newCustom(t)
	a, keeper := c.owned("a"), c.owned("keeper")
	c.settle()
	w := c.widget("w", refTo(a), refTo(keeper))
	c.settle()
	c.refuse = func(actor string, r *apiserver.Request) *apiserver.Response {
		if actor == "gc" && r.Verb == schedule.Patch && r.PatchType == types.StrategicMergePatchType {
			c.refuse = nil
			c.delete("Widget", "w", "") // the informer sees the delete, and not yet that it is there again
			c.env.catchUp()
			c.env.hold("Widget", true)
			c.widget("w", refTo(a), refTo(keeper))
		}
		return nil
	}
	c.delete("ConfigMap", "a", metav1.DeletePropagationOrphan)
	c.calls = nil
	c.run(60)
	if reads := c.callsOf("gc Get Widget w"); len(reads) == 0 {
		t.Errorf("it does not read what its informer does not have:\n%s", strings.Join(c.calls, "\n"))
	}
	if again := c.get("Widget", "w"); again.GetUID() == w.GetUID() {
		t.Error("the widget is not another one")
	}
}

// TestOrphanedByForce takes the finalizer off an owner before the collector has orphaned its dependents. The owner leaves the
// graph; the collector orphans them all the same, if it gets to that first.
func TestOrphanedByForce(t *testing.T) {
	c := newCollected(t, GarbageCollectorOptions{})
	c.owned("b", refTo(c.owned("a")))
	c.settle()
	c.delete("ConfigMap", "a", metav1.DeletePropagationOrphan)
	c.env.catchUp() // it hears of the delete, and then of the end
	c.patch("ConfigMap", "a", `{"metadata":{"finalizers":null}}`)
	c.env.catchUp()
	if c.get("ConfigMap", "a") != nil {
		t.Fatal("the owner is still there")
	}
	queue := c.env.queues[1] // attempt-to-orphan
	queue.promote()
	queue.dequeue(0)
	for len(queue.working) > 0 {
		queue.working[0].do()
	}
	if refs := c.get("ConfigMap", "b").GetOwnerReferences(); len(refs) != 0 {
		t.Errorf("owners %v", refs)
	}
	c.left("b")
}

// TestUnblockedOwner has a dependent stop to block its owner, which nobody deletes: the collector looks at the owner anyway.
func TestUnblockedOwner(t *testing.T) {
	c := newCollected(t, GarbageCollectorOptions{})
	a := c.owned("a")
	c.owned("b", blocking(refTo(a)))
	c.settle()
	c.calls = nil
	c.patch("ConfigMap", "b", `{"metadata":{"ownerReferences":null}}`)
	c.left("a", "b")
	if got := c.callsOf("gc "); !slices.Equal(got, []string{"gc Get ConfigMap a -> 200"}) {
		t.Errorf("calls %q", got)
	}
}

// TestClusterScopedAndNamespaced has a cluster-scoped object and a namespaced one refer to the same owner, which does not exist and
// would be in a namespace: the namespaced one is collected, the other one stays (kubernetes issue 98040).
func TestClusterScopedAndNamespaced(t *testing.T) {
	gone := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "gone"}
	c := newCollected(t, GarbageCollectorOptions{})
	node := c.target("Node", "n")
	node.namespace = ""
	c.must(node.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", OwnerReferences: []metav1.OwnerReference{gone}}}))
	c.settle()
	c.owned("b", gone)
	c.left()
	if c.server.Get(c.kind("Node"), "", "n") == nil {
		t.Error("the node was collected")
	}
}

// TestAlternatives checks in which order the names of an owner are looked up.
func TestAlternatives(t *testing.T) {
	ref := func(kind, name string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "v1", Kind: kind, Name: name, UID: "u"}
	}
	dependents := []*node{
		{identity: identity{namespace: "y"}, owners: []metav1.OwnerReference{ref("Secret", "a")}},
		{identity: identity{namespace: "x"}, owners: []metav1.OwnerReference{ref("ConfigMap", "b"), ref("ConfigMap", "a")}},
		{identity: identity{namespace: "x"}, owners: []metav1.OwnerReference{ref("Secret", "a"), {UID: "v", Kind: "Aaa"}}},
	}
	id := identity{apiVersion: "v1", kind: "ConfigMap", namespace: "x", name: "a", uid: "u"}
	var got []string
	for range 5 {
		next, ok := id.alternative(dependents)
		if !ok {
			t.Fatalf("%s has no alternative", id)
		}
		got, id = append(got, next.String()), next
	}
	want := []string{"ConfigMap x/b", "Secret x/a", "Secret y/a", "ConfigMap x/a", "ConfigMap x/b"}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	only := identity{apiVersion: "v1", kind: "Node", name: "n", uid: "w"}
	if other, ok := only.alternative(dependents); ok {
		t.Errorf("nobody refers to it, and it is also %s", other)
	}
}

// TestEachResourceOnce checks that the collector watches one version of a resource, and no aliases.
func TestEachResourceOnce(t *testing.T) {
	d := newDriver(t, apiserver.V136)
	seen := map[schema.GroupResource]bool{}
	for _, kind := range preferred(d.server.Kinds().All()) {
		if seen[kind.GroupResource()] || kind.Alias != nil {
			t.Errorf("%s %s is there twice", kind.GroupVersion(), kind)
		}
		seen[kind.GroupResource()] = true
	}
	if len(seen) < 30 {
		t.Errorf("only %d resources", len(seen))
	}
}
