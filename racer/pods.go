package racer

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// podFromTemplate returns a new pod for its controller: GetPodFromTemplate of pkg/controller/controller_utils.go (v1.36.3).
func podFromTemplate(template *corev1.PodTemplateSpec, owner metav1.Object, gvk schema.GroupVersionKind) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:       owner.GetNamespace(),
			GenerateName:    owner.GetName() + "-",
			Labels:          maps.Clone(template.Labels),
			Annotations:     maps.Clone(template.Annotations),
			Finalizers:      slices.Clone(template.Finalizers),
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(owner, gvk)},
		},
		Spec: *template.Spec.DeepCopy(),
	}
}

func terminating(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }

func podCondition(pod *corev1.Pod, conditionType corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == conditionType {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

func podReady(pod *corev1.Pod) bool {
	ready := podCondition(pod, corev1.PodReady)
	return ready != nil && ready.Status == corev1.ConditionTrue
}

func runningAndReady(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning && podReady(pod)
}

// availableIn returns how long a ready pod must still stay ready to be available: zero or less if it is available.
func availableIn(pod *corev1.Pod, minReadySeconds int32, now time.Time) time.Duration {
	if minReadySeconds == 0 {
		return 0
	}
	since := podCondition(pod, corev1.PodReady).LastTransitionTime
	return since.Add(time.Duration(minReadySeconds) * time.Second).Sub(now)
}

// available reports whether a pod has been ready for long enough. One that does not say since when never has.
func available(pod *corev1.Pod, minReadySeconds int32, now time.Time) bool {
	ready := podCondition(pod, corev1.PodReady)
	if ready == nil || ready.Status != corev1.ConditionTrue || minReadySeconds > 0 && ready.LastTransitionTime.IsZero() {
		return false
	}
	return availableIn(pod, minReadySeconds, now) <= 0
}

// unavailable reports whether a pod counts against a rolling update and against ordered scaling.
func unavailable(pod *corev1.Pod, minReadySeconds int32, now time.Time) bool {
	return terminating(pod) || !runningAndReady(pod) || !available(pod, minReadySeconds, now)
}

func terminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func graceOf(pod *corev1.Pod) time.Duration {
	if pod.DeletionGracePeriodSeconds == nil {
		return 0
	}
	return time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
}

// podActive reports whether a pod runs or is to run: IsPodActive of pkg/controller/controller_utils.go.
func podActive(pod *corev1.Pod) bool { return !terminal(pod) && !terminating(pod) }

// selectPods returns the pods for which something holds.
func selectPods(pods []*corev1.Pod, holds func(*corev1.Pod) bool) []*corev1.Pod {
	var selected []*corev1.Pod
	for _, pod := range pods {
		if holds(pod) {
			selected = append(selected, pod)
		}
	}
	return selected
}

// nextAvailability returns when the next of the ready pods that are not available now becomes so, and false if none does.
func nextAvailability(pods []*corev1.Pod, minReadySeconds int32, now time.Time) (next time.Time, found bool) {
	for _, pod := range pods {
		if !podReady(pod) {
			continue
		}
		at := now.Add(availableIn(pod, minReadySeconds, now))
		if at.After(now) && (!found || at.Before(next)) {
			next, found = at, true
		}
	}
	return next, found
}
