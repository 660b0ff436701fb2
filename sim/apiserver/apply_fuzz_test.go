package apiserver

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// FuzzApply applies texts to objects that exist and objects that do not: nothing panics, what is refused changes nothing, and
// two servers give the same answer, whatever the order of Go's maps.
func FuzzApply(f *testing.F) {
	for _, text := range []string{
		"", "null", "[]", "{", `{"a":1,"b":2}`, "a: &a [*a]", "? {a: b}\n: c", "\x00", `{"data":{"k":"v","k":"w"}}`,
		`{"metadata":{"ownerReferences":[{"uid":null}],"finalizers":[null]}}`, `{"metadata":null}`, `{"metadata":[]}`,
		`{"spec":null}`, `{"spec":{"template":{"spec":{"containers":[null]}}}}`, `{"spec":{"replicas":1e400}}`,
		`{"spec":{"template":{"spec":{"containers":[{"name":1}]}}}}`, `{"spec":{"size":9007199254740993}}`,
		`{"spec":{"template":{"spec":{"containers":[{"name":"c","resources":{"limits":{"cpu":"x"}}}]}}}}`,
		`{"spec":{"template":{"spec":{"containers":[{"name":"c","ports":[{"containerPort":80},{"containerPort":80}]}]}}}}`,
		`{"metadata":{"labels":{"a":{"b":"c"}},"creationTimestamp":"x"}}`, `{"status":{"phase":1}}`, `{"data":{"k":null}}`,
		`{"metadata":{"creationTimestamp":null,"labels":null,"annotations":{"a":""}}}`, `{"spec":{"color":"x","shape":{}}}`,
	} {
		f.Add(text, false, "")
		f.Add(text, true, "status")
	}
	f.Fuzz(func(t *testing.T, text string, force bool, subresource string) {
		if subresource != "" {
			subresource = "status"
		}
		for _, kind := range []string{"ConfigMap", "StatefulSet", "Widget"} {
			for _, exists := range []bool{false, true} {
				first, second := applyText(t, kind, text, force, subresource, exists), applyText(t, kind, text, force, subresource, exists)
				if diff := cmp.Diff(first, second); diff != "" {
					t.Errorf("%s: the same apply gives two answers:\n%s", kind, diff)
				}
			}
		}
	})
}

// applyText applies a text, and again with what it lacks to be one of an object, and returns what happened.
func applyText(t *testing.T, kind, text string, force bool, subresource string, exists bool) []string {
	test := newTester(t)
	k := test.kind(kind)
	if exists {
		test.create(map[string]Object{"ConfigMap": newConfig("a"), "StatefulSet": newSet("a"), "Widget": newWidget("a")}[kind])
	}
	texts := []string{text}
	if full, ok := completed(k, text); ok {
		texts = append(texts, full, full)
	}
	var answers []string
	for _, text := range texts {
		before, revision := test.Get(k, "default", "a"), test.Revision()
		response := test.Do(&Request{
			Verb: schedule.Patch, Kind: k, Namespace: "default", Name: "a", Subresource: subresource, FieldManager: "one",
			PatchType: types.ApplyPatchType, PatchData: []byte(text), Force: &force,
		})
		after := test.Get(k, "default", "a")
		if response.Committed == 0 && (test.Revision() != revision || after != before) {
			t.Errorf("%s: %q changed the object without a commit", k, text)
		}
		answer := fmt.Sprint(response.Code, " ", response.Err)
		if after != nil {
			answer += fmt.Sprint(generic(after))
		}
		answers = append(answers, answer)
	}
	return answers
}

// completed adds to a text what complete does, if that can be done.
func completed(k *Kind, text string) (full string, ok bool) {
	defer func() { ok = recover() == nil }()
	return complete(k, text), true
}
