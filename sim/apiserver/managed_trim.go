package apiserver

import (
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// trim returns two states of an object without the fields that are the same in both, down to the second level: spec.replicas,
// metadata.labels. What an Update owns follows from the differences alone, and to look for them in a large object takes the
// library a hundred times longer than it takes us to see that a field did not change. What says which object it is stays, for
// the library asks for that too. Neither object is changed.
func (k *Kind) trim(before, after Object) (Object, Object) {
	if k.Custom() {
		a, b := trimTrees(rawContent(before), rawContent(after), 2)
		return &unstructured.Unstructured{Object: a}, &unstructured.Unstructured{Object: b}
	}
	a, b := k.shallowCopy(before), k.shallowCopy(after)
	trimStructs(reflect.ValueOf(a).Elem(), reflect.ValueOf(b).Elem(), 2)
	return a, b
}

// trimStructs drops from two structs of one type what is the same in both, in place.
func trimStructs(a, b reflect.Value, levels int) {
	for i := range a.NumField() {
		f := a.Type().Field(i)
		x, y := a.Field(i), b.Field(i)
		switch {
		case f.Name == "TypeMeta", f.Name == "UID":
		case f.Type.Kind() == reflect.Struct && levels > 1:
			trimStructs(x, y, levels-1)
		case f.IsExported() && canon.Equal(x.Addr().Interface(), y.Addr().Interface()):
			x.SetZero()
			y.SetZero()
		}
	}
}

// trimTrees returns two trees without what is the same in both. A map that is in both stays, though it be empty.
func trimTrees(a, b map[string]any, levels int) (map[string]any, map[string]any) {
	a, b = maps.Clone(a), maps.Clone(b)
	for name, x := range a {
		y, both := b[name]
		if !both || name == "apiVersion" || name == "kind" || name == "uid" {
			continue
		}
		m, isMap := x.(map[string]any)
		n, areMaps := y.(map[string]any)
		switch {
		case isMap && areMaps && levels > 1:
			a[name], b[name] = trimTrees(m, n, levels-1)
		case canon.Equal(x, y):
			delete(a, name)
			delete(b, name)
		}
	}
	return a, b
}
