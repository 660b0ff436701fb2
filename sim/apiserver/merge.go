package apiserver

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "k8s.io/apimachinery/pkg/util/json"
)

// mergePatched applies a JSON merge patch to a custom resource without going through JSON: only what the patch touches is
// copied, the rest is shared with the stored object. It reports false where the patch has to go the long way.
func (k *Kind) mergePatched(stored Object, patch []byte) (Object, bool) {
	if !k.Custom() {
		return nil, false
	}
	changes := map[string]any{}
	if err := kjson.Unmarshal(patch, &changes); err != nil || changes == nil {
		return nil, false
	}
	merged := mergeMap(stored.(*unstructured.Unstructured).Object, changes)
	meta, ok := merged["metadata"].(map[string]any)
	if !ok {
		return nil, false
	}
	merged["metadata"] = maps.Clone(meta) // the pipeline writes to it
	obj, err := k.adopt(&unstructured.Unstructured{Object: merged})
	return obj, err == nil
}

// mergeMap returns base with the changes of a merge patch, RFC 7396. Neither is changed.
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
		default:
			merged[name] = change
		}
	}
	return merged
}
