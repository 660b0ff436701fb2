package reports

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// The JSON of a document is made of the Go types of packages history, property and schedule, field by field: a name begins with
// a lower-case letter, what is zero or empty is left out, fields of an embedded struct stand among those around it. Beside that:
//
//   - a time.Duration is a text such as "1m2.5s", a uint64, which is a hash, 16 hexadecimal digits;
//   - an event is its name, with the first start of a process written out: "operator[1] Update StatefulSet default/web #2";
//   - what several may refer to stands once, in a table at the end of the document, and a reference is its index there;
//   - a text that is no UTF-8 is {"base64": "…"}.
//
// So a field that is renamed changes the format: the golden files tell. What is new can be added, but a reader from before refuses
// it.

var (
	durationType = reflect.TypeFor[time.Duration]()
	eventType    = reflect.TypeFor[schedule.Event]()
	objectType   = reflect.TypeFor[apiserver.Object]()
)

// objectTable is the name of the table of objects.
const objectTable = "objects"

// tables are the types that stand in a table of their own, by its name, in the order in which they are written: what refers to
// others before those. Pointers that were equal before are equal after.
var tables = []struct {
	of   reflect.Type
	name string
}{
	{reflect.TypeFor[*history.History](), "runs"},
	{reflect.TypeFor[*schedule.Schedule](), "schedules"},
	{reflect.TypeFor[*property.Definition](), "properties"},
	{objectType, objectTable},
}

// tableOf returns the name of the table that values of a type stand in, empty if in none.
func tableOf(t reflect.Type) string {
	for _, table := range tables {
		if table.of == t {
			return table.name
		}
	}
	return ""
}

// fieldName returns the name that a field of a struct has in JSON.
func fieldName(f reflect.StructField) string {
	first, size := utf8.DecodeRuneInString(f.Name)
	return string(unicode.ToLower(first)) + f.Name[size:]
}

// table is what refers to one type, in the making.
type table struct {
	entries [][]byte
	// index finds an entry by the pointer, and byText an object by its content: reads of one state give pointers of their own.
	index  map[any]int
	byText map[string]int
}

// encoder writes values as JSON.
type encoder struct {
	tables map[string]*table
	failed error // the first
	// depth counts the lists of structs around; the outer ones have a line for each item.
	depth int
}

// maxLineDepth is how deep lists of structs have a line for each item.
const maxLineDepth = 2

func newEncoder() *encoder {
	e := &encoder{tables: map[string]*table{}}
	for _, t := range tables {
		e.tables[t.name] = &table{index: map[any]int{}, byText: map[string]int{}}
	}
	return e
}

// value appends a value.
func (e *encoder) value(b []byte, v reflect.Value) []byte {
	if name := tableOf(v.Type()); name != "" {
		return strconv.AppendInt(b, int64(e.reference(name, v)), 10)
	}
	switch v.Type() {
	case durationType:
		return strconv.AppendQuote(b, time.Duration(v.Int()).String())
	case eventType:
		return e.event(b, v)
	}
	switch v.Kind() {
	case reflect.Bool:
		return strconv.AppendBool(b, v.Bool())
	case reflect.Int, reflect.Int64:
		return strconv.AppendInt(b, v.Int(), 10)
	case reflect.Uint64:
		return fmt.Appendf(b, "%q", fmt.Sprintf(hashFormat, v.Uint()))
	case reflect.String:
		return e.text(b, v.String())
	case reflect.Pointer:
		return e.value(b, v.Elem())
	case reflect.Struct:
		return e.fields(b, v)
	case reflect.Slice:
		return e.list(b, v)
	case reflect.Map:
		return e.json(b, v.Interface())
	default:
		panic(fmt.Sprintf("a %s has no form in JSON", v.Type()))
	}
}

// hashFormat is how hashes are written.
const hashFormat = "%016x"

// fields appends the fields of a struct that are set.
func (e *encoder) fields(b []byte, v reflect.Value) []byte {
	b = append(b, '{')
	b = bytes.TrimSuffix(e.appendFields(b, v), []byte(","))
	return append(b, '}')
}

func (e *encoder) appendFields(b []byte, v reflect.Value) []byte {
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		switch {
		case field.Anonymous && field.Type.Kind() == reflect.Struct:
			b = e.appendFields(b, value)
		case empty(value):
		default:
			b = strconv.AppendQuote(b, fieldName(field))
			b = append(b, ':')
			b = append(e.value(b, value), ',')
		}
	}
	return b
}

// empty reports whether a value is left out. A pointer says that something is there, even if that is zero.
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return v.Len() == 0
	default:
		return v.IsZero()
	}
}

// list appends the items of a list.
func (e *encoder) list(b []byte, v reflect.Value) []byte {
	item := v.Type().Elem()
	lines := item.Kind() == reflect.Struct && item != eventType && e.depth < maxLineDepth
	b = append(b, '[')
	e.depth++
	for i := range v.Len() {
		if i > 0 {
			b = append(b, ',')
		}
		if lines {
			b = append(b, '\n')
		}
		b = e.value(b, v.Index(i))
	}
	e.depth--
	return append(b, ']')
}

// event appends an event by its name, or by its fields if the name would not be read as the same event.
func (e *encoder) event(b []byte, v reflect.Value) []byte {
	event := v.Interface().(schedule.Event)
	text := eventText(event)
	if read, err := parseEvent(text); err != nil || read != event || !utf8.ValidString(text) {
		return e.fields(b, v)
	}
	return e.text(b, text)
}

// eventText returns the name of an event. Unlike the one for people, it has the first start of a process, too, which tells
// processes from racers.
func eventText(e schedule.Event) string {
	if e.Incarnation != 1 {
		return e.String()
	}
	e.Incarnation = 2
	return strings.Replace(e.String(), "[2]", "[1]", 1) // no bracket in the actor's name comes before: it would be escaped
}

// parseEvent is the inverse of eventText.
func parseEvent(text string) (schedule.Event, error) {
	event, err := schedule.ParseEvent(text)
	if end := strings.IndexAny(text, " /(["); err == nil && end >= 0 && strings.HasPrefix(text[end:], "[1]") {
		event.Incarnation = 1
	}
	return event, err
}

// reference returns the index of what a pointer points to in its table, where it is added if it is not there yet.
func (e *encoder) reference(name string, v reflect.Value) int {
	t := e.tables[name]
	if at, known := t.index[v.Interface()]; known {
		return at
	}
	var entry []byte
	if object, ok := reflect.TypeAssert[apiserver.Object](v); ok {
		entry = e.json(nil, withoutManagers(contentOf(object)))
		if at, known := t.byText[string(entry)]; known {
			t.index[v.Interface()] = at
			return at
		}
		t.byText[string(entry)] = len(t.entries)
	}
	at := len(t.entries)
	t.index[v.Interface()] = at
	t.entries = append(t.entries, entry)
	if entry == nil {
		depth := e.depth
		e.depth = 0
		t.entries[at] = e.value(nil, v.Elem())
		e.depth = depth
	}
	return at
}

// withoutManagers returns the content of an object without its managed fields, which no report shows and which are most of it.
func withoutManagers(content map[string]any) map[string]any {
	metadata, ok := content["metadata"].(map[string]any)
	if _, managed := metadata[managedFields]; !ok || !managed {
		return content
	}
	content, metadata = maps.Clone(content), maps.Clone(metadata)
	delete(metadata, managedFields)
	content["metadata"] = metadata
	return content
}

const managedFields = "managedFields"

// text appends a text.
func (e *encoder) text(b []byte, text string) []byte {
	if !utf8.ValidString(text) {
		return e.json(b, map[string][]byte{base64Text: []byte(text)})
	}
	return e.json(b, text)
}

// base64Text is the field of a text that is no UTF-8.
const base64Text = "base64"

// json appends a value of JSON, with keys sorted, and with <, > and & as they are.
func (e *encoder) json(b []byte, v any) []byte {
	buffer := bytes.NewBuffer(b)
	encoder := json.NewEncoder(buffer)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		e.failed = cmp.Or(e.failed, err)
	}
	return bytes.TrimSuffix(buffer.Bytes(), []byte("\n"))
}
