package racer

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

func newSet(replicas int32, change ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	labels := map[string]string{"app": "web"}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: "svc", Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "busybox:1"}}},
			},
		},
	}
	for _, f := range change {
		f(set)
	}
	return set
}

func parallel(set *appsv1.StatefulSet) { set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement }

func onDelete(set *appsv1.StatefulSet) {
	set.Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
}

func minReady(seconds int32) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) { set.Spec.MinReadySeconds = seconds }
}

func withClaim(set *appsv1.StatefulSet) {
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
		ObjectMeta: metav1.ObjectMeta{Name: "data", Labels: map[string]string{"disk": "fast"}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}}
}

func retain(whenDeleted, whenScaled appsv1.PersistentVolumeClaimRetentionPolicyType) func(*appsv1.StatefulSet) {
	return func(set *appsv1.StatefulSet) {
		withClaim(set)
		set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenDeleted: whenDeleted, WhenScaled: whenScaled}
	}
}

const (
	retained = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	deleted  = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
)

// kcm is a cluster in which only the StatefulSet controller runs; the test plays everybody else.
type kcm struct {
	*driver
	env *driverEnv
}

func newKCM(t *testing.T, options StatefulSetControllerOptions) *kcm {
	version := options.Version
	if version == "" {
		version = apiserver.V136
	}
	k := &kcm{driver: newDriver(t, version)}
	k.env = k.start("kcm", NewStatefulSetController(options))
	return k
}

func (k *kcm) set() *appsv1.StatefulSet { return k.get("StatefulSet", "web").(*appsv1.StatefulSet) }

func (k *kcm) pod(name string) *corev1.Pod { return k.get("Pod", name).(*corev1.Pod) }

// ready makes pods Running and Ready.
func (k *kcm) ready(names ...string) {
	for _, name := range names {
		k.setReady(name, "True")
	}
}

func (k *kcm) setReady(name, status string) {
	k.t.Helper()
	k.patchStatus("Pod", name, fmt.Sprintf(
		`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":%q,"lastTransitionTime":%q}]}}`,
		status, k.now.Format(time.RFC3339)))
}

// bind puts a pod on a node, so that a delete leaves it terminating.
func (k *kcm) bind(names ...string) {
	for _, name := range names {
		k.must(k.target("Pod", name).bind(k.pod(name).UID, "node1"))
	}
}

func (k *kcm) remove(name string) { k.must(k.target("Pod", name).delete(deleteNow(k.pod(name).UID))) }

// up creates a set and brings all its pods up.
func (k *kcm) up(set *appsv1.StatefulSet) {
	k.t.Helper()
	k.create("StatefulSet", set)
	k.settle()
	for range *set.Spec.Replicas {
		for _, name := range k.names("Pod") {
			if !podReady(k.pod(name)) {
				k.bind(name)
				k.ready(name)
			}
		}
		k.settle()
	}
	k.writes("kcm")
}

// expect settles and compares what the controller wrote. Names of revisions read "rev".
func (k *kcm) expect(want ...string) {
	k.t.Helper()
	k.settle()
	k.expectSoFar(want...)
}

func (k *kcm) expectSoFar(want ...string) {
	k.t.Helper()
	got := k.writes("kcm")
	for i, call := range got {
		if fields := strings.Fields(call); fields[1] == "ControllerRevision" {
			fields[2] = "rev"
			got[i] = strings.Join(fields, " ")
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		k.t.Errorf("writes of the controller (-want +got):\n%s", diff)
	}
}

// TestOrderedReady follows the write trace of the real controller, v1.36.3, on a set of two with a claim template.
func TestOrderedReady(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	k.create("StatefulSet", newSet(2, withClaim))
	k.expect(
		"Create ControllerRevision rev",
		"Create PersistentVolumeClaim data-web-0",
		"Create Pod web-0",
		"Update StatefulSet/status web {gen=1 repl=0 ready=0 cur=0 upd=0 c=u}",
		"Update StatefulSet/status web {gen=1 repl=1 ready=0 cur=1 upd=1 c=u}")
	k.bind("web-0")
	k.settle()
	k.ready("web-0")
	k.expect(
		"Create PersistentVolumeClaim data-web-1",
		"Create Pod web-1",
		"Update StatefulSet/status web {gen=1 repl=1 ready=1 cur=1 upd=1 c=u}",
		"Update StatefulSet/status web {gen=1 repl=2 ready=1 cur=2 upd=2 c=u}")
	k.bind("web-1")
	k.ready("web-1")
	k.expect("Update StatefulSet/status web {gen=1 repl=2 ready=2 cur=2 upd=2 c=u}")

	k.patch("StatefulSet", "web", `{"spec":{"template":{"metadata":{"annotations":{"v":"2"}}}}}`)
	k.expect(
		"Create ControllerRevision rev",
		"Delete Pod web-1",
		"Update StatefulSet/status web {gen=2 repl=2 ready=2 cur=1 upd=0}")
	k.remove("web-1")
	k.expect(
		"Create Pod web-1",
		"Update StatefulSet/status web {gen=2 repl=1 ready=1 cur=1 upd=0}",
		"Update StatefulSet/status web {gen=2 repl=2 ready=1 cur=1 upd=1}")
	k.bind("web-1")
	k.ready("web-1")
	k.expect(
		"Delete Pod web-0",
		"Update StatefulSet/status web {gen=2 repl=2 ready=2 cur=0 upd=1}")
	k.remove("web-0")
	k.expect(
		"Create Pod web-0",
		"Update StatefulSet/status web {gen=2 repl=1 ready=1 cur=0 upd=1}",
		"Update StatefulSet/status web {gen=2 repl=2 ready=1 cur=0 upd=2}")
	k.bind("web-0")
	k.ready("web-0")
	k.expect("Update StatefulSet/status web {gen=2 repl=2 ready=2 cur=2 upd=2 c=u}")

	k.patch("StatefulSet", "web", `{"spec":{"replicas":0}}`)
	k.expect(
		"Delete Pod web-1",
		"Update StatefulSet/status web {gen=3 repl=2 ready=2 cur=2 upd=2 c=u}",
		"Update StatefulSet/status web {gen=3 repl=2 ready=2 cur=1 upd=1 c=u}")
	k.remove("web-1")
	k.expect(
		"Delete Pod web-0",
		"Update StatefulSet/status web {gen=3 repl=1 ready=1 cur=1 upd=1 c=u}",
		"Update StatefulSet/status web {gen=3 repl=1 ready=1 cur=0 upd=0 c=u}")
	k.remove("web-0")
	k.expect("Update StatefulSet/status web {gen=3 repl=0 ready=0 cur=0 upd=0 c=u}")
}

func TestParallel(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	k.create("StatefulSet", newSet(2, withClaim, parallel))
	k.expect(
		"Create ControllerRevision rev",
		"Create PersistentVolumeClaim data-web-0",
		"Create Pod web-0",
		"Create PersistentVolumeClaim data-web-1",
		"Create Pod web-1",
		"Update StatefulSet/status web {gen=1 repl=0 ready=0 cur=0 upd=0 c=u}",
		"Update StatefulSet/status web {gen=1 repl=2 ready=0 cur=2 upd=2 c=u}")
	k.bind("web-0", "web-1")
	k.ready("web-0", "web-1")
	k.expect("Update StatefulSet/status web {gen=1 repl=2 ready=2 cur=2 upd=2 c=u}")
	k.patch("StatefulSet", "web", `{"spec":{"replicas":0}}`)
	k.expect(
		"Delete Pod web-1",
		"Delete Pod web-0",
		"Update StatefulSet/status web {gen=2 repl=2 ready=2 cur=2 upd=2 c=u}",
		"Update StatefulSet/status web {gen=2 repl=2 ready=2 cur=0 upd=0 c=u}")
}

// TestParallelStopsAfterFailedBatch checks the batches of 1, 2, 4: a failure lets its batch finish, and no more.
func TestParallelStopsAfterFailedBatch(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	blocker := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-1"},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "busybox:1"}}}}
	k.create("Pod", blocker)
	k.create("StatefulSet", newSet(7, parallel))
	k.run(20)
	got := k.writes("kcm")
	want := []string{"Create Pod web-0", "Create Pod web-1 -> 409", "Create Pod web-2"}
	if diff := cmp.Diff(want, got[1:4]); diff != "" || strings.HasPrefix(got[4], "Create") {
		t.Errorf("batches (-want +got):\n%s\n%v", diff, got)
	}
}

func TestTerminatingSetWritesStatusOnly(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	k.up(newSet(1, func(set *appsv1.StatefulSet) { set.Finalizers = []string{"example.com/hold"} }))
	k.delete("StatefulSet", "web", "")
	k.expect("Update StatefulSet/status web {gen=2 repl=1 ready=1 cur=1 upd=1 c=u}")
	k.patch("StatefulSet", "web", `{"spec":{"replicas":2}}`)
	k.expect("Update StatefulSet/status web {gen=3 repl=1 ready=1 cur=1 upd=1 c=u}")
	k.delete("ControllerRevision", k.names("ControllerRevision")[0], "")
	k.patch("StatefulSet", "web", `{"metadata":{"labels":{"wake":"up"}}}`)
	k.expect("Create ControllerRevision rev") // which it makes for a dying set too
}

// TestStatusRetryResendsWhatItComputed lets a user write just before the PUT. It fails, and is sent again with the
// revision that the cache has when the answer comes (the first time still the old one), but always with the status of
// before: observedGeneration stays behind.
func TestStatusRetryResendsWhatItComputed(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	k.up(newSet(1))
	interfered := false
	k.refuse = func(actor string, r *apiserver.Request) *apiserver.Response {
		if actor == "kcm" && r.Subresource == "status" && !interfered {
			interfered = true
			k.patch("StatefulSet", "web", `{"spec":{"replicas":3},"metadata":{"annotations":{"by":"user"}}}`)
		}
		return nil
	}
	k.setReady("web-0", "False")
	k.run(9)
	k.expectSoFar(
		"Update StatefulSet/status web {gen=1 repl=1 ready=0 cur=1 upd=1 c=u} -> 409",
		"Update StatefulSet/status web {gen=1 repl=1 ready=0 cur=1 upd=1 c=u} -> 409",
		"Update StatefulSet/status web {gen=1 repl=1 ready=0 cur=1 upd=1 c=u}")
	set := k.set()
	if set.Generation != 2 || set.Status.ObservedGeneration != 1 || set.Annotations["by"] != "user" {
		t.Errorf("generation %d, observed %d, annotations %v: want 2, 1 and the user's",
			set.Generation, set.Status.ObservedGeneration, set.Annotations)
	}
	k.expect("Update StatefulSet/status web {gen=2 repl=1 ready=0 cur=1 upd=1 c=u}")
}

// TestStatusRetryReadsTheCacheOnly holds the set's informer, so that each of the five tries carries the old revision.
func TestStatusRetryReadsTheCacheOnly(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	k.up(newSet(1))
	k.env.hold("StatefulSet", true)
	k.patch("StatefulSet", "web", `{"metadata":{"annotations":{"by":"user"}}}`)
	k.setReady("web-0", "False")
	begin := k.now
	k.run(1 + 1 + 5 + 4)
	want := slices.Repeat([]string{"Update StatefulSet/status web {gen=1 repl=1 ready=0 cur=1 upd=1 c=u} -> 409"}, 5)
	k.expectSoFar(want...)
	if took := k.now.Sub(begin).Round(time.Millisecond); took != 40*time.Millisecond {
		t.Errorf("five tries took %v, want 40ms", took)
	}
	if last := k.logs[len(k.logs)-1]; !strings.Contains(last, "the object has been modified") {
		t.Errorf("the sync ended with %q", last)
	}
	k.env.hold("StatefulSet", false)
	k.expect("Update StatefulSet/status web {gen=1 repl=1 ready=0 cur=1 upd=1 c=u}")
}

// TestEnsureReady holds one informer at a time behind the controller's own writes.
func TestEnsureReady(t *testing.T) {
	for kind, resource := range map[string]string{
		"Pod": "pods", "StatefulSet": "statefulsets.apps", "PersistentVolumeClaim": "persistentvolumeclaims",
	} {
		t.Run(kind, func(t *testing.T) {
			k := newKCM(t, StatefulSetControllerOptions{})
			k.env.hold(kind, true)
			if kind == "StatefulSet" {
				k.env.hold(kind, false)
				k.after = func(string, *apiserver.Request) { k.env.hold(kind, len(k.calls) > 1) }
			}
			k.create("StatefulSet", newSet(2, withClaim))
			k.settle()
			writes := k.writes("kcm")
			if n := len(slices.DeleteFunc(slices.Clone(writes), func(call string) bool {
				return !strings.HasPrefix(call, "Create Pod ")
			})); n != 1 {
				t.Errorf("%d pods were created on a lagging cache, want 1: %v", n, writes)
			}
			const refused = "is not as new as written version: "
			if last := k.logs[len(k.logs)-1]; !strings.Contains(last, refused) ||
				!strings.HasSuffix(last, "for group resource "+resource) {
				t.Errorf("the sync ended with %q", last)
			}
			k.after = nil
			k.env.hold(kind, false)
			k.settle()
			if k.set().Status.Replicas != 1 {
				t.Errorf("replicas %d after the cache caught up, want 1", k.set().Status.Replicas)
			}
		})
	}
}

// TestDeletesAreNotTracked shows the write trace of a template change on lagging caches: the next sync finds the
// revision in its way and deletes the same pod again.
func TestDeletesAreNotTracked(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	k.up(newSet(2))
	k.env.hold("ControllerRevision", true)
	k.env.hold("Pod", true)
	k.patch("StatefulSet", "web", `{"spec":{"template":{"metadata":{"annotations":{"v":"2"}}}}}`)
	k.expect(
		"Create ControllerRevision rev",
		"Delete Pod web-1",
		"Update StatefulSet/status web {gen=2 repl=2 ready=2 cur=1 upd=0}",
		"Create ControllerRevision rev -> 409",
		"Delete Pod web-1")
}

func TestFailedPodIsReplaced(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	k.up(newSet(1))
	k.patchStatus("Pod", "web-0", `{"status":{"phase":"Failed"}}`)
	k.expect(
		"Delete Pod web-0",
		"Update StatefulSet/status web {gen=1 repl=1 ready=0 cur=1 upd=1 c=u}",
		"Create Pod web-0",
		"Update StatefulSet/status web {gen=1 repl=0 ready=0 cur=0 upd=0 c=u}",
		"Update StatefulSet/status web {gen=1 repl=1 ready=0 cur=1 upd=1 c=u}")
}

// TestUnhealthyCondemned scales down while a condemned pod is broken: only the first unhealthy pod may be deleted.
func TestUnhealthyCondemned(t *testing.T) {
	for _, test := range []struct {
		broken string
		want   []string
	}{
		{"web-2", []string{"Delete Pod web-2"}},
		{"web-1", []string{"Delete Pod web-2"}},
		{"web-0", nil}, // a replica is unavailable: nothing is scaled down
	} {
		k := newKCM(t, StatefulSetControllerOptions{})
		k.up(newSet(3))
		k.setReady(test.broken, "False")
		k.patch("StatefulSet", "web", `{"spec":{"replicas":1}}`)
		k.settle()
		got := slices.DeleteFunc(k.writes("kcm"), func(call string) bool { return !strings.HasPrefix(call, "Delete") })
		if !slices.Equal(got, test.want) {
			t.Errorf("%s is broken: %v, want %v", test.broken, got, test.want)
		}
	}
	k := newKCM(t, StatefulSetControllerOptions{})
	k.up(newSet(3))
	k.setReady("web-1", "False")
	k.setReady("web-2", "False")
	k.patch("StatefulSet", "web", `{"spec":{"replicas":1}}`)
	k.settle()
	if got := k.writes("kcm"); slices.Contains(got, "Delete Pod web-2") {
		t.Errorf("web-2 was deleted though web-1 is unhealthy too: %v", got)
	}
}

// TestErrorsKeepTheStatus lets the creation of a pod fail: the status is written all the same.
func TestErrorsKeepTheStatus(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	k.refuse = func(actor string, r *apiserver.Request) *apiserver.Response {
		if r.Kind.Kind == "Pod" && r.Verb == schedule.Create && len(k.calls) < 5 {
			return forbidden()
		}
		return nil
	}
	k.create("StatefulSet", newSet(1))
	k.run(6)
	k.expectSoFar(
		"Create ControllerRevision rev",
		"Create Pod web-0 -> 403",
		"Update StatefulSet/status web {gen=1 repl=0 ready=0 cur=0 upd=0 c=u}")
	k.settle()
	if k.set().Status.Replicas != 1 {
		t.Errorf("status %+v after the quota was raised", k.set().Status)
	}
}

func forbidden() *apiserver.Response {
	err := &apiserver.Response{Code: http.StatusForbidden}
	err.Err = newStatusError(http.StatusForbidden, metav1.StatusReasonForbidden)
	return err
}

// TestIdentityRetriesFromTheCache lets somebody write to the pod each time the controller puts it.
func TestIdentityRetriesFromTheCache(t *testing.T) {
	for _, times := range []int{2, 9} {
		k := newKCM(t, StatefulSetControllerOptions{})
		k.up(newSet(1))
		conflicts := 0
		k.refuse = func(actor string, r *apiserver.Request) *apiserver.Response {
			if actor == "kcm" && r.Kind.Kind == "Pod" && conflicts < times {
				conflicts++
				k.patch("Pod", "web-0", fmt.Sprintf(`{"metadata":{"annotations":{"n":"%d"}}}`, conflicts))
			}
			return nil
		}
		k.patch("Pod", "web-0", `{"metadata":{"labels":{"apps.kubernetes.io/pod-index":"7"}}}`)
		k.settle()
		pod := k.pod("web-0")
		if pod.Labels[appsv1.PodIndexLabel] != "0" || pod.Annotations["n"] != fmt.Sprint(times) {
			t.Errorf("%d conflicts: labels %v, annotations %v", times, pod.Labels, pod.Annotations)
		}
		if failed := len(k.logs) > 0; failed != (times > 3) {
			t.Errorf("%d conflicts: %q", times, k.logs)
		}
	}
}

// TestAdoptedPodWithoutClaim cannot be brought into line, as its volumes are immutable: the sync fails, again and again.
func TestAdoptedPodWithoutClaim(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	orphan := newTestPod("web-0")
	orphan.Labels = map[string]string{"app": "web"}
	k.create("Pod", orphan)
	k.bind("web-0")
	k.ready("web-0")
	k.create("StatefulSet", newSet(1, withClaim))
	k.settle()
	if last := k.logs[len(k.logs)-1]; !strings.Contains(last, "pod updates may not change fields") {
		t.Errorf("the sync ended with %q", last)
	}
	if k.get("PersistentVolumeClaim", "data-web-0") == nil {
		t.Error("the missing claim was not created")
	}
}

// TestSharedSelector has two sets whose selectors match the same orphan: both are woken, and its name decides.
func TestSharedSelector(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	k.create("StatefulSet", newSet(0))
	k.create("StatefulSet", newSet(0, func(set *appsv1.StatefulSet) { set.Name = "other" }))
	k.settle()
	orphan := newTestPod("other-0")
	orphan.Labels = map[string]string{"app": "web"}
	k.create("Pod", orphan)
	k.writes("kcm")
	k.settle()
	if got := k.writes("kcm"); len(got) < 2 || got[0] != "Patch Pod other-0" || got[1] != "Delete Pod other-0" {
		t.Errorf("writes %v, want the set called other to adopt the pod, and to delete the one too many", got)
	}
}

func TestParseOrdinal(t *testing.T) {
	for name, want := range map[string]string{
		"web-3": "web 3", "my-web-12": "my-web 12", "-1": " 1", "web": " -1", "web-": " -1", "web-x": " -1", "web-1x": " -1",
		"web-99999999999": "web -1", "web-007": "web 7",
	} {
		if parent, ordinal := parseOrdinal(name); fmt.Sprint(parent, " ", ordinal) != want {
			t.Errorf("%s: %q %d, want %s", name, parent, ordinal, want)
		}
	}
}

// TestScaledToZeroWhileAway starts in the middle of a scale-down that the controller has not seen: the set is at 0, its
// last pod terminates, and two writes of the status are due, one at once and one when the pod is gone.
func TestScaledToZeroWhileAway(t *testing.T) {
	d := newDriver(t, apiserver.V136)
	set := newSet(0)
	set.Namespace, set.Generation = "default", 2
	if err := d.server.Load(set.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	revision, err := NewRevision(d.get("StatefulSet", "web").(*appsv1.StatefulSet), 1)
	if err != nil {
		t.Fatal(err)
	}
	pod := newPod(d.get("StatefulSet", "web").(*appsv1.StatefulSet), &set.Spec.Template, revision.Name, 0)
	pod.Spec.NodeName, pod.Status.Phase = "node1", corev1.PodRunning
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: d.now}, new(int64(30))
	if err := d.server.LoadAll([]apiserver.Object{revision, pod}); err != nil {
		t.Fatal(err)
	}
	d.patchStatus("StatefulSet", "web", fmt.Sprintf(`{"status":{"observedGeneration":1,"replicas":1,"currentReplicas":1,`+
		`"updatedReplicas":1,"currentRevision":%q,"updateRevision":%q}}`, revision.Name, revision.Name))
	k := &kcm{driver: d, env: d.start("kcm", NewStatefulSetController(StatefulSetControllerOptions{}))}
	d.start("kubelet", NewKubelet(KubeletOptions{TerminationAfter: 20 * time.Second}))
	begin := d.now
	k.expect(
		"Update StatefulSet/status web {gen=2 repl=1 ready=0 cur=0 upd=0 c=u}",
		"Update StatefulSet/status web {gen=2 repl=0 ready=0 cur=0 upd=0 c=u}")
	if took := d.commit.Sub(begin).Round(time.Second); took != 20*time.Second {
		t.Errorf("the pod was gone after %v, want 20s", took)
	}
}
