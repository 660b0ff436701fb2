package scenarios

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// fileObject is an object in a file.
type fileObject struct {
	doc   *document
	path  string // of the object in the document: "items[2]" in a List
	value any
}

// objects returns the objects of a file, and those in its Lists.
func (s *source) objects() []fileObject {
	var objects []fileObject
	for _, doc := range s.docs {
		fields, _ := doc.value.(map[string]any)
		kind, _ := fields["kind"].(string)
		items, isList := fields["items"].([]any)
		if !isList || !strings.HasSuffix(kind, "List") {
			objects = append(objects, fileObject{doc: doc, value: doc.value})
			continue
		}
		for i, item := range items {
			objects = append(objects, fileObject{doc: doc, path: fmt.Sprintf("items[%d]", i), value: item})
		}
	}
	return objects
}

// at makes a diagnostic about a field of the object.
func (o fileObject) at(name, message string) Diagnostic {
	return o.doc.at(join(o.path, name), strings.TrimPrefix(join(o.path, name)+": "+message, ": "))
}

// loadObjects reads the objects of the files that a field of the scenario refers to.
func (l *loader) loadObjects(reference FileReference, fieldPath string) ([]fileObject, []apiserver.Object) {
	var from []fileObject
	var objects []apiserver.Object
	for _, source := range l.readReferences(reference, fieldPath) {
		for _, o := range source.objects() {
			object, problems := l.object(o)
			l.add(problems...)
			if object != nil {
				from = append(from, o)
				objects = append(objects, object)
			}
		}
	}
	return from, objects
}

// loadGiven reads the objects at the start.
func (l *loader) loadGiven() []apiserver.Object {
	before := len(l.diagnostics)
	var from []fileObject
	var given []apiserver.Object
	seen := map[string]fileObject{}
	for i, reference := range l.manifest.Spec.Given {
		places, objects := l.loadObjects(reference, indexed("given", i))
		for j, object := range objects {
			id := objectID(object.GetObjectKind().GroupVersionKind(), object.GetNamespace(), object.GetName())
			if first, ok := seen[id]; ok {
				line := first.doc.index().nearest(first.path, false).line
				l.add(places[j].at("metadata.name", fmt.Sprintf("%s is given twice, first in %s:%d", id, first.doc.source.name, line)))
				continue
			}
			seen[id] = places[j]
			from = append(from, places[j])
			given = append(given, object)
		}
	}
	if len(l.diagnostics) == before {
		l.checkOwners(from, given)
	}
	return given
}

// object decodes an object strictly and checks it as the API server would. It is in stored form, otherwise as it is written;
// nil if there are diagnostics.
func (l *loader) object(o fileObject) (apiserver.Object, []Diagnostic) {
	kind, problem := l.objectKind(o)
	if problem != nil {
		return nil, []Diagnostic{*problem}
	}
	if problems := l.strictObject(o, kind); len(problems) > 0 {
		return nil, problems
	}
	data, err := json.Marshal(o.value)
	if err != nil {
		return nil, []Diagnostic{o.at("", err.Error())}
	}
	object, err := kind.Decode(data)
	if err != nil {
		return nil, []Diagnostic{o.at("", err.Error())}
	}
	if problems := l.checkObject(o, kind, object); len(problems) > 0 {
		return nil, problems
	}
	return object, nil
}

// strictObject reports the fields that the kind does not have, and those of the wrong type; of a custom resource, the latter are
// for the validation to find.
func (l *loader) strictObject(o fileObject, kind *apiserver.Kind) []Diagnostic {
	if !kind.Custom() {
		problems, _ := strictDecode(o.doc, o.value, o.path, reflect.New(kind.Type).Interface())
		return problems
	}
	metadata := o.value.(map[string]any)["metadata"]
	problems, _ := strictDecode(o.doc, metadata, join(o.path, "metadata"), &metav1.ObjectMeta{})
	if definition := l.definitions[kind.GroupVersionKind]; definition != nil {
		problems = append(problems, l.unknownFields(o, definition)...)
	}
	return problems
}

// objectKind returns the kind of an object, or what is wrong with its apiVersion and kind.
func (l *loader) objectKind(o fileObject) (*apiserver.Kind, *Diagnostic) {
	fail := func(name, message string) (*apiserver.Kind, *Diagnostic) {
		problem := o.at(name, message)
		return nil, &problem
	}
	fields, ok := o.value.(map[string]any)
	if !ok {
		return fail("", "expected an object with apiVersion, kind and metadata, found "+describe(o.value))
	}
	version, ok := fields["apiVersion"].(string)
	if !ok {
		return fail("apiVersion", "expected the group and version of the kind, found "+describe(fields["apiVersion"]))
	}
	name, ok := fields["kind"].(string)
	if !ok {
		return fail("kind", "expected the name of a kind, found "+describe(fields["kind"]))
	}
	gvk := schema.FromAPIVersionAndKind(version, name)
	if kind := l.kinds.ByGVK(gvk); kind != nil {
		return kind, nil
	}
	if kind := l.kinds.ByName(name); kind != nil {
		return fail("apiVersion", fmt.Sprintf("no such kind: %s is known as apiVersion %s, not %s", name, kind.GroupVersion(), version))
	}
	return fail("kind", fmt.Sprintf("%q: %s", name, unknownKind(l.kinds, name, isBuiltin(name, gvk.Group))))
}

// checkObject fills in the namespace of an object, and has a server of its own load it, which finds what is not valid.
func (l *loader) checkObject(o fileObject, kind *apiserver.Kind, object apiserver.Object) []Diagnostic {
	if object.GetName() == "" {
		return []Diagnostic{o.at("metadata.name", "required value: give the object a name")}
	}
	switch {
	case kind.Namespaced && object.GetNamespace() == "":
		object.SetNamespace(DefaultNamespace)
	case !kind.Namespaced && object.GetNamespace() != "":
		return []Diagnostic{o.at("metadata.namespace", fmt.Sprintf("objects of kind %s have no namespace", kind.Kind))}
	}
	// The server knows no other object, so it must not look for the owners.
	trial := object.DeepCopyObject().(apiserver.Object)
	owners := trial.GetOwnerReferences()
	for i := range owners {
		owners[i].UID = cmp.Or(owners[i].UID, "to-be-resolved")
	}
	trial.SetOwnerReferences(owners)
	err := newTrialServer(l.kinds).Load(trial)
	var invalid *apierrors.StatusError
	if errors.As(err, &invalid) && invalid.ErrStatus.Details != nil && len(invalid.ErrStatus.Details.Causes) > 0 {
		var problems []Diagnostic
		for _, cause := range invalid.ErrStatus.Details.Causes {
			where := strings.TrimPrefix(cause.Field, "<nil>") // which is how a path to the object itself is printed
			problems = append(problems, o.at(where, lowerFirst(cause.Message)))
		}
		return problems
	}
	if err != nil {
		return []Diagnostic{o.at("", err.Error())}
	}
	return nil
}

// newTrialServer returns a server to try objects on. What time it is there does not matter.
func newTrialServer(kinds *apiserver.Kinds) *apiserver.Server {
	return apiserver.NewServer(kinds, func() time.Time { return time.Unix(0, 0) })
}

// checkOwners reports owners that are named without a uid and are not given. For what else may be wrong with the objects only
// as a whole, a server loads them all.
func (l *loader) checkOwners(from []fileObject, given []apiserver.Object) {
	before := len(l.diagnostics)
	known := sets.New[string]()
	copies := make([]apiserver.Object, len(given))
	for i, object := range given {
		known.Insert(objectID(object.GetObjectKind().GroupVersionKind(), object.GetNamespace(), object.GetName()))
		copies[i] = object.DeepCopyObject().(apiserver.Object)
	}
	for i, object := range given {
		for j, owner := range object.GetOwnerReferences() {
			gvk := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
			namespace := object.GetNamespace()
			if kind := l.kinds.ByGVK(gvk); kind != nil && !kind.Namespaced {
				namespace = metav1.NamespaceNone
			}
			if owner.UID == "" && !known.Has(objectID(gvk, namespace, owner.Name)) {
				message := fmt.Sprintf("%s %q is not given: give it too, or write its uid", owner.Kind, owner.Name)
				l.add(from[i].at(fmt.Sprintf("metadata.ownerReferences[%d]", j), message))
			}
		}
	}
	if len(l.diagnostics) > before {
		return
	}
	if err := newTrialServer(l.kinds).LoadAll(copies); err != nil {
		l.add(l.doc.at("spec.given", fmt.Sprintf("spec.given: %v", err)))
	}
}

// objectID names an object among all of a scenario.
func objectID(gvk schema.GroupVersionKind, namespace, name string) string {
	return gvk.GroupKind().String() + " " + strings.TrimPrefix(types.NamespacedName{Namespace: namespace, Name: name}.String(), "/")
}
