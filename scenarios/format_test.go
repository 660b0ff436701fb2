package scenarios_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stalemate-dev/stalemate/reactors"
	"github.com/stalemate-dev/stalemate/sim/detect"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// typeFiles declare the format.
var typeFiles = []string{"types.go", "fault_types.go", "schedule_types.go"}

// source is what the types' files declare and say.
type source struct {
	docs   map[string]string      // of types
	fields map[string]string      // docs of fields, by "Type.Field"
	enums  map[string][][2]string // values and their docs, by the name of the type
}

func parseTypes(t *testing.T) source {
	t.Helper()
	s := source{map[string]string{}, map[string]string{}, map[string][][2]string{}}
	for _, name := range typeFiles {
		s.parse(t, name)
	}
	// Of these the words are elsewhere.
	properties := source{map[string]string{}, map[string]string{}, map[string][][2]string{}}
	properties.parse(t, "../sim/property/property.go")
	s.enums["Property.Type"] = properties.enums["Type"]
	for _, fault := range schedule.FaultTypes() {
		s.enums["FaultType"] = append(s.enums["FaultType"], [2]string{string(fault), reactors.Doc(fault)})
	}
	for _, d := range detect.Types() {
		s.enums["DetectorType"] = append(s.enums["DetectorType"], [2]string{string(d), detect.Doc(d)})
	}
	return s
}

// parse adds what a file declares.
func (s *source) parse(t *testing.T, name string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, declaration := range file.Decls {
		group, ok := declaration.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range group.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				s.addType(spec, group)
			case *ast.ValueSpec:
				s.addEnum(t, spec, group)
			}
		}
	}
}

// addType adds a type and its fields.
func (s *source) addType(spec *ast.TypeSpec, group *ast.GenDecl) {
	s.docs[spec.Name.Name] = group.Doc.Text()
	structure, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	for _, field := range structure.Fields.List {
		for _, name := range field.Names {
			s.fields[spec.Name.Name+"."+name.Name] = field.Doc.Text()
		}
	}
}

// addEnum adds a constant that is a value of an enum.
func (s *source) addEnum(t *testing.T, spec *ast.ValueSpec, group *ast.GenDecl) {
	t.Helper()
	enum, ok := spec.Type.(*ast.Ident)
	if !ok || len(spec.Values) == 0 {
		return
	}
	literal, ok := spec.Values[0].(*ast.BasicLit)
	if !ok || literal.Kind != token.STRING {
		return
	}
	value, err := strconv.Unquote(literal.Value)
	if err != nil {
		t.Fatal(err)
	}
	doc := spec.Doc.Text()
	if doc == "" {
		doc = group.Doc.Text()
	}
	doc = strings.TrimPrefix(strings.TrimPrefix(doc, spec.Names[0].Name+" "), "is ")
	s.enums[enum.Name] = append(s.enums[enum.Name], [2]string{value, plain(doc, nil)})
}

// jsonName returns the name in a tag, and whether the field must be there.
func jsonName(tag string) (name string, required bool) {
	name, options, _ := strings.Cut(tag, ",")
	return name, options == ""
}

// isThis has a comment speak of the section it stands in instead of the type it is about: "Kubelet configures".
func isThis(comment, name string) string {
	if verb, ok := strings.CutPrefix(comment, name+" "); ok && strings.HasSuffix(strings.Fields(verb)[0], "s") {
		return "This " + verb
	}
	return comment
}

var word = regexp.MustCompile("`[^`]*`|\"[^\"]*\"|[A-Za-z]+")

// plain makes a comment a paragraph, and writes the names of fields as a file does.
func plain(comment string, names map[string]string) string {
	comment = strings.ReplaceAll(strings.TrimSpace(comment), "\n", " ")
	return word.ReplaceAllStringFunc(comment, func(w string) string {
		if name, ok := names[w]; ok {
			return "`" + name + "`"
		}
		return w
	})
}

// element returns what a pointer or list is of.
func element(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	return t
}
