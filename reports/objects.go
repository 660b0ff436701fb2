package reports

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/diff"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
)

// objectChange is one object at the start of a run and at some later time; nil where it was absent.
type objectChange struct {
	name          string // "StatefulSet web", with the namespace if there are several
	variable      string
	before, after apiserver.Object
}

// objectsOf returns the objects that rules bind, in the order of the scenario's variables, with what had become of them
// until some time of the run. It knows the objects that some step until then read or wrote; the others did not matter.
func objectsOf(h *history.History, variables []property.Variable, rules string, until time.Duration) []objectChange {
	var changes []objectChange
	seen := map[string]bool{}
	for _, v := range variables {
		if !mentions(rules, v.Name) {
			continue
		}
		for _, c := range changesOf(h, v, until) {
			if !seen[c.name] {
				seen[c.name] = true
				changes = append(changes, c)
			}
		}
	}
	return changes
}

// moment is a time of a run that broken rules are about.
type moment struct {
	at time.Duration
	// names and rules are those of the properties, one a line.
	names, rules []string
	// end is set if it is the end of the run.
	end bool
}

// moments returns the times that the broken properties of a run are about: the moment of the break where a state or a
// request must hold at once, for it may have healed since, and the end for the others.
func moments(h *history.History) []moment {
	var all []moment
	for _, v := range h.Broken() {
		m := moment{at: h.End, end: !atOnce(v)}
		if !m.end {
			m.at = v.At
		}
		i := slices.IndexFunc(all, func(other moment) bool { return other.at == m.at && other.end == m.end })
		if i < 0 {
			i, all = len(all), append(all, m)
		}
		all[i].names = append(all[i].names, v.Property.Name)
		all[i].rules = append(all[i].rules, v.Property.Rule)
	}
	return all
}

// atOnce reports whether a property must hold at every moment, so that it breaks at one.
func atOnce(v property.Verdict) bool {
	return v.Property.Type == property.Always || v.Property.Type == property.Request
}

// mentions reports whether a rule uses a variable.
func mentions(rule, variable string) bool {
	found, err := regexp.MatchString(`(^|[^.?\w])`+regexp.QuoteMeta(variable)+`\b`, rule)
	return err == nil && found
}

// changesOf returns the objects a variable binds, sorted by name, with what had become of them until some time.
func changesOf(h *history.History, v property.Variable, until time.Duration) []objectChange {
	byName := map[string]*objectChange{}
	namespace := onlyNamespace(h)
	for i := range h.Records {
		r := &h.Records[i]
		if r.At > until || !binds(v, r) {
			continue
		}
		main := without(r.Event, namespace)
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

// tells reports whether a record knows what state its object was in: a refused request may not, nor one that a fault answered.
func tells(r *history.Record) bool {
	known := r.Committed > 0 || r.Before != nil || r.After != nil
	return known || r.Fault == "" && (r.Code < 400 && r.Code != history.NoAnswer || r.Code == 404)
}

// fate says in words what had become of an object, as far as its diff does not.
func (c objectChange) fate() string {
	switch {
	case c.before == nil && c.after == nil:
		return "absent all along"
	case c.before == nil || c.after == nil:
		return ""
	case c.before.GetUID() != c.after.GetUID():
		return "replaced: another object of the same name"
	case len(objectDiff(c)) > 0:
		return ""
	}
	if fields := differing(contentOf(c.before), contentOf(c.after)); len(fields) > 0 {
		return "nothing but " + strings.Join(fields, ", ") + " changed"
	}
	return "unchanged"
}

// differing names the fields of the metadata that two versions of an object have different values of, sorted: what
// [essence] leaves out, but for the managed fields, which change along with others.
func differing(before, after map[string]any) []string {
	b, _ := before["metadata"].(map[string]any)
	a, _ := after["metadata"].(map[string]any)
	names := slices.AppendSeq(slices.Collect(maps.Keys(b)), maps.Keys(a))
	slices.Sort(names)
	same := func(name string) bool { return name == managedFields || valueText(b[name]) == valueText(a[name]) }
	return slices.DeleteFunc(slices.Compact(names), same)
}

// maxDiff is how many lines the diff of an object has at most.
const maxDiff = 40

// objectDiff returns how an object changed from the start of a run on, as the lines of a unified diff of YAML with
// only what a reader looks for: labels, annotations, deletion, owners, spec and status. It is empty if nothing of that changed.
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
	for _, name := range []string{"labels", "annotations", "generation", "deletionTimestamp", "finalizers", "ownerReferences"} {
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
