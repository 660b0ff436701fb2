package cel_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"

	"github.com/stalemate-dev/stalemate/sim/apiserver/crd"
	_ "github.com/stalemate-dev/stalemate/sim/apiserver/crd/cel"
)

// definition returns a definition whose schema has this under spec.
func definition(spec string) string {
	return `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  names: {kind: Thing, plural: things}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: ` + spec + "\n"
}

func load(t *testing.T, spec string) *crd.Definition {
	t.Helper()
	definitions, err := crd.Load([]byte(definition(spec)))
	if err != nil {
		t.Fatal(err)
	}
	return definitions[0]
}

// object returns an object with a spec, nil for none. Its numbers are those of a decoded body.
func object(t *testing.T, spec string) map[string]any {
	t.Helper()
	if spec == "" {
		return nil
	}
	var content map[string]any
	text := "{apiVersion: example.com/v1, kind: Thing, metadata: {name: t}, spec: " + spec + "}"
	if err := kyaml.Unmarshal([]byte(text), &content); err != nil {
		t.Fatal(err)
	}
	return content
}

func TestRules(t *testing.T) {
	tests := []struct{ name, schema, object, old, want string }{
		{"a rule", `{type: object, properties: {a: {type: integer}}, x-kubernetes-validations: [{rule: self.a > 1}]}`,
			`{a: 1}`, "", `spec: Invalid value: failed rule: self.a > 1`},
		{"a message", `{type: integer, x-kubernetes-validations: [{rule: self > 1, message: " too small "}]}`, `1`, "",
			`spec: Invalid value: 1: too small`},
		{"a message that is worked out", `{type: integer, x-kubernetes-validations: [{rule: self > 1, message: plain,
			messageExpression: "'not ' + string(self)"}]}`, `1`, "", `spec: Invalid value: 1: not 1`},
		{"a message that cannot be worked out", `{type: integer, x-kubernetes-validations: [{rule: self > 1, message: plain,
			messageExpression: "string(1 / (self - 1))"}]}`, `1`, "", `spec: Invalid value: 1: plain`},
		{"a reason and a field", `{type: object, properties: {a: {type: integer}}, x-kubernetes-validations: [{rule: self.a > 1,
			reason: FieldValueForbidden, fieldPath: .a}]}`, `{a: 1}`, "", `spec.a: Forbidden: failed rule: self.a > 1`},
		{"a rule that fails", `{type: object, properties: {a: {type: integer}}, x-kubernetes-validations: [{rule: self.a > 1}]}`,
			`{}`, "", `spec: Invalid value: "object": no such key: a evaluating rule: self.a > 1`},
		{"a transition, on creation", `{type: integer, x-kubernetes-validations: [{rule: self == oldSelf}]}`, `1`, "", ""},
		{"a transition", `{type: integer, x-kubernetes-validations: [{rule: self == oldSelf}]}`, `1`, `2`,
			`spec: Invalid value: 1: failed rule: self == oldSelf`},
		{"an optional transition", `{type: integer, x-kubernetes-validations: [{rule: "oldSelf.hasValue() || self == 0",
			optionalOldSelf: true}]}`, `1`, "", `spec: Invalid value: 1: failed rule: oldSelf.hasValue() || self == 0`},
		{"an optional transition, on an update", `{type: integer, x-kubernetes-validations: [{rule: "oldSelf.hasValue() || self == 0",
			optionalOldSelf: true}]}`, `1`, `2`, ""},
		{"what did not change", `{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: self > 1}]},
			b: {type: integer}}}`, `{a: 1, b: 2}`, `{a: 1, b: 1}`, ""},
		{"what changed beside it", `{type: object, properties: {a: {type: integer}, b: {type: integer}},
			x-kubernetes-validations: [{rule: self.a > 1}]}`, `{a: 1, b: 2}`, `{a: 1, b: 1}`,
			`spec: Invalid value: failed rule: self.a > 1`},
		{"items of a map that moved", `{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object,
			required: [k], properties: {k: {type: string}, v: {type: integer,
			x-kubernetes-validations: [{rule: self > 1}, {rule: self >= oldSelf}]}}}}`,
			`[{k: c, v: 1}, {k: b, v: 0}, {k: a, v: 1}]`, `[{k: a, v: 1}, {k: b, v: 1}]`,
			"spec[0].v: Invalid value: 1: failed rule: self > 1\nspec[1].v: Invalid value: 0: failed rule: self > 1\n" +
				"spec[1].v: Invalid value: 0: failed rule: self >= oldSelf"},
		{"an order", `{type: object, additionalProperties: {type: integer, x-kubernetes-validations: [{rule: self > 1}]}}`,
			`{d: 1, a: 1, c: 1, b: 1}`, "", "spec[a]: Invalid value: 1: failed rule: self > 1\n" +
				"spec[b]: Invalid value: 1: failed rule: self > 1\nspec[c]: Invalid value: 1: failed rule: self > 1\n" +
				"spec[d]: Invalid value: 1: failed rule: self > 1"},
		{"Kubernetes' own functions", `{type: string, x-kubernetes-validations: [{rule: "quantity(self).isLessThan(quantity('1Gi')) && ` +
			`self.matches('^[0-9]+.i$')"}]}`, `"2Gi"`, "", `spec: Invalid value: "2Gi": failed rule: ` +
			`quantity(self).isLessThan(quantity('1Gi')) && self.matches('^[0-9]+.i$')`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := load(t, test.schema)
			if gaps := d.Gaps(); !d.HasRules() || len(gaps) > 0 {
				t.Errorf("gaps are %q", gaps)
			}
			var have []string
			for _, err := range d.CheckRules(object(t, test.object), object(t, test.old), nil) {
				have = append(have, err.Error())
			}
			if diff := cmp.Diff(test.want, strings.Join(have, "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestBlocked checks which errors keep rules from being checked.
func TestBlocked(t *testing.T) {
	d := load(t, `{type: integer, x-kubernetes-validations: [{rule: self > 1}]}`)
	const marker = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; " +
		"correct the existing errors to complete validation"
	at := field.NewPath("x")
	for _, found := range []*field.Error{field.Required(at, ""), field.TooLong(at, "", 1), field.TooMany(at, 2, 1),
		field.TypeInvalid(at, 1, ""), field.NotSupported(at, "a", []string{"b"})} {
		if errs := d.CheckRules(object(t, "1"), nil, field.ErrorList{found}); len(errs) != 1 || errs[0].Error() != marker {
			t.Errorf("%v: %v", found, errs)
		}
	}
	if errs := d.CheckRules(object(t, "1"), nil, field.ErrorList{field.Invalid(at, 1, "")}); len(errs) != 1 || errs[0].Error() == marker {
		t.Errorf("another error: %v", errs)
	}
}

// TestCost runs out of the budget for one object: what is told does not depend on the order of Go's maps.
func TestCost(t *testing.T) {
	d := load(t, `{type: object, additionalProperties: {type: array, items: {type: string}, x-kubernetes-validations: [
		{rule: "self.all(x, self.all(y, x == y))"}]}}`)
	var spec strings.Builder
	for i := range 2 {
		fmt.Fprintf(&spec, "k%d: [%s],", i, strings.Repeat("a, ", 1100))
	}
	const want = `<nil>: Invalid value: "object": validation failed due to running out of cost budget, no further validation rules will be run`
	if errs := d.CheckRules(object(t, "{"+spec.String()+"}"), nil, nil); len(errs) != 1 || errs[0].Error() != want {
		t.Errorf("%v", errs)
	}
}

// TestRefused loads definitions whose rules are wrong.
func TestRefused(t *testing.T) {
	const at = "document[0].spec.versions[0].schema.openAPIV3Schema.properties[spec]"
	tests := []struct{ name, schema, want string }{
		{"a slip", `{type: integer, x-kubernetes-validations: [{rule: slef > 1}]}`,
			at + `.x-kubernetes-validations[0].rule: Invalid value: "slef > 1": compilation failed: ERROR: <input>:1:1: undeclared reference`},
		{"no condition", `{type: integer, x-kubernetes-validations: [{rule: self + 1}]}`,
			at + `.x-kubernetes-validations[0].rule: Invalid value: "self + 1": cel expression must evaluate to a bool`},
		{"nothing", `{type: integer, x-kubernetes-validations: [{rule: ""}]}`,
			at + `.x-kubernetes-validations[0].rule: Required value: rule is not specified`},
		{"a message", `{type: integer, x-kubernetes-validations: [{rule: self > 1, messageExpression: self}]}`,
			at + `.x-kubernetes-validations[0].messageExpression: Invalid value: "self": messageExpression must evaluate to a string`},
		{"nothing to compare with", `{type: array, items: {type: integer, x-kubernetes-validations: [{rule: self == oldSelf}]}}`,
			at + `.items.x-kubernetes-validations[0].rule: Invalid value: "self == oldSelf": oldSelf cannot be used on the ` +
				`uncorrelatable portion of the schema within ` + at},
		{"optional in vain", `{type: integer, x-kubernetes-validations: [{rule: self > 1, optionalOldSelf: true}]}`,
			at + `.x-kubernetes-validations[0].optionalOldSelf: Invalid value: true: may not be set if oldSelf is not used in rule`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := crd.Load([]byte(definition(test.schema)))
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("error is %v\nwant %s", err, test.want)
			}
		})
	}
}
