package builtin

import (
	"fmt"
	"net"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// PrepareLease drops from a new lease what belongs to coordinated leader election, whose gate is off;
// pkg/registry/coordination/lease/strategy.go.
func PrepareLease(lease *coordinationv1.Lease) { PrepareLeaseUpdate(lease, &coordinationv1.Lease{}) }

// PrepareLeaseUpdate does so for an update, but for what the lease has already.
func PrepareLeaseUpdate(lease, old *coordinationv1.Lease) {
	if old.Spec.Strategy == nil {
		lease.Spec.Strategy = nil
	}
	if old.Spec.PreferredHolder == nil {
		lease.Spec.PreferredHolder = nil
	}
}

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

// ValidateNamespace checks a new namespace or an update; pkg/apis/core/validation/validation.go.
func ValidateNamespace(namespace, _ *corev1.Namespace, _ string) field.ErrorList {
	var errs field.ErrorList
	for _, finalizer := range namespace.Spec.Finalizers {
		errs = append(errs, validateSpecFinalizer(finalizer, field.NewPath("spec", "finalizers"))...)
	}
	return errs
}

// ValidateNamespaceFinalize checks a write to the subresource finalize, which names each finalizer it complains about.
func ValidateNamespaceFinalize(namespace *corev1.Namespace) field.ErrorList {
	var errs field.ErrorList
	for i, finalizer := range namespace.Spec.Finalizers {
		errs = append(errs, validateSpecFinalizer(finalizer, field.NewPath("spec", "finalizers").Index(i))...)
	}
	return errs
}

func validateSpecFinalizer(finalizer corev1.FinalizerName, at *field.Path) field.ErrorList {
	errs := named(string(finalizer), validation.IsQualifiedName, at)
	switch finalizer {
	case corev1.FinalizerKubernetes, metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents:
		return errs
	}
	if !strings.Contains(string(finalizer), "/") {
		errs = append(errs, field.Invalid(at, string(finalizer), "name is neither a standard finalizer name nor is it fully qualified"))
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
func ValidateNode(node, old *corev1.Node, version string) field.ErrorList {
	root := field.NewPath("spec")
	taints := validateNodeTaints(node.Spec.Taints, version)
	errs := join(taints, validateNodeAmounts(&node.Status), validateNodeRanges(node.Spec.PodCIDRs, root.Child("podCIDRs")))
	if old == nil {
		return errs
	}
	return append(errs, validateNodeUpdate(node, old, version)...)
}

// ValidateNodeStatus checks a status write.
func ValidateNodeStatus(node, old *corev1.Node, version string) field.ErrorList {
	return validateNodeUpdate(node, old, version)
}

func validateNodeAmounts(status *corev1.NodeStatus) field.ErrorList {
	var errs field.ErrorList
	for _, amounts := range []struct {
		name string
		list corev1.ResourceList
	}{{"capacity", status.Capacity}, {"allocatable", status.Allocatable}} {
		for _, name := range sortedNames(amounts.list) {
			amount, at := amounts.list[name], field.NewPath("status", amounts.name, string(name))
			errs = append(errs, amountNotNegative(amount, at)...)
			if slices.Contains(countResources, name) && amount.MilliValue()%1000 != 0 {
				errs = append(errs, field.Invalid(at, amount, "must be an integer"))
			}
		}
	}
	return errs
}

// validateNodeUpdate is ValidateNodeUpdate.
func validateNodeUpdate(node, old *corev1.Node, version string) field.ErrorList {
	root := field.NewPath("spec")
	errs := validateNodeAmounts(&node.Status)
	addresses := node.Status.Addresses
	for i, address := range addresses {
		if slices.Contains(addresses[:i], address) {
			errs = append(errs, field.Duplicate(field.NewPath("status", "addresses").Index(i), internal(address, version)))
		}
	}
	const changed = `node updates may not change %s except from "" to valid`
	if was, now := old.Spec.PodCIDRs, node.Spec.PodCIDRs; len(was) != len(now) && len(was) > 0 {
		errs = append(errs, field.Forbidden(root.Child("podCIDRs"), fmt.Sprintf(changed, "podCIDR")))
	} else if len(was) > 0 {
		for i := range was {
			if was[i] != now[i] {
				errs = append(errs, field.Forbidden(root.Child("podCIDRs"), fmt.Sprintf(changed, "podCIDR")))
			}
		}
	}
	if id := old.Spec.ProviderID; id != "" && id != node.Spec.ProviderID {
		errs = append(errs, changedProvider(node.Spec.ProviderID, fmt.Sprintf(changed, "providerID"), root.Child("providerID"), version))
	}
	errs = append(errs, validateNodeTaints(node.Spec.Taints, version)...) // once more where the spec is written
	if node.Spec.DoNotUseExternalID != old.Spec.DoNotUseExternalID {
		errs = append(errs, field.Forbidden(root.Child("externalID"), "may not be updated"))
	}
	return errs
}

func changedProvider(id, text string, at *field.Path, version string) *field.Error {
	switch {
	case !since(version, 37):
		return field.Forbidden(at, text)
	case id == "":
		return field.Invalid(at, nil, "field cannot be cleared once set").MarkCoveredByDeclarative()
	default:
		return field.Invalid(at, nil, "field cannot be modified once set").MarkCoveredByDeclarative()
	}
}

func validateNodeTaints(taints []corev1.Taint, version string) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, taint := range taints {
		at := field.NewPath("metadata", "taints").Index(i) // sic
		errs = append(errs, metavalidation.ValidateLabelName(taint.Key, at.Child("key"))...)
		errs = append(errs, named(taint.Value, validation.IsValidLabelValue, at.Child("value"))...)
		errs = append(errs, oneOf(taint.Effect, taintEffects, at.Child("effect"))...)
		if key := fmt.Sprint(taint.Key, "\x00", taint.Effect); seen[key] {
			duplicate := field.Duplicate(at, internal(taint, version))
			duplicate.Detail = "taints must be unique by key and effect pair"
			errs = append(errs, duplicate)
		} else {
			seen[key] = true
		}
	}
	return errs
}

// validateNodeRanges checks the ranges that the pods of a node have their addresses of.
func validateNodeRanges(cidrs []string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	six, broken := 0, ""
	for i, cidr := range cidrs {
		errs = append(errs, validation.IsValidCIDRForLegacyField(at.Index(i), cidr, true, nil)...)
		switch _, _, err := net.ParseCIDR(cidr); {
		case err != nil && broken == "":
			broken = cidr
		case strings.Contains(cidr, ":"):
			six++
		}
	}
	if len(cidrs) < 2 {
		return errs
	}
	if broken != "" {
		errs = append(errs, field.InternalError(at, fmt.Errorf("invalid PodCIDRs. failed to check with dual stack with "+
			"error:failed to parse cidr value:%q with error:invalid CIDR address: %s", broken, broken)))
	}
	if broken != "" || len(cidrs) > 2 || six != 1 {
		errs = append(errs, field.Invalid(at, cidrs, "may specify no more than one CIDR for each IP family"))
	}
	return errs
}

// KeepSecretNames leaves of the references to secrets only their names; pkg/registry/core/serviceaccount/strategy.go.
func KeepSecretNames(account *corev1.ServiceAccount) {
	for i, secret := range account.Secrets {
		if secret != (corev1.ObjectReference{Name: secret.Name}) {
			account.Secrets[i] = corev1.ObjectReference{Name: secret.Name}
		}
	}
}

// DefaultPodTemplate fills in the defaults of the pod.
func DefaultPodTemplate(template *corev1.PodTemplate, _ string) {
	defaultPodSpec(&template.Template.Spec)
}

// ValidatePodTemplate checks a new PodTemplate or an update; pkg/apis/core/validation/validation.go.
func ValidatePodTemplate(template, old *corev1.PodTemplate, version string) field.ErrorList {
	if old != nil && canon.Equal(&template.Template, &old.Template) {
		return nil
	}
	return validatePodTemplate(&template.Template, field.NewPath("template"), version)
}
