package apiserver

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

// A kind without a CustomResourceDefinition follows the rules of custom resources as far as they need no schema. Using it is a
// fidelity gap, which the verdict names.

// AddType adds a custom resource of which only a Go type is known, so that there is no schema: nothing is pruned,
// defaulted or validated. Its first use is a fidelity gap.
func (k *Kinds) AddType(gvk schema.GroupVersionKind, plural string, namespaced, hasStatus bool) (*Kind, error) {
	row := customRow(gvk, plural, namespaced, hasStatus)
	row.gaps = []string{fmt.Sprintf("%s has no CustomResourceDefinition: nothing of it is pruned, defaulted or validated", row)}
	return k.addNew(row)
}

// AddUnknown adds a kind of which nothing but its name is known, with the rules of a namespaced custom resource that has a
// status subresource. Its first use is a fidelity gap.
func (k *Kinds) AddUnknown(gvk schema.GroupVersionKind) (*Kind, error) {
	return k.addNew(unknownRow(gvk, true))
}

func unknownRow(gvk schema.GroupVersionKind, hasStatus bool) *Kind {
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	row := customRow(gvk, plural.Resource, true, hasStatus)
	status := "a status subresource"
	if !hasStatus {
		status = "no status subresource"
	}
	row.gaps = []string{fmt.Sprintf("%s is not a known kind: it is treated as a namespaced custom resource with %s and no schema, "+
		"under the resource %s: give its CustomResourceDefinition", row, status, row.Resource)}
	return row
}

// WithTypes returns a table that also has the kinds of which a scheme has Go types: those that the table does not have, and that
// are neither Kubernetes' own nor other versions of what it has. They follow the rules of custom resources as [Kinds.AddUnknown]
// says, but that one has a status subresource if its Go type has a field Status. The versions of a kind are converted as with the
// conversion strategy None. The table itself is not changed, and returned if there is nothing to add.
func (k *Kinds) WithTypes(scheme *runtime.Scheme) *Kinds {
	unknown := k.unknownTypes(scheme)
	if len(unknown) == 0 {
		return k
	}
	more := *k
	more.rows = slices.Clone(k.rows)
	more.byGVK, more.byName = maps.Clone(k.byGVK), maps.Clone(k.byName)
	var home *Kind
	for _, t := range unknown {
		row := unknownRow(t.GroupVersionKind, t.status)
		if home != nil && home.GroupKind() == t.GroupKind() {
			row.Alias = &Alias{Of: home, To: renaming(home), From: renaming(row)}
		} else {
			home = row
		}
		more.add(row)
	}
	return &more
}

// renaming returns what shows an object in another version of its kind, of which no schema is known.
func renaming(to *Kind) func(Object) (Object, error) {
	return func(obj Object) (Object, error) {
		converted := &unstructured.Unstructured{Object: runtime.DeepCopyJSON(rawContent(obj))}
		converted.SetGroupVersionKind(to.GroupVersionKind)
		return converted, nil
	}
}

// unknownType is a kind of a scheme.
type unknownType struct {
	schema.GroupVersionKind
	status bool
}

// unknownTypes returns the kinds of a scheme that a table does not have, in the order of their groups and names, and the preferred
// version of each first.
func (k *Kinds) unknownTypes(scheme *runtime.Scheme) []unknownType {
	known := map[schema.GroupKind]bool{}
	builtin := map[string]bool{"apiregistration.k8s.io": true}
	for _, row := range k.rows {
		known[row.GroupKind()] = true
		if !row.Custom() {
			builtin[row.Group] = true
		}
	}
	for _, gv := range clientscheme.Scheme.PrioritizedVersionsAllGroups() {
		builtin[gv.Group] = true
	}
	object := reflect.TypeFor[Object]()
	var unknown []unknownType
	for gvk, t := range scheme.AllKnownTypes() {
		if builtin[gvk.Group] || known[gvk.GroupKind()] || !strings.Contains(gvk.Group, ".") || gvk.Group == "meta.k8s.io" ||
			gvk.Version == runtime.APIVersionInternal || !reflect.PointerTo(t).Implements(object) {
			continue
		}
		_, status := t.FieldByName("Status")
		unknown = append(unknown, unknownType{gvk, status})
	}
	slices.SortFunc(unknown, func(a, b unknownType) int {
		return cmp.Or(strings.Compare(a.Group, b.Group), strings.Compare(a.Kind, b.Kind),
			version.CompareKubeAwareVersionStrings(b.Version, a.Version), strings.Compare(a.Version, b.Version))
	})
	return unknown
}
