package canon

import (
	"math/bits"
	"reflect"
	"strings"
	"unsafe"

	"github.com/cespare/xxhash/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Hash returns a canonical hash of a value: values that are [Equal] have the same hash, in every process. Left out are
// what two orders that mean the same may differ in:
//
//   - the fields resourceVersion and managedFields of any struct, and of the metadata of an unstructured object;
//   - times: it counts only whether one is set. In an unstructured tree any string of the form of an RFC 3339 time is a
//     time, but for labels and annotations;
//   - the difference between nil and empty slices and maps in structs.
//
// UIDs and names are hashed as they are: the caller sees to it that they are made up of roles. The arguments are those
// of Equal. The hash of a typed object has nothing to do with that of its unstructured form.
func Hash(a any) uint64 {
	if object, ok := unwrap(a).(map[string]any); ok {
		return avalanche(hashObject(object))
	}
	return avalanche(hashValue(a))
}

// Hasher builds a running hash of parts, in the order they are given. The zero value is ready to use; a copy goes on from
// the same state. It allocates nothing.
type Hasher struct {
	state uint64
}

// Object adds the canonical content of a value, see [Hash].
func (h *Hasher) Object(v any) { h.state = mix(h.state, Hash(v)) }

// String adds a string.
func (h *Hasher) String(s string) { h.state = mix(h.state, hashString(s)) }

// Int adds a number.
func (h *Hasher) Int(n int64) { h.state = mix(h.state, uint64(n)) }

// Sum returns the hash of all parts so far.
func (h *Hasher) Sum() uint64 { return avalanche(h.state) }

// The primes of XXH64 (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md).
const (
	prime1 uint64 = 0x9E3779B185EBCA87
	prime2 uint64 = 0xC2B2AE3D27D4EB4F
	prime3 uint64 = 0x165667B19E3779F9
	prime4 uint64 = 0x85EBCA77C2B2AE63
)

// mix adds a word to a hash, as XXH64 takes in eight bytes.
func mix(h, word uint64) uint64 {
	h ^= bits.RotateLeft64(word*prime2, 31) * prime1
	return bits.RotateLeft64(h, 27)*prime1 + prime4
}

// avalanche lets every bit of a hash depend on every other, as XXH64 ends.
func avalanche(h uint64) uint64 {
	h ^= h >> 33
	h *= prime2
	h ^= h >> 29
	h *= prime3
	return h ^ h>>32
}

func hashString(s string) uint64 { return xxhash.Sum64String(s) }

// hash adds a value of the program's type to a hash. Fields that hold nothing are passed over; each of the others brings
// its tag, so that equal contents of different fields differ.
func (p *program) hash(a unsafe.Pointer, h uint64) uint64 {
	for i := range p.hashed {
		in := &p.hashed[i]
		x := unsafe.Add(a, in.offset)
		var word uint64
		switch in.op {
		case opWord8:
			word = uint64(at[uint8](x))
		case opWord16:
			word = uint64(at[uint16](x))
		case opWord32:
			word = uint64(at[uint32](x))
		case opWord64:
			word = at[uint64](x)
		case opString:
			if s := at[string](x); s != "" {
				h = mix(h, in.tag+hashString(s))
			}
			continue
		case opPointer:
			if x := at[unsafe.Pointer](x); x != nil {
				h = mix(h, in.tag+in.elem.hash(x, seedTyped))
			}
			continue
		default:
			var present bool
			if word, present = in.hash(x); present {
				h = mix(h, in.tag+word)
			}
			continue
		}
		if word != 0 {
			h = mix(h, in.tag+word)
		}
	}
	return h
}

// hash returns the hash of a field and whether it holds anything.
func (in *instruction) hash(x unsafe.Pointer) (word uint64, present bool) {
	switch in.op {
	case opSlice, opStrings, opBytes:
		return in.hashSlice(x)
	case opStringMap, opBytesMap, opAmountMap, opMap:
		return in.hashMap(x)
	case opArray:
		return in.elem.hashAll(x, in.length, in.size), true
	case opStruct:
		return in.elem.hash(x, seedTyped), !in.isZero(x)
	case opTime:
		return seedTime, !(*metav1.Time)(x).IsZero()
	case opMicroTime:
		return seedTime, !(*metav1.MicroTime)(x).IsZero()
	case opQuantity:
		return hashAmount((*resource.Quantity)(x)), true
	case opIntOrString:
		v := (*intstr.IntOrString)(x)
		if v.Type == intstr.String {
			return mix(seedString, hashString(v.StrVal)), true
		}
		return mix(seedInteger, uint64(v.IntVal)), true
	case opInterface:
		v := in.value(x)
		return hashValue(v), v != nil
	case opRaw:
		return xxhash.Sum64(compact(rawJSON((*runtime.RawExtension)(x)))), true
	default:
		return xxhash.Sum64(encode(in.pointer(x))), true
	}
}

func (in *instruction) hashSlice(x unsafe.Pointer) (word uint64, present bool) {
	s := (*sliceHeader)(x)
	if s.len == 0 {
		return 0, false
	}
	switch in.op {
	case opBytes:
		return xxhash.Sum64(at[[]byte](x)), true
	case opStrings:
		h := mix(seedList, uint64(s.len))
		for _, s := range at[[]string](x) {
			h = mix(h, hashString(s))
		}
		return h, true
	default:
		return in.elem.hashAll(s.data, s.len, in.size), true
	}
}

// hashAll hashes n neighbouring values.
func (p *program) hashAll(a unsafe.Pointer, n int, size uintptr) uint64 {
	h := mix(seedList, uint64(n))
	for i := range uintptr(n) {
		h = mix(h, p.hash(unsafe.Add(a, i*size), seedTyped))
	}
	return h
}

func (in *instruction) hashMap(x unsafe.Pointer) (word uint64, present bool) {
	var sum uint64
	switch in.op {
	case opStringMap:
		m := at[map[string]string](x)
		for k, v := range m {
			sum += hashEntry(k, hashString(v))
		}
		return mix(seedObject, sum), len(m) > 0
	case opBytesMap:
		m := at[map[string][]byte](x)
		for k, v := range m {
			sum += hashEntry(k, xxhash.Sum64(v))
		}
		return mix(seedObject, sum), len(m) > 0
	case opAmountMap:
		m := at[map[string]resource.Quantity](x)
		for k, v := range m {
			sum += hashEntry(k, hashAmount(&v))
		}
		return mix(seedObject, sum), len(m) > 0
	default:
		m := reflect.NewAt(in.typ, x).Elem()
		keys, key, elem := programOf(in.typ.Key()), reflect.New(in.typ.Key()), reflect.New(in.typ.Elem())
		for entries := m.MapRange(); entries.Next(); {
			key.Elem().SetIterKey(entries)
			elem.Elem().SetIterValue(entries)
			sum += avalanche(mix(keys.hash(key.UnsafePointer(), seedTyped), in.elem.hash(elem.UnsafePointer(), seedTyped)))
		}
		return mix(seedObject, sum), m.Len() > 0
	}
}

// hashAmount hashes what a quantity amounts to: in thousandths where that is exact, which it is for all but odd ones, and
// else by its decimal digits. Which of the two depends on the amount alone.
func hashAmount(q *resource.Quantity) uint64 {
	const largest = 1 << 53
	if n, ok := q.AsInt64(); ok && n < largest && n > -largest {
		return mix(seedInteger, uint64(n*1000))
	}
	if milli := q.MilliValue(); milli < largest*1000 && milli > -largest*1000 {
		if resource.NewMilliQuantity(milli, q.Format).Cmp(*q) == 0 {
			return mix(seedInteger, uint64(milli))
		}
	}
	// AsDec changes how its receiver is stored, hence the copy.
	c := q.DeepCopy()
	digits := c.AsDec().String()
	if strings.Contains(digits, ".") {
		digits = strings.TrimRight(strings.TrimRight(digits, "0"), ".")
	}
	return mix(seedString, hashString(digits))
}
