package scenarios

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	goyaml "github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// maxExpanded bounds how many values the aliases of a document may stand for.
const maxExpanded = 100_000

// place is a place in a file. Line and column count from 1.
type place struct{ line, column int }

// index knows where the fields of a document stand. Fields are named as errors name them: "spec.racers[0].type"; a dot
// within a key is not told from one between two keys.
type index struct {
	doc          *document
	keys, values map[string]place
	// problems are what is wrong with the document as YAML.
	problems []Diagnostic
	merges   bool // whether there are merge keys

	anchors  map[string]ast.Node
	open     map[string]bool // anchors whose value is being walked: an alias to one of them never ends
	depth    int
	aliases  int // aliases that are being walked, one within the other
	expanded int // values seen through aliases
}

// index returns the document's index, making it when it is first asked for.
func (d *document) index() *index {
	if d.spots == nil {
		d.spots = &index{
			doc:     d,
			keys:    map[string]place{},
			values:  map[string]place{},
			anchors: map[string]ast.Node{},
			open:    map[string]bool{},
		}
		d.spots.build()
	}
	return d.spots
}

// build fills the index as far as the document can be understood.
func (ix *index) build() {
	// The parser has panicked on malformed input before (goccy/go-yaml issues 191, 479, 718). What was found until then is
	// good: the index is only there to place errors.
	defer func() { _ = recover() }()
	tokens := lexer.Tokenize(ix.doc.text)
	// The parser is recursive, and Go cannot recover from a stack that overflows: nesting is checked before.
	if tk := tooDeep(tokens); tk != nil {
		ix.problem(tk, fmt.Sprintf("nested deeper than %d levels", maxDepth))
		return
	}
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		var syntax goyaml.Error
		if errors.As(err, &syntax) && syntax.GetToken() != nil {
			ix.problem(syntax.GetToken(), "invalid YAML: "+syntax.GetMessage())
		}
		return
	}
	for _, doc := range file.Docs {
		if doc.Body != nil {
			ix.walk(doc.Body, "", false)
		}
	}
}

// tooDeep returns the first token that opens one level too many, or nil. Within brackets every bracket is a level; outside
// them, every open column that holds a key or a dash.
func tooDeep(tokens token.Tokens) *token.Token {
	brackets := 0
	var columns []int
	for _, tk := range tokens {
		switch tk.Type {
		case token.SequenceStartType, token.MappingStartType:
			brackets++
		case token.SequenceEndType, token.MappingEndType:
			brackets = max(brackets-1, 0)
		case token.SequenceEntryType, token.MappingKeyType, token.MappingValueType:
			if brackets > 0 {
				break
			}
			for len(columns) > 0 && columns[len(columns)-1] >= tk.Position.Column {
				columns = columns[:len(columns)-1]
			}
			columns = append(columns, tk.Position.Column)
		}
		// Colons may stand left of those they are nested in, so not every level in lines of their own is counted. Those
		// need one more column each, in every line below: a file has room for a few thousand of them, which the stack
		// can hold. The value's own depth is checked exactly.
		if brackets+len(columns) > maxDepth {
			return tk
		}
	}
	return nil
}

// problem records something that is wrong with the document as YAML.
func (ix *index) problem(tk *token.Token, message string) {
	if len(ix.problems) >= maxProblems {
		return
	}
	at := ix.place(tk)
	ix.problems = append(ix.problems, ix.doc.source.at(at.line, at.column, message))
}

// place returns where a token stands in the file.
func (ix *index) place(tk *token.Token) place {
	line := min(max(tk.Position.Line+ix.doc.first, 1), len(ix.doc.source.lines))
	return place{line: line, column: max(tk.Position.Column, 1)}
}

// walk records the places of a node, whose path is given, and of all below it. A weak node comes from a merge key: it does
// not replace what the mapping says itself.
func (ix *index) walk(node ast.Node, path string, weak bool) {
	if ix.aliases > 0 {
		ix.expanded++
	}
	if ix.expanded > maxExpanded || ix.depth > 2*maxDepth {
		return
	}
	ix.depth++
	defer func() { ix.depth-- }()
	ix.record(ix.values, path, node, weak)
	switch n := node.(type) {
	case *ast.MappingNode:
		ix.walkMapping(n.Values, path, weak)
	case *ast.MappingValueNode:
		ix.walkMapping([]*ast.MappingValueNode{n}, path, weak)
	case *ast.SequenceNode:
		for i, value := range n.Values {
			ix.walk(value, fmt.Sprintf("%s[%d]", path, i), weak)
		}
	case *ast.TagNode:
		ix.walk(n.Value, path, weak)
	case *ast.AnchorNode:
		name := n.Name.GetToken().Value
		ix.anchors[name] = n.Value
		ix.open[name] = true
		ix.walk(n.Value, path, weak)
		delete(ix.open, name)
	case *ast.AliasNode:
		ix.walkAlias(n, path, weak)
	}
}

// walkMapping records the places of a mapping's keys and values: first its own, then those that merge keys bring in.
func (ix *index) walkMapping(pairs []*ast.MappingValueNode, path string, weak bool) {
	seen := map[string]place{}
	for _, pair := range pairs {
		if pair.Key.IsMergeKey() {
			continue
		}
		key := keyText(pair.Key)
		at := ix.place(pair.Key.GetToken())
		if first, ok := seen[key]; ok {
			message := fmt.Sprintf("%s: duplicate key, already set in line %d", join(path, key), first.line)
			ix.problem(pair.Key.GetToken(), message)
			continue
		}
		seen[key] = at
		ix.record(ix.keys, join(path, key), pair.Key, weak)
		if pair.Value == nil || pair.Value.GetToken().Type == token.ImplicitNullType {
			ix.record(ix.values, join(path, key), pair.Key, weak)
			continue
		}
		ix.walk(pair.Value, join(path, key), weak)
	}
	for _, pair := range pairs {
		if !pair.Key.IsMergeKey() || pair.Value == nil {
			continue
		}
		ix.merges = true
		merged := []ast.Node{pair.Value}
		if list, ok := pair.Value.(*ast.SequenceNode); ok {
			merged = list.Values
		}
		for _, node := range merged {
			ix.walk(node, path, true)
		}
	}
}

// walkAlias records the places of what an alias stands for.
func (ix *index) walkAlias(alias *ast.AliasNode, path string, weak bool) {
	name := alias.Value.GetToken().Value
	if ix.open[name] {
		ix.problem(alias.Start, fmt.Sprintf("cyclic reference: *%s stands within the value of &%s itself", name, name))
		return
	}
	target, ok := ix.anchors[name]
	if !ok {
		ix.problem(alias.Start, fmt.Sprintf("unknown alias: there is no &%s before *%s", name, name))
		return
	}
	ix.aliases++
	bomb := ix.expanded <= maxExpanded
	ix.walk(target, path, weak)
	ix.aliases--
	if bomb && ix.expanded > maxExpanded && ix.aliases == 0 {
		ix.problem(alias.Start, fmt.Sprintf("*%s: aliases expand to more than %d values; write them out, or fewer of them",
			name, maxExpanded))
	}
}

// record notes the place of a node under a path.
func (ix *index) record(in map[string]place, path string, node ast.Node, weak bool) {
	if _, ok := in[path]; ok && weak {
		return
	}
	tk := node.GetToken()
	switch n := node.(type) {
	case *ast.MappingNode: // its token is the first colon, unless it is in brackets
		if !n.IsFlowStyle && len(n.Values) > 0 {
			tk = n.Values[0].Key.GetToken()
		}
	case *ast.MappingValueNode:
		tk = n.Key.GetToken()
	case *ast.LiteralNode:
		tk = n.Start
	}
	if tk != nil && tk.Position != nil {
		in[path] = ix.place(tk)
	}
}

// keyText returns a key as JSON has it.
func keyText(key ast.MapKeyNode) string {
	if explicit, ok := key.(*ast.MappingKeyNode); ok && explicit.Value != nil {
		return explicit.Value.GetToken().Value
	}
	return key.GetToken().Value
}

// join appends a key to a path.
func join(path, key string) string {
	if path == "" || key == "" {
		return path + key
	}
	return path + "." + key
}

// mapKey is a key of a map as a [field.Path] prints it, which an index never is.
var mapKey = regexp.MustCompile(`\[([^\]]*[^\]0-9][^\]]*)\]`)

// nearest returns the place of a field: of its name if byName is set, else of its value. If the document has no such field,
// it is the place of the nearest field around it.
func (ix *index) nearest(path string, byName bool) place {
	path = mapKey.ReplaceAllString(path, ".$1")
	if byName {
		if at, ok := ix.keys[path]; ok {
			return at
		}
	}
	for {
		if at, ok := ix.values[path]; ok {
			return at
		}
		if path == "" {
			return place{line: min(ix.doc.first+1, len(ix.doc.source.lines)), column: 1}
		}
		path = path[:max(strings.LastIndexAny(path, ".["), 0)]
	}
}

// within returns the place of the n-th character (from 0) of a string value. The value is found again in the text of the
// file by the characters that are not spaces, which folding and indentation do not change; where escapes get in the way, it
// is the place of the value.
func (ix *index) within(path, value string, n int) place {
	start := ix.nearest(path, false)
	if _, ok := ix.values[path]; !ok {
		return start
	}
	text := []rune(value)
	want := text[:min(max(n, 0), len(text))]
	at := cursor{lines: ix.doc.source.lines, place: start}
	switch at.rune() {
	case '|', '>':
		at.place = place{line: start.line + 1, column: 1}
	case '"', '\'':
		at.column++
	}
	for _, r := range want {
		if unicode.IsSpace(r) {
			continue
		}
		if !at.find(r) {
			return start
		}
		at.column++
	}
	if n < len(text) && !unicode.IsSpace(text[max(n, 0)]) && !at.find(text[max(n, 0)]) {
		return start
	}
	return at.place
}

// cursor is a place in the text of a file that can move on.
type cursor struct {
	lines []string
	place
}

// rune returns the character at the cursor; a line feed at the end of a line, and 0 at the end of the file.
func (c *cursor) rune() rune {
	if c.line > len(c.lines) {
		return 0
	}
	line := []rune(c.lines[c.line-1])
	if c.column > len(line) {
		return '\n'
	}
	return line[c.column-1]
}

// find moves the cursor over white space, and over the first character of an escape in quotes, to the character r.
func (c *cursor) find(r rune) bool {
	for escaped := false; ; {
		switch got := c.rune(); {
		case got == r:
			return true
		case got == '\n':
			c.line, c.column = c.line+1, 1
		case unicode.IsSpace(got):
			c.column++
		case (got == '\\' || got == '\'') && !escaped:
			escaped = true
			c.column++
		default:
			return false
		}
	}
}
