package scenarios

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/yaml"
)

// maxDepth bounds how deep a document may nest. Kubernetes objects need about 20 levels, CRD schemas about 50.
const maxDepth = 100

// source is the text of a YAML or JSON file, and the documents in it.
//
// Values are what sigs.k8s.io/yaml makes of the text, as kubectl does. Places come from goccy/go-yaml, which is asked only
// when there is something to say: see [document.index].
type source struct {
	name  string // as errors name the file
	lines []string
	docs  []*document
}

// document is one YAML document of a file.
type document struct {
	source *source
	text   string
	first  int // lines of the file before the text
	// value is the document as JSON: nil, bool, json.Number, string, []any or map[string]any.
	value any
	spots *index // made when first asked for
}

// at makes a diagnostic about a place of the file. Line and column count from 1; a line of 0 means the file as a whole.
func (s *source) at(line, column int, message string) Diagnostic {
	return Diagnostic{File: s.name, Line: line, Column: column, Message: message, Snippet: snippet(s.lines, line, column)}
}

// parseSource reads the documents of a file. Documents that are empty, or only comments, are left out. So are those that are
// no YAML, with at least one diagnostic each; one that only sets a key twice is kept, with a diagnostic.
func parseSource(name string, data []byte) (*source, []Diagnostic) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	s := &source{name: name}
	if i := binaryOffset(data); i >= 0 {
		message := fmt.Sprintf("not a text file: byte %d is %#02x; a scenario and its objects are YAML or JSON in UTF-8", i+1, data[i])
		return s, []Diagnostic{s.at(0, 0, message)}
	}
	s.lines = strings.Split(string(data), "\n")
	var diagnostics []Diagnostic
	for _, doc := range s.split() {
		problems := doc.parse()
		diagnostics = append(diagnostics, problems...)
		if doc.value != nil {
			s.docs = append(s.docs, doc)
		}
	}
	return s, diagnostics
}

// binaryOffset returns the offset of the first byte that no text file has, or -1.
func binaryOffset(data []byte) int {
	for i := 0; i < len(data); {
		r, size := utf8.DecodeRune(data[i:])
		if r == 0 || r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return -1
}

// split cuts the file into documents before each line that begins with "---", as kubectl does.
func (s *source) split() []*document {
	var docs []*document
	start := 0
	cut := func(end int) {
		if text := strings.Join(s.lines[start:end], "\n"); strings.TrimSpace(text) != "" {
			docs = append(docs, &document{source: s, text: text + "\n", first: start})
		}
		start = end
	}
	for i, line := range s.lines {
		if i > 0 && (strings.TrimRight(line, " \t\r") == "---" || strings.HasPrefix(line, "--- ")) {
			cut(i)
		}
	}
	cut(len(s.lines))
	return docs
}

// parse sets the document's value, if it has one, and returns what is wrong with it as YAML.
func (d *document) parse() []Diagnostic {
	var problems []Diagnostic
	data, err := yaml.YAMLToJSONStrict([]byte(d.text))
	if err != nil {
		lenient, fatal := yaml.YAMLToJSON([]byte(d.text))
		if fatal != nil {
			return d.syntaxErrors(err)
		}
		// Only keys are set twice. The strict form takes one that replaces a merged one for a duplicate, too.
		data = lenient
		if len(d.index().problems) > 0 || !d.index().merges {
			problems = d.syntaxErrors(err)
		}
	}
	var value any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&value); err != nil {
		return d.syntaxErrors(err)
	}
	if deeper(value, maxDepth) {
		return d.syntaxErrors(fmt.Errorf("nested deeper than %d levels", maxDepth))
	}
	d.value = value
	return problems
}

// deeper reports whether the value nests deeper than so many levels.
func deeper(value any, levels int) bool {
	switch v := value.(type) {
	case map[string]any:
		for _, child := range v {
			if levels == 0 || deeper(child, levels-1) {
				return true
			}
		}
	case []any:
		for _, child := range v {
			if levels == 0 || deeper(child, levels-1) {
				return true
			}
		}
	}
	return false
}

// yamlLine finds the line that an error of sigs.k8s.io/yaml speaks of.
var yamlLine = regexp.MustCompile(`line (\d+): `)

// syntaxErrors says where the document is not YAML: with the places goccy/go-yaml finds if it agrees that something is
// wrong, and with the line of err if it does not.
func (d *document) syntaxErrors(err error) []Diagnostic {
	if problems := d.index().problems; len(problems) > 0 {
		return problems
	}
	message := err.Error()
	if i := strings.LastIndex(message, "\n"); i >= 0 {
		message = strings.TrimSpace(message[i+1:])
	}
	message = strings.TrimPrefix(message, "error converting YAML to JSON: ")
	message = strings.TrimPrefix(message, "yaml: ")
	line := 1
	if m := yamlLine.FindStringSubmatchIndex(message); m != nil {
		line, _ = strconv.Atoi(message[m[2]:m[3]])
		message = message[:m[0]] + message[m[1]:]
	}
	line = min(max(line+d.first, 1), len(d.source.lines))
	column := 1 + len(d.source.lines[line-1]) - len(strings.TrimLeft(d.source.lines[line-1], " "))
	return []Diagnostic{d.source.at(line, column, "invalid YAML: "+message)}
}

// at makes a diagnostic about a field of the document: "spec.racers[0].type". If it is not there, it is about the nearest
// field around it.
func (d *document) at(path, message string) Diagnostic {
	place := d.index().nearest(path, false)
	return d.source.at(place.line, place.column, message)
}
