package apiserver

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// tester makes requests in the namespace default.
type tester struct {
	*testing.T
	*Server
	time time.Time
}

func newTester(t *testing.T) *tester {
	test := &tester{T: t, time: fixedClock()}
	test.Server = NewServer(GoldenKinds(V136), func() time.Time { return test.time })
	return test
}

func (t *tester) kind(name string) *Kind {
	t.Helper()
	k := t.Kinds().ByName(name)
	if k == nil {
		t.Fatalf("no kind %s", name)
	}
	return k
}

// do makes a request that must succeed.
func (t *tester) do(req *Request) *Response {
	t.Helper()
	response := t.Do(req)
	if response.Err != nil {
		t.Fatalf("%s %s %s: %v", req.Verb, req.Kind.Kind, req.Name, response.Err)
	}
	return response
}

func (t *tester) create(obj Object) Object {
	t.Helper()
	k := t.Kinds().Of(obj)
	return t.do(&Request{Verb: schedule.Create, Kind: k, Namespace: "default", Object: obj}).Object
}

// change updates an object after a change to a copy of what is stored.
func change[T any](t *tester, subresource string, stored Object, edit func(*T)) *Response {
	t.Helper()
	k := t.Kinds().Of(stored)
	clone := t.Get(k, stored.GetNamespace(), stored.GetName()).DeepCopyObject().(Object)
	edit(any(clone).(*T))
	return t.do(&Request{
		Verb: schedule.Update, Kind: k, Namespace: clone.GetNamespace(), Name: clone.GetName(),
		Subresource: subresource, Object: clone,
	})
}

func (t *tester) remove(obj Object, options metav1.DeleteOptions) *Response {
	t.Helper()
	return t.do(&Request{
		Verb: schedule.Delete, Kind: t.Kinds().Of(obj), Namespace: obj.GetNamespace(), Name: obj.GetName(), Delete: options,
	})
}

func newSet(name string, finalizers ...string) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers},
		Spec: appsv1.StatefulSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: podSpec()},
		},
	}
}

func podSpec() corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "busybox:1"}}}
}

func newPod(name, node string) *corev1.Pod {
	spec := podSpec()
	spec.NodeName = node
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

func newConfig(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"k": "v"}}
}

func newWidget(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "golden.example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": name},
		"spec": map[string]any{"size": int64(1), "color": "red"},
	}}
}

func TestPodGrace(t *testing.T) {
	second := func(n int64) metav1.DeleteOptions { return metav1.DeleteOptions{GracePeriodSeconds: &n} }
	test := newTester(t)
	pod := test.create(newPod("p", "node1"))
	marked := test.remove(pod, metav1.DeleteOptions{}).Object
	end, grace := marked.GetDeletionTimestamp().Sub(test.time), *marked.GetDeletionGracePeriodSeconds()
	if end != 30*time.Second || grace != 30 {
		t.Errorf("a bound pod ends in %v with grace %d, want 30 s", end, grace)
	}
	test.time = test.time.Add(2 * time.Second)
	if again := test.remove(pod, metav1.DeleteOptions{}); again.Committed != 0 {
		t.Errorf("a second delete was committed")
	}
	if longer := test.remove(pod, second(40)); longer.Committed != 0 {
		t.Errorf("a longer grace period was committed")
	}
	shorter := test.remove(pod, second(10)).Object
	if got := shorter.GetDeletionTimestamp().Sub(fixedClock()); got != 10*time.Second {
		t.Errorf("shortened to 10 s: ends at +%v", got)
	}
	if shorter.GetGeneration() != marked.GetGeneration() {
		t.Errorf("shortening changed the generation to %d", shorter.GetGeneration())
	}
	before := test.Revision()
	gone := test.remove(pod, second(0))
	if test.Get(test.kind("Pod"), "default", "p") != nil || gone.Object == nil {
		t.Error("grace 0 left the pod in place, or did not answer with it")
	}
	if gone.Committed != before+2 || gone.Object.GetResourceVersion() != strconv.FormatInt(before+2, 10) {
		t.Errorf("grace 0 was committed at %d, want %d: once marked, once deleted", gone.Committed, before+2)
	}
}

func TestPodGraceKeepsFinalizers(t *testing.T) {
	test := newTester(t)
	pod := newPod("p", "node1")
	pod.Finalizers = []string{"example.com/hold"}
	stored := test.create(pod)
	test.remove(stored, metav1.DeleteOptions{})
	change(test, "", stored, func(p *corev1.Pod) { p.Finalizers = nil })
	if test.Get(test.kind("Pod"), "default", "p") == nil {
		t.Fatal("a pod in its grace period went with its last finalizer")
	}
	test.remove(stored, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	if test.Get(test.kind("Pod"), "default", "p") != nil {
		t.Error("grace 0 left the pod in place")
	}
}

func TestGeneration(t *testing.T) {
	tests := []struct {
		name string
		obj  Object
		edit func(*testing.T, *tester, Object) *Response
		want int64
	}{
		{"label of a StatefulSet", newSet("a"), func(t *testing.T, test *tester, o Object) *Response {
			return change(test, "", o, func(s *appsv1.StatefulSet) { s.Labels = map[string]string{"x": "y"} })
		}, 1},
		{"spec of a StatefulSet", newSet("a"), func(t *testing.T, test *tester, o Object) *Response {
			return change(test, "", o, func(s *appsv1.StatefulSet) { s.Spec.Replicas = new(int32(7)) })
		}, 2},
		{"status of a StatefulSet", newSet("a"), func(t *testing.T, test *tester, o Object) *Response {
			return change(test, "status", o, func(s *appsv1.StatefulSet) {
				s.Status.Replicas, s.Spec.Replicas = 1, new(int32(9))
			})
		}, 1},
		{"data of a ConfigMap", newConfig("a"), func(t *testing.T, test *tester, o Object) *Response {
			return change(test, "", o, func(c *corev1.ConfigMap) { c.Data["k"] = "w" })
		}, 0},
		{"metadata of a custom resource", newWidget("a"), func(t *testing.T, test *tester, o Object) *Response {
			return change(test, "", o, func(u *unstructured.Unstructured) {
				u.SetAnnotations(map[string]string{"x": "y"})
			})
		}, 1},
		{"another field of a custom resource", newWidget("a"), func(t *testing.T, test *tester, o Object) *Response {
			return change(test, "", o, func(u *unstructured.Unstructured) {
				u.Object["spec"].(map[string]any)["size"] = int64(2)
			})
		}, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			test := newTester(t)
			response := tt.edit(t, test, test.create(tt.obj))
			if response.Committed == 0 || response.Object.GetGeneration() != tt.want {
				t.Errorf("generation %d, want %d; committed at %d", response.Object.GetGeneration(), tt.want, response.Committed)
			}
		})
	}
}

func TestStatusResets(t *testing.T) {
	test := newTester(t)
	pod := newPod("p", "")
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "s", UID: "u"}}
	stored := test.create(pod)
	response := change(test, "status", stored, func(p *corev1.Pod) {
		p.OwnerReferences, p.Spec.NodeName, p.Status.QOSClass = nil, "elsewhere", ""
		p.Labels, p.Status.Phase = map[string]string{"x": "y"}, corev1.PodRunning
	})
	got := response.Object.(*corev1.Pod)
	if len(got.OwnerReferences) != 1 || got.Spec.NodeName != "" || got.Status.QOSClass == "" {
		t.Errorf("a pod's status write changed owners, node or class: %+v", got)
	}
	if got.Labels["x"] != "y" || got.Status.Phase != corev1.PodRunning {
		t.Errorf("a pod's status write dropped the label or the phase: %+v", got)
	}
	widget := newWidget("w")
	widget.Object["status"] = map[string]any{"phase": "Ready"}
	if made := test.create(widget).(*unstructured.Unstructured); made.Object["status"] != nil {
		t.Errorf("a new custom resource kept the status %v", made.Object["status"])
	}
}

func TestCreateOnUpdate(t *testing.T) {
	test := newTester(t)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "l"}}
	put := func(obj Object) *Response {
		return test.Do(&Request{Verb: schedule.Update, Kind: test.kind("Lease"), Namespace: "default", Name: "l", Object: obj})
	}
	stale := lease.DeepCopy()
	stale.UID = "gone"
	if r := put(stale); r.Code != 409 || !strings.HasSuffix(r.Err.ErrStatus.Message, "UID in object meta: ") {
		t.Errorf("PUT of a deleted Lease with its uid: %d %v, want 409", r.Code, r.Err)
	}
	if r := put(lease.DeepCopy()); r.Code != 201 || r.Object.GetUID() == "" {
		t.Errorf("PUT of a Lease that does not exist: %d %v, want 201", r.Code, r.Err)
	}
}

func TestGenerateName(t *testing.T) {
	names := func(order ...string) map[string][]string {
		test := newTester(t)
		made := map[string][]string{}
		for _, prefix := range order {
			obj := newConfig("")
			obj.GenerateName = prefix
			made[prefix] = append(made[prefix], test.create(obj).GetName())
		}
		return made
	}
	a, b := names("x-", "y-", "x-"), names("y-", "x-", "x-")
	if a["x-"][0] == a["x-"][1] {
		t.Errorf("the same name twice: %s", a["x-"][0])
	}
	for prefix := range a {
		if strings.Join(a[prefix], " ") != strings.Join(b[prefix], " ") {
			t.Errorf("names depend on what else is created: %v and %v", a[prefix], b[prefix])
		}
	}
	long := generatedName(strings.Repeat("a", 80), "role", 0)
	if len(long) != 63 || strings.Trim(long[58:], nameAlphabet) != "" {
		t.Errorf("a long prefix gives %q", long)
	}
}

func TestUIDs(t *testing.T) {
	test := newTester(t)
	first := test.create(newConfig("a")).GetUID()
	test.remove(test.Get(test.kind("ConfigMap"), "default", "a"), metav1.DeleteOptions{})
	second := test.create(newConfig("a")).GetUID()
	if first == second {
		t.Error("a recreated object has the UID of the one before")
	}
	if other := newTester(t).create(newConfig("a")).GetUID(); other != first {
		t.Errorf("the same role got %s and %s", first, other)
	}
	if len(first) != 36 || first[14] != '4' || !strings.ContainsRune("89ab", rune(first[19])) {
		t.Errorf("%s is no version 4 UUID", first)
	}
}

func TestPagingShowsOneRevision(t *testing.T) {
	test := newTester(t)
	for _, name := range []string{"a", "b", "c"} {
		test.create(newConfig(name))
	}
	k := test.kind("ConfigMap")
	page := test.do(&Request{Verb: schedule.List, Kind: k, Namespace: "default", Limit: 1})
	if *page.Remaining != 2 {
		t.Errorf("%d remain, want 2", *page.Remaining)
	}
	change(test, "", page.Items[0], func(c *corev1.ConfigMap) { c.Data["k"] = "changed" })
	test.remove(test.Get(k, "default", "b"), metav1.DeleteOptions{})
	test.create(newConfig("bb"))
	var seen []string
	for token := page.Continue; token != ""; token = page.Continue {
		page = test.do(&Request{Verb: schedule.List, Kind: k, Namespace: "default", Limit: 1, Continue: token})
		seen = append(seen, page.Items[0].GetName())
	}
	if got := strings.Join(seen, " "); got != "b c" {
		t.Errorf("later pages show %q, want those of the first page's revision: b c", got)
	}
}

func TestListRevisions(t *testing.T) {
	test := newTester(t)
	first := test.create(newConfig("a"))
	test.create(newConfig("b"))
	list := func(req Request) *Response {
		req.Verb, req.Kind = schedule.List, test.kind("ConfigMap")
		return test.Do(&req)
	}
	exact := list(Request{ResourceVersion: first.GetResourceVersion(), ResourceVersionMatch: metav1.ResourceVersionMatchExact})
	if len(exact.Items) != 1 {
		t.Errorf("a list at the first revision has %d items, want 1", len(exact.Items))
	}
	if r := list(Request{ResourceVersion: first.GetResourceVersion()}); len(r.Items) != 2 {
		t.Errorf("a list not older than the first revision has %d items, want 2", len(r.Items))
	}
	if r := list(Request{ResourceVersion: "0", Limit: 1}); len(r.Items) != 2 {
		t.Errorf("a list at 0 has %d items, want 2: it ignores the limit", len(r.Items))
	}
	want := "Timeout: Too large resource version: 999, current: " + strconv.FormatInt(test.Revision(), 10)
	if r := list(Request{ResourceVersion: "999"}); r.Code != 504 || r.Err.ErrStatus.Message != want {
		t.Errorf("a list of the future: %d %v, want 504 %s", r.Code, r.Err, want)
	}
}

func TestListOrder(t *testing.T) {
	test := newTester(t)
	for _, key := range []string{"a/z", "a-b/a", "ab/a", "a/b"} {
		namespace, name, _ := strings.Cut(key, "/")
		obj := newConfig(name)
		obj.Namespace = namespace
		if err := test.Load(obj); err != nil {
			t.Fatal(err)
		}
	}
	var keys []string
	for _, obj := range test.List(test.kind("ConfigMap"), "") {
		keys = append(keys, obj.GetNamespace()+"/"+obj.GetName())
	}
	if got := strings.Join(keys, " "); got != "a-b/a a/b a/z ab/a" {
		t.Errorf("listed %s, want the order of etcd's keys", got)
	}
}

func TestTransition(t *testing.T) {
	test := newTester(t)
	k := test.kind("ConfigMap")
	obj := test.create(newConfig("a"))
	in := change(test, "", obj, func(c *corev1.ConfigMap) { c.Labels = map[string]string{"in": "1"} }).Object
	out := change(test, "", obj, func(c *corev1.ConfigMap) { c.Labels = nil }).Object
	test.remove(obj, metav1.DeleteOptions{})
	selector := labels.SelectorFromSet(labels.Set{"in": "1"})
	var shown []string
	for _, event := range test.Log(k) {
		if e, ok := k.Transition(event, "default", selector, nil); ok {
			shown = append(shown, e.Type.String()+" "+e.Object.GetResourceVersion()+" "+e.Object.GetLabels()["in"])
		}
	}
	want := "ADDED " + in.GetResourceVersion() + " 1, DELETED " + out.GetResourceVersion() + " 1"
	if got := strings.Join(shown, ", "); got != want {
		t.Errorf("shown %q, want %q", got, want)
	}
}

func TestLoad(t *testing.T) {
	test := newTester(t)
	created := metav1.NewTime(fixedClock().Add(-time.Hour))
	owner := newSet("web", "example.com/hold")
	owner.Namespace, owner.UID, owner.Generation, owner.CreationTimestamp = "apps", "written", 7, created
	owner.DeletionTimestamp = &created
	owner.Status.Replicas = 2
	child := newPod("web-0", "node1")
	child.Namespace = "apps"
	child.OwnerReferences = []metav1.OwnerReference{
		{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web", Controller: new(true)},
	}
	if err := test.LoadAll([]Object{child, owner}); err != nil {
		t.Fatal(err)
	}
	got := test.Get(test.kind("StatefulSet"), "apps", "web").(*appsv1.StatefulSet)
	if got.UID != "written" || got.Generation != 7 || got.Status.Replicas != 2 || !got.CreationTimestamp.Equal(&created) ||
		got.DeletionTimestamp == nil {
		t.Errorf("not kept as written: %+v", got.ObjectMeta)
	}
	if *got.Spec.RevisionHistoryLimit != 10 {
		t.Error("not defaulted")
	}
	pod := test.Get(test.kind("Pod"), "apps", "web-0").(*corev1.Pod)
	if pod.OwnerReferences[0].UID != "written" || pod.Status.Phase != corev1.PodPending || pod.UID == "" {
		t.Errorf("owner %v, phase %s, uid %q", pod.OwnerReferences, pod.Status.Phase, pod.UID)
	}
	if test.Get(test.kind("Namespace"), "", "apps") == nil {
		t.Error("the namespace was not made")
	}
}

func TestLoadErrors(t *testing.T) {
	orphan := newPod("p", "")
	orphan.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web"}}
	unknown := newWidget("w")
	unknown.SetKind("Gadget")
	for name, tt := range map[string]struct {
		obj  Object
		want string
	}{
		"missing owner": {orphan, `Pod default/p: its owner StatefulSet "web" does not exist`},
		"unknown kind":  {unknown, "no such kind"},
		"invalid":       {newConfig("Not A Name"), "is invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := newTester(t).Load(tt.obj); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want something about %q", err, tt.want)
			}
		})
	}
}

func TestNamespaces(t *testing.T) {
	test := newTester(t)
	req := &Request{Verb: schedule.Create, Kind: test.kind("ConfigMap"), Namespace: "nowhere", Object: newConfig("a")}
	if r := test.Do(req); r.Code != 404 || r.Err.ErrStatus.Message != `namespaces "nowhere" not found` {
		t.Errorf("create in a missing namespace: %d %v", r.Code, r.Err)
	}
	for _, name := range []string{"default", "kube-system", "kube-public", "kube-node-lease"} {
		if test.Get(test.kind("Namespace"), "", name) == nil {
			t.Errorf("no namespace %s", name)
		}
	}
}

func TestGaps(t *testing.T) {
	test := newTester(t)
	test.Server = NewServer(loadKinds(V136, goldenCRDs()...), fixedClock)
	if gaps := test.Gaps(); len(gaps) != 0 {
		t.Errorf("a new server has gaps: %q", gaps)
	}
	k, err := test.Kinds().AddUnknown(schema.GroupVersionKind{Group: "x.example.com", Version: "v1", Kind: "Policy"})
	if err != nil || k.Resource != "policies" {
		t.Fatalf("an unknown kind: %v, %v", k, err)
	}
	test.Do(&Request{Verb: schedule.List, Kind: k})
	gaps := strings.Join(test.Gaps(), "\n")
	if !strings.Contains(gaps, "Policy.x.example.com") {
		t.Errorf("gaps: %s", gaps)
	}
}

func TestSnapshot(t *testing.T) {
	test := newTester(t)
	k := test.kind("ConfigMap")
	test.create(newConfig("a"))
	snapshot := test.Snapshot()
	revision := test.Revision()
	a, b := snapshot.NewServer(fixedClock), snapshot.NewServer(fixedClock)
	for _, server := range []*Server{a, b, test.Server} {
		server.Do(&Request{Verb: schedule.Create, Kind: k, Namespace: "default", Object: newConfig("b")})
		server.Do(&Request{Verb: schedule.Delete, Kind: k, Namespace: "default", Name: "a"})
		if server.Revision() != revision+2 || len(server.Log(k)) != 3 || len(server.List(k, "default")) != 1 {
			t.Errorf("revision %d, %d events, %d objects", server.Revision(), len(server.Log(k)), len(server.List(k, "default")))
		}
	}
	if fresh := snapshot.NewServer(fixedClock); fresh.Revision() != revision || fresh.Get(k, "default", "a") == nil {
		t.Error("what came after the snapshot changed it")
	}
	if a.Get(k, "default", "b") == b.Get(k, "default", "b") {
		t.Error("two servers share what each made")
	}
}

// TestWire checks that what is stored is what a reader on the other side of the wire would decode.
func TestWire(t *testing.T) {
	test := newTester(t)
	local := time.Date(2030, 5, 6, 7, 8, 9, 123456789, time.FixedZone("elsewhere", 3600))
	pod := newPod("p", "")
	pod.Labels, pod.Spec.NodeSelector, pod.Spec.Containers[0].Env = map[string]string{}, map[string]string{}, []corev1.EnvVar{}
	stored := test.create(pod)
	response := change(test, "status", stored, func(p *corev1.Pod) {
		p.Status.StartTime = &metav1.Time{Time: local}
		p.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(local)},
		}
		p.Status.PodIPs = []corev1.PodIP{}
	})
	data, err := json.Marshal(response.Object)
	if err != nil {
		t.Fatal(err)
	}
	decoded := &corev1.Pod{}
	if err := json.Unmarshal(data, decoded); err != nil {
		t.Fatal(err)
	}
	got := response.Object.(*corev1.Pod)
	if diff := cmp.Diff(decoded, got); diff != "" {
		t.Errorf("a reader would decode something else (-decoded +stored):\n%s", diff)
	}
	if got.Labels != nil || got.Spec.NodeSelector != nil || got.Spec.Containers[0].Env != nil || got.Status.PodIPs != nil {
		t.Errorf("empty lists or maps were kept: %+v", got)
	}
	if got.Status.StartTime.Location() != time.UTC || got.Status.StartTime.Nanosecond() != 0 {
		t.Errorf("start time %v, want whole seconds in UTC", got.Status.StartTime)
	}
}

func TestScalePatch(t *testing.T) {
	test := newTester(t)
	test.create(newSet("web"))
	response := test.do(&Request{
		Verb: schedule.Patch, Kind: test.kind("StatefulSet"), Namespace: "default", Name: "web", Subresource: "scale",
		PatchType: types.MergePatchType, PatchData: []byte(`{"spec":{"replicas":4}}`),
	})
	set := test.Get(test.kind("StatefulSet"), "default", "web").(*appsv1.StatefulSet)
	if *set.Spec.Replicas != 4 || set.Generation != 2 || response.Object.(*autoscalingv1.Scale).Spec.Replicas != 4 {
		t.Errorf("%d replicas, generation %d, answered %+v", *set.Spec.Replicas, set.Generation, response.Object)
	}
}

func TestPropagation(t *testing.T) {
	policy := func(p metav1.DeletionPropagation) metav1.DeleteOptions {
		return metav1.DeleteOptions{PropagationPolicy: &p}
	}
	foreground := policy(metav1.DeletePropagationForeground)
	tests := []struct {
		name   string
		first  metav1.DeleteOptions
		second *metav1.DeleteOptions
		want   string
	}{
		{"foreground", foreground, nil, "foregroundDeletion"},
		{"orphan", policy(metav1.DeletePropagationOrphan), nil, "orphan"},
		{"orphanDependents", metav1.DeleteOptions{OrphanDependents: new(true)}, nil, "orphan"},
		{"foreground, then orphan", foreground, new(policy(metav1.DeletePropagationOrphan)), "orphan"},
		{"foreground, then nothing", foreground, &metav1.DeleteOptions{}, "foregroundDeletion"},
		{"foreground, then background", foreground, new(policy(metav1.DeletePropagationBackground)), "gone"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			test := newTester(t)
			set := test.create(newSet("web"))
			test.remove(set, tt.first)
			if tt.second != nil {
				test.remove(set, *tt.second)
			}
			got := "gone"
			if left := test.Get(test.kind("StatefulSet"), "default", "web"); left != nil {
				got = strings.Join(left.GetFinalizers(), " ")
			}
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}
