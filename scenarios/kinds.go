package scenarios

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/apiserver/crd"
	_ "github.com/stalemate-dev/stalemate/sim/apiserver/crd/cel" // a scenario means the same whoever plays it
)

// loadKinds makes the kinds table: the built-ins of the Kubernetes version, and the custom resources of the definitions. It
// returns nil if a definition is wrong: then names of kinds mean nothing.
func (l *loader) loadKinds() *apiserver.Kinds {
	version := apiserver.Version(cmp.Or(l.manifest.Spec.KubernetesVersion, string(versions[0])))
	kinds := apiserver.NewKinds(version)
	before := len(l.diagnostics)
	for i, reference := range l.manifest.Spec.CRDs {
		for _, source := range l.readReferences(reference, indexed("crds", i)) {
			for _, o := range source.objects() {
				l.add(l.addCRD(kinds, o)...)
			}
		}
	}
	if len(l.diagnostics) > before {
		return nil
	}
	l.addUnknown(kinds)
	return kinds
}

// addUnknown adds the kinds of the objects at the start and of the script that nothing is known of. What is wrong with the files
// is said when the objects are read.
func (l *loader) addUnknown(kinds *apiserver.Kinds) {
	said := len(l.diagnostics)
	references := slices.Clone(l.manifest.Spec.Given)
	for _, step := range l.manifest.Spec.Script {
		if step.Create != nil {
			references = append(references, *step.Create)
		}
	}
	for _, reference := range references {
		for _, source := range l.readReferences(reference, "") {
			for _, o := range source.objects() {
				fields, _ := o.value.(map[string]any)
				version, _ := fields["apiVersion"].(string)
				kind, _ := fields["kind"].(string)
				if gvk := schema.FromAPIVersionAndKind(version, kind); isForeign(kinds, gvk) {
					_, _ = kinds.AddUnknown(gvk) // it fails only for a kind that the table has
				}
			}
		}
	}
	l.diagnostics = l.diagnostics[:said]
}

// isForeign reports whether a kind may be one of a custom resource whose definition is not given. What looks like a slip is none:
// a name that is known or nearly so, and a group that is one of Kubernetes' own, or nearly one that is known.
func isForeign(kinds *apiserver.Kinds, gvk schema.GroupVersionKind) bool {
	var names, groups []string
	for _, row := range kinds.All() {
		names = append(names, row.Kind)
		if !row.Custom() || row.Group != gvk.Group {
			groups = append(groups, row.Group)
		}
	}
	return gvk.Version != "" && gvk.Kind != "" && strings.Contains(gvk.Group, ".") && !strings.Contains(gvk.Version, "/") &&
		len(near(gvk.Kind, names)) == 0 && len(near(gvk.Group, groups)) == 0 && !isBuiltin(gvk.Kind, gvk.Group)
}

// addCRD adds a custom resource to the kinds table.
func (l *loader) addCRD(kinds *apiserver.Kinds, o fileObject) []Diagnostic {
	fields, _ := o.value.(map[string]any)
	if fields["kind"] != "CustomResourceDefinition" {
		return []Diagnostic{o.at("kind", "expected a CustomResourceDefinition, found "+describe(fields["kind"]))}
	}
	if problems, _ := strictDecode(o.doc, o.value, o.path, &apiextensionsv1.CustomResourceDefinition{}); len(problems) > 0 {
		return problems
	}
	data, err := json.Marshal(o.value)
	if err != nil {
		return []Diagnostic{o.at("", err.Error())}
	}
	definitions, err := crd.Load(data)
	if err != nil {
		return o.problems(err, "document[0]")
	}
	for _, definition := range definitions {
		if _, err := kinds.AddCRD(definition); err != nil {
			return []Diagnostic{o.at("spec.names.kind", err.Error())}
		}
		for _, version := range definition.Versions() {
			l.definitions[version.GroupVersionKind] = version
		}
	}
	return nil
}

// problems says what an error means for the object: one that holds field errors says where. Their paths may begin with a
// prefix that stands for the object.
func (o fileObject) problems(err error, prefix string) []Diagnostic {
	var errs field.ErrorList
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		for _, err := range joined.Unwrap() {
			if fieldError, ok := errors.AsType[*field.Error](err); ok {
				fieldError.Field = strings.TrimPrefix(strings.TrimPrefix(fieldError.Field, prefix), ".")
				errs = append(errs, fieldError)
			}
		}
	}
	if len(errs) == 0 {
		return []Diagnostic{o.at("", err.Error())}
	}
	return fieldDiagnostics(o.doc, o.path, errs)
}

// unknownFields reports the fields of a custom resource that its schema does not know: an API server would drop them without a
// word.
func (l *loader) unknownFields(o fileObject, definition *crd.Definition) []Diagnostic {
	before, _ := o.value.(map[string]any)
	after := runtime.DeepCopyJSON(numbers(before).(map[string]any))
	definition.Prune(after)
	c := &checker{doc: o.doc, bad: map[string]bool{}}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if key == "metadata" { // it has no schema there
			continue
		}
		if kept, ok := after[key]; ok {
			c.pruned(before[key], kept, subschema(definition.Schema(), key), join(o.path, key))
		} else {
			c.unknown(key, definition.Schema(), before, o.path)
		}
	}
	return c.diagnostics
}

// numbers replaces the numbers of a document by those that unstructured objects have.
func numbers(value any) any {
	switch v := value.(type) {
	case map[string]any:
		replaced := make(map[string]any, len(v))
		for key, child := range v {
			replaced[key] = numbers(child)
		}
		return replaced
	case []any:
		replaced := make([]any, len(v))
		for i, child := range v {
			replaced[i] = numbers(child)
		}
		return replaced
	case json.Number:
		if integer, err := v.Int64(); err == nil {
			return integer
		}
		float, _ := v.Float64()
		return float
	default:
		return value
	}
}

// pruned reports what was dropped from a value that was pruned.
func (c *checker) pruned(before, after any, at *spec.Schema, path string) {
	switch v := before.(type) {
	case map[string]any:
		if at != nil && len(at.Type) > 0 && !at.Type.Contains("object") {
			return // that it is a mapping at all is what is wrong with it
		}
		kept, _ := after.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if child, ok := kept[key]; ok {
				c.pruned(v[key], child, subschema(at, key), join(path, key))
			} else {
				c.unknown(key, at, v, path)
			}
		}
	case []any:
		kept, _ := after.([]any)
		for i := range min(len(v), len(kept)) {
			c.pruned(v[i], kept[i], itemSchema(at), fmt.Sprintf("%s[%d]", path, i))
		}
	}
}

// unknown reports a key that a schema does not know.
func (c *checker) unknown(key string, at *spec.Schema, fields map[string]any, path string) {
	var known []string
	if at != nil {
		known = slices.Sorted(maps.Keys(at.Properties))
	}
	c.unknownField(key, known, fields, path)
}

// subschema returns the schema of a field, or nil if it has none.
func subschema(at *spec.Schema, key string) *spec.Schema {
	if at == nil {
		return nil
	}
	if property, ok := at.Properties[key]; ok {
		return &property
	}
	if at.AdditionalProperties != nil {
		return at.AdditionalProperties.Schema
	}
	return nil
}

// itemSchema returns the schema of a list's items, or nil if it has none.
func itemSchema(at *spec.Schema) *spec.Schema {
	if at == nil || at.Items == nil {
		return nil
	}
	return at.Items.Schema
}
