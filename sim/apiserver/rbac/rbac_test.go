package rbac_test

import (
	"errors"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/apiserver/rbac"
)

// TestAllows holds rules against requests, as pkg/apis/rbac/v1/evaluation_helpers.go of Kubernetes decides them.
func TestAllows(t *testing.T) {
	resources := func(list ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{"apps"}, Resources: list}
	}
	named := resources("statefulsets")
	named.ResourceNames = []string{"web"}
	verbs := func(list ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: list, APIGroups: []string{"apps"}, Resources: []string{"statefulsets"}}
	}
	groups := func(list ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: list, Resources: []string{"statefulsets"}}
	}
	paths := func(list ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: list}
	}
	get := rbac.Attributes{Verb: "get", Group: "apps", Resource: "statefulsets", Namespace: "ns", Name: "web"}
	status, core, path := get, get, rbac.Attributes{Verb: "get", Path: "/api/v1"}
	status.Subresource = "status"
	core.Group = ""
	other, unnamed := get, get
	other.Name, unnamed.Name = "other", ""
	tests := []struct {
		name string
		rule rbacv1.PolicyRule
		what rbac.Attributes
		want bool
	}{
		{"the verb", verbs("list", "get"), get, true},
		{"another verb", verbs("list", "watch"), get, false},
		{"all verbs", verbs("*"), get, true},
		{"no verb", verbs(), get, false},
		{"the group", groups("", "apps"), get, true},
		{"another group", groups("", "batch"), get, false},
		{"all groups", groups("*"), get, true},
		{"the core group is empty", groups(""), core, true},
		{"the core group is not core", groups("core"), core, false},
		{"the resource", resources("statefulsets"), get, true},
		{"the resource is not its subresource", resources("statefulsets"), status, false},
		{"the subresource", resources("statefulsets/status"), status, true},
		{"the subresource is not the resource", resources("statefulsets/status"), get, false},
		{"all resources", resources("*"), get, true},
		{"all resources have all subresources", resources("*"), status, true},
		{"a subresource of all", resources("*/status"), status, true},
		{"another subresource of all", resources("*/scale"), status, false},
		{"a subresource of all is not the resource", resources("*/status"), get, false},
		{"a star for the subresource is but a name", resources("statefulsets/*"), status, false},
		{"a kind is no resource", resources("StatefulSet"), get, false},
		{"the name", named, get, true},
		{"another name", named, other, false},
		{"a name that is not known, as of a create", named, unnamed, false},
		{"a resource is no path", resources("*"), path, false},
		{"the path", paths("/api/v1"), path, true},
		{"a longer path", paths("/api"), path, false},
		{"all below a path", paths("/api/*"), path, true},
		{"all paths that begin like that", paths("/ap*"), path, true},
		{"a star within a path is but a character", paths("/*/v1"), path, false},
		{"all paths", paths("*"), path, true},
		{"a path is no resource", paths("*"), get, false},
	}
	for _, test := range tests {
		if got := rbac.Allows(&test.rule, test.what); got != test.want {
			t.Errorf("%s: %t, want %t", test.name, got, test.want)
		}
	}
}

// load makes a policy of YAML.
func load(t *testing.T, text string) *rbac.Policy {
	t.Helper()
	objects, err := rbac.Load([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	policy, err := rbac.New(objects...)
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

const roles = `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: manager}
rules:
- {apiGroups: [apps], resources: [statefulsets], verbs: [get, list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: leader}
rules:
- {apiGroups: [coordination.k8s.io], resources: [leases], verbs: ["*"]}
`

const bindings = `
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: viewer}
rules:
- {apiGroups: [""], resources: [pods], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: manager}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: manager}
subjects:
- {kind: ServiceAccount, name: controller, namespace: system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: leader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: leader}
subjects:
- {kind: ServiceAccount, name: controller, namespace: system}
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: controller, namespace: system}
`

// TestFor checks what a service account has of roles with and without bindings.
func TestFor(t *testing.T) {
	sets := rbac.Attributes{Verb: "get", Group: "apps", Resource: "statefulsets", Name: "web", Namespace: "any"}
	write := sets
	write.Verb = "update"
	lease := rbac.Attributes{Verb: "update", Group: "coordination.k8s.io", Resource: "leases", Name: "l", Namespace: "system"}
	elsewhere := lease
	elsewhere.Namespace = "any"
	pods := rbac.Attributes{Verb: "get", Resource: "pods", Name: "p", Namespace: "any"}
	system := types.NamespacedName{Namespace: "system"}
	tests := []struct {
		name, text string
		account    types.NamespacedName
		user       string
		what       rbac.Attributes
		want       bool
	}{
		{"unbound, a verb", roles, system, "system:serviceaccount:system:operator", sets, true},
		{"unbound, another verb", roles, system, "system:serviceaccount:system:operator", write, false},
		{"unbound, a role in its namespace", roles, system, "system:serviceaccount:system:operator", lease, true},
		{"unbound, a role in another", roles, system, "system:serviceaccount:system:operator", elsewhere, false},
		{"unbound, default", roles, types.NamespacedName{}, "system:serviceaccount:default:operator", lease, false},
		{"bound", roles + bindings, types.NamespacedName{}, "system:serviceaccount:system:controller", sets, true},
		{"bound, a role in its namespace", roles + bindings, types.NamespacedName{},
			"system:serviceaccount:system:controller", lease, true},
		{"bound, a role in another", roles + bindings, types.NamespacedName{}, "system:serviceaccount:system:controller", elsewhere, false},
		{"bound, of a role that nobody binds", roles + bindings, types.NamespacedName{},
			"system:serviceaccount:system:controller", pods, false},
		{"unbound, all roles are its own", roles + bindings[:strings.Index(bindings,
			"---\napiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding")],
			types.NamespacedName{}, "system:serviceaccount:default:operator", pods, true},
		{"discovery is everybody's", roles + bindings, types.NamespacedName{}, "system:serviceaccount:system:controller",
			rbac.Attributes{Verb: "get", Path: "/apis/apps/v1"}, true},
		{"metrics are not", roles + bindings, types.NamespacedName{}, "system:serviceaccount:system:controller",
			rbac.Attributes{Verb: "get", Path: "/metrics"}, false},
	}
	for _, test := range tests {
		access, err := load(t, test.text).For(test.account, "operator")
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		if access.User.Name != test.user {
			t.Errorf("%s: the user is %s, want %s", test.name, access.User.Name, test.user)
		}
		if err := access.Check(test.what); (err == nil) != test.want {
			t.Errorf("%s: %v, want it allowed: %t", test.name, err, test.want)
		}
	}
}

// TestForRefuses checks what is wrong with bindings as a whole.
func TestForRefuses(t *testing.T) {
	second := strings.Replace(bindings, "{kind: ServiceAccount, name: controller, namespace: system}",
		"{kind: ServiceAccount, name: other, namespace: system}", 1)
	missing := strings.Replace(bindings, "kind: Role, name: leader", "kind: Role, name: follower", 1)
	users := `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: manager}
roleRef: {kind: ClusterRole, name: cluster-admin}
subjects: [{kind: User, name: jane}]
`
	tests := []struct {
		name, text string
		account    types.NamespacedName
		want       string
	}{
		{"two accounts", roles + second, types.NamespacedName{},
			`the bindings are for the service accounts "system/other", "system/controller": say which it is`},
		{"another account", roles + bindings, types.NamespacedName{Name: "x", Namespace: "y"},
			`no binding is for "system:serviceaccount:y:x": the bindings are for "system/controller"`},
		{"a role that is not there", roles + missing, types.NamespacedName{}, `a binding for "system:serviceaccount:system:controller" ` +
			`refers to a role that is not there: role.rbac.authorization.k8s.io "follower" not found: give it too`},
		{"nobody", users, types.NamespacedName{},
			`no binding is for "system:serviceaccount:default:operator": the bindings are for no service account`},
	}
	for _, test := range tests {
		if _, err := load(t, test.text).For(test.account, "operator"); err == nil || err.Error() != test.want {
			t.Errorf("%s:\n%v, want\n%s", test.name, err, test.want)
		}
	}
}

// TestForbidden compares refusals with those of a real server: the second is recorded as forbidden-update-status.
func TestForbidden(t *testing.T) {
	account := rbac.ServiceAccount(types.NamespacedName{Namespace: "ns", Name: "name"})
	dangling := &rbacv1.ClusterRoleBinding{
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "gone"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "name", Namespace: "ns"}},
	}
	tests := []struct {
		what    rbac.Attributes
		objects []metav1.Object
		want    string
	}{
		{rbac.Attributes{Verb: "update", Group: "apps", Resource: "statefulsets", Namespace: "ns", Name: "x"}, nil,
			`statefulsets.apps "x" is forbidden: User "system:serviceaccount:ns:name" cannot update resource "statefulsets" ` +
				`in API group "apps" in the namespace "ns"`},
		{rbac.Attributes{Verb: "update", Group: "apps", Resource: "statefulsets", Subresource: "status", Namespace: "ns", Name: "x"}, nil,
			`statefulsets.apps "x" is forbidden: User "system:serviceaccount:ns:name" cannot update resource "statefulsets/status" ` +
				`in API group "apps" in the namespace "ns"`},
		{rbac.Attributes{Verb: "list", Resource: "nodes"}, nil,
			`nodes is forbidden: User "system:serviceaccount:ns:name" cannot list resource "nodes" in API group "" at the cluster scope`},
		{rbac.Attributes{Verb: "get", Path: "/metrics?<x>"}, nil,
			`forbidden: User "system:serviceaccount:ns:name" cannot get path "/metrics?&lt;x&gt;"`},
		{rbac.Attributes{Verb: "get", Resource: "pods", Namespace: "ns", Name: "p"}, []metav1.Object{dangling},
			`pods "p" is forbidden: User "system:serviceaccount:ns:name" cannot get resource "pods" in API group "" in the namespace "ns": ` +
				`RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found`},
	}
	for _, test := range tests {
		policy, err := rbac.New(test.objects...)
		if err != nil {
			t.Fatal(err)
		}
		refused := (&rbac.Access{User: account, Authorizer: policy}).Check(test.what)
		if refused == nil || refused.ErrStatus.Message != test.want || refused.ErrStatus.Code != 403 {
			t.Errorf("%v, want\n%s", refused, test.want)
		}
		details, what := refused.ErrStatus.Details, test.what
		if details.Group != what.Group || details.Kind != what.Resource || details.Name != what.Name {
			t.Errorf("details %+v", details)
		}
	}
}

// TestAggregation checks a ClusterRole that is made of others.
func TestAggregation(t *testing.T) {
	policy := load(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: whole, labels: {part: "yes"}}
aggregationRule:
  clusterRoleSelectors:
  - matchLabels: {part: "yes"}
rules:
- {apiGroups: [""], resources: [secrets], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: part, labels: {part: "yes"}}
rules:
- {apiGroups: [""], resources: [pods], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: whole}
roleRef: {kind: ClusterRole, name: whole}
subjects: [{kind: Group, name: team}]
`)
	team := rbac.User{Name: "jane", Groups: []string{"team"}}
	for resource, want := range map[string]bool{"pods": true, "secrets": false} {
		if got, _ := policy.Authorize(rbac.Attributes{User: team, Verb: "get", Resource: resource}); got != want {
			t.Errorf("get %s: %t, want %t", resource, got, want)
		}
	}
	if got, _ := policy.Authorize(rbac.Attributes{User: rbac.User{Name: "joe"}, Verb: "get", Resource: "pods"}); got {
		t.Error("somebody who is no subject is allowed")
	}
	master := rbac.User{Name: "root", Groups: []string{rbac.Masters}}
	if got, _ := policy.Authorize(rbac.Attributes{User: master, Verb: "impersonate", Resource: "anything", Group: "at.all"}); !got {
		t.Error("a member of system:masters is refused")
	}
}

// TestGrants checks who may give which rules to others.
func TestGrants(t *testing.T) {
	own := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "own"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"apps"}, Resources: []string{"*/scale", "deployments"}, Verbs: []string{"get", "update"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"*"}, ResourceNames: []string{"mine"}},
		{NonResourceURLs: []string{"/metrics/*"}, Verbs: []string{"get"}},
	}}
	policy, err := rbac.New(own)
	if err != nil {
		t.Fatal(err)
	}
	access, err := policy.For(types.NamespacedName{Namespace: "ns", Name: "op"}, "")
	if err != nil {
		t.Fatal(err)
	}
	const prefix = `user "system:serviceaccount:ns:op" (groups=["system:serviceaccounts" "system:serviceaccounts:ns" ` +
		`"system:authenticated"]) is attempting to grant RBAC permissions not currently held:` + "\n"
	tests := []struct {
		rule rbacv1.PolicyRule
		want string
	}{
		{rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"deployments", "statefulsets/scale"},
			Verbs: []string{"get"}}, ""},
		{rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"get", "list", "watch"}},
			prefix + `{APIGroups:["apps"], Resources:["deployments"], Verbs:["list" "watch"]}`},
		{rbacv1.PolicyRule{APIGroups: []string{"apps", "batch"}, Resources: []string{"deployments/scale"}, Verbs: []string{"get"}},
			prefix + `{APIGroups:["batch"], Resources:["deployments/scale"], Verbs:["get"]}`},
		{rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"},
			ResourceNames: []string{"mine"}}, ""},
		{rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"},
			ResourceNames: []string{"mine", "yours"}},
			prefix + `{APIGroups:[""], Resources:["secrets"], ResourceNames:["yours"], Verbs:["get"]}`},
		{rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}},
			prefix + `{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}`},
		{rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics/cadvisor", "/healthz"}, Verbs: []string{"get"}}, ""},
		{rbacv1.PolicyRule{NonResourceURLs: []string{"/metrics"}, Verbs: []string{"get"}},
			prefix + `{NonResourceURLs:["/metrics"], Verbs:["get"]}`},
		{rbacv1.PolicyRule{NonResourceURLs: []string{"/livez", "/readyz/*"}, Verbs: []string{"get", "post"}},
			prefix + `{NonResourceURLs:["/livez"], Verbs:["post"]}` + "\n" + `{NonResourceURLs:["/readyz/*"], Verbs:["get"]}` + "\n" +
				`{NonResourceURLs:["/readyz/*"], Verbs:["post"]}`},
		{rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}},
			prefix + `{APIGroups:["*"], Resources:["*"], Verbs:["*"]}`},
	}
	for _, test := range tests {
		got := ""
		if err := access.Grants([]rbacv1.PolicyRule{test.rule}, "ns"); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%+v:\n%s, want\n%s", test.rule, got, test.want)
		}
	}
}

// TestLoadRefuses checks that the loader is strict, and says where something is wrong.
func TestLoadRefuses(t *testing.T) {
	const head = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: x}\n"
	tests := map[string]struct{ text, want string }{
		"unknown field": {head + "rules: [{apiGroup: [apps], apiGroups: [apps], resources: [pods], verbs: [get]}]",
			`document[0]: Invalid value: "": unknown field "rules[0].apiGroup"`},
		"duplicate key": {head + "rules: [{apiGroups: [apps], apiGroups: [apps], resources: [pods], verbs: [get]}]",
			`document[0]: Invalid value: "": yaml: unmarshal errors:` + "\n" + `  line 4: key "apiGroups" already set in map`},
		"no verbs": {head + "rules: [{apiGroups: [apps], resources: [pods]}]",
			"document[0].rules[0].verbs: Required value: verbs must contain at least one value"},
		"no groups": {head + "rules: [{resources: [pods], verbs: [get]}]",
			"document[0].rules[0].apiGroups: Required value: resource rules must supply at least one api group"},
		"no name": {"apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n", "document[0].metadata.name: Required value"},
		"second document": {head + "---\n# nothing\n---\napiVersion: v1\nkind: Pod\n", `document[1].kind: Unsupported value: "Pod": ` +
			`supported values: "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding", "ServiceAccount"`},
		"version": {"apiVersion: rbac.authorization.k8s.io/v1beta1\nkind: Role\n",
			`document[0].apiVersion: Unsupported value: "rbac.authorization.k8s.io/v1beta1": supported values: "rbac.authorization.k8s.io/v1"`},
		"binding": {"apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: x}\n" +
			"roleRef: {kind: Role, name: other}\nsubjects: [{kind: ServiceAccount, name: z}]\n",
			"document[0].roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"\n" +
				"document[0].subjects[0].namespace: Required value"},
		"no object": {"[1]", `document[0]: Invalid value: "": must be an object with apiVersion and kind`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := rbac.Load([]byte(test.text))
			if err == nil || err.Error() != test.want {
				t.Fatalf("%v, want\n%s", err, test.want)
			}
			for _, one := range err.(interface{ Unwrap() []error }).Unwrap() {
				if _, ok := errors.AsType[*field.Error](one); !ok {
					t.Errorf("%T is no *field.Error", one)
				}
			}
		})
	}
	if _, err := rbac.New(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "x"}},
		&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "x"}}); err == nil {
		t.Error("a role may be there twice")
	}
}
