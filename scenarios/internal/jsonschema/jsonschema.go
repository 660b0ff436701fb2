// Package jsonschema is the part of JSON Schema, draft 7, that the schemas of our files are written in.
package jsonschema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Draft is the version of JSON Schema. Editors know it best of all.
const Draft = "http://json-schema.org/draft-07/schema#"

// definitions is what references into a schema begin with.
const definitions = "#/definitions/"

// The names of types.
const (
	Array   = "array"
	Boolean = "boolean"
	Integer = "integer"
	Number  = "number"
	Object  = "object"
	String  = "string"
)

// Schema says what a value may be. A keyword that is not set allows everything.
type Schema struct {
	Schema      string `json:"$schema,omitempty"`
	ID          string `json:"$id,omitempty"`
	Ref         string `json:"$ref,omitempty"` // beside it nothing else counts
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
	Default     any    `json:"default,omitempty"`

	Type  string `json:"type,omitempty"`
	Const any    `json:"const,omitempty"`
	Enum  []any  `json:"enum,omitempty"`
	// EnumDescriptions say what each value of Enum means. Validators pass them over, editors show them.
	EnumDescriptions []string `json:"enumDescriptions,omitempty"`

	Pattern   string `json:"pattern,omitempty"`
	MinLength int    `json:"minLength,omitempty"`
	MaxLength int    `json:"maxLength,omitempty"`

	Minimum *int64 `json:"minimum,omitempty"`
	Maximum *int64 `json:"maximum,omitempty"`

	Items       *Schema `json:"items,omitempty"`
	MinItems    int     `json:"minItems,omitempty"`
	UniqueItems bool    `json:"uniqueItems,omitempty"`

	Required      []string   `json:"required,omitempty"`
	Properties    Properties `json:"properties,omitzero"`
	MinProperties int        `json:"minProperties,omitempty"`
	// AdditionalProperties is false, or the schema of the values.
	AdditionalProperties *Additional `json:"additionalProperties,omitempty"`

	If    *Schema   `json:"if,omitempty"`
	Then  *Schema   `json:"then,omitempty"`
	Not   *Schema   `json:"not,omitempty"`
	AllOf []*Schema `json:"allOf,omitempty"`
	AnyOf []*Schema `json:"anyOf,omitempty"`
	OneOf []*Schema `json:"oneOf,omitempty"`

	Definitions Properties `json:"definitions,omitzero"`
}

// Refer returns the schema that is a definition.
func Refer(name string) *Schema { return &Schema{Ref: definitions + name} }

// Definition returns the name of the definition that a schema refers to, alone or with a description beside; empty if to none.
func (s *Schema) Definition() string {
	if s.Ref == "" && len(s.AllOf) > 0 {
		s = s.AllOf[0]
	}
	return strings.TrimPrefix(s.Ref, definitions)
}

// Open returns the schema in a form that more keywords can be added to: beside $ref they would not count.
func (s *Schema) Open() *Schema {
	if s.Ref == "" {
		return s
	}
	return &Schema{AllOf: []*Schema{s}}
}

// Properties are schemas by names, in an order that is kept.
type Properties []Property

// Property is one of them.
type Property struct {
	Name   string
	Schema *Schema
}

// Get returns the schema of a name, nil if there is none.
func (p Properties) Get(name string) *Schema {
	for _, property := range p {
		if property.Name == name {
			return property.Schema
		}
	}
	return nil
}

// MarshalJSON implements [json.Marshaler].
func (p Properties) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, property := range p {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(property.Name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(property.Schema)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// UnmarshalJSON implements [json.Unmarshaler].
func (p *Properties) UnmarshalJSON(data []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if start, err := decoder.Token(); err != nil || start != json.Delim('{') {
		return fmt.Errorf("schemas by names: expected an object, found %v: %w", start, err)
	}
	for decoder.More() {
		name, err := decoder.Token() // in an object, a string
		if err != nil {
			return err
		}
		property := Property{Name: name.(string)}
		if err := decoder.Decode(&property.Schema); err != nil {
			return fmt.Errorf("%s: %w", property.Name, err)
		}
		*p = append(*p, property)
	}
	return nil
}

// Additional says what properties there may be beside those with names: none, or those that fit a schema.
type Additional struct{ Schema *Schema }

// None are no further properties.
func None() *Additional { return &Additional{} }

// MarshalJSON implements [json.Marshaler].
func (a Additional) MarshalJSON() ([]byte, error) {
	if a.Schema == nil {
		return []byte("false"), nil
	}
	return json.Marshal(a.Schema)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (a *Additional) UnmarshalJSON(data []byte) error {
	if string(data) == "false" {
		return nil
	}
	return json.Unmarshal(data, &a.Schema)
}
