package scenarios

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// checker compares a document with the Go type it is to be decoded into. It finds every unknown field and every value of the
// wrong type, where a decoder would stop at the first one.
type checker struct {
	doc         *document
	diagnostics []Diagnostic
	bad         map[string]bool // paths that a diagnostic is about, or explains
}

// strictDecode decodes part of a document, found at path, into a pointer. Fields that are unknown or of the wrong type are
// left out; there is a diagnostic about each, and bad holds the paths that more need not be said about.
func strictDecode(doc *document, value any, path string, into any) (diagnostics []Diagnostic, bad map[string]bool) {
	c := &checker{doc: doc, bad: map[string]bool{}}
	cleaned := c.check(value, reflect.TypeOf(into).Elem(), path)
	data, err := json.Marshal(cleaned)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		c.report(path, false, fmt.Sprintf("%s: %v", path, err))
	}
	return c.diagnostics, c.bad
}

// report adds a diagnostic about a field: about its name if byName is set, else about its value.
func (c *checker) report(path string, byName bool, message string) {
	c.bad[path] = true
	if len(c.diagnostics) >= maxProblems {
		return
	}
	at := c.doc.index().nearest(path, byName)
	c.diagnostics = append(c.diagnostics, c.doc.source.at(at.line, at.column, message))
}

// check returns the value without the parts that do not fit the type.
func (c *checker) check(value any, t reflect.Type, path string) any {
	if value == nil {
		return nil
	}
	if t.Kind() == reflect.Pointer {
		return c.check(value, t.Elem(), path)
	}
	if t == reflect.TypeFor[metav1.Duration]() {
		return c.checkDuration(value, path)
	}
	if text, ok := value.(string); ok && t == reflect.TypeFor[OneOrMore]() {
		return []any{text}
	}
	if t == reflect.TypeFor[EventReference]() {
		return c.checkEvent(value, path)
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return c.checkUnmarshaler(value, t, path)
	}
	switch t.Kind() {
	case reflect.Struct:
		return c.checkStruct(value, t, path)
	case reflect.Map:
		if fields, ok := value.(map[string]any); ok {
			kept := make(map[string]any, len(fields))
			for _, key := range slices.Sorted(maps.Keys(fields)) {
				kept[key] = c.check(fields[key], t.Elem(), join(path, key))
			}
			return kept
		}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return c.checkBytes(value, path)
		}
		if items, ok := value.([]any); ok {
			kept := make([]any, len(items))
			for i, item := range items {
				kept[i] = c.check(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i))
			}
			return kept
		}
	case reflect.Interface:
		return value
	default:
		if fitsScalar(value, t) {
			return value
		}
	}
	return c.mismatch(value, t, path)
}

// checkStruct checks a mapping against the fields of a struct.
func (c *checker) checkStruct(value any, t reflect.Type, path string) any {
	fields, ok := value.(map[string]any)
	if !ok {
		return c.mismatch(value, t, path)
	}
	known := map[string]reflect.Type{}
	jsonFields(t, known)
	kept := make(map[string]any, len(fields))
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if fieldType, ok := known[key]; ok {
			if value := c.check(fields[key], fieldType, join(path, key)); value != nil { // null is the same as nothing
				kept[key] = value
			}
			continue
		}
		c.unknownField(key, slices.Sorted(maps.Keys(known)), fields, path)
	}
	return kept
}

// unknownField reports a key that the mapping at path must not have. If it is a slip of another that is missing, the missing
// one is not worth a word of its own.
func (c *checker) unknownField(key string, known []string, fields map[string]any, path string) {
	if len(c.diagnostics) >= maxProblems {
		return
	}
	hint := ""
	if meant := near(key, known); len(meant) > 0 {
		hint = fmt.Sprintf(", did you mean %q?", meant[0])
		if _, ok := fields[meant[0]]; !ok {
			c.bad[join(path, meant[0])] = true
		}
	} else if len(known) > 0 && len(known) <= 12 {
		hint = "; the fields here are " + strings.Join(known, ", ")
	}
	c.report(join(path, key), true, join(path, key)+": unknown field"+hint)
}

// jsonFields adds the fields that encoding/json sees in a struct, by their names in JSON.
func jsonFields(t reflect.Type, known map[string]reflect.Type) {
	for field := range t.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "-" || !field.IsExported():
		case name == "" && field.Anonymous:
			jsonFields(field.Type, known)
		case name == "":
			known[field.Name] = field.Type
		default:
			known[name] = field.Type
		}
	}
}

// checkDuration checks a duration as the API writes it.
func (c *checker) checkDuration(value any, path string) any {
	if s, ok := value.(string); ok {
		if _, err := time.ParseDuration(s); err == nil {
			return value
		}
	}
	message := `%s: expected a duration, found %s: write numbers with their units, like "500ms", "20s" or "1h30m"`
	c.report(path, false, fmt.Sprintf(message, path, describe(value)))
	return nil
}

// checkUnmarshaler checks a value whose type decodes itself.
func (c *checker) checkUnmarshaler(value any, t reflect.Type, path string) any {
	data, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(data, reflect.New(t).Interface())
	}
	if err != nil {
		c.report(path, false, fmt.Sprintf("%s: %s is not a valid %s: %v", path, describe(value), t.Name(), err))
		return nil
	}
	return value
}

// checkEvent checks an event of a schedule, which is a name or a selector.
func (c *checker) checkEvent(value any, path string) any {
	switch value.(type) {
	case string:
		return value
	case map[string]any:
		return c.checkStruct(value, reflect.TypeFor[EventSelector](), path)
	}
	c.report(path, false, fmt.Sprintf("%s: expected the name of an event, or a selector, found %s", path, describe(value)))
	return nil
}

// checkBytes checks base64, which is how JSON has bytes.
func (c *checker) checkBytes(value any, path string) any {
	if s, ok := value.(string); ok {
		if _, err := base64.StdEncoding.DecodeString(s); err == nil {
			return value
		}
	}
	c.report(path, false, fmt.Sprintf("%s: expected bytes in base64, found %s", path, describe(value)))
	return nil
}

// fitsScalar reports whether a value can be decoded into a string, number or bool of that type.
func fitsScalar(value any, t reflect.Type) bool {
	switch v := value.(type) {
	case string:
		return t.Kind() == reflect.String
	case bool:
		return t.Kind() == reflect.Bool
	case json.Number:
		if t.Kind() == reflect.Float32 || t.Kind() == reflect.Float64 {
			_, err := strconv.ParseFloat(string(v), t.Bits())
			return err == nil
		}
		if reflect.Zero(t).CanInt() {
			_, err := strconv.ParseInt(string(v), 10, t.Bits())
			return err == nil
		}
		if reflect.Zero(t).CanUint() {
			_, err := strconv.ParseUint(string(v), 10, t.Bits())
			return err == nil
		}
	}
	return false
}

// mismatch reports a value of the wrong type, and returns what takes its place.
func (c *checker) mismatch(value any, t reflect.Type, path string) any {
	message := fmt.Sprintf("%s: expected %s, found %s", path, typeName(t), describe(value))
	if path == "" {
		message = fmt.Sprintf("expected %s, found %s", typeName(t), describe(value))
	}
	if t.Kind() == reflect.String {
		switch value.(type) {
		case json.Number, bool:
			message += ": write it in quotes"
		}
	}
	c.report(path, false, message)
	return nil
}

// typeName says in the words of YAML what a type is written as.
func typeName(t reflect.Type) string {
	if t == reflect.TypeFor[OneOrMore]() {
		return "a string or a list of strings"
	}
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		return "a mapping"
	case reflect.Slice:
		return "a list"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	default:
		return fmt.Sprintf("an integer (%d bits)", t.Bits())
	}
}

// describe says in the words of YAML what a value is.
func describe(value any) string {
	switch v := value.(type) {
	case nil:
		return "nothing"
	case map[string]any:
		return "a mapping"
	case []any:
		return "a list"
	case string:
		const most = 60
		if runes := []rune(v); len(runes) > most {
			v = string(runes[:most]) + "…"
		}
		return fmt.Sprintf("the string %q", v)
	case json.Number:
		return "the number " + string(v)
	default:
		return fmt.Sprintf("%v", v)
	}
}
