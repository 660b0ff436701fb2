package scenarios_test

import (
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/scenarios"
)

const (
	scenariosPage = "../docs/scenarios.md"
	referencePage = "../docs/reference.md"
)

// TestReference keeps docs/reference.md equal to what `stalemate explain` says; -update writes it anew.
func TestReference(t *testing.T) { golden(t, referencePage, reference(t)) }

// TestReferenceNamesEveryField makes sure that what the page is made of is all there is.
func TestReferenceNamesEveryField(t *testing.T) {
	text := reference(t)
	var fields func(reflect.Type)
	seen := map[reflect.Type]bool{}
	fields = func(s reflect.Type) {
		if s = element(s); s == reflect.TypeFor[scenarios.EventReference]() {
			s = reflect.TypeFor[scenarios.EventSelector]()
		}
		if s.Kind() != reflect.Struct || s == reflect.TypeFor[metav1.Duration]() || seen[s] {
			return
		}
		seen[s] = true
		for f := range s.Fields() {
			if name, _ := jsonName(f.Tag.Get("json")); name != "" && !strings.Contains(text, "\n| `"+name+"` |") {
				t.Errorf("%s.%s is not in the reference", s, name)
			}
			fields(f.Type)
		}
	}
	fields(reflect.TypeFor[scenarios.Manifest]())
	fields(reflect.TypeFor[scenarios.ScheduleManifest]())
	if len(seen) < 35 {
		t.Errorf("only %d types", len(seen))
	}
}

// TestReferenceExamples loads what docs/scenarios.md shows: parts of one scenario, another with the matrix, and a schedule of
// the first.
func TestReferenceExamples(t *testing.T) {
	page, err := os.ReadFile(scenariosPage)
	if err != nil {
		t.Fatal(err)
	}
	scenario := `
apiVersion: stalemate.dev/v1alpha1
kind: Scenario
metadata: {name: reference}
spec:
  crds: [{path: widgets.yaml}]
  racers: [{name: kcm, type: StatefulSetController}]
`
	matrix, schedule := scenario+`  controllers: [{name: operator, reconciler: example/buggy}]
  properties: [{name: always, type: Always, rule: "true"}]
`, ""
	shown := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1)
	if len(shown) != 8 {
		t.Fatalf("%d examples, want variables with properties, a script, faults, roles, webhooks, detectors, a matrix, and a schedule",
			len(shown))
	}
	for _, example := range shown {
		indented := "  " + strings.ReplaceAll(strings.TrimSuffix(string(example[1]), "\n"), "\n", "\n  ") + "\n"
		switch first, _, _ := strings.Cut(string(example[1]), ":"); first {
		case "apiVersion":
			schedule = string(example[1])
		case "matrix":
			matrix += indented
		default:
			scenario += indented
		}
	}
	files := fstest.MapFS{
		"scenario.yaml": {Data: []byte(scenario)},
		"matrix.yaml":   {Data: []byte(matrix)},
		"schedule.yaml": {Data: []byte(schedule)},
		"widgets.yaml":  {Data: readFile(t, "../cmd/testdata/widget/config/crd/bases/widgets.yaml")},
		"role.yaml":     {Data: readFile(t, "testdata/valid/rbac/role.yaml")},

		"config/webhook/manifests.yaml": {Data: []byte(hookManifests)},
		"objects/shop-2.yaml": {Data: []byte(
			"{apiVersion: example.com/v1, kind: Widget, metadata: {name: shop-2}, spec: {replicas: 1}}")},
	}
	options := scenarios.Options{Registry: registry()}
	loaded, err := scenarios.LoadScheduleFS(files, "schedule.yaml", options)
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]bool{}
	for _, p := range loaded.Scenario.Manifest.Spec.Properties {
		types[p.Type] = true
	}
	if len(types) != 5 {
		t.Errorf("examples of %d types of properties, want all 5", len(types))
	}
	combined, err := scenarios.LoadFS(files, "matrix.yaml", options)
	if err != nil {
		t.Fatal(err)
	}
	if entries := combined.Entries(); len(entries) != 6 {
		t.Errorf("the matrix has %d entries, want 6", len(entries))
	}
}

const referenceHead = `# Reference

Every field of scenario and schedule files. [scenarios.md](scenarios.md) says how to use them. The same, field by field, is what
` + "`stalemate explain scenario.spec`" + ` prints; editors read it from the JSON Schemas in [scenarios/schema](../scenarios/schema).
All of it is generated from the types of the format.

In a scenario with a [matrix](scenarios.md#the-matrix), ` + "`$(name)`" + ` may stand in the place of any scalar below ` + "`spec`" + `.
`

// section is a table of the page: a mapping that stands at one place or several.
type section struct {
	places []string
	field  scenarios.Field
}

// reference returns the page.
func reference(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(referenceHead)
	for _, kind := range scenarios.Kinds() {
		root, err := scenarios.Explain(kind)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "\n## %s\n", kind)
		sections := sections(root)
		for i := range sections {
			sections[i].write(&b)
		}
	}
	return b.String()
}

// sections returns the mappings of a format, equal ones once.
func sections(root scenarios.Field) []section {
	var all []section
	var add func(f scenarios.Field)
	add = func(f scenarios.Field) {
		if len(f.Fields) == 0 {
			return
		}
		if i := slices.IndexFunc(all, func(s section) bool { return same(s.field, f) }); i >= 0 {
			all[i].places = append(all[i].places, place(f))
			return
		}
		all = append(all, section{[]string{place(f)}, f})
		for _, below := range f.Fields {
			add(below)
		}
	}
	add(root)
	return all
}

// same reports whether two fields hold the same mapping.
func same(a, b scenarios.Field) bool {
	return a.OfDoc == b.OfDoc && slices.EqualFunc(a.Fields, b.Fields, func(a, b scenarios.Field) bool {
		return a.Name == b.Name && a.Doc == b.Doc && a.Required == b.Required && slices.Equal(a.Values, b.Values) && same(a, b)
	})
}

// place is where a file has a field.
func place(f scenarios.Field) string {
	if f.Path == "" {
		return "The file"
	}
	if strings.HasPrefix(f.Type, "[]") {
		return "`" + f.Path + "[]`"
	}
	return "`" + f.Path + "`"
}

// write writes the section.
func (s *section) write(b *strings.Builder) {
	fmt.Fprintf(b, "\n### %s\n\n%s\n\n| field | holds | meaning |\n|---|---|---|\n", strings.Join(s.places, ", "), cell(s.field.OfDoc))
	var values strings.Builder
	for _, f := range s.field.Fields {
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", f.Name, holds(f), meaning(f))
		if documented(f) {
			fmt.Fprintf(&values, "\n| `%s` | meaning |\n|---|---|\n", f.Name)
			for _, value := range f.Values {
				fmt.Fprintf(&values, "| `%s` | %s |\n", value.Value, cell(value.Doc))
			}
		}
	}
	b.WriteString(values.String())
}

// documented reports whether there is something to say about the values of a field.
func documented(f scenarios.Field) bool { return len(f.Values) > 0 && f.Values[0].Doc != "" }

// holds says what type a field is of.
func holds(f scenarios.Field) string {
	text := cell(f.Type)
	if f.Required {
		text += ", required"
	}
	return text
}

// meaning says what a field is.
func meaning(f scenarios.Field) string {
	text := cell(f.Doc)
	if len(f.Values) > 1 && !documented(f) {
		var values []string
		for _, value := range f.Values {
			values = append(values, "`"+strings.ReplaceAll(fmt.Sprintf("%q", value.Value), "|", `\|`)+"`")
		}
		text += " One of " + strings.ReplaceAll(strings.Join(values, ", "), `"`, "") + "."
	}
	if f.Default != "" {
		text += " Default: `" + strings.Trim(f.Default, `"`) + "`."
	}
	return text
}

// cell writes a text as a cell of a table has it.
func cell(text string) string { return escapes.Replace(text) }

var escapes = strings.NewReplacer("*", `\*`, "|", `\|`)
