package canon

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// op says how the memory of one field is compared and hashed.
type op uint8

const (
	opWord8 op = iota // numbers and bools, by size in bits
	opWord16
	opWord32
	opWord64
	opString
	opPointer
	opSlice
	opStrings   // []string
	opBytes     // []byte
	opStringMap // map[string]string
	opBytesMap  // map[string][]byte
	opAmountMap // map[string]resource.Quantity
	opMap       // any other map
	opArray
	opStruct // a struct that `omitzero` may drop
	opInterface
	opTime
	opMicroTime
	opQuantity
	opIntOrString
	opRaw       // runtime.RawExtension
	opMarshaler // any other type that encodes itself
)

// instruction is one field of a program: where it is and what to do with it.
type instruction struct {
	op        op
	omitEmpty bool         // an empty slice or map is encoded as nothing, as nil is
	offset    uintptr      // from the start of the program's type
	tag       uint64       // sets the field apart from its neighbours in a hash
	typ       reflect.Type // of the field
	elem      *program     // what a pointer, slice, array or map holds, or the struct itself
	size      uintptr      // of an element, in bytes
	length    int          // of an array, in elements
}

// program walks a Go type. Structs held by value are flattened into the program of the struct that holds them, so that
// there is one instruction for each leaf.
type program struct {
	compared []instruction
	hashed   []instruction // compared, without resourceVersions and managedFields
}

// programs holds finished programs (*program) by reflect.Type.
var programs sync.Map

// programOf returns the program of a type, compiling it the first time.
func programOf(t reflect.Type) *program {
	if p, ok := programs.Load(t); ok {
		return p.(*program)
	}
	c := compiler{programs: map[reflect.Type]*program{}}
	root := c.compile(t)
	// Programs of recursive types point at one another, so none may be seen before all are finished.
	for typ, p := range c.programs {
		programs.LoadOrStore(typ, p)
	}
	return root
}

// compiler compiles a type and all types it refers to.
type compiler struct {
	programs map[reflect.Type]*program
}

// compile returns the program of a type. It is unfinished if the type refers to itself.
func (c *compiler) compile(t reflect.Type) *program {
	if p, ok := c.programs[t]; ok {
		return p
	}
	p := &program{}
	c.programs[t] = p
	// A value that stands alone has no omitempty; nil and empty are then taken as equal.
	c.emit(p, slot{typ: t, omitEmpty: true})
	return p
}

// slot is a place in memory to be compiled: a field with what its tag says.
type slot struct {
	path      string // from the program's type, in the names that JSON has; the same when a library adds fields
	typ       reflect.Type
	offset    uintptr
	omitEmpty bool
	omitZero  bool
	unhashed  bool
}

var (
	marshalerType     = reflect.TypeFor[json.Marshaler]()
	textMarshalerType = reflect.TypeFor[encoding.TextMarshaler]()
)

// known are the types whose encoding is compared without encoding them.
var known = map[reflect.Type]op{
	reflect.TypeFor[metav1.Time]():          opTime,
	reflect.TypeFor[metav1.MicroTime]():     opMicroTime,
	reflect.TypeFor[metav1.Duration]():      opWord64,
	reflect.TypeFor[resource.Quantity]():    opQuantity,
	reflect.TypeFor[intstr.IntOrString]():   opIntOrString,
	reflect.TypeFor[runtime.RawExtension](): opRaw,
}

// emit appends the instructions for one slot.
func (c *compiler) emit(p *program, s slot) {
	in := instruction{omitEmpty: s.omitEmpty, offset: s.offset, typ: s.typ}
	kind := s.typ.Kind()
	if op, ok := known[s.typ]; ok {
		in.op = op
	} else if kind != reflect.Interface && kind != reflect.Pointer && encodesItself(s.typ) {
		in.op = opMarshaler
	} else if op, ok := scalarOp(s.typ); ok {
		in.op = op
	} else {
		switch kind {
		case reflect.Struct:
			if !s.omitZero {
				c.fields(p, s)
				return
			}
			in.op, in.elem = opStruct, c.compile(s.typ)
		case reflect.Pointer:
			in.op, in.elem = opPointer, c.compile(s.typ.Elem())
		case reflect.Slice:
			c.slice(&in)
		case reflect.Array:
			in.op, in.elem, in.size, in.length = opArray, c.compile(s.typ.Elem()), s.typ.Elem().Size(), s.typ.Len()
		case reflect.Map:
			c.mapping(&in)
		default:
			panic(fmt.Sprintf("canon: %v cannot be encoded in JSON", s.typ))
		}
	}
	in.tag = avalanche(hashString(s.path) + 1)
	p.compared = append(p.compared, in)
	if !s.unhashed {
		p.hashed = append(p.hashed, in)
	}
}

// scalarOp returns the operation for a kind whose memory is its value.
func scalarOp(t reflect.Type) (op, bool) {
	switch kind := t.Kind(); {
	case kind == reflect.String:
		return opString, true
	case kind == reflect.Interface:
		return opInterface, true
	case kind == reflect.Bool:
		return opWord8, true
	case kind >= reflect.Int && kind <= reflect.Float64 && kind != reflect.Uintptr:
		return map[uintptr]op{1: opWord8, 2: opWord16, 4: opWord32, 8: opWord64}[t.Size()], true
	default:
		return 0, false
	}
}

// fields emits the fields of a struct as encoding/json sees them.
func (c *compiler) fields(p *program, s slot) {
	for f := range s.typ.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.IsExported() && !f.Anonymous || name == "-" && options == "" {
			continue
		}
		volatile := name == "resourceVersion" || name == "managedFields"
		path := s.path // of an embedded struct, whose fields are those of the one that holds it
		if name != "" || !f.Anonymous {
			path += "." + cmp.Or(name, f.Name)
		}
		sub := slot{path: path, typ: f.Type, offset: s.offset + f.Offset, unhashed: s.unhashed || volatile}
		for option := range strings.SplitSeq(options, ",") {
			sub.omitEmpty = sub.omitEmpty || option == "omitempty"
			sub.omitZero = sub.omitZero || option == "omitzero"
		}
		c.emit(p, sub)
	}
}

// slice completes the instruction for a slice. The type of a string or byte may have a name; its memory is the same.
func (c *compiler) slice(in *instruction) {
	elem := in.typ.Elem()
	switch {
	case elem.Kind() == reflect.String && !encodesItself(elem):
		in.op = opStrings
	case elem.Kind() == reflect.Uint8 && !encodesItself(elem):
		in.op = opBytes
	default:
		in.op, in.elem, in.size = opSlice, c.compile(elem), elem.Size()
	}
}

// mapping completes the instruction for a map. As in slice, names of the types do not change the memory.
func (c *compiler) mapping(in *instruction) {
	key, elem := in.typ.Key(), in.typ.Elem()
	plain := key.Kind() == reflect.String && !encodesItself(key) && !encodesItself(elem)
	switch {
	case plain && elem.Kind() == reflect.String:
		in.op = opStringMap
	case plain && elem.Kind() == reflect.Slice && elem.Elem().Kind() == reflect.Uint8:
		in.op = opBytesMap
	case key.Kind() == reflect.String && elem == reflect.TypeFor[resource.Quantity]():
		in.op = opAmountMap
	default:
		in.op, in.elem = opMap, c.compile(elem)
		c.compile(key)
	}
}

// encodesItself says whether encoding/json leaves the encoding of a type to the type.
func encodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(marshalerType) || p.Implements(textMarshalerType)
}
