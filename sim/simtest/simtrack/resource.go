package simtrack

import (
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/stalemate-dev/stalemate/sim/apiserver/crd"
)

// Resource checks the Go types of a custom resource, which are written by hand, with the type of its lists: that the definition in a
// file has their fields, and no others, so that nothing is pruned that the operator writes; and that copies share nothing with what
// they were made of.
func Resource(t *testing.T, file string, version schema.GroupVersion, object, list runtime.Object) {
	t.Helper()
	defined, declared := map[string]string{}, map[string]string{}
	root := definition(t, file, version)
	for field := range reflect.TypeOf(object).Elem().Fields() {
		if name := jsonName(field); name == "spec" || name == "status" {
			fields(root.Properties[name], field.Type, name, defined, declared)
		}
	}
	if diff := cmp.Diff(declared, defined); diff != "" {
		t.Errorf("%s has other fields than %T (-type +definition):\n%s", file, object, diff)
	}
	for _, original := range []runtime.Object{object, list} {
		original = reflect.New(reflect.TypeOf(original).Elem()).Interface().(runtime.Object)
		fill(reflect.ValueOf(original))
		duplicate := original.DeepCopyObject()
		if diff := cmp.Diff(original, duplicate); diff != "" {
			t.Errorf("a copy differs (-original +copy):\n%s", diff)
		}
		shared(t, reflect.ValueOf(original), reflect.ValueOf(duplicate), reflect.TypeOf(original).String())
	}
}

// definition returns the schema of a version of the custom resource that a file defines.
func definition(t *testing.T, file string, version schema.GroupVersion) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	definitions, err := crd.Load(text)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	for _, d := range definitions {
		resource := d.Resource()
		for i := range resource.Spec.Versions {
			if v := &resource.Spec.Versions[i]; resource.Spec.Group == version.Group && v.Name == version.Version {
				return *v.Schema.OpenAPIV3Schema
			}
		}
	}
	t.Fatalf("%s does not define a resource of %s", file, version)
	return apiextensionsv1.JSONSchemaProps{}
}

// fields lists what stands below a path, by the paths of fields: what the definition takes for it, and what the type writes. What the
// definition leaves open is not looked into.
func fields(s apiextensionsv1.JSONSchemaProps, t reflect.Type, path string, defined, declared map[string]string) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields {
		return
	}
	if defined[path] = s.Type; s.XIntOrString {
		defined[path] = "int or string"
	}
	declared[path] = jsonType(t)
	switch declared[path] {
	case "array":
		if s.Items != nil && s.Items.Schema != nil {
			fields(*s.Items.Schema, t.Elem(), path+"[]", defined, declared)
		}
	case "object":
		if t.Kind() != reflect.Struct {
			return
		}
		known := map[string]bool{}
		for field := range t.Fields() {
			name := jsonName(field)
			known[name] = true
			if property, ok := s.Properties[name]; ok {
				fields(property, field.Type, path+"."+name, defined, declared)
			} else {
				declared[path+"."+name] = jsonType(field.Type)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
			if !known[name] {
				defined[path+"."+name] = s.Properties[name].Type
			}
		}
	}
}

func jsonName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

// jsonType returns the type of JSON values that a Go type is written as.
func jsonType(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == reflect.TypeFor[intstr.IntOrString]():
		return "int or string"
	case t.Implements(reflect.TypeFor[json.Marshaler]()), t.Kind() == reflect.String:
		return "string"
	case t.Kind() == reflect.Struct, t.Kind() == reflect.Map:
		return "object"
	case t.Kind() == reflect.Slice:
		return "array"
	case t.Kind() == reflect.Bool:
		return "boolean"
	case reflect.Zero(t).CanInt():
		return "integer"
	default:
		return t.Kind().String()
	}
}

// fill sets everything that can be reached from a value: of lists and maps one item.
func fill(v reflect.Value) {
	switch {
	case v.Kind() == reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		fill(v.Elem())
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case v.Kind() == reflect.Map:
		key, item := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key)
		fill(item)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, item)
	case v.Kind() == reflect.Struct:
		for field, value := range v.Fields() {
			if field.IsExported() {
				fill(value)
			}
		}
	case v.Kind() == reflect.String:
		v.SetString("x")
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	case v.CanInt():
		v.SetInt(1)
	case v.CanUint():
		v.SetUint(1)
	}
}

// shared reports the parts of two equal values that are one and the same.
func shared(t *testing.T, a, b reflect.Value, path string) {
	t.Helper()
	switch a.Kind() {
	case reflect.Pointer, reflect.Map, reflect.Slice:
		if a.Pointer() == b.Pointer() {
			if a.Pointer() != 0 {
				t.Errorf("%s is one and the same in an object and its copy", path)
			}
			return
		}
	}
	switch a.Kind() {
	case reflect.Pointer:
		shared(t, a.Elem(), b.Elem(), path)
	case reflect.Slice:
		for i := range min(a.Len(), b.Len()) {
			shared(t, a.Index(i), b.Index(i), path+"[]")
		}
	case reflect.Map:
		for _, key := range a.MapKeys() {
			if other := b.MapIndex(key); other.IsValid() {
				shared(t, a.MapIndex(key), other, path+"{}")
			}
		}
	case reflect.Struct:
		for field, value := range a.Fields() {
			if field.IsExported() {
				shared(t, value, b.FieldByIndex(field.Index), path+"."+field.Name)
			}
		}
	}
}
