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

	"github.com/stalemate-dev/stalemate/reactors"
	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

const referencePage = "../docs/scenarios.md"

// typeFiles declare the format.
var typeFiles = []string{"types.go", "fault_types.go", "schedule_types.go"}

// TestReference keeps the tables in docs/scenarios.md equal to the comments of the types; -update writes them anew.
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
	{"ServiceAccount", "`spec.controllers[].serviceAccount`"},
	{"Racer", "`spec.racers[]`"},
	{"GarbageCollector", "`spec.racers[].garbageCollector`"},
	{"NamespaceController", "`spec.racers[].namespaceController`"},
	{"Kubelet", "`spec.racers[].kubelet`"},
	{"FailingPods", "`spec.racers[].kubelet.fails[]`"},
	{"UnreadyPods", "`spec.racers[].kubelet.unready`"},
	{"LostNode", "`spec.racers[].kubelet.lost[]`"},
	{"HorizontalPodAutoscaler", "`spec.racers[].horizontalPodAutoscaler`"},
	{"ScaleTarget", "`spec.racers[].horizontalPodAutoscaler.target`"},
	{"Recommendation", "`spec.racers[].horizontalPodAutoscaler.recommends[]`"},
	{"Annotator", "`spec.racers[].annotator`"},
	{"ScriptStep", "`spec.script[]`"},
	{"PatchStep", "`spec.script[].patch`"},
	{"DeleteStep", "`spec.script[].delete`"},
	{"Selector", "`spec.script[].after`, `spec.faults.rules[].match`, `spec.properties[].match`"},
	{"Faults", "`spec.faults`"},
	{"FaultRule", "`spec.faults.rules[]`"},
	{"FaultBlocks", "The blocks of faults"},
	{"ErrorFault", "The blocks `tooManyRequests`, `internalError`, `serverTimeout`, `serviceUnavailable`, `timeout`"},
	{"ConflictFault", "The block `conflict`"},
	{"LostResponseFault", "The block `lostResponse`"},
	{"WebhookDenialFault", "The block `webhookDenial`"},
	{"WebhookFailureFault", "The block `webhookFailure`"},
	{"AppliedTwiceFault", "The block `appliedTwice`"},
	{"DelayFault", "The block `delay`"},
	{"SpanFault", "The blocks `wedge`, `watchDrop`, `relist`, `lateDelete`"},
	{"CacheLagFault", "The block `cacheLag`"},
	{"CrashFault", "The block `crash`"},
	{"UpgradeFault", "The block `upgrade`"},
	{"MatrixEntry", "`spec.matrix[]`"},
	{"Variable", "`spec.variables[]`"},
	{"ObjectBinding", "`spec.variables[].object`"},
	{"ListBinding", "`spec.variables[].list`"},
	{"Property", "`spec.properties[]`"},
	{"Detector", "`spec.detectors[]`"},
	{"Limits", "`spec.limits`"},
	{"ScheduleManifest", "A schedule's file"},
	{"ScheduleSpec", "A schedule's `spec`"},
	{"OrderItem", "A schedule's `spec.order[]`"},
	{"Between", "A schedule's `spec.order[].between`"},
	{"EventSelector", "A schedule's events"},
	{"ScheduledFault", "A schedule's `spec.faults[]`"},
	{"Latency", "A schedule's `spec.latencies[]`"},
	{"Permutation", "A schedule's `spec.permutations[]`"},
	{"Expectation", "A schedule's `spec.expect`"},
	{"Origin", "A schedule's `spec.origin`"},
}

// source is what the types' files declare.
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
	written := map[string]bool{"EventReference": true} // a string or a selector
	for _, r := range referenced {
		structure := s.structs[r.name]
		if structure == nil {
			t.Fatalf("there is no struct %s", r.name)
		}
		written[r.name] = true
		fields := fields(t, structure)
		words := map[string]string{} // the names of fields in a file, by those they have in Go
		for _, f := range fields {
			words[f.goName] = f.name
		}
		fmt.Fprintf(&b, "### %s\n\n%s\n\n| field | value | meaning |\n|---|---|---|\n", r.place, markdown(isThis(s.docs[r.name], r.name), words))
		var values strings.Builder
		for _, f := range fields {
			if f.name == "" {
				b.WriteString(embedded[f.goType])
				continue
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s |\n", f.name, f.value, markdown(f.doc, words))
			if len(s.enums[f.goType]) > 0 && !written[f.goType] {
				written[f.goType] = true
				fmt.Fprintf(&values, "\n| `%s` | meaning |\n|---|---|\n", f.name)
				for _, value := range s.enums[f.goType] {
					fmt.Fprintf(&values, "| `%s` | %s |\n", value[0], value[1])
				}
			}
		}
		b.WriteString(values.String() + "\n")
	}
	for name := range s.structs {
		if !written[name] {
			t.Errorf("the reference has no place for %s", name)
		}
	}
	return b.String()
}

// documented is a field of the format.
type documented struct{ goName, goType, name, value, doc string }

// embedded are the rows for structs that are part of others; they have tables of their own.
var embedded = map[string]string{
	"FaultBlocks": "| the block of the type | mapping | See [the blocks of faults](#the-blocks-of-faults). |\n",
	"Selector":    "| all fields of a selector | | See [above](#specscriptafter-specfaultsrulesmatch-specpropertiesmatch). |\n",
}

// fields returns the fields of a struct. One that is part of it has no name.
func fields(t *testing.T, structure *ast.StructType) []documented {
	t.Helper()
	var all []documented
	for _, field := range structure.Fields.List {
		if len(field.Names) == 0 {
			all = append(all, documented{goType: field.Type.(*ast.Ident).Name})
			continue
		}
		name, required := jsonName(tagOf(t, field))
		value := valueOf(field.Type)
		if required {
			value += ", required"
		}
		goType := ""
		switch e := field.Type.(type) {
		case *ast.Ident:
			goType = e.Name
		case *ast.SelectorExpr:
			goType = e.Sel.Name
		}
		all = append(all, documented{field.Names[0].Name, goType, name, value, field.Doc.Text()})
	}
	return all
}

func parseTypes(t *testing.T) source {
	t.Helper()
	s := source{map[string]string{}, map[string]*ast.StructType{}, map[string][][2]string{}}
	for _, name := range typeFiles {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, declaration := range file.Decls {
			if group, ok := declaration.(*ast.GenDecl); ok {
				s.add(t, group)
			}
		}
	}
	for _, fault := range schedule.FaultTypes() {
		doc := backquote.Replace(reactors.Doc(fault))
		s.enums["FaultType"] = append(s.enums["FaultType"], [2]string{string(fault), doc})
	}
	return s
}

// add adds types and constants.
func (s *source) add(t *testing.T, group *ast.GenDecl) {
	t.Helper()
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
		if of := valueOf(e.Elt); of != "—" {
			return "list of " + of + "s"
		}
		return "list"
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
		case "int", "int32", "int64":
			return "integer"
		case "OneOrMore":
			return "string, or list of strings"
		case "EventReference":
			return "string, or selector"
		case "any":
			return "—"
		case "string", "Reads", "RacerType", "DetectorType", "VariableTime", "Outcome", "WhenUnmatched":
			return "string"
		}
		return "mapping"
	}
	return "?"
}
