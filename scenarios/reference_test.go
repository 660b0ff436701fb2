package scenarios_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/scenarios"
)

const referencePage = "../docs/scenarios.md"

// TestReference keeps the tables in docs/scenarios.md equal to the comments of types.go; -update writes them anew.
func TestReference(t *testing.T) {
	page, err := os.ReadFile(referencePage)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- reference:begin -->\n", "<!-- reference:end -->\n"
	before, rest, begins := strings.Cut(string(page), begin)
	_, after, ends := strings.Cut(rest, end)
	if !begins || !ends {
		t.Fatalf("%s has no marks for the reference", referencePage)
	}
	golden(t, referencePage, before+begin+reference(t)+end+after)
}

// TestReferenceNamesEveryField makes sure that what the tables are made of is all there is.
func TestReferenceNamesEveryField(t *testing.T) {
	text := reference(t)
	var fields func(reflect.Type)
	seen := map[reflect.Type]bool{}
	fields = func(s reflect.Type) {
		if s = element(s); s.Kind() != reflect.Struct || s == reflect.TypeFor[metav1.Duration]() || seen[s] {
			return
		}
		seen[s] = true
		for f := range s.Fields() {
			if name, _ := jsonName(f.Tag.Get("json")); !strings.Contains(text, "\n| `"+name+"` |") {
				t.Errorf("%s.%s is not in the reference", s, name)
			}
			fields(f.Type)
		}
	}
	fields(reflect.TypeFor[scenarios.Manifest]())
	if len(seen) < 15 {
		t.Errorf("only %d types", len(seen))
	}
}

// TestReferenceExamples loads what docs/scenarios.md shows.
func TestReferenceExamples(t *testing.T) {
	page, err := os.ReadFile(referencePage)
	if err != nil {
		t.Fatal(err)
	}
	scenario := `
apiVersion: stalemate.dev/v1alpha1
kind: Scenario
metadata: {name: reference}
spec:
  crds: [{path: widgets.yaml}]
  controllers: [{name: operator, reconciler: example/buggy}]
`
	shown := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(page, -1)
	if len(shown) != 2 {
		t.Fatalf("%d examples, want variables with properties, and a script", len(shown))
	}
	for _, example := range shown {
		scenario += "  " + strings.ReplaceAll(strings.TrimSuffix(string(example[1]), "\n"), "\n", "\n  ") + "\n"
	}
	widgets, err := os.ReadFile("../cmd/testdata/widget/config/crd/bases/widgets.yaml")
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{
		"scenario.yaml": {Data: []byte(scenario)},
		"widgets.yaml":  {Data: widgets},
		"objects/shop-2.yaml": {Data: []byte(
			"{apiVersion: example.com/v1, kind: Widget, metadata: {name: shop-2}, spec: {replicas: 1}}")},
	}
	loaded, err := scenarios.LoadFS(files, "scenario.yaml", scenarios.Options{Registry: registry()})
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]bool{}
	for _, p := range loaded.Manifest.Spec.Properties {
		types[p.Type] = true
	}
	if len(types) != 5 {
		t.Errorf("examples of %d types of properties, want all 5", len(types))
	}
}

// element returns what a pointer or list is of.
func element(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}

// referenced are the types of the format, in the order of the page, and where a file has them.
var referenced = []struct{ name, place string }{
	{"Manifest", "The file"},
	{"Metadata", "`metadata`"},
	{"Spec", "`spec`"},
	{"FileReference", "`spec.crds[]`, `spec.given[]`, `spec.script[].create`"},
	{"Controller", "`spec.controllers[]`"},
	{"Racer", "`spec.racers[]`"},
	{"GarbageCollector", "`spec.racers[].garbageCollector`"},
	{"Kubelet", "`spec.racers[].kubelet`"},
	{"Annotator", "`spec.racers[].annotator`"},
	{"ScriptStep", "`spec.script[]`"},
	{"PatchStep", "`spec.script[].patch`"},
	{"DeleteStep", "`spec.script[].delete`"},
	{"Selector", "`spec.script[].after`, `spec.properties[].match`"},
	{"Variable", "`spec.variables[]`"},
	{"ObjectBinding", "`spec.variables[].object`"},
	{"ListBinding", "`spec.variables[].list`"},
	{"Property", "`spec.properties[]`"},
	{"Limits", "`spec.limits`"},
}

// source is what types.go declares.
type source struct {
	docs    map[string]string          // of types
	structs map[string]*ast.StructType // by name
	enums   map[string][][2]string     // values and their docs, by the name of the type
}

// reference returns a section with a table for each type of the format.
func reference(t *testing.T) string {
	t.Helper()
	s := parseTypes(t)
	var b strings.Builder
	for _, r := range referenced {
		structure := s.structs[r.name]
		if structure == nil {
			t.Fatalf("types.go has no struct %s", r.name)
		}
		delete(s.structs, r.name)
		words := fieldNames(structure)
		fmt.Fprintf(&b, "### %s\n\n%s\n\n| field | value | meaning |\n|---|---|---|\n", r.place, markdown(isThis(s.docs[r.name], r.name), words))
		var values strings.Builder
		for _, field := range structure.Fields.List {
			name, required := jsonName(tagOf(t, field))
			value := valueOf(field.Type)
			if required {
				value += ", required"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name, value, markdown(field.Doc.Text(), words))
			if enum, ok := field.Type.(*ast.Ident); ok && len(s.enums[enum.Name]) > 0 {
				fmt.Fprintf(&values, "\n| `%s` | meaning |\n|---|---|\n", name)
				for _, value := range s.enums[enum.Name] {
					fmt.Fprintf(&values, "| `%s` | %s |\n", value[0], value[1])
				}
			}
		}
		b.WriteString(values.String() + "\n")
	}
	for name := range s.structs {
		t.Errorf("the reference has no place for %s", name)
	}
	return b.String()
}

func parseTypes(t *testing.T) source {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "types.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	s := source{map[string]string{}, map[string]*ast.StructType{}, map[string][][2]string{}}
	for _, declaration := range file.Decls {
		group, ok := declaration.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range group.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				s.docs[spec.Name.Name] = group.Doc.Text()
				if structure, ok := spec.Type.(*ast.StructType); ok {
					s.structs[spec.Name.Name] = structure
				}
			case *ast.ValueSpec:
				s.addEnum(t, spec, group)
			}
		}
	}
	return s
}

// addEnum adds a constant that is a value of an enum.
func (s *source) addEnum(t *testing.T, spec *ast.ValueSpec, group *ast.GenDecl) {
	t.Helper()
	enum, ok := spec.Type.(*ast.Ident)
	if !ok {
		return
	}
	value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
	if err != nil {
		t.Fatal(err)
	}
	doc := spec.Doc.Text()
	if doc == "" {
		doc = group.Doc.Text()
	}
	doc = strings.TrimPrefix(strings.TrimPrefix(doc, spec.Names[0].Name+" "), "is ")
	doc = markdown(doc, nil)
	s.enums[enum.Name] = append(s.enums[enum.Name], [2]string{value, doc})
}

// fieldNames returns the names that a struct's fields have in JSON, by those they have in Go.
func fieldNames(structure *ast.StructType) map[string]string {
	names := map[string]string{}
	for _, field := range structure.Fields.List {
		tag, _ := strconv.Unquote(field.Tag.Value)
		names[field.Names[0].Name], _ = jsonName(reflect.StructTag(tag).Get("json"))
	}
	return names
}

func tagOf(t *testing.T, field *ast.Field) string {
	t.Helper()
	tag, err := strconv.Unquote(field.Tag.Value)
	if err != nil {
		t.Fatal(err)
	}
	return reflect.StructTag(tag).Get("json")
}

// jsonName returns the name in a tag, and whether the field must be there.
func jsonName(tag string) (name string, required bool) {
	name, options, _ := strings.Cut(tag, ",")
	return name, options == ""
}

var (
	word      = regexp.MustCompile("`[^`]*`|\"[^\"]*\"|[A-Za-z]+")
	backquote = strings.NewReplacer("*", `\*`, "|", `\|`, "\n", " ")
)

// isThis has a comment speak of the section it stands in instead of the type it is about: "Kubelet configures".
func isThis(comment, name string) string {
	if verb, ok := strings.CutPrefix(comment, name+" "); ok && strings.HasSuffix(strings.Fields(verb)[0], "s") {
		return "This " + verb
	}
	return comment
}

// markdown makes a comment a paragraph, and writes the names of fields as a scenario does.
func markdown(comment string, names map[string]string) string {
	comment = backquote.Replace(strings.TrimSpace(comment))
	return word.ReplaceAllStringFunc(comment, func(w string) string {
		if name, ok := names[w]; ok {
			return "`" + name + "`"
		}
		return w
	})
}

// valueOf says in the words of YAML what a field of a type holds.
func valueOf(expression ast.Expr) string {
	switch e := expression.(type) {
	case *ast.StarExpr:
		return valueOf(e.X)
	case *ast.ArrayType:
		return "list of " + valueOf(e.Elt) + "s"
	case *ast.MapType:
		return "mapping"
	case *ast.SelectorExpr:
		if e.Sel.Name == "Duration" {
			return "duration"
		}
		return "string"
	case *ast.Ident:
		switch e.Name {
		case "bool":
			return "`true` or `false`"
		case "int", "int32":
			return "integer"
		case "any":
			return "—"
		case "string", "Reads", "RacerType", "VariableTime":
			return "string"
		}
		return "mapping"
	}
	return "?"
}
