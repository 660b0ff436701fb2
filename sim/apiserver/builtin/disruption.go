package builtin

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// ValidatePodDisruptionBudget checks a new PodDisruptionBudget or an update; pkg/apis/policy/validation/validation.go.
func ValidatePodDisruptionBudget(budget, old *policyv1.PodDisruptionBudget, version string) field.ErrorList {
	spec, root := &budget.Spec, field.NewPath("spec")
	if old != nil && canon.Equal(spec, &old.Spec) {
		return nil
	}
	var errs field.ErrorList
	if spec.MinAvailable != nil && spec.MaxUnavailable != nil {
		errs = append(errs, field.Invalid(root, internal(*spec, version), "minAvailable and maxUnavailable cannot be both set"))
	}
	for _, amount := range []struct {
		name  string
		value *intstr.IntOrString
	}{{"minAvailable", spec.MinAvailable}, {"maxUnavailable", spec.MaxUnavailable}} {
		if amount.value != nil {
			at := root.Child(amount.name)
			errs = join(errs, validateIntOrPercent(*amount.value, at), atMostAll(*amount.value, at))
		}
	}
	errs = append(errs, validateSelector(spec.Selector, root.Child("selector"))...)
	if policy := spec.UnhealthyPodEvictionPolicy; policy != nil {
		errs = append(errs, supported(*policy, []policyv1.UnhealthyPodEvictionPolicyType{
			policyv1.AlwaysAllow, policyv1.IfHealthyBudget,
		}, root.Child("unhealthyPodEvictionPolicy"))...)
	}
	return errs
}

// ValidatePodDisruptionBudgetStatus checks a status write.
func ValidatePodDisruptionBudgetStatus(budget, _ *policyv1.PodDisruptionBudget, version string) field.ErrorList {
	status, root := &budget.Status, field.NewPath("status")
	return join(
		validateConditions(status.Conditions, root.Child("conditions"), version),
		validateCounts(root, replicaCount{"disruptionsAllowed", status.DisruptionsAllowed},
			replicaCount{"currentHealthy", status.CurrentHealthy}, replicaCount{"desiredHealthy", status.DesiredHealthy},
			replicaCount{"expectedPods", status.ExpectedPods}),
	)
}

// validateConditions is ValidateConditions in k8s.io/apimachinery/pkg/apis/meta/v1/validation, which says more in 1.37. The
// library's own is in the words of its version.
func validateConditions(conditions []metav1.Condition, root *field.Path, version string) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, condition := range conditions {
		at := root.Index(i)
		repeated := seen[condition.Type]
		seen[condition.Type] = true
		if !since(version, 37) {
			if repeated {
				errs = append(errs, field.Duplicate(at.Child("type"), condition.Type))
			}
			errs = append(errs, validateCondition36(condition, at)...)
			continue
		}
		if repeated {
			errs = append(errs, field.Duplicate(at, condition.Type))
		}
		if condition.Type == "" {
			errs = append(errs, field.Required(at.Child("type"), "is required"))
		}
		for _, e := range metavalidation.ValidateCondition(condition, at) {
			switch {
			case e.Field == at.Child("type").String() && condition.Type == "":
			case e.Field == at.Child("status").String() && condition.Status == "":
				errs = append(errs, field.Required(at.Child("status"), ""))
			default:
				errs = append(errs, e)
			}
		}
	}
	return errs
}

// validateCondition36 is ValidateCondition of v0.36: what is empty is wrong as any other value is.
func validateCondition36(condition metav1.Condition, at *field.Path) field.ErrorList {
	errs := metavalidation.ValidateLabelName(condition.Type, at.Child("type"))
	if condition.Status == "" {
		statuses := []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionTrue, metav1.ConditionUnknown}
		errs = append(errs, field.NotSupported(at.Child("status"), condition.Status, statuses))
	}
	for _, e := range metavalidation.ValidateCondition(condition, at) {
		said := e.Field == at.Child("type").String() || e.Field == at.Child("status").String() && condition.Status == ""
		if !said {
			errs = append(errs, e)
		}
	}
	return errs
}
