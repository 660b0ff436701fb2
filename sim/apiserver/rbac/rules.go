package rbac

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// Allows reports whether a rule allows what the attributes describe; RuleAllows of plugin/pkg/auth/authorizer/rbac/rbac.go,
// and pkg/apis/rbac/v1/evaluation_helpers.go. A name that is not known, as that of an object to be created, matches no rule
// that lists names.
func Allows(rule *rbacv1.PolicyRule, a Attributes) bool {
	if !holds(rule.Verbs, rbacv1.VerbAll, a.Verb) {
		return false
	}
	if a.Resource == "" {
		return slices.ContainsFunc(rule.NonResourceURLs, func(path string) bool { return coversPath(path, a.Path) })
	}
	return holds(rule.APIGroups, rbacv1.APIGroupAll, a.Group) &&
		slices.ContainsFunc(rule.Resources, func(name string) bool { return matchesResource(name, a.Resource, a.Subresource) }) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, a.Name))
}

// holds reports whether a list has a value, or the one that stands for all.
func holds(list []string, all, value string) bool {
	return slices.ContainsFunc(list, func(item string) bool { return item == all || item == value })
}

// matchesResource reports whether what a rule lists is a resource: "*" is all of them with all subresources, "pods" is the
// resource without its subresources, "pods/status" is one of these, "*/scale" is that of any resource. Nothing else with a
// star is more than a name: "pods/*" matches no request but one to a subresource of that name.
func matchesResource(listed, resource, subresource string) bool {
	if listed == rbacv1.ResourceAll {
		return true
	}
	if subresource == "" {
		return listed == resource
	}
	first, second, found := strings.Cut(listed, "/")
	return found && second == subresource && (first == rbacv1.ResourceAll || first == resource)
}

// coversPath reports whether a path of a rule stands for another: that itself, or all that begins with it, if it ends with a
// star.
func coversPath(listed, path string) bool {
	return listed == path || strings.HasSuffix(listed, "*") && strings.HasPrefix(path, strings.TrimRight(listed, "*"))
}
