package racer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// collected is a cluster in which only the garbage collector runs.
type collected struct {
	*driver
	env *driverEnv
}

func newCollected(t *testing.T, options GarbageCollectorOptions) *collected {
	c := &collected{driver: newDriver(t, apiserver.V136)}
	c.env = c.start("gc", NewGarbageCollector(options))
	return c
}

// owned creates a ConfigMap that the given objects own.
func (c *collected) owned(name string, owners ...metav1.OwnerReference) apiserver.Object {
	c.t.Helper()
	return c.create("ConfigMap", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: owners}})
}

func refTo(obj apiserver.Object) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: obj.GetName(), UID: obj.GetUID()}
}

func blocking(ref metav1.OwnerReference) metav1.OwnerReference {
	ref.BlockOwnerDeletion = new(true)
	return ref
}

// left settles and compares which ConfigMaps there are.
func (c *collected) left(want ...string) {
	c.t.Helper()
	c.settle()
	if got := c.names("ConfigMap"); !slices.Equal(got, want) {
		c.t.Errorf("left: %v, want %v; calls:\n%s", got, want, strings.Join(c.calls, "\n"))
	}
}

func TestBackground(t *testing.T) {
	c := newCollected(t, GarbageCollectorOptions{})
	a := c.owned("a")
	b := c.owned("b", refTo(a))
	c.owned("c", refTo(b))
	c.owned("d")
	c.delete("ConfigMap", "a", metav1.DeletePropagationBackground)
	c.left("d")
}

func TestForeground(t *testing.T) {
	c := newCollected(t, GarbageCollectorOptions{})
	a := c.owned("a")
	b := c.owned("b", blocking(refTo(a)))
	c.owned("c", blocking(refTo(b)))
	c.owned("d", refTo(a)) // does not block
	c.settle()
	var order []string
	c.after = func(string, *apiserver.Request) {
		for _, name := range []string{"a", "b", "c", "d"} {
			if c.get("ConfigMap", name) == nil && !slices.Contains(order, name) {
				order = append(order, name)
			}
		}
	}
	c.delete("ConfigMap", "a", metav1.DeletePropagationForeground)
	c.left()
	if order = slices.DeleteFunc(order, func(name string) bool { return name == "d" }); fmt.Sprint(order) != "[c b a]" {
		t.Errorf("gone in the order %v, want dependents first", order)
	}
}

// TestForegroundBlocked has a dependent with a finalizer: the owner waits for it.
func TestForegroundBlocked(t *testing.T) {
	for _, blocks := range []bool{true, false} {
		c := newCollected(t, GarbageCollectorOptions{})
		a := c.owned("a")
		ref := refTo(a)
		if blocks {
			ref = blocking(ref)
		}
		c.owned("b", ref)
		c.patch("ConfigMap", "b", `{"metadata":{"finalizers":["example.com/hold"]}}`)
		c.delete("ConfigMap", "a", metav1.DeletePropagationForeground)
		if blocks {
			c.left("a", "b")
		} else {
			c.left("b")
		}
		c.patch("ConfigMap", "b", `{"metadata":{"finalizers":null}}`)
		c.left()
	}
}

// TestForegroundUnblocked takes the blocking reference away: the owner need not wait any longer, and the dependent stays.
func TestForegroundUnblocked(t *testing.T) {
	c := newCollected(t, GarbageCollectorOptions{})
	a := c.owned("a")
	c.owned("b", blocking(refTo(a)))
	c.patch("ConfigMap", "b", `{"metadata":{"finalizers":["example.com/hold"]}}`)
	c.delete("ConfigMap", "a", metav1.DeletePropagationForeground)
	c.left("a", "b")
	c.patch("ConfigMap", "b", `{"metadata":{"ownerReferences":null}}`)
	c.left("b")
}

// TestForegroundCycle has two objects own each other: the cycle must not keep either.
func TestForegroundCycle(t *testing.T) {
	c := newCollected(t, GarbageCollectorOptions{})
	a := c.owned("a")
	b := c.owned("b", blocking(refTo(a)))
	c.patch("ConfigMap", "a", fmt.Sprintf(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap",`+
		`"name":"b","uid":%q,"blockOwnerDeletion":true}]}}`, b.GetUID()))
	c.settle()
	c.delete("ConfigMap", "a", metav1.DeletePropagationForeground)
	c.left()
}

func TestOrphan(t *testing.T) {
	c := newCollected(t, GarbageCollectorOptions{})
	a := c.owned("a")
	keeper := c.owned("keeper")
	c.owned("b", refTo(a))
	c.owned("c", refTo(keeper), refTo(a))
	c.settle()
	c.delete("ConfigMap", "a", metav1.DeletePropagationOrphan)
	c.left("b", "c", "keeper")
	if refs := c.get("ConfigMap", "b").GetOwnerReferences(); len(refs) != 0 {
		t.Errorf("owners of b: %v", refs)
	}
	if refs := c.get("ConfigMap", "c").GetOwnerReferences(); len(refs) != 1 || refs[0].Name != "keeper" {
		t.Errorf("owners of c: %v", refs)
	}
}

func TestAbsentOwner(t *testing.T) {
	c := newCollected(t, GarbageCollectorOptions{})
	a := c.owned("a")
	gone := refTo(a)
	gone.UID = "gone"
	missing := gone
	missing.Name = "missing"
	c.owned("same-name-other-uid", gone)
	c.owned("no-such-name", missing)
	c.owned("one-of-two", missing, refTo(a))
	c.left("a", "one-of-two")
	if refs := c.get("ConfigMap", "one-of-two").GetOwnerReferences(); len(refs) != 1 || refs[0].Name != "a" {
		t.Errorf("owners of one-of-two: %v", refs)
	}
}

// TestOwnerInAnotherNamespace takes such an owner for absent.
func TestOwnerInAnotherNamespace(t *testing.T) {
	c := newCollected(t, GarbageCollectorOptions{})
	elsewhere := c.target("ConfigMap", "a")
	elsewhere.namespace = metav1.NamespaceSystem
	a := c.must(elsewhere.create(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: metav1.NamespaceSystem}}))
	c.settle()
	c.owned("b", refTo(a))
	c.left()
}

// TestClusterScopedDependent has a namespaced owner, which it cannot have: it is never collected.
func TestClusterScopedDependent(t *testing.T) {
	c := newCollected(t, GarbageCollectorOptions{})
	gone := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "gone"}
	node := c.target("Node", "n")
	node.namespace = ""
	c.must(node.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", OwnerReferences: []metav1.OwnerReference{gone}}}))
	c.settle()
	if c.server.Get(c.kind("Node"), "", "n") == nil {
		t.Error("the node was collected")
	}
}

func TestUnknownOwnerKind(t *testing.T) {
	c := newCollected(t, GarbageCollectorOptions{})
	c.owned("b", metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Nothing", Name: "a", UID: "a"})
	c.left("b")
}

// TestPreconditions lets somebody write to an item between the collector's read and its delete.
func TestPreconditions(t *testing.T) {
	for _, test := range []struct {
		name, merge string
		left        []string
	}{
		{"a label: deleted all the same", `{"metadata":{"labels":{"by":"user"}}}`, nil},
		{"another owner: saved",
			`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"keeper","uid":"UID"}]}}`,
			[]string{"b", "keeper"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newCollected(t, GarbageCollectorOptions{})
			a, keeper := c.owned("a"), c.owned("keeper")
			c.owned("b", refTo(a))
			c.settle()
			done := false
			c.refuse = func(actor string, r *apiserver.Request) *apiserver.Response {
				if actor == "gc" && r.Verb == schedule.Delete && !done {
					done = true
					c.patch("ConfigMap", "b", strings.Replace(test.merge, "UID", string(keeper.GetUID()), 1))
				}
				return nil
			}
			c.delete("ConfigMap", "a", metav1.DeletePropagationBackground)
			want := test.left
			if want == nil {
				want = []string{"keeper"}
			}
			c.left(want...)
			if !slices.Contains(c.calls, "gc Delete ConfigMap b -> 409") {
				t.Errorf("no conflict: %v", c.calls)
			}
		})
	}
}

// TestConflictWithoutChange answers a delete of an item that nobody wrote to with a conflict, as an admission webhook may:
// the collector starts anew rather than drop the precondition.
func TestConflictWithoutChange(t *testing.T) {
	c := newCollected(t, GarbageCollectorOptions{})
	c.owned("b", refTo(c.owned("a")))
	c.settle()
	var preconditions []*metav1.Preconditions
	c.refuse = func(actor string, r *apiserver.Request) *apiserver.Response {
		if actor != "gc" || r.Verb != schedule.Delete {
			return nil
		}
		if preconditions = append(preconditions, r.Delete.Preconditions); len(preconditions) > 1 {
			return nil
		}
		err := newStatusError(409, metav1.StatusReasonConflict)
		return &apiserver.Response{Code: int(err.ErrStatus.Code), Err: err}
	}
	c.delete("ConfigMap", "a", metav1.DeletePropagationBackground)
	c.left()
	for i, p := range preconditions {
		if p.ResourceVersion == nil {
			t.Errorf("delete %d of %d has no revision as a precondition", i+1, len(preconditions))
		}
	}
	if len(preconditions) != 2 {
		t.Errorf("%d deletes, want 2", len(preconditions))
	}
}

// TestCustomResources know no strategic merge patch.
func TestCustomResources(t *testing.T) {
	gvk := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	widget := func(name string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(gvk)
		obj.SetName(name)
		obj.SetOwnerReferences(owners)
		return obj
	}
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationOrphan} {
		d := newDriver(t, apiserver.V136)
		if _, err := d.server.Kinds().AddType(gvk, "widgets", true, true); err != nil {
			t.Fatal(err)
		}
		c := &collected{driver: d, env: d.start("gc", NewGarbageCollector(GarbageCollectorOptions{}))}
		a, keeper := c.owned("a"), c.owned("keeper")
		c.create("Widget", widget("w", refTo(a), refTo(keeper)))
		c.create("Widget", widget("x", refTo(a)))
		c.settle()
		c.delete("ConfigMap", "a", policy)
		c.left("keeper")
		if refs := c.get("Widget", "w").GetOwnerReferences(); len(refs) != 1 || refs[0].Name != "keeper" {
			t.Errorf("%s: owners of w: %v", policy, refs)
		}
		if kept := c.get("Widget", "x") != nil; kept != (policy == metav1.DeletePropagationOrphan) {
			t.Errorf("%s: x is kept: %t", policy, kept)
		}
	}
}

func TestDelay(t *testing.T) {
	c := newCollected(t, GarbageCollectorOptions{Delay: 30 * time.Second})
	a := c.owned("a")
	c.owned("b", refTo(a))
	c.settle()
	c.delete("ConfigMap", "a", metav1.DeletePropagationBackground)
	begin := c.now
	for c.get("ConfigMap", "b") != nil && c.step() {
	}
	if took := c.now.Sub(begin).Round(time.Second); took != 30*time.Second {
		t.Errorf("collected after %v, want 30s", took)
	}
}

// TestRecreatedOwner deletes an owner and creates its successor at once: the dependents of the old one go.
func TestRecreatedOwner(t *testing.T) {
	for seed := range uint64(20) {
		c := newCollected(t, GarbageCollectorOptions{})
		c.random = rand.New(rand.NewPCG(seed, 0))
		a := c.owned("a")
		c.owned("b", refTo(a))
		c.owned("c", refTo(a))
		c.delete("ConfigMap", "a", metav1.DeletePropagationBackground)
		a = c.owned("a")
		c.owned("d", refTo(a))
		c.left("a", "d")
	}
}

// TestAnyOrder plays chains and fans of owners in many orders.
func TestAnyOrder(t *testing.T) {
	for seed := range uint64(30) {
		c := newCollected(t, GarbageCollectorOptions{})
		c.random = rand.New(rand.NewPCG(seed, 0))
		root := c.owned("a")
		for i := range 4 {
			child := c.owned(fmt.Sprintf("b%d", i), blocking(refTo(root)))
			c.run(int(seed) % 3)
			c.owned(fmt.Sprintf("c%d", i), refTo(child))
		}
		policy := []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationBackground}
		c.delete("ConfigMap", "a", policy[seed%2])
		c.left()
	}
}

// TestFinalizerRemovalConflict lets somebody write to an owner between the read and the patch of its finalizers: three
// times, which the collector makes good, and for good, which ends the attempt.
func TestFinalizerRemovalConflict(t *testing.T) {
	for _, times := range []int{3, 5} {
		c := newCollected(t, GarbageCollectorOptions{})
		a := c.owned("a")
		c.owned("b", refTo(a))
		c.settle()
		conflicts := 0
		c.refuse = func(actor string, r *apiserver.Request) *apiserver.Response {
			if actor == "gc" && r.Name == "a" && r.Verb == schedule.Patch && conflicts < times {
				conflicts++
				c.patch("ConfigMap", "a", fmt.Sprintf(`{"data":{"n":"%d"}}`, conflicts))
			}
			return nil
		}
		c.delete("ConfigMap", "a", metav1.DeletePropagationOrphan)
		c.left("b")
		if failed := len(c.logs) > 0; failed != (times > 3) {
			t.Errorf("%d conflicts: %q", times, c.logs)
		}
	}
}

// TestOwnerUnderSeveralNames has dependents that give one UID different names, before the owner is observed and without
// there being one.
func TestOwnerUnderSeveralNames(t *testing.T) {
	for _, exists := range []bool{true, false} {
		for seed := range uint64(10) {
			c := newCollected(t, GarbageCollectorOptions{})
			c.random = rand.New(rand.NewPCG(seed, 0))
			right := metav1.OwnerReference{APIVersion: "v1", Kind: "Secret", Name: "a", UID: "gone"}
			if exists {
				c.env.hold("Secret", true)
				right.UID = c.create("Secret", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "a"}}).GetUID()
			}
			wrong, other := right, right
			wrong.Name, other.Kind = "z", "Service"
			c.owned("b", wrong)
			c.owned("c", other)
			c.owned("d", right)
			c.run(int(seed) * 4)
			c.env.hold("Secret", false)
			if exists {
				c.left("d")
			} else {
				c.left()
			}
		}
	}
}
