// Package rbac says who may do what: the roles and bindings of YAML files, read strictly, and the decision a real API server
// makes by them. Both ways into the simulated server ask it, the engine for a process and the HTTP handler for a user, so
// that what is refused, and in which words, is the same.
//
// A [Policy] is a set of roles and bindings; it does not change. An [Access] is who makes a request together with what
// decides. The rules are those of plugin/pkg/auth/authorizer/rbac, pkg/apis/rbac/v1 and pkg/registry/rbac of
// k8s.io/kubernetes v1.36.
package rbac
