package apiserver

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A stored built-in is what a reader on the other side of the wire would have decoded: times are cut to the precision of
// their JSON form, and empty lists and maps are nil. Without this an operator that compares what it wrote with what it reads would
// find them equal here and different on a cluster.

// tidier brings one value into that form, in place. It is nil for types with nothing to tidy.
type tidier func(reflect.Value)

// stage says when a tidier is used.
type stage uint8

const (
	// received: what comes from a client has lost the empty lists and maps that `omitempty` drops.
	received stage = iota
	// storing: etcd has built-ins as protocol buffers, in which no list is empty; a value of bytes in a map is never missing there.
	// Until then an empty list counts: who wrote it owns it, and validation may tell it from none.
	storing
)

var (
	timeType      = reflect.TypeFor[metav1.Time]()
	microTimeType = reflect.TypeFor[metav1.MicroTime]()
	marshalerType = reflect.TypeFor[json.Marshaler]()
	byteMapType   = reflect.TypeFor[map[string][]byte]()
	schemaType    = reflect.TypeFor[apiextensionsv1.JSONSchemaProps]()
)

// tidierOf works out once what there is to do for a type. The only type of a built-in kind that contains itself is the schema
// in a CustomResourceDefinition, which is stored as it was sent.
func tidierOf(t reflect.Type, when stage) tidier {
	switch {
	case t.Kind() == reflect.Pointer:
		return pointerTidier(t, when)
	case (t == timeType || t == microTimeType) && when == storing:
		return nil
	case t == timeType:
		return func(v reflect.Value) { tidyTime(&v.Addr().Interface().(*metav1.Time).Time, time.Second) }
	case t == microTimeType:
		return func(v reflect.Value) { tidyTime(&v.Addr().Interface().(*metav1.MicroTime).Time, time.Microsecond) }
	case t.Implements(marshalerType) || reflect.PointerTo(t).Implements(marshalerType) || t == schemaType:
		return nil
	}
	switch t.Kind() {
	case reflect.Struct:
		return structTidier(t, when)
	case reflect.Slice:
		below := tidierOf(t.Elem(), when)
		if below == nil {
			return nil
		}
		return func(v reflect.Value) {
			for i := range v.Len() {
				below(v.Index(i))
			}
		}
	default:
		if t == byteMapType && when == storing {
			return tidyBytes
		}
		return nil
	}
}

// tidyBytes puts empty values in place of missing ones.
func tidyBytes(v reflect.Value) {
	values := v.Interface().(map[string][]byte)
	owned := false
	for name, value := range values {
		if value != nil {
			continue
		}
		if !owned { // it may be shared
			values, owned = maps.Clone(values), true
			v.Set(reflect.ValueOf(values))
		}
		values[name] = []byte{}
	}
}

// wireTime cuts a time down to what its JSON form keeps.
func wireTime(t time.Time) metav1.Time { return metav1.NewTime(t.UTC().Truncate(time.Second)) }

// tidyTime writes only where there is something to change: the time may be shared with a stored object.
func tidyTime(t *time.Time, precision time.Duration) {
	if !t.IsZero() && (t.Location() != time.UTC || t.Nanosecond()%int(precision) != 0) {
		*t = t.UTC().Truncate(precision)
	}
}

// pointerTidier tidies what is pointed to; a pointer to a zero time is written as null and read as nil.
func pointerTidier(t reflect.Type, when stage) tidier {
	below := tidierOf(t.Elem(), when)
	if below == nil {
		return nil
	}
	isTime := t.Elem() == timeType || t.Elem() == microTimeType
	return func(v reflect.Value) {
		switch {
		case v.IsNil():
		case isTime && v.Elem().Field(0).Interface().(time.Time).IsZero():
			v.SetZero()
		default:
			below(v.Elem())
		}
	}
}

// tidyStep is what there is to do for one field of a struct.
type tidyStep struct {
	field int
	drops bool // an empty list or map becomes none
	below tidier
}

func tidySteps(t reflect.Type, when stage) []tidyStep {
	var steps []tidyStep
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		_, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		collection := f.Type.Kind() == reflect.Slice || f.Type.Kind() == reflect.Map
		omitted := strings.Contains(options, "omitempty")
		step := tidyStep{field: i, drops: collection && omitted == (when == received), below: tidierOf(f.Type, when)}
		if step.drops || step.below != nil {
			steps = append(steps, step)
		}
	}
	return steps
}

func (s tidyStep) run(v reflect.Value) {
	f := v.Field(s.field)
	switch {
	case s.drops && f.Len() == 0:
		if !f.IsNil() {
			f.SetZero()
		}
	case s.below != nil:
		s.below(f)
	}
}

func structTidier(t reflect.Type, when stage) tidier {
	steps := tidySteps(t, when)
	if len(steps) == 0 {
		return nil
	}
	return func(v reflect.Value) {
		for _, step := range steps {
			step.run(v)
		}
	}
}

// dropped returns the index of the field that a write through the subresource does not change, -1 for none.
func (k *Kind) dropped(subresource string) int {
	switch {
	case !k.HasStatus:
		return -1
	case subresource == "status":
		return k.spec
	default:
		return k.status
	}
}

// receive brings an object that comes from a client into the form in which it is stored: tidied, and with its defaults. The
// top-level field of index skip is left as it is: a write that does not change it will drop it.
func (k *Kind) receive(obj Object, skip int) {
	if k.Default != nil {
		k.Default(obj) // what is empty and what is missing may have different defaults, so that tidying comes after it
	}
	if k.Custom() {
		delete(rawMeta(obj), "selfLink")
	} else {
		m := objectMeta(obj)
		m.SelfLink = ""
		if entries := m.ManagedFields; entries != nil && len(entries) == 0 {
			defer func() { m.ManagedFields = entries }() // [] means more than nothing does: that nobody owns anything
		}
		v := reflect.ValueOf(obj).Elem()
		for _, step := range k.tidy {
			if step.field != skip {
				step.run(v)
			}
		}
	}
}

// settleForm brings an object into the form that it has when it is read from the storage.
func (k *Kind) settleForm(obj Object) {
	if len(k.storedForm) == 0 {
		return
	}
	v := reflect.ValueOf(obj).Elem()
	for _, step := range k.storedForm {
		step.run(v)
	}
}
