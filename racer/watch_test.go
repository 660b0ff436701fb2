package racer

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// gap stops the racer's informer on a kind, lets the test change the cluster, and has the informer list anew, so that it
// misses what came to pass in between.
func (e *driverEnv) gap(kind string, change func()) {
	e.d.settle()
	e.hold(kind, true)
	change()
	e.relist(kind)
	e.hold(kind, false)
}

// TestOwnerGoneInAGap deletes an owner while the collector does not look: the tombstone is as good as a deletion.
func TestOwnerGoneInAGap(t *testing.T) {
	c := newCollected(t, GarbageCollectorOptions{})
	a := c.owned("a")
	c.owned("b", refTo(a))
	c.env.gap("ConfigMap", func() {
		c.patch("ConfigMap", "a", `{"data":{"n":"1"}}`) // what is last known of it is stale
		c.delete("ConfigMap", "a", metav1.DeletePropagationBackground)
	})
	c.left()
}

// TestDependentGoneInAGap has an owner wait for a dependent that goes while the collector does not look.
func TestDependentGoneInAGap(t *testing.T) {
	c := newCollected(t, GarbageCollectorOptions{})
	a := c.owned("a")
	c.owned("b", blocking(refTo(a)))
	c.patch("ConfigMap", "b", `{"metadata":{"finalizers":["example.com/hold"]}}`)
	c.delete("ConfigMap", "a", metav1.DeletePropagationForeground)
	c.left("a", "b")
	c.env.gap("ConfigMap", func() { c.patch("ConfigMap", "b", `{"metadata":{"finalizers":null}}`) })
	c.left()
}

// TestOwnerRecreatedInAGap replaces an owner while the collector does not look. It sees an update to another UID, which tells
// it nothing about the old one: the dependents of that stay until something makes it look at them.
func TestOwnerRecreatedInAGap(t *testing.T) {
	c := newCollected(t, GarbageCollectorOptions{})
	a := c.owned("a")
	b := c.owned("b", refTo(a))
	c.env.gap("ConfigMap", func() {
		c.delete("ConfigMap", "a", metav1.DeletePropagationBackground)
		c.owned("a")
	})
	c.left("a", "b")
	c.patch("ConfigMap", "b", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"a","uid":"`+
		string(b.GetOwnerReferences()[0].UID)+`"},{"apiVersion":"v1","kind":"ConfigMap","name":"gone","uid":"gone"}]}}`)
	c.left("a")
}

// TestDependentRecreatedInAGap replaces a dependent while the collector does not look. It goes on taking the one that is gone for
// a dependent, until it looks at it, which it does when the owner is deleted. What it has seen being deleted it never looks at
// again: then the owner waits for good.
func TestDependentRecreatedInAGap(t *testing.T) {
	for _, waits := range []bool{false, true} {
		c := newCollected(t, GarbageCollectorOptions{})
		a := c.owned("a")
		c.owned("b", blocking(refTo(a)))
		c.patch("ConfigMap", "b", `{"metadata":{"finalizers":["example.com/hold"]}}`)
		if waits {
			c.delete("ConfigMap", "a", metav1.DeletePropagationForeground)
			c.left("a", "b")
		}
		c.env.gap("ConfigMap", func() {
			if !waits {
				c.delete("ConfigMap", "b", metav1.DeletePropagationBackground)
			}
			c.patch("ConfigMap", "b", `{"metadata":{"finalizers":null}}`)
			c.owned("b", blocking(refTo(a)))
		})
		c.left("a", "b")
		if !waits {
			c.delete("ConfigMap", "a", metav1.DeletePropagationForeground)
			c.left()
			continue
		}
		c.owned("c", blocking(refTo(a)))
		c.delete("ConfigMap", "c", metav1.DeletePropagationBackground) // makes the collector look at the owner
		c.left("a")
	}
}

// TestDeletingOwnerRecreatedInAGap replaces an owner that waits for its dependents by one that waits for its own.
func TestDeletingOwnerRecreatedInAGap(t *testing.T) {
	c := newCollected(t, GarbageCollectorOptions{})
	held := func(name string, owner apiserver.Object) {
		c.owned(name, blocking(refTo(owner)))
		c.patch("ConfigMap", name, `{"metadata":{"finalizers":["example.com/hold"]}}`)
	}
	release := func(name string) { c.patch("ConfigMap", name, `{"metadata":{"finalizers":null}}`) }
	held("b", c.owned("a"))
	c.delete("ConfigMap", "a", metav1.DeletePropagationForeground)
	c.left("a", "b")
	c.env.gap("ConfigMap", func() {
		release("a")
		held("c", c.owned("a"))
		c.delete("ConfigMap", "a", metav1.DeletePropagationForeground)
	})
	c.left("a", "b", "c")
	c.delete("ConfigMap", "c", metav1.DeletePropagationBackground)
	release("c")
	c.left("b")
}

// TestClaimOfAPodRecreatedInAGap replaces the only pod that uses a claim by one that does not, while the protection controller
// does not look: it lets the claim go all the same.
func TestClaimOfAPodRecreatedInAGap(t *testing.T) {
	d := newDriver(t, apiserver.V136)
	env := d.start("volumes", NewVolumeBinder())
	claim := newClaim(newSet(1), &newSet(1, withClaim).Spec.VolumeClaimTemplates[0], 0)
	d.create("PersistentVolumeClaim", claim)
	d.patch("PersistentVolumeClaim", claim.Name, `{"metadata":{"finalizers":["`+protectionFinalizer+`"]}}`)
	pod := newTestPod("p")
	pod.Spec.Volumes = volumesFor(newSet(1, withClaim), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0"}})
	d.create("Pod", pod)
	uid := d.get("Pod", "p").GetUID()
	d.must(d.target("Pod", "p").bind(uid, "node1"))
	d.settle()
	d.delete("PersistentVolumeClaim", claim.Name, "")
	d.settle()
	if d.get("PersistentVolumeClaim", claim.Name) == nil {
		t.Fatal("the claim went although a pod uses it")
	}
	env.gap("Pod", func() {
		d.must(d.target("Pod", "p").delete(deleteNow(uid)))
		d.create("Pod", newTestPod("p"))
	})
	d.settle()
	if d.get("PersistentVolumeClaim", claim.Name) != nil {
		t.Error("the claim stayed after its pod had gone")
	}
}

// TestPodRecreatedInAGapIsAnother replaces a pod that is up while the kubelet does not look: its successor takes its time from
// its own start.
func TestPodRecreatedInAGapIsAnother(t *testing.T) {
	d := newDriver(t, apiserver.V136)
	kubelet := NewKubelet(KubeletOptions{Binds: true, ReadyAfter: 10 * time.Second})
	env := d.start("kubelet", kubelet)
	d.create("Pod", newTestPod("p"))
	env.gap("Pod", func() {
		d.must(d.target("Pod", "p").delete(deleteNow(d.get("Pod", "p").GetUID())))
		d.create("Pod", newTestPod("p"))
	})
	begin := d.now
	for !runningAndReady(d.get("Pod", "p").(*corev1.Pod)) && d.step() {
	}
	if took := d.now.Sub(begin).Round(time.Second); took != 10*time.Second {
		t.Errorf("the successor was ready after %s, want 10s", took)
	}
	env.gap("Pod", func() { d.must(d.target("Pod", "p").delete(deleteNow(d.get("Pod", "p").GetUID()))) })
	if len(kubelet.ages) != 0 {
		t.Errorf("the kubelet remembers %d pods that are gone", len(kubelet.ages))
	}
}

// TestPodsInAGap lets a pod go, or be replaced by one without an owner, while the StatefulSet controller does not look: it does
// what it does when it looks.
func TestPodsInAGap(t *testing.T) {
	changes := map[string]func(k *kcm){
		"gone": func(k *kcm) { k.remove("web-1") },
		"orphan": func(k *kcm) {
			orphan := newTestPod("web-0")
			orphan.Labels = k.pod("web-0").Labels
			k.remove("web-0")
			k.create("Pod", orphan)
		},
	}
	for name, first := range map[string]string{"gone": "Create Pod web-1", "orphan": "Patch Pod web-0"} {
		t.Run(name, func(t *testing.T) {
			writes := func(looks bool) []string {
				k := newKCM(t, StatefulSetControllerOptions{})
				k.up(newSet(2))
				if looks {
					changes[name](k)
				} else {
					k.env.gap("Pod", func() { changes[name](k) })
				}
				return k.settledWrites()
			}
			missed, seen := writes(false), writes(true)
			if diff := cmp.Diff(seen, missed); diff != "" || !slices.Contains(missed, first) {
				t.Errorf("writes of the controller (-it looked +it did not):\n%s", diff)
			}
		})
	}
}

// settledWrites settles and returns what the controller wrote.
func (k *kcm) settledWrites() []string {
	k.settle()
	return k.writes("kcm")
}

// TestSetRecreatedInAGap replaces a set, orphaning its pods, while the controller does not look: its successor adopts them, and
// nothing of what the controller remembers of the old one is left.
func TestSetRecreatedInAGap(t *testing.T) {
	controller := NewStatefulSetController(StatefulSetControllerOptions{})
	k := &kcm{driver: newDriver(t, apiserver.V136)}
	k.env = k.start("kcm", controller)
	k.up(newSet(1))
	old := k.set().UID
	k.env.gap("StatefulSet", func() {
		k.delete("StatefulSet", "web", metav1.DeletePropagationOrphan)
		k.patch("StatefulSet", "web", `{"metadata":{"finalizers":null}}`)
		for _, kind := range []string{"Pod", "ControllerRevision"} { // as the collector does
			for _, name := range k.names(kind) {
				k.must(k.target(kind, name).patch(types.StrategicMergePatchType, releasePatch(k.get(kind, name).GetUID(), old)))
			}
		}
		k.create("StatefulSet", newSet(1))
	})
	writes := k.settledWrites()
	if !slices.Contains(writes, "Patch Pod web-0") || slices.Contains(writes, "Create Pod web-0") {
		t.Errorf("the successor did not adopt the pod: %q", writes)
	}
	if _, ok := controller.selectors[old]; ok || len(controller.recorded) != 1 {
		t.Errorf("the controller remembers the set that is gone: %d templates", len(controller.recorded))
	}
	if ref := metav1.GetControllerOf(k.pod("web-0")); ref == nil || ref.UID != k.set().UID {
		t.Errorf("web-0 is owned by %v, want %s", ref, k.set().UID)
	}
}
