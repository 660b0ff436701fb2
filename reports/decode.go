package reports

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// decoder reads values of a document from what package json made of it, numbers being [json.Number].
type decoder struct {
	// tables are the entries of each table, and made what was made of those that something refers to.
	tables map[string][]any
	made   map[string][]reflect.Value
}

// into sets a value to what a document has at a path, which errors begin with.
func (d *decoder) into(path string, v reflect.Value, data any) error {
	if name := tableOf(v.Type()); name != "" {
		return d.reference(path, name, v, data)
	}
	switch v.Type() {
	case durationType:
		return d.duration(path, v, data)
	case eventType:
		return d.event(path, v, data)
	}
	switch v.Kind() {
	case reflect.Bool:
		set, ok := data.(bool)
		if !ok {
			return unexpected(path, "true or false", data)
		}
		v.SetBool(set)
	case reflect.Int, reflect.Int64:
		number, ok := data.(json.Number)
		n, err := strconv.ParseInt(number.String(), 10, 64)
		if !ok || err != nil || v.OverflowInt(n) {
			return unexpected(path, "a whole number", data)
		}
		v.SetInt(n)
	case reflect.Uint64:
		text, _ := data.(string)
		n, err := strconv.ParseUint(text, 16, 64)
		if err != nil || text != fmt.Sprintf(hashFormat, n) {
			return unexpected(path, "a hash of 16 hexadecimal digits", data)
		}
		v.SetUint(n)
	case reflect.String:
		text, err := textOf(path, data)
		v.SetString(text)
		return err
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return d.into(path, v.Elem(), data)
	case reflect.Struct:
		return d.fields(path, v, data)
	case reflect.Slice:
		return d.list(path, v, data)
	case reflect.Map:
		return d.words(path, v, data)
	default:
		panic(fmt.Sprintf("a %s has no form in JSON", v.Type()))
	}
	return nil
}

// unexpected says that a document has something else at a path than what belongs there.
func unexpected(path, want string, data any) error {
	got := "an object"
	switch value := data.(type) {
	case nil:
		got = "null"
	case []any:
		got = "a list"
	case map[string]any:
	default:
		got = shorten(fmt.Sprintf("%q", fmt.Sprint(value)), maxValue)
	}
	return fmt.Errorf("%s: want %s, not %s", path, want, got)
}

func textOf(path string, data any) (string, error) {
	if text, ok := data.(string); ok {
		return text, nil
	}
	if fields, ok := data.(map[string]any); ok && len(fields) == 1 {
		text, isText := fields[base64Text].(string)
		if decoded, err := base64.StdEncoding.DecodeString(text); isText && err == nil {
			return string(decoded), nil
		}
	}
	return "", unexpected(path, "a text", data)
}

func (d *decoder) duration(path string, v reflect.Value, data any) error {
	text, _ := data.(string)
	span, err := time.ParseDuration(text)
	if err != nil {
		return unexpected(path, `a time such as "1m2.5s"`, data)
	}
	v.SetInt(int64(span))
	return nil
}

func (d *decoder) event(path string, v reflect.Value, data any) error {
	if _, ok := data.(map[string]any); ok {
		return d.fields(path, v, data)
	}
	text, ok := data.(string)
	if !ok {
		return unexpected(path, "the name of an event", data)
	}
	event, err := parseEvent(text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	v.Set(reflect.ValueOf(event))
	return nil
}

// fields reads a struct. A field that it does not have is an error: whoever wrote it meant something by it.
func (d *decoder) fields(path string, v reflect.Value, data any) error {
	written, ok := data.(map[string]any)
	if !ok {
		return unexpected(path, "an object", data)
	}
	known := map[string]reflect.Value{}
	collectFields(known, v)
	for _, name := range slices.Sorted(maps.Keys(written)) {
		field, ok := known[name]
		if !ok {
			return fmt.Errorf("%s.%s: there is no such field: a newer stalemate may have written it, so render it with that", path, name)
		}
		if err := d.into(path+"."+name, field, written[name]); err != nil {
			return err
		}
	}
	return nil
}

func collectFields(known map[string]reflect.Value, v reflect.Value) {
	for i := range v.NumField() {
		if field := v.Type().Field(i); field.Anonymous && field.Type.Kind() == reflect.Struct {
			collectFields(known, v.Field(i))
		} else {
			known[fieldName(field)] = v.Field(i)
		}
	}
}

func (d *decoder) list(path string, v reflect.Value, data any) error {
	items, ok := data.([]any)
	if !ok {
		return unexpected(path, "a list", data)
	}
	v.Set(reflect.MakeSlice(v.Type(), len(items), len(items)))
	for i, item := range items {
		if err := d.into(fmt.Sprintf("%s[%d]", path, i), v.Index(i), item); err != nil {
			return err
		}
	}
	return nil
}

// words reads a map of texts.
func (d *decoder) words(path string, v reflect.Value, data any) error {
	written, ok := data.(map[string]any)
	if !ok {
		return unexpected(path, "an object", data)
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(written)))
	for _, key := range slices.Sorted(maps.Keys(written)) {
		text, err := textOf(path+"."+key, written[key])
		if err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf(key), reflect.ValueOf(text))
	}
	return nil
}

// reference reads the index of something in its table, which is read when something refers to it for the first time.
func (d *decoder) reference(path, name string, v reflect.Value, data any) error {
	number, _ := data.(json.Number)
	entries := d.tables[name]
	at, err := strconv.Atoi(number.String())
	if err != nil || at < 0 || at >= len(entries) {
		return unexpected(path, fmt.Sprintf("an index of %s, of which there are %d", name, len(entries)), data)
	}
	if d.made[name] == nil {
		d.made[name] = make([]reflect.Value, len(entries))
	}
	if made := d.made[name][at]; made.IsValid() {
		v.Set(made)
		return nil
	}
	var made reflect.Value
	place := fmt.Sprintf("%s[%d]", name, at)
	if v.Type() == objectType {
		object, err := d.object(place, entries[at])
		if err != nil {
			return err
		}
		made = reflect.ValueOf(object)
	} else {
		made = reflect.New(v.Type().Elem())
		if err := d.into(place, made.Elem(), entries[at]); err != nil {
			return err
		}
	}
	d.made[name][at] = made
	v.Set(made)
	return nil
}

// object reads an object of the API. Reports look at objects as JSON, so it does not matter that it has lost its Go type.
func (d *decoder) object(path string, data any) (apiserver.Object, error) {
	content, ok := plainValue(data).(map[string]any)
	if !ok {
		return nil, unexpected(path, "an object", data)
	}
	if _, ok := content["metadata"].(map[string]any); !ok && content["metadata"] != nil {
		return nil, unexpected(path+".metadata", "an object", content["metadata"])
	}
	return &unstructured.Unstructured{Object: content}, nil
}

// plainValue makes the numbers in a value what they are in an unstructured object: int64, and float64 where they are no such.
func plainValue(data any) any {
	switch value := data.(type) {
	case json.Number:
		if n, err := value.Int64(); err == nil {
			return n
		}
		f, _ := value.Float64() // infinite if it is too large
		return f
	case []any:
		for i := range value {
			value[i] = plainValue(value[i])
		}
	case map[string]any:
		for key := range value {
			value[key] = plainValue(value[key])
		}
	}
	return data
}

// takeTables takes the tables out of a document.
func takeTables(document map[string]any) (*decoder, error) {
	d := &decoder{tables: map[string][]any{}, made: map[string][]reflect.Value{}}
	for _, table := range tables {
		entries, ok := document[table.name].([]any)
		if !ok && document[table.name] != nil {
			return nil, unexpected(table.name, "a list", document[table.name])
		}
		d.tables[table.name] = entries
		delete(document, table.name)
	}
	return d, nil
}
