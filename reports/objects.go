package reports

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
)

// objectChange is one object at the start of a run and at its end; nil where it was absent.
type objectChange struct {
	name          string // "StatefulSet default/web"
	variable      string
	before, after apiserver.Object
}

// objectsOf returns the objects that the broken rules of a run bind, in the order of the scenario's variables. It knows
// the objects that some step of the run read or wrote; the others did not matter.
func objectsOf(h *history.History, variables []property.Variable) []objectChange {
	var rules strings.Builder
	for _, v := range h.Broken() {
		rules.WriteString(v.Property.Rule + "\n")
	}
	var changes []objectChange
	seen := map[string]bool{}
	for _, v := range variables {
		if !mentions(rules.String(), v.Name) {
			continue
		}
		for _, c := range changesOf(h, v) {
			if !seen[c.name] {
				seen[c.name] = true
				changes = append(changes, c)
			}
		}
	}
	return changes
}

// mentions reports whether a rule uses a variable.
func mentions(rule, variable string) bool {
	found, err := regexp.MatchString(`(^|[^.?\w])`+regexp.QuoteMeta(variable)+`\b`, rule)
	return err == nil && found
}

// changesOf returns the objects a variable binds, sorted by name.
func changesOf(h *history.History, v property.Variable) []objectChange {
	byName := map[string]*objectChange{}
	for i := range h.Records {
		r := &h.Records[i]
		if !binds(v, r) {
			continue
		}
		main := r.Event
		main.Subresource = ""
		c, known := byName[main.Object()]
		if !known {
			c = &objectChange{name: main.Object(), variable: v.Name, before: r.Before}
			if r.Event.Verb.IsRead() {
				c.before = r.After
			}
			c.after = c.before
			byName[c.name] = c
		}
		if r.Committed > 0 {
			c.after = r.After
		}
	}
	sorted := slices.SortedFunc(maps.Values(byName), func(a, b *objectChange) int { return cmp.Compare(a.name, b.name) })
	changes := make([]objectChange, len(sorted))
	for i, c := range sorted {
		changes[i] = *c
	}
	return changes
}

// binds reports whether the variable binds the object of the record, a request for one object.
func binds(v property.Variable, r *history.Record) bool {
	e := r.Event
	if !e.Verb.IsRequest() || e.Name == "" || !tells(r) || e.Kind != v.Kind || (v.Namespace != "" && v.Namespace != e.Namespace) {
		return false
	}
	if v.ObjectName != "" {
		return v.ObjectName == e.Name
	}
	object := cmp.Or(r.After, r.Before)
	return object != nil && labels.SelectorFromSet(v.Labels).Matches(labels.Set(object.GetLabels()))
}

// tells reports whether a record knows what state its object was in: a refused request may not.
func tells(r *history.Record) bool {
	return r.Code < 400 || r.Code == 404 || r.Before != nil || r.After != nil
}

// maxDiff is how many lines the diff of an object has at most.
const maxDiff = 40

// objectDiff returns how an object changed from the start of a run to its end, as the lines of a unified diff of YAML
// with only what a reader looks for: labels, deletion, spec and status. It is empty if nothing of that changed.
func objectDiff(c objectChange) []string {
	text := string(diff.Diff("start", essence(c.before), "end", essence(c.after)))
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	first := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, "@@") })
	if first < 0 {
		return nil
	}
	lines = slices.DeleteFunc(lines[first:], func(line string) bool { return strings.HasPrefix(line, `\ No newline`) })
	if more := len(lines) - maxDiff; more > 0 {
		lines = append(lines[:maxDiff], fmt.Sprintf("… and %s more", count(more, "line")))
	}
	return lines
}

// essence returns the YAML of what a reader looks for in an object.
func essence(o apiserver.Object) []byte {
	if o == nil {
		return nil
	}
	content := contentOf(o)
	metadata := map[string]any{}
	for _, name := range []string{"labels", "generation", "deletionTimestamp", "finalizers"} {
		if value, found, _ := unstructured.NestedFieldNoCopy(content, "metadata", name); found {
			metadata[name] = value
		}
	}
	part := map[string]any{}
	if len(metadata) > 0 {
		part["metadata"] = metadata
	}
	for name, value := range content {
		if name != "metadata" && name != "apiVersion" && name != "kind" {
			part[name] = value
		}
	}
	text, err := yaml.Marshal(part)
	if err != nil {
		return fmt.Appendf(nil, "cannot be shown: %v\n", err)
	}
	return text
}

// contentOf returns an object as JSON-like values, which must not be changed.
func contentOf(o apiserver.Object) map[string]any {
	if u, ok := o.(*unstructured.Unstructured); ok {
		return u.Object
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return map[string]any{"error": err.Error()}
	}
	return content
}

// maxValue is how many characters of a value are shown in one line.
const maxValue = 40

// changedFields lists the fields a write changed: "spec.replicas 1 → 0". Bookkeeping, which every write changes, is
// left out.
func changedFields(before, after apiserver.Object) []string {
	if before == nil || after == nil {
		return nil
	}
	var changes []string
	compareValues("", contentOf(before), contentOf(after), &changes)
	return changes
}

// bookkeeping are the fields that every write changes, or none.
var bookkeeping = []string{
	"apiVersion", "kind", "metadata.resourceVersion", "metadata.managedFields", "metadata.generation",
	"metadata.creationTimestamp", "metadata.uid",
}

// compareValues appends the changes at and below a path, in the order of field names.
func compareValues(path string, before, after any, changes *[]string) {
	if slices.Contains(bookkeeping, path) {
		return
	}
	b, bothMaps := before.(map[string]any)
	a, isMap := after.(map[string]any)
	if !bothMaps || !isMap {
		if from, to := valueText(before), valueText(after); from != to {
			*changes = append(*changes, fmt.Sprintf("%s %s → %s", path, from, to))
		}
		return
	}
	names := slices.Sorted(maps.Keys(a))
	for name := range b {
		if _, kept := a[name]; !kept {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		below := name
		if path != "" {
			below = path + "." + name
		}
		compareValues(below, b[name], a[name], changes)
	}
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
	return shorten(string(text), maxValue)
}
