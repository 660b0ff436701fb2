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
func validatePodUpdate(spec, old *corev1.PodSpec, root *field.Path, version string) field.ErrorList {
	var errs field.ErrorList
	before := containerGroups(old)
	for i, group := range containerGroups(spec) {
		at := root.Child(group.name)
		if len(group.containers) != len(before[i].containers) {
			return append(errs, field.Forbidden(at, "pod updates may not add or remove containers"))
		}
		for j := range group.containers {
			errs = append(errs, required(group.containers[j].Image, at.Index(j).Child("image"))...)
		}
	}
	deadline, stop := validateDeadlineUpdate(spec.ActiveDeadlineSeconds, old.ActiveDeadlineSeconds, root.Child("activeDeadlineSeconds"))
	if errs = append(errs, deadline...); stop {
		return errs
	}
	errs = append(errs, validateAddedTolerations(spec.Tolerations, old.Tolerations, root.Child("tolerations"))...)
	errs = append(errs, validateGateUpdate(spec, old, root.Child("schedulingGates"))...)
	rest := withoutUpdatable(spec, old)
	if len(old.SchedulingGates) > 0 {
		errs = append(errs, validateNarrowing(rest, old, root)...)
	}
	if !canon.Equal(rest, old) {
		errs = append(errs, field.Forbidden(root, "pod updates may not change fields other than `spec.containers[*].image`,"+
			"`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"+
			"`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"+
			diff.Diff(internal(old, version), internal(rest, version))))
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
	return rest
}

// validateNarrowing lets the choice of nodes become narrower while a pod is not ready to be scheduled, and leaves the old one
// in the spec.
func validateNarrowing(rest, old *corev1.PodSpec, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	if !canon.Equal(&rest.NodeSelector, &old.NodeSelector) {
		if !narrows(rest.NodeSelector, old.NodeSelector) {
			errs = append(errs, field.Invalid(root.Child("nodeSelector"), rest.NodeSelector,
				"only additions to spec.nodeSelector are allowed (no mutations or deletions)"))
		}
		rest.NodeSelector = old.NodeSelector
	}
	var before, now *corev1.NodeAffinity
	if old.Affinity != nil {
		before = old.Affinity.NodeAffinity
	}
	if rest.Affinity != nil {
		now = rest.Affinity.NodeAffinity
	}
	if canon.Equal(before, now) {
		return errs
	}
	errs = append(errs, validateAffinityNarrowing(now, before, root.Child("affinity", "nodeAffinity"))...)
	switch {
	case rest.Affinity == nil:
		rest.Affinity = &corev1.Affinity{NodeAffinity: before}
	case old.Affinity == nil && rest.Affinity.PodAffinity == nil && rest.Affinity.PodAntiAffinity == nil:
		rest.Affinity = nil
	default:
		rest.Affinity.NodeAffinity = before
	}
	return errs
}

// validateAffinityNarrowing is validateNodeAffinityMutation.
func validateAffinityNarrowing(now, before *corev1.NodeAffinity, at *field.Path) field.ErrorList {
	if before == nil || before.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	terms := before.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	var wanted []corev1.NodeSelectorTerm
	if now != nil && now.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		wanted = now.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	at = at.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
	if len(terms) > 0 && len(terms) != len(wanted) {
		return field.ErrorList{field.Invalid(at, internal(wanted, ""), "no additions/deletions to non-empty NodeSelectorTerms list are allowed")}
	}
	var errs field.ErrorList
	for i := range terms {
		was, is := &terms[i], &wanted[i]
		none := len(was.MatchExpressions)+len(was.MatchFields) == 0 && len(is.MatchExpressions)+len(is.MatchFields) > 0
		if none || !extends(is.MatchExpressions, was.MatchExpressions) || !extends(is.MatchFields, was.MatchFields) {
			errs = append(errs, field.Invalid(at.Index(i), internal(is, ""), "only additions are allowed (no mutations or deletions)"))
		}
	}
	return errs
}

// extends says whether requirements begin with the old ones.
func extends(now, before []corev1.NodeSelectorRequirement) bool {
	if len(now) < len(before) {
		return false
	}
	now = now[:len(before)]
	return canon.Equal(&now, &before)
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

// validateDeadlineUpdate lets a deadline come and become earlier. It says whether nothing else is checked.
func validateDeadlineUpdate(deadline, old *int64, at *field.Path) (errs field.ErrorList, stop bool) {
	switch {
	case deadline == nil && old == nil:
		return nil, false
	case deadline == nil:
		return field.ErrorList{field.Invalid(at, deadline, "must not update from a positive integer to nil value")}, false
	case *deadline < 0 || *deadline > maxSeconds:
		return field.ErrorList{field.Invalid(at, *deadline, validation.InclusiveRangeError(0, maxSeconds))}, true
	case old != nil && *old < *deadline:
		return field.ErrorList{field.Invalid(at, *deadline, "must be less than or equal to previous value")}, true
	default:
		return nil, false
	}
}

// validateGateUpdate lets gates only go.
func validateGateUpdate(spec, old *corev1.PodSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, gate := range spec.SchedulingGates {
		if !slices.Contains(old.SchedulingGates, gate) {
			errs = append(errs, field.Forbidden(at.Index(i).Child("name"),
				"only deletion is allowed, but found new scheduling gate '"+gate.Name+"'"))
		}
	}
	return errs
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
func ValidatePodStatus(pod, old *corev1.Pod, version string) field.ErrorList {
	root := field.NewPath("status")
	errs := validatePodConditions(pod.Status.Conditions, root)
	if name := pod.Status.NominatedNodeName; name != "" && name != old.Status.NominatedNodeName {
		at := root.Child("nominatedNodeName")
		errs = append(errs, named(name, validation.IsDNS1123Subdomain, at)...)
		if old.Spec.NodeName != "" {
			errs = append(errs, field.Forbidden(at, "may not be set on pods that are already bound to a node"))
		}
	}
	if n := pod.Status.ObservedGeneration; n < 0 {
		errs = append(errs, field.Invalid(root.Child("observedGeneration"), n, "must be a non-negative integer"))
	}
	if pod.Status.QOSClass != old.Status.QOSClass {
		errs = append(errs, field.Invalid(root.Child("qosClass"), pod.Status.QOSClass, "field is immutable"))
	}
	if old.Spec.RestartPolicy != corev1.RestartPolicyAlways { // else what has ended may start again
		errs = append(errs, validateRestarts(pod.Status.ContainerStatuses, old.Status.ContainerStatuses,
			old.Spec.RestartPolicy, root.Child("containerStatuses"))...)
		errs = append(errs, validateRestarts(pod.Status.InitContainerStatuses, old.Status.InitContainerStatuses,
			old.Spec.RestartPolicy, root.Child("initContainerStatuses"))...)
	}
	address := func(ip corev1.PodIP) string { return ip.IP }
	errs = append(errs, validatePodAddresses(pod.Status.PodIPs, old.Status.PodIPs, address, root.Child("podIPs"), version)...)
	hosts := root.Child("hostIPs")
	if ips := pod.Status.HostIPs; len(ips) > 0 && ips[0].IP != pod.Status.HostIP {
		errs = append(errs, field.Invalid(hosts.Index(0).Child("ip"), ips[0].IP, "must be equal to `hostIP`"))
	}
	host := func(ip corev1.HostIP) string { return ip.IP }
	return append(errs, validatePodAddresses(pod.Status.HostIPs, old.Status.HostIPs, host, hosts, version)...)
}

func validatePodConditions(conditions []corev1.PodCondition, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range conditions {
		condition := &conditions[i]
		switch condition.Type {
		case corev1.PodScheduled, corev1.PodReady, corev1.PodInitialized:
		default:
			errs = append(errs, named(string(condition.Type), validation.IsQualifiedName, root.Child("conditions").Index(i).Child("Type"))...)
		}
	}
	return errs
}

// validatePodAddresses is validatePodIPs and validateHostIPs: a pod has at most one address of a family.
func validatePodAddresses[T any](ips, old []T, address func(T) string, at *field.Path, version string) field.ErrorList {
	var errs field.ErrorList
	known := make([]string, len(old))
	for i, ip := range old {
		known[i] = address(ip)
	}
	six := 0
	for i, ip := range ips {
		errs = append(errs, validation.IsValidIPForLegacyField(at.Index(i), address(ip), true, known)...)
		if isIPv6(address(ip)) {
			six++
		}
	}
	if len(ips) > 2 || len(ips) == 2 && six != 1 {
		errs = append(errs, field.Invalid(at, internal(ips, version), "may specify no more than one IP for each IP family"))
	}
	return errs
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
