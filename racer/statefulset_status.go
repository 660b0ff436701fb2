package racer

import (
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// parseOrdinal splits a pod's name, "web-3", into the name of its set and its ordinal. The set's name is empty if the
// pod's does not end in a number, and the ordinal -1 if that is so or the number is too large.
func parseOrdinal(name string) (parent string, ordinal int) {
	dash := strings.LastIndexByte(name, '-')
	if dash < 0 || dash == len(name)-1 || strings.Trim(name[dash+1:], "0123456789") != "" {
		return "", -1
	}
	n, err := strconv.ParseInt(name[dash+1:], 10, 32)
	if err != nil {
		return name[:dash], -1
	}
	return name[:dash], int(n)
}

func ordinalOf(pod *corev1.Pod) int {
	_, ordinal := parseOrdinal(pod.Name)
	return ordinal
}

func startOrdinal(set *appsv1.StatefulSet) int {
	if set.Spec.Ordinals == nil {
		return 0
	}
	return int(set.Spec.Ordinals.Start)
}

// inRange reports whether the set wants a pod of this ordinal.
func inRange(set *appsv1.StatefulSet, ordinal int) bool {
	start := startOrdinal(set)
	return ordinal >= start && ordinal < start+int(*set.Spec.Replicas)
}

func partitionOf(set *appsv1.StatefulSet) int {
	rolling := set.Spec.UpdateStrategy.RollingUpdate
	if rolling == nil || rolling.Partition == nil {
		return 0
	}
	return int(*rolling.Partition)
}

// maxUnavailable returns how many pods a rolling update may take down at a time, at least one.
func maxUnavailable(set *appsv1.StatefulSet) (int, error) {
	rolling := set.Spec.UpdateStrategy.RollingUpdate
	if rolling == nil {
		return 1, nil
	}
	one := intstr.FromInt32(1)
	n, err := intstr.GetScaledValueFromIntOrPercent(
		intstr.ValueOrDefault(rolling.MaxUnavailable, one), int(*set.Spec.Replicas), false)
	return max(n, 1), err
}

func burst(set *appsv1.StatefulSet) bool {
	return set.Spec.PodManagementPolicy == appsv1.ParallelPodManagement
}

// created reports whether the API server has the pod: one that the controller only plans has no phase.
func created(pod *corev1.Pod) bool { return pod.Status.Phase != "" }

func podRevision(pod *corev1.Pod) string { return pod.Labels[appsv1.StatefulSetRevisionLabel] }

// countReplicas sets the counters of a status from lists of pods. Terminating pods count as replicas and as ready, but
// neither as current nor as updated.
func countReplicas(status *appsv1.StatefulSetStatus, minReadySeconds int32, now time.Time, lists ...[]*corev1.Pod) {
	status.Replicas, status.ReadyReplicas, status.AvailableReplicas = 0, 0, 0
	status.CurrentReplicas, status.UpdatedReplicas = 0, 0
	for _, list := range lists {
		for _, pod := range list {
			if created(pod) {
				status.Replicas++
			}
			if runningAndReady(pod) {
				status.ReadyReplicas++
				if available(pod, minReadySeconds, now) {
					status.AvailableReplicas++
				}
			}
			if !created(pod) || terminating(pod) {
				continue
			}
			if podRevision(pod) == status.CurrentRevision {
				status.CurrentReplicas++
			}
			if podRevision(pod) == status.UpdateRevision {
				status.UpdatedReplicas++
			}
		}
	}
}

// completeUpdate makes the update revision the current one when every replica is at it, and ready. Up to 1.36 it does so
// for rolling updates only (kubernetes #73492).
func completeUpdate(set *appsv1.StatefulSet, status *appsv1.StatefulSetStatus, version apiserver.Version) {
	if version == apiserver.V136 && set.Spec.UpdateStrategy.Type != appsv1.RollingUpdateStatefulSetStrategyType {
		return
	}
	if status.UpdatedReplicas == status.Replicas && status.ReadyReplicas == status.Replicas &&
		status.Replicas == *set.Spec.Replicas {
		status.CurrentReplicas = status.UpdatedReplicas
		status.CurrentRevision = status.UpdateRevision
	}
}

// statusDiffers reports whether a computed status is worth a write. A changed collision count alone is not.
func statusDiffers(set *appsv1.StatefulSet, status *appsv1.StatefulSetStatus) bool {
	old := &set.Status
	return status.ObservedGeneration > old.ObservedGeneration ||
		status.Replicas != old.Replicas ||
		status.CurrentReplicas != old.CurrentReplicas ||
		status.ReadyReplicas != old.ReadyReplicas ||
		status.UpdatedReplicas != old.UpdatedReplicas ||
		status.AvailableReplicas != old.AvailableReplicas ||
		status.CurrentRevision != old.CurrentRevision ||
		status.UpdateRevision != old.UpdateRevision
}
