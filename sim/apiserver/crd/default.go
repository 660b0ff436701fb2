package crd

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// node is what defaulting needs of a schema.
type node struct {
	nullable   bool
	value      any // the default; nil if there is none
	properties map[string]*node
	defaulted  []string // the properties that have a default
	additional *node
	items      *node
}

// child returns the schema of a property, nil if there is none.
func (n *node) child(name string) *node {
	if child, ok := n.properties[name]; ok {
		return child
	}
	return n.additional
}

// fill adds the defaults below a value, in place. A null that is not allowed gives way to the default, and is dropped from
// an object if there is none, unless nulls are kept; pkg/apiserver/schema/defaulting/{algorithm,prunenulls}.go in
// k8s.io/apiextensions-apiserver.
func (n *node) fill(value any, keepNulls bool) {
	if n == nil {
		return
	}
	switch value := value.(type) {
	case map[string]any:
		for _, name := range n.defaulted {
			if _, ok := value[name]; !ok {
				value[name] = runtime.DeepCopyJSONValue(n.properties[name].value)
			}
		}
		for name, v := range value {
			child := n.child(name)
			if v == nil && child != nil && !child.nullable {
				if child.value == nil {
					if !keepNulls {
						delete(value, name)
					}
					continue
				}
				v = runtime.DeepCopyJSONValue(child.value)
				value[name] = v
			}
			child.fill(v, keepNulls)
		}
	case []any:
		for i, v := range value {
			if v == nil && n.items != nil && !n.items.nullable {
				v = runtime.DeepCopyJSONValue(n.items.value)
				value[i] = v
			}
			n.items.fill(v, keepNulls)
		}
	}
}

// fillsMore returns the path of a property that has a default in one schema, and none in another that has the property too;
// empty if there is none.
func (n *node) fillsMore(other *node, path string) string {
	if n == nil || other == nil {
		return ""
	}
	if n.value != nil && other.value == nil {
		return path
	}
	for _, name := range slices.Sorted(maps.Keys(n.properties)) {
		if found := n.properties[name].fillsMore(other.child(name), path+"."+name); found != "" {
			return found
		}
	}
	return cmp.Or(n.items.fillsMore(other.items, path+"[]"), n.additional.fillsMore(other.additional, path+".*"))
}
