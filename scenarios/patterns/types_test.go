package patterns

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// TestCRD checks that the CRD and the Go types have the same fields, so that none is pruned that the operator writes.
func TestCRD(t *testing.T) {
	data, err := os.ReadFile("crds/app.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		t.Fatal(err)
	}
	if got, want := crd.Spec.Group+"/"+crd.Spec.Versions[0].Name, GroupVersion.String(); got != want {
		t.Errorf("the CRD is of %s, the types of %s", got, want)
	}
	schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
	for name, typ := range map[string]reflect.Type{"spec": reflect.TypeFor[AppSpec](), "status": reflect.TypeFor[AppStatus]()} {
		got, want := map[string]string{}, map[string]string{}
		schemaFields(schema.Properties[name], name, got)
		typeFields(typ, name, want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("fields of %s (-types +CRD):\n%s", name, diff)
		}
	}
}

func schemaFields(s apiextensionsv1.JSONSchemaProps, path string, fields map[string]string) {
	fields[path] = s.Type
	for name, property := range s.Properties {
		schemaFields(property, path+"."+name, fields)
	}
	if s.Items != nil {
		schemaFields(*s.Items.Schema, path+"[]", fields)
	}
}

func typeFields(t reflect.Type, path string, fields map[string]string) {
	switch {
	case t == reflect.TypeFor[metav1.Time]():
		fields[path] = "string"
	case t.Kind() == reflect.Struct:
		fields[path] = "object"
		for field := range t.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			typeFields(field.Type, path+"."+name, fields)
		}
	case t.Kind() == reflect.Slice:
		fields[path] = "array"
		typeFields(t.Elem(), path+"[]", fields)
	case t.Kind() == reflect.Int32, t.Kind() == reflect.Int64:
		fields[path] = "integer"
	default:
		fields[path] = t.Kind().String()
	}
}

func TestDeepCopy(t *testing.T) {
	original := &App{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"a": "b"}},
		Status:     AppStatus{Phase: PhaseReady, Conditions: []metav1.Condition{{Type: "Ready"}}},
	}
	list := &AppList{Items: []App{*original}}
	before := fmt.Sprintf("%+v", list)
	for _, c := range []*App{original.DeepCopyObject().(*App), &list.DeepCopyObject().(*AppList).Items[0]} {
		if diff := cmp.Diff(original, c); diff != "" {
			t.Errorf("a copy differs (-original +copy):\n%s", diff)
		}
		c.Labels["a"] = "changed"
		c.Status.Conditions[0].Type = "changed"
	}
	if after := fmt.Sprintf("%+v", list); after != before {
		t.Errorf("changing a copy changed the original:\n%s\n%s", before, after)
	}
}
