package handler

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// User is who sends a request.
type User struct {
	Name   string
	Groups []string
}

// Admin is who sends a request that says nothing about it.
var Admin = User{Name: "system:admin", Groups: []string{"system:masters", "system:authenticated"}}

// Impersonated takes the user from the headers Impersonate-User and Impersonate-Group, which rest.Config.Impersonate sets; it
// is [Admin] without them. A service account has its groups of itself: pkg/endpoints/filters/impersonation of k8s.io/apiserver.
func Impersonated(r *http.Request) (User, bool) {
	name := r.Header.Get("Impersonate-User")
	if name == "" {
		return Admin, true
	}
	user := User{Name: name, Groups: slices.Clone(r.Header.Values("Impersonate-Group"))}
	if account, ok := strings.CutPrefix(name, "system:serviceaccount:"); ok && len(user.Groups) == 0 {
		namespace, _, _ := strings.Cut(account, ":")
		user.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace}
	}
	if name == "system:anonymous" {
		user.Groups = append(user.Groups, "system:unauthenticated")
	} else {
		user.Groups = append(user.Groups, "system:authenticated")
	}
	return user, true
}

// Attributes are what an Authorizer decides by.
type Attributes struct {
	User User
	// Verb is "get", "list", "watch", "create", "update", "patch", "delete" or "deletecollection"; for what is no resource it
	// is the method in lower case.
	Verb string
	// Resource, and with it the five fields below, is empty for what is no resource.
	Resource, Subresource, Group, Version, Namespace, Name string
	// Path is the path of the request's URL.
	Path string
}

// Authorizer says who may do what.
type Authorizer interface {
	// Authorize reports whether what the attributes describe is allowed. The reason is told to whom it is refused; it may be
	// empty.
	Authorize(Attributes) (allowed bool, reason string)
}

// AuthorizerFunc makes an Authorizer of a function.
type AuthorizerFunc func(Attributes) (allowed bool, reason string)

// Authorize calls the function.
func (f AuthorizerFunc) Authorize(a Attributes) (allowed bool, reason string) { return f(a) }

// admit finds out who sends a request, and refuses it if they may not.
func (h *Handler) admit(r *http.Request, t target) error {
	find := h.User
	if find == nil {
		find = Impersonated
	}
	user, ok := find(r)
	if !ok {
		return apierrors.NewUnauthorized("Unauthorized")
	}
	return h.authorize(Attributes{
		User: user, Verb: t.verb, Resource: t.Resource, Subresource: t.subresource, Group: t.Group, Version: t.Version,
		Namespace: t.namespace, Name: t.name, Path: r.URL.Path,
	})
}

// htmlSafe keeps messages from looking like HTML.
var htmlSafe = strings.NewReplacer(`&`, "&amp;", `<`, "&lt;", `>`, "&gt;")

// authorize returns what refuses an action, nil if it is allowed; ForbiddenStatusError of
// pkg/endpoints/handlers/responsewriters/errors.go.
func (h *Handler) authorize(a Attributes) error {
	if h.Authorizer == nil {
		return nil
	}
	allowed, reason := h.Authorizer.Authorize(a)
	if allowed {
		return nil
	}
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
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	where := "at the cluster scope"
	if a.Namespace != "" {
		where = fmt.Sprintf("in the namespace %q", a.Namespace)
	}
	return fmt.Sprintf("User %q cannot %s resource %q in API group %q %s", a.User.Name, a.Verb, resource, a.Group, where)
}
