package racer

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

func newTestPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "busybox:1"}}},
	}
}

// podLife records when a pod's phase, readiness and existence change, in whole seconds from the start of the recording.
func podLife(d *driver, name string) func() []string {
	begin, last := d.now, ""
	var life []string
	d.after = func(string, *apiserver.Request) {
		state := "gone"
		if pod, ok := d.get("Pod", name).(*corev1.Pod); ok {
			state = string(pod.Status.Phase)
			if podReady(pod) {
				state += " ready"
			}
			if terminating(pod) {
				state += " terminating"
			}
		}
		if state != last {
			last = state
			life = append(life, d.now.Sub(begin).Round(time.Second).String()+" "+state)
		}
	}
	return func() []string { return life }
}

func TestKubelet(t *testing.T) {
	grace := func(seconds int64) func(*corev1.Pod) {
		return func(pod *corev1.Pod) { pod.Spec.TerminationGracePeriodSeconds = &seconds }
	}
	asIs := func(*corev1.Pod) {}
	for _, test := range []struct {
		name    string
		options KubeletOptions
		change  func(*corev1.Pod)
		want    []string
	}{
		{"without delays", KubeletOptions{}, asIs, []string{
			"0s Pending", "0s Running ready", "0s Running ready terminating", "0s Running terminating",
			"0s Succeeded terminating", "0s gone"}},
		{"with delays", KubeletOptions{ReadyAfter: 2 * time.Second, TerminationAfter: 20 * time.Second}, asIs, []string{
			"0s Pending", "0s Running", "2s Running ready", "2s Running ready terminating", "22s Running terminating",
			"22s Succeeded terminating", "22s gone"}},
		{"killed after the grace period", KubeletOptions{TerminationAfter: time.Hour}, grace(10), []string{
			"0s Pending", "0s Running ready", "0s Running ready terminating", "10s Running terminating",
			"10s Failed terminating", "10s gone"}},
		{"wedged", KubeletOptions{Wedged: []string{"p"}}, asIs, []string{
			"0s Pending", "0s Running ready", "0s Running ready terminating"}},
		{"wedged, with its namespace", KubeletOptions{Wedged: []string{"default/p"}}, asIs, []string{
			"0s Pending", "0s Running ready", "0s Running ready terminating"}},
		{"held by a finalizer", KubeletOptions{}, func(pod *corev1.Pod) { pod.Finalizers = []string{"example.com/hold"} },
			[]string{"0s Pending", "0s Running ready", "0s Running ready terminating", "0s Running terminating",
				"0s Succeeded terminating"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDriver(t, apiserver.V136)
			test.options.Binds = true
			d.start("kubelet", NewKubelet(test.options))
			life := podLife(d, "p")
			pod := newTestPod("p")
			test.change(pod)
			d.create("Pod", pod)
			for p := d.get("Pod", "p").(*corev1.Pod); !podReady(p) && d.step(); p = d.get("Pod", "p").(*corev1.Pod) {
			}
			d.delete("Pod", "p", "")
			d.settle()
			if diff := cmp.Diff(test.want, life()); diff != "" {
				t.Errorf("life of the pod (-want +got):\n%s", diff)
			}
		})
	}
}

// TestKubeletGivenTerminating starts with a pod that is terminating already: it has its whole time from the start.
func TestKubeletGivenTerminating(t *testing.T) {
	d := newDriver(t, apiserver.V136)
	d.create("Pod", newTestPod("p"))
	d.must(d.target("Pod", "p").bind(d.get("Pod", "p").GetUID(), "node1"))
	d.delete("Pod", "p", "")
	d.now = d.now.Add(25 * time.Second)
	d.start("kubelet", NewKubelet(KubeletOptions{TerminationAfter: 20 * time.Second}))
	life := podLife(d, "p")
	d.settle()
	want := []string{"20s Pending terminating", "20s Succeeded terminating", "20s gone"}
	if diff := cmp.Diff(want, life()); diff != "" {
		t.Errorf("life of the pod (-want +got):\n%s", diff)
	}
}

// TestKubeletKeepsTransitionTimes checks the conditions of a pod over its life.
func TestKubeletKeepsTransitionTimes(t *testing.T) {
	d := newDriver(t, apiserver.V136)
	d.start("kubelet", NewKubelet(KubeletOptions{Binds: true, ReadyAfter: 5 * time.Second}))
	d.create("Pod", newTestPod("p"))
	d.settle()
	pod := d.get("Pod", "p").(*corev1.Pod)
	initialized, ready := podCondition(pod, corev1.PodInitialized), podCondition(pod, corev1.PodReady)
	if took := ready.LastTransitionTime.Sub(initialized.LastTransitionTime.Time); took != 5*time.Second {
		t.Errorf("ready %v after initialized, want 5s", took)
	}
	if podCondition(pod, corev1.PodScheduled) == nil || pod.Status.QOSClass == "" {
		t.Errorf("the status lost what others wrote: %s", encode(t, pod.Status))
	}
	if s := pod.Status.ContainerStatuses; len(s) != 1 || !s[0].Ready || s[0].State.Running == nil {
		t.Errorf("container statuses %s", encode(t, s))
	}
}

// TestKubeletMissesRecreatedPod recreates a pod between the kubelet's look and its calls: the successor is left alone.
func TestKubeletMissesRecreatedPod(t *testing.T) {
	d := newDriver(t, apiserver.V136)
	d.start("kubelet", NewKubelet(KubeletOptions{}))
	d.create("Pod", newTestPod("p"))
	d.must(d.target("Pod", "p").bind(d.get("Pod", "p").GetUID(), "node1"))
	d.settle()
	recreated := false
	d.refuse = func(actor string, r *apiserver.Request) *apiserver.Response {
		if actor == "kubelet" && !recreated {
			recreated = true
			d.must(d.target("Pod", "p").delete(deleteNow(d.get("Pod", "p").GetUID())))
			d.create("Pod", newTestPod("p"))
		}
		return nil
	}
	d.delete("Pod", "p", "")
	d.settle()
	if pod, ok := d.get("Pod", "p").(*corev1.Pod); !ok || pod.Status.Phase != corev1.PodPending {
		t.Errorf("the successor was touched: %v", d.calls)
	}
}

func TestScheduler(t *testing.T) {
	d := newDriver(t, apiserver.V136)
	d.start("scheduler", NewScheduler(SchedulerOptions{}))
	d.create("Pod", newTestPod("p0"))
	d.settle()
	if got := d.writes("scheduler"); !slices.Equal(got, []string{"Patch Pod/status p0"}) {
		t.Errorf("without nodes: %v", got)
	}
	for _, name := range []string{"n2", "n1"} {
		node := d.target("Node", name)
		node.namespace = ""
		d.must(node.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
		d.settle()
	}
	for _, name := range []string{"p1", "p2", "p3"} {
		d.create("Pod", newTestPod(name))
	}
	d.settle()
	var nodes []string
	for _, name := range d.names("Pod") {
		nodes = append(nodes, d.get("Pod", name).(*corev1.Pod).Spec.NodeName)
	}
	if strings.Join(nodes, " ") != "n2 n2 n1 n2" {
		t.Errorf("pods were put on %v", nodes)
	}
	if scheduled := podCondition(d.get("Pod", "p0").(*corev1.Pod), corev1.PodScheduled); scheduled.Status != "True" {
		t.Errorf("p0: %v", scheduled)
	}
}

func TestSchedulerNodesByName(t *testing.T) {
	d := newDriver(t, apiserver.V136)
	d.start("scheduler", NewScheduler(SchedulerOptions{Nodes: []string{"a", "b"}}))
	d.start("kubelet", NewKubelet(KubeletOptions{}))
	for _, name := range []string{"p1", "p2", "p3"} {
		d.create("Pod", newTestPod(name))
	}
	d.settle()
	for name, node := range map[string]string{"p1": "a", "p2": "b", "p3": "a"} {
		pod := d.get("Pod", name).(*corev1.Pod)
		if pod.Spec.NodeName != node || !runningAndReady(pod) {
			t.Errorf("%s is on %q, %s", name, pod.Spec.NodeName, pod.Status.Phase)
		}
	}
}

func TestVolumeBinder(t *testing.T) {
	d := newDriver(t, apiserver.V136)
	d.start("volumes", NewVolumeBinder())
	d.start("kubelet", NewKubelet(KubeletOptions{Binds: true}))
	claim := newClaim(newSet(1), &newSet(1, withClaim).Spec.VolumeClaimTemplates[0], 0)
	d.create("PersistentVolumeClaim", claim)
	pod := newTestPod("p")
	pod.Spec.Volumes = volumesFor(newSet(1, withClaim), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0"}})
	d.create("Pod", pod)
	d.settle()
	bound := d.get("PersistentVolumeClaim", claim.Name).(*corev1.PersistentVolumeClaim)
	if bound.Status.Phase != corev1.ClaimBound || bound.Status.Capacity.Storage().String() != "1Gi" {
		t.Errorf("status %s", encode(t, bound.Status))
	}
	if !hasFinalizer(bound, protectionFinalizer) {
		d.patch("PersistentVolumeClaim", claim.Name, `{"metadata":{"finalizers":["`+protectionFinalizer+`"]}}`)
	}
	d.delete("PersistentVolumeClaim", claim.Name, "")
	d.settle()
	if d.get("PersistentVolumeClaim", claim.Name) == nil {
		t.Fatal("the claim went although a pod uses it")
	}
	d.delete("Pod", "p", "")
	d.settle()
	if d.get("PersistentVolumeClaim", claim.Name) != nil {
		t.Error("the claim stayed after its pod had gone")
	}
}
