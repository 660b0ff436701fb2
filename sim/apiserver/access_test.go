package apiserver_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/apiserver/rbac"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// rule is a rule of a group's resources, by their names.
func rule(group, resources, verbs string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: strings.Split(resources, " "), Verbs: strings.Split(verbs, " ")}
}

// accessOf returns who may do what some rules allow, everywhere.
func accessOf(t *testing.T, rules ...rbacv1.PolicyRule) *rbac.Access {
	t.Helper()
	policy, err := rbac.New(&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "own"}, Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	access, err := policy.For(types.NamespacedName{Namespace: "ns", Name: "op"}, "")
	if err != nil {
		t.Fatal(err)
	}
	return access
}

func metadata(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: name}
}

// rightCase is a request with the only rule that whoever makes it has.
type rightCase struct {
	name    string
	rule    rbacv1.PolicyRule
	request apiserver.Request
	lacks   string // the rule that is missing; empty if the request is allowed
}

// rightCases say which right each kind of request needs.
func rightCases(kinds *apiserver.Kinds) []rightCase {
	kind := func(name string) *apiserver.Kind { return kinds.ByName(name) }
	byName := fields.OneTermEqualSelector("metadata.name", "a")
	named := rule("", "configmaps", "get list")
	named.ResourceNames = []string{"a"}
	config := kind("ConfigMap")
	get := apiserver.Request{Verb: schedule.Get, Kind: config, Name: "a"}
	cases := []rightCase{
		{"get", rule("", "configmaps", "get"), get, ""},
		{"get without it", rule("", "configmaps", "list watch"), get, `{apiGroups: [""], resources: ["configmaps"], verbs: ["get"]}`},
		{"get by name", named, get, ""},
		{"get by another name", named, apiserver.Request{Verb: schedule.Get, Kind: config, Name: "b"},
			`{apiGroups: [""], resources: ["configmaps"], verbs: ["get"]}`},
		{"list", rule("", "configmaps", "list"), apiserver.Request{Verb: schedule.List, Kind: config}, ""},
		{"list one by name", named, apiserver.Request{Verb: schedule.List, Kind: config, FieldSelector: byName}, ""},
		{"list all with a right to one", named, apiserver.Request{Verb: schedule.List, Kind: config},
			`{apiGroups: [""], resources: ["configmaps"], verbs: ["list"]}`},
		{"create", rule("", "configmaps", "create"), apiserver.Request{Verb: schedule.Create, Kind: config, Name: "n",
			Object: &corev1.ConfigMap{ObjectMeta: metadata("n")}}, ""},
		{"create by name", named, apiserver.Request{Verb: schedule.Create, Kind: config, Name: "a",
			Object: &corev1.ConfigMap{ObjectMeta: metadata("a")}},
			`{apiGroups: [""], resources: ["configmaps"], verbs: ["create"]}`},
		{"update is not patch", rule("", "configmaps", "patch"), apiserver.Request{Verb: schedule.Update, Kind: config, Name: "a",
			Object: &corev1.ConfigMap{ObjectMeta: metadata("a")}}, `{apiGroups: [""], resources: ["configmaps"], verbs: ["update"]}`},
		{"patch is not update", rule("", "configmaps", "update"), apiserver.Request{Verb: schedule.Patch, Kind: config, Name: "a",
			PatchType: types.MergePatchType, PatchData: []byte("{}")}, `{apiGroups: [""], resources: ["configmaps"], verbs: ["patch"]}`},
		{"status is not the resource", rule("apps", "statefulsets", "*"), apiserver.Request{Verb: schedule.Update,
			Kind: kind("StatefulSet"),
			Name: "a", Subresource: "status", Object: &appsv1.StatefulSet{ObjectMeta: metadata("a")}},
			`{apiGroups: ["apps"], resources: ["statefulsets/status"], verbs: ["update"]}`},
		{"scale of any", rule("apps", "*/scale", "update"), apiserver.Request{Verb: schedule.Update, Kind: kind("StatefulSet"), Name: "set",
			Subresource: "scale", Object: &autoscalingv1.Scale{ObjectMeta: metadata("set")}}, ""},
	}
	return append(cases, moreRightCases(kinds)...)
}

// moreRightCases are those of deletes, watches, other kinds, and writes that create.
func moreRightCases(kinds *apiserver.Kinds) []rightCase {
	kind := func(name string) *apiserver.Kind { return kinds.ByName(name) }
	config := kind("ConfigMap")
	return []rightCase{
		{"delete", rule("", "configmaps", "delete"), apiserver.Request{Verb: schedule.Delete, Kind: config, Name: "a"}, ""},
		{"deletecollection is not delete", rule("", "configmaps", "delete"),
			apiserver.Request{Verb: schedule.DeleteCollection, Kind: config},
			`{apiGroups: [""], resources: ["configmaps"], verbs: ["deletecollection"]}`},
		{"bind a pod", rule("", "pods/binding", "create"), apiserver.Request{Verb: schedule.Create, Kind: kind("Pod"), Name: "p",
			Subresource: "binding", Object: &corev1.Binding{ObjectMeta: metadata("p"), Target: corev1.ObjectReference{Name: "node"}}}, ""},
		{"watch", rule("", "configmaps", "get list"), apiserver.Request{Verb: schedule.Watch, Kind: config},
			`{apiGroups: [""], resources: ["configmaps"], verbs: ["watch"]}`},
		{"a custom resource", rule("golden.example.com", "widgets", "list"), apiserver.Request{Verb: schedule.List,
			Kind: kind("Widget")}, ""},
		{"an alias has its own group", rule("", "events", "list"), apiserver.Request{Verb: schedule.List,
			Kind: kinds.ByGVK(schema.GroupVersionKind{Group: "events.k8s.io", Version: "v1", Kind: "Event"})},
			`{apiGroups: ["events.k8s.io"], resources: ["events"], verbs: ["list"]}`},
		{"update that creates", rule("coordination.k8s.io", "leases", "update"), apiserver.Request{Verb: schedule.Update,
			Kind: kind("Lease"),
			Name: "new", Object: &coordinationv1.Lease{ObjectMeta: metadata("new")}},
			`{apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["create"]}`},
		{"update that may create", rule("coordination.k8s.io", "leases", "update create"), apiserver.Request{Verb: schedule.Update,
			Kind: kind("Lease"), Name: "new", Object: &coordinationv1.Lease{ObjectMeta: metadata("new")}}, ""},
		{"apply that creates", rule("", "configmaps", "patch"), apiserver.Request{Verb: schedule.Patch, Kind: config, Name: "new",
			PatchType: types.ApplyPatchType, FieldManager: "op",
			PatchData: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new"}}`)},
			`{apiGroups: [""], resources: ["configmaps"], verbs: ["create"]}`},
		{"apply that may create", rule("", "configmaps", "patch create"), apiserver.Request{Verb: schedule.Patch, Kind: config, Name: "new",
			PatchType: types.ApplyPatchType, FieldManager: "op",
			PatchData: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"new"}}`)}, ""},
	}
}

// TestRoles checks which right each kind of request needs.
func TestRoles(t *testing.T) {
	kinds := apiserver.GoldenKinds(apiserver.V136)
	tests := rightCases(kinds)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := apiserver.NewServer(kinds, time.Now)
			err := server.LoadAll([]apiserver.Object{
				&corev1.ConfigMap{ObjectMeta: metadata("a")}, &corev1.Pod{ObjectMeta: metadata("p"), Spec: corev1.PodSpec{
					Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
				&appsv1.StatefulSet{ObjectMeta: metadata("set"), Spec: appsv1.StatefulSetSpec{
					Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
					Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"a": "b"}},
						Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}}},
			})
			if err != nil {
				t.Fatal(err)
			}
			request := test.request
			request.Namespace, request.Access = "default", accessOf(t, test.rule)
			before := server.Revision()
			response := server.Do(&request)
			if test.lacks == "" {
				if response.Err != nil || response.Denied != nil {
					t.Fatalf("refused: %v", response.Err)
				}
				return
			}
			if response.Err == nil || response.Code != 403 || response.Denied == nil {
				t.Fatalf("answered with %d, %v", response.Code, response.Err)
			}
			if got := response.Denied.Missing(); got != test.lacks+` in namespace "default"` {
				t.Errorf("lacks %s, want %s", got, test.lacks)
			}
			if server.Revision() != before {
				t.Error("what was refused was done")
			}
		})
	}
}

// TestNamespacesRights checks that a namespace is in itself: a right in it is one to it.
func TestNamespacesRights(t *testing.T) {
	policy, err := rbac.New(&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "r"},
		Rules: []rbacv1.PolicyRule{rule("", "namespaces", "get")}})
	if err != nil {
		t.Fatal(err)
	}
	access, err := policy.For(types.NamespacedName{Namespace: "ns", Name: "op"}, "")
	if err != nil {
		t.Fatal(err)
	}
	server := apiserver.NewServer(apiserver.GoldenKinds(apiserver.V136), time.Now)
	get := func(name string) *apiserver.Response {
		return server.Do(&apiserver.Request{Verb: schedule.Get, Kind: server.Kinds().ByName("Namespace"), Name: name, Access: access})
	}
	if r := get("default"); r.Err != nil {
		t.Error(r.Err)
	}
	const want = `namespaces "kube-system" is forbidden: User "system:serviceaccount:ns:op" cannot get resource "namespaces" ` +
		`in API group "" in the namespace "kube-system"`
	if r := get("kube-system"); r.Err == nil || r.Err.Error() != want {
		t.Errorf("%v, want\n%s", r.Err, want)
	}
}

// TestEscalation checks that nobody grants rights that they do not have, unless they may.
func TestEscalation(t *testing.T) {
	const account = `user "system:serviceaccount:ns:op" (groups=["system:serviceaccounts" "system:serviceaccounts:ns" ` +
		`"system:authenticated"]) is attempting to grant RBAC permissions not currently held:` + "\n"
	write := rule("rbac.authorization.k8s.io", "roles rolebindings clusterroles clusterrolebindings", "create update")
	pods := rule("", "pods", "get list")
	role := &rbacv1.Role{ObjectMeta: metadata("x"), Rules: []rbacv1.PolicyRule{rule("", "pods", "get delete")}}
	cluster := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "x"}, AggregationRule: &rbacv1.AggregationRule{
		ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"a": "b"}}}}}
	bindTo := func(kind, name string) *rbacv1.RoleBinding {
		return &rbacv1.RoleBinding{ObjectMeta: metadata("x"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "a", Namespace: "default"}}}
	}
	tests := []struct {
		name   string
		rules  []rbacv1.PolicyRule
		object apiserver.Object
		want   string
	}{
		{"a role with more", []rbacv1.PolicyRule{write, pods}, role, `roles.rbac.authorization.k8s.io "x" is forbidden: ` + account +
			`{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}`},
		{"a role with as much", []rbacv1.PolicyRule{write, rule("", "pods", "*")}, role, ""},
		{"a role with more, allowed", []rbacv1.PolicyRule{write, rule("rbac.authorization.k8s.io", "roles", "escalate")}, role, ""},
		{"an aggregated role", []rbacv1.PolicyRule{write, pods}, cluster, `clusterroles.rbac.authorization.k8s.io "x" is forbidden: ` +
			`must have cluster-admin privileges to use the aggregationRule`},
		{"a binding of more", []rbacv1.PolicyRule{write}, bindTo("Role", "stored"),
			`rolebindings.rbac.authorization.k8s.io "x" is forbidden: ` +
				account + `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`},
		{"a binding of as much", []rbacv1.PolicyRule{write, pods}, bindTo("Role", "stored"), ""},
		{"a binding of more, allowed", []rbacv1.PolicyRule{write, rule("rbac.authorization.k8s.io", "roles", "bind")},
			bindTo("Role", "stored"), ""},
		{"a binding of its own role", []rbacv1.PolicyRule{write, pods}, bindTo("ClusterRole", "own"), ""},
		{"a binding of none", []rbacv1.PolicyRule{write, pods}, bindTo("ClusterRole", "none"),
			`clusterrole.rbac.authorization.k8s.io "none" not found`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			server := apiserver.NewServer(apiserver.GoldenKinds(apiserver.V136), time.Now)
			stored := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stored"}, Rules: []rbacv1.PolicyRule{pods}}
			if err := server.Load(stored); err != nil {
				t.Fatal(err)
			}
			kind := server.Kinds().Of(test.object)
			object := test.object.DeepCopyObject().(apiserver.Object)
			response := server.Do(&apiserver.Request{Verb: schedule.Create, Kind: kind, Namespace: object.GetNamespace(), Name: "x",
				Object: object, Access: accessOf(t, test.rules...)})
			switch {
			case test.want == "" && response.Err != nil:
				t.Fatal(response.Err)
			case test.want != "" && (response.Err == nil || response.Err.Error() != test.want):
				t.Fatalf("%v, want\n%s", response.Err, test.want)
			}
		})
	}
}

// TestEscalationByUpdate checks that an update is looked at unless it changes only what the garbage collector needs to change.
func TestEscalationByUpdate(t *testing.T) {
	server := apiserver.NewServer(apiserver.GoldenKinds(apiserver.V136), time.Now)
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x", Finalizers: []string{"a.b/c"}},
		Rules: []rbacv1.PolicyRule{rule("", "pods", "get")}}
	if err := server.Load(role); err != nil {
		t.Fatal(err)
	}
	kind := server.Kinds().Of(role)
	access := accessOf(t, rule("rbac.authorization.k8s.io", "roles", "update"))
	update := func(change func(*rbacv1.Role)) *apiserver.Response {
		changed := server.Get(kind, "default", "x").DeepCopyObject().(*rbacv1.Role)
		change(changed)
		return server.Do(&apiserver.Request{Verb: schedule.Update, Kind: kind, Namespace: "default", Name: "x",
			Object: changed, Access: access})
	}
	if r := update(func(r *rbacv1.Role) { r.Finalizers = nil }); r.Err != nil {
		t.Error(r.Err)
	}
	if r := update(func(r *rbacv1.Role) { r.Labels = map[string]string{"a": "b"} }); r.Code != 403 {
		t.Errorf("a label was answered with %d", r.Code)
	}
}

// TestAccessIsFree checks that a request of somebody who may do everything costs nothing for it.
func TestAccessIsFree(t *testing.T) {
	server := apiserver.NewServer(apiserver.GoldenKinds(apiserver.V136), time.Now)
	kind := server.Kinds().ByName("Namespace")
	request := func(access *rbac.Access) float64 {
		return testing.AllocsPerRun(100, func() {
			server.Do(&apiserver.Request{Verb: schedule.Get, Kind: kind, Name: "default", Access: access})
		})
	}
	if free, restricted := request(nil), request(accessOf(t, rule("", "namespaces", "get"))); restricted > free {
		t.Errorf("%v allocations for what is allowed, %v where all is", restricted, free)
	}
}
