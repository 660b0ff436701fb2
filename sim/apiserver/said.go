package apiserver

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	strictjson "sigs.k8s.io/json"

	"github.com/stalemate-dev/stalemate/sim/apiserver/internal/realscheme"
)

// A patch can make an object say of itself that it is something else, or nothing. What becomes of that was recorded from
// kube-apiserver v1.36.3: a built-in is looked up in a scheme, by what it says, when it is read; a custom resource is taken for what
// it is, and what it says of itself is one of the things that are validated.

// decodePatched reads what a JSON patch or a JSON merge patch has made of an object of the kind. If it is to be strict, it returns
// the fields that the kind does not have. A custom resource still says of itself what it said: see [Request.takeSaid].
func (k *Kind) decodePatched(data []byte, strict bool) (obj Object, unknown []error, err error) {
	said, err := json.DefaultMetaFactory.Interpret(data)
	switch {
	case err != nil:
		return nil, nil, err
	case k.Custom() && said.Kind == "":
		return nil, nil, runtime.NewMissingKindErr(string(data))
	case k.Custom():
		return k.decodeCustom(data, strict)
	default:
		return decodeSaid(k.GroupVersionKind, k.Type, data, *said, strict)
	}
}

func (k *Kind) decodeCustom(data []byte, strict bool) (obj Object, unknown []error, err error) {
	content := map[string]any{}
	if err := kjson.Unmarshal(data, &content); err != nil {
		return nil, nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	if err := tidyRawMeta(u); err != nil {
		return nil, nil, err
	}
	if u.GroupVersionKind().GroupKind() != k.GroupKind() {
		return u, nil, nil // its fields are not looked at
	}
	if strict && k.PruneUnknown != nil {
		for _, path := range k.PruneUnknown(u) {
			unknown = append(unknown, fmt.Errorf("unknown field %q", path))
		}
	}
	if err := k.checkEmbedded(u); err != nil {
		return nil, nil, err
	}
	return u, unknown, nil
}

// checkEmbedded returns what cannot be read of the objects within a custom resource, nil if there is nothing.
func (k *Kind) checkEmbedded(obj Object) error {
	if k.embedded == nil {
		return nil
	}
	if err := k.embedded(obj); err != nil {
		return err
	}
	return nil
}

// decodeSaid reads a built-in. It need not say of what kind it is, but of what version: without one it is read as the internal form
// of the kind, whose fields have no names in JSON, so that nothing of it is read.
func decodeSaid(want schema.GroupVersionKind, t reflect.Type, data []byte, said schema.GroupVersionKind, strict bool) (
	obj Object, unknown []error, err error,
) {
	if said.Kind == "" {
		said.Kind = want.Kind
	}
	internal := schema.GroupVersionKind{Group: want.Group, Version: runtime.APIVersionInternal, Kind: want.Kind}
	if said.GroupVersion().Empty() {
		said.Group, said.Version = internal.Group, internal.Version
	}
	obj = reflect.New(t).Interface().(Object)
	switch {
	case said == internal:
		return obj, unread(data, strict), nil
	case said != want && !clientscheme.Scheme.Recognizes(said):
		return nil, nil, runtime.NewNotRegisteredErrForKind(realscheme.Name, said)
	case said.GroupKind() != want.GroupKind():
		other, err := clientscheme.Scheme.New(said)
		if err == nil {
			err = kjson.Unmarshal(data, other)
		}
		if err != nil {
			return nil, nil, err
		}
		return nil, nil, realscheme.Unconvertible(other, want)
	case strict:
		unknown, err = strictjson.UnmarshalStrict(data, obj)
	default:
		err = kjson.Unmarshal(data, obj)
	}
	obj.GetObjectKind().SetGroupVersionKind(want)
	return obj, unknown, err
}

// unread returns all that an object has as fields that it does not have, if that is asked for.
func unread(data []byte, strict bool) []error {
	content := map[string]any{}
	if err := kjson.Unmarshal(data, &content); err != nil || !strict {
		return nil
	}
	var unknown []error
	for _, name := range slices.Sorted(maps.Keys(content)) {
		if name != "apiVersion" && name != "kind" {
			unknown = append(unknown, fmt.Errorf("unknown field %q", name))
		}
	}
	return unknown
}

// takeSaid has a custom resource that a client sent say of itself what it is, and keeps what it said instead for when it is
// validated.
func (r *Request) takeSaid(obj Object) {
	k := r.view()
	if said := obj.GetObjectKind().GroupVersionKind(); k.Custom() && said != k.GroupVersionKind {
		r.said = &said
		obj.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
	}
}

// checkSaid refuses an update to a custom resource that does not say of what version it is; objectMetaAndKind in
// pkg/registry/rest/create.go.
func (r *Request) checkSaid() *statusError {
	if r.said == nil || !r.said.GroupVersion().Empty() {
		return nil
	}
	return apierrors.NewInternalError(runtime.NewMissingVersionErr("object has no apiVersion field"))
}

// validateSaid checks what a custom resource says of itself. Where it is wrong, its schema is not looked at; validateTypeMeta in
// pkg/registry/customresource/validator.go of k8s.io/apiextensions-apiserver v1.36.
func (r *Request) validateSaid() field.ErrorList {
	if r.said == nil || r.Subresource == "status" {
		return nil
	}
	var errs field.ErrorList
	want := r.view().GroupVersionKind
	if r.said.Kind != want.Kind {
		errs = append(errs, field.Invalid(field.NewPath("kind"), r.said.Kind, "must be "+want.Kind))
	}
	if said, is := r.said.GroupVersion(), want.GroupVersion(); said != is {
		errs = append(errs, field.Invalid(field.NewPath("apiVersion"), said.String(), "must be "+is.String()))
	}
	return errs
}

// invalid is an object that the rules of its kind refuse. It is called what it says that it is.
func (r *Request) invalid(name string, errs field.ErrorList) *statusError {
	if r.said != nil {
		return apierrors.NewInvalid(r.said.GroupKind(), name, errs)
	}
	return invalid(r.Kind, name, errs)
}
