package scenarios

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxCombinations bounds how many combinations of values a matrix may have.
const maxCombinations = 1000

// combination is one choice of a value for each name of a matrix.
type combination struct {
	names  []string // in the order of the matrix
	values map[string]any
}

// String returns the combination as entries are named: "policy=Foreground,size=3".
func (c combination) String() string {
	parts := make([]string, len(c.names))
	for i, name := range c.names {
		parts[i] = name + "=" + scalarText(c.values[name])
	}
	return strings.Join(parts, ",")
}

// texts returns the values as text.
func (c combination) texts() map[string]string {
	if len(c.names) == 0 {
		return nil
	}
	texts := make(map[string]string, len(c.names))
	for name, value := range c.values {
		texts[name] = scalarText(value)
	}
	return texts
}

// scalarText returns a string, number or bool as it stands within a text.
func scalarText(value any) string { return fmt.Sprint(value) }

// matrixName is what a name of the matrix may be.
var matrixName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]*$`)

// readMatrix returns the combinations of a document's matrix: a single empty one if it has none. If anything is wrong with the
// matrix, there are none.
func readMatrix(doc *document) ([]combination, []Diagnostic) {
	raw := doc.lookup("spec", "matrix")
	if raw == nil {
		return []combination{{}}, nil
	}
	var matrix []MatrixEntry
	problems, bad := strictDecode(doc, raw, "spec.matrix", &matrix)
	for i := range matrix { // numbers as they are written
		matrix[i].Values, _ = doc.lookup("spec", "matrix", i, "values").([]any)
	}
	if problems = append(problems, checkMatrix(doc, matrix, bad)...); len(problems) > 0 {
		return nil, problems
	}
	return combinations(matrix), nil
}

// checkMatrix reports what is wrong with a matrix in itself, but for the fields that are known to be bad.
func checkMatrix(doc *document, matrix []MatrixEntry, bad map[string]bool) []Diagnostic {
	var problems []Diagnostic
	report := func(path, format string, args ...any) {
		if !bad[path] && !bad["spec.matrix"] {
			problems = append(problems, doc.at(path, path+": "+fmt.Sprintf(format, args...)))
		}
	}
	if len(matrix) == 0 {
		report("spec.matrix", "required value: name what takes several values, or leave the matrix out")
	}
	count := 1
	taken := map[string]bool{}
	for i, entry := range matrix {
		path := indexed("matrix", i)
		switch {
		case !matrixName.MatchString(entry.Name):
			report(path+".name", `invalid value: %q: a name begins with a letter and goes on with letters, digits, "-" and "_"`, entry.Name)
		case taken[entry.Name]:
			report(path+".name", "duplicate value: %q", entry.Name)
		}
		taken[entry.Name] = true
		if len(entry.Values) == 0 {
			report(path+".values", "required value: list at least one value")
		}
		seen := map[string]bool{}
		for j, value := range entry.Values {
			at := fmt.Sprintf("%s.values[%d]", path, j)
			switch value.(type) {
			case nil, map[string]any, []any:
				report(at, "expected a string, a number, true or false, found %s", describe(value))
				continue
			}
			if text := scalarText(value); seen[text] {
				report(at, "duplicate value: %q", text)
			} else {
				seen[text] = true
			}
		}
		count = min(count*len(entry.Values), maxCombinations+1)
	}
	if count > maxCombinations {
		report("spec.matrix", "more than %d combinations; leave some values out", maxCombinations)
	}
	return problems
}

// combinations returns all choices of values, the last name's changing fastest.
func combinations(matrix []MatrixEntry) []combination {
	all := []combination{{values: map[string]any{}}}
	for _, entry := range matrix {
		var longer []combination
		for _, c := range all {
			for _, value := range entry.Values {
				values := maps.Clone(c.values)
				values[entry.Name] = value
				longer = append(longer, combination{append(slices.Clone(c.names), entry.Name), values})
			}
		}
		all = longer
	}
	return all
}

// reference is $(name), or $$(name) for the text of it.
var reference = regexp.MustCompile(`\$?\$\(([^()]*)\)`)

// substitution puts the values of a combination into a document.
type substitution struct {
	combination
	doc      *document
	used     map[string]bool
	problems []Diagnostic
}

// substitute returns the document with the values of a combination in its spec, and what is wrong with the references to
// them. The places of the fields stay what they are.
func substitute(doc *document, c combination) (*document, []Diagnostic) {
	fields, _ := doc.value.(map[string]any)
	spec, ok := fields["spec"].(map[string]any)
	if !ok {
		return doc, nil
	}
	s := &substitution{combination: c, doc: doc, used: map[string]bool{}}
	replaced := make(map[string]any, len(spec))
	for _, key := range slices.Sorted(maps.Keys(spec)) {
		replaced[key] = spec[key]
		if key != "matrix" {
			replaced[key] = s.value(spec[key], "spec."+key)
		}
	}
	for i, name := range c.names {
		if !s.used[name] {
			path := indexed("matrix", i)
			s.problems = append(s.problems, doc.at(path+".name",
				fmt.Sprintf("%s: nothing in the spec refers to it: write $(%s) where its values go, or remove it", path, name)))
		}
	}
	fields = maps.Clone(fields)
	fields["spec"] = replaced
	return doc.with(fields), s.problems
}

// with returns the document with another value that has its fields in the same places.
func (d *document) with(value any) *document {
	return &document{source: d.source, text: d.text, first: d.first, value: value, spots: d.index()}
}

// value returns a value of the document, found at path, with what its references stand for.
func (s *substitution) value(value any, path string) any {
	switch v := value.(type) {
	case map[string]any:
		replaced := make(map[string]any, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			replaced[key] = s.value(v[key], join(path, key))
		}
		return replaced
	case []any:
		replaced := make([]any, len(v))
		for i, item := range v {
			replaced[i] = s.value(item, fmt.Sprintf("%s[%d]", path, i))
		}
		return replaced
	case string:
		return s.text(v, path)
	default:
		return value
	}
}

// text returns what a string stands for: a value of its own if it is nothing but a reference.
func (s *substitution) text(text, path string) any {
	if !strings.Contains(text, "$(") {
		return text
	}
	var whole any
	replaced := reference.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasPrefix(found, "$$") {
			return found[1:]
		}
		name := found[len("$(") : len(found)-len(")")]
		value, ok := s.values[name]
		if !ok {
			s.unknown(text, found, name, path)
			return found
		}
		s.used[name] = true
		if found == text {
			whole = value
		}
		return scalarText(value)
	})
	if whole != nil {
		return whole
	}
	return replaced
}

// unknown reports a reference to a name that the matrix does not have.
func (s *substitution) unknown(text, found, name, path string) {
	hint := didYouMean(name, s.names)
	switch {
	case hint != "":
		s.used[near(name, s.names)[0]] = true
	case len(s.names) == 0:
		hint = ": there is no spec.matrix"
	default:
		hint = "; there is " + quoted(s.names)
	}
	offset := utf8.RuneCountInString(text[:strings.Index(text, found)])
	at := s.doc.index().within(path, text, offset)
	message := fmt.Sprintf("%s: %s: the matrix has no such name%s (the text itself is written $$(%s))", path, found, hint, name)
	s.problems = append(s.problems, s.doc.source.at(at.line, at.column, message))
}

// common puts together what was found in the combinations of one file: what is wrong with all of them once, and what is wrong
// with some with the first of these.
func common(combinations []combination, found [][]Diagnostic) []Diagnostic {
	counts := map[Diagnostic]int{}
	for _, diagnostics := range found {
		seen := map[Diagnostic]bool{}
		for _, d := range diagnostics {
			if !seen[d] {
				counts[d]++
			}
			seen[d] = true
		}
	}
	var all []Diagnostic
	reported := map[Diagnostic]bool{}
	for i, diagnostics := range found {
		for _, d := range diagnostics {
			if reported[d] {
				continue
			}
			reported[d] = true
			if counts[d] < len(combinations) {
				d.Message += " (with " + combinations[i].String() + ")"
			}
			all = append(all, d)
		}
	}
	return all
}

// Entries returns the scenarios that the file stands for: one for each combination of the values of its matrix, in the order
// of the matrix, and the scenario itself if it has none. Whoever runs a scenario runs its entries:
//
//	for _, entry := range scenario.Entries() {
//		config, err := entry.Config(registry, nil)
//		…
//	}
func (s *Scenario) Entries() []*Scenario {
	if s.entries == nil {
		return []*Scenario{s}
	}
	return slices.Clone(s.entries)
}

// Select returns the entry with these values of the matrix, by their names; the scenario itself if it has no matrix and values
// is empty. The error names the entries that there are.
func (s *Scenario) Select(values map[string]string) (*Scenario, error) {
	for _, entry := range s.Entries() {
		if maps.Equal(entry.Values, values) {
			return entry, nil
		}
	}
	if len(values) == 0 {
		return nil, fmt.Errorf("scenario %s has a matrix: choose an entry; %s", s.Path, s.listEntries())
	}
	return nil, fmt.Errorf("scenario %s has no entry %s; %s", s.Path, valuesText(values), s.listEntries())
}

// listEntries says which entries there are to choose from.
func (s *Scenario) listEntries() string {
	if s.entries == nil {
		return "it has no matrix"
	}
	var names []string
	for _, entry := range s.entries {
		names = append(names, entry.Entry)
	}
	const most = 10
	more := ""
	if len(names) > most {
		more = fmt.Sprintf(" and %d more", len(names)-most)
		names = names[:most]
	}
	return "there is " + strings.Join(names, " | ") + more
}

// valuesText writes values of a matrix on one line, sorted by their names.
func valuesText(values map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		parts = append(parts, name+"="+values[name])
	}
	return strings.Join(parts, ",")
}
