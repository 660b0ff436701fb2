package racer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

func newNamespace(name string) *corev1.Namespace {
	return &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name},
	}
}

// doomed is a cluster with a namespace "shop" and the controllers that take part in its end.
type doomed struct {
	*driver
	kubelet *driverEnv
}

func newDoomed(t *testing.T, kubelet KubeletOptions) *doomed {
	d := &doomed{driver: newDriver(t, apiserver.V136)}
	d.namespace = "shop"
	d.must(d.target("Namespace", "shop").create(newNamespace("shop")))
	d.start("namespaces", NewNamespaceController(NamespaceControllerOptions{}))
	d.start("gc", NewGarbageCollector(GarbageCollectorOptions{}))
	kubelet.Binds = true
	d.kubelet = d.start("kubelet", NewKubelet(kubelet))
	return d
}

func (d *doomed) config(name string, finalizers ...string) {
	d.t.Helper()
	d.create("ConfigMap", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers}})
}

func (d *doomed) pod(name string, grace int64) {
	d.t.Helper()
	d.create("Pod", &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{Name: "c", Image: "i"}},
	}})
}

func (d *doomed) shop() *corev1.Namespace {
	ns, _ := d.server.Get(d.kind("Namespace"), "", "shop").(*corev1.Namespace)
	return ns
}

// begin settles, deletes the namespace and forgets the calls so far.
func (d *doomed) begin() {
	d.t.Helper()
	d.settle()
	d.delete("Namespace", "shop", "")
	d.calls = nil
}

// until runs until something is so.
func (d *doomed) until(what string, reached func() bool) {
	d.t.Helper()
	for range 5000 {
		if reached() {
			return
		}
		if !d.step() {
			break
		}
	}
	d.t.Fatalf("never %s; calls:\n%s", what, strings.Join(d.calls, "\n"))
}

func (d *doomed) condition(t corev1.NamespaceConditionType) string {
	d.t.Helper()
	for _, c := range d.shop().Status.Conditions {
		if c.Type == t {
			return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
		}
	}
	return ""
}

// TestNamespaceGoes deletes a namespace with something in it: all of it goes, 5 seconds later, and other namespaces keep theirs.
func TestNamespaceGoes(t *testing.T) {
	d := newDoomed(t, KubeletOptions{})
	d.config("a")
	d.config("b")
	d.namespace = "default"
	d.config("kept")
	d.namespace = "shop"
	d.begin()
	deleted := d.now
	d.until("gone", func() bool { return d.shop() == nil })
	if took := d.now.Sub(deleted); took < 5*time.Second || took > 6*time.Second {
		t.Errorf("gone after %v, want 5 to 6 seconds", took)
	}
	d.settle()
	if left := d.server.List(d.kind("ConfigMap"), ""); len(left) != 1 || left[0].GetName() != "kept" {
		t.Errorf("left: %v", left)
	}
	// The first finalize is made with what was read before the conditions were written.
	want := []string{
		"DeleteCollection Pod ", "Update Namespace/status shop", "Update Namespace/finalize shop -> 409",
		"Update Namespace/finalize shop",
	}
	writes := slices.DeleteFunc(d.writes("namespaces"), func(call string) bool {
		return strings.HasPrefix(call, "DeleteCollection") && call != "DeleteCollection Pod "
	})
	if diff := cmp.Diff(want, writes); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if gaps := d.server.Gaps(); len(gaps) != 0 {
		t.Errorf("gaps: %q", gaps)
	}
}

// TestNamespacePodsFirst has a pod that takes its time: until it is gone nothing else is deleted, and the conditions do not say
// what is left.
func TestNamespacePodsFirst(t *testing.T) {
	d := newDoomed(t, KubeletOptions{TerminationAfter: 20 * time.Second})
	d.config("a")
	d.pod("slow", 30)
	d.begin()
	deleted := d.now
	d.until("reported", func() bool { return len(d.shop().Status.Conditions) > 0 })
	if got, want := d.condition(corev1.NamespaceContentRemaining),
		"False ContentRemoved: All content successfully removed"; got != want {
		t.Errorf("condition %q, want %q", got, want)
	}
	if pod := d.get("Pod", "slow"); pod == nil || pod.GetDeletionTimestamp() == nil {
		t.Errorf("the pod is not terminating: %v", pod)
	}
	d.until("without the pod", func() bool { return d.get("Pod", "slow") == nil })
	if names := d.names("ConfigMap"); !slices.Equal(names, []string{"a"}) {
		t.Errorf("left with the pod: %v", names)
	}
	d.until("gone", func() bool { return d.shop() == nil })
	// A pass comes 5 seconds after each event, and half of the grace period and a second after each pass: after 5, 10, 21 and 26
	// seconds. The pod ends after 25.
	if took := d.now.Sub(deleted).Truncate(time.Second); took != 26*time.Second {
		t.Errorf("gone after %v, want 26s", took)
	}
	if !slices.ContainsFunc(d.logs, func(line string) bool {
		return strings.Contains(line, "some content remains in the namespace shop, estimate 30 seconds before it is removed")
	}) {
		t.Errorf("the log does not say what the controller waits for:\n%s", strings.Join(d.logs, "\n"))
	}
}

// TestNamespaceHeld has an object with a finalizer: the namespace stays, says why, and goes once the finalizer has.
func TestNamespaceHeld(t *testing.T) {
	d := newDoomed(t, KubeletOptions{})
	d.config("a")
	d.config("held", "example.com/b", "example.com/a")
	d.begin()
	d.settle()
	want := map[corev1.NamespaceConditionType]string{
		corev1.NamespaceDeletionDiscoveryFailure: "False ResourcesDiscovered: All resources successfully discovered",
		corev1.NamespaceDeletionGVParsingFailure: "False ParsedGroupVersions: All legacy kube types successfully parsed",
		corev1.NamespaceDeletionContentFailure:   "False ContentDeleted: All content successfully deleted, may be waiting on finalization",
		corev1.NamespaceContentRemaining:         "True SomeResourcesRemain: Some resources are remaining: configmaps. has 1 resource instances",
		corev1.NamespaceFinalizersRemaining: "True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: " +
			"example.com/a in 1 resource instances, example.com/b in 1 resource instances",
	}
	for name, text := range want {
		if got := d.condition(name); got != text {
			t.Errorf("condition %s: %q, want %q", name, got, text)
		}
	}
	if got := d.names("ConfigMap"); !slices.Equal(got, []string{"held"}) {
		t.Errorf("left: %v", got)
	}
	d.patch("ConfigMap", "held", `{"metadata":{"finalizers":null}}`)
	freed := d.now
	d.until("gone", func() bool { return d.shop() == nil })
	if took := d.now.Sub(freed); took > 9*time.Second { // half of 15 seconds and one more
		t.Errorf("gone %v after the finalizer", took)
	}
}

// TestNamespaceFailure has a kind whose collection cannot be deleted: the others are, and the condition tells.
func TestNamespaceFailure(t *testing.T) {
	d := newDoomed(t, KubeletOptions{})
	d.config("a")
	d.create("Secret", &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}})
	d.refuse = func(_ string, r *apiserver.Request) *apiserver.Response {
		if r.Verb != schedule.DeleteCollection || r.Kind.Kind != "ConfigMap" {
			return nil
		}
		return &apiserver.Response{Code: 500, Err: newStatusError(500, metav1.StatusReasonInternalError)}
	}
	d.begin()
	d.until("reported", func() bool { return len(d.shop().Status.Conditions) > 0 })
	if got, want := d.condition(corev1.NamespaceDeletionContentFailure),
		"True ContentDeletionFailed: Failed to delete all resource types, 1 remaining: InternalError"; got != want {
		t.Errorf("condition %q, want %q", got, want)
	}
	if d.get("Secret", "s") != nil || d.get("ConfigMap", "a") == nil {
		t.Error("the Secret should be gone, the ConfigMap not")
	}
	for range 20 { // it is tried again after a minute at the latest
		before := len(d.logs)
		at := d.now
		d.until("failed again", func() bool { return len(d.logs) > before })
		if d.now.Sub(at) > 61*time.Second {
			t.Fatalf("tried again after %v", d.now.Sub(at))
		}
	}
	d.refuse = nil
	d.until("gone", func() bool { return d.shop() == nil })
}

// TestNamespaceUnexpected has an object that comes after the delete of its collection and has no finalizer.
func TestNamespaceUnexpected(t *testing.T) {
	d := newDoomed(t, KubeletOptions{})
	d.begin()
	d.refuse = func(_ string, r *apiserver.Request) *apiserver.Response {
		if r.Verb != schedule.List || r.Kind.Kind != "Secret" {
			return nil
		}
		s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "late"}}
		return &apiserver.Response{Code: 200, Items: []apiserver.Object{s}}
	}
	d.until("reported", func() bool { return len(d.shop().Status.Conditions) > 0 })
	if got, want := d.condition(corev1.NamespaceDeletionContentFailure), "True ContentDeletionFailed: Failed to delete all resource "+
		"types, 1 remaining: unexpected items still remain in namespace: shop for gvr: /v1, Resource=secrets"; got != want {
		t.Errorf("condition %q, want %q", got, want)
	}
	d.refuse = nil
	d.until("gone", func() bool { return d.shop() == nil })
}

// TestNamespaceFinalizers has finalizers of others on the namespace: the controller takes only its own.
func TestNamespaceFinalizers(t *testing.T) {
	d := newDoomed(t, KubeletOptions{})
	ns := d.shop().DeepCopy()
	ns.Spec.Finalizers = append(ns.Spec.Finalizers, "example.com/mine")
	finalize := d.target("Namespace", "shop").update(ns)
	finalize.Subresource = "finalize"
	d.must(finalize)
	d.begin()
	d.settle()
	if got := d.shop().Spec.Finalizers; !slices.Equal(got, []corev1.FinalizerName{"example.com/mine"}) {
		t.Fatalf("finalizers %v", got)
	}
	ns = d.shop().DeepCopy()
	ns.Spec.Finalizers = nil
	finalize = d.target("Namespace", "shop").update(ns)
	finalize.Subresource = "finalize"
	d.must(finalize)
	if d.shop() != nil {
		t.Error("the namespace is still there without finalizers")
	}
}

// TestNamespaceRecreating has a controller that creates its object again as soon as it is gone: it is refused, with a cause, until
// the namespace is there again. In any order of steps nothing is left behind.
func TestNamespaceRecreating(t *testing.T) {
	for seed := range uint64(30) {
		d := newDoomed(t, KubeletOptions{TerminationAfter: 3 * time.Second})
		if seed > 0 {
			d.random = rand.New(rand.NewPCG(seed, 0))
		}
		d.start("kcm", NewStatefulSetController(StatefulSetControllerOptions{Version: apiserver.V136}))
		set := newSet(2)
		d.create("StatefulSet", set)
		refused := 0
		d.after = func(actor string, r *apiserver.Request) {
			if actor == "kcm" && r.Verb == schedule.Create && strings.HasSuffix(d.calls[len(d.calls)-1], "-> 403") {
				refused++
			}
		}
		d.begin()
		d.settle()
		if d.shop() != nil {
			t.Fatalf("seed %d: the namespace stays: %+v\n%s", seed, d.shop().Status, strings.Join(d.calls, "\n"))
		}
		if seed == 0 && refused == 0 {
			t.Error("the StatefulSet controller was never refused a pod, as it should be: the pods go before the set")
		}
		for _, kind := range d.server.Kinds().All() {
			if left := d.server.List(kind, "shop"); kind.Namespaced && len(left) > 0 {
				t.Errorf("seed %d: left of %s: %v", seed, kind, left)
			}
		}
		err := failure(d.do("test", d.target("ConfigMap", "late").create(&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "late", Namespace: "shop"}})))
		if !apierrors.IsNotFound(err) || err.Error() != `namespaces "shop" not found` {
			t.Errorf("seed %d: creating in a namespace that is gone: %v", seed, err)
		}
	}
}
