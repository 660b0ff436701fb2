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
			if podActive(pod) {
				onNode[pod.Spec.NodeName]++
			}
		}
	}
	return onNode
}

// compareForDeletion puts the pod first that is rather to be deleted: ActivePodsWithRanks of pkg/controller/controller_utils.go
// (v1.36.3). Times are compared by their order of magnitude; pods that are equally old go by their UIDs.
func compareForDeletion(a, b *corev1.Pod, onNode map[string]int, now time.Time) int {
	return cmp.Or(
		compareStates(a, b),
		cmp.Compare(deletionCost(a), deletionCost(b)),
		cmp.Compare(onNode[b.Spec.NodeName], onNode[a.Spec.NodeName]),
		compareHistories(a, b, func(at, bt metav1.Time) int {
			if at.IsZero() || bt.IsZero() {
				return laterFirst(at, bt)
			}
			return cmp.Or(cmp.Compare(magnitude(now.Sub(at.Time)), magnitude(now.Sub(bt.Time))), cmp.Compare(a.UID, b.UID))
		}),
	)
}

// compareActive puts the pod first that is rather to be deleted, where it does not matter what else is on its node: ActivePods of
// the same file.
func compareActive(a, b *corev1.Pod) int {
	return cmp.Or(compareStates(a, b), compareHistories(a, b, laterFirst))
}

// compareStates puts the pod first that has got less far.
func compareStates(a, b *corev1.Pod) int {
	return cmp.Or(
		trueFirst(a.Spec.NodeName == "", b.Spec.NodeName == ""),
		cmp.Compare(phaseRank(a), phaseRank(b)),
		trueFirst(!podReady(a), !podReady(b)),
	)
}

// compareHistories puts the pod first that has been ready for a shorter time, was restarted more often or is younger.
func compareHistories(a, b *corev1.Pod, compareTimes func(a, b metav1.Time) int) int {
	if podReady(a) && podReady(b) {
		readyA, readyB := podCondition(a, corev1.PodReady), podCondition(b, corev1.PodReady)
		if at, bt := readyA.LastTransitionTime, readyB.LastTransitionTime; !at.Equal(&bt) {
			return compareTimes(at, bt)
		}
	}
	if c := cmp.Or(cmp.Compare(restarts(b), restarts(a)), cmp.Compare(sidecarRestarts(b), sidecarRestarts(a))); c != 0 {
		return c
	}
	if !a.CreationTimestamp.Equal(&b.CreationTimestamp) {
		return compareTimes(a.CreationTimestamp, b.CreationTimestamp)
	}
	return 0
}

// laterFirst puts no time first, and then the later one.
func laterFirst(a, b metav1.Time) int {
	if a.IsZero() || b.IsZero() {
		return trueFirst(a.IsZero(), b.IsZero())
	}
	return b.Compare(a.Time)
}

// trueFirst puts the one first for which a condition holds.
func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// phaseRank orders phases: Pending, Unknown, Running. Any other counts as Pending.
func phaseRank(pod *corev1.Pod) int {
	return max(0, slices.Index([]corev1.PodPhase{corev1.PodPending, corev1.PodUnknown, corev1.PodRunning}, pod.Status.Phase))
}

// deletionCost returns the cost of deleting a pod that its annotation says; none if that is malformed, as "+5" and "05" are, too.
func deletionCost(pod *corev1.Pod) int64 {
	text := pod.Annotations[corev1.PodDeletionCost]
	cost, err := strconv.ParseInt(text, 10, 32)
	if err != nil || text[0] == '+' || text[0] == '0' && text != "0" {
		return 0
	}
	return cost
}

// magnitude returns the order of magnitude of an age.
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
