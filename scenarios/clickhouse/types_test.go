package clickhouse

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// TestCRD checks that the CRD and the Go types have the same fields, and that the schema prunes none that the types know.
func TestCRD(t *testing.T) {
	data, err := os.ReadFile("crds/clickhouseinstallation.yaml")
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
	for name, typ := range map[string]reflect.Type{"spec": reflect.TypeFor[Spec](), "status": reflect.TypeFor[Status]()} {
		want, got := map[string]string{}, map[string]string{}
		schemaFields(schema.Properties[name], name, got)
		typeFields(typ, name, want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("fields of %s (-types +CRD):\n%s", name, diff)
		}
	}
}

func schemaFields(s apiextensionsv1.JSONSchemaProps, path string, fields map[string]string) {
	fields[path] = s.Type
	if s.XPreserveUnknownFields != nil && *s.XPreserveUnknownFields {
		fields[path] = "free-form"
	}
	for name, property := range s.Properties {
		schemaFields(property, path+"."+name, fields)
	}
	if s.Items != nil {
		schemaFields(*s.Items.Schema, path+"[]", fields)
	}
}

func typeFields(t reflect.Type, path string, fields map[string]string) {
	switch t.Kind() {
	case reflect.Struct:
		fields[path] = "object"
		if strings.HasPrefix(t.PkgPath(), "k8s.io/") {
			fields[path] = "free-form"
			return
		}
		for field := range t.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			typeFields(field.Type, path+"."+name, fields)
		}
	case reflect.Slice:
		fields[path] = "array"
		typeFields(t.Elem(), path+"[]", fields)
	case reflect.Int:
		fields[path] = "integer"
	default:
		fields[path] = t.Kind().String()
	}
}

func TestDeepCopy(t *testing.T) {
	original := testCHI()
	original.Labels = map[string]string{"a": "b"}
	original.Spec.Templates.PodTemplates = []PodTemplate{{Name: "p", Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "clickhouse"}},
	}}}
	original.Status.Errors = []string{"one"}
	list := &ClickHouseInstallationList{Items: []ClickHouseInstallation{*original}}
	before := fmt.Sprintf("%+v", list)

	for _, c := range []*ClickHouseInstallation{
		original.DeepCopyObject().(*ClickHouseInstallation),
		&list.DeepCopyObject().(*ClickHouseInstallationList).Items[0],
	} {
		if diff := cmp.Diff(original, c); diff != "" {
			t.Errorf("a copy differs (-original +copy):\n%s", diff)
		}
		c.Labels["a"] = "changed"
		c.Spec.Configuration.Clusters[0].Layout.ShardsCount = 5
		c.Spec.Templates.PodTemplates[0].Spec.Containers[0].Name = "changed"
		requests := c.Spec.Templates.VolumeClaimTemplates[0].Spec.Resources.Requests
		requests[corev1.ResourceStorage] = resource.MustParse("9Gi")
		c.Status.Errors[0] = "changed"
	}
	if after := fmt.Sprintf("%+v", list); after != before {
		t.Errorf("changing a copy changed the original:\n%s\n%s", before, after)
	}
}

func TestStringBool(t *testing.T) {
	for text, want := range map[StringBool]bool{
		"": false, "no": false, "off": false, "0": false, "yes": true, "YES": true, "true": true, "1": true, "Enabled": true,
	} {
		if got := text.IsTrue(); got != want {
			t.Errorf("%q is true: %t, want %t", text, got, want)
		}
	}
}

// TestDesired checks what hosts are made of.
func TestDesired(t *testing.T) {
	chi := testCHI()
	chi.Spec.Configuration.Clusters[0].Layout = Layout{ShardsCount: 2, ReplicasCount: 2}
	chi.Spec.Templates.VolumeClaimTemplates = append(chi.Spec.Templates.VolumeClaimTemplates, VolumeClaimTemplate{Name: "unused"})
	var names, versions []string
	for _, h := range hosts(chi) {
		set := h.statefulSet()
		names = append(names, set.Name)
		versions = append(versions, set.Labels[labelObjectVersion])
		if claims := set.Spec.VolumeClaimTemplates; len(claims) != 1 || claims[0].Name != "data" {
			t.Errorf("%s has the claim templates %v, want only the mounted one", set.Name, claims)
		}
		if set.ResourceVersion != "" {
			t.Errorf("%s has a resourceVersion", set.Name)
		}
		if again := h.statefulSet(); !cmp.Equal(set, again) {
			t.Errorf("%s is rendered differently the second time", set.Name)
		}
	}
	if want := []string{"chi-a-0-0", "chi-a-0-1", "chi-a-1-0", "chi-a-1-1"}; !slices.Equal(names, want) {
		t.Errorf("sets %v, want %v", names, want)
	}
	slices.Sort(versions)
	if distinct := slices.Compact(versions); len(distinct) != 4 {
		t.Errorf("4 hosts have %d object versions", len(distinct))
	}
	chi.Spec.Stop = "yes"
	if set := hosts(chi)[0].statefulSet(); *set.Spec.Replicas != 0 || slices.Contains(versions, set.Labels[labelObjectVersion]) {
		t.Errorf("a stopped host has %d replicas and version %s", *set.Spec.Replicas, set.Labels[labelObjectVersion])
	}
}
