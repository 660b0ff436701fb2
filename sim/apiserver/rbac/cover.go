package rbac

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// RuleResolver is an [Authorizer] that can tell rules, as [Policy] does. Without one, what a user grants to others is not
// checked.
type RuleResolver interface {
	// RulesFor returns the rules that a user has in a namespace; in none, those they have everywhere.
	RulesFor(user User, namespace string) []rbacv1.PolicyRule
}

// Grants returns what refuses that the user grants rules to others in a namespace: that they do not have them all. It is nil
// where they do, or where nobody can tell. ConfirmNoEscalation of pkg/registry/rbac/validation/rule.go.
func (a *Access) Grants(rules []rbacv1.PolicyRule, namespace string) error {
	resolver, ok := a.Authorizer.(RuleResolver)
	if a.User.privileged() || !ok {
		return nil
	}
	missing := uncovered(resolver.RulesFor(a.User, namespace), rules)
	if len(missing) == 0 {
		return nil
	}
	lines := make([]string, len(missing))
	for i := range missing {
		lines[i] = compact(&missing[i])
	}
	slices.Sort(lines)
	return fmt.Errorf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		a.User.Name, a.User.Groups, strings.Join(slices.Compact(lines), "\n"))
}

// GrantsEverything returns what refuses that the user writes an aggregation rule, which may gather any rules.
func (a *Access) GrantsEverything() error {
	all := []string{"*"}
	if a.Grants([]rbacv1.PolicyRule{{Verbs: all, APIGroups: all, Resources: all}, {Verbs: all, NonResourceURLs: all}}, "") == nil {
		return nil
	}
	return errors.New("must have cluster-admin privileges to use the aggregationRule")
}

// uncovered returns what of some rules no single one of the owner's covers, in parts; those that differ in their verbs only
// are one again. Covers of k8s.io/component-helpers/auth/rbac/validation, and CompactRules of pkg/registry/rbac/validation.
func uncovered(owned, granted []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var missing []rbacv1.PolicyRule
	for i := range granted {
		for _, part := range parts(&granted[i]) {
			if slices.ContainsFunc(owned, func(rule rbacv1.PolicyRule) bool { return covers(&rule, &part) }) {
				continue
			}
			same := slices.IndexFunc(missing, func(m rbacv1.PolicyRule) bool {
				return len(part.NonResourceURLs) == 0 && slices.Equal(m.APIGroups, part.APIGroups) &&
					slices.Equal(m.Resources, part.Resources) && slices.Equal(m.ResourceNames, part.ResourceNames)
			})
			if same >= 0 {
				missing[same].Verbs = append(missing[same].Verbs, part.Verbs...)
			} else {
				missing = append(missing, part)
			}
		}
	}
	return missing
}

// parts breaks a rule down into rules of one verb, group, resource and name, or one verb and path, each.
func parts(rule *rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var all []rbacv1.PolicyRule
	names := rule.ResourceNames
	if len(names) == 0 {
		names = []string{""}
	}
	for _, group := range rule.APIGroups {
		for _, resource := range rule.Resources {
			for _, verb := range rule.Verbs {
				for _, name := range names {
					part := rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}}
					if len(rule.ResourceNames) > 0 {
						part.ResourceNames = []string{name}
					}
					all = append(all, part)
				}
			}
		}
	}
	for _, path := range rule.NonResourceURLs {
		for _, verb := range rule.Verbs {
			all = append(all, rbacv1.PolicyRule{Verbs: []string{verb}, NonResourceURLs: []string{path}})
		}
	}
	return all
}

// covers reports whether a rule allows all that a part of a rule does.
func covers(rule, part *rbacv1.PolicyRule) bool {
	if !holds(rule.Verbs, rbacv1.VerbAll, part.Verbs[0]) {
		return false
	}
	if len(part.NonResourceURLs) > 0 {
		return slices.ContainsFunc(rule.NonResourceURLs, func(path string) bool { return coversPath(path, part.NonResourceURLs[0]) })
	}
	resource := part.Resources[0]
	_, subresource, isSub := strings.Cut(resource, "/")
	anyOwner := isSub && slices.Contains(rule.Resources, "*/"+subresource)
	named := len(rule.ResourceNames) == 0 || len(part.ResourceNames) > 0 && slices.Contains(rule.ResourceNames, part.ResourceNames[0])
	return holds(rule.APIGroups, rbacv1.APIGroupAll, part.APIGroups[0]) &&
		(anyOwner || holds(rule.Resources, rbacv1.ResourceAll, resource)) && named
}

// compact returns a rule as the server shows it in messages: CompactString of pkg/apis/rbac/v1/evaluation_helpers.go.
func compact(rule *rbacv1.PolicyRule) string {
	var fields []string
	add := func(name string, values []string) {
		if len(values) > 0 {
			fields = append(fields, fmt.Sprintf("%s:%q", name, values))
		}
	}
	add("APIGroups", rule.APIGroups)
	add("Resources", rule.Resources)
	add("NonResourceURLs", rule.NonResourceURLs)
	add("ResourceNames", rule.ResourceNames)
	add("Verbs", rule.Verbs)
	return "{" + strings.Join(fields, ", ") + "}"
}

// MayEscalate reports whether the user may write any rules into a role; RoleEscalationAuthorized of
// pkg/registry/rbac/escalation_check.go.
func (a *Access) MayEscalate(resource, namespace, name string) bool {
	return a.User.privileged() || a.may(Attributes{
		Verb: "escalate", Group: rbacv1.GroupName, Version: "*", Resource: resource, Namespace: namespace, Name: name,
	})
}

// MayBind reports whether the user may bind a role in a namespace (empty for a ClusterRoleBinding) whatever its rules are;
// BindingAuthorized of pkg/registry/rbac/escalation_check.go.
func (a *Access) MayBind(ref rbacv1.RoleRef, namespace string) bool {
	resource := map[string]string{kindRole: "roles", kindClusterRole: "clusterroles"}[ref.Kind]
	return a.User.privileged() || resource != "" && a.may(Attributes{
		Verb: "bind", Group: cmp.Or(ref.APIGroup, rbacv1.GroupName), Version: "*", Resource: resource, Namespace: namespace, Name: ref.Name,
	})
}

func (a *Access) may(what Attributes) bool {
	what.User = a.User
	allowed, _ := a.Authorizer.Authorize(what)
	return allowed
}

// RoleRules returns the rules of the role that a binding in a namespace refers to, as far as what authorizes knows it. The
// error is that of a role which is not there.
func (a *Access) RoleRules(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	p, ok := a.Authorizer.(*Policy)
	if !ok {
		return nil, nil
	}
	rules, err := p.Role(ref, namespace)
	if err != nil {
		return nil, err
	}
	return rules, nil
}
