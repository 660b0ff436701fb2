package modeltest

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// tree is a JSON object, as encoding/json reads it.
type tree = map[string]any

// parse reads the JSON object of a literal.
func parse(text string) tree {
	var t tree
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		panic(err)
	}
	return t
}

// clone copies a JSON value.
func clone[T any](value T) T {
	switch v := any(value).(type) {
	case tree:
		if v == nil {
			return value
		}
		copied := make(tree, len(v))
		for name, field := range v {
			copied[name] = clone(field)
		}
		return any(copied).(T)
	case []any:
		if v == nil {
			return value
		}
		copied := make([]any, len(v))
		for i, item := range v {
			copied[i] = clone(item)
		}
		return any(copied).(T)
	default:
		return value
	}
}

// get returns what is at a path, nil for nothing.
func get(value any, path ...string) any {
	for _, name := range path {
		t, _ := value.(tree)
		value = t[name]
	}
	return value
}

func text(value any, path ...string) string {
	s, _ := get(value, path...).(string)
	return s
}

func number(value any, path ...string) float64 {
	n, _ := get(value, path...).(float64)
	return n
}

func fields(value any, path ...string) tree {
	t, _ := get(value, path...).(tree)
	return t
}

func list(value any, path ...string) []any {
	items, _ := get(value, path...).([]any)
	return items
}

// set puts a value at a path, nil for none.
func set(t tree, value any, path ...string) {
	for _, name := range path[:len(path)-1] {
		inner, ok := t[name].(tree)
		if !ok {
			if value == nil {
				return
			}
			inner = tree{}
			t[name] = inner
		}
		t = inner
	}
	name := path[len(path)-1]
	if value == nil {
		delete(t, name)
	} else {
		t[name] = value
	}
}

// keep makes a field what it is in another tree.
func keep(t, from tree, path ...string) { set(t, clone(get(from, path...)), path...) }

// fill adds what a tree of defaults has and t has not. The defaults of the items of a list are under "*".
func fill(t, defaults tree) {
	for name, value := range defaults {
		switch have := t[name].(type) {
		case nil:
			if nested, ok := value.(tree); !ok || nested["*"] == nil {
				t[name] = clone(value)
			}
		case tree:
			if nested, ok := value.(tree); ok && name != "matchLabels" {
				fill(have, nested)
			}
		case []any:
			if nested, ok := value.(tree); ok {
				for _, item := range have {
					if inner, ok := item.(tree); ok {
						fill(inner, nested["*"].(tree))
					}
				}
			}
		}
	}
}

// bare drops what does not count when objects are compared: what is empty, and numbers that are zero in a status.
func bare(value any, status bool) any {
	switch v := value.(type) {
	case tree:
		kept := make(tree, len(v))
		for name, field := range v {
			if field = bare(field, status || name == "status"); field != nil {
				kept[name] = field
			}
		}
		if len(kept) == 0 {
			return nil
		}
		return kept
	case []any:
		if len(v) == 0 {
			return nil
		}
		kept := make([]any, len(v))
		for i, item := range v {
			kept[i] = bare(item, status)
		}
		return kept
	case float64:
		if status && v == 0 {
			return nil
		}
	case string:
		if v == "" {
			return nil
		}
	}
	return value
}

// shown is an object as it is compared. Of custom resources all counts, but for their metadata.
func shown(obj tree) any {
	custom := strings.Contains(text(obj, "apiVersion"), ".example.com/")
	copied := maps.Clone(obj)
	delete(copied, "apiVersion")
	delete(copied, "kind")
	if metadata := fields(obj, "metadata"); metadata["managedFields"] != nil {
		metadata = maps.Clone(metadata)
		delete(metadata, "managedFields")
		copied["metadata"] = metadata
	}
	if custom {
		copied["metadata"] = bare(copied["metadata"], false)
		return copied
	}
	return bare(copied, false)
}

func same(a, b tree) bool { return reflect.DeepEqual(shown(a), shown(b)) }

// equal compares values of JSON, of which those that are empty are none.
func equal(a, b any) bool { return reflect.DeepEqual(bare(a, false), bare(b, false)) }

// mergePatch is RFC 7386.
func mergePatch(value, patch any) any {
	changes, ok := patch.(tree)
	if !ok {
		return clone(patch)
	}
	result, ok := value.(tree)
	if !ok {
		result = tree{}
	} else {
		result = maps.Clone(result)
	}
	for name, change := range changes {
		if change == nil {
			delete(result, name)
		} else {
			result[name] = mergePatch(result[name], change)
		}
	}
	return result
}

// strategicPatch is a merge patch that merges finalizers as a set, and ports by their numbers. What is new in it comes first.
func strategicPatch(value, patch tree) tree {
	result := mergePatch(value, patch).(tree)
	if added := list(patch, "metadata", "finalizers"); len(added) > 0 {
		old := list(value, "metadata", "finalizers")
		isNew := func(f any) bool { return !slices.Contains(old, f) }
		merged := slices.DeleteFunc(slices.Clone(added), func(f any) bool { return !isNew(f) })
		set(result, append(merged, old...), "metadata", "finalizers")
	}
	old := list(value, "spec", "ports")
	for _, port := range list(patch, "spec", "ports") {
		at := slices.IndexFunc(old, func(p any) bool { return get(p, "port") == get(port, "port") })
		merged := slices.Clone(old)
		if at < 0 {
			merged = slices.Insert(merged, 0, clone(port))
		} else {
			merged[at] = mergePatch(merged[at], port)
		}
		set(result, merged, "spec", "ports")
		old = merged
	}
	return result
}

// sortedNames returns the names of a JSON object in order.
func sortedNames(t tree) []string { return slices.Sorted(maps.Keys(t)) }
