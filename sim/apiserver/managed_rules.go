package apiserver

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/stalemate-dev/stalemate/sim/apiserver/crd"
)

// fieldRules is what the ownership of a kind's fields takes: the upstream library's field managers, one for each way to
// write an object. They are made when they are first needed, as few kinds are ever applied to, and shared by all servers.
type fieldRules struct {
	kind    *Kind
	aliases []*Kind // that show the kind in other versions

	mu       sync.Mutex
	form     *fieldForm
	deduced  bool                                   // there is no schema
	managers map[string]*managedfields.FieldManager // by subresource
}

// builtinTypes knows the schemas of all built-ins. Reading them takes a moment: some 15,000 lines of YAML.
var builtinTypes = sync.OnceValue(func() managedfields.TypeConverter {
	return applyconfigurations.NewTypeConverter(clientscheme.Scheme)
})

// manager returns the field manager for a subresource, "" for the main resource.
func (r *fieldRules) manager(subresource string) (*managedfields.FieldManager, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if manager := r.managers[subresource]; manager != nil {
		return manager, nil
	}
	manager, err := r.build(subresource)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.kind, err)
	}
	if r.managers == nil {
		r.managers = map[string]*managedfields.FieldManager{}
	}
	r.managers[subresource] = manager
	return manager, nil
}

// replicas returns what the scale subresource writes, in each version of the kind that can be scaled.
func (r *fieldRules) replicas() managedfields.ResourcePathMappings {
	behind := r.kind.behind()
	paths := managedfields.ResourcePathMappings{}
	for _, k := range append([]*Kind{behind}, behind.fields.aliases...) {
		switch version := k.GroupVersion().String(); {
		case k.Scale == nil:
			paths[version] = nil
		case k.Scale.replicas != nil:
			paths[version] = k.Scale.replicas
		default:
			paths[version] = fieldpath.MakePathOrDie("spec", "replicas")
		}
	}
	return paths
}

// build makes a field manager as pkg/endpoints/installer.go of k8s.io/apiserver and getOrCreateServingInfoFor of
// pkg/apiserver/customresource_handler.go of k8s.io/apiextensions-apiserver, v1.36, do.
func (r *fieldRules) build(subresource string) (*managedfields.FieldManager, error) {
	if subresource == "scale" {
		form, err := scaleForm()
		if err != nil {
			return nil, err
		}
		if r.kind.Custom() {
			custom := *form
			custom.custom = true
			form = &custom
		}
		version := form.gvk.GroupVersion()
		return managedfields.NewDefaultFieldManager(form, form, form, form, form.gvk, version, subresource, nil)
	}
	k := r.kind
	if r.form == nil {
		types, err := r.types()
		if err != nil {
			return nil, err
		}
		r.form = &fieldForm{TypeConverter: types, gvk: k.GroupVersionKind, rules: r, blank: k.New, read: k.fromTree}
	}
	newManager := managedfields.NewDefaultFieldManager
	if k.Custom() {
		newManager = managedfields.NewDefaultCRDFieldManager
	}
	form, version := r.form, k.GroupVersion()
	return newManager(form, form, form, form, k.GroupVersionKind, version, subresource, k.resetFields(subresource))
}

// types returns the schema of the kind.
func (r *fieldRules) types() (managedfields.TypeConverter, error) {
	if r.kind.applyModels != nil {
		return managedfields.NewTypeConverter(r.kind.applyModels(), false)
	}
	if !r.kind.Custom() {
		if _, err := builtinTypes().ObjectToTyped(r.kind.New()); err == nil {
			return builtinTypes(), nil
		}
	}
	r.deduced = true
	return managedfields.NewDeducedTypeConverter(), nil
}

// gap returns what applying to the kind leaves unmodelled, if anything, once there is a manager.
func (r *fieldRules) gap() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.deduced {
		return ""
	}
	return fmt.Sprintf("%s has no schema: server-side apply replaces its lists as a whole, and accepts any field", r.kind)
}

// resetFields are the fields that a write through a subresource cannot change, and so cannot come to own: GetResetFields of
// the strategies. Those of a custom resource only speak of their own version, but for the status: getStatusResetFields of
// pkg/apiserver/customresource_handler.go in k8s.io/apiextensions-apiserver v1.36.
func (k *Kind) resetFields(subresource string) map[fieldpath.APIVersion]fieldpath.Filter {
	var paths []fieldpath.Path
	switch {
	case !k.HasStatus:
		return nil
	case subresource == "status":
		paths = append(k.StatusKeeps.paths(), fieldpath.MakePathOrDie("spec"))
	default:
		paths = []fieldpath.Path{fieldpath.MakePathOrDie("status")}
	}
	versions := []*Kind{k}
	if behind := k.behind(); subresource == "status" || !k.Custom() {
		versions = append([]*Kind{behind}, behind.fields.aliases...)
	}
	set := map[fieldpath.APIVersion]*fieldpath.Set{}
	for _, version := range versions {
		if version.HasStatus {
			set[fieldpath.APIVersion(version.GroupVersion().String())] = fieldpath.NewSet(paths...)
		}
	}
	return fieldpath.NewExcludeFilterSetMap(set)
}

// paths are the fields besides spec that a write to the status leaves as they are.
func (s StatusReset) paths() []fieldpath.Path {
	switch s {
	case ResetSpecAndOwners:
		return []fieldpath.Path{
			fieldpath.MakePathOrDie("metadata", "deletionTimestamp"), fieldpath.MakePathOrDie("metadata", "ownerReferences"),
		}
	case ResetSpecAndLabels:
		return []fieldpath.Path{fieldpath.MakePathOrDie("metadata", "labels")}
	case ResetAllButStatus:
		return []fieldpath.Path{fieldpath.MakePathOrDie("metadata")}
	default:
		return nil
	}
}

// fromTree makes an object of what the library has merged. The tree may share parts with stored objects, and is not changed.
func (k *Kind) fromTree(tree map[string]any) (Object, error) {
	if k.Custom() {
		u := &unstructured.Unstructured{Object: wireCopy(tree).(map[string]any)}
		dropMalformedMeta(u)
		return k.adopt(u)
	}
	obj := k.New()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree, obj); err != nil {
		return nil, fmt.Errorf("unable to convert unstructured object to %v: %w", k.GroupVersionKind, err)
	}
	return obj, nil
}

// wireCopy copies a tree as it would be read again after having been written as JSON. An apply configuration is read with
// nothing but floats for numbers, which the rest of the server never sees.
func wireCopy(value any) any {
	switch value := value.(type) {
	case map[string]any:
		if value == nil {
			return nil // what is left of a map whose last field was dropped
		}
		fresh := make(map[string]any, len(value))
		for name, v := range value {
			fresh[name] = wireCopy(v)
		}
		return fresh
	case []any:
		fresh := make([]any, len(value))
		for i, v := range value {
			fresh[i] = wireCopy(v)
		}
		return fresh
	case float64:
		if value == math.Trunc(value) && value >= math.MinInt64 && value < math.MaxInt64 {
			return int64(value)
		}
	}
	return value
}

// scaleForm is the form of a Scale, which is the same for all kinds that can be scaled.
var scaleForm = sync.OnceValues(func() (*fieldForm, error) {
	text, number := *spec.StringProperty(), *spec.Int32Property()
	object := func(properties map[string]spec.Schema) spec.Schema {
		return spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}, Properties: properties}}
	}
	gvk := autoscalingv1.SchemeGroupVersion.WithKind("Scale")
	root := object(map[string]spec.Schema{
		"spec":   object(map[string]spec.Schema{"replicas": number}),
		"status": object(map[string]spec.Schema{"replicas": number, "selector": text}),
	})
	models := crd.ObjectModels(gvk, &root)
	types, err := managedfields.NewTypeConverter(models, false)
	blank := func() Object {
		return &autoscalingv1.Scale{TypeMeta: metav1.TypeMeta{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind}}
	}
	return &fieldForm{TypeConverter: types, gvk: gvk, blank: blank, read: func(tree map[string]any) (Object, error) {
		scale := blank()
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(tree, scale); err != nil {
			return nil, fmt.Errorf("unable to convert unstructured object to %v: %w", gvk, err)
		}
		return scale, nil
	}}, err
})

// fieldForm is how the library sees the objects of a kind: what it asks of a scheme.
type fieldForm struct {
	managedfields.TypeConverter
	gvk   schema.GroupVersionKind
	blank func() Object                             // an object with nothing in it
	read  func(tree map[string]any) (Object, error) // an object of a merged tree
	rules *fieldRules                               // nil for a Scale

	custom bool // it is the form of the Scale of a custom resource
}

// ObjectToTyped implements managedfields.TypeConverter.
func (f *fieldForm) ObjectToTyped(obj runtime.Object, opts ...typed.ValidationOptions) (*typed.TypedValue, error) {
	if s, ok := obj.(*subject); ok {
		obj = s.Object
	}
	tree, err := f.TypeConverter.ObjectToTyped(obj, opts...)
	if config, ok := obj.(*unstructured.Unstructured); ok && err != nil {
		err = f.firstError(config, err, opts)
	}
	return tree, err
}

// firstError returns what is wrong with a tree in the order of its fields' names. The library looks at the fields of a map
// until the first that the schema does not have, in the random order of Go's maps.
func (f *fieldForm) firstError(config *unstructured.Unstructured, err error, opts []typed.ValidationOptions) error {
	blank, blankErr := f.TypeConverter.ObjectToTyped(f.blank())
	if blankErr != nil {
		return err
	}
	root := sortedValue(value.NewValueInterface(config.Object))
	if _, sortedErr := typed.AsTyped(root, blank.Schema(), blank.TypeRef(), opts...); sortedErr != nil {
		return sortedErr
	}
	return err
}

// TypedToObject implements managedfields.TypeConverter. The library calls it for every manager of an object only to learn
// the version, so that the work is put off until the object itself is asked for.
func (f *fieldForm) TypedToObject(tree *typed.TypedValue) (runtime.Object, error) {
	return &typedObject{tree}, nil
}

// ConvertToVersion implements runtime.ObjectConvertor.
func (f *fieldForm) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	gvk := in.GetObjectKind().GroupVersionKind()
	gv, ok := target.(schema.GroupVersion)
	wanted := gv.WithKind(gvk.Kind)
	switch {
	case !ok:
		return nil, runtime.NewNotRegisteredGVKErrForTarget("stalemate", gvk, target)
	case f.custom && !isScale(in):
		return nil, fmt.Errorf("request to convert CR to an invalid group/version: %s", gv)
	case wanted == gvk:
		return f.materialize(in)
	case f.rules == nil:
		return nil, runtime.NewNotRegisteredErrForKind("stalemate", wanted)
	default:
		return f.rules.convert(in, wanted)
	}
}

// isScale reports whether an object is a Scale of its Go type. The converter of a custom resource takes no other, so that nobody
// can apply to the scale of one: ConvertToVersion of pkg/apiserver/conversion/converter.go in k8s.io/apiextensions-apiserver
// v1.36. Recorded from kube-apiserver v1.36.3 and v1.37.1.
func isScale(obj runtime.Object) bool {
	if s, ok := obj.(*subject); ok {
		obj = s.Object
	}
	_, ok := obj.(*autoscalingv1.Scale)
	return ok
}

// materialize returns the object of a merged tree, and any other object as it is.
func (f *fieldForm) materialize(in runtime.Object) (runtime.Object, error) {
	t, ok := in.(*typedObject)
	if !ok {
		return in, nil
	}
	tree, read := t.tree(), f.read
	if f.rules != nil { // what another version's manager applied is merged, and looked at, in that version
		if kind := f.rules.version(t.GetObjectKind().GroupVersionKind()); kind != nil {
			read = kind.fromTree
		}
	}
	obj, err := read(tree)
	if err != nil {
		return nil, err
	}
	merged := &subject{Object: obj}
	if f.rules != nil && f.rules.kind.Custom() {
		merged.tree = tree
	}
	return merged, nil
}

// untidyMeta names what is empty in the metadata of a merged object. A custom resource is stored as it was merged, while whoever
// reads it gets it without what is empty: what that leads to is told at claim.rewrites.
func untidyMeta(tree map[string]any) string {
	return strings.Join(slices.Sorted(maps.Keys(emptyMeta(tree))), " ")
}

// emptyMeta returns what is empty in the metadata of a merged object.
func emptyMeta(tree map[string]any) map[string]any {
	m, _ := tree["metadata"].(map[string]any)
	empty := map[string]any{}
	for _, name := range []string{"annotations", "finalizers", "labels", "ownerReferences"} {
		switch value := m[name].(type) {
		case map[string]any:
			if len(value) == 0 {
				empty[name] = wireCopy(value)
			}
		case []any:
			if len(value) == 0 {
				empty[name] = value
			}
		}
	}
	return empty
}

// convert shows an object in another version of its kind, as which a manager wrote it.
func (r *fieldRules) convert(in runtime.Object, wanted schema.GroupVersionKind) (runtime.Object, error) {
	from, to := r.version(in.GetObjectKind().GroupVersionKind()), r.version(wanted)
	if from == nil || to == nil {
		return nil, runtime.NewNotRegisteredErrForKind("stalemate", wanted)
	}
	var obj Object
	var err error
	switch in := in.(type) {
	case *typedObject:
		if from.Custom() {
			return inVersion(in.tree(), wanted), nil
		}
		if obj, err = from.fromTree(in.tree()); err != nil {
			return nil, err
		}
	case *subject:
		if in.tree != nil {
			return inVersion(in.tree, wanted), nil
		}
		obj = in.Object
	default:
		return nil, fmt.Errorf("cannot convert a %T to %v", in, wanted)
	}
	if from.Custom() { // what a version does not know is not dropped here
		other := from.shallowCopy(obj)
		other.GetObjectKind().SetGroupVersionKind(wanted)
		return &subject{Object: other}, nil
	}
	if from.Alias != nil {
		if obj, err = from.Alias.To(obj); err != nil {
			return nil, err
		}
	}
	return &subject{Object: to.shown(obj)}, nil
}

// inVersion returns a custom resource in another version while its owners are worked out: all that changes is the apiVersion. What
// is empty in its metadata stays and can be owned, unlike in what is read; nopConverter in pkg/apiserver/conversion of
// k8s.io/apiextensions-apiserver v1.36. Recorded from kube-apiserver v1.36.3 and v1.37.1.
func inVersion(tree map[string]any, wanted schema.GroupVersionKind) runtime.Object {
	obj := &unstructured.Unstructured{Object: maps.Clone(tree)}
	obj.SetGroupVersionKind(wanted)
	return obj
}

// version returns the kind of that version among those which show the same objects.
func (r *fieldRules) version(gvk schema.GroupVersionKind) *Kind {
	behind := r.kind.behind()
	if behind.GroupVersionKind == gvk {
		return behind
	}
	for _, alias := range behind.fields.aliases {
		if alias.GroupVersionKind == gvk {
			return alias
		}
	}
	return nil
}

// Convert implements runtime.ObjectConvertor. The library does not call it.
func (f *fieldForm) Convert(_, _, _ any) error { return errors.ErrUnsupported }

// ConvertFieldLabel implements runtime.ObjectConvertor. The library does not call it.
func (f *fieldForm) ConvertFieldLabel(schema.GroupVersionKind, string, string) (label, value string, err error) {
	return "", "", errors.ErrUnsupported
}

// Default implements runtime.ObjectDefaulter. Defaulting is the next step of the pipeline.
func (f *fieldForm) Default(runtime.Object) {}

// New implements runtime.ObjectCreater.
func (f *fieldForm) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	if f.custom {
		obj := &unstructured.Unstructured{}
		obj.SetGroupVersionKind(gvk)
		return obj, nil
	}
	return &subject{Object: f.blank()}, nil
}

// subject is an object whose managedFields are apart from it, so that the library leaves stored objects as they are.
type subject struct {
	Object
	entries []metav1.ManagedFieldsEntry
	tree    map[string]any // what was merged, if it is a custom resource
}

// GetManagedFields implements metav1.Object.
func (s *subject) GetManagedFields() []metav1.ManagedFieldsEntry { return s.entries }

// SetManagedFields implements metav1.Object.
func (s *subject) SetManagedFields(entries []metav1.ManagedFieldsEntry) { s.entries = entries }

// DeepCopyObject implements runtime.Object.
func (s *subject) DeepCopyObject() runtime.Object {
	return &subject{Object: s.Object.DeepCopyObject().(Object), entries: s.entries, tree: s.tree}
}

// typedObject is an object as the library has merged it.
type typedObject struct{ value *typed.TypedValue }

func (t *typedObject) tree() map[string]any {
	tree, _ := t.value.AsValue().Unstructured().(map[string]any)
	return tree
}

// GetObjectKind implements runtime.Object.
func (t *typedObject) GetObjectKind() schema.ObjectKind {
	var meta metav1.TypeMeta
	if root := t.value.AsValue(); root.IsMap() {
		for name, field := range map[string]*string{"apiVersion": &meta.APIVersion, "kind": &meta.Kind} {
			if v, ok := root.AsMap().Get(name); ok && v.IsString() {
				*field = v.AsString()
			}
		}
	}
	return &meta
}

// DeepCopyObject implements runtime.Object. Typed values are immutable.
func (t *typedObject) DeepCopyObject() runtime.Object { return t }
