package builtin

import (
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// ValidateLease checks a new lease or an update; pkg/apis/coordination/validation/validation.go.
func ValidateLease(lease, _ *coordinationv1.Lease, _ string) field.ErrorList {
	spec, root := &lease.Spec, field.NewPath("spec")
	var errs field.ErrorList
	if n := spec.LeaseDurationSeconds; n != nil && *n <= 0 {
		errs = append(errs, field.Invalid(root.Child("leaseDurationSeconds"), *n, "must be greater than 0"))
	}
	if n := spec.LeaseTransitions; n != nil && *n < 0 {
		errs = append(errs, field.Invalid(root.Child("leaseTransitions"), *n, "must be greater than or equal to 0"))
	}
	return errs
}

// ValidateEvent checks a new event or an update; pkg/apis/core/validation/events.go, for requests in core/v1.
func ValidateEvent(event, _ *corev1.Event, _ string) field.ErrorList {
	involved := field.NewPath("involvedObject", "namespace")
	about := event.InvolvedObject.Namespace
	var errs field.ErrorList
	switch cluster := about == ""; {
	case cluster && event.Namespace != "" && event.Namespace != metav1.NamespaceDefault &&
		(event.EventTime.IsZero() || event.Namespace != metav1.NamespaceSystem):
		errs = append(errs, field.Invalid(involved, about, "does not match event.namespace"))
	case !cluster && event.Namespace != about:
		errs = append(errs, field.Invalid(involved, about, "does not match event.namespace"))
	}
	if !event.EventTime.IsZero() {
		for _, required := range []struct{ name, value string }{
			{"reportingController", event.ReportingController}, {"reportingInstance", event.ReportingInstance},
			{"action", event.Action}, {"reason", event.Reason},
		} {
			if required.value == "" {
				errs = append(errs, field.Required(field.NewPath(required.name), ""))
			}
		}
	}
	return errs
}

// ValidateNamespace checks a new namespace or an update; pkg/apis/core/validation/validation.go.
func ValidateNamespace(namespace, _ *corev1.Namespace, _ string) field.ErrorList {
	var errs field.ErrorList
	for _, finalizer := range namespace.Spec.Finalizers {
		errs = append(errs, named(string(finalizer), validation.IsQualifiedName, field.NewPath("spec", "finalizers"))...)
	}
	return errs
}

// ValidateNamespaceStatus checks a status write: a namespace is terminating exactly if it is being deleted.
func ValidateNamespaceStatus(namespace, _ *corev1.Namespace, _ string) field.ErrorList {
	at, phase := field.NewPath("status", "Phase"), namespace.Status.Phase // the capital is Kubernetes' own
	switch deleted := namespace.DeletionTimestamp != nil; {
	case !deleted && phase != corev1.NamespaceActive:
		return field.ErrorList{field.Invalid(at, phase, "may only be 'Active' if `deletionTimestamp` is empty")}
	case deleted && phase != corev1.NamespaceTerminating:
		return field.ErrorList{field.Invalid(at, phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")}
	default:
		return nil
	}
}

// ValidateNode checks a new node or an update; pkg/apis/core/validation/validation.go.
func ValidateNode(node, old *corev1.Node, _ string) field.ErrorList {
	root := field.NewPath("spec")
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, taint := range node.Spec.Taints {
		at := root.Child("taints").Index(i)
		errs = append(errs, metavalidation.ValidateLabelName(taint.Key, at.Child("key"))...)
		errs = append(errs, named(taint.Value, validation.IsValidLabelValue, at.Child("value"))...)
		errs = append(errs, oneOf(taint.Effect, []corev1.TaintEffect{
			corev1.TaintEffectNoExecute, corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule,
		}, at.Child("effect"))...)
		if key := fmt.Sprint(taint.Key, "\x00", taint.Effect); seen[key] {
			errs = append(errs, field.Duplicate(at, taint))
		} else {
			seen[key] = true
		}
	}
	if old == nil {
		return errs
	}
	if id := old.Spec.ProviderID; id != "" && id != node.Spec.ProviderID {
		errs = append(errs, field.Forbidden(root.Child("providerID"),
			`node updates may not change providerID except from "" to valid`))
	}
	if cidrs := old.Spec.PodCIDRs; len(cidrs) > 0 && !canon.Equal(&cidrs, &node.Spec.PodCIDRs) {
		errs = append(errs, field.Forbidden(root.Child("podCIDRs"),
			`node updates may not change podCIDR except from "" to valid`))
	}
	return errs
}
