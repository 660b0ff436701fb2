package property_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/property"
)

// kindTable is a [property.Kinds] for tests.
type kindTable map[string]property.Kind

func (t kindTable) Lookup(name string) (property.Kind, bool) {
	kind, ok := t[name]
	return kind, ok
}

func builtin[T any](group, version string) property.Kind {
	t := reflect.TypeFor[T]()
	return property.Kind{GroupVersionKind: schema.GroupVersionKind{Group: group, Version: version, Kind: t.Name()}, Type: t}
}

func custom(group, version, kind string, s *spec.Schema) property.Kind {
	return property.Kind{GroupVersionKind: schema.GroupVersionKind{Group: group, Version: version, Kind: kind}, Schema: s}
}

// loadSchema reads an OpenAPI schema from testdata/schemas.
func loadSchema(tb testing.TB, kind string) *spec.Schema {
	tb.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "schemas", kind+".json"))
	if err != nil {
		tb.Fatal(err)
	}
	var s spec.Schema
	if err := json.Unmarshal(raw, &s); err != nil {
		tb.Fatal(err)
	}
	return &s
}

func testKinds(tb testing.TB) kindTable {
	return kindTable{
		"StatefulSet":            builtin[appsv1.StatefulSet]("apps", "v1"),
		"Deployment":             builtin[appsv1.Deployment]("apps", "v1"),
		"ControllerRevision":     builtin[appsv1.ControllerRevision]("apps", "v1"),
		"Pod":                    builtin[corev1.Pod]("", "v1"),
		"Secret":                 builtin[corev1.Secret]("", "v1"),
		"Service":                builtin[corev1.Service]("", "v1"),
		"ClickHouseInstallation": custom("example.com", "v1", "ClickHouseInstallation", loadSchema(tb, "ClickHouseInstallation")),
		"LeaderWorkerSet":        custom("example.com", "v1", "LeaderWorkerSet", loadSchema(tb, "LeaderWorkerSet")),
		"WebApp":                 custom("example.com", "v1", "WebApp", loadSchema(tb, "WebApp")),
		"Anything":               custom("example.com", "v1", "Anything", nil),
	}
}

// cluster is a [property.Reader] for tests, with a namespace of "default" where an object has none.
type cluster struct {
	kinds   map[string][]apiserver.Object
	queries int
}

func newCluster() *cluster { return &cluster{kinds: map[string][]apiserver.Object{}} }

func (c *cluster) Get(kind, _, name string) apiserver.Object {
	c.queries++
	for _, obj := range c.kinds[kind] {
		if obj.GetName() == name {
			return obj
		}
	}
	return nil
}

func (c *cluster) List(kind, namespace string, selector labels.Selector) []apiserver.Object {
	c.queries++
	var items []apiserver.Object
	for _, obj := range c.kinds[kind] {
		if (namespace == "" || obj.GetNamespace() == namespace) && selector.Matches(labels.Set(obj.GetLabels())) {
			items = append(items, obj)
		}
	}
	return items
}

// put stores an object in place of the one of its name.
func (c *cluster) put(kind string, obj apiserver.Object) {
	c.remove(kind, obj.GetName())
	c.kinds[kind] = append(c.kinds[kind], obj)
	slices.SortFunc(c.kinds[kind], func(a, b apiserver.Object) int { return strings.Compare(a.GetName(), b.GetName()) })
}

func (c *cluster) remove(kind, name string) {
	c.kinds[kind] = slices.DeleteFunc(slices.Clone(c.kinds[kind]), func(o apiserver.Object) bool { return o.GetName() == name })
}

// asUnstructured returns an object as JSON has it.
func asUnstructured(tb testing.TB, obj runtime.Object) *unstructured.Unstructured {
	tb.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		tb.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}

// fromJSON makes an unstructured object.
func fromJSON(tb testing.TB, text string) *unstructured.Unstructured {
	tb.Helper()
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON([]byte(text)); err != nil {
		tb.Fatal(err)
	}
	return u
}

// compile compiles what must have no error.
func compile(tb testing.TB, variables []property.Variable, definitions ...property.Definition) *property.Set {
	tb.Helper()
	set, errs := property.Compile(testKinds(tb), variables, definitions)
	if len(errs) > 0 {
		tb.Fatalf("Compile: %v", errs)
	}
	return set
}
