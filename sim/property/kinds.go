package property

import (
	"reflect"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// Kinds knows the kinds that variables may bind.
type Kinds interface {
	// Lookup returns the kind that scenarios call by name: "StatefulSet", group-qualified ("Widget.example.com") only
	// where two groups share the name.
	Lookup(name string) (Kind, bool)
}

// Kind says what is known of a kind's objects. Rules are checked against Type if it is set, else against Schema; with
// neither, everything in an object is dyn and nothing is checked.
type Kind struct {
	schema.GroupVersionKind
	// Type is the Go struct of the objects. They may be stored as pointers to it, or unstructured.
	Type reflect.Type
	// Schema is the OpenAPI schema of a custom resource's version. It need not describe apiVersion, kind and metadata.
	Schema *spec.Schema
}

// KindsOf shows the kinds table of an API server to [Compile].
func KindsOf(kinds *apiserver.Kinds) Kinds { return kindsTable{kinds} }

type kindsTable struct{ kinds *apiserver.Kinds }

// Lookup implements [Kinds].
func (t kindsTable) Lookup(name string) (Kind, bool) {
	row := t.kinds.ByName(name)
	if row == nil {
		return Kind{}, false
	}
	return Kind{GroupVersionKind: row.GroupVersionKind, Type: row.Type, Schema: row.Schema}, true
}

// Reader reads the current state of the simulated API server. Objects are immutable.
type Reader interface {
	// Get returns an object of a kind, or nil if it does not exist.
	Get(kind, namespace, name string) apiserver.Object
	// List returns the objects of a namespace (empty for all) that the selector chooses, in the order of namespace and
	// name.
	List(kind, namespace string, selector labels.Selector) []apiserver.Object
}
