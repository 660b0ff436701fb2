package property

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// ofResource returns the shape of a custom resource, or of a resource embedded in one.
func (s *shapes) ofResource(name string, schema *spec.Schema) *shape {
	o := s.object(name)
	s.addProperties(o, name, schema)
	o.add(&field{name: "apiVersion", shape: stringShape})
	o.add(&field{name: "kind", shape: stringShape})
	o.add(&field{name: "metadata", shape: s.ofGo(reflect.TypeFor[metav1.ObjectMeta]())})
	return o
}

func (s *shapes) addProperties(o *shape, name string, schema *spec.Schema) {
	for property, sub := range schema.Properties {
		o.add(&field{name: property, shape: s.ofSchema(name+"."+property, &sub)})
	}
}

// ofSchema returns the shape of a structural schema, in the way of k8s.io/apiserver/pkg/cel/common.SchemaDeclType. Other
// than there, what has no schema is dyn and not hidden, as properties are to judge what the operator stored there.
func (s *shapes) ofSchema(name string, schema *spec.Schema) *shape {
	if extension(schema, "x-kubernetes-int-or-string") {
		return dynShape
	}
	if extension(schema, "x-kubernetes-embedded-resource") {
		return s.ofResource(name, schema)
	}
	if len(schema.Type) == 0 {
		return dynShape
	}
	switch schema.Type[0] {
	case "boolean":
		return boolShape
	case "integer":
		return intShape
	case "number":
		return doubleShape
	case "string":
		return ofFormat(schema.Format)
	case "array":
		if schema.Items == nil || schema.Items.Schema == nil {
			return dynListShape
		}
		return listOf(s.ofSchema(name+".item", schema.Items.Schema))
	case "object":
		return s.ofObject(name, schema)
	}
	return dynShape
}

func (s *shapes) ofObject(name string, schema *spec.Schema) *shape {
	switch {
	case len(schema.Properties) > 0:
		o := s.object(name)
		s.addProperties(o, name, schema)
		return o
	case schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil:
		return mapOf(s.ofSchema(name+".value", schema.AdditionalProperties.Schema))
	default:
		return dynMapShape
	}
}

func ofFormat(format string) *shape {
	switch format {
	case "byte":
		return bytesShape
	case "date", "date-time":
		return timeShape
	case "duration":
		return durationShape
	default:
		return stringShape
	}
}

func extension(schema *spec.Schema, name string) bool {
	set, _ := schema.Extensions.GetBool(name)
	return set
}
