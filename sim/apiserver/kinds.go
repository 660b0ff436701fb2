package apiserver

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/stalemate-dev/stalemate/sim/apiserver/builtin"
)

// Kinds is a kinds table: the built-ins of one Kubernetes version, and the custom resources of a scenario. It is filled
// before servers use it, and only read from then on.
type Kinds struct {
	version Version
	rows    []*Kind
	byGVK   map[schema.GroupVersionKind]*Kind
	byName  map[string]*Kind       // by kind and by qualified name
	byType  map[reflect.Type]*Kind // the built-ins

	established []*apiextensionsv1.CustomResourceDefinition // those of the custom resources, as every server has them
}

// NewKinds returns a table of the built-ins as the given version of Kubernetes treats them. It is cheap: the rows of the
// built-ins, which never change, are those of every other table of the version.
func NewKinds(version Version) *Kinds {
	shared, ok := builtinTables.Load(version)
	if !ok {
		shared, _ = builtinTables.LoadOrStore(version, newKinds(version))
	}
	built := shared.(*Kinds)
	return &Kinds{
		version: version, rows: slices.Clip(built.rows),
		byGVK: maps.Clone(built.byGVK), byName: maps.Clone(built.byName), byType: built.byType,
	}
}

// builtinTables has the tables that all others begin with, by version.
var builtinTables sync.Map

func newKinds(version Version) *Kinds {
	kinds := &Kinds{
		version: version, byGVK: map[schema.GroupVersionKind]*Kind{}, byName: map[string]*Kind{}, byType: map[reflect.Type]*Kind{},
	}
	for _, row := range builtins(version) {
		kinds.add(row)
	}
	return kinds
}

// add appends a row and fills in what follows from it.
func (k *Kinds) add(row *Kind) *Kind {
	row.order = len(k.rows)
	qualified := row.String()
	versioned := row.Kind + "." + row.Version + "." + row.Group
	switch {
	case k.byName[row.Kind] == nil:
		row.name = row.Kind
	case k.byName[qualified] == nil:
		row.name = qualified
	default:
		row.name = versioned // another version of the same kind
	}
	for _, name := range []string{row.Kind, qualified, versioned} {
		if k.byName[name] == nil {
			k.byName[name] = row
		}
	}
	row.spec, row.status = -1, -1
	if row.Type != nil {
		shape := shapeOf(row.Type)
		row.spec, row.status, row.tidy, row.storedForm = shape.spec, shape.status, shape.tidy, shape.storedForm
		k.byType[row.Type] = row
	}
	if row.Singular == "" {
		row.Singular = strings.ToLower(row.Kind)
	}
	if row.DefaultPropagation == "" {
		row.DefaultPropagation = metav1.DeletePropagationBackground
	}
	if row.storagePath == "" {
		row.storagePath = row.Resource
		if row.Custom() {
			row.storagePath = row.Group + "/" + row.Resource
		}
	}
	row.fields = &fieldRules{kind: row}
	if row.Alias != nil {
		behind := row.Alias.Of.fields
		behind.aliases = append(behind.aliases, row)
	}
	k.rows = append(k.rows, row)
	k.byGVK[row.GroupVersionKind] = row
	return row
}

// shape is what there is to know about a Go type. It does not change, and takes a while to find out.
type shape struct {
	spec, status int
	tidy         []tidyStep
	storedForm   []tidyStep
}

var shapes sync.Map // of reflect.Type to shape

func shapeOf(t reflect.Type) shape {
	if known, ok := shapes.Load(t); ok {
		return known.(shape)
	}
	found := shape{
		spec: fieldIndex(t, "Spec"), status: fieldIndex(t, "Status"), tidy: tidySteps(t, received), storedForm: tidySteps(t, storing),
	}
	shapes.Store(t, found)
	return found
}

func fieldIndex(t reflect.Type, name string) int {
	if f, ok := t.FieldByName(name); ok && len(f.Index) == 1 {
		return f.Index[0]
	}
	return -1
}

// Version returns the version of Kubernetes the table models.
func (k *Kinds) Version() Version { return k.version }

// All returns every kind: the built-ins in a fixed order, then the others in the order they were added.
func (k *Kinds) All() []*Kind { return k.rows }

// ByName returns the kind of that name, or nil. Where two groups share a name the first one added wins; the other is
// found by its qualified name, "Widget.example.com", and another version of a kind by "Widget.v1.example.com".
func (k *Kinds) ByName(name string) *Kind {
	return k.byName[name]
}

// ByGVK returns the kind with that group, version and kind, or nil.
func (k *Kinds) ByGVK(gvk schema.GroupVersionKind) *Kind { return k.byGVK[gvk] }

// ByGVR returns the kind with that group, version and plural, or nil.
func (k *Kinds) ByGVR(gvr schema.GroupVersionResource) *Kind {
	for _, row := range k.rows {
		if row.Resource == gvr.Resource && row.Group == gvr.Group && row.Version == gvr.Version {
			return row
		}
	}
	return nil
}

// rawContent returns the tree of a custom resource, nil for none.
func rawContent(obj Object) map[string]any {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u.Object
	}
	return nil
}

// Of returns the kind of an object: the one its apiVersion and kind name, or else the built-in of its Go type; nil if the
// table has neither.
func (k *Kinds) Of(obj Object) *Kind {
	if gvk := obj.GetObjectKind().GroupVersionKind(); !gvk.Empty() {
		return k.byGVK[gvk]
	}
	return k.byType[reflect.TypeOf(obj).Elem()]
}

func (k *Kinds) addNew(row *Kind) (*Kind, error) {
	if k.byGVK[row.GroupVersionKind] != nil {
		return nil, fmt.Errorf("kind %s is in the kinds table already: define it once", row.GroupVersionKind)
	}
	return k.add(row), nil
}

// customRow is what all custom resources have in common; staging/src/k8s.io/apiextensions-apiserver/pkg/registry/
// customresource/strategy.go, v1.36.
func customRow(gvk schema.GroupVersionKind, plural string, namespaced, hasStatus bool) *Kind {
	return &Kind{
		GroupVersionKind: gvk,
		Resource:         plural,
		Namespaced:       namespaced,
		HasStatus:        hasStatus,
		StatusKeeps:      ResetAllButStatus,
		Generation:       GenerationCustom,
		ValidName:        apivalidation.NameIsDNSSubdomain,
		checks:           [2]builtin.Checks{builtin.CustomChecks, builtin.CustomChecks},
	}
}
