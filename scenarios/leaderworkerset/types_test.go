package leaderworkerset

import (
	"maps"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// TestCRD checks that the CRD and the Go types have the same fields.
func TestCRD(t *testing.T) {
	data, err := os.ReadFile("crds/leaderworkerset.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(data, crd); err != nil {
		t.Fatal(err)
	}
	version := crd.Spec.Versions[0]
	if got, want := crd.Spec.Group+"/"+version.Name, GroupVersion.String(); got != want {
		t.Errorf("the CRD is of %s, the types of %s", got, want)
	}
	for name, typ := range map[string]reflect.Type{"spec": reflect.TypeFor[Spec](), "status": reflect.TypeFor[Status]()} {
		want, got := map[string]bool{}, map[string]bool{}
		schemaFields(version.Schema.OpenAPIV3Schema.Properties[name], name, got)
		typeFields(typ, name, want)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("fields of %s (-types +CRD):\n%s", name, diff)
		}
	}
}

func schemaFields(s apiextensionsv1.JSONSchemaProps, path string, fields map[string]bool) {
	fields[path] = true
	for name, property := range s.Properties {
		schemaFields(property, path+"."+name, fields)
	}
	if s.Items != nil {
		schemaFields(*s.Items.Schema, path+"[]", fields)
	}
}

// typeFields lists the fields of our own types, and of conditions; pod templates are free-form in the CRD.
func typeFields(t reflect.Type, path string, fields map[string]bool) {
	fields[path] = true
	switch {
	case t.Kind() == reflect.Pointer:
		typeFields(t.Elem(), path, fields)
	case t.Kind() == reflect.Slice:
		typeFields(t.Elem(), path+"[]", fields)
	case t.Kind() == reflect.Struct && (t == reflect.TypeFor[metav1.Condition]() || t.PkgPath() == reflect.TypeFor[Spec]().PkgPath()):
		for field := range t.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			typeFields(field.Type, path+"."+name, fields)
		}
	}
}

func TestDeepCopy(t *testing.T) {
	original := readLWS(t, "objects/lws.yaml")
	original.Labels = map[string]string{"a": "b"}
	original.Spec.LeaderWorkerTemplate.LeaderTemplate = &corev1.PodTemplateSpec{}
	original.Status.Conditions = []metav1.Condition{{Type: "a"}}
	list := &LeaderWorkerSetList{Items: []LeaderWorkerSet{*original}}
	before, err := yaml.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*LeaderWorkerSet{
		original.DeepCopyObject().(*LeaderWorkerSet),
		&list.DeepCopyObject().(*LeaderWorkerSetList).Items[0],
	} {
		if diff := cmp.Diff(original, c); diff != "" {
			t.Errorf("a copy differs (-original +copy):\n%s", diff)
		}
		c.Labels["a"] = "changed"
		*c.Spec.Replicas = 7
		*c.Spec.LeaderWorkerTemplate.Size = 7
		c.Spec.LeaderWorkerTemplate.LeaderTemplate.Name = "changed"
		c.Spec.LeaderWorkerTemplate.WorkerTemplate.Spec.Containers[0].Image = "changed"
		*c.Spec.RolloutStrategy.RollingUpdateConfiguration.Partition = 7
		c.Spec.RolloutStrategy.RollingUpdateConfiguration.MaxSurge.IntVal = 7
		*c.Spec.NetworkConfig.SubdomainPolicy = "changed"
		c.Status.Conditions[0].Type = "changed"
	}
	after, err := yaml.Marshal(list)
	if err != nil || string(after) != string(before) {
		t.Errorf("changing a copy changed the original: %v\n%s\n%s", err, before, after)
	}
}

// TestPodDefaults checks which pods get the index of their group.
func TestPodDefaults(t *testing.T) {
	leader := map[string]string{labelName: "web", labelWorkerIndex: "0"}
	tests := []struct {
		name   string
		labels map[string]string
		want   string
		err    bool
	}{
		{"web-0", leader, "0", false},
		{"web-12", leader, "12", false},
		{"web", leader, "", true},
		{"web-", leader, "", true},
		{"web-0", map[string]string{labelName: "web", labelWorkerIndex: "1"}, "", false},
		{"web-0", map[string]string{"app": "web"}, "", false},
		{"web-0", map[string]string{labelName: "web", labelWorkerIndex: "0", labelGroupIndex: "3"}, "3", false},
	}
	for _, test := range tests {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: test.name, Labels: map[string]string{}}}
		maps.Copy(pod.Labels, test.labels)
		err := podDefaults{}.Default(t.Context(), pod)
		if got := pod.Labels[labelGroupIndex]; got != test.want || (err != nil) != test.err {
			t.Errorf("%s %v: group index %q, %v; want %q, error %t", test.name, test.labels, got, err, test.want, test.err)
		}
	}
}
