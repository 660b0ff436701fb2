package crd_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/stalemate-dev/stalemate/sim/apiserver/crd"
)

func load(t testing.TB, file string) *crd.Definition {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	definitions, err := crd.Load(text)
	if err != nil {
		t.Fatal(err)
	}
	if len(definitions) != 1 {
		t.Fatalf("%s has %d definitions", file, len(definitions))
	}
	return definitions[0]
}

// tree decodes YAML as the API server decodes JSON: whole numbers are int64.
func tree(t testing.TB, text string) map[string]any {
	t.Helper()
	var object map[string]any
	if err := yaml.Unmarshal([]byte(text), &object); err != nil {
		t.Fatal(err)
	}
	return withIntegers(object).(map[string]any)
}

func withIntegers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k := range v {
			v[k] = withIntegers(v[k])
		}
	case []any:
		for i := range v {
			v[i] = withIntegers(v[i])
		}
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return v
}

func TestDefinition(t *testing.T) {
	d := load(t, "gadgets.yaml")
	if got, want := d.GroupVersionKind.String(), "example.com/v1, Kind=Gadget"; got != want {
		t.Errorf("kind is %s", got)
	}
	if d.Plural != "gadgets" || d.Singular != "gadget" || !slices.Equal(d.ShortNames, []string{"gd"}) || !d.Namespaced {
		t.Errorf("names are %+v", d)
	}
	if !d.HasStatus || !d.HasScale() || d.Scale.SpecReplicasPath != ".spec.replicas" {
		t.Error("subresources are missing")
	}
	if !slices.Equal(d.SelectableFields, []string{".spec.mode"}) {
		t.Errorf("selectable fields are %v", d.SelectableFields)
	}
	limit := d.Schema().Properties["spec"].Properties["strategy"].Properties["limit"]
	if !slices.Equal(limit.Type, []string{"integer", "string"}) {
		t.Errorf("int-or-string has the type %v", limit.Type)
	}
	if gaps := d.Gaps(); len(gaps) > 0 {
		t.Errorf("gaps are %q", gaps)
	}
	want := []string{`widgets.golden.example.com: the validation rule "self == oldSelf" of ` +
		`document[0].spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[color] is not checked: ` +
		`import sim/apiserver/crd/cel to have it checked`}
	if diff := cmp.Diff(want, load(t, "widgets.yaml").Gaps()); diff != "" {
		t.Errorf("gaps (-want +got):\n%s", diff)
	}
}

func TestPruneAndDefault(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{
			"unknown fields go",
			`{kind: Gadget, metadata: {name: g, color: red}, more: 1,
			  spec: {mode: Fast, size: 1, labels: {a: b}, ports: [{name: a, x: y}]}}`,
			`{kind: Gadget, metadata: {name: g},
			  spec: {mode: Fast, replicas: 1, strategy: {type: Rolling}, labels: {a: b}, ports: [{name: a, protocol: TCP}]}}`,
		},
		{
			"unknown fields stay where they may",
			`{spec: {values: {a: {b: [1, {c: null}]}},
			  template: {apiVersion: v1, kind: Pod, metadata: {name: p, color: red}, spec: {x: 1}}}}`,
			`{spec: {replicas: 1, strategy: {type: Rolling}, values: {a: {b: [1, {c: null}]}},
			  template: {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {x: 1}}}}`,
		},
		{
			"what is there stays",
			`{spec: {replicas: 0, strategy: {type: "", limit: 10%}}}`,
			`{spec: {replicas: 0, strategy: {type: "", limit: 10%}}}`,
		},
		{
			"nulls give way",
			`{spec: {replicas: null, name: null, note: null, strategy: {type: null}}}`,
			`{spec: {replicas: 1, note: null, strategy: {type: Rolling}}}`,
		},
		{"nothing below what is missing", `{status: {}}`, `{status: {}}`},
	}
	d := load(t, "gadgets.yaml")
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			object := tree(t, test.in)
			d.Prune(object)
			d.Default(object)
			if diff := cmp.Diff(tree(t, test.want), object); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestDefaultsAreCopied changes a defaulted object: the next one must not see it.
func TestDefaultsAreCopied(t *testing.T) {
	d := load(t, "gadgets.yaml")
	first, second := tree(t, "spec: {}"), tree(t, "spec: {}")
	d.Default(first)
	first["spec"].(map[string]any)["strategy"].(map[string]any)["type"] = "changed"
	d.Default(second)
	if got := second["spec"].(map[string]any)["strategy"].(map[string]any)["type"]; got != "Rolling" {
		t.Errorf("the default became %v", got)
	}
}

func TestValidate(t *testing.T) {
	tests := []struct {
		name, file, object, old string
		want                    []string
	}{
		{"recorded: below the minimum", "widgets.yaml", `{spec: {color: red, size: -1}}`, `{spec: {color: red, size: 1}}`,
			[]string{`spec.size: Invalid value: -1: spec.size in body should be greater than or equal to 0`}},
		{"valid", "gadgets.yaml", `{spec: {mode: Fast, strategy: {limit: 1}, tags: [a, b]}}`, "", nil},
		{"required", "gadgets.yaml", `{spec: {}}`, "", []string{"spec.mode: Required value"}},
		{"required at the root", "gadgets.yaml", `{status: {}}`, "", []string{"spec: Required value"}},
		{"enum", "gadgets.yaml", `{spec: {mode: Slower}}`, "",
			[]string{`spec.mode: Unsupported value: "Slower": supported values: "Fast", "Slow"`}},
		{"type", "gadgets.yaml", `{spec: {mode: Fast, replicas: many}}`, "",
			[]string{`spec.replicas: Invalid value: "string": spec.replicas in body must be of type integer: "string"`,
				`.spec.replicas: Invalid value: 0: .spec.replicas accessor error: many is of the type string, expected int64`}},
		{"length", "gadgets.yaml", `{spec: {mode: Fast, name: UPPERCASE}}`, "",
			[]string{`spec.name: Too long: may not be more than 5 bytes`}},
		{"pattern", "gadgets.yaml", `{spec: {mode: Fast, name: A}}`, "",
			[]string{`spec.name: Invalid value: "A": spec.name in body should match '^[a-z]+$'`}},
		{"int or string", "gadgets.yaml", `{spec: {mode: Fast, strategy: {limit: true}}}`, "",
			[]string{`spec.strategy.limit: Invalid value: "boolean": ` +
				`spec.strategy.limit in body must be of type integer,string: "boolean"`,
				`spec.strategy.limit: Invalid value: "boolean": spec.strategy.limit in body must be of type integer: "boolean"`,
				`<nil>: Invalid value: "": "spec.strategy.limit" must validate at least one schema (anyOf)`}},
		{"no int or string before", "gadgets.yaml", `{spec: {mode: Fast, name: a, strategy: {limit: true}}}`,
			`{spec: {mode: Fast, strategy: {limit: true}}}`, nil},
		{"too many", "gadgets.yaml", `{spec: {mode: Fast, ports: [{name: a}, {name: b}, {name: c}, {name: d}]}}`, "",
			[]string{`spec.ports: Too many: 4: must have at most 3 items`}},
		{"map with a key twice", "gadgets.yaml", `{spec: {mode: Fast, ports: [{name: a}, {name: a}]}}`, "",
			[]string{`spec.ports[1]: Duplicate value: {"name":"a"}`}},
		{"set with a value twice", "gadgets.yaml", `{spec: {mode: Fast, tags: [a, a]}}`, "",
			[]string{`spec.tags[1]: Duplicate value: "a"`}},
		{"negative scale", "gadgets.yaml", `{spec: {mode: Fast, replicas: -1}}`, "",
			[]string{`.spec.replicas: Invalid value: -1: should be a non-negative integer`}},
		{"no change of what is invalid", "gadgets.yaml", `{spec: {mode: Old}}`, `{spec: {mode: Old}}`, nil},
		{"a change beside what is invalid", "gadgets.yaml", `{spec: {mode: Old, name: a}}`, `{spec: {mode: Old}}`, nil},
		{"a change of what is invalid", "gadgets.yaml", `{spec: {mode: Older}}`, `{spec: {mode: Old}}`,
			[]string{`spec.mode: Unsupported value: "Older": supported values: "Fast", "Slow"`}},
		{"an invalid item that moved", "gadgets.yaml", `{spec: {mode: Fast, ports: [{name: b}, {name: a, port: 0}]}}`,
			`{spec: {mode: Fast, ports: [{name: a, port: 0}]}}`, nil},
		{"an invalid item among others", "gadgets.yaml", `{spec: {mode: Fast, ports: [{name: a, port: 0}, {name: b, port: 0}]}}`,
			`{spec: {mode: Fast, ports: [{name: a, port: 0}]}}`,
			[]string{`spec.ports[1].port: Invalid value: 0: spec.ports[1].port in body should be greater than or equal to 1`}},
		{"still missing", "gadgets.yaml", `{spec: {name: b}}`, `{spec: {name: a}}`, []string{"spec.mode: Required value"}},
		{"a set that was none before", "gadgets.yaml", `{spec: {mode: Fast, tags: [a, a, b]}}`,
			`{spec: {mode: Fast, tags: [a, a]}}`, nil},
		{"a field that goes", "gadgets.yaml", `{status: {}}`, `{spec: {mode: Fast}, status: {}}`,
			[]string{"spec: Required value"}},
		{"a field that may go", "gadgets.yaml", `{spec: {mode: Fast}}`, `{spec: {mode: Fast}, status: {}}`, nil},
		{"embedded metadata", "gadgets.yaml",
			`{spec: {mode: Fast, template: {apiVersion: v1, kind: Pod, metadata: {labels: {"a b": c}}}}}`, "",
			[]string{`spec.template.metadata.labels: Invalid value: "a b": name part must consist of alphanumeric characters, ` +
				`'-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or ` +
				`'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var old map[string]any
			if test.old != "" {
				old = tree(t, test.old)
			}
			checkErrors(t, test.want, load(t, test.file).Validate(tree(t, test.object), old))
		})
	}
}

func TestValidateStatus(t *testing.T) {
	tests := []struct {
		name, object, old string
		want              []string
	}{
		{"valid", `{status: {conditions: [{type: Ready, status: "True", lastTransitionTime: ` +
			`"2030-01-02T03:04:05Z"}]}}`, `{}`, nil},
		{"the spec does not matter", `{spec: {mode: none, replicas: -1}, status: {replicas: 1}}`, `{}`, nil},
		{"no change", `{status: {conditions: [{type: Ready, status: Maybe}]}}`,
			`{status: {conditions: [{type: Ready, status: Maybe}]}}`, nil},
		{"a change beside what is invalid", `{status: {replicas: 2, conditions: [{type: Ready, status: Maybe}]}}`,
			`{status: {replicas: 1, conditions: [{type: Ready, status: Maybe}]}}`, nil},
		{"what the scale subresource reads is always checked", `{status: {replicas: x}}`, `{status: {replicas: x}}`,
			[]string{`.status.replicas: Invalid value: 0: .status.replicas accessor error: x is of the type string, expected int64`}},
		{"invalid", `{status: {conditions: [{type: Ready, status: Maybe}]}}`, `{}`,
			[]string{`status.conditions[0].status: Unsupported value: "Maybe": supported values: "True", "False", "Unknown"`}},
		{"not a time", `{status: {conditions: [{type: Ready, status: "True", lastTransitionTime: soon}]}}`, `{}`,
			[]string{`status.conditions[0].lastTransitionTime: Invalid value: "soon": ` +
				`conditions[0].lastTransitionTime in body must be of type date-time: "soon"`}},
		{"negative scale", `{status: {replicas: -1}}`, `{}`,
			[]string{`.status.replicas: Invalid value: -1: should be a non-negative integer`}},
	}
	d := load(t, "gadgets.yaml")
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			checkErrors(t, test.want, d.ValidateStatus(tree(t, test.object), tree(t, test.old)))
		})
	}
}

func checkErrors(t *testing.T, want []string, errs field.ErrorList) {
	t.Helper()
	var got []string
	for _, err := range errs {
		got = append(got, err.Error())
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	if len(errs) > 0 {
		kind := load(t, "widgets.yaml").GroupVersionKind.GroupKind()
		_ = apierrors.NewInvalid(kind, "w", errs).Error() // must not panic
	}
}

// with replaces parts of a good definition.
func with(t testing.TB, replacements ...string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/widgets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(replacements); i += 2 {
		if !strings.Contains(string(text), replacements[i]) {
			t.Fatalf("%q is not in the definition", replacements[i])
		}
		text = []byte(strings.ReplaceAll(string(text), replacements[i], replacements[i+1]))
	}
	return string(text)
}

var update = flag.Bool("update", false, "write the golden files anew")

// TestLoadErrors compares what is said of broken definitions with testdata/load-errors.golden.
func TestLoadErrors(t *testing.T) {
	tests := []struct{ name, text string }{
		{"no YAML", "a: ["},
		{"a key twice", "kind: a\nkind: b"},
		{"no object", "- a"},
		{"another kind", "kind: Pod"},
		{"an old version", with(t, "apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1")},
		{"a wrong type", with(t, "served: true", "served: 3")},
		{"names", with(t, "group: golden.example.com", "group: ''", "plural: widgets", "plural: Widgets",
			"scope: Namespaced", "scope: Galaxy")},
		{"no storage", with(t, "storage: true", "storage: false")},
		{"no schema", with(t, "openAPIV3Schema", "other")},
		{"no type", with(t, "type: integer\n                minimum: 0", "minimum: 0")},
		{"a bad pattern", with(t, "minimum: 0", "minimum: 0\n              name: {type: string, pattern: '['}")},
		{"a bad default", with(t, "minimum: 0", "minimum: 0\n                default: -1")},
		{"a reference", with(t, "minimum: 0", "$ref: '#/x'")},
		{"a conversion", with(t, "scope: Namespaced", "scope: Namespaced\n  conversion: {strategy: Magic}")},
		{"no conversion", with(t, "scope: Namespaced", "scope: Namespaced\n  conversion: {}")},
		{"a conversion by nobody", with(t, "scope: Namespaced", "scope: Namespaced\n  conversion: {strategy: Webhook}")},
		{"a webhook too many", with(t, "scope: Namespaced",
			"scope: Namespaced\n  conversion: {strategy: None, webhook: {clientConfig: {url: 'https://a.b'}, conversionReviewVersions: [v1]}}")},
		{"paths of scale", with(t, "status: {}", "scale: {specReplicasPath: spec.size, statusReplicasPath: .spec.size, "+
			"labelSelectorPath: .metadata.name}")},
		{"no paths of scale", with(t, "status: {}", "scale: {}")},
		{"selectable fields", with(t, "served: true", "served: true\n    selectableFields: [{jsonPath: .spec.size}, {jsonPath: .spec.size}, "+
			"{jsonPath: '.spec.list[0]'}, {jsonPath: .spec.none}, {jsonPath: .spec}, {jsonPath: spec.size}, {jsonPath: ''}]")},
		{"the second document", with(t) + "\n---\n---\nkind: Pod"},
	}
	var out strings.Builder
	for _, test := range tests {
		definitions, err := crd.Load([]byte(test.text))
		if err == nil {
			t.Fatalf("%s: loaded %d definitions", test.name, len(definitions))
		}
		var all interface{ Unwrap() []error }
		if !errors.As(err, &all) {
			t.Fatalf("%s: %T", test.name, err)
		}
		for _, e := range all.Unwrap() {
			var located *field.Error
			if !errors.As(e, &located) || !strings.HasPrefix(located.Field, "document[") {
				t.Errorf("%s: no field in %v", test.name, e)
			}
		}
		fmt.Fprintf(&out, "== %s\n%v\n", test.name, err)
	}
	const golden = "testdata/load-errors.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestLoadSeveral(t *testing.T) {
	other := with(t, "widgets", "wodgets", "kind: Widget\n", "kind: Wodget\n")
	definitions, err := crd.Load([]byte("---\n" + with(t) + "\n---\n# nothing\n---\n" + other))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range definitions {
		got = append(got, d.Kind)
	}
	if !slices.Equal(got, []string{"Widget", "Wodget"}) {
		t.Errorf("loaded %v", got)
	}
}

// TestLoadHostile loads what is made to exhaust a reader. It must end soon, in an error or a definition.
func TestLoadHostile(t *testing.T) {
	const deep = 3000
	bomb := "a: &a [x, x, x, x, x, x, x, x, x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*%c, ", c-1), 9), ", "))
	}
	tests := map[string]string{
		"aliases":        bomb,
		"braces":         strings.Repeat("{a: ", deep) + strings.Repeat("}", deep),
		"nested schema":  with(t, "minimum: 0", strings.Repeat("items: {type: array, ", deep)+strings.Repeat("}", deep)),
		"many documents": strings.Repeat("---\nkind: Pod\n", 2000),
		"binary":         "\x00\x01\xff\xfe",
	}
	for name, text := range tests {
		if definitions, err := crd.Load([]byte(text)); err == nil {
			t.Errorf("%s: loaded %d definitions", name, len(definitions))
		}
	}
}

func FuzzLoad(f *testing.F) {
	for _, file := range []string{"widgets.yaml", "gadgets.yaml"} {
		text, err := os.ReadFile("testdata/" + file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	object := tree(f, `{spec: {mode: 1, size: [null], color: {a: b}, ports: {}, tags: [[]], template: 3}, status: `+
		`{replicas: a}}`)
	f.Fuzz(func(t *testing.T, text []byte) {
		definitions, err := crd.Load(text)
		if err != nil && len(definitions) > 0 {
			t.Error("an error and definitions")
		}
		for _, d := range definitions {
			o := runtime.DeepCopyJSON(object)
			d.Validate(o, nil)
			d.Prune(o)
			d.Default(o)
			d.Validate(o, object)
			d.ValidateStatus(o, object)
			if d.Schema() == nil || d.Kind == "" {
				t.Errorf("an empty definition")
			}
		}
	})
}

func Example() {
	text, err := os.ReadFile("testdata/widgets.yaml")
	if err != nil {
		panic(err)
	}
	definitions, err := crd.Load(text)
	if err != nil {
		panic(err)
	}
	widgets := definitions[0]
	widget := map[string]any{"spec": map[string]any{"size": int64(-1), "unknown": true}}
	widgets.Prune(widget)
	widgets.Default(widget)
	fmt.Println(widget)
	fmt.Println(widgets.Validate(widget, nil).ToAggregate())
	// Output:
	// map[spec:map[size:-1]]
	// spec.size: Invalid value: -1: spec.size in body should be greater than or equal to 0
}

func BenchmarkUpdate(b *testing.B) {
	d := load(b, "gadgets.yaml")
	old := tree(b, `{spec: {mode: Fast, replicas: 1, strategy: {type: Rolling}, ports: [{name: a, port: 1, protocol: TCP}]},
		status: {replicas: 1}}`)
	object := runtime.DeepCopyJSON(old)
	object["status"].(map[string]any)["replicas"] = int64(2)
	b.Run("prune", func(b *testing.B) {
		for b.Loop() {
			d.Prune(object)
		}
	})
	b.Run("default", func(b *testing.B) {
		for b.Loop() {
			d.Default(object)
		}
	})
	b.Run("status", func(b *testing.B) {
		for b.Loop() {
			d.ValidateStatus(object, old)
		}
	})
	b.Run("spec", func(b *testing.B) {
		for b.Loop() {
			d.Validate(object, nil)
		}
	})
}
