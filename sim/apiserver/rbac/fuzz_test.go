package rbac_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/apiserver/rbac"
)

// FuzzLoad throws texts at the loader: it does not panic, and what it takes says of every request whether it is allowed.
func FuzzLoad(f *testing.F) {
	f.Add(roles)
	f.Add(roles + bindings)
	f.Add("apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {name: a}\naggregationRule: " +
		"{clusterRoleSelectors: [{}]}\n")
	f.Fuzz(func(t *testing.T, text string) {
		objects, err := rbac.Load([]byte(text))
		if err != nil {
			return
		}
		policy, err := rbac.New(objects...)
		if err != nil {
			return
		}
		access, err := policy.For(types.NamespacedName{}, "operator")
		if err != nil {
			return
		}
		what := rbac.Attributes{Verb: "get", Resource: "pods", Subresource: "status", Namespace: "default", Name: "a"}
		if err := access.Check(what); err != nil && err.ErrStatus.Message == "" {
			t.Error("refused without a word")
		}
		if err := access.Grants(policy.RulesFor(access.User, "default"), "default"); err != nil {
			t.Errorf("nobody has the rights that they have: %v", err)
		}
	})
}
