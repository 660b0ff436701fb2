package handler

import (
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/stalemate-dev/stalemate/sim/apiserver/rbac"
)

// User is who sends a request.
type User = rbac.User

// Admin is who sends a request that says nothing about it.
var Admin = User{Name: "system:admin", Groups: []string{rbac.Masters, rbac.Authenticated}}

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
		user.Groups = []string{rbac.ServiceAccounts, rbac.ServiceAccounts + ":" + namespace}
	}
	if name == "system:anonymous" {
		user.Groups = append(user.Groups, rbac.Unauthenticated)
	} else {
		user.Groups = append(user.Groups, rbac.Authenticated)
	}
	return user, true
}

// Attributes are what an Authorizer decides by.
type Attributes = rbac.Attributes

// Authorizer says who may do what: an [rbac.Policy], or whatever else.
type Authorizer = rbac.Authorizer

// AuthorizerFunc makes an Authorizer of a function.
type AuthorizerFunc = rbac.AuthorizerFunc

// admit finds out who sends a request, and refuses it if they may not, before anything else of it is looked at. Nil with nil is
// somebody who may do everything. The server that executes the request asks the authorizer again, as it does whatever way a
// request comes, and needs the access for what a write may turn out to be, such as a create.
func (h *Handler) admit(r *http.Request, t target) (*rbac.Access, error) {
	find := h.User
	if find == nil {
		find = Impersonated
	}
	user, ok := find(r)
	if !ok {
		return nil, apierrors.NewUnauthorized("Unauthorized")
	}
	if h.Authorizer == nil {
		return nil, nil
	}
	access := &rbac.Access{User: user, Authorizer: h.Authorizer}
	refused := access.Check(Attributes{
		Verb: t.verb, Resource: t.Resource, Subresource: t.subresource, Group: t.Group, Version: t.Version,
		Namespace: t.namespace, Name: t.name, Path: r.URL.Path,
	})
	if refused != nil {
		return nil, refused
	}
	return access, nil
}
