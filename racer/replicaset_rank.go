package racer

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// toDelete returns n of the active pods, those first that are missed least: getPodsToDelete.
func (s *replicaSync) toDelete(n int) []*corev1.Pod {
	if n == len(s.active) {
		return s.active
	}
	now, onNode := s.c.env.Now(), s.crowds()
	ranked := slices.Clone(s.active)
	slices.SortStableFunc(ranked, func(a, b *corev1.Pod) int { return compareForDeletion(a, b, onNode, now) })
	return ranked[:n]
}

// crowds counts the active pods on each node that belong to the set or to others of the same controller.
func (s *replicaSync) crowds() map[string]int {
	onNode, seen := map[string]int{}, map[types.UID]bool{}
	for _, set := range s.c.siblings(s.set) {
		selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
		if err != nil {
			continue
		}
		for _, obj := range s.c.pods.List(set.Namespace) {
			pod := obj.(*corev1.Pod)
			if seen[pod.UID] || !selector.Matches(labels.Set(pod.Labels)) {
				continue
			}
			seen[pod.UID] = true
			if !terminal(pod) && !terminating(pod) {
				onNode[pod.Spec.NodeName]++
			}
		}
	}
	return onNode
}

// compareForDeletion puts the pod first that is rather to be deleted: ActivePodsWithRanks of pkg/controller/controller_utils.go
// (v1.36.3). Times are compared by their order of magnitude; pods that are equally old go by their UIDs.
func compareForDeletion(a, b *corev1.Pod, onNode map[string]int, now time.Time) int {
	if c := cmp.Or(
		boolFirst(a.Spec.NodeName == "", b.Spec.NodeName == ""),
		cmp.Compare(phaseRank(a), phaseRank(b)),
		boolFirst(!podReady(a), !podReady(b)),
		cmp.Compare(deletionCost(a), deletionCost(b)),
		cmp.Compare(onNode[b.Spec.NodeName], onNode[a.Spec.NodeName]),
	); c != 0 {
		return c
	}
	if podReady(a) && podReady(b) {
		readyA, readyB := podCondition(a, corev1.PodReady), podCondition(b, corev1.PodReady)
		if at, bt := readyA.LastTransitionTime, readyB.LastTransitionTime; !at.Equal(&bt) {
			return compareAges(at, bt, a.UID, b.UID, now)
		}
	}
	if c := cmp.Or(cmp.Compare(restarts(b), restarts(a)), cmp.Compare(sidecarRestarts(b), sidecarRestarts(a))); c != 0 {
		return c
	}
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return compareAges(a.CreationTimestamp, b.CreationTimestamp, a.UID, b.UID, now)
	}
	return 0
}

// boolFirst puts the one first for which a condition holds.
func boolFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

func phaseRank(pod *corev1.Pod) int {
	return max(0, slices.Index([]corev1.PodPhase{corev1.PodPending, corev1.PodUnknown, corev1.PodRunning}, pod.Status.Phase))
}

// deletionCost returns the cost of deleting a pod that its annotation says; none if it is malformed.
func deletionCost(pod *corev1.Pod) int64 {
	cost, err := strconv.ParseInt(pod.Annotations[corev1.PodDeletionCost], 10, 32)
	if err != nil {
		return 0
	}
	return cost
}

// compareAges puts the younger first, or the one without a time.
func compareAges(a, b metav1.Time, uidA, uidB types.UID, now time.Time) int {
	if a.IsZero() || b.IsZero() {
		return boolFirst(a.IsZero(), b.IsZero())
	}
	return cmp.Or(cmp.Compare(magnitude(now.Sub(a.Time)), magnitude(now.Sub(b.Time))), cmp.Compare(uidA, uidB))
}

func magnitude(age time.Duration) int64 {
	if age <= 0 {
		return -1
	}
	return int64(math.Log2(float64(age)))
}

// restarts returns how often the container was restarted that was so most often.
func restarts(pod *corev1.Pod) int32 {
	var most int32
	for i := range pod.Status.ContainerStatuses {
		most = max(most, pod.Status.ContainerStatuses[i].RestartCount)
	}
	return most
}

// sidecarRestarts is restarts for the init containers that go on running.
func sidecarRestarts(pod *corev1.Pod) int32 {
	var most int32
	for i := range pod.Status.InitContainerStatuses {
		status := &pod.Status.InitContainerStatuses[i]
		if slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool {
			return c.Name == status.Name && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		}) {
			most = max(most, status.RestartCount)
		}
	}
	return most
}
