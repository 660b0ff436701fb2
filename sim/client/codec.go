package client

import (
	"fmt"
	"reflect"
	"strings"
	"sync"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// codec converts between the forms in which a program holds objects and the form in which the server stores them.
type codec struct {
	kinds  kindTable
	scheme *runtime.Scheme
	gap    func(string) // reports what is not modelled

	mu sync.Mutex
	// typed remembers the Go form of stored custom resources, which are immutable: one conversion a revision and type. Nil where
	// they are not read often enough for that.
	typed map[typedKey]client.Object
}

// kindTable knows the kinds that the server has.
type kindTable interface {
	ByGVK(gvk schema.GroupVersionKind) *apiserver.Kind
}

type typedKey struct {
	stored apiserver.Object
	goType reflect.Type
}

func newCodec(kinds *apiserver.Kinds, scheme *runtime.Scheme, gap func(string)) *codec {
	return &codec{kinds: kinds, scheme: scheme, gap: gap, typed: map[typedKey]client.Object{}}
}

// kindOf returns the kind of an object or of the items of a list.
func (c *codec) kindOf(obj runtime.Object) (*apiserver.Kind, error) {
	gvk, err := apiutil.GVKForObject(obj, c.scheme)
	if err != nil {
		return nil, err
	}
	if _, isList := obj.(client.ObjectList); isList {
		gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	}
	return c.kind(gvk)
}

// kind returns the kind with that name, or the error that a REST mapper gives for a kind the server does not have.
func (c *codec) kind(gvk schema.GroupVersionKind) (*apiserver.Kind, error) {
	if kind := c.kinds.ByGVK(gvk); kind != nil {
		return kind, nil
	}
	c.gap(fmt.Sprintf("%s is not modelled: calls for it fail as for a kind that the server does not have", gvk.GroupKind()))
	return nil, &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
}

// encode returns a copy of the body of a request: in stored form, unless it belongs to a subresource and is of another kind.
func (c *codec) encode(kind *apiserver.Kind, obj client.Object, subresource string) (apiserver.Object, error) {
	_, untyped := obj.(*unstructured.Unstructured)
	if subresource == "scale" {
		return scaleBody(obj)
	}
	if subresource != "" && !kind.Custom() && !untyped && reflect.TypeOf(obj).Elem() != kind.Type {
		return obj.DeepCopyObject().(client.Object), nil
	}
	copied, err := kind.StoredCopy(obj)
	if err == nil && !untyped && !kind.Custom() && len(copied.GetManagedFields()) == 0 {
		copied.SetManagedFields(nil) // an empty list says something to the server, but a Go object with one does not send it
	}
	return copied, err
}

// scaleBody returns a copy of the body of a request to a scale subresource. One that is no Scale is left to the server to refuse.
func scaleBody(obj client.Object) (apiserver.Object, error) {
	untyped, ok := obj.(*unstructured.Unstructured)
	if !ok || untyped.GetKind() != "Scale" {
		return obj.DeepCopyObject().(client.Object), nil
	}
	scale := &autoscalingv1.Scale{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(untyped.Object, scale); err != nil {
		return nil, fmt.Errorf("scale: %w", err)
	}
	return scale, nil
}

// copyInto fills out with a copy of a stored object. typeMeta says whether apiVersion and kind of a typed object are set,
// as a cache does; a client leaves them empty.
func (c *codec) copyInto(kind *apiserver.Kind, stored apiserver.Object, out client.Object, typeMeta bool) error {
	switch out := out.(type) {
	case *unstructured.Unstructured:
		content, err := untypedCopy(stored)
		if err != nil {
			return fmt.Errorf("%s: %w", kind, err)
		}
		out.Object = content
		return nil
	case *metav1.PartialObjectMetadata:
		*out = metadataOf(kind, stored)
		return nil
	}
	typed, err := c.typedOf(kind, stored, reflect.TypeOf(out))
	if err != nil {
		return err
	}
	reflect.ValueOf(out).Elem().Set(reflect.ValueOf(typed.DeepCopyObject()).Elem())
	gvk := schema.GroupVersionKind{}
	if typeMeta {
		gvk = kind.GroupVersionKind
	}
	out.GetObjectKind().SetGroupVersionKind(gvk)
	return nil
}

// newCopy returns a copy of a stored object as a Go type.
func (c *codec) newCopy(kind *apiserver.Kind, stored apiserver.Object, goType reflect.Type, typeMeta bool) (client.Object, error) {
	out := reflect.New(goType.Elem()).Interface().(client.Object)
	return out, c.copyInto(kind, stored, out, typeMeta)
}

// typedOf returns a stored object as a Go type. It must not be changed.
func (c *codec) typedOf(kind *apiserver.Kind, stored apiserver.Object, goType reflect.Type) (client.Object, error) {
	if reflect.TypeOf(stored) == goType {
		return stored, nil
	}
	untyped, ok := stored.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("%s: cannot read a %T into a %s", kind, stored, goType)
	}
	key := typedKey{stored, goType}
	if c.typed != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if typed, ok := c.typed[key]; ok {
			return typed, nil
		}
	}
	typed := reflect.New(goType.Elem()).Interface().(client.Object)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(untyped.Object, typed); err != nil {
		return nil, fmt.Errorf("%s: %w", kind, err)
	}
	if c.typed != nil {
		c.typed[key] = typed
	}
	return typed, nil
}

func untypedCopy(stored apiserver.Object) (map[string]any, error) {
	if untyped, ok := stored.(*unstructured.Unstructured); ok {
		return untyped.DeepCopy().Object, nil
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(stored)
}

// metadataOf returns a copy of an object's metadata.
func metadataOf(kind *apiserver.Kind, stored apiserver.Object) metav1.PartialObjectMetadata {
	out := metav1.PartialObjectMetadata{}
	out.SetGroupVersionKind(kind.GroupVersionKind)
	out.Name, out.GenerateName, out.Namespace = stored.GetName(), stored.GetGenerateName(), stored.GetNamespace()
	out.UID, out.ResourceVersion, out.Generation = stored.GetUID(), stored.GetResourceVersion(), stored.GetGeneration()
	out.CreationTimestamp, out.DeletionTimestamp = stored.GetCreationTimestamp(), stored.GetDeletionTimestamp()
	out.DeletionGracePeriodSeconds = stored.GetDeletionGracePeriodSeconds()
	out.Labels, out.Annotations = stored.GetLabels(), stored.GetAnnotations()
	out.OwnerReferences, out.Finalizers = stored.GetOwnerReferences(), stored.GetFinalizers()
	out.ManagedFields = stored.GetManagedFields()
	return *out.DeepCopy()
}

// copyList fills a list with copies of stored objects.
func (c *codec) copyList(kind *apiserver.Kind, stored []apiserver.Object, out client.ObjectList, typeMeta bool) error {
	model, err := c.itemModel(kind, out)
	if err != nil {
		return err
	}
	items := make([]runtime.Object, len(stored))
	for i, obj := range stored {
		if items[i], err = c.newCopy(kind, obj, reflect.TypeOf(model), typeMeta); err != nil {
			return err
		}
	}
	return meta.SetList(out, items)
}

// itemModel returns an object of the form that a list's items have.
func (c *codec) itemModel(kind *apiserver.Kind, list client.ObjectList) (client.Object, error) {
	switch list.(type) {
	case *unstructured.UnstructuredList:
		return &unstructured.Unstructured{}, nil
	case *metav1.PartialObjectMetadataList:
		return &metav1.PartialObjectMetadata{}, nil
	}
	obj, err := c.scheme.New(kind.GroupVersionKind)
	if err != nil {
		return nil, err
	}
	model, ok := obj.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%s: the scheme's %T is no object", kind, obj)
	}
	return model, nil
}
