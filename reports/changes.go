package reports

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// change is one field that a write changed; a value is nil where the field was absent.
type change struct {
	path          string
	before, after any
}

// changedFields lists the fields a write changed, what tells most first. Bookkeeping, which every write changes, is left
// out.
func changedFields(before, after apiserver.Object) []change {
	if before == nil || after == nil {
		return nil
	}
	changes := compareValues(nil, "", contentOf(before), contentOf(after))
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.rank(), b.rank()) })
	return changes
}

// rank orders changes: reasons, prose, and then times that only moved on, tell less than the states they
// explain; and what is new as a whole can only be shown in part.
func (c change) rank() int {
	name := c.path[strings.LastIndexByte(c.path, '.')+1:]
	_, isMap := c.after.(map[string]any)
	_, isList := c.after.([]any)
	switch moved := c.before != nil && c.after != nil; {
	case moved && (strings.HasSuffix(name, "Time") || strings.HasSuffix(name, "Timestamp")):
		return 3
	case name == "message":
		return 2
	case name == "reason", c.before == nil && (isMap || isList):
		return 1
	default:
		return 0
	}
}

// bookkeeping are the fields that every write changes, or none.
var bookkeeping = []string{
	"apiVersion", "kind", "metadata.resourceVersion", "metadata.managedFields", "metadata.generation",
	"metadata.creationTimestamp", "metadata.uid",
}

// compareValues appends the changes at and below a path, in the order of field names.
func compareValues(changes []change, path string, before, after any) []change {
	if slices.Contains(bookkeeping, path) {
		return changes
	}
	b, bothMaps := before.(map[string]any)
	a, isMap := after.(map[string]any)
	if bothMaps && isMap {
		return compareFields(changes, b, a, func(name string) string {
			if path == "" {
				return name
			}
			if strings.ContainsAny(name, "./") { // as a label's or an annotation's key
				return fmt.Sprintf("%s[%q]", path, name)
			}
			return path + "." + name
		})
	}
	bl, bothLists := before.([]any)
	al, isList := after.([]any)
	if bothLists && isList {
		if b, a := keyed(bl, al); b != nil {
			return compareFields(changes, b, a, func(key string) string { return path + "[" + key + "]" })
		}
	}
	if valueText(before) == valueText(after) {
		return changes
	}
	if b, a, ok := conditionStatus(path, before, after); ok {
		return append(changes, change{path + ".status", b, a})
	}
	return append(changes, change{path, before, after})
}

// conditionStatus returns the statuses of a condition that came or went, which tell more than its first characters.
func conditionStatus(path string, before, after any) (any, any, bool) {
	b, hadFields := before.(map[string]any)
	a, hasFields := after.(map[string]any)
	if !strings.HasSuffix(path, "]") || hadFields == hasFields || (before != nil && after != nil) {
		return nil, nil, false
	}
	return b["status"], a["status"], b["status"] != nil || a["status"] != nil
}

// compareFields appends the changes of what two maps hold, in the order of their keys; below names the path of a key.
func compareFields(changes []change, before, after map[string]any, below func(string) string) []change {
	names := slices.AppendSeq(slices.Collect(maps.Keys(before)), maps.Keys(after))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		changes = compareValues(changes, below(name), before[name], after[name])
	}
	return changes
}

// itemKeys are the fields that tell the items of a list apart, in the order in which they are tried: of conditions, of
// containers, variables and owners, of taints, and of what has no name.
var itemKeys = []string{"type", "name", "key", "uid"}

// keyed returns two versions of a list as maps: by the field that tells the items apart, or, where there is none, by
// index, if both have as many items. It returns nil for lists that do not consist of objects.
func keyed(before, after []any) (map[string]any, map[string]any) {
	for _, key := range itemKeys {
		if b, a := byKey(before, key), byKey(after, key); b != nil && a != nil {
			return b, a
		}
	}
	if len(before) != len(after) {
		return nil, nil
	}
	b, a := map[string]any{}, map[string]any{}
	for i := range before {
		_, isMap := before[i].(map[string]any)
		if _, bothMaps := after[i].(map[string]any); !isMap || !bothMaps {
			return nil, nil
		}
		index := fmt.Sprint(i)
		b[index], a[index] = before[i], after[i]
	}
	return b, a
}

// byKey returns the items of a list by the value of a field; nil if some item lacks it or two have the same.
func byKey(list []any, key string) map[string]any {
	items := map[string]any{}
	for _, item := range list {
		fields, _ := item.(map[string]any)
		value, found := fields[key].(string)
		if _, twice := items[value]; !found || twice {
			return nil
		}
		items[value] = item
	}
	return items
}

// valueText prints a value on one line; a field that is not there is "absent".
func valueText(value any) string {
	if value == nil {
		return "absent"
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "?"
	}
	return string(text)
}

const (
	// maxValue is how many characters of a value are shown in one line.
	maxValue = 40
	// sameValue is how many characters before the first difference are shown of two long values.
	sameValue = 12
)

// String prints a change on one line, long values cut around the difference: "spec.replicas 1 → 0".
func (c change) String() string {
	before, after := []rune(valueText(c.before)), []rune(valueText(c.after))
	start := 0
	if longer := max(len(before), len(after)); longer > maxValue {
		for start < min(len(before), len(after)) && before[start] == after[start] {
			start++
		}
		start = max(min(start-sameValue, longer-maxValue), 0)
	}
	return fmt.Sprintf("%s %s → %s", c.path, window(before, start), window(after, start))
}

// window shows a value from some character on.
func window(value []rune, start int) string {
	if start == 0 {
		return shorten(string(value), maxValue)
	}
	return "…" + shorten(string(value[min(start, len(value)):]), maxValue)
}
