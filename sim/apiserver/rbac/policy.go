package rbac

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Policy is a set of roles and bindings. It does not change once it is made, and may be used by several goroutines at once.
// Besides what it was made of, it has what every cluster gives to all: discovery, and that members of system:masters may do
// everything.
type Policy struct {
	roles        map[types.NamespacedName][]rbacv1.PolicyRule // of a ClusterRole, without a namespace
	bindings     []binding
	clusterRoles []*rbacv1.ClusterRole // in their order, for aggregation
	names        []roleName            // of all roles that were given, in their order
}

// roleName names a role that was given.
type roleName struct {
	kind string
	types.NamespacedName
}

// binding grants a role to subjects: within a namespace, or everywhere.
type binding struct {
	namespace string // empty for a ClusterRoleBinding
	ref       rbacv1.RoleRef
	subjects  []rbacv1.Subject
}

// The kinds of roles.
const (
	kindRole        = "Role"
	kindClusterRole = "ClusterRole"
)

// standardRules are the roles of every cluster that matter to all, with who has them: the default ClusterRoles and their
// bindings of plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go.
func standardRules() (roles map[types.NamespacedName][]rbacv1.PolicyRule, bindings []binding) {
	all := []string{"*"}
	public := []string{"/livez", "/readyz", "/healthz", "/version", "/version/"}
	discovery := slices.Concat(public, []string{"/openapi", "/openapi/*", "/api", "/api/*", "/apis", "/apis/*"})
	get := []string{"get"}
	reviews := func(group string, resources ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{"create"}, APIGroups: []string{group}, Resources: resources}
	}
	roles = map[types.NamespacedName][]rbacv1.PolicyRule{}
	add := func(name string, rules []rbacv1.PolicyRule, groups ...string) {
		roles[types.NamespacedName{Name: name}] = rules
		b := binding{ref: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kindClusterRole, Name: name}}
		for _, group := range groups {
			b.subjects = append(b.subjects, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: group})
		}
		bindings = append(bindings, b)
	}
	add("cluster-admin", []rbacv1.PolicyRule{
		{Verbs: all, APIGroups: all, Resources: all},
		{Verbs: all, NonResourceURLs: all},
	}, Masters)
	add("system:discovery", []rbacv1.PolicyRule{{Verbs: get, NonResourceURLs: discovery}}, Authenticated)
	add("system:public-info-viewer", []rbacv1.PolicyRule{{Verbs: get, NonResourceURLs: public}}, Authenticated, Unauthenticated)
	add("system:basic-user", []rbacv1.PolicyRule{
		reviews("authorization.k8s.io", "selfsubjectaccessreviews", "selfsubjectrulesreviews"),
		reviews("authentication.k8s.io", "selfsubjectreviews"),
	}, Authenticated)
	return roles, bindings
}

// New makes a policy of Roles, ClusterRoles, RoleBindings and ClusterRoleBindings; ServiceAccounts are passed over, and
// nothing else is taken. A role or binding that says no namespace, as in the files of a kustomization that sets it, is one of
// the empty namespace until [Policy.For] says which that is. Rules of an aggregated ClusterRole are those of the ClusterRoles
// that its selectors choose, in the place of its own.
func New(objects ...metav1.Object) (*Policy, error) {
	p := &Policy{}
	p.roles, p.bindings = standardRules()
	var errs []error
	for _, obj := range objects {
		if err := p.add(obj); err != nil {
			errs = append(errs, err)
		}
	}
	for _, role := range p.clusterRoles {
		if role.AggregationRule == nil {
			continue
		}
		rules, err := p.aggregate(role)
		if err != nil {
			errs = append(errs, err)
		}
		p.roles[types.NamespacedName{Name: role.Name}] = rules
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return p, nil
}

// add adds an object.
func (p *Policy) add(obj metav1.Object) error {
	switch o := obj.(type) {
	case *rbacv1.Role:
		return p.addRole(kindRole, types.NamespacedName{Namespace: o.Namespace, Name: o.Name}, o.Rules)
	case *rbacv1.ClusterRole:
		p.clusterRoles = append(p.clusterRoles, o)
		return p.addRole(kindClusterRole, types.NamespacedName{Name: o.Name}, o.Rules)
	case *rbacv1.RoleBinding:
		p.bindings = append(p.bindings, binding{namespace: o.Namespace, ref: o.RoleRef, subjects: o.Subjects})
		if o.Namespace == "" {
			p.bindings[len(p.bindings)-1].namespace = unplaced
		}
	case *rbacv1.ClusterRoleBinding:
		p.bindings = append(p.bindings, binding{ref: o.RoleRef, subjects: o.Subjects})
	}
	return nil
}

// unplaced is the namespace of what says none; no namespace has such a name.
const unplaced = "(none)"

func (p *Policy) addRole(kind string, name types.NamespacedName, rules []rbacv1.PolicyRule) error {
	given := roleName{kind, name}
	if slices.Contains(p.names, given) {
		return fmt.Errorf("%s %q is there twice", kind, strings.TrimPrefix(name.String(), "/"))
	}
	p.names = append(p.names, given)
	if kind == kindRole && name.Namespace == "" {
		name.Namespace = unplaced
	}
	p.roles[name] = rules
	return nil
}

// aggregate returns the rules of a ClusterRole that is made of others; syncClusterRole of
// pkg/controller/clusterroleaggregation.
func (p *Policy) aggregate(role *rbacv1.ClusterRole) ([]rbacv1.PolicyRule, error) {
	sorted := slices.Clone(p.clusterRoles)
	slices.SortStableFunc(sorted, func(a, b *rbacv1.ClusterRole) int { return strings.Compare(a.Name, b.Name) })
	var rules []rbacv1.PolicyRule
	for i := range role.AggregationRule.ClusterRoleSelectors {
		selector, err := metav1.LabelSelectorAsSelector(&role.AggregationRule.ClusterRoleSelectors[i])
		if err != nil {
			return nil, fmt.Errorf("ClusterRole %q: aggregationRule.clusterRoleSelectors[%d]: %w", role.Name, i, err)
		}
		for _, other := range sorted {
			if other.Name == role.Name || !selector.Matches(labels.Set(other.Labels)) {
				continue
			}
			for _, rule := range other.Rules {
				if !slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return apiequality.Semantic.DeepEqual(r, rule) }) {
					rules = append(rules, rule)
				}
			}
		}
	}
	return rules, nil
}

// Authorize implements [Authorizer].
func (p *Policy) Authorize(a Attributes) (allowed bool, reason string) {
	var problems []string
	for i := range p.bindings {
		b := &p.bindings[i]
		if !b.appliesTo(a.User, a.Namespace) {
			continue
		}
		rules, err := p.Role(b.ref, b.namespace)
		if err != nil {
			problems = append(problems, err.Error())
			continue
		}
		for j := range rules {
			if Allows(&rules[j], a) {
				return true, ""
			}
		}
	}
	switch len(problems) {
	case 0:
		return false, ""
	case 1:
		return false, "RBAC: " + problems[0]
	default:
		return false, "RBAC: [" + strings.Join(problems, ", ") + "]"
	}
}

// RulesFor returns the rules that a user has in a namespace; in none, those they have everywhere.
func (p *Policy) RulesFor(user User, namespace string) []rbacv1.PolicyRule {
	var all []rbacv1.PolicyRule
	for i := range p.bindings {
		b := &p.bindings[i]
		if !b.appliesTo(user, namespace) {
			continue
		}
		if rules, err := p.Role(b.ref, b.namespace); err == nil {
			all = append(all, rules...)
		}
	}
	return all
}

// Role returns the rules of the role that a binding in a namespace (empty for a ClusterRoleBinding) refers to. The error is
// that of a role which is not there.
func (p *Policy) Role(ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, *apierrors.StatusError) {
	name := types.NamespacedName{Name: ref.Name}
	if ref.Kind == kindRole {
		name.Namespace = namespace
	}
	rules, ok := p.roles[name]
	if !ok {
		// A lister names the kind where a server names the resource.
		return nil, apierrors.NewNotFound(schema.GroupResource{Group: rbacv1.GroupName, Resource: strings.ToLower(ref.Kind)}, ref.Name)
	}
	return rules, nil
}

// appliesTo reports whether a binding says anything about what a user does in a namespace (none: at the cluster's scope);
// VisitRulesFor and appliesToUser of pkg/registry/rbac/validation/rule.go.
func (b *binding) appliesTo(user User, namespace string) bool {
	if b.namespace != "" && b.namespace != namespace {
		return false
	}
	return slices.ContainsFunc(b.subjects, func(s rbacv1.Subject) bool { return isSubject(user, s, b.namespace) })
}

// isSubject reports whether a subject of a binding in a namespace is the user, or has them as a member.
func isSubject(user User, subject rbacv1.Subject, namespace string) bool {
	switch subject.Kind {
	case rbacv1.UserKind:
		return user.Name == subject.Name
	case rbacv1.GroupKind:
		return slices.Contains(user.Groups, subject.Name)
	case rbacv1.ServiceAccountKind:
		if subject.Namespace != "" {
			namespace = subject.Namespace
		}
		account, ok := strings.CutPrefix(user.Name, "system:serviceaccount:")
		own, name, _ := strings.Cut(account, ":")
		return ok && namespace != "" && own == namespace && name == subject.Name
	default:
		return false
	}
}
