package scenarios

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

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
	var given []apiserver.Object
	seen := map[string]fileObject{}
	for i, reference := range l.manifest.Spec.Given {
		from, objects := l.loadObjects(reference, indexed("given", i))
		for j, object := range objects {
			id := fmt.Sprintf("%s %s/%s", object.GetObjectKind().GroupVersionKind().GroupKind(), object.GetNamespace(), object.GetName())
			if first, ok := seen[id]; ok {
				at := first.doc.index().nearest(first.path, false)
				l.add(from[j].at("metadata.name", fmt.Sprintf("%s is given twice, first in %s:%d", id, first.doc.source.name, at.line)))
				continue
			}
			seen[id] = from[j]
			given = append(given, object)
		}
	}
	return given
}

// object decodes an object strictly and checks it as the API server would. The result is in stored form, with defaults; it is
// nil if there are diagnostics.
func (l *loader) object(o fileObject) (apiserver.Object, []Diagnostic) {
	kind, problem := l.objectKind(o)
	if problem != nil {
		return nil, []Diagnostic{*problem}
	}
	if !kind.Custom() {
		problems, _ := strictDecode(o.doc, o.value, o.path, reflect.New(kind.Type).Interface())
		if len(problems) > 0 {
			return nil, problems
		}
	}
	data, err := json.Marshal(o.value)
	if err != nil {
		return nil, []Diagnostic{o.at("", err.Error())}
	}
	object, err := kind.Decode(data)
	if err != nil {
		return nil, []Diagnostic{o.at("", err.Error())}
	}
	if errs := l.checkObject(kind, object); len(errs) > 0 {
		return nil, fieldDiagnostics(o.doc, o.path, errs)
	}
	return object, nil
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
	return fail("kind", fmt.Sprintf("%q: %s", name, unknownKind(l.kinds, name)))
}

// checkObject fills in the namespace and the defaults of an object, and checks it as one that is created. What a client may
// not set on creation is left as written, as the objects of a scenario have a past.
func (l *loader) checkObject(kind *apiserver.Kind, object apiserver.Object) field.ErrorList {
	metadata := field.NewPath("metadata")
	var errs field.ErrorList
	if object.GetName() == "" {
		errs = append(errs, field.Required(metadata.Child("name"), "give the object a name"))
	}
	switch {
	case kind.Namespaced && object.GetNamespace() == "":
		object.SetNamespace(DefaultNamespace)
	case !kind.Namespaced && object.GetNamespace() != "":
		errs = append(errs, field.Forbidden(metadata.Child("namespace"), fmt.Sprintf("objects of kind %s have no namespace", kind.Kind)))
	}
	if len(errs) > 0 {
		return errs
	}
	if kind.Default != nil {
		kind.Default(object)
	}
	if kind.Validate != nil {
		errs = kind.Validate(object, nil, l.kinds.Version())
	}
	return errs
}

// content returns the fields of a custom resource.
func content(object apiserver.Object) map[string]any {
	return object.(*unstructured.Unstructured).Object
}
