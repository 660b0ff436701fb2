package property

import (
	"encoding"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/kube-openapi/pkg/validation/strfmt"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// ofStored returns a stored object as a CEL value: null if it is nil. Nothing is copied; what a rule does not read
// is never looked at.
func (s *shape) ofStored(obj apiserver.Object, goType reflect.Type) ref.Val {
	if obj == nil {
		return types.NullValue
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return s.ofJSON(u.Object)
	}
	if v := reflect.ValueOf(obj).Elem(); v.Type() == goType {
		return s.ofGo(v)
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return types.WrapErr(err)
	}
	return s.ofJSON(content)
}

// ofGo returns a Go value as a CEL value; null for a nil pointer.
func (s *shape) ofGo(v reflect.Value) ref.Val {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return types.NullValue
		}
		v = v.Elem()
	}
	switch s.kind {
	case shapeObject:
		return &object{record{shape: s, goValue: v}}
	case shapeMap:
		return &mapping{record{shape: s, goValue: v}}
	case shapeList:
		elems := make([]ref.Val, v.Len())
		for i := range elems {
			elems[i] = s.elem.ofGo(v.Index(i))
		}
		return types.NewRefValList(types.DefaultTypeAdapter, elems)
	case shapeBool:
		return types.Bool(v.Bool())
	case shapeInt:
		if v.CanUint() {
			return types.Int(v.Uint())
		}
		return types.Int(v.Int())
	case shapeDouble:
		return types.Double(v.Float())
	case shapeString:
		return stringOfGo(v)
	case shapeBytes:
		return types.Bytes(v.Bytes())
	case shapeTime:
		return timeOfGo(v)
	case shapeDuration:
		return types.Duration{Duration: v.Interface().(metav1.Duration).Duration}
	default:
		return dynOfGo(v)
	}
}

func stringOfGo(v reflect.Value) ref.Val {
	if v.Kind() == reflect.String {
		return types.String(v.String())
	}
	switch x := pointerToCopy(v).(type) {
	case *resource.Quantity:
		return types.String(x.String())
	case encoding.TextMarshaler:
		text, err := x.MarshalText()
		if err != nil {
			return types.WrapErr(err)
		}
		return types.String(text)
	default:
		return types.NewErr("invalid data: %s is no string", v.Type())
	}
}

// timeOfGo returns a point in time, null for the zero time, which is null in JSON, too.
func timeOfGo(v reflect.Value) ref.Val {
	var t time.Time
	switch x := v.Interface().(type) {
	case metav1.Time:
		t = x.Time
	case metav1.MicroTime:
		t = x.Time
	}
	if t.IsZero() {
		return types.NullValue
	}
	return types.Timestamp{Time: t}
}

// dynOfGo returns a Go value that has an encoding of its own.
func dynOfGo(v reflect.Value) ref.Val {
	x := pointerToCopy(v)
	if i, ok := x.(*intstr.IntOrString); ok {
		if i.Type == intstr.Int {
			return types.Int(i.IntVal)
		}
		return types.String(i.StrVal)
	}
	raw, err := json.Marshal(x)
	if err != nil {
		return types.WrapErr(err)
	}
	var decoded any
	if err := utiljson.Unmarshal(raw, &decoded); err != nil { // keeps integers apart from floats
		return types.WrapErr(err)
	}
	return dynShape.ofJSON(decoded)
}

// pointerToCopy returns a pointer to a shallow copy, because methods of the stored value might change it.
func pointerToCopy(v reflect.Value) any {
	p := reflect.New(v.Type())
	p.Elem().Set(v)
	return p.Interface()
}

// ofJSON returns decoded JSON as a CEL value. CEL values in it are left as they are.
func (s *shape) ofJSON(v any) ref.Val {
	switch x := v.(type) {
	case nil:
		return types.NullValue
	case ref.Val:
		return x
	case map[string]any:
		switch s.kind {
		case shapeObject:
			return &object{record{shape: s, json: x}}
		case shapeMap:
			return &mapping{record{shape: s, json: x}}
		case shapeDyn:
			return &mapping{record{shape: dynMapShape, json: x}}
		default: // not what its schema says
		}
	case []any:
		if s.kind == shapeList || s.kind == shapeDyn {
			return listOfJSON(s, x)
		}
	case bool:
		if s.kind == shapeBool || s.kind == shapeDyn {
			return types.Bool(x)
		}
	case string:
		return s.ofText(x)
	default:
		return s.ofNumber(v)
	}
	return s.mismatch(v)
}

func (s *shape) mismatch(v any) ref.Val {
	return types.NewErr("invalid data: %T where a %s is declared", v, s.typ)
}

func listOfJSON(s *shape, items []any) ref.Val {
	elem := s.elem
	if s.kind == shapeDyn {
		elem = dynShape
	}
	elems := make([]ref.Val, len(items))
	for i, item := range items {
		elems[i] = elem.ofJSON(item)
	}
	return types.NewRefValList(types.DefaultTypeAdapter, elems)
}

// ofText returns a JSON string as the declared type.
func (s *shape) ofText(text string) ref.Val {
	switch s.kind {
	case shapeString, shapeDyn:
		return types.String(text)
	case shapeBytes:
		raw, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			return types.WrapErr(fmt.Errorf("invalid data: %w", err))
		}
		return types.Bytes(raw)
	case shapeTime:
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t, err = time.Parse(time.DateOnly, text)
		}
		if err != nil {
			return types.NewErr("invalid data: %q is no timestamp", text)
		}
		return types.Timestamp{Time: t}
	case shapeDuration:
		d, err := strfmt.ParseDuration(text)
		if err != nil {
			return types.WrapErr(fmt.Errorf("invalid data: %w", err))
		}
		return types.Duration{Duration: d}
	default:
		return s.mismatch(text)
	}
}

// ofNumber returns a JSON number as the declared type. Whole numbers may be stored as integers where a float is
// declared, and the other way round.
func (s *shape) ofNumber(v any) ref.Val {
	number := reflect.ValueOf(v)
	switch {
	case s.kind == shapeString && (number.CanInt() || number.CanFloat()):
		return types.String(fmt.Sprint(v)) // a quantity written as a number
	case number.CanInt() && (s.kind == shapeInt || s.kind == shapeDyn):
		return types.Int(number.Int())
	case number.CanInt() && s.kind == shapeDouble:
		return types.Double(number.Int())
	case number.CanFloat() && (s.kind == shapeDouble || s.kind == shapeDyn):
		return types.Double(number.Float())
	case number.CanFloat() && s.kind == shapeInt:
		return types.Double(number.Float()).ConvertToType(types.IntType)
	default:
		return s.mismatch(v)
	}
}

// record is an object or a map, stored as a Go value or as decoded JSON.
type record struct {
	shape   *shape
	goValue reflect.Value // a struct or map; invalid if stored as JSON
	json    map[string]any
}

// find returns what is stored under a key, if it is there.
func (r *record) find(key string) (ref.Val, bool) {
	if r.shape.kind == shapeMap {
		return r.findEntry(key)
	}
	f, ok := r.shape.fields[key]
	switch {
	case !ok:
		v, ok := r.json[key] // not declared: a rule can ask for it through dyn() only
		return dynShape.ofJSON(v), ok && v != nil
	case f.constant != nil:
		return f.constant, true
	case !r.goValue.IsValid():
		v, ok := r.json[f.name]
		if !ok || v == nil {
			return nil, false
		}
		return f.shape.ofJSON(v), true
	default:
		return f.ofStruct(r.goValue)
	}
}

func (r *record) findEntry(key string) (ref.Val, bool) {
	if !r.goValue.IsValid() {
		v, ok := r.json[key]
		if !ok {
			return nil, false
		}
		return r.shape.elem.ofJSON(v), true
	}
	if m, ok := reflect.TypeAssert[map[string]string](r.goValue); ok {
		v, ok := m[key]
		return types.String(v), ok
	}
	v := r.goValue.MapIndex(reflect.ValueOf(key).Convert(r.goValue.Type().Key()))
	if !v.IsValid() {
		return nil, false
	}
	return r.shape.elem.ofGo(v), true
}

// ofStruct reads the field from a struct, unless encoding/json would leave it out or write null.
func (f *field) ofStruct(v reflect.Value) (ref.Val, bool) {
	for _, i := range f.index {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return nil, false
			}
			v = v.Elem()
		}
		v = v.Field(i)
	}
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		if v.IsNil() || f.omit == omitEmpty && v.Len() == 0 {
			return nil, false
		}
	case reflect.Struct:
		if f.omit == omitZero && v.IsZero() {
			return nil, false
		}
	default:
		if f.omit != omitNever && v.IsZero() {
			return nil, false
		}
	}
	value := f.shape.ofGo(v)
	return value, value != types.NullValue
}

// keys returns the keys that are there, sorted.
func (r *record) keys() []string {
	var keys []string
	switch {
	case r.shape.kind == shapeObject:
		for _, name := range r.shape.names {
			if _, ok := r.find(name); ok {
				keys = append(keys, name)
			}
		}
	case r.goValue.IsValid():
		for _, key := range r.goValue.MapKeys() {
			keys = append(keys, key.String())
		}
	default:
		for key := range r.json {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// get is find for a key that is a CEL value; a key of another type than string is an error.
func (r *record) get(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), true
	}
	return r.find(string(name))
}

// Get returns a field or entry, and an error if it is absent.
func (r *record) Get(key ref.Val) ref.Val {
	v, found := r.get(key)
	if !found {
		return types.NewErr("no such key: %v", key)
	}
	return v
}

// Value returns what is stored.
func (r *record) Value() any {
	if r.goValue.IsValid() {
		return r.goValue.Interface()
	}
	return r.json
}

// ConvertToNative gives the stored value out where it has the wanted type.
func (r *record) ConvertToNative(t reflect.Type) (any, error) {
	if v := reflect.ValueOf(r.Value()); v.Type().AssignableTo(t) {
		return v.Interface(), nil
	}
	return nil, fmt.Errorf("a value of type %s cannot be converted to the Go type %s", r.shape.typ, t)
}

// equal compares two records as the JSON they would be written as.
func (r *record) equal(other *record) ref.Val {
	keys, otherKeys := r.keys(), other.keys()
	if !slices.Equal(keys, otherKeys) {
		return types.False
	}
	for _, key := range keys {
		a, _ := r.find(key)
		b, _ := other.find(key)
		if eq := types.Equal(a, b); eq != types.True {
			return eq
		}
	}
	return types.True
}

// object is a record with declared fields.
type object struct{ record }

var (
	_ traits.Indexer     = (*object)(nil)
	_ traits.FieldTester = (*object)(nil)
)

// Type returns the declared type.
func (o *object) Type() ref.Type { return o.shape.typ }

// IsSet tells whether the field is there.
func (o *object) IsSet(key ref.Val) ref.Val {
	v, found := o.get(key)
	if types.IsError(v) {
		return v
	}
	return types.Bool(found)
}

// Equal compares field by field.
func (o *object) Equal(other ref.Val) ref.Val {
	switch x := other.(type) {
	case *object:
		return o.equal(&x.record)
	case *mapping:
		return o.equal(&x.record)
	default:
		return types.False
	}
}

// ConvertToType implements type().
func (o *object) ConvertToType(t ref.Type) ref.Val { return convert(o, t) }

func convert(v ref.Val, t ref.Type) ref.Val {
	switch {
	case t == types.TypeType:
		return v.Type().(ref.Val)
	case t.TypeName() == v.Type().TypeName():
		return v
	default:
		return types.NewErr("type conversion error from '%s' to '%s'", v.Type().TypeName(), t.TypeName())
	}
}

// mapping is a record with any keys.
type mapping struct{ record }

var _ traits.Mapper = (*mapping)(nil)

// Type returns CEL's map type.
func (m *mapping) Type() ref.Type { return types.MapType }

// Find returns an entry if it is there.
func (m *mapping) Find(key ref.Val) (ref.Val, bool) { return m.get(key) }

// Contains implements the operator in.
func (m *mapping) Contains(key ref.Val) ref.Val {
	v, found := m.get(key)
	if types.IsError(v) {
		return v
	}
	return types.Bool(found)
}

// Size returns the number of entries.
func (m *mapping) Size() ref.Val {
	if m.goValue.IsValid() {
		return types.Int(m.goValue.Len())
	}
	return types.Int(len(m.json))
}

// Iterator goes over the keys, in their order.
func (m *mapping) Iterator() traits.Iterator {
	return types.NewStringList(types.DefaultTypeAdapter, m.keys()).Iterator()
}

// Equal compares entry by entry.
func (m *mapping) Equal(other ref.Val) ref.Val {
	switch x := other.(type) {
	case *object:
		return m.equal(&x.record)
	case *mapping:
		return m.equal(&x.record)
	case traits.Mapper:
		return x.Equal(m) // a literal in the rule compares against any map
	default:
		return types.False
	}
}

// ConvertToType implements type().
func (m *mapping) ConvertToType(t ref.Type) ref.Val { return convert(m, t) }
