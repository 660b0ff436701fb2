package canon

import (
	"math"
	"reflect"
	"strconv"
	"time"
	"unsafe"
)

// treesEqual compares two unstructured objects.
func treesEqual(a, b map[string]any) bool {
	if len(a) != len(b) {
		return false
	}
	if reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer() {
		return true
	}
	for k, v := range a {
		w, ok := b[k]
		if !ok || !valuesEqual(v, w) {
			return false
		}
	}
	return true
}

// valuesEqual compares two values of any type, as they stand in an unstructured tree or an interface field.
func valuesEqual(a, b any) bool {
	switch a := a.(type) {
	case string:
		b, ok := b.(string)
		return ok && a == b
	case bool:
		b, ok := b.(bool)
		return ok && a == b
	case map[string]any:
		if a == nil {
			return isNull(b)
		}
		b, ok := b.(map[string]any)
		return ok && b != nil && treesEqual(a, b)
	case []any:
		if a == nil {
			return isNull(b)
		}
		b, ok := b.([]any)
		return ok && b != nil && listsEqual(a, b)
	case nil:
		return isNull(b)
	}
	if n, ok := numberOf(a); ok {
		m, ok := numberOf(b)
		return ok && n == m
	}
	t := reflect.TypeOf(a)
	if t != reflect.TypeOf(b) {
		return false
	}
	if t.Kind() == reflect.Pointer {
		return Equal(a, b)
	}
	return programOf(t).equal(addressOf(a), addressOf(b))
}

func listsEqual(a, b []any) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !valuesEqual(a[i], b[i]) {
			return false
		}
	}
	return true
}

// isNull says whether a value is encoded as null.
func isNull(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case map[string]any:
		return v == nil
	case []any:
		return v == nil
	}
	value := reflect.ValueOf(v)
	return value.Kind() == reflect.Pointer && value.IsNil()
}

// number is a JSON number. Two numbers are equal exactly if they print alike.
type number struct {
	integer bool
	bits    uint64 // of an int64, or of a float64
}

// numberOf returns the number a value of a tree is.
func numberOf(v any) (number, bool) {
	switch v := v.(type) {
	case int64:
		return number{integer: true, bits: uint64(v)}, true
	case int:
		return number{integer: true, bits: uint64(v)}, true
	case int32:
		return number{integer: true, bits: uint64(v)}, true
	case float64:
		return floatNumber(v), true
	default:
		return number{}, false
	}
}

// floatNumber returns an integer for a float that prints as one. encoding/json writes integers below 1e21 without an
// exponent, in the fewest digits that give the float back: above 2^53 those are not the digits of its value.
func floatNumber(f float64) number {
	if f == math.Trunc(f) && !(f == 0 && math.Signbit(f)) {
		if math.Abs(f) < 1<<53 {
			return number{integer: true, bits: uint64(int64(f))}
		}
		if n, err := strconv.ParseInt(strconv.FormatFloat(f, 'f', -1, 64), 10, 64); err == nil {
			return number{integer: true, bits: uint64(n)}
		}
	}
	return number{bits: math.Float64bits(f)}
}

// addressOf returns where a copy of a value lies.
func addressOf(v any) unsafe.Pointer {
	p := reflect.New(reflect.TypeOf(v))
	p.Elem().Set(reflect.ValueOf(v))
	return p.UnsafePointer()
}

// Seeds set apart the kinds of values of a tree, so that "1", 1 and [1] have different hashes.
const (
	seedNull uint64 = iota + 1
	seedFalse
	seedTrue
	seedString
	seedTime
	seedInteger
	seedFloat
	seedList
	seedObject
	seedTyped
)

// hashObject hashes an unstructured object. Its resourceVersion and managedFields are left out, and its labels and
// annotations hashed letter for letter: a time in an annotation was written by somebody who may compare it.
func hashObject(object map[string]any) uint64 {
	var sum uint64
	for k, v := range object {
		meta, ok := v.(map[string]any)
		if k != "metadata" || !ok {
			sum += hashEntry(k, hashValue(v))
			continue
		}
		for k, v := range meta {
			switch k {
			case "resourceVersion", "managedFields":
			case "labels", "annotations":
				sum += hashEntry(k, hashTexts(v))
			default:
				sum += hashEntry(k, mix(seedObject, hashValue(v)))
			}
		}
	}
	return mix(seedObject, sum)
}

// hashTexts hashes labels and annotations; what is not a map of strings is hashed as any value.
func hashTexts(v any) uint64 {
	texts, ok := v.(map[string]any)
	if !ok {
		return hashValue(v)
	}
	var sum uint64
	for k, v := range texts {
		if s, ok := v.(string); ok {
			sum += hashEntry(k, hashString(s))
		} else {
			sum += hashEntry(k, hashValue(v))
		}
	}
	return mix(seedObject, sum)
}

// hashEntry hashes an entry of a map. Entries are added up, so their order does not matter.
func hashEntry(key string, value uint64) uint64 { return avalanche(mix(hashString(key), value)) }

// hashValue hashes a value of any type, as it stands in an unstructured tree or an interface field.
func hashValue(v any) uint64 {
	switch v := v.(type) {
	case string:
		if looksLikeTime(v) {
			return seedTime
		}
		return mix(seedString, hashString(v))
	case bool:
		if v {
			return seedTrue
		}
		return seedFalse
	case map[string]any:
		if v == nil {
			return seedNull
		}
		var sum uint64
		for k, v := range v {
			sum += hashEntry(k, hashValue(v))
		}
		return mix(seedObject, sum)
	case []any:
		if v == nil {
			return seedNull
		}
		h := mix(seedList, uint64(len(v)))
		for _, v := range v {
			h = mix(h, hashValue(v))
		}
		return h
	case nil:
		return seedNull
	}
	if n, ok := numberOf(v); ok {
		if n.integer {
			return mix(seedInteger, n.bits)
		}
		return mix(seedFloat, n.bits)
	}
	return hashTyped(v)
}

// hashTyped hashes a value that is no part of an unstructured tree.
func hashTyped(v any) uint64 {
	if isNull(v) {
		return seedNull
	}
	t := reflect.TypeOf(v)
	if t.Kind() != reflect.Pointer {
		return programOf(t).hash(addressOf(v), seedTyped)
	}
	if object, ok := unwrap(v).(map[string]any); ok {
		return hashObject(object)
	}
	return programOf(t.Elem()).hash(reflect.ValueOf(v).UnsafePointer(), seedTyped)
}

// looksLikeTime says whether a string has the form of an RFC 3339 time, as the times of Kubernetes objects have.
func looksLikeTime(s string) bool {
	const form = "0000-00-00T00:00:00"
	if len(s) <= len(form) {
		return false
	}
	for i := range len(form) {
		if digit := s[i] >= '0' && s[i] <= '9'; form[i] == '0' && !digit || form[i] != '0' && s[i] != form[i] {
			return false
		}
	}
	_, err := time.Parse(time.RFC3339Nano, s)
	return err == nil
}
