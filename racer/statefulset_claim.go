package racer

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

var podGVK = corev1.SchemeGroupVersion.WithKind("Pod")

func claimName(set *appsv1.StatefulSet, template *corev1.PersistentVolumeClaim, ordinal int) string {
	return fmt.Sprintf("%s-%s-%d", template.Name, set.Name, ordinal)
}

// newClaim returns the claim of one ordinal. Its labels are the template's, overlaid with the set's selector.
func newClaim(set *appsv1.StatefulSet, template *corev1.PersistentVolumeClaim, ordinal int) *corev1.PersistentVolumeClaim {
	claim := template.DeepCopy()
	claim.Name, claim.Namespace = claimName(set, template, ordinal), set.Namespace
	claim.Labels = cloned(claim.Labels)
	maps.Copy(claim.Labels, set.Spec.Selector.MatchLabels)
	return claim
}

// retention returns whether claims go with the set (on deletion) and with their pod (on scale-down).
func retention(set *appsv1.StatefulSet) (withSet, withPod bool) {
	policy := set.Spec.PersistentVolumeClaimRetentionPolicy
	if policy == nil {
		return false, false
	}
	return policy.WhenDeleted == appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
		policy.WhenScaled == appsv1.DeletePersistentVolumeClaimRetentionPolicyType
}

// wantedOwners returns whether the set and the pod should own the pod's claim. A pod owns it only while it is condemned,
// so that the claim goes with it.
func wantedOwners(set *appsv1.StatefulSet, pod *corev1.Pod) (bySet, byPod bool) {
	withSet, withPod := retention(set)
	condemned := !inRange(set, ordinalOf(pod))
	byPod = withPod && condemned
	return withSet && !byPod, byPod
}

func refersTo(ref *metav1.OwnerReference, owner metav1.Object, gvk schema.GroupVersionKind) bool {
	return ref.APIVersion == gvk.GroupVersion().String() && ref.Kind == gvk.Kind && ref.Name == owner.GetName()
}

// staleOwner reports whether a claim refers to a predecessor of the owner: same kind and name, another UID.
func staleOwner(claim *corev1.PersistentVolumeClaim, owner metav1.Object, gvk schema.GroupVersionKind) bool {
	for i := range claim.OwnerReferences {
		if refersTo(&claim.OwnerReferences[i], owner, gvk) {
			return claim.OwnerReferences[i].UID != owner.GetUID()
		}
	}
	return false
}

// staleClaim reports whether a claim waits for the garbage collector because its last pod, or set, has gone.
func staleClaim(claim *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	return staleOwner(claim, set, setGVK) || staleOwner(claim, pod, podGVK)
}

func ownedBy(claim *corev1.PersistentVolumeClaim, owner metav1.Object) bool {
	return slices.ContainsFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return ref.UID == owner.GetUID()
	})
}

func isController(ref *metav1.OwnerReference) bool { return ref.Controller != nil && *ref.Controller }

// foreignController reports whether somebody but the set and the pod controls a claim that a policy would delete.
func foreignController(claim *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	if withSet, withPod := retention(set); !withSet && !withPod {
		return false
	}
	return slices.ContainsFunc(claim.OwnerReferences, func(ref metav1.OwnerReference) bool {
		switch {
		case refersTo(&ref, set, setGVK):
			return ref.UID != set.UID
		case refersTo(&ref, pod, podGVK):
			return ref.UID != pod.UID
		default:
			return isController(&ref)
		}
	})
}

// claimOwnersMatch reports whether the owners of a claim are as the set's retention policy wants them, or must be left
// alone: claims with stale owners and, where neither the set nor the pod owns them too, with a foreign controller.
func claimOwnersMatch(claim *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	if staleClaim(claim, set, pod) {
		return true
	}
	if foreignController(claim, set, pod) {
		return !ownedBy(claim, set) && !ownedBy(claim, pod)
	}
	for i := range claim.OwnerReferences {
		ref := &claim.OwnerReferences[i]
		if (ref.UID == set.UID || ref.UID == pod.UID) && !isController(ref) {
			return false
		}
	}
	bySet, byPod := wantedOwners(set, pod)
	return ownedBy(claim, set) == bySet && ownedBy(claim, pod) == byPod
}

// withOwners returns a copy of a claim with the owners that the set's retention policy wants.
func withOwners(
	claim *corev1.PersistentVolumeClaim, set *appsv1.StatefulSet, pod *corev1.Pod,
) *corev1.PersistentVolumeClaim {
	foreign := foreignController(claim, set, pod)
	changed := *claim
	changed.OwnerReferences = slices.DeleteFunc(slices.Clone(claim.OwnerReferences), func(ref metav1.OwnerReference) bool {
		return refersTo(&ref, set, setGVK) || refersTo(&ref, pod, podGVK)
	})
	if foreign {
		return &changed
	}
	bySet, byPod := wantedOwners(set, pod)
	if bySet && !ownedBy(&changed, set) {
		changed.OwnerReferences = append(changed.OwnerReferences, *metav1.NewControllerRef(set, setGVK))
	}
	if byPod && !ownedBy(&changed, pod) {
		changed.OwnerReferences = append(changed.OwnerReferences, *metav1.NewControllerRef(pod, podGVK))
	}
	return &changed
}
