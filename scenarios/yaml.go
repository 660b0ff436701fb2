package scenarios

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// yamlWidth is how wide files are written, in characters.
const yamlWidth = 120

// yamlNode is a value to be written: a mapping, a list, or a string that is written as it is if it is not text.
type yamlNode struct {
	fields []yamlField
	items  []*yamlNode
	scalar string
	kind   yamlKind
}

type yamlKind int

const (
	yamlText yamlKind = iota // a string
	yamlWord                 // a number, true or false, or a duration: it needs no quotes
	yamlMapping
	yamlList
)

type yamlField struct {
	key   string
	value *yamlNode
}

// nodeOf returns what a value of the format's types is written as, nil if it is left out because it is empty. Fields stand in
// the order of their types, keys of maps in that of the alphabet.
func nodeOf(v reflect.Value) *yamlNode {
	switch value := v.Interface().(type) {
	case metav1.Duration:
		return &yamlNode{kind: yamlWord, scalar: durationText(value.Duration)}
	case OneOrMore:
		if len(value) == 1 {
			return &yamlNode{scalar: value[0]}
		}
	case EventReference:
		if value.Selector != nil {
			return nodeOf(reflect.ValueOf(*value.Selector))
		}
		return &yamlNode{scalar: value.Name}
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return present(v.Elem())
	case reflect.Struct:
		return structNode(v)
	case reflect.Map:
		return mapNode(v)
	case reflect.Slice:
		list := &yamlNode{kind: yamlList}
		for i := range v.Len() {
			list.items = append(list.items, present(v.Index(i)))
		}
		return unlessEmpty(list, v.Len())
	case reflect.String:
		return unlessEmpty(&yamlNode{scalar: v.String()}, v.Len())
	default: // numbers and bool
		if v.IsZero() {
			return nil
		}
		return &yamlNode{kind: yamlWord, scalar: fmt.Sprint(v.Interface())}
	}
}

// present is like nodeOf for a value that is written even if it is empty: one that is pointed to, or in a list.
func present(v reflect.Value) *yamlNode {
	if node := nodeOf(v); node != nil {
		return node
	}
	switch v.Kind() {
	case reflect.Struct, reflect.Map:
		return &yamlNode{kind: yamlMapping}
	case reflect.Slice:
		return &yamlNode{kind: yamlList}
	case reflect.String:
		return &yamlNode{}
	default:
		return &yamlNode{kind: yamlWord, scalar: fmt.Sprint(v.Interface())}
	}
}

func unlessEmpty(node *yamlNode, n int) *yamlNode {
	if n == 0 {
		return nil
	}
	return node
}

func structNode(v reflect.Value) *yamlNode {
	mapping := &yamlNode{kind: yamlMapping}
	for field, value := range v.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		node := nodeOf(value)
		switch {
		case node == nil:
		case name == "" && field.Anonymous:
			mapping.fields = append(mapping.fields, node.fields...)
		default:
			mapping.fields = append(mapping.fields, yamlField{name, node})
		}
	}
	return unlessEmpty(mapping, len(mapping.fields))
}

func mapNode(v reflect.Value) *yamlNode {
	mapping := &yamlNode{kind: yamlMapping}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		mapping.fields = append(mapping.fields, yamlField{key.String(), present(v.MapIndex(key))})
	}
	return unlessEmpty(mapping, len(mapping.fields))
}

// durationText writes a duration without the zeros at its end: "1h30m", not "1h30m0s".
func durationText(d time.Duration) string {
	if d%time.Microsecond != 0 && d < time.Millisecond && d > -time.Millisecond {
		return fmt.Sprintf("%dns", d.Nanoseconds())
	}
	text := strings.Replace(d.String(), "µ", "u", 1)
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// yamlWriter writes nodes in the style that people write scenarios in: short mappings in braces, what is long in lines.
type yamlWriter struct{ strings.Builder }

// document writes a mapping from the first column on. The fields named are written in lines even if they are short.
func (w *yamlWriter) document(node *yamlNode, open ...string) {
	for _, f := range node.fields {
		w.field(f, 0, slices.Contains(open, f.key))
	}
}

// field writes a field at an indentation, with the line feed after it.
func (w *yamlWriter) field(f yamlField, indent int, open bool) {
	key := flowText(f.key) + ":"
	w.WriteString(strings.Repeat(" ", indent) + key)
	w.value(f.value, indent, indent+len(key)+1, open)
}

// value writes what follows a key or a dash that stands at an indentation; column is where it would go on in the same line.
func (w *yamlWriter) value(node *yamlNode, indent, column int, open bool) {
	flow, short := node.flow()
	short = short && column+utf8.RuneCountInString(flow) <= yamlWidth
	switch {
	case node.kind == yamlText:
		w.WriteString(" " + blockText(node.scalar, indent+2, yamlWidth-column) + "\n")
	case short && (!open || len(node.fields)+len(node.items) == 0):
		w.WriteString(" " + flow + "\n")
	case node.kind == yamlMapping:
		w.WriteByte('\n')
		for _, f := range node.fields {
			w.field(f, indent+2, false)
		}
	default:
		w.WriteByte('\n')
		for _, item := range node.items {
			w.item(item, indent)
		}
	}
}

// item writes an item of a list at an indentation, with the line feed after it.
func (w *yamlWriter) item(node *yamlNode, indent int) {
	w.WriteString(strings.Repeat(" ", indent) + "-")
	flow, short := node.flow()
	if node.kind != yamlMapping || short && indent+2+utf8.RuneCountInString(flow) <= yamlWidth {
		w.value(node, indent, indent+2, false)
		return
	}
	for i, f := range node.fields {
		if i == 0 { // in the line of the dash
			key := flowText(f.key) + ":"
			w.WriteString(" " + key)
			w.value(f.value, indent+2, indent+len("- ")+len(key)+1, false)
			continue
		}
		w.field(f, indent+2, false)
	}
}

// flow returns the node in one line, and whether it should be: lists of mappings, and texts of several lines, should not.
func (n *yamlNode) flow() (text string, should bool) {
	should = true
	var parts []string
	add := func(prefix string, node *yamlNode) {
		part, ok := node.flow()
		should = should && ok
		parts = append(parts, prefix+part)
	}
	switch n.kind {
	case yamlWord:
		return n.scalar, true
	case yamlText:
		return flowText(n.scalar), !strings.Contains(n.scalar, "\n")
	case yamlMapping:
		for _, f := range n.fields {
			add(flowText(f.key)+": ", f.value)
		}
		return "{" + strings.Join(parts, ", ") + "}", should
	default:
		for _, item := range n.items {
			add("", item)
			should = should && item.kind != yamlMapping
		}
		return "[" + strings.Join(parts, ", ") + "]", should
	}
}

// plainText is text that needs no quotes anywhere, and is no number either.
var plainText = regexp.MustCompile(`^(\.\.?/|/)?[A-Za-z_][A-Za-z0-9_./()\-]*( [A-Za-z0-9_./()\-]+)*$`)

// yamlWords are text that YAML 1.1 takes for something else, in lower case.
var yamlWords = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}

// flowText returns a string in one line, with quotes if it needs them.
func flowText(text string) string {
	if plainText.MatchString(text) && !slices.Contains(yamlWords, strings.ToLower(text)) {
		return text
	}
	return strconv.Quote(text)
}

// isPlain reports whether a string outside braces needs no quotes.
func isPlain(text string) bool {
	return blockPlain.MatchString(text) && isPrintable(text) && !strings.Contains(text, ": ") && !strings.Contains(text, " #") &&
		!slices.Contains(yamlWords, strings.ToLower(text))
}

// blockPlain begins like text, and ends like no key.
var blockPlain = regexp.MustCompile(`^[A-Za-z_](.*[^ :])?$`)

// blockText returns a string outside braces, with further lines at an indentation. The first line has room for so many
// characters.
func blockText(text string, indent, room int) string {
	quoted := flowText(text)
	margin := "\n" + strings.Repeat(" ", indent)
	switch {
	case isPlain(text) && utf8.RuneCountInString(text) <= room:
		return text
	case isLiteral(text):
		indicator := "|-"
		if body, ended := strings.CutSuffix(text, "\n"); ended {
			indicator, text = "|", body
		}
		return indicator + margin + strings.ReplaceAll(text, "\n", margin)
	case isFolded(text) && (utf8.RuneCountInString(quoted) > room || strings.Contains(quoted, `\`)):
		return ">-" + margin + strings.Join(fold(text, yamlWidth-indent), margin)
	default:
		return quoted
	}
}

// isLiteral reports whether a text can be written line by line; blanks at the end of a line would not be seen.
func isLiteral(text string) bool {
	body := strings.TrimSuffix(text, "\n")
	return strings.Contains(text, "\n") && body != "" && body[0] != ' ' && body[0] != '\n' && body[len(body)-1] != '\n' &&
		!strings.Contains(body, "\n\n") && !strings.Contains(text+"\n", " \n") && isPrintable(strings.ReplaceAll(text, "\n", ""))
}

// isFolded reports whether a text of one line can be written with line feeds in place of single blanks.
func isFolded(text string) bool {
	return text != "" && text[0] != ' ' && text[len(text)-1] != ' ' && strings.Contains(text, " ") && isPrintable(text)
}

func isPrintable(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// fold breaks a text at single blanks, so that lines are no longer than a width where there is one.
func fold(text string, width int) []string {
	var lines []string
	for utf8.RuneCountInString(text) > width {
		cut := -1
		for i := 1; i < len(text)-1; i++ {
			if text[i] != ' ' || text[i-1] == ' ' || text[i+1] == ' ' {
				continue
			}
			if cut >= 0 && utf8.RuneCountInString(text[:i]) > width {
				break
			}
			cut = i
		}
		if cut < 0 {
			break
		}
		lines = append(lines, text[:cut])
		text = text[cut+1:]
	}
	return append(lines, text)
}
