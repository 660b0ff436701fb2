package property

import (
	"encoding"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// A shape is how rules see the value at one place of an object: its CEL type, and how to read it from what is stored, a
// Go value or decoded JSON. A shape comes from a Go type or from an OpenAPI schema; metadata has the shape of
// metav1.ObjectMeta whatever the object is stored as.
//
// The wrappers of k8s.io/apiserver/pkg/cel/common (TypedToVal, UnstructuredToVal) do the same for the real API server.
// They are not used because they iterate maps in Go's random order, look properties up in a schema that is built anew at
// every step, and can neither read a field without a schema nor unstructured data by a Go type.
type shape struct {
	kind shapeKind
	typ  *cel.Type
	// fields of an object by the names rules may use for them: the JSON name, and CEL's escaped form of it.
	fields map[string]*field
	names  []string // the JSON names of the fields, sorted
	elem   *shape   // of a list or map
	title  string   // the name of the kind, where this is a whole object
}

// field is one field of an object.
type field struct {
	name     string // in JSON
	shape    *shape
	index    []int // where it is in the Go struct, through embedded structs; nil in a shape made from a schema
	omit     omission
	constant ref.Val // set for the apiVersion and kind of a whole object, which built-ins are stored without
}

// omission says when encoding/json leaves a field out.
type omission uint8

const (
	omitNever omission = iota
	omitEmpty
	omitZero
)

type shapeKind uint8

const (
	shapeDyn shapeKind = iota
	shapeBool
	shapeInt
	shapeDouble
	shapeString
	shapeBytes
	shapeTime
	shapeDuration
	shapeList
	shapeMap
	shapeObject
)

var (
	dynShape      = &shape{kind: shapeDyn, typ: cel.DynType}
	boolShape     = &shape{kind: shapeBool, typ: cel.BoolType}
	intShape      = &shape{kind: shapeInt, typ: cel.IntType}
	doubleShape   = &shape{kind: shapeDouble, typ: cel.DoubleType}
	stringShape   = &shape{kind: shapeString, typ: cel.StringType}
	bytesShape    = &shape{kind: shapeBytes, typ: cel.BytesType}
	timeShape     = &shape{kind: shapeTime, typ: cel.TimestampType}
	durationShape = &shape{kind: shapeDuration, typ: cel.DurationType}
	dynListShape  = listOf(dynShape)
	dynMapShape   = mapOf(dynShape)
)

func listOf(elem *shape) *shape {
	return &shape{kind: shapeList, typ: cel.ListType(elem.typ), elem: elem}
}

func mapOf(elem *shape) *shape {
	return &shape{kind: shapeMap, typ: cel.MapType(cel.StringType, elem.typ), elem: elem}
}

// add declares a field. A name that is no CEL identifier, or a reserved word, gets its escaped form too.
func (s *shape) add(f *field) {
	s.fields[f.name] = f
	if escaped, ok := apiservercel.Escape(f.name); ok {
		s.fields[escaped] = f
	}
	if i, found := slices.BinarySearch(s.names, f.name); !found {
		s.names = slices.Insert(s.names, i, f.name)
	}
}

// shapes holds the object types of a set by their CEL names. It is the type resolver of the set's environments.
type shapes struct {
	objects map[string]*shape
	goTypes map[reflect.Type]*shape
	// missed remembers, while a rule is checked, on which type an unknown field was looked for.
	missed map[string]*shape
}

func newShapes() *shapes {
	return &shapes{objects: map[string]*shape{}, goTypes: map[reflect.Type]*shape{}}
}

// object declares an object type without fields. Should a name be taken, as property names may hold dots, it is varied.
func (s *shapes) object(name string) *shape {
	for s.objects[name] != nil {
		name += "'"
	}
	o := &shape{kind: shapeObject, typ: cel.ObjectType(name), fields: map[string]*field{}}
	s.objects[name] = o
	return o
}

// root returns the shape of a whole object of a kind.
func (s *shapes) root(name string, kind Kind) *shape {
	var root shape
	switch {
	case kind.Type != nil:
		root = *s.ofGo(kind.Type)
	case kind.Schema != nil:
		root = *s.ofResource(name, kind.Schema)
	default:
		return &shape{kind: shapeMap, typ: cel.DynType, elem: dynShape, title: name}
	}
	root.title = name
	fields := root.fields
	root.fields = make(map[string]*field, len(fields))
	maps.Copy(root.fields, fields)
	apiVersion, kindName := kind.ToAPIVersionAndKind()
	root.fields["apiVersion"] = &field{name: "apiVersion", shape: stringShape, constant: types.String(apiVersion)}
	root.fields["kind"] = &field{name: "kind", shape: stringShape, constant: types.String(kindName)}
	return &root
}

var (
	goTime        = reflect.TypeFor[metav1.Time]()
	goMicroTime   = reflect.TypeFor[metav1.MicroTime]()
	goDuration    = reflect.TypeFor[metav1.Duration]()
	goQuantity    = reflect.TypeFor[resource.Quantity]()
	jsonMarshaler = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// ofGo returns the shape of a Go type, as encoding/json writes it.
func (s *shapes) ofGo(t reflect.Type) *shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case t == goTime || t == goMicroTime:
		return timeShape
	case t == goDuration:
		return durationShape
	case t == goQuantity:
		return stringShape
	case reflect.PointerTo(t).Implements(jsonMarshaler):
		return dynShape
	case reflect.PointerTo(t).Implements(textMarshaler):
		return stringShape
	}
	switch t.Kind() {
	case reflect.Bool:
		return boolShape
	case reflect.String:
		return stringShape
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return intShape
	case reflect.Float32, reflect.Float64:
		return doubleShape
	case reflect.Slice, reflect.Array:
		if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
			return bytesShape
		}
		return listOf(s.ofGo(t.Elem()))
	case reflect.Map:
		if t.Key().Kind() == reflect.String {
			return mapOf(s.ofGo(t.Elem()))
		}
	case reflect.Struct:
		return s.ofStruct(t)
	}
	return dynShape
}

func (s *shapes) ofStruct(t reflect.Type) *shape {
	if o, ok := s.goTypes[t]; ok {
		return o
	}
	o := s.object(typeName(t))
	s.goTypes[t] = o // before its fields, as types may be recursive
	s.addFields(o, t, nil)
	return o
}

// typeName returns a Go type's name in CEL, short for the types of Kubernetes: "apps/v1.StatefulSetSpec".
func typeName(t reflect.Type) string {
	pkg := t.PkgPath()
	for _, prefix := range []string{"k8s.io/api/", "k8s.io/apimachinery/pkg/apis/"} {
		pkg = strings.TrimPrefix(pkg, prefix)
	}
	if t.Name() == "" {
		return t.String()
	}
	return pkg + "." + t.Name()
}

// addFields declares the fields of a Go struct, those of embedded structs included.
func (s *shapes) addFields(o *shape, t reflect.Type, outer []int) {
	for i := range t.NumField() {
		goField := t.Field(i)
		name, options, _ := strings.Cut(goField.Tag.Get("json"), ",")
		index := append(slices.Clone(outer), i)
		if name == "" && goField.Anonymous {
			embedded := goField.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			if embedded.Kind() == reflect.Struct {
				s.addFields(o, embedded, index)
				continue
			}
		}
		if name == "-" || !goField.IsExported() {
			continue
		}
		f := &field{name: name, index: index}
		if f.name == "" {
			f.name = goField.Name
		}
		if shadowing, ok := o.fields[f.name]; ok && len(shadowing.index) <= len(index) {
			continue // the outer field wins
		}
		switch {
		case hasOption(options, "omitzero"):
			f.omit = omitZero
		case hasOption(options, "omitempty"):
			f.omit = omitEmpty
		}
		f.shape = s.ofGo(goField.Type)
		o.add(f)
	}
}

func hasOption(options, option string) bool {
	return slices.Contains(strings.Split(options, ","), option)
}
