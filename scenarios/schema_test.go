package scenarios_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/stalemate-dev/stalemate/reactors"
	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/internal/jsonschema"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// TestSchemas keeps the schemas in folder schema equal to what the types, their comments and the tables of the loader make;
// -update writes them anew.
func TestSchemas(t *testing.T) {
	for kind, root := range map[string]reflect.Type{
		scenarios.KindScenario: reflect.TypeFor[scenarios.Manifest](),
		scenarios.KindSchedule: reflect.TypeFor[scenarios.ScheduleManifest](),
	} {
		g := newGenerator(t, kind)
		var b bytes.Buffer
		encoder := json.NewEncoder(&b)
		encoder.SetEscapeHTML(false)
		encoder.SetIndent("", "  ")
		if err := encoder.Encode(g.document(root)); err != nil {
			t.Fatal(err)
		}
		golden(t, "schema/"+strings.ToLower(kind)+".json", b.String())
		g.checkTables()
	}
}

// generator makes the schema of one kind of file.
type generator struct {
	t    *testing.T
	kind string
	// matrix says that values may stand for others: $(name).
	matrix      bool
	source      source
	enums       map[string][]string
	definitions map[string]*jsonschema.Schema
	used        map[string]bool // entries of the tables
}

func newGenerator(t *testing.T, kind string) *generator {
	return &generator{
		t: t, kind: kind, matrix: kind == scenarios.KindScenario, source: parseTypes(t), enums: scenarios.Enums(),
		definitions: map[string]*jsonschema.Schema{}, used: map[string]bool{},
	}
}

// document returns the schema of a file, whose definitions are the types below that of the file.
func (g *generator) document(root reflect.Type) *jsonschema.Schema {
	s := g.structure(root)
	s.Schema, s.ID, s.Title = jsonschema.Draft, scenarios.SchemaURL(g.kind), "Stalemate "+g.kind
	for _, name := range slices.Sorted(maps.Keys(g.definitions)) {
		s.Definitions = append(s.Definitions, jsonschema.Property{Name: name, Schema: g.definitions[name]})
	}
	return s
}

// rule is what the loader asks of a field beyond its type.
type rule struct {
	required         bool
	minimum, maximum *int64
	atLeast          int // items, or properties
	scalar           string
	value            any // the only one
	ifLeftOut        any
}

// rules of fields, by their types and names. Those of enums are in [scenarios.Enums].
var rules = map[string]rule{
	"Manifest.APIVersion":         {value: scenarios.APIVersion},
	"Manifest.Kind":               {value: scenarios.KindScenario},
	"ScheduleManifest.APIVersion": {value: scenarios.APIVersion},
	"ScheduleManifest.Kind":       {value: scenarios.KindSchedule},
	"Metadata.Name":               {scalar: "Subdomain"}, // of a scenario only a label
	"FileReference.Path":          {scalar: "NotEmpty"},

	"Spec.KubernetesVersion":       {ifLeftOut: "1.36"},
	"Spec.Settle":                  {ifLeftOut: true},
	"Spec.Matrix":                  {atLeast: 1},
	"Spec.Controllers":             {required: true, atLeast: 1},
	"Controller.Name":              {scalar: "Label"},
	"Controller.Reconciler":        {scalar: "NotEmpty"},
	"Controller.Replicas":          {minimum: ptr.To[int64](1), maximum: ptr.To[int64](1), ifLeftOut: 1},
	"Racer.Name":                   {scalar: "Label"},
	"Detector.Enabled":             {ifLeftOut: true},
	"Limits.Steps":                 {minimum: ptr.To[int64](1), ifLeftOut: 20000},
	"Limits.VirtualTime":           {ifLeftOut: "24h"},
	"Limits.Hold":                  {ifLeftOut: "120s"},
	"MatrixEntry.Values":           {atLeast: 1},
	"MatrixEntry.Name":             {scalar: "MatrixName"},
	"Variable.Name":                {scalar: "NotEmpty"},
	"Property.Name":                {scalar: "Label"},
	"Property.Rule":                {scalar: "NotEmpty"},
	"PatchStep.Merge":              {atLeast: 1},
	"Annotator.Times":              {minimum: ptr.To[int64](1)},
	"Annotator.Annotation":         {ifLeftOut: "stalemate.dev/touched"},
	"Recommendation.Replicas":      {minimum: ptr.To[int64](0)},
	"FailingPods.Labels":           {atLeast: 1},
	"FailingPods.Times":            {minimum: ptr.To[int64](0)},
	"FailingPods.ExitCode":         {minimum: ptr.To[int64](0), maximum: ptr.To[int64](255), ifLeftOut: 1},
	"UnreadyPods.Images":           {atLeast: 1},
	"LostNode.Node":                {scalar: "NotEmpty"},
	"Selector.Incarnation":         {minimum: ptr.To[int64](0)},
	"Selector.Occurrence":          {minimum: ptr.To[int64](0)},
	"Between.Incarnation":          {minimum: ptr.To[int64](0)},
	"Between.Occurrence":           {minimum: ptr.To[int64](0), ifLeftOut: 1},
	"ObjectBinding.Namespace":      {ifLeftOut: scenarios.DefaultNamespace},
	"PatchStep.Namespace":          {ifLeftOut: scenarios.DefaultNamespace},
	"DeleteStep.Namespace":         {ifLeftOut: scenarios.DefaultNamespace},
	"Annotator.Namespace":          {ifLeftOut: scenarios.DefaultNamespace},
	"Faults.MaxFaults":             {minimum: ptr.To[int64](1), ifLeftOut: 1},
	"Faults.Rules":                 {atLeast: 1},
	"FaultRule.Name":               {scalar: "Label"},
	"FaultRule.Max":                {minimum: ptr.To[int64](1)},
	"ConflictFault.By":             {ifLeftOut: complete(schedule.Conflict).Means},
	"ErrorFault.Layer":             {ifLeftOut: complete(schedule.InternalError).Layer},
	"LostResponseFault.As":         {ifLeftOut: complete(schedule.LostResponse).Means},
	"WebhookFailureFault.As":       {ifLeftOut: complete(schedule.WebhookFailure).Means},
	"AppliedTwiceFault.RetryAfter": {ifLeftOut: spanText(complete(schedule.AppliedTwice).RetryAfter)},
	"DelayFault.At":                {ifLeftOut: complete(schedule.Delay).Point},
	"DelayFault.For":               {ifLeftOut: spanText(complete(schedule.Delay).For)},
	"CacheLagFault.Max":            {ifLeftOut: spanText(complete(schedule.CacheLag).For)},
	"CrashFault.At":                {ifLeftOut: complete(schedule.Crash).Point},
	"CrashFault.RestartAfter":      {ifLeftOut: spanText(complete(schedule.Crash).For)},
	"UpgradeFault.At":              {ifLeftOut: complete(schedule.Upgrade).Point},
	"UpgradeFault.RestartAfter":    {ifLeftOut: spanText(complete(schedule.Upgrade).For)},
	"UpgradeFault.Reconciler":      {scalar: "NotEmpty"},

	"OrderItem.Times":            {minimum: ptr.To[int64](0), ifLeftOut: 1},
	"ScheduleSpec.WhenUnmatched": {ifLeftOut: scenarios.UnmatchedStale},
	"Expectation.Hash":           {scalar: "Hash"},
}

func complete(t schedule.FaultType) schedule.Params {
	return reactors.Complete(schedule.Fault{Type: t}).Params
}

// spanText writes a default of time as a file has it.
func spanText(d time.Duration) string {
	return (&metav1.Duration{Duration: d}).ToUnstructured().(string)
}

// union says which fields go together.
func (g *generator) union(name string, s *jsonschema.Schema) {
	racers, faults := scenarios.Blocks()
	switch name {
	case "Spec":
		s.AnyOf = []*jsonschema.Schema{{Required: []string{"properties"}}, {Required: []string{"detectors"}}}
	case "Racer":
		g.blocks(s, racers, "type")
		g.needs(s, "type", "Annotator", "annotator")
		g.needs(s, "type", "HorizontalPodAutoscaler", "horizontalPodAutoscaler")
	case "HorizontalPodAutoscaler":
		s.OneOf = []*jsonschema.Schema{{Required: []string{"name"}}, {Required: []string{"target"}}}
	case "FaultRule":
		s.OneOf = []*jsonschema.Schema{{Required: []string{"type"}}, {Required: []string{"types"}}}
		g.blocks(s, faults, "type")
		g.needs(s, "type", "Upgrade", "upgrade")
	case "ScheduledFault":
		g.blocks(s, faults, "type")
		g.needs(s, "type", "Upgrade", "upgrade")
	case "ScriptStep":
		s.OneOf = []*jsonschema.Schema{{Required: []string{"create"}}, {Required: []string{"patch"}}, {Required: []string{"delete"}}}
	case "Selector", "EventSelector":
		s.Not = &jsonschema.Schema{Required: []string{"verb", "verbs"}}
	case "Variable":
		s.OneOf = []*jsonschema.Schema{{Required: []string{"object"}}, {Required: []string{"list"}}}
	case "Property":
		g.needs(s, "type", "Eventually", "within")
		g.needs(s, "type", "Request", "match")
		g.only(s, "within", "type", "Eventually")
		g.only(s, "match", "type", "Request", "Sometimes")
	case "Controller":
		s.AllOf = append(s.AllOf, &jsonschema.Schema{
			If:   &jsonschema.Schema{Required: []string{"serviceAccount"}},
			Then: &jsonschema.Schema{Required: []string{"rbac"}},
		})
	case "OrderItem":
		s.OneOf = []*jsonschema.Schema{{Required: []string{"hold", "until"}}, {Required: []string{"between", "let"}}}
	}
}

// blocks says of each block which type it is for.
func (g *generator) blocks(s *jsonschema.Schema, blocks map[string]string, field string) {
	for _, value := range slices.Sorted(maps.Keys(blocks)) {
		g.only(s, blocks[value], field, value)
	}
}

// only says that a field is there only where another has one of some values.
func (g *generator) only(s *jsonschema.Schema, name, field string, values ...string) {
	s.AllOf = append(s.AllOf, &jsonschema.Schema{
		If: &jsonschema.Schema{Required: []string{name}},
		Then: &jsonschema.Schema{Required: []string{field}, Properties: jsonschema.Properties{
			{Name: field, Schema: g.orReference(&jsonschema.Schema{Enum: anys(values)})},
		}},
	})
}

// needs says that a field must be there where another has a value.
func (g *generator) needs(s *jsonschema.Schema, field, value, name string) {
	s.AllOf = append(s.AllOf, &jsonschema.Schema{
		If: &jsonschema.Schema{Required: []string{field}, Properties: jsonschema.Properties{
			{Name: field, Schema: &jsonschema.Schema{Const: value}},
		}},
		Then: &jsonschema.Schema{Required: []string{name}},
	})
}

// structure returns the schema of a struct, whose fields are properties.
func (g *generator) structure(t reflect.Type) *jsonschema.Schema {
	name := t.Name()
	s := &jsonschema.Schema{Type: jsonschema.Object, AdditionalProperties: jsonschema.None()}
	s.Description = plain(isThis(g.source.docs[name], name), g.names(t))
	g.properties(s, t, name, g.names(t))
	g.union(name, s)
	return s
}

// properties adds the fields of a struct, also of one that is part of another, the outer one.
func (g *generator) properties(s *jsonschema.Schema, t reflect.Type, outer string, names map[string]string) {
	for field := range t.Fields() {
		if field.Anonymous {
			g.properties(s, field.Type, outer, names)
			continue
		}
		name, required := jsonName(field.Tag.Get("json"))
		if name == "" || name == "-" {
			g.t.Fatalf("%s.%s has no name in a file", t, field.Name)
		}
		key := t.Name() + "." + field.Name
		rule := rules[key]
		g.used[key] = true
		if key == "Metadata.Name" && g.kind == scenarios.KindScenario {
			rule.scalar = "Label"
		}
		if required || rule.required {
			s.Required = append(s.Required, name)
		}
		enum := outer + "." + field.Name
		if g.enums[enum] == nil {
			enum = key
		}
		g.used[enum] = true
		property := g.value(field.Type, rule, g.enums[enum], key).Open()
		property.Description = plain(g.source.fields[key], names)
		property.Default = rule.ifLeftOut
		s.Properties = append(s.Properties, jsonschema.Property{Name: name, Schema: property})
	}
}

// names are those of the fields of a struct in a file, by those they have in Go.
func (g *generator) names(t reflect.Type) map[string]string {
	names := map[string]string{}
	for field := range t.Fields() {
		if field.Anonymous {
			maps.Copy(names, g.names(field.Type))
		} else {
			names[field.Name], _ = jsonName(field.Tag.Get("json"))
		}
	}
	return names
}

// value returns the schema of a field.
func (g *generator) value(t reflect.Type, r rule, enum []string, key string) *jsonschema.Schema {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case r.value != nil:
		return &jsonschema.Schema{Const: r.value}
	case t == reflect.TypeFor[metav1.Duration]():
		return g.scalar("Duration")
	case t == reflect.TypeFor[scenarios.EventReference]():
		g.define(reflect.TypeFor[scenarios.EventSelector]())
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
			{Type: jsonschema.String, MinLength: 1}, jsonschema.Refer("EventSelector"),
		}}
	case t == reflect.TypeFor[scenarios.OneOrMore]():
		one := g.enum(t, key, enum)
		list := &jsonschema.Schema{Type: jsonschema.Array, UniqueItems: true, Items: g.orReference(one)}
		return g.orReference(one, list)
	}
	switch t.Kind() {
	case reflect.Struct:
		g.define(t)
		return jsonschema.Refer(t.Name())
	case reflect.Map:
		return &jsonschema.Schema{Type: jsonschema.Object, MinProperties: r.atLeast,
			AdditionalProperties: &jsonschema.Additional{Schema: g.value(t.Elem(), rule{}, nil, key)}}
	case reflect.Slice:
		return &jsonschema.Schema{Type: jsonschema.Array, MinItems: r.atLeast, Items: g.value(t.Elem(), rule{}, enum, key)}
	case reflect.Interface:
		if key == "MatrixEntry.Values" {
			return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{
				{Type: jsonschema.String}, {Type: jsonschema.Number}, {Type: jsonschema.Boolean},
			}}
		}
		return &jsonschema.Schema{}
	case reflect.Bool:
		return g.orWholeReference(&jsonschema.Schema{Type: jsonschema.Boolean})
	case reflect.Int, reflect.Int32, reflect.Int64:
		if r.maximum == nil && t.Kind() == reflect.Int32 {
			r.maximum = ptr.To[int64](math.MaxInt32)
		}
		return g.orWholeReference(&jsonschema.Schema{Type: jsonschema.Integer, Minimum: r.minimum, Maximum: r.maximum})
	case reflect.String:
		if enum != nil {
			return g.orReference(g.enum(t, key, enum))
		}
		return g.scalar(cmp.Or(r.scalar, jsonschema.String))
	default:
		g.t.Fatalf("%s: a field of type %s has no schema", key, t)
		return nil
	}
}

// enum returns the schema of a choice. If there is something to say about one of its values, there is about all.
func (g *generator) enum(t reflect.Type, key string, values []string) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: jsonschema.String, Enum: anys(values)}
	docs := map[string]string{}
	for _, value := range slices.Concat(g.source.enums[t.Name()], g.source.enums[key]) {
		docs[value[0]] = value[1]
	}
	for _, value := range values {
		if doc := docs[value]; doc != "" {
			s.EnumDescriptions = append(s.EnumDescriptions, doc)
		}
	}
	if n := len(s.EnumDescriptions); n > 0 && n < len(values) {
		g.t.Errorf("%s: only %d of the values %q say what they mean", key, n, values)
	}
	return s
}

// The patterns of scalars.
const (
	patternLabel     = `[a-z0-9]([-a-z0-9]*[a-z0-9])?`
	patternDuration  = `^[+]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+$`
	patternReference = `\$\([^()]*\)`
)

// scalar returns the schema of a string of a kind.
func (g *generator) scalar(name string) *jsonschema.Schema {
	var s *jsonschema.Schema
	switch name {
	case jsonschema.String:
		return &jsonschema.Schema{Type: jsonschema.String}
	case "NotEmpty":
		return &jsonschema.Schema{Type: jsonschema.String, MinLength: 1}
	case "MatrixName":
		return &jsonschema.Schema{Type: jsonschema.String, Pattern: `^[-_A-Za-z0-9]+$`}
	case "Hash":
		return &jsonschema.Schema{Type: jsonschema.String, Pattern: "^[0-9a-fA-F]{16}$"}
	case "Label":
		s = &jsonschema.Schema{Type: jsonschema.String, Pattern: "^" + patternLabel + "$", MaxLength: 63, Description: "A DNS label."}
	case "Subdomain":
		pattern := "^" + patternLabel + `(\.` + patternLabel + ")*$"
		s = &jsonschema.Schema{Type: jsonschema.String, Pattern: pattern, MaxLength: 253, Description: "A DNS subdomain."}
	case "Duration":
		s = &jsonschema.Schema{Type: jsonschema.String, Pattern: patternDuration,
			Description: `A span of time: numbers with their units, as in "500ms", "20s" or "1h30m".`}
	default:
		g.t.Fatalf("there is no scalar %s", name)
	}
	if g.definitions[name] == nil {
		description := s.Description
		s.Description = ""
		s = g.orReference(s)
		s.Description = description
		g.definitions[name] = s
	}
	return jsonschema.Refer(name)
}

// orReference adds to alternatives a text with a value of the matrix in it.
func (g *generator) orReference(alternatives ...*jsonschema.Schema) *jsonschema.Schema {
	return g.or("MatrixText", &jsonschema.Schema{
		Description: "A text with values of the matrix in it, each as $(name).", Type: jsonschema.String, Pattern: patternReference,
	}, alternatives)
}

// orWholeReference adds to an alternative a value of the matrix.
func (g *generator) orWholeReference(alternative *jsonschema.Schema) *jsonschema.Schema {
	return g.or("MatrixValue", &jsonschema.Schema{
		Description: "A value of the matrix, as $(name).", Type: jsonschema.String, Pattern: "^" + patternReference + "$",
	}, []*jsonschema.Schema{alternative})
}

func (g *generator) or(name string, reference *jsonschema.Schema, alternatives []*jsonschema.Schema) *jsonschema.Schema {
	if g.matrix {
		g.definitions[name] = reference
		alternatives = append(alternatives, jsonschema.Refer(name))
	}
	if len(alternatives) == 1 {
		one := *alternatives[0]
		return &one
	}
	return &jsonschema.Schema{AnyOf: alternatives}
}

// define makes a struct a definition.
func (g *generator) define(t reflect.Type) {
	if g.definitions[t.Name()] == nil {
		g.definitions[t.Name()] = &jsonschema.Schema{} // not twice
		g.definitions[t.Name()] = g.structure(t)
	}
}

// checkTables looks for entries of the tables that no field has; those of the other kind of file apart.
func (g *generator) checkTables() {
	g.t.Helper()
	for _, key := range slices.Concat(slices.Collect(maps.Keys(rules)), slices.Collect(maps.Keys(g.enums))) {
		name, _, _ := strings.Cut(key, ".")
		if _, reached := g.definitions[name]; reached && !g.used[key] && !strings.HasPrefix(name, "Schedule") {
			g.t.Errorf("%s: there is no such field", key)
		}
	}
}

func anys(values []string) []any {
	all := make([]any, len(values))
	for i, value := range values {
		all[i] = value
	}
	return all
}
