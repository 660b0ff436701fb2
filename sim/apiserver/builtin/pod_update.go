package builtin

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// validatePodUpdate refuses changes of a pod's spec but for a few fields; ValidatePodUpdate. It stops at the first
// container list whose length changed.
func validatePodUpdate(pod, old *corev1.Pod, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, group := range []struct {
		name     string
		new, old []corev1.Container
	}{
		{"containers", pod.Spec.Containers, old.Spec.Containers},
		{"initContainers", pod.Spec.InitContainers, old.Spec.InitContainers},
	} {
		if len(group.new) != len(group.old) {
			return append(errs, field.Forbidden(root.Child(group.name), "pod updates may not add or remove containers"))
		}
		for i := range group.new {
			if group.new[i].Image == "" {
				errs = append(errs, field.Required(root.Child(group.name).Index(i).Child("image"), ""))
			}
		}
	}
	errs = append(errs, validateDeadlineUpdate(pod.Spec.ActiveDeadlineSeconds, old.Spec.ActiveDeadlineSeconds,
		root.Child("activeDeadlineSeconds"))...)
	errs = append(errs, validateGateUpdate(pod, old, root.Child("schedulingGates"))...)
	errs = append(errs, validateAddedTolerations(pod.Spec.Tolerations, old.Spec.Tolerations, root.Child("tolerations"))...)
	rest := withoutUpdatable(&pod.Spec, &old.Spec)
	if !canon.Equal(rest, &old.Spec) {
		errs = append(errs, field.Forbidden(root, "pod updates may not change fields other than `spec.containers[*].image`,"+
			"`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"+
			"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"+
			diff.Diff(&old.Spec, rest)))
	}
	return errs
}

// withoutUpdatable returns the new spec with the old values of the fields that may change.
func withoutUpdatable(spec, old *corev1.PodSpec) *corev1.PodSpec {
	rest := spec.DeepCopy()
	for i := range rest.Containers {
		rest.Containers[i].Image = old.Containers[i].Image
	}
	for i := range rest.InitContainers {
		rest.InitContainers[i].Image = old.InitContainers[i].Image
	}
	rest.ActiveDeadlineSeconds = old.ActiveDeadlineSeconds
	rest.Tolerations = old.Tolerations
	rest.SchedulingGates = old.SchedulingGates
	if grace := old.TerminationGracePeriodSeconds; grace != nil && *grace < 0 &&
		spec.TerminationGracePeriodSeconds != nil && *spec.TerminationGracePeriodSeconds == 1 {
		rest.TerminationGracePeriodSeconds = grace
	}
	if len(old.SchedulingGates) > 0 && len(spec.NodeSelector) >= len(old.NodeSelector) {
		// A pod that is not ready to be scheduled may still be narrowed down.
		if narrows(spec.NodeSelector, old.NodeSelector) {
			rest.NodeSelector = old.NodeSelector
		}
	}
	return rest
}

// narrows says whether a selector has all terms of an old one.
func narrows(selector, old map[string]string) bool {
	for key, value := range old {
		if got, ok := selector[key]; !ok || got != value {
			return false
		}
	}
	return true
}

func validateDeadlineUpdate(deadline, old *int64, at *field.Path) field.ErrorList {
	switch {
	case deadline == nil && old == nil:
		return nil
	case deadline == nil:
		return field.ErrorList{field.Invalid(at, deadline, "must not update from a positive integer to nil value")}
	case *deadline < 0 || *deadline > maxSeconds:
		return field.ErrorList{field.Invalid(at, *deadline, validation.InclusiveRangeError(0, maxSeconds))}
	case old != nil && *old < *deadline:
		return field.ErrorList{field.Invalid(at, *deadline, "must be less than or equal to previous value")}
	default:
		return nil
	}
}

// validateGateUpdate lets gates only go.
func validateGateUpdate(pod, old *corev1.Pod, at *field.Path) field.ErrorList {
	for _, gate := range pod.Spec.SchedulingGates {
		if !slices.Contains(old.Spec.SchedulingGates, gate) {
			return field.ErrorList{field.Forbidden(at, "only deletion is allowed, but found new scheduling gate '"+gate.Name+"'")}
		}
	}
	return nil
}

// validateAddedTolerations lets tolerations only come, and their seconds change.
func validateAddedTolerations(tolerations, old []corev1.Toleration, at *field.Path) field.ErrorList {
	for _, before := range old {
		before.TolerationSeconds = nil
		kept := slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool {
			t.TolerationSeconds = nil
			return t == before
		})
		if !kept {
			return field.ErrorList{field.Forbidden(at, "existing toleration can not be modified except its tolerationSeconds")}
		}
	}
	return validateTolerations(tolerations, at)
}

// ValidatePodStatus checks a status write; ValidatePodStatusUpdate in pkg/apis/core/validation/validation.go.
func ValidatePodStatus(pod, old *corev1.Pod, _ string) field.ErrorList {
	root := field.NewPath("status")
	var errs field.ErrorList
	if name := pod.Status.NominatedNodeName; name != "" {
		errs = append(errs, named(name, validation.IsDNS1123Subdomain, root.Child("nominatedNodeName"))...)
	}
	if pod.Status.QOSClass != old.Status.QOSClass {
		errs = append(errs, field.Invalid(root.Child("qosClass"), pod.Status.QOSClass, "field is immutable"))
	}
	for i, ip := range pod.Status.PodIPs {
		if validation.IsValidIP(nil, ip.IP) != nil {
			errs = append(errs, field.Invalid(root.Child("podIPs").Index(i), ip.IP, "must be a valid IP address"))
		}
	}
	if old.Spec.RestartPolicy == corev1.RestartPolicyAlways {
		return errs // what has ended may start again
	}
	errs = append(errs, validateRestarts(pod.Status.ContainerStatuses, old.Status.ContainerStatuses,
		old.Spec.RestartPolicy, root.Child("containerStatuses"))...)
	return append(errs, validateRestarts(pod.Status.InitContainerStatuses, old.Status.InitContainerStatuses,
		old.Spec.RestartPolicy, root.Child("initContainerStatuses"))...)
}

// validateRestarts refuses that a container which has ended for good runs again; ValidateContainerStateTransition.
func validateRestarts(statuses, old []corev1.ContainerStatus, policy corev1.RestartPolicy, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, before := range old {
		ended := before.State.Terminated
		if ended == nil || policy == corev1.RestartPolicyOnFailure && ended.ExitCode != 0 {
			continue
		}
		for i, now := range statuses {
			if now.Name == before.Name && now.State.Terminated == nil {
				errs = append(errs, field.Forbidden(root.Index(i).Child("state"), "may not be transitioned to non-terminated state"))
			}
		}
	}
	return errs
}
