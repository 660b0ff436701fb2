package scenarios_test

import (
	"strings"
	"testing"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim/apiserver/rbac"
)

// TestAccess checks who the controllers of a scenario are, and what they may do.
func TestAccess(t *testing.T) {
	scenario, err := scenarios.Load("testdata/valid/everything.yaml", scenarios.Options{})
	if err != nil {
		t.Fatal(err)
	}
	config, err := scenario.Config(registry(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range config.Processes[:2] {
		if p.Access != nil {
			t.Errorf("%s has roles: %+v", p.Name, p.Access.User)
		}
	}
	access := config.Processes[2].Access
	if access == nil || access.User.Name != "system:serviceaccount:system:controller-manager" {
		t.Fatalf("plain is %+v", access)
	}
	for _, test := range []struct {
		what rbac.Attributes
		want bool
	}{
		{rbac.Attributes{Verb: "update", Group: "example.com", Resource: "widgets", Subresource: "status", Namespace: "any"}, true},
		{rbac.Attributes{Verb: "update", Group: "example.com", Resource: "widgets", Subresource: "scale", Namespace: "any"}, false},
		{rbac.Attributes{Verb: "get", Group: "coordination.k8s.io", Resource: "leases", Namespace: "system"}, false}, // not bound
	} {
		if err := access.Check(test.what); (err == nil) != test.want {
			t.Errorf("%+v: %v, want it allowed: %t", test.what, err, test.want)
		}
	}
}

// TestLoadRoles checks the roles of a Go value, and what is wrong with them.
func TestLoadRoles(t *testing.T) {
	access, err := scenarios.LoadRoles("plain", scenarios.ServiceAccount{}, "testdata/valid/rbac")
	if err != nil || access.User.Name != "system:serviceaccount:system:controller-manager" {
		t.Errorf("%+v, %v", access, err)
	}
	access, err = scenarios.LoadRoles("plain", scenarios.ServiceAccount{Namespace: "here"}, "testdata/valid/rbac/role.yaml")
	if err != nil || access.User.Name != "system:serviceaccount:here:plain" {
		t.Errorf("%+v, %v", access, err)
	}
	for name, want := range map[string]string{
		"testdata/broken/rbac/wrong.yaml": "testdata/broken/rbac/wrong.yaml:6:3: rules[0].apiGroup: unknown field, " +
			"did you mean \"apiGroups\"?",
		"testdata/broken/rbac/none.yaml":   "testdata/broken/rbac/none.yaml: no such file",
		"testdata/broken/rbac/config.yaml": "roles of plain: testdata/broken/rbac/config.yaml: no role and no binding",
		"testdata/valid/rbac/service.yaml": "roles of plain: testdata/valid/rbac/service.yaml: no role and no binding",
		"testdata/broken/rbac/binding.yaml": "roles of plain: a binding for " +
			"\"system:serviceaccount:system:controller-manager\" refers to a role " +
			"that is not there",
	} {
		if _, err := scenarios.LoadRoles("plain", scenarios.ServiceAccount{}, name); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}
