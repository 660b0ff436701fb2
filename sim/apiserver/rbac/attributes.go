package rbac

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// The groups that a real server puts users into: pkg/authentication/user and pkg/authentication/serviceaccount of
// k8s.io/apiserver.
const (
	Masters         = "system:masters" // may do everything, whatever the roles say
	Authenticated   = "system:authenticated"
	Unauthenticated = "system:unauthenticated"
	ServiceAccounts = "system:serviceaccounts"
)

// User is who makes a request.
type User struct {
	Name   string
	Groups []string
}

// ServiceAccount returns the user that a service account is.
func ServiceAccount(account types.NamespacedName) User {
	return User{
		Name:   "system:serviceaccount:" + account.Namespace + ":" + account.Name,
		Groups: []string{ServiceAccounts, ServiceAccounts + ":" + account.Namespace, Authenticated},
	}
}

// Attributes are what is decided by.
type Attributes struct {
	User User
	// Verb is "get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "bind" or "escalate"; for what
	// is no resource it is the method in lower case.
	Verb string
	// Resource, and with it the five fields below, is empty for what is no resource.
	Resource, Subresource, Group, Version, Namespace, Name string
	// Path is the path of the request's URL; it decides only where there is no resource.
	Path string
}

// Authorizer says who may do what. Its methods may be called by several goroutines at once.
type Authorizer interface {
	// Authorize reports whether what the attributes describe is allowed. The reason is told to whom it is refused; it may be
	// empty.
	Authorize(Attributes) (allowed bool, reason string)
}

// AuthorizerFunc makes an Authorizer of a function.
type AuthorizerFunc func(Attributes) (allowed bool, reason string)

// Authorize calls the function.
func (f AuthorizerFunc) Authorize(a Attributes) (allowed bool, reason string) { return f(a) }

// Access is who makes a request, and what says whether they may. It is read only.
type Access struct {
	User       User
	Authorizer Authorizer
}

// Check returns what refuses an action of the user, nil if it is allowed. The user of the attributes need not be set.
func (a *Access) Check(what Attributes) *apierrors.StatusError {
	what.User = a.User
	allowed, reason := a.Authorizer.Authorize(what)
	if allowed {
		return nil
	}
	return Forbidden(what, reason)
}

// privileged reports whether the user may grant whatever they like; EscalationAllowed of pkg/registry/rbac/escalation_check.go.
func (u User) privileged() bool { return slices.Contains(u.Groups, Masters) }

// htmlSafe keeps messages from looking like HTML.
var htmlSafe = strings.NewReplacer(`&`, "&amp;", `<`, "&lt;", `>`, "&gt;")

// Forbidden returns what refuses an action; ForbiddenStatusError of pkg/endpoints/handlers/responsewriters/errors.go of
// k8s.io/apiserver v0.36.
func Forbidden(a Attributes, reason string) *apierrors.StatusError {
	message := htmlSafe.Replace(a.describe())
	if reason != "" {
		message += ": " + reason
	}
	resource := schema.GroupResource{Group: a.Group, Resource: a.Resource}
	return apierrors.NewForbidden(resource, a.Name, errors.New(message))
}

// describe says what the user wanted.
func (a Attributes) describe() string {
	if a.Resource == "" {
		return fmt.Sprintf("User %q cannot %s path %q", a.User.Name, a.Verb, a.Path)
	}
	where := "at the cluster scope"
	if a.Namespace != "" {
		where = fmt.Sprintf("in the namespace %q", a.Namespace)
	}
	return fmt.Sprintf("User %q cannot %s resource %q in API group %q %s", a.User.Name, a.Verb, a.resource(), a.Group, where)
}

// resource returns the resource as rules have it: with its subresource.
func (a Attributes) resource() string {
	if a.Subresource == "" {
		return a.Resource
	}
	return a.Resource + "/" + a.Subresource
}

// Rule returns the least rule that allows the action, whatever the name of the object.
func (a Attributes) Rule() rbacv1.PolicyRule {
	if a.Resource == "" {
		return rbacv1.PolicyRule{NonResourceURLs: []string{a.Path}, Verbs: []string{a.Verb}}
	}
	return rbacv1.PolicyRule{APIGroups: []string{a.Group}, Resources: []string{a.resource()}, Verbs: []string{a.Verb}}
}

// Missing returns the rule that would allow the action, as a role has it in YAML, and where it must be granted:
// `{apiGroups: ["apps"], resources: ["statefulsets"], verbs: ["update"]} in namespace "ns"`.
func (a Attributes) Missing() string {
	if a.Resource == "" {
		return fmt.Sprintf("{nonResourceURLs: [%q], verbs: [%q]} in all namespaces", a.Path, a.Verb)
	}
	where := "in all namespaces"
	if a.Namespace != "" {
		where = fmt.Sprintf("in namespace %q", a.Namespace)
	}
	return fmt.Sprintf("{apiGroups: [%q], resources: [%q], verbs: [%q]} %s", a.Group, a.resource(), a.Verb, where)
}
