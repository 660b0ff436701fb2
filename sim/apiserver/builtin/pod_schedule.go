package builtin

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What decides where a pod may run.

func validateAffinity(affinity *corev1.Affinity, root *field.Path) field.ErrorList {
	if affinity == nil {
		return nil
	}
	const must, should = "requiredDuringSchedulingIgnoredDuringExecution", "preferredDuringSchedulingIgnoredDuringExecution"
	var errs field.ErrorList
	if node := affinity.NodeAffinity; node != nil {
		at := root.Child("nodeAffinity")
		if node.RequiredDuringSchedulingIgnoredDuringExecution != nil {
			errs = append(errs, validateNodeSelector(node.RequiredDuringSchedulingIgnoredDuringExecution, at.Child(must))...)
		}
		for i, term := range node.PreferredDuringSchedulingIgnoredDuringExecution {
			at := at.Child(should).Index(i)
			errs = join(errs, validateWeight(term.Weight, at), validateNodeTerm(&term.Preference, false, at.Child("preference")))
		}
	}
	pods := func(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, at *field.Path) {
		for i := range required {
			errs = append(errs, validatePodTerm(&required[i], at.Child(must).Index(i))...)
		}
		for i := range preferred {
			at := at.Child(should).Index(i)
			errs = join(errs, validateWeight(preferred[i].Weight, at), validatePodTerm(&preferred[i].PodAffinityTerm, at.Child("podAffinityTerm")))
		}
	}
	if a := affinity.PodAffinity; a != nil {
		pods(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution, root.Child("podAffinity"))
	}
	if a := affinity.PodAntiAffinity; a != nil {
		pods(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution, root.Child("podAntiAffinity"))
	}
	return errs
}

func validateWeight(weight int32, at *field.Path) field.ErrorList {
	if weight <= 0 || weight > 100 {
		return field.ErrorList{field.Invalid(at.Child("weight"), weight, "must be in the range 1-100")}
	}
	return nil
}

// validateNodeSelector is ValidateNodeSelector.
func validateNodeSelector(selector *corev1.NodeSelector, root *field.Path) field.ErrorList {
	at := root.Child("nodeSelectorTerms")
	if len(selector.NodeSelectorTerms) == 0 {
		return field.ErrorList{field.Required(at, "must have at least one node selector term")}
	}
	var errs field.ErrorList
	for i := range selector.NodeSelectorTerms {
		errs = append(errs, validateNodeTerm(&selector.NodeSelectorTerms[i], true, at.Index(i))...)
	}
	return errs
}

// validateNodeTerm checks a term; values of labels only where the term must hold.
func validateNodeTerm(term *corev1.NodeSelectorTerm, values bool, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, requirement := range term.MatchExpressions {
		at := root.Child("matchExpressions").Index(i)
		errs = join(errs, validateNodeOperator(&requirement, at), metavalidation.ValidateLabelName(requirement.Key, at.Child("key")))
		for j, value := range requirement.Values {
			if values {
				errs = append(errs, named(value, validation.IsValidLabelValue, at.Child("values").Index(j))...)
			}
		}
	}
	for i, requirement := range term.MatchFields {
		at := root.Child("matchFields").Index(i)
		switch requirement.Operator {
		case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
			if len(requirement.Values) != 1 {
				errs = append(errs, field.Required(at.Child("values"),
					"must be only one value when `operator` is 'In' or 'NotIn' for node field selector"))
			}
		default:
			errs = append(errs, field.Invalid(at.Child("operator"), requirement.Operator, "not a valid selector operator"))
		}
		if requirement.Key != "metadata.name" {
			errs = append(errs, field.Invalid(at.Child("key"), requirement.Key, "not a valid field selector key"))
			continue
		}
		for j, value := range requirement.Values {
			errs = append(errs, named(value, validation.IsDNS1123Subdomain, at.Child("values").Index(j))...)
		}
	}
	return errs
}

func validateNodeOperator(requirement *corev1.NodeSelectorRequirement, at *field.Path) field.ErrorList {
	count, values := len(requirement.Values), at.Child("values")
	switch requirement.Operator {
	case corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn:
		if count == 0 {
			return field.ErrorList{field.Required(values, "must be specified when `operator` is 'In' or 'NotIn'")}
		}
	case corev1.NodeSelectorOpExists, corev1.NodeSelectorOpDoesNotExist:
		if count > 0 {
			return field.ErrorList{field.Forbidden(values, "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")}
		}
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if count != 1 {
			return field.ErrorList{field.Required(values, "must be specified single value when `operator` is 'Lt' or 'Gt'")}
		}
	default:
		return field.ErrorList{field.Invalid(at.Child("operator"), requirement.Operator, "not a valid selector operator")}
	}
	return nil
}

// validatePodTerm is validatePodAffinityTerm, without the keys that are added to the selector.
func validatePodTerm(term *corev1.PodAffinityTerm, at *field.Path) field.ErrorList {
	errs := join(validateSelector(term.LabelSelector, at.Child("labelSelector")),
		validateSelector(term.NamespaceSelector, at.Child("namespaceSelector")))
	for _, namespace := range term.Namespaces {
		errs = append(errs, named(namespace, validation.IsDNS1123Label, at.Child("namespace"))...)
	}
	if term.TopologyKey == "" {
		errs = append(errs, field.Required(at.Child("topologyKey"), "can not be empty"))
	}
	return append(errs, metavalidation.ValidateLabelName(term.TopologyKey, at.Child("topologyKey"))...)
}

// validateSpread is validateTopologySpreadConstraints, without the keys that are added to the selector.
func validateSpread(constraints []corev1.TopologySpreadConstraint, root *field.Path) field.ErrorList {
	actions := []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway}
	policies := []corev1.NodeInclusionPolicy{corev1.NodeInclusionPolicyHonor, corev1.NodeInclusionPolicyIgnore}
	var errs field.ErrorList
	for i, constraint := range constraints {
		at := root.Index(i)
		if constraint.MaxSkew <= 0 {
			errs = append(errs, field.Invalid(at.Child("maxSkew"), constraint.MaxSkew, "must be greater than zero"))
		}
		if constraint.TopologyKey == "" {
			errs = append(errs, field.Required(at.Child("topologyKey"), "can not be empty"))
		}
		errs = append(errs, supported(constraint.WhenUnsatisfiable, actions, at.Child("whenUnsatisfiable"))...)
		if slices.ContainsFunc(constraints[i+1:], func(other corev1.TopologySpreadConstraint) bool {
			return other.TopologyKey == constraint.TopologyKey && other.WhenUnsatisfiable == constraint.WhenUnsatisfiable
		}) {
			errs = append(errs, field.Duplicate(at.Child("{topologyKey, whenUnsatisfiable}"),
				fmt.Sprintf("{%s, %s}", constraint.TopologyKey, constraint.WhenUnsatisfiable)))
		}
		if n := constraint.MinDomains; n != nil {
			if *n <= 0 {
				errs = append(errs, field.Invalid(at.Child("minDomains"), *n, "must be greater than zero"))
			}
			if constraint.WhenUnsatisfiable != corev1.DoNotSchedule {
				errs = append(errs, field.Invalid(at.Child("minDomains"), n, fmt.Sprintf(
					"can only use minDomains if whenUnsatisfiable=%s, not %s", corev1.DoNotSchedule, constraint.WhenUnsatisfiable)))
			}
		}
		for _, policy := range []struct {
			name  string
			value *corev1.NodeInclusionPolicy
		}{{"nodeAffinityPolicy", constraint.NodeAffinityPolicy}, {"nodeTaintsPolicy", constraint.NodeTaintsPolicy}} {
			if policy.value != nil && !slices.Contains(policies, *policy.value) {
				errs = append(errs, field.NotSupported(at.Child(policy.name), policy.value, policies))
			}
		}
		errs = append(errs, validateSelector(constraint.LabelSelector, at.Child("labelSelector"))...)
	}
	return errs
}

// taintEffects are the effects a taint can have.
var taintEffects = []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}

func validateTolerations(tolerations []corev1.Toleration, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, t := range tolerations {
		at := root.Index(i)
		if t.Key != "" {
			errs = append(errs, metavalidation.ValidateLabelName(t.Key, at.Child("key"))...)
		} else if t.Operator != corev1.TolerationOpExists {
			errs = append(errs, field.Invalid(at.Child("operator"), t.Operator,
				"operator must be Exists when `key` is empty, which means \"match all values and all keys\""))
		}
		if t.TolerationSeconds != nil && t.Effect != corev1.TaintEffectNoExecute {
			errs = append(errs, field.Invalid(at.Child("effect"), t.Effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
		}
		errs = append(errs, validateTolerationOperator(&t, at)...)
		if t.Effect != "" {
			errs = append(errs, supported(t.Effect, taintEffects, at.Child("effect"))...)
		}
	}
	return errs
}

func validateTolerationOperator(t *corev1.Toleration, at *field.Path) field.ErrorList {
	at = at.Child("operator")
	switch t.Operator {
	case corev1.TolerationOpEqual, "":
		if messages := validation.IsValidLabelValue(t.Value); len(messages) > 0 {
			return field.ErrorList{field.Invalid(at, t.Value, strings.Join(messages, ";"))}
		}
		return nil
	case corev1.TolerationOpExists:
		if t.Value != "" {
			return field.ErrorList{field.Invalid(at, t.Value, "value must be empty when `operator` is 'Exists'")}
		}
		return nil
	case corev1.TolerationOpLt, corev1.TolerationOpGt: // behind a gate that is off
		if _, err := strconv.ParseInt(t.Value, 10, 64); err == nil {
			return field.ErrorList{field.NotSupported(at, t.Operator, []corev1.TolerationOperator{
				corev1.TolerationOpEqual, corev1.TolerationOpExists, corev1.TolerationOpLt, corev1.TolerationOpGt})}
		}
	}
	return field.ErrorList{field.NotSupported(at, t.Operator, []corev1.TolerationOperator{
		corev1.TolerationOpEqual, corev1.TolerationOpExists})}
}
