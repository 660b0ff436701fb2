package builtin

import (
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateRole checks a new Role or an update; pkg/apis/rbac/validation/validation.go. That nobody may grant more than they
// have is not checked here: it depends on who asks.
func ValidateRole(role, _ *rbacv1.Role, _ string) field.ErrorList {
	return validatePolicyRules(role.Rules, true)
}

// ValidateClusterRole checks a new ClusterRole or an update; pkg/apis/rbac/validation/validation.go.
func ValidateClusterRole(role, _ *rbacv1.ClusterRole, _ string) field.ErrorList {
	errs := validatePolicyRules(role.Rules, false)
	if role.AggregationRule == nil {
		return errs
	}
	selectors, at := role.AggregationRule.ClusterRoleSelectors, field.NewPath("aggregationRule", "clusterRoleSelectors")
	if len(selectors) == 0 {
		errs = append(errs, field.Required(at, "at least one clusterRoleSelector required if aggregationRule is non-nil"))
	}
	for i := range selectors {
		errs = append(errs, validateSelector(&selectors[i], at.Index(i))...)
		if _, err := metav1.LabelSelectorAsSelector(&selectors[i]); err != nil {
			errs = append(errs, field.Invalid(at.Index(i), nil, "invalid label selector."))
		}
	}
	return errs
}

func validatePolicyRules(rules []rbacv1.PolicyRule, namespaced bool) field.ErrorList {
	var errs field.ErrorList
	for i := range rules {
		rule, at := &rules[i], field.NewPath("rules").Index(i)
		if len(rule.Verbs) == 0 {
			errs = append(errs, field.Required(at.Child("verbs"), "verbs must contain at least one value").MarkCoveredByDeclarative())
		}
		if urls := rule.NonResourceURLs; len(urls) > 0 {
			if namespaced {
				errs = append(errs, field.Invalid(at.Child("nonResourceURLs"), urls, "namespaced rules cannot apply to non-resource URLs"))
			}
			if len(rule.APIGroups)+len(rule.Resources)+len(rule.ResourceNames) > 0 {
				errs = append(errs, field.Invalid(at.Child("nonResourceURLs"), urls,
					"rules cannot apply to both regular resources and non-resource URLs"))
			}
			continue
		}
		if len(rule.APIGroups) == 0 {
			errs = append(errs, field.Required(at.Child("apiGroups"), "resource rules must supply at least one api group"))
		}
		if len(rule.Resources) == 0 {
			errs = append(errs, field.Required(at.Child("resources"), "resource rules must supply at least one resource"))
		}
	}
	return errs
}

// DefaultRoleBinding fills in defaults: pkg/apis/rbac/v1/defaults.go.
func DefaultRoleBinding(binding *rbacv1.RoleBinding, _ string) {
	fill(&binding.RoleRef.APIGroup, rbacv1.GroupName)
	defaultSubjects(binding.Subjects)
}

// DefaultClusterRoleBinding fills in defaults: pkg/apis/rbac/v1/defaults.go.
func DefaultClusterRoleBinding(binding *rbacv1.ClusterRoleBinding, _ string) {
	fill(&binding.RoleRef.APIGroup, rbacv1.GroupName)
	defaultSubjects(binding.Subjects)
}

func defaultSubjects(subjects []rbacv1.Subject) {
	for i := range subjects {
		if kind := subjects[i].Kind; kind == rbacv1.UserKind || kind == rbacv1.GroupKind {
			fill(&subjects[i].APIGroup, rbacv1.GroupName)
		}
	}
}

// ValidateRoleBinding checks a new RoleBinding or an update; pkg/apis/rbac/validation/validation.go.
func ValidateRoleBinding(binding, old *rbacv1.RoleBinding, version string) field.ErrorList {
	var before *rbacv1.RoleRef
	if old != nil {
		before = &old.RoleRef
	}
	return validateBinding(binding.RoleRef, before, binding.Subjects, true, version)
}

// ValidateClusterRoleBinding checks a new ClusterRoleBinding or an update; pkg/apis/rbac/validation/validation.go.
func ValidateClusterRoleBinding(binding, old *rbacv1.ClusterRoleBinding, version string) field.ErrorList {
	var before *rbacv1.RoleRef
	if old != nil {
		before = &old.RoleRef
	}
	return validateBinding(binding.RoleRef, before, binding.Subjects, false, version)
}

func validateBinding(ref rbacv1.RoleRef, old *rbacv1.RoleRef, subjects []rbacv1.Subject, namespaced bool,
	version string,
) field.ErrorList {
	root := field.NewPath("roleRef")
	kinds := []string{"ClusterRole"}
	if namespaced {
		kinds = []string{"Role", "ClusterRole"}
	}
	errs := join(
		supported(ref.APIGroup, []string{rbacv1.GroupName}, root.Child("apiGroup")),
		supported(ref.Kind, kinds, root.Child("kind")),
	)
	if ref.Name == "" {
		errs = append(errs, field.Required(root.Child("name"), ""))
	} else {
		errs = append(errs, named(ref.Name, content.IsPathSegmentName, root.Child("name"))...)
	}
	for i := range subjects {
		errs = append(errs, validateSubject(&subjects[i], namespaced, field.NewPath("subjects").Index(i))...)
	}
	if old == nil || *old == ref {
		return errs
	}
	text := "cannot change roleRef"
	if since(version, 37) {
		text = apivalidation.FieldImmutableErrorMsg
	}
	return append(errs, field.Invalid(root, internal(ref, version), text))
}

func validateSubject(subject *rbacv1.Subject, namespaced bool, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	if subject.Name == "" {
		errs = append(errs, field.Required(root.Child("name"), "").MarkCoveredByDeclarative())
	}
	switch subject.Kind {
	case rbacv1.ServiceAccountKind:
		if subject.Name != "" {
			errs = append(errs, named(subject.Name, validation.IsDNS1123Subdomain, root.Child("name"))...)
		}
		errs = append(errs, supported(subject.APIGroup, []string{""}, root.Child("apiGroup"))...)
		if !namespaced && subject.Namespace == "" {
			errs = append(errs, field.Required(root.Child("namespace"), ""))
		}
	case rbacv1.UserKind, rbacv1.GroupKind:
		errs = append(errs, supported(subject.APIGroup, []string{rbacv1.GroupName}, root.Child("apiGroup"))...)
	default:
		errs = append(errs, field.NotSupported(root.Child("kind"), subject.Kind, []string{
			rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind}))
	}
	return errs
}
