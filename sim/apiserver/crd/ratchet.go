package crd

import (
	"fmt"
	"reflect"
	"strings"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// An update is not refused for what it leaves as it was, however wrong that is: the schema may have become stricter since it was
// stored, and another version of the kind has another schema. The rules are those of ratcheting.go in pkg/apiserver/validation of
// k8s.io/apiextensions-apiserver and of equality.go in pkg/cel/common of k8s.io/apiserver, v1.36: the library that validates
// asks for a validator for each value below, which forgives what is wrong with a value that is equal to the old one.

// pair is a value of an update with the one that it takes the place of. A nil pair is a value that has no such one: the fields
// that the schema does not know have none, and the items of lists that are no maps.
type pair struct {
	value, old any
	schema     *structural.Structural

	same   *bool // once it is known
	fields map[string]*pair
	items  map[int]*pair
}

// field returns the pair of a field.
func (p *pair) field(name string) *pair {
	if p == nil || p.schema == nil {
		return nil
	}
	if known, ok := p.fields[name]; ok {
		return known
	}
	value, old := asObject(p.value), asObject(p.old)
	newer, ok := value[name]
	older, before := old[name]
	below := property(p.schema, name)
	if !ok || !before || below == nil {
		return nil
	}
	if p.fields == nil {
		p.fields = map[string]*pair{}
	}
	found := &pair{value: newer, old: older, schema: below}
	p.fields[name] = found
	return found
}

// item returns the pair of an item of a list.
func (p *pair) item(index int) *pair {
	if p == nil || p.schema == nil || p.schema.Items == nil {
		return nil
	}
	if known, ok := p.items[index]; ok {
		return known
	}
	list, _ := p.value.([]any)
	before, _ := p.old.([]any)
	if index >= len(list) || !isMapList(p.schema) {
		return nil
	}
	old := itemWithKeys(before, list[index], p.schema.XListMapKeys)
	if old == nil {
		return nil
	}
	if p.items == nil {
		p.items = map[int]*pair{}
	}
	found := &pair{value: list[index], old: old, schema: p.schema.Items}
	p.items[index] = found
	return found
}

// equal reports whether the value is the old one. The items of a list that is a map may change their places.
func (p *pair) equal() bool {
	if p == nil {
		return false
	}
	if p.same == nil {
		same := p.compare()
		p.same = &same
	}
	return *p.same
}

func (p *pair) compare() bool {
	switch value := p.value.(type) {
	case []any:
		old, ok := p.old.([]any)
		if !ok || len(old) != len(value) {
			return false
		}
		if !isMapList(p.schema) {
			return reflect.DeepEqual(value, old)
		}
		for i := range value {
			if !p.item(i).equal() {
				return false
			}
		}
		return true
	case map[string]any:
		old, ok := p.old.(map[string]any)
		if !ok || len(old) != len(value) {
			return false
		}
		for name := range value {
			if !p.field(name).equal() {
				return false
			}
		}
		return true
	default:
		return reflect.DeepEqual(p.value, p.old)
	}
}

func isMapList(s *structural.Structural) bool {
	return s.Type == "array" && s.XListType != nil && *s.XListType == "map" && len(s.XListMapKeys) > 0
}

// asObject returns a value that is an object, nil for any other.
func asObject(value any) map[string]any {
	object, _ := value.(map[string]any)
	return object
}

// property returns the schema of a property.
func property(s *structural.Structural, name string) *structural.Structural {
	if p, ok := s.Properties[name]; ok {
		return &p
	}
	if s.AdditionalProperties != nil {
		return s.AdditionalProperties.Structural
	}
	return nil
}

// itemWithKeys returns the first item of a list that has the keys of another, or nil; pkg/cel/common/maplist.go. An item has a
// key only where it has all of them, and they are no lists or objects.
func itemWithKeys(list []any, like any, keys []string) any {
	wanted, ok := mapKey(like, keys)
	if !ok {
		return nil
	}
	for _, item := range list {
		if key, ok := mapKey(item, keys); ok && key == wanted {
			return item
		}
	}
	return nil
}

func mapKey(item any, names []string) (string, bool) {
	object, ok := item.(map[string]any)
	if !ok {
		return "", false
	}
	var key strings.Builder
	for _, name := range names {
		switch value := object[name].(type) {
		case bool, float64, int64, string:
			fmt.Fprintf(&key, "%T %q,", value, fmt.Sprint(value))
		default:
			return "", false
		}
	}
	return key.String(), true
}

// forgiving validates a value of an update.
type forgiving struct {
	pair    *pair
	root    bool
	path    string
	schema  *spec.Schema
	options []validate.Option
}

// Validate implements validate.ValueValidator.
func (f *forgiving) Validate(any) *validate.Result {
	below := func(o *validate.SchemaValidatorOptions) {
		o.NewValidatorForField = f.forField
		o.NewValidatorForIndex = f.forIndex
	}
	options := append([]validate.Option{below}, f.options...)
	result := validate.NewSchemaValidator(f.schema, nil, f.path, strfmt.Default, options...).Validate(f.pair.value)
	if !result.IsValid() && f.pair.equal() {
		return &validate.Result{}
	}
	return result
}

// forField returns the validator of a field. What the object says of its own version is never as it was: both the old and the
// new one were converted to the version of the request.
func (f *forgiving) forField(
	name string, schema *spec.Schema, root any, path string, formats strfmt.Registry, options ...validate.Option,
) validate.ValueValidator {
	below := f.pair.field(name)
	if below == nil || f.root && (name == "apiVersion" || name == "kind") {
		return validate.NewSchemaValidator(schema, root, path, formats, options...)
	}
	return &forgiving{pair: below, path: path, schema: schema, options: options}
}

func (f *forgiving) forIndex(
	index int, schema *spec.Schema, root any, path string, formats strfmt.Registry, options ...validate.Option,
) validate.ValueValidator {
	below := f.pair.item(index)
	if below == nil {
		return validate.NewSchemaValidator(schema, root, path, formats, options...)
	}
	return &forgiving{pair: below, path: path, schema: schema, options: options}
}

// SetPath implements validate.ValueValidator. The library does not call it.
func (f *forgiving) SetPath(string) {}

// Applies implements validate.ValueValidator.
func (f *forgiving) Applies(any, reflect.Kind) bool { return true }
