package scenarios

import (
	"embed"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/stalemate-dev/stalemate/scenarios/internal/jsonschema"
)

//go:embed schema/*.json
var schemas embed.FS

// Kinds returns the kinds of files that there are.
func Kinds() []string { return []string{KindScenario, KindSchedule} }

// Schema returns the JSON Schema (draft 7) of a kind of file, for editors and other tools. It is stricter than [Load] in that no
// field may be null, and knows nothing of what lies outside of the file: whether the kinds, objects and reconcilers that it names
// exist, and whether rules compile.
func Schema(kind string) ([]byte, error) {
	if !slices.Contains(Kinds(), kind) {
		return nil, fmt.Errorf("kind %q: there is no such kind of file%s", kind, didYouMeanOr(kind, Kinds()))
	}
	return schemas.ReadFile("schema/" + strings.ToLower(kind) + ".json")
}

// SchemaURL returns where the schema of a kind of file is on the web, for the first line of a file:
//
//	# yaml-language-server: $schema=…
func SchemaURL(kind string) string {
	return "https://raw.githubusercontent.com/stalemate-dev/stalemate/main/scenarios/schema/" + strings.ToLower(kind) + ".json"
}

// Field is what there is to say about a field of a file.
type Field struct {
	// Kind of the file: [KindScenario] or [KindSchedule].
	Kind string
	// Path of the field: "spec.faults.rules". It is empty for the file itself.
	Path string
	// Name is the last part of the path.
	Name string
	// Type is what the field holds: "string", "Duration", "Object", "[]Object", "map[string]string", or several with "or".
	Type string
	// Required says that the field must be there whenever the mapping that it belongs to is.
	Required bool
	// Doc says what the field is, OfDoc what the mapping is that it holds, or a list of such mappings. Either may be empty.
	Doc, OfDoc string
	// Default is the value of a field that is left out, as JSON; empty if there is none worth the word.
	Default string
	// Values are those that the field may have; empty for any.
	Values []FieldValue
	// Fields are those of the mapping, in the order of the format; empty for one with any keys.
	Fields []Field
}

// FieldValue is one of a choice of values.
type FieldValue struct {
	// Value as it is written.
	Value string
	// Doc says what it means; it may be empty.
	Doc string
}

// brackets are the index or key in a path, as in "spec.racers[0]".
var brackets = regexp.MustCompile(`\[[^\]]*\]`)

// formats are the fields of all kinds of files.
var formats = sync.OnceValue(func() []Field {
	var all []Field
	for _, kind := range Kinds() {
		data, err := Schema(kind)
		if err != nil {
			panic(fmt.Sprintf("scenarios: the schema of a %s: %v", kind, err)) // it is embedded
		}
		e := explainer{kind: kind}
		if err := json.Unmarshal(data, &e.root); err != nil {
			panic(fmt.Sprintf("scenarios: the schema of a %s: %v", kind, err))
		}
		root := Field{Kind: kind, Type: "Object", OfDoc: e.root.Description}
		root.Fields = e.fields("", &e.root)
		all = append(all, root)
	}
	return all
})

// Explain says what a field is, by its path: "scenario.spec.faults.rules" or, for a schedule, "schedule.spec.order". The kind may
// be left out for a scenario, and what stands in brackets counts for nothing, so that a path may be copied from an error:
// "spec.racers[0].type". The error says which part of the path is unknown, and what may have been meant.
func Explain(path string) (Field, error) {
	parts := strings.Split(brackets.ReplaceAllString(strings.TrimSpace(path), ""), ".")
	all := formats()
	at := slices.IndexFunc(all, func(f Field) bool { return strings.EqualFold(f.Kind, parts[0]) })
	switch {
	case at >= 0:
		parts = parts[1:]
	case slices.ContainsFunc(all[0].Fields, func(f Field) bool { return f.Name == parts[0] }):
		at = 0
	default:
		return Field{}, fmt.Errorf("%s: a path begins with scenario or schedule, as in scenario.spec.racers%s",
			path, didYouMean(parts[0], []string{"scenario", "schedule"}))
	}
	field := all[at]
	for _, part := range parts {
		next := slices.IndexFunc(field.Fields, func(f Field) bool { return f.Name == part })
		if next < 0 {
			return Field{}, field.unknown(part)
		}
		field = field.Fields[next]
	}
	return field, nil
}

// unknown says that a field does not have another below it.
func (f *Field) unknown(name string) error {
	path := strings.ToLower(f.Kind) + "." + strings.TrimPrefix(f.Path+"."+name, ".")
	if len(f.Fields) == 0 {
		return fmt.Errorf("%s: unknown field: %s is of type %s, and has none", path, join(strings.ToLower(f.Kind), f.Path), f.Type)
	}
	names := make([]string, len(f.Fields))
	for i := range f.Fields {
		names[i] = f.Fields[i].Name
	}
	if hint := didYouMean(name, names); hint != "" {
		return fmt.Errorf("%s: unknown field%s", path, hint)
	}
	return fmt.Errorf("%s: unknown field; the fields here are %s", path, strings.Join(names, ", "))
}

// explainer reads fields off a schema.
type explainer struct {
	kind string
	root jsonschema.Schema
}

// definition returns what a schema stands for, and the name of the definition if it stands for one.
func (e *explainer) definition(s *jsonschema.Schema) (*jsonschema.Schema, string) {
	if name := s.Definition(); name != "" {
		return e.root.Definitions.Get(name), name
	}
	return s, ""
}

// fields returns those of a mapping.
func (e *explainer) fields(path string, s *jsonschema.Schema) []Field {
	var all []Field
	for _, property := range s.Properties {
		f := Field{Kind: e.kind, Path: join(path, property.Name), Name: property.Name}
		f.Required = slices.Contains(s.Required, property.Name)
		f.Doc = property.Schema.Description
		if value := property.Schema.Default; value != nil {
			data, err := json.Marshal(value)
			if err != nil {
				panic(fmt.Sprintf("scenarios: the default of %s: %v", f.Path, err)) // it was JSON
			}
			f.Default = string(data)
		}
		e.describe(&f, property.Schema)
		all = append(all, f)
	}
	return all
}

// describe fills in what a field may hold.
func (e *explainer) describe(f *Field, s *jsonschema.Schema) {
	f.Type = e.typeOf(f, s)
	if s.Const != nil {
		f.Values = []FieldValue{{Value: fmt.Sprint(s.Const)}}
	}
}

// typeOf returns the type that a schema is of, and adds to the field what there is below.
func (e *explainer) typeOf(f *Field, s *jsonschema.Schema) string {
	s, name := e.definition(s)
	switch {
	case name == "MatrixText" || name == "MatrixValue":
		return "" // which any field may be
	case len(s.AnyOf) > 0 && s.Type == "" && name == "":
		return e.alternatives(f, s.AnyOf)
	case s.Type == jsonschema.Object && s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return "map[string]" + e.typeOf(f, s.AdditionalProperties.Schema)
	case s.Type == jsonschema.Object:
		f.OfDoc = s.Description
		f.Fields = e.fields(f.Path, s)
		return "Object"
	case s.Type == jsonschema.Array:
		items := e.typeOf(f, s.Items)
		if strings.Contains(items, alternative) {
			items = "(" + items + ")"
		}
		return "[]" + items
	case name != "": // of a scalar
		return name
	case s.Type == "" && s.Const == nil:
		return "any"
	}
	if len(s.Enum) > 0 {
		f.Values = nil
		for i, value := range s.Enum {
			v := FieldValue{Value: fmt.Sprint(value)}
			if i < len(s.EnumDescriptions) {
				v.Doc = s.EnumDescriptions[i]
			}
			f.Values = append(f.Values, v)
		}
	}
	if s.Const != nil {
		return jsonschema.String
	}
	return s.Type
}

// alternative stands between the types that a field may be of.
const alternative = " or "

// alternatives returns the types that a field may be of.
func (e *explainer) alternatives(f *Field, schemas []*jsonschema.Schema) string {
	var types []string
	for _, s := range schemas {
		if t := e.typeOf(f, s); t != "" && !slices.Contains(types, t) {
			types = append(types, t)
		}
	}
	return strings.Join(types, alternative)
}
