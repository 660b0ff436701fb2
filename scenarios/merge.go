package scenarios

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// checkMerge reports what cannot be right about a step's merge patch, whatever the object is when its turn comes: fields that
// the kind does not have, which an API server drops without a word, and values of the wrong type, which it refuses. A null
// deletes a field, and fits everywhere.
func (l *loader) checkMerge(step int, kind *apiserver.Kind) {
	path := indexed("script", step) + ".patch.merge"
	merge, ok := l.doc.lookup("spec", "script", step, "patch", "merge").(map[string]any)
	if !ok {
		return // reported where the document was decoded
	}
	if !kind.Custom() {
		problems, _ := strictDecode(l.doc, merge, path, reflect.New(kind.Type).Interface())
		l.add(problems...)
		return
	}
	if metadata, ok := merge["metadata"]; ok {
		problems, _ := strictDecode(l.doc, metadata, path+".metadata", &metav1.ObjectMeta{})
		l.add(problems...)
	}
	if definition := l.definitions[kind.GroupVersionKind]; definition != nil {
		l.add(l.unknownFields(fileObject{doc: l.doc, path: path, value: merge}, definition)...)
		c := &checker{doc: l.doc, bad: map[string]bool{}}
		for _, key := range slices.Sorted(maps.Keys(merge)) {
			c.checkSchema(merge[key], subschema(definition.Schema(), key), join(path, key))
		}
		l.add(c.diagnostics...)
	}
}

// lookup returns the value found by keys (string) and positions (int) from the top of the document, or nil.
func (d *document) lookup(steps ...any) any {
	value := d.value
	for _, step := range steps {
		switch step := step.(type) {
		case string:
			fields, _ := value.(map[string]any)
			value = fields[step]
		case int:
			items, _ := value.([]any)
			if step >= len(items) {
				return nil
			}
			value = items[step]
		}
	}
	return value
}

// checkSchema reports the values that are not of the type, or not among the values, that a custom resource's schema asks for.
// What is null or has no schema is not looked at.
func (c *checker) checkSchema(value any, at *spec.Schema, path string) {
	if value == nil || at == nil {
		return
	}
	if len(at.Type) > 0 && !slices.ContainsFunc(at.Type, func(name string) bool { return isOfType(value, name) }) {
		message := fmt.Sprintf("%s: expected %s, found %s", path, schemaTypes(at.Type), describe(value))
		if at.Type.Contains("string") && isOfType(value, "number") {
			message += ": write it in quotes"
		}
		c.report(path, false, message)
		return
	}
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			c.checkSchema(v[key], subschema(at, key), join(path, key))
		}
	case []any:
		for i, item := range v {
			c.checkSchema(item, itemSchema(at), fmt.Sprintf("%s[%d]", path, i))
		}
	case string:
		c.checkEnum(v, at.Enum, path)
	}
}

// checkEnum reports a string that is not among those of an enum.
func (c *checker) checkEnum(value string, enum []any, path string) {
	var known []string
	for _, one := range enum {
		if text, ok := one.(string); ok {
			known = append(known, text)
		}
	}
	if len(enum) > 0 && !slices.Contains(known, value) {
		c.report(path, false, fmt.Sprintf("%s: expected one of %s, found %s", path, quoted(known), describe(value)))
	}
}

// isOfType reports whether a value is of a type of JSON schema.
func isOfType(value any, name string) bool {
	switch v := value.(type) {
	case map[string]any:
		return name == "object"
	case []any:
		return name == "array"
	case string:
		return name == "string"
	case bool:
		return name == "boolean"
	case json.Number:
		if name == "integer" {
			_, err := strconv.ParseInt(string(v), 10, 64)
			return err == nil
		}
		return name == "number"
	default:
		return false
	}
}

// schemaTypes says in the words of YAML what types of JSON schema are written as.
func schemaTypes(names []string) string {
	words := make([]string, len(names))
	for i, name := range names {
		switch name {
		case "object":
			words[i] = "a mapping"
		case "array":
			words[i] = "a list"
		case "string":
			words[i] = "a string"
		case "boolean":
			words[i] = "true or false"
		case "integer":
			words[i] = "an integer"
		default:
			words[i] = "a " + name
		}
	}
	return strings.Join(words, " or ")
}
