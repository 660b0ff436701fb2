package reports

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// objectData is an object with all versions that a run made or saw.
type objectData struct {
	Name string `json:"name"`
	// Variable is what rules call it, empty if no rule is about it.
	Variable string        `json:"variable"`
	Versions []versionData `json:"versions"`
}

// versionData is one version of an object, as what it changes of the lines of the one before.
type versionData struct {
	Revision int64 `json:"revision"`
	// Row is the row, plus one, that made it, or at which it was first seen.
	Row int `json:"row"`
	// How says in a word how it came to be.
	How string `json:"how"`
	// Edits are, from the first line to the last: the first line, from zero, the number of lines to take away there, and the
	// lines to put in their place.
	Edits [][]int `json:"edits"`
}

// How versions came to be.
const (
	seenVersion    = "seen"    // it was there, or who wrote it had no step of its own
	createdVersion = "created" // by a Create
	writtenVersion = "written"
	goneVersion    = "gone" // the object was removed
)

// objectVersion is one version of an object.
type objectVersion struct {
	object   apiserver.Object // nil where it is gone
	revision int64
	record   int
	how      string
}

// tracedObject is an object with its versions, in the order of their revisions.
type tracedObject struct {
	name, variable string
	versions       []objectVersion
}

// objectVersions are all objects of a run with their versions.
type objectVersions struct {
	objects []*tracedObject
	index   map[string]int
	// The object and the version of each record, -1 if it is about none.
	object, version []int
	namespace       string
	variables       []property.Variable
}

// newObjectVersions follows the objects of a run through its records.
func newObjectVersions(h *history.History, namespace string, variables []property.Variable) *objectVersions {
	v := &objectVersions{
		index: map[string]int{}, namespace: namespace, variables: variables,
		object: make([]int, len(h.Records)), version: make([]int, len(h.Records)),
	}
	for i := range h.Records {
		r := &h.Records[i]
		v.object[i], v.version[i] = -1, -1
		if content := cmp.Or(r.After, r.Before); content != nil && content.GetName() != "" && !heartbeat(r) {
			v.follow(i, r, content)
		} else if at, known := v.index[v.nameOf(r, "")]; known && r.Event.Name != "" {
			v.object[i], v.version[i] = at, len(v.objects[at].versions)-1 // what a refused request would have met
		}
	}
	return v
}

// nameOf names the object of a record.
func (v *objectVersions) nameOf(r *history.Record, generated string) string {
	e := without(r.Event, v.namespace)
	e.Subresource, e.Name = "", cmp.Or(e.Name, generated)
	return e.Object()
}

// follow notes what a record tells of its object.
func (v *objectVersions) follow(i int, r *history.Record, content apiserver.Object) {
	name := v.nameOf(r, content.GetName())
	at, known := v.index[name]
	if !known {
		at = len(v.objects)
		v.index[name] = at
		v.objects = append(v.objects, &tracedObject{name: name, variable: v.variableOf(r)})
	}
	o := v.objects[at]
	if r.Before != nil {
		o.see(r.Before, i, seenVersion)
	}
	v.object[i] = at
	switch {
	case r.Committed > 0:
		v.version[i] = o.write(r, i)
	case r.After != nil:
		v.version[i] = o.see(r.After, i, seenVersion)
	default:
		v.version[i] = len(o.versions) - 1
	}
}

// variableOf returns the variable that binds the object of a record, if one does.
func (v *objectVersions) variableOf(r *history.Record) string {
	for _, variable := range v.variables {
		if variable.Kind == r.Event.Kind && variable.ObjectName == cmp.Or(r.Event.Name, "-") &&
			(variable.Namespace == "" || variable.Namespace == r.Event.Namespace) {
			return variable.Name
		}
	}
	return ""
}

// see notes a version that was met, and returns its index. Of what comes too late to be put in its place, as a cache may be told
// of a version that no step made, it returns the latest version before it.
func (o *tracedObject) see(content apiserver.Object, record int, how string) int {
	revision := revisionOf(content)
	for i, known := range slices.Backward(o.versions) {
		switch {
		case known.revision == revision, known.revision < revision && i < len(o.versions)-1:
			return i
		case known.revision < revision:
			o.versions = append(o.versions, objectVersion{content, revision, record, how})
			return i + 1
		}
	}
	if len(o.versions) == 0 {
		o.versions = append(o.versions, objectVersion{content, revision, record, how})
	}
	return 0
}

// write notes the version that a write made, and returns its index.
func (o *tracedObject) write(r *history.Record, record int) int {
	version := objectVersion{r.After, r.Committed, record, writtenVersion}
	switch {
	case removed(r):
		version.object, version.how = nil, goneVersion
	case r.Event.Verb == schedule.Create && r.Event.Subresource == "":
		version.how = createdVersion
	}
	o.versions = append(o.versions, version)
	return len(o.versions) - 1
}

// removed reports whether a write removed its object: a Delete, or the one after it that took away what the object waited for.
func removed(r *history.Record) bool {
	if r.After == nil {
		return true
	}
	waits := len(r.After.GetFinalizers()) > 0
	if grace := r.After.GetDeletionGracePeriodSeconds(); grace != nil && *grace > 0 {
		waits = true
	}
	return !waits && (r.Event.Verb == schedule.Delete || r.After.GetDeletionTimestamp() != nil)
}

// revisionOf returns an object's resourceVersion as a number, zero if it has none.
func revisionOf(o apiserver.Object) int64 {
	n, err := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// at returns the object of a record and its version; -1 if it is about none.
func (v *objectVersions) at(record int) (object, version int) {
	return v.object[record], max(v.version[record], 0)
}

// data returns the objects for the page.
func (v *objectVersions) data(table *interner, rowOf []int) []*objectData {
	all := []*objectData{}
	for _, o := range v.objects {
		data := &objectData{Name: o.name, Variable: o.variable, Versions: []versionData{}}
		var before []byte
		for _, version := range o.versions {
			after := essence(version.object)
			data.Versions = append(data.Versions, versionData{
				version.revision, rowOf[version.record] + 1, version.how, lineEdits(table, before, after),
			})
			before = after
		}
		all = append(all, data)
	}
	return all
}

// lineEdits returns what makes one text of another, as edits of lines.
func lineEdits(table *interner, before, after []byte) [][]int {
	edits := [][]int{}
	if len(before) == 0 || len(after) == 0 {
		if bytes.Equal(before, after) {
			return edits
		}
		edit := []int{0, bytes.Count(before, []byte("\n"))}
		for line := range strings.Lines(string(after)) {
			edit = append(edit, table.of(strings.TrimSuffix(line, "\n")))
		}
		return append(edits, edit)
	}
	unified := string(diff.Diff("before", before, "after", after))
	line, inHunk, open := 0, false, false
	for text := range strings.Lines(unified) {
		text = strings.TrimSuffix(text, "\n")
		if strings.HasPrefix(text, "@@ ") {
			inHunk, open = true, false
			if _, err := fmt.Sscanf(text, "@@ -%d", &line); err != nil {
				return edits
			}
			line-- // from zero
			continue
		}
		if !inHunk || text == "" || text[0] == '\\' {
			continue
		}
		if text[0] == ' ' {
			line, open = line+1, false
			continue
		}
		if !open {
			edits, open = append(edits, []int{line, 0}), true
		}
		last := &edits[len(edits)-1]
		if text[0] == '-' {
			(*last)[1]++
			line++
		} else {
			*last = append(*last, table.of(text[1:]))
		}
	}
	return edits
}
