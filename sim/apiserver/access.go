package apiserver

import (
	"errors"

	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim/apiserver/rbac"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// authorize refuses a request that whoever makes it may not make.
func (r *Request) authorize() *Response { return r.allowed(r.accessAttributes()) }

// allowed refuses what whoever makes the request may not do; nil if they may.
func (r *Request) allowed(what rbac.Attributes) *Response {
	err := r.Access.Check(what)
	if err == nil {
		return nil
	}
	response, denied := failed(err), what
	response.Denied = &denied
	return response
}

// accessAttributes are what it is decided by whether a request is allowed; RequestInfo of pkg/endpoints/request/requestinfo.go of
// k8s.io/apiserver.
func (r *Request) accessAttributes() rbac.Attributes {
	k := r.view()
	a := rbac.Attributes{
		Verb: verbOf(r.Verb), Resource: k.Resource, Subresource: r.Subresource, Group: k.Group, Version: k.Version,
		Namespace: r.Namespace, Name: r.Name,
	}
	if !k.Namespaced {
		a.Namespace = ""
	}
	switch r.Verb {
	case schedule.Create:
		if r.Subresource == "" {
			a.Name = "" // the path does not say it
		}
	case schedule.List, schedule.Watch:
		if r.FieldSelector != nil {
			a.Name, _ = r.FieldSelector.RequiresExactMatch(metav1.ObjectNameField)
		}
	default: // it is about one object, or about all
	}
	if k.behind().order == namespaceOrder {
		a.Namespace = a.Name // a namespace is in itself
	}
	return a
}

// verbOf returns a verb as rules have it.
func verbOf(verb schedule.Verb) string {
	switch verb {
	case schedule.Get:
		return "get"
	case schedule.List:
		return "list"
	case schedule.Watch:
		return "watch"
	case schedule.Create:
		return "create"
	case schedule.Update:
		return "update"
	case schedule.Patch:
		return "patch"
	case schedule.Delete:
		return "delete"
	case schedule.DeleteCollection:
		return "deletecollection"
	default:
		return string(verb)
	}
}

// createForbidden returns what an update or patch is answered with that would create the object, nil if it may;
// withAuthorization of pkg/endpoints/handlers/update.go.
func (r *Request) createForbidden() *Response {
	if r.Access == nil {
		return nil
	}
	what := r.accessAttributes()
	what.Verb = "create"
	return r.allowed(what)
}

// checkGrant refuses to let somebody grant rights that they do not have: by writing a role, or by binding one. stored is nil
// for a new object. The storages in pkg/registry/rbac/*/policybased of k8s.io/kubernetes.
func (s *Server) checkGrant(req *Request, obj, stored Object) *statusError {
	if req.Access == nil || req.Kind.Group != rbacv1.GroupName {
		return nil
	}
	if stored != nil && onlyForCollector(obj, stored) {
		return nil
	}
	err := s.grant(req, obj, stored)
	if err == nil {
		return nil
	}
	if status, ok := errors.AsType[*statusError](err); ok {
		return status
	}
	return apierrors.NewForbidden(req.Kind.GroupResource(), obj.GetName(), err)
}

// grant returns what refuses what an object grants.
func (s *Server) grant(req *Request, obj, stored Object) error {
	access, namespace := req.Access, req.Namespace
	escalates := func() bool { return access.MayEscalate(req.Kind.Resource, namespace, req.accessAttributes().Name) }
	switch o := obj.(type) {
	case *rbacv1.Role:
		if escalates() {
			return nil
		}
		return access.Grants(o.Rules, namespace)
	case *rbacv1.ClusterRole:
		if escalates() {
			return nil
		}
		if err := access.Grants(o.Rules, ""); err != nil {
			return err
		}
		if old, ok := stored.(*rbacv1.ClusterRole); aggregates(o) || ok && aggregates(old) {
			return access.GrantsEverything()
		}
		return nil
	case *rbacv1.RoleBinding:
		return s.binds(access, o.RoleRef, namespace)
	case *rbacv1.ClusterRoleBinding:
		return s.binds(access, o.RoleRef, "")
	default:
		return nil
	}
}

func aggregates(role *rbacv1.ClusterRole) bool {
	return role.AggregationRule != nil && len(role.AggregationRule.ClusterRoleSelectors) > 0
}

// binds returns what refuses that a role is bound in a namespace (empty for a ClusterRoleBinding).
func (s *Server) binds(access *rbac.Access, ref rbacv1.RoleRef, namespace string) error {
	if access.MayBind(ref, namespace) {
		return nil
	}
	rules, err := s.roleRules(access, ref, namespace)
	if err != nil {
		return err
	}
	return access.Grants(rules, namespace)
}

// roleRules returns the rules of a role that is in the store or, if it is not there, among those that authorize.
func (s *Server) roleRules(access *rbac.Access, ref rbacv1.RoleRef, namespace string) ([]rbacv1.PolicyRule, error) {
	if ref.Kind == "ClusterRole" {
		namespace = ""
	}
	if kind := s.kinds.ByGVK(rbacv1.SchemeGroupVersion.WithKind(ref.Kind)); kind != nil {
		switch role := s.Get(kind, namespace, ref.Name).(type) {
		case *rbacv1.Role:
			return role.Rules, nil
		case *rbacv1.ClusterRole:
			return role.Rules, nil
		}
	}
	return access.RoleRules(ref, namespace)
}

// onlyForCollector reports whether an update changes only what the garbage collector needs to change; IsOnlyMutatingGCFields of
// pkg/registry/rbac/helpers.go.
func onlyForCollector(obj, stored Object) bool {
	changed := obj.DeepCopyObject().(Object)
	changed.SetOwnerReferences(stored.GetOwnerReferences())
	changed.SetFinalizers(stored.GetFinalizers())
	changed.SetSelfLink(stored.GetSelfLink())
	changed.SetManagedFields(stored.GetManagedFields())
	return apiequality.Semantic.DeepEqual(changed, stored)
}
