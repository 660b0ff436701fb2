package canon

import (
	"bytes"
	"encoding/json"
	"reflect"
	"unsafe"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Equal says whether two values have the same encoding in JSON, with these rules:
//
//   - nil and empty slices and maps are equal in fields marked omitempty and as arguments; elsewhere they differ, as null
//     and [] do. A nil pointer differs from any other;
//   - a [metav1.Time] counts in seconds and a [metav1.MicroTime] in microseconds, in any zone;
//   - quantities are equal if their amounts are, whatever their units ("1Gi" and "1024Mi");
//   - raw JSON is compared without its white space;
//   - in unstructured trees a number is what it prints as: int64(1) and float64(1) are equal.
//
// The arguments are pointers to structs or to any part of one (&set.Spec, &set.Labels), *unstructured.Unstructured, or
// unstructured trees. Values of different Go types differ, but for an Unstructured and its tree. Values that JSON cannot
// express (channels, functions) make it panic.
func Equal(a, b any) bool {
	a, b = unwrap(a), unwrap(b)
	if left, ok := a.(map[string]any); ok {
		if right, ok := b.(map[string]any); ok {
			return treesEqual(left, right)
		}
	}
	t := reflect.TypeOf(a)
	if t == nil || t.Kind() != reflect.Pointer {
		return valuesEqual(a, b)
	}
	if t != reflect.TypeOf(b) {
		return isNull(a) && isNull(b)
	}
	x, y := reflect.ValueOf(a).UnsafePointer(), reflect.ValueOf(b).UnsafePointer()
	if x == y || x == nil || y == nil {
		return x == y
	}
	return programOf(t.Elem()).equal(x, y)
}

// unwrap returns the tree of an Unstructured, and anything else as it is.
func unwrap(v any) any {
	if u, ok := v.(*unstructured.Unstructured); ok && u != nil {
		return u.Object
	}
	return v
}

// at reads the memory of a field.
func at[T any](p unsafe.Pointer) T { return *(*T)(p) }

// equal compares two values of the program's type.
func (p *program) equal(a, b unsafe.Pointer) bool {
	for i := range p.compared {
		in := &p.compared[i]
		if !in.equal(unsafe.Add(a, in.offset), unsafe.Add(b, in.offset)) {
			return false
		}
	}
	return true
}

// equal compares the field in two places.
func (in *instruction) equal(x, y unsafe.Pointer) bool {
	switch in.op {
	case opWord8:
		return at[uint8](x) == at[uint8](y)
	case opWord16:
		return at[uint16](x) == at[uint16](y)
	case opWord32:
		return at[uint32](x) == at[uint32](y)
	case opWord64:
		return at[uint64](x) == at[uint64](y)
	case opString:
		return at[string](x) == at[string](y)
	case opPointer:
		x, y = at[unsafe.Pointer](x), at[unsafe.Pointer](y)
		return x == y || x != nil && y != nil && in.elem.equal(x, y)
	case opSlice, opStrings, opBytes:
		return in.slicesEqual(x, y)
	case opStringMap, opBytesMap, opAmountMap, opMap:
		return in.mapsEqual(x, y)
	case opArray:
		return in.elem.allEqual(x, y, in.length, in.size)
	case opStruct:
		return in.isZero(x) == in.isZero(y) && in.elem.equal(x, y)
	case opTime:
		a, b := (*metav1.Time)(x), (*metav1.Time)(y)
		return a.IsZero() == b.IsZero() && a.Unix() == b.Unix()
	case opMicroTime:
		a, b := (*metav1.MicroTime)(x), (*metav1.MicroTime)(y)
		return a.IsZero() == b.IsZero() && a.UnixMicro() == b.UnixMicro()
	case opQuantity:
		return amountsEqual((*resource.Quantity)(x), (*resource.Quantity)(y))
	case opIntOrString:
		a, b := (*intstr.IntOrString)(x), (*intstr.IntOrString)(y)
		return a.Type == b.Type && (a.Type == intstr.String || a.IntVal == b.IntVal) && (a.Type == intstr.Int || a.StrVal == b.StrVal)
	default:
		return in.encodedEqual(x, y)
	}
}

// encodedEqual compares fields whose content is known only when run: interfaces, raw JSON and types with an encoding of
// their own.
func (in *instruction) encodedEqual(x, y unsafe.Pointer) bool {
	switch in.op {
	case opInterface:
		return valuesEqual(in.value(x), in.value(y))
	case opRaw:
		a, b := rawJSON((*runtime.RawExtension)(x)), rawJSON((*runtime.RawExtension)(y))
		return bytes.Equal(a, b) || bytes.Equal(compact(a), compact(b))
	default:
		return bytes.Equal(encode(in.pointer(x)), encode(in.pointer(y)))
	}
}

// value returns the field as an interface value.
func (in *instruction) value(p unsafe.Pointer) any {
	return reflect.NewAt(in.typ, p).Elem().Interface()
}

// pointer returns a pointer to the field as an interface value.
func (in *instruction) pointer(p unsafe.Pointer) any { return reflect.NewAt(in.typ, p).Interface() }

// isZero says whether `omitzero` drops the field.
func (in *instruction) isZero(p unsafe.Pointer) bool {
	v := reflect.NewAt(in.typ, p)
	if z, ok := reflect.TypeAssert[interface{ IsZero() bool }](v); ok {
		return z.IsZero()
	}
	return v.Elem().IsZero()
}

// sliceHeader is the memory of a slice.
type sliceHeader struct {
	data     unsafe.Pointer
	len, cap int
}

func (in *instruction) slicesEqual(x, y unsafe.Pointer) bool {
	a, b := (*sliceHeader)(x), (*sliceHeader)(y)
	if a.len != b.len {
		return false
	}
	if a.len == 0 {
		return in.omitEmpty || (a.data == nil) == (b.data == nil)
	}
	if a.data == b.data {
		return true
	}
	switch in.op {
	case opBytes:
		return bytes.Equal(at[[]byte](x), at[[]byte](y))
	case opStrings:
		right := at[[]string](y)
		for i, s := range at[[]string](x) {
			if s != right[i] {
				return false
			}
		}
		return true
	default:
		return in.elem.allEqual(a.data, b.data, a.len, in.size)
	}
}

// allEqual compares n neighbouring values.
func (p *program) allEqual(a, b unsafe.Pointer, n int, size uintptr) bool {
	for i := range uintptr(n) {
		if !p.equal(unsafe.Add(a, i*size), unsafe.Add(b, i*size)) {
			return false
		}
	}
	return true
}

// mapsEqual compares two maps. A map is a pointer, and equal pointers are equal maps.
func (in *instruction) mapsEqual(x, y unsafe.Pointer) bool {
	a, b := at[unsafe.Pointer](x), at[unsafe.Pointer](y)
	if a == b {
		return true
	}
	if (a == nil || b == nil) && !in.omitEmpty {
		return false
	}
	switch in.op {
	case opStringMap:
		return entriesEqual(at[map[string]string](x), at[map[string]string](y), func(v, w *string) bool { return *v == *w })
	case opBytesMap:
		return entriesEqual(at[map[string][]byte](x), at[map[string][]byte](y), func(v, w *[]byte) bool {
			return (*v == nil) == (*w == nil) && bytes.Equal(*v, *w)
		})
	case opAmountMap:
		return entriesEqual(at[map[string]resource.Quantity](x), at[map[string]resource.Quantity](y), amountsEqual)
	default:
		return in.anyMapsEqual(reflect.NewAt(in.typ, x).Elem(), reflect.NewAt(in.typ, y).Elem())
	}
}

func entriesEqual[V any](a, b map[string]V, equal func(v, w *V) bool) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		w, ok := b[k]
		if !ok || !equal(&v, &w) {
			return false
		}
	}
	return true
}

// anyMapsEqual compares maps of any type. Elements are copied out because those in a map have no address.
func (in *instruction) anyMapsEqual(a, b reflect.Value) bool {
	if a.Len() != b.Len() {
		return false
	}
	left, right := reflect.New(in.typ.Elem()), reflect.New(in.typ.Elem())
	for entries := a.MapRange(); entries.Next(); {
		other := b.MapIndex(entries.Key())
		if !other.IsValid() {
			return false
		}
		left.Elem().SetIterValue(entries)
		right.Elem().Set(other)
		if !in.elem.equal(left.UnsafePointer(), right.UnsafePointer()) {
			return false
		}
	}
	return true
}

// amountsEqual compares two quantities by what they amount to.
func amountsEqual(a, b *resource.Quantity) bool { return a.Cmp(*b) == 0 }

// rawJSON returns the JSON a RawExtension is encoded as, perhaps with white space.
func rawJSON(e *runtime.RawExtension) []byte {
	if len(e.Raw) > 0 {
		return e.Raw
	}
	return encode(e.Object)
}

// compact removes the white space between the tokens of a JSON text; what is not JSON is returned as it is.
func compact(text []byte) []byte {
	var out bytes.Buffer
	if !bytes.ContainsAny(text, " \t\r\n") || json.Compact(&out, text) != nil {
		return text
	}
	return out.Bytes()
}

// encode returns the JSON of a value. What cannot be encoded is taken as null: nothing can have sent or stored it.
func encode(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		return []byte("null")
	}
	return text
}
