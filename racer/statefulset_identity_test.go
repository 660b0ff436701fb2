package racer

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
