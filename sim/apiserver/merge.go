package apiserver

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kjson "k8s.io/apimachinery/pkg/util/json"
)

// mergePatched applies a JSON merge patch without turning the whole object into JSON: only what the patch touches is
// copied, the rest is shared with the stored object. It reports false where the patch has to go the long way, which knows
// all the errors.
func (k *Kind) mergePatched(stored Object, patch []byte) (Object, bool) {
	if k.Custom() {
		return k.mergeCustom(stored, patch)
	}
	return k.mergeBuiltin(stored, patch)
}

func (k *Kind) mergeCustom(stored Object, patch []byte) (Object, bool) {
	var changes map[string]any
	if err := kjson.Unmarshal(patch, &changes); err != nil || changes == nil {
		return nil, false
	}
	merged := mergeMap(rawContent(stored), changes)
	if merged["kind"] != k.Kind || merged["apiVersion"] != k.GroupVersion().String() {
		return nil, false
	}
	if k.Default != nil {
		merged = runtime.DeepCopyJSON(merged) // defaulting writes to what it is given
	}
	meta, ok := merged["metadata"].(map[string]any)
	if !ok {
		return nil, false
	}
	merged["metadata"] = maps.Clone(meta) // the pipeline writes to it
	obj, err := k.adopt(&unstructured.Unstructured{Object: merged})
	return obj, err == nil && k.checkEmbedded(obj) == nil
}

// mergeMap returns base, which is not changed, with the changes of a merge patch, RFC 7396. As in the library that a real
// server uses, lists lose the nulls of the objects in them, unless they take the place of an object.
func mergeMap(base, changes map[string]any) map[string]any {
	merged := maps.Clone(base)
	if merged == nil {
		merged = map[string]any{}
	}
	for name, change := range changes {
		switch change := change.(type) {
		case nil:
			delete(merged, name)
		case map[string]any:
			below, _ := merged[name].(map[string]any)
			merged[name] = mergeMap(below, change)
		case []any:
			if _, replaces := merged[name].(map[string]any); !replaces {
				dropNulls(change)
			}
			merged[name] = change
		default:
			merged[name] = change
		}
	}
	return merged
}

// dropNulls removes the fields that are null from a value and all below it, in place. The nulls of lists stay.
func dropNulls(value any) {
	switch value := value.(type) {
	case map[string]any:
		for name, below := range value {
			if below == nil {
				delete(value, name)
			}
			dropNulls(below)
		}
	case []any:
		for _, item := range value {
			dropNulls(item)
		}
	}
}

// mergeBuiltin merges each top-level field of its own: a patch of the metadata leaves the spec alone.
func (k *Kind) mergeBuiltin(stored Object, patch []byte) (Object, bool) {
	var changes map[string]json.RawMessage
	if err := json.Unmarshal(patch, &changes); err != nil || changes == nil {
		return nil, false
	}
	obj := k.shallowCopy(stored)
	value := reflect.ValueOf(obj).Elem()
	for name, change := range changes {
		index, ok := topLevelField(k.Type, name)
		if !ok {
			return nil, false
		}
		if !mergeField(value.Field(index), change) {
			return nil, false
		}
	}
	return obj, true
}

// topLevelField returns the index of the field that holds a JSON field of an object, apiVersion and kind not among them.
func topLevelField(t reflect.Type, name string) (int, bool) {
	for i := range t.NumField() {
		if tag, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); tag == name && name != "" {
			return i, true
		}
	}
	return 0, false
}

// mergeField replaces a field by what a merge patch makes of it.
func mergeField(value reflect.Value, change json.RawMessage) bool {
	if string(change) == "null" {
		value.SetZero()
		return true
	}
	document, err := json.Marshal(value.Addr().Interface())
	if err != nil || len(change) == 0 || change[0] != '{' || document[0] != '{' {
		return false
	}
	merged, statusErr := applyJSON(document, types.MergePatchType, change)
	if statusErr != nil {
		return false
	}
	fresh := reflect.New(value.Type())
	if err := kjson.Unmarshal(merged, fresh.Interface()); err != nil {
		return false
	}
	value.Set(fresh.Elem())
	return true
}
