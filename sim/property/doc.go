// Package property judges runs: rules in CEL over the state of the cluster.
//
// A [Definition] is a rule with a type that says when it is looked at, and a [Variable] gives a name in rules to an
// object or a list of the cluster. [Compile] checks them against the kinds they bind and returns a [Set], which is
// read only and shared by all runs. A [Monitor] watches one run: the engine tells it of requests and commits, and it
// evaluates those rules whose variables changed.
//
// # What rules see
//
// Rules see objects as kubectl get -o yaml shows them, and are written like validation rules of a
// CustomResourceDefinition, with the same functions (k8s.io/apiserver/pkg/cel/environment):
//
//   - A variable that binds an object is null when the object is absent. sts != null tells, and
//     sts.?status.?readyReplicas.orValue(0) reads through it.
//   - A field that the YAML would not show is absent: reading it is an error, has() tells, and .?field.orValue(x)
//     reads it. That goes for fields which are omitted when empty, too: a StatefulSet with no ready replica has no
//     status.readyReplicas.
//   - Points in time are timestamps, quantities are strings (see the quantity function), data of Secrets is bytes, and
//     fields that hold an integer or a string are dyn. metav1.Duration is a duration in a Go type, a string in most CRDs.
//   - What has no schema is dyn: the data of a ControllerRevision, fields that preserve unknown fields, kinds
//     without a schema. Fields that a schema does not declare are read through dyn(object).field.
//   - Maps are iterated in the order of their keys, lists of objects are in the order of namespace and name.
//
// Rules of type [Request], and of type [Sometimes] with a match, see the cluster as it was just before the request, and
//
//   - request: actor, verb, kind, namespace, name, subresource, dryRun, and object, the body of a create or update or null.
//   - response: code, reason and message; reason and message are empty on success.
//
// An error in evaluating a rule makes its property [Invalid], never a pass and never a finding.
package property
