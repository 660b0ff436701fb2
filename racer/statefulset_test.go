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
	"k8s.io/apimachinery/pkg/util/intstr"

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

func TestRevisionOfRecreatedPod(t *testing.T) {
	rolling := func(partition int32) appsv1.StatefulSetUpdateStrategy {
		return appsv1.StatefulSetUpdateStrategy{
			Type:          appsv1.RollingUpdateStatefulSetStrategyType,
			RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &partition},
		}
	}
	bare := appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType}
	manual := appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
	odd := rolling(2)
	odd.Type = appsv1.OnDeleteStatefulSetStrategyType
	for _, test := range []struct {
		name     string
		strategy appsv1.StatefulSetUpdateStrategy
		start    int32
		current  int32 // status.currentReplicas
		ordinal  int
		want     bool
	}{
		{"partition 0", rolling(0), 0, 3, 0, false},
		{"below the partition", rolling(2), 0, 0, 1, true},
		{"at the partition", rolling(2), 0, 3, 2, false},
		{"below the partition, from ordinal 5", rolling(2), 5, 0, 6, true},
		{"at the partition, from ordinal 5", rolling(2), 5, 0, 7, false},
		{"no rollingUpdate, dies in mid-rollout", bare, 0, 2, 1, true},
		{"no rollingUpdate, rolled out already", bare, 0, 2, 2, false},
		{"no rollingUpdate, from ordinal 5", bare, 5, 2, 6, true},
		{"OnDelete", manual, 0, 3, 0, false},
		{"OnDelete with a partition", odd, 0, 0, 1, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			set := newSet(3)
			set.Spec.UpdateStrategy, set.Status.CurrentReplicas = test.strategy, test.current
			set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: test.start}
			if got := atCurrentRevision(set, test.ordinal); got != test.want {
				t.Errorf("at the current revision: %t, want %t", got, test.want)
			}
		})
	}
}

// TestPodDiesInMidRollout has an explicit RollingUpdate without its struct: the dead pod comes back old.
func TestPodDiesInMidRollout(t *testing.T) {
	for _, test := range []struct {
		strategy string
		same     bool
	}{
		{`{"type":"RollingUpdate","rollingUpdate":null}`, true},
		{`{"type":"RollingUpdate","rollingUpdate":{"partition":0}}`, false},
	} {
		k := newKCM(t, StatefulSetControllerOptions{})
		k.up(newSet(3, func(set *appsv1.StatefulSet) {
			set.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
		}))
		old := podRevision(k.pod("web-0"))
		k.patch("StatefulSet", "web",
			`{"spec":{"updateStrategy":`+test.strategy+`,"template":{"metadata":{"annotations":{"v":"2"}}}}}`)
		k.settle()
		k.remove("web-2")
		k.settle()
		k.remove("web-0")
		k.settle()
		if got := podRevision(k.pod("web-0")) == old; got != test.same {
			t.Errorf("%s: web-0 came back at the old revision: %t, want %t", test.strategy, got, test.same)
		}
		if podRevision(k.pod("web-2")) == old {
			t.Errorf("%s: web-2 came back at the old revision", test.strategy)
		}
	}
}

func TestCompleteUpdate(t *testing.T) {
	for _, test := range []struct {
		name     string
		version  apiserver.Version
		change   func(*appsv1.StatefulSet)
		status   appsv1.StatefulSetStatus
		complete bool
	}{
		{"all updated", apiserver.V136, func(*appsv1.StatefulSet) {},
			appsv1.StatefulSetStatus{Replicas: 2, ReadyReplicas: 2, UpdatedReplicas: 2}, true},
		{"one not ready", apiserver.V136, func(*appsv1.StatefulSet) {},
			appsv1.StatefulSetStatus{Replicas: 2, ReadyReplicas: 1, UpdatedReplicas: 2}, false},
		{"one too many", apiserver.V136, func(*appsv1.StatefulSet) {},
			appsv1.StatefulSetStatus{Replicas: 3, ReadyReplicas: 3, UpdatedReplicas: 3}, false},
		{"OnDelete in 1.36", apiserver.V136, onDelete,
			appsv1.StatefulSetStatus{Replicas: 2, ReadyReplicas: 2, UpdatedReplicas: 2}, false},
		{"OnDelete in 1.37", apiserver.V137, onDelete,
			appsv1.StatefulSetStatus{Replicas: 2, ReadyReplicas: 2, UpdatedReplicas: 2}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			set := newSet(2, func(set *appsv1.StatefulSet) {
				set.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
			}, test.change)
			status := test.status
			status.CurrentRevision, status.UpdateRevision = "old", "new"
			completeUpdate(set, &status, test.version)
			if got := status.CurrentRevision == "new" && status.CurrentReplicas == 2; got != test.complete {
				t.Errorf("complete: %t, want %t", got, test.complete)
			}
		})
	}
}

// TestRollbackOnDelete is the oracle of the OnDelete story: A, B by hand, back to A.
func TestRollbackOnDelete(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	k.up(newSet(1, onDelete))
	k.patch("StatefulSet", "web", `{"spec":{"template":{"metadata":{"annotations":{"v":"b"}}}}}`)
	k.expect("Create ControllerRevision rev", "Update StatefulSet/status web {gen=2 repl=1 ready=1 cur=1 upd=0}")
	k.remove("web-0")
	k.settle()
	k.bind("web-0")
	k.ready("web-0")
	k.settle()
	if s := k.set().Status; s.CurrentRevision == s.UpdateRevision || s.CurrentReplicas != 0 || s.UpdatedReplicas != 1 {
		t.Errorf("after the manual update: %+v", s)
	}
	k.writes("kcm")
	k.patch("StatefulSet", "web", `{"spec":{"template":{"metadata":{"annotations":null}}}}`)
	k.expect("Update ControllerRevision rev", "Update StatefulSet/status web {gen=3 repl=1 ready=1 cur=0 upd=0 c=u}")
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

func TestMinReadySeconds(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	k.create("StatefulSet", newSet(2, minReady(10)))
	k.settle()
	k.bind("web-0")
	k.ready("web-0")
	k.writes("kcm")
	at := k.now
	for k.set().Status.ReadyReplicas == 0 {
		k.run(1)
	}
	if s := k.set().Status; s.ReadyReplicas != 1 || s.AvailableReplicas != 0 || k.now.Sub(at) > time.Second {
		t.Errorf("after %v: %+v", k.now.Sub(at), s)
	}
	k.settle()
	if s := k.set().Status; s.AvailableReplicas != 1 || len(k.names("Pod")) != 2 {
		t.Errorf("after its ten seconds: %+v, pods %v", s, k.names("Pod"))
	}
}

// TestAvailabilityAtOneInstant lets a pod become available in the middle of a sync: the status says how it was when the sync
// began, and another sync follows at once.
func TestAvailabilityAtOneInstant(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	k.create("StatefulSet", newSet(1, parallel, minReady(10)))
	k.settle()
	k.bind("web-0")
	k.ready("web-0")
	k.patch("StatefulSet", "web", `{"spec":{"replicas":2}}`)
	var statuses []string
	k.after = func(_ string, r *apiserver.Request) {
		if r.Verb == schedule.Create && r.Kind.Kind == "Pod" {
			k.now = k.now.Add(11 * time.Second)
		}
		if r.Subresource == "status" {
			s := r.Object.(*appsv1.StatefulSet).Status
			statuses = append(statuses, fmt.Sprintf("ready=%d available=%d", s.ReadyReplicas, s.AvailableReplicas))
		}
	}
	created := k.now
	k.run(60)
	if len(statuses) < 2 || statuses[0] != "ready=1 available=0" || statuses[len(statuses)-1] != "ready=1 available=1" {
		t.Errorf("statuses %v, want none available at first and one at last", statuses)
	}
	if took := k.now.Sub(created); took > 12*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestNextAvailability(t *testing.T) {
	now := time.Date(2099, 1, 1, 0, 0, 10, 0, time.UTC)
	readySince := func(since time.Time) *corev1.Pod {
		pod := newTestPod("web-0")
		pod.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(since)}}
		return pod
	}
	pods := []*corev1.Pod{
		newTestPod("web-1"), readySince(time.Time{}), readySince(now.Add(-10 * time.Second)),
		readySince(now.Add(-2 * time.Second)), readySince(now.Add(-3 * time.Second)), readySince(now),
	}
	if at, ok := nextAvailability(pods, 10, now); !ok || at.Sub(now) != 7*time.Second {
		t.Errorf("the next pod becomes available in %v (%t), want 7s", at.Sub(now), ok)
	}
	if at, ok := nextAvailability(pods[:3], 10, now); ok {
		t.Errorf("a pod becomes available at %v, want none", at)
	}
}

func TestAvailable(t *testing.T) {
	now := time.Date(2099, 1, 1, 0, 0, 10, 0, time.UTC)
	tests := []struct {
		status   corev1.ConditionStatus
		since    time.Time
		minReady int32
		want     bool
	}{
		{corev1.ConditionTrue, now.Add(-10 * time.Second), 10, true},
		{corev1.ConditionTrue, now.Add(-9 * time.Second), 10, false},
		{corev1.ConditionFalse, now.Add(-time.Hour), 10, false},
		{corev1.ConditionFalse, time.Time{}, 0, false},
		{corev1.ConditionTrue, time.Time{}, 0, true},
		{corev1.ConditionTrue, time.Time{}, 10, false}, // it has no lastTransitionTime to count from
	}
	for _, test := range tests {
		pod := newTestPod("web-0")
		pod.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodReady, Status: test.status, LastTransitionTime: metav1.NewTime(test.since)}}
		if got := available(pod, test.minReady, now); got != test.want {
			t.Errorf("Ready=%s since %v, minReadySeconds %d: available %t", test.status, test.since, test.minReady, got)
		}
	}
}

func TestTruncateHistory(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	k.up(newSet(1, func(set *appsv1.StatefulSet) { set.Spec.RevisionHistoryLimit = new(int32(1)) }))
	for v := range 3 {
		k.patch("StatefulSet", "web", fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"v":"%d"}}}}}`, v))
		k.settle()
		if name := "web-0"; k.get("Pod", name) != nil && terminating(k.pod(name)) {
			k.remove(name)
			k.settle()
		}
		k.bind("web-0")
		k.ready("web-0")
		k.settle()
	}
	var numbers []int64
	for _, obj := range k.server.List(k.kind("ControllerRevision"), "default") {
		numbers = append(numbers, obj.(*appsv1.ControllerRevision).Revision)
	}
	slices.Sort(numbers)
	if !slices.Equal(numbers, []int64{3, 4}) {
		t.Errorf("revisions %v are left, want the live one and one more", numbers)
	}
}

func TestRevisionCollision(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	other := newSet(1)
	other.Spec.Template.Annotations = map[string]string{"v": "other"}
	k.create("StatefulSet", newSet(0))
	stored := k.set()
	taken, err := NewRevision(stored, 1)
	if err != nil {
		t.Fatal(err)
	}
	name := taken.Name
	data, err := revisionData(other)
	if err != nil {
		t.Fatal(err)
	}
	taken.Data.Raw, taken.OwnerReferences, taken.Labels = data, nil, nil
	k.create("ControllerRevision", taken)
	k.expect(
		"Create ControllerRevision rev -> 409",
		"Create ControllerRevision rev",
		"Update StatefulSet/status web {gen=1 repl=0 ready=0 cur=0 upd=0 c=u}")
	if s := k.set().Status; *s.CollisionCount != 1 || s.UpdateRevision == name {
		t.Errorf("status %+v after a collision with %s", s, name)
	}
}

// TestRevisionSemanticallyEqual gives the set a revision whose data lack a default: no new revision, no rollout.
func TestRevisionSemanticallyEqual(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	k.create("StatefulSet", newSet(0))
	revision, err := NewRevision(k.set(), 7)
	if err != nil {
		t.Fatal(err)
	}
	raw := strings.Replace(string(revision.Data.Raw), `"dnsPolicy":"ClusterFirst",`, "", 1)
	if raw == string(revision.Data.Raw) {
		t.Fatalf("no default to leave out in %s", raw)
	}
	revision.Data.Raw = []byte(raw)
	k.create("ControllerRevision", revision)
	k.expect("Update StatefulSet/status web {gen=1 repl=0 ready=0 cur=0 upd=0 c=u}")
	if got := k.set().Status.UpdateRevision; got != revision.Name {
		t.Errorf("update revision %s, want %s", got, revision.Name)
	}
}

// TestRevisionRenumberConflict lets somebody write the old revision between the controller's read and its PUT.
func TestRevisionRenumberConflict(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	k.up(newSet(0))
	first := k.names("ControllerRevision")[0]
	k.patch("StatefulSet", "web", `{"spec":{"template":{"metadata":{"annotations":{"v":"2"}}}}}`)
	k.settle()
	k.writes("kcm")
	done := false
	k.refuse = func(actor string, r *apiserver.Request) *apiserver.Response {
		if actor == "kcm" && r.Kind.Kind == "ControllerRevision" && !done {
			done = true
			k.patch("ControllerRevision", first, `{"metadata":{"annotations":{"by":"user"}}}`)
		}
		return nil
	}
	k.patch("StatefulSet", "web", `{"spec":{"template":{"metadata":{"annotations":null}}}}`)
	k.expect(
		"Update ControllerRevision rev -> 409",
		"Update ControllerRevision rev -> 409", // the cache has it only now
		"Update ControllerRevision rev",
		"Update StatefulSet/status web {gen=3 repl=0 ready=0 cur=0 upd=0 c=u}")
	revision := k.get("ControllerRevision", first).(*appsv1.ControllerRevision)
	if revision.Revision != 3 || revision.Annotations["by"] != "user" {
		t.Errorf("revision %d, annotations %v", revision.Revision, revision.Annotations)
	}
}

// TestRevisionRenumberedBefore has a second sync renumber a revision again, as its cache lacks the first sync's write. When
// the cache shows it after the conflict, there is nothing left to write.
func TestRevisionRenumberedBefore(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	k.up(newSet(0))
	k.patch("StatefulSet", "web", `{"spec":{"template":{"metadata":{"annotations":{"v":"2"}}}}}`)
	k.settle()
	k.writes("kcm")
	k.env.hold("ControllerRevision", true)
	k.after = func(_ string, r *apiserver.Request) {
		if r.Kind.Kind == "StatefulSet" && r.Subresource == "status" {
			k.after = func(_ string, r *apiserver.Request) { k.env.hold("ControllerRevision", r.Verb != schedule.Update) }
		}
	}
	k.patch("StatefulSet", "web", `{"spec":{"template":{"metadata":{"annotations":null}}}}`)
	k.expect(
		"Update ControllerRevision rev",
		"Update StatefulSet/status web {gen=3 repl=0 ready=0 cur=0 upd=0 c=u}",
		"Update ControllerRevision rev -> 409",
		"Update ControllerRevision rev -> 409") // the cache has it only now
}

func TestAdoption(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	orphan := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-0", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "busybox:1"}}},
	}
	stranger := orphan.DeepCopy()
	stranger.Name = "other-0"
	k.create("Pod", orphan)
	k.create("Pod", stranger)
	k.create("StatefulSet", newSet(1))
	k.settle()
	reads := slices.DeleteFunc(slices.Clone(k.calls), func(call string) bool { return !strings.HasPrefix(call, "kcm Get") })
	if len(reads) != 1 {
		t.Errorf("live reads before adopting: %v, want one", reads)
	}
	if ref := metav1.GetControllerOf(k.pod("web-0")); ref == nil || ref.UID != k.set().UID {
		t.Errorf("web-0 is controlled by %v", ref)
	}
	if ref := metav1.GetControllerOf(k.pod("other-0")); ref != nil {
		t.Errorf("other-0 was adopted by %v", ref)
	}
}

// TestNoAdoptionForADyingSet has a set that is deleted when the live read comes.
func TestNoAdoptionForADyingSet(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	k.up(newSet(1, func(set *appsv1.StatefulSet) { set.Finalizers = []string{"example.com/hold"} }))
	k.env.hold("StatefulSet", true)
	k.delete("StatefulSet", "web", "")
	k.patch("Pod", "web-0", `{"metadata":{"ownerReferences":null}}`)
	k.expect() // nothing
	if last := k.logs[len(k.logs)-1]; !strings.Contains(last, "can't adopt Pod default/web-0") {
		t.Errorf("the sync ended with %q", last)
	}
}

func TestIdentityIsRestored(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	k.up(newSet(1))
	k.patch("Pod", "web-0", `{"metadata":{"labels":{"apps.kubernetes.io/pod-index":"7"}}}`)
	k.expect("Update Pod web-0")
	if got := k.pod("web-0").Labels[appsv1.PodIndexLabel]; got != "0" {
		t.Errorf("pod index %s", got)
	}
}

// TestIdentityIncludesName adopts a pod whose name is not the one its ordinal has: the controller tries to rename it.
func TestIdentityIncludesName(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	orphan := newTestPod("web-01")
	orphan.Labels = map[string]string{
		"app": "web", appsv1.StatefulSetPodNameLabel: "web-01", appsv1.PodIndexLabel: "1"}
	k.create("Pod", orphan)
	k.create("StatefulSet", newSet(2, parallel))
	k.run(200)
	want := []string{"Patch Pod web-01", "Create ControllerRevision", "Create Pod web-0", "Update Pod web-1 -> 404"}
	got := k.writes("kcm")
	for _, call := range got {
		if len(want) > 0 && strings.HasPrefix(call, want[0]) {
			want = want[1:]
		}
	}
	if len(want) > 0 {
		t.Errorf("no %q in the writes:\n%s", want[0], strings.Join(got, "\n"))
	}
}

func TestNewPod(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	k.up(newSet(1, withClaim, func(set *appsv1.StatefulSet) {
		set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 3}
		set.Spec.Template.Annotations = map[string]string{"note": "x"}
		set.Spec.Template.Finalizers = []string{"example.com/hold"}
	}))
	pod, set := k.pod("web-3"), k.set()
	want := map[string]string{
		"app": "web", "statefulset.kubernetes.io/pod-name": "web-3", "apps.kubernetes.io/pod-index": "3",
		"controller-revision-hash": set.Status.UpdateRevision,
	}
	if diff := cmp.Diff(want, pod.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if pod.Spec.Hostname != "web-3" || pod.Spec.Subdomain != "svc" || pod.GenerateName != "web-" ||
		pod.Annotations["note"] != "x" || !hasFinalizer(pod, "example.com/hold") ||
		pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName != "data-web-3" {
		t.Errorf("pod %s", encode(t, pod))
	}
	claim := k.get("PersistentVolumeClaim", "data-web-3").(*corev1.PersistentVolumeClaim)
	if diff := cmp.Diff(map[string]string{"app": "web", "disk": "fast"}, claim.Labels); diff != "" {
		t.Errorf("labels of the claim (-want +got):\n%s", diff)
	}
	revision := k.get("ControllerRevision", set.Status.UpdateRevision).(*appsv1.ControllerRevision)
	if revision.Labels["app"] != "web" || revision.Name != "web-"+revision.Labels[revisionHashLabel] {
		t.Errorf("revision %s has labels %v", revision.Name, revision.Labels)
	}
}

// TestClaimBeingDeleted follows a claim that is deleted under a pod: once the pod is gone, the sync fails for good.
func TestClaimBeingDeleted(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	k.up(newSet(1, withClaim))
	k.patch("PersistentVolumeClaim", "data-web-0", `{"metadata":{"finalizers":["example.com/hold"]}}`)
	k.delete("PersistentVolumeClaim", "data-web-0", "")
	k.remove("web-0")
	k.settle()
	if last := k.logs[len(k.logs)-1]; !strings.Contains(last, "pvc data-web-0 is being deleted") {
		t.Errorf("the sync ended with %q", last)
	}
	if k.get("Pod", "web-0") != nil {
		t.Error("the pod was created although its claim is being deleted")
	}
	if s := k.set().Status; s.Replicas != 0 {
		t.Errorf("the status was not written in spite of the error: %+v", s)
	}
	k.patch("PersistentVolumeClaim", "data-web-0", `{"metadata":{"finalizers":null}}`)
	k.settle()
	if k.get("Pod", "web-0") == nil {
		t.Error("no pod after the claim had gone")
	}
}

func TestClaimRetention(t *testing.T) {
	const set, pod = "StatefulSet", "Pod"
	for _, test := range []struct {
		name                    string
		whenDeleted, whenScaled appsv1.PersistentVolumeClaimRetentionPolicyType
		inRange, condemned      []string // owners of the claim
	}{
		{"retain", retained, retained, nil, nil},
		{"delete with the set", deleted, retained, []string{set}, []string{set}},
		{"delete with the pod", retained, deleted, nil, []string{pod}},
		{"delete with both", deleted, deleted, []string{set}, []string{pod}},
	} {
		t.Run(test.name, func(t *testing.T) {
			k := newKCM(t, StatefulSetControllerOptions{})
			k.up(newSet(2, retain(test.whenDeleted, test.whenScaled)))
			owners := func() []string {
				var kinds []string
				for _, ref := range k.get("PersistentVolumeClaim", "data-web-1").GetOwnerReferences() {
					kinds = append(kinds, ref.Kind)
				}
				return kinds
			}
			if got := owners(); !slices.Equal(got, test.inRange) {
				t.Errorf("owners in range %v, want %v", got, test.inRange)
			}
			k.patch("StatefulSet", "web", `{"spec":{"replicas":1}}`)
			k.settle()
			if got := owners(); !slices.Equal(got, test.condemned) {
				t.Errorf("owners when condemned %v, want %v", got, test.condemned)
			}
		})
	}
}

// TestStaleClaimBlocksPod scales down and up again before the claim of the old pod is collected.
func TestStaleClaimBlocksPod(t *testing.T) {
	k := newKCM(t, StatefulSetControllerOptions{})
	k.up(newSet(1, retain(retained, deleted)))
	k.patch("StatefulSet", "web", `{"spec":{"replicas":0}}`)
	k.settle()
	k.remove("web-0")
	k.settle()
	k.patch("StatefulSet", "web", `{"spec":{"replicas":1}}`)
	k.settle()
	if k.get("Pod", "web-0") != nil {
		t.Error("the pod was created on a claim that belongs to its predecessor")
	}
	k.delete("PersistentVolumeClaim", "data-web-0", "")
	k.patch("StatefulSet", "web", `{"metadata":{"labels":{"wake":"up"}}}`) // claims wake nobody
	k.settle()
	if k.get("Pod", "web-0") == nil {
		t.Error("no pod after the claim had gone")
	}
}

func TestClaimOwnersMatch(t *testing.T) {
	set := newSet(1, retain(deleted, deleted))
	set.UID = "set"
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", UID: "pod"}}
	own := *metav1.NewControllerRef(set, setGVK)
	loose := own
	loose.Controller = nil
	stale := own
	stale.UID = "predecessor"
	foreign := metav1.OwnerReference{APIVersion: "v1", Kind: "Tool", Name: "x", UID: "x", Controller: new(true)}
	for _, test := range []struct {
		name  string
		refs  []metav1.OwnerReference
		match bool
		after []metav1.OwnerReference
	}{
		{"right", []metav1.OwnerReference{own}, true, []metav1.OwnerReference{own}},
		{"missing", nil, false, []metav1.OwnerReference{own}},
		{"not as a controller", []metav1.OwnerReference{loose}, false, []metav1.OwnerReference{own}},
		{"stale: left alone", []metav1.OwnerReference{stale}, true, nil},
		{"foreign controller: left alone", []metav1.OwnerReference{foreign}, true, nil},
		{"foreign controller and ours: ours goes", []metav1.OwnerReference{foreign, loose}, false,
			[]metav1.OwnerReference{foreign}},
		{"the pod while in range", []metav1.OwnerReference{own, *metav1.NewControllerRef(pod, podGVK)}, false,
			[]metav1.OwnerReference{own}},
	} {
		t.Run(test.name, func(t *testing.T) {
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{OwnerReferences: test.refs}}
			if got := claimOwnersMatch(claim, set, pod); got != test.match {
				t.Errorf("match: %t, want %t", got, test.match)
			}
			if test.after == nil {
				return
			}
			if diff := cmp.Diff(test.after, withOwners(claim, set, pod).OwnerReferences); diff != "" {
				t.Errorf("owners (-want +got):\n%s", diff)
			}
		})
	}
}

// TestMaxUnavailable plays 1.37, where several pods may be updated at a time.
func TestMaxUnavailable(t *testing.T) {
	for _, test := range []struct {
		name   string
		budget intstr.IntOrString
		change func(*appsv1.StatefulSet)
		broken string
		want   []string
	}{
		{"default", intstr.FromInt32(1), func(*appsv1.StatefulSet) {}, "", []string{"web-3"}},
		{"two", intstr.FromInt32(2), func(*appsv1.StatefulSet) {}, "", []string{"web-3", "web-2"}},
		{"half", intstr.FromString("50%"), func(*appsv1.StatefulSet) {}, "", []string{"web-3", "web-2"}},
		{"rounded down to none counts as one", intstr.FromString("10%"), func(*appsv1.StatefulSet) {}, "",
			[]string{"web-3"}},
		{"parallel: broken first, then the budget", intstr.FromInt32(2), parallel, "web-1", []string{"web-1", "web-3"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			k := newKCM(t, StatefulSetControllerOptions{Version: apiserver.V137})
			k.up(newSet(4, test.change, func(set *appsv1.StatefulSet) {
				set.Spec.UpdateStrategy.Type = appsv1.RollingUpdateStatefulSetStrategyType
				set.Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{
					Partition: new(int32(0)), MaxUnavailable: &test.budget}
			}))
			if test.broken != "" {
				k.setReady(test.broken, "False")
			}
			k.settle()
			k.writes("kcm")
			k.patch("StatefulSet", "web", `{"spec":{"template":{"metadata":{"annotations":{"v":"2"}}}}}`)
			k.settle()
			var got []string
			for _, call := range k.writes("kcm") {
				if name, ok := strings.CutPrefix(call, "Delete Pod "); ok {
					got = append(got, name)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("deleted %v, want %v", got, test.want)
			}
		})
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
