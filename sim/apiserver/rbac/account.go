package rbac

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// For returns what a program may do that runs as a service account; the policy stays as it is. Where the account's namespace
// is not said, it is the one that the bindings name, or else "default"; where its name is not said, it is the one account that
// the bindings name. What of the policy says no namespace is put in that of the account.
//
// A policy without bindings, as one of the single role.yaml that a scaffold generates, gives all its roles to the account: a
// ClusterRole everywhere, a Role in its namespace. name is what an account is called that nothing names.
//
// An error says that it is not clear which account is meant, that no binding is for it, or that one refers to a role that is
// not there.
func (p *Policy) For(account types.NamespacedName, name string) (*Access, error) {
	bound := p.given()
	subject, err := p.account(bound, account, name)
	if err != nil {
		return nil, err
	}
	placed := &Policy{roles: map[types.NamespacedName][]rbacv1.PolicyRule{}, clusterRoles: p.clusterRoles, names: p.names}
	for role, rules := range p.roles {
		if role.Namespace == unplaced {
			role.Namespace = subject.Namespace
		}
		placed.roles[role] = rules
	}
	for _, b := range p.bindings {
		if b.namespace == unplaced {
			b.namespace = subject.Namespace
		}
		placed.bindings = append(placed.bindings, b)
	}
	user := ServiceAccount(subject)
	if len(bound) == 0 {
		placed.bindAll(user, subject.Namespace)
		return &Access{User: user, Authorizer: placed}, nil
	}
	return &Access{User: user, Authorizer: placed}, placed.checkBound(user, bound)
}

// given returns the bindings that the policy was made of.
func (p *Policy) given() []binding {
	_, standard := standardRules()
	return p.bindings[len(standard):]
}

// account returns the service account that is meant.
func (p *Policy) account(bound []binding, account types.NamespacedName, name string) (types.NamespacedName, error) {
	named := accountsOf(bound)
	if account.Name == "" {
		switch len(named) {
		case 0:
			account.Name = name
		case 1:
			account.Name = named[0].Name
		default:
			return account, fmt.Errorf("the bindings are for the service accounts %s: say which it is", names(named))
		}
	}
	if account.Namespace == "" {
		for _, n := range named {
			if n.Name == account.Name {
				account.Namespace = n.Namespace
				break
			}
		}
	}
	account.Namespace = cmp.Or(account.Namespace, metav1.NamespaceDefault)
	return account, nil
}

// accountsOf returns the service accounts that bindings name, each once, without a namespace where none is said.
func accountsOf(bound []binding) []types.NamespacedName {
	var named []types.NamespacedName
	for _, b := range bound {
		for _, s := range b.subjects {
			if s.Kind != rbacv1.ServiceAccountKind {
				continue
			}
			account := types.NamespacedName{Namespace: s.Namespace, Name: s.Name}
			if account.Namespace == "" && b.namespace != unplaced {
				account.Namespace = b.namespace
			}
			if !slices.Contains(named, account) {
				named = append(named, account)
			}
		}
	}
	return named
}

func names(accounts []types.NamespacedName) string {
	quoted := make([]string, len(accounts))
	for i, account := range accounts {
		quoted[i] = fmt.Sprintf("%q", strings.TrimPrefix(account.String(), "/"))
	}
	return strings.Join(quoted, ", ")
}

// bindAll gives all roles that the policy was made of to a user.
func (p *Policy) bindAll(user User, namespace string) {
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user.Name}}
	for _, role := range p.names {
		b := binding{ref: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: role.kind, Name: role.Name}, subjects: subjects}
		if role.kind == kindRole {
			b.namespace = cmp.Or(role.Namespace, namespace)
		}
		p.bindings = append(p.bindings, b)
	}
}

// checkBound reports what keeps bindings from giving the user what they are there for.
func (p *Policy) checkBound(user User, bound []binding) error {
	applied := false
	for _, b := range p.bindings[len(p.bindings)-len(bound):] {
		if !b.appliesTo(user, b.namespace) {
			continue
		}
		applied = true
		if _, err := p.Role(b.ref, b.namespace); err != nil {
			return fmt.Errorf("a binding for %q refers to a role that is not there: %w: give it too", user.Name, err)
		}
	}
	if !applied {
		return fmt.Errorf("no binding is for %q: the bindings are for %s", user.Name, cmp.Or(names(accountsOf(bound)),
			"no service account"))
	}
	return nil
}
