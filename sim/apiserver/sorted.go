package apiserver

import (
	"fmt"
	"maps"
	"slices"

	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// sortedValue is a value whose maps, and those below them, are gone through in the order of their keys.
func sortedValue(v value.Value) value.Value {
	if v.IsMap() || v.IsList() {
		return sorted{v}
	}
	return v // the texts of some errors show how a scalar is held
}

type sorted struct{ value.Value }

// GoString implements fmt.GoStringer: errors show the value.
func (s sorted) GoString() string { return fmt.Sprintf("%#v", s.Value) }

// AsMap implements value.Value.
func (s sorted) AsMap() value.Map { return sortedMap{s.Value.AsMap()} }

// AsMapUsing implements value.Value.
func (s sorted) AsMapUsing(value.Allocator) value.Map { return s.AsMap() }

// AsList implements value.Value.
func (s sorted) AsList() value.List { return sortedList{s.Value.AsList()} }

// AsListUsing implements value.Value.
func (s sorted) AsListUsing(value.Allocator) value.List { return s.AsList() }

type sortedMap struct{ value.Map }

// Iterate implements value.Map.
func (m sortedMap) Iterate(visit func(key string, v value.Value) bool) bool {
	fields := map[string]value.Value{}
	m.Map.Iterate(func(key string, _ value.Value) bool {
		fields[key], _ = m.Map.Get(key) // what is visited is used again for the next field
		return true
	})
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if !visit(key, sortedValue(fields[key])) {
			return false
		}
	}
	return true
}

// IterateUsing implements value.Map.
func (m sortedMap) IterateUsing(_ value.Allocator, visit func(key string, v value.Value) bool) bool {
	return m.Iterate(visit)
}

type sortedList struct{ value.List }

// At implements value.List.
func (l sortedList) At(i int) value.Value { return sortedValue(l.List.At(i)) }

// AtUsing implements value.List.
func (l sortedList) AtUsing(_ value.Allocator, i int) value.Value { return l.At(i) }
