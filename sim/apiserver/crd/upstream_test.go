package crd_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/cel/common"
	"pgregory.net/rapid"

	"github.com/stalemate-dev/stalemate/sim/apiserver/crd"
)

// upstream does what a real server does with a custom resource, with the packages that it is made of. They are too large to be
// imported by anything but a test.
type upstream struct {
	structural    *structural.Structural
	whole, status validation.SchemaValidator
}

func newUpstream(t *rapid.T, schema *apiextensionsv1.JSONSchemaProps) *upstream {
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(schema, &internal, nil); err != nil {
		t.Fatal(err)
	}
	s, err := structural.NewStructural(&internal)
	if err != nil {
		t.Fatal(err)
	}
	s = s.DeepCopy()
	if err := defaulting.PruneDefaults(s); err != nil {
		t.Fatal(err)
	}
	u := &upstream{structural: s}
	if u.whole, _, err = validation.NewSchemaValidator(&internal); err != nil {
		t.Fatal(err)
	}
	if status, ok := internal.Properties["status"]; ok {
		if u.status, _, err = validation.NewSchemaValidator(&status); err != nil {
			t.Fatal(err)
		}
	}
	return u
}

// receive is the decoding of a request: unstructuredSchemaCoercer and unstructuredDefaulter in customresource_handler.go.
func (u *upstream) receive(object map[string]any) {
	metadata, kind, version := object["metadata"], object["kind"], object["apiVersion"]
	pruning.Prune(object, u.structural, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(object, u.structural)
	_ = objectmeta.Coerce(nil, object, u.structural, false, true)
	object["metadata"], object["kind"], object["apiVersion"] = metadata, kind, version
	defaulting.Default(object, u.structural)
}

// validate is customResourceStrategy.Validate and ValidateUpdate, but for metadata, scale and rules.
func (u *upstream) validate(object, old map[string]any) field.ErrorList {
	var errs field.ErrorList
	if old == nil {
		errs = validation.ValidateCustomResource(nil, object, u.whole)
	} else {
		pair := common.NewCorrelatedObject(object, old, &model.Structural{Structural: u.structural})
		errs = validation.ValidateCustomResourceUpdate(nil, object, old, u.whole, validation.WithRatcheting(pair))
	}
	errs = append(errs, validateEmbedded(object, u.structural)...)
	if old == nil || len(listtype.ValidateListSetsAndMaps(nil, u.structural, old)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, u.structural, object)...)
	}
	return errs
}

// validateEmbedded is objectmeta.Validate, which takes a context first since v0.37.
func validateEmbedded(object map[string]any, s *structural.Structural) field.ErrorList {
	validate := reflect.ValueOf(objectmeta.Validate)
	arguments := []reflect.Value{
		reflect.Zero(reflect.TypeFor[*field.Path]()), reflect.ValueOf(object), reflect.ValueOf(s), reflect.ValueOf(false),
	}
	if validate.Type().NumIn() > len(arguments) {
		arguments = slices.Insert(arguments, 0, reflect.ValueOf(context.Background()))
	}
	return validate.Call(arguments)[0].Interface().(field.ErrorList)
}

// validateStatus is statusStrategy.ValidateUpdate.
func (u *upstream) validateStatus(object, old map[string]any) field.ErrorList {
	var errs field.ErrorList
	pair := common.NewCorrelatedObject(object, old, &model.Structural{Structural: u.structural})
	if status, ok := object["status"]; ok {
		errs = validation.ValidateCustomResourceUpdate(field.NewPath("status"), status, old["status"], u.status,
			validation.WithRatcheting(pair.Key("status")))
	}
	if now := listtype.ValidateListSetsAndMaps(nil, u.structural, object); len(now) > 0 &&
		len(listtype.ValidateListSetsAndMaps(nil, u.structural, old)) == 0 {
		errs = append(errs, now...)
	}
	return errs
}

// TestUpstream compares pruning, defaulting and validation with the packages of a real server, for random schemas and objects.
func TestUpstream(t *testing.T) {
	loaded, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		g := generator{t: t}
		schema := g.root()
		definition, err := crd.Load(definitionOf(t, schema))
		if err != nil {
			if !strings.Contains(err.Error(), "default") {
				t.Fatalf("%v\n%s", err, text(schema))
			}
			refused++
			return // a default that is not valid
		}
		loaded++
		d, real := definition[0], newUpstream(t, &schema)
		old, object := g.object(&schema), g.object(&schema)
		if rapid.Bool().Draw(t, "similar") {
			object = runtime.DeepCopyJSON(old)
			g.change(object, &schema)
		}
		for _, o := range []map[string]any{old, object} {
			want := runtime.DeepCopyJSON(o)
			real.receive(want)
			d.Prune(o)
			d.Default(o)
			if diff := cmp.Diff(want, o); diff != "" {
				t.Fatalf("(-real +ours):\n%s\n%s", diff, text(schema))
			}
		}
		same := func(what string, want, have field.ErrorList) {
			if diff := cmp.Diff(texts(want), texts(have)); diff != "" {
				t.Fatalf("%s (-real +ours):\n%s\nold %s\nnew %s\nschema %s", what, diff, text(old), text(object), text(schema))
			}
		}
		same("create", real.validate(object, nil), d.Validate(object, nil))
		if len(real.validate(old, nil)) == 0 { // what is stored is valid
			same("update", real.validate(object, old), d.Validate(object, old))
			same("status", real.validateStatus(object, old), d.ValidateStatus(object, old))
		}
		other := d.Versions()[1] // has the same schema, but what is stored may be invalid
		same("update of what is invalid", real.validate(object, old), other.Validate(object, old))
		same("status of what is invalid", real.validateStatus(object, old), other.ValidateStatus(object, old))
	})
	if loaded < refused {
		t.Errorf("%d definitions were loaded and %d refused: the test shows too little", loaded, refused)
	}
}

func texts(errs field.ErrorList) []string {
	all := []string{}
	for _, err := range errs {
		all = append(all, err.Error())
	}
	slices.Sort(all)
	return all
}

func text(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// definitionOf returns a definition with two versions of one schema.
func definitionOf(t *rapid.T, schema apiextensionsv1.JSONSchemaProps) []byte {
	version := func(name string, storage bool) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: storage,
			Schema:       &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &schema},
			Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
		}
	}
	var definition apiextensionsv1.CustomResourceDefinition
	definition.APIVersion, definition.Kind, definition.Name = "apiextensions.k8s.io/v1", "CustomResourceDefinition", "things.example.com"
	definition.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
		Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", true), version("v2", false)},
	}
	data, err := json.Marshal(&definition)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// generator makes schemas, and objects that nearly have them.
type generator struct {
	t       *rapid.T
	careful bool // values are valid, mostly
}

func (g generator) chance(percent int, what string) bool {
	return rapid.IntRange(1, 100).Draw(g.t, what) <= percent
}

func (g generator) root() apiextensionsv1.JSONSchemaProps {
	root := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"spec": g.structure(2), "status": g.structure(2),
	}}
	if g.chance(30, "known metadata") {
		root.Properties["apiVersion"], root.Properties["kind"] = leaf("string"), leaf("string")
		root.Properties["metadata"] = apiextensionsv1.JSONSchemaProps{Type: "object",
			Properties: map[string]apiextensionsv1.JSONSchemaProps{"name": {Type: "string", MaxLength: new(int64(4))}}}
	}
	if g.chance(20, "required") {
		root.Required = []string{"spec"}
	}
	return root
}

func leaf(kind string) apiextensionsv1.JSONSchemaProps {
	return apiextensionsv1.JSONSchemaProps{Type: kind}
}

var fieldNames = []string{"a", "b", "c"}

// structure returns the schema of an object with named fields.
func (g generator) structure(depth int) apiextensionsv1.JSONSchemaProps {
	s := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
	for _, name := range fieldNames {
		if g.chance(70, "field") {
			s.Properties[name] = g.any(depth)
			if g.chance(15, "required") {
				s.Required = append(s.Required, name)
			}
		}
	}
	if g.chance(15, "preserve") {
		s.XPreserveUnknownFields = new(true)
	}
	if g.chance(10, "few") {
		s.MaxProperties = new(int64(1))
	}
	return s
}

func (g generator) any(depth int) apiextensionsv1.JSONSchemaProps {
	choices := 5
	if depth > 0 {
		choices = 11
	}
	var s apiextensionsv1.JSONSchemaProps
	switch rapid.IntRange(0, choices-1).Draw(g.t, "schema") {
	case 0:
		s = leaf("string")
		s.Enum = []apiextensionsv1.JSON{{Raw: []byte(`"x"`)}, {Raw: []byte(`"y"`)}}
	case 1:
		s = leaf("string")
		s.MaxLength, s.Pattern = new(int64(2)), "^[a-y]*$"
	case 2:
		s = leaf("integer")
		s.Minimum, s.Maximum = new(float64(0)), new(float64(2))
	case 3:
		s = leaf("boolean")
	case 4:
		s = apiextensionsv1.JSONSchemaProps{XIntOrString: true}
		if g.chance(50, "either") {
			s.AnyOf = []apiextensionsv1.JSONSchemaProps{leaf("integer"), leaf("string")}
		}
	case 5, 6:
		s = g.structure(depth - 1)
	case 7:
		s = g.mapList(depth - 1)
	case 8:
		item := leaf("string")
		s = leaf("array")
		s.Items, s.XListType = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}, new("set")
	case 9:
		item := g.any(depth - 1)
		s = leaf("array")
		s.Items, s.MaxItems = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}, new(int64(2))
	case 10:
		item := g.any(depth - 1)
		s = leaf("object")
		s.AdditionalProperties = &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &item, Allows: true}
		if g.chance(30, "embedded") {
			s.AdditionalProperties = nil
			s.XEmbeddedResource, s.XPreserveUnknownFields = true, new(true)
		}
	}
	s.Nullable = g.chance(20, "nullable")
	if g.chance(25, "default") {
		s.Default = &apiextensionsv1.JSON{Raw: []byte(text(generator{g.t, true}.value(&s)))}
	}
	return s
}

// mapList returns the schema of a list whose items have keys.
func (g generator) mapList(depth int) apiextensionsv1.JSONSchemaProps {
	item := g.structure(depth)
	item.Properties["a"] = leaf("string")
	item.Required, item.MaxProperties = []string{"a"}, nil
	s := leaf("array")
	s.Items = &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item}
	s.XListType, s.XListMapKeys = new("map"), []string{"a"}
	if g.chance(30, "two keys") {
		item.Properties["b"] = leaf("integer")
		item.Required, s.XListMapKeys = []string{"a", "b"}, []string{"a", "b"}
	}
	return s
}

// object returns an object, which nearly is of a schema.
func (g generator) object(schema *apiextensionsv1.JSONSchemaProps) map[string]any {
	object := map[string]any{
		"apiVersion": "example.com/v1", "kind": "Thing",
		"metadata": map[string]any{"name": rapid.SampledFrom([]string{"x", "longer"}).Draw(g.t, "name")},
	}
	for _, name := range []string{"spec", "status", "more"} {
		if g.chance(80, "has "+name) {
			below := schema.Properties[name]
			object[name] = g.value(&below)
		}
	}
	return object
}

// change changes a little of an object.
func (g generator) change(object map[string]any, schema *apiextensionsv1.JSONSchemaProps) {
	name := rapid.SampledFrom([]string{"spec", "status"}).Draw(g.t, "changed")
	below := schema.Properties[name]
	fields, ok := object[name].(map[string]any)
	if !ok {
		object[name] = g.value(&below)
		return
	}
	name = rapid.SampledFrom(fieldNames).Draw(g.t, "changed field")
	below = below.Properties[name]
	if list, ok := fields[name].([]any); ok && len(list) > 0 && below.Items != nil {
		fields[name] = append(slices.Clone(list[1:]), list[0], g.value(below.Items.Schema))
		return
	}
	fields[name] = g.value(&below)
}

func (g generator) value(s *apiextensionsv1.JSONSchemaProps) any {
	switch roll := rapid.IntRange(1, 100).Draw(g.t, "value"); {
	case g.careful:
	case roll <= 6:
		return nil
	case roll <= 10:
		return g.scalar()
	}
	switch {
	case s.XEmbeddedResource:
		return map[string]any{
			"apiVersion": rapid.SampledFrom([]any{"v1", "", int64(1)}).Draw(g.t, "version"), "kind": "Pod",
			"metadata": map[string]any{"name": rapid.SampledFrom([]any{"p", "P", int64(1)}).Draw(g.t, "inner name"), "x": "y"},
		}
	case s.Type == "object":
		return g.fields(s)
	case s.Type == "array":
		list, most := []any{}, 3
		if g.careful {
			most = 1
		}
		for range rapid.IntRange(0, most).Draw(g.t, "items") {
			list = append(list, g.value(s.Items.Schema))
		}
		return list
	case g.careful && s.Type == "boolean":
		return true
	case g.careful && s.Type == "integer", g.careful && s.XIntOrString:
		return int64(1)
	case g.careful && s.Type == "string":
		return "x"
	case s.Type == "string":
		return rapid.SampledFrom([]any{"x", "y", "z", "xyz"}).Draw(g.t, "string")
	case s.Type == "integer":
		return int64(rapid.IntRange(-1, 3).Draw(g.t, "integer"))
	default:
		return g.scalar()
	}
}

func (g generator) fields(s *apiextensionsv1.JSONSchemaProps) any {
	fields := map[string]any{}
	for _, name := range append(slices.Sorted(maps.Keys(s.Properties)), "d") {
		below := s.Properties[name]
		if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
			below = *s.AdditionalProperties.Schema
		}
		if g.careful && name == "d" {
			continue
		}
		if g.chance(75, fmt.Sprintf("has %s", name)) || g.careful && slices.Contains(s.Required, name) {
			fields[name] = g.value(&below)
		}
	}
	return fields
}

func (g generator) scalar() any {
	return rapid.SampledFrom([]any{"x", int64(1), true, 1.5, map[string]any{"a": nil}, []any{"x"}}).Draw(g.t, "scalar")
}
