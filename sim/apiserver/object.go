package apiserver

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// New returns an empty object of the kind in stored form, with apiVersion and kind set.
func (k *Kind) New() Object {
	var obj Object
	if k.Custom() {
		obj = &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{}}}
	} else {
		obj = reflect.New(k.Type).Interface().(Object)
	}
	obj.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
	return obj
}

// Decode reads an object of the kind from JSON. Fields a built-in does not have are ignored, as a real server does
// unless it is asked to be strict.
func (k *Kind) Decode(data []byte) (Object, error) {
	if k.Custom() {
		content := map[string]any{}
		if err := kjson.Unmarshal(data, &content); err != nil {
			return nil, fmt.Errorf("%s: %w", k, err)
		}
		return k.adopt(&unstructured.Unstructured{Object: content})
	}
	obj := reflect.New(k.Type).Interface().(Object)
	if err := kjson.Unmarshal(data, obj); err != nil {
		return nil, fmt.Errorf("%s: %w", k, err)
	}
	return k.adopt(obj)
}

// Encode returns the object as JSON, as a real server sends it.
func (k *Kind) Encode(obj Object) ([]byte, error) { return json.Marshal(obj) }

// toStored returns an object in the form the server stores: the Go type of a built-in, *unstructured.Unstructured for a
// custom resource, with apiVersion and kind set. An object that has this form is returned itself, not a copy; one of
// another form is converted.
func (k *Kind) toStored(obj Object) (Object, error) {
	_, untyped := obj.(*unstructured.Unstructured)
	switch {
	case k.Custom() && !untyped:
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k, err)
		}
		return k.adopt(&unstructured.Unstructured{Object: content})
	case !k.Custom() && untyped:
		typed := reflect.New(k.Type).Interface().(Object)
		content := obj.(*unstructured.Unstructured).Object
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, typed); err != nil {
			return nil, fmt.Errorf("%s: %w", k, err)
		}
		return k.adopt(typed)
	case !k.Custom() && reflect.TypeOf(obj).Elem() != k.Type:
		return nil, fmt.Errorf("%s: the object is a %T, want *%s", k, obj, k.Type)
	default:
		return k.adopt(obj)
	}
}

// StoredCopy returns a copy of an object in stored form. A tree that was written in Go may hold values that a decoder never
// makes of JSON, an int for instance: they become what a server would read.
func (k *Kind) StoredCopy(obj Object) (Object, error) {
	u, untyped := obj.(*unstructured.Unstructured)
	switch {
	case untyped && k.Custom() && decoded(u.Object):
		return k.toStored(u.DeepCopy())
	case untyped:
		data, err := json.Marshal(u.Object)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k, err)
		}
		return k.Decode(data)
	case k.Custom(): // converting copies
		return k.toStored(obj)
	default:
		return k.toStored(obj.DeepCopyObject().(Object))
	}
}

// decoded reports whether a tree holds nothing but what a decoder makes of JSON.
func decoded(value any) bool {
	switch v := value.(type) {
	case nil, bool, string, int64, float64:
		return true
	case map[string]any:
		for _, element := range v {
			if !decoded(element) {
				return false
			}
		}
		return true
	case []any:
		return !slices.ContainsFunc(v, func(element any) bool { return !decoded(element) })
	default:
		return false
	}
}

// adopt sees to it that the object says of itself what it is, and that the metadata of a custom resource is tidy.
func (k *Kind) adopt(obj Object) (Object, error) {
	gvk := obj.GetObjectKind().GroupVersionKind()
	if gvk != k.GroupVersionKind {
		if k.contradicts(gvk) {
			return nil, wrongKind{k, gvk}
		}
		obj.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		if err := tidyRawMeta(u); err != nil {
			return nil, fmt.Errorf("%s: %w", k, err)
		}
	}
	return obj, nil
}

// contradicts reports whether an object that says this of itself is of another kind. What a built-in does not say counts as said;
// gvkWithDefaults of pkg/runtime/serializer/json/json.go.
func (k *Kind) contradicts(said schema.GroupVersionKind) bool {
	if k.Custom() {
		return !said.Empty() && (said.Kind != k.Kind || said.Group != k.Group)
	}
	return said.Kind != "" && said.Kind != k.Kind || !said.GroupVersion().Empty() && said.Group != k.Group
}

// wrongKind is an object that says of itself that it is of another kind.
type wrongKind struct {
	kind *Kind
	said schema.GroupVersionKind
}

func (e wrongKind) Error() string {
	return fmt.Sprintf("%s: the object says it is a %s", e.kind, e.said)
}

// shallowCopy returns a copy that shares everything below the top level and below the metadata. The setters of an
// object's metadata replace what they set, so they can be used on the copy.
func (k *Kind) shallowCopy(obj Object) Object {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		content := maps.Clone(u.Object)
		content["metadata"] = maps.Clone(rawMeta(u))
		return &unstructured.Unstructured{Object: content}
	}
	clone := reflect.New(k.Type)
	clone.Elem().Set(reflect.ValueOf(obj).Elem())
	return clone.Interface().(Object)
}

// objectMeta returns the metadata of a built-in.
func objectMeta(obj Object) *metav1.ObjectMeta {
	return obj.(metav1.ObjectMetaAccessor).GetObjectMeta().(*metav1.ObjectMeta)
}

// rawMeta returns the metadata of a custom resource.
func rawMeta(obj Object) map[string]any {
	m, _ := obj.(*unstructured.Unstructured).Object["metadata"].(map[string]any)
	return m
}

// owners returns how many owner references the object has.
func (k *Kind) owners(obj Object) int {
	if k.Custom() {
		references, _ := rawMeta(obj)["ownerReferences"].([]any)
		return len(references)
	}
	return len(objectMeta(obj).OwnerReferences)
}

// takeStatus replaces the status of dst by that of src, which both share from then on.
func (k *Kind) takeStatus(dst, src Object) { k.takeField(dst, src, k.status, "status") }

// takeSpec replaces the spec of dst by that of src, which both share from then on.
func (k *Kind) takeSpec(dst, src Object) { k.takeField(dst, src, k.spec, "spec") }

func (k *Kind) takeField(dst, src Object, index int, name string) {
	if k.Custom() {
		to, from := dst.(*unstructured.Unstructured).Object, src.(*unstructured.Unstructured).Object
		if value, ok := from[name]; ok {
			to[name] = value
		} else {
			delete(to, name)
		}
		return
	}
	if index >= 0 {
		reflect.ValueOf(dst).Elem().Field(index).Set(reflect.ValueOf(src).Elem().Field(index))
	}
}

// clearStatus empties the status.
func (k *Kind) clearStatus(obj Object) {
	if k.Custom() {
		delete(obj.(*unstructured.Unstructured).Object, "status")
	} else if k.status >= 0 {
		reflect.ValueOf(obj).Elem().Field(k.status).SetZero()
	}
}

// lacksStatus reports whether the object has no status, or an empty one.
func (k *Kind) lacksStatus(obj Object) bool {
	if k.Custom() {
		return obj.(*unstructured.Unstructured).Object["status"] == nil
	}
	return k.status < 0 || reflect.ValueOf(obj).Elem().Field(k.status).IsZero()
}

// sameSpec reports whether two objects of a built-in kind have equal specs.
func (k *Kind) sameSpec(a, b Object) bool {
	return k.spec < 0 || canon.Equal(fieldPointer(a, k.spec), fieldPointer(b, k.spec))
}

func fieldPointer(obj Object, index int) any {
	return reflect.ValueOf(obj).Elem().Field(index).Addr().Interface()
}

// sameBody reports whether two objects of a built-in kind are equal but for their metadata.
func (k *Kind) sameBody(a, b Object) bool {
	for i := range k.Type.NumField() {
		if !k.Type.Field(i).Anonymous && !canon.Equal(fieldPointer(a, i), fieldPointer(b, i)) {
			return false
		}
	}
	return true
}

// sameContent reports whether two custom resources are equal but for metadata and, where it is a subresource, status.
func (k *Kind) sameContent(a, b Object) bool {
	return k.contains(a, b) && k.contains(b, a)
}

// contains reports whether all that is in a, but for metadata and status, is in b as well.
func (k *Kind) contains(a, b Object) bool {
	in := b.(*unstructured.Unstructured).Object
	for name, value := range a.(*unstructured.Unstructured).Object {
		if name == "metadata" || name == "status" && k.HasStatus {
			continue
		}
		if other, ok := in[name]; !ok || !canon.Equal(value, other) {
			return false
		}
	}
	return true
}
