package handler

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/apiserver/internal/realscheme"
)

// wire is what reads and writes bodies.
type wire struct {
	scheme *runtime.Scheme
	media  []runtime.SerializerInfo // JSON, YAML and protobuf, in the order in which messages list them
}

// codecs returns the readers and writers of all bodies. They know more kinds than any kinds table, so that a body of the
// wrong kind is refused for what it is.
var codecs = sync.OnceValue(func() wire {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientscheme.AddToScheme(scheme))
	utilruntime.Must(apiextensionsv1.AddToScheme(scheme))
	return wire{scheme, serializer.NewCodecFactory(scheme).SupportedMediaTypes()}
})

// readable is an error as a real server tells it.
func (w wire) readable(err error) string {
	return strings.ReplaceAll(err.Error(), w.scheme.Name(), realscheme.Name)
}

// decode reads the body of a request for an object of the given kind, the custom ones as unstructured. It returns the
// fields that the kind does not have, if it was asked to be strict; what it does with them is up to the caller.
// The errors are those of transformDecodeError, pkg/endpoints/handlers/rest.go.
func (w wire) decode(info runtime.SerializerInfo, body []byte, want schema.GroupVersionKind, strict, custom bool) (
	obj runtime.Object, unknown []error, err error,
) {
	decoder := info.Serializer
	if strict {
		decoder = info.StrictSerializer
	}
	var into runtime.Object
	if custom {
		into = &unstructured.Unstructured{}
	}
	obj, found, err := decoder.Decode(body, &want, into)
	if strictErr, ok := runtime.AsStrictDecodingError(err); ok && obj != nil {
		unknown, err = strictErr.Errors(), nil
	}
	if err == nil && !custom {
		err = convertible(obj, *found, want)
	}
	switch {
	case err != nil && found != nil && found.Kind != "":
		return nil, nil, badRequest("%s in version %q cannot be handled as a %s: %s", found.Kind, found.Version, want.Kind, w.readable(err))
	case err != nil:
		return nil, nil, badRequest("the object provided is unrecognized (must be of type %s): %s (%s)",
			want.Kind, w.readable(err), summary(body, 30))
	case found.GroupVersion() != want.GroupVersion() && !slices.Contains(otherBodies[want], found.GroupVersion()):
		return nil, nil, badRequest("the API version in the data (%s) does not match the expected API version (%s)",
			found.GroupVersion(), want.GroupVersion())
	}
	return obj, unknown, nil
}

// otherBodies are the versions in which a body is taken besides its own: AcceptsGroupVersion of what is behind the subresource.
var otherBodies = map[schema.GroupVersionKind][]schema.GroupVersion{
	evictionKind: {{Group: "policy", Version: "v1beta1"}},
}

// convertible reports why an object cannot be made one of the wanted kind: another version of it can.
func convertible(obj runtime.Object, have, want schema.GroupVersionKind) error {
	if have.GroupKind() == want.GroupKind() || sameStorage(have, want) {
		return nil
	}
	return realscheme.Unconvertible(obj, want)
}

// sameStorage reports whether both kinds have the same internal type, so that one is converted to the other.
func sameStorage(a, b schema.GroupVersionKind) bool {
	events := map[schema.GroupKind]bool{{Kind: "Event"}: true, {Group: "events.k8s.io", Kind: "Event"}: true}
	return events[a.GroupKind()] && events[b.GroupKind()]
}

// summary shows the beginning of a body that could not be read; summarizeData of rest.go.
func summary(body []byte, limit int) string {
	text := string(body)
	if len(body) > limit {
		text = string(body[:limit])
	}
	switch {
	case len(body) == 0:
		return "<empty>"
	case body[0] != '{':
		text = hex.EncodeToString([]byte(text))
	}
	if len(body) > limit {
		text += " ..."
	}
	return text
}

// shown is an object as the negotiated representation shows it. Stored objects are not changed.
func shown(obj runtime.Object, as *schema.GroupVersionKind) (runtime.Object, error) {
	if as == nil {
		return obj, nil
	}
	if _, ok := obj.(*metav1.Status); ok {
		return obj, nil
	}
	list, isList := obj.(metav1.ListInterface)
	if _, isObject := obj.(metav1.Object); isObject {
		isList = false
	}
	_, custom := obj.(*unstructured.Unstructured)
	switch {
	case as.Kind == "PartialObjectMetadata" && isList:
		return nil, notAcceptable(fmt.Sprintf("you requested PartialObjectMetadata, but the requested object is a list (%s)", internalType(obj)))
	case as.Kind == "PartialObjectMetadata":
		return partial(obj.(metav1.Object), as.GroupVersion()), nil
	case !isList && custom:
		return nil, apierrors.FromObject(&metav1.Status{Code: http.StatusInternalServerError, Message: "content is not a list"})
	case !isList:
		return nil, notAcceptable(fmt.Sprintf(
			"you requested PartialObjectMetadataList, but the requested object is not a list (%s)", internalType(obj)))
	}
	result := &metav1.PartialObjectMetadataList{ListMeta: metav1.ListMeta{
		ResourceVersion: list.GetResourceVersion(), Continue: list.GetContinue(), RemainingItemCount: list.GetRemainingItemCount(),
	}, Items: []metav1.PartialObjectMetadata{}}
	result.SetGroupVersionKind(*as)
	err := meta.EachListItem(obj, func(item runtime.Object) error {
		result.Items = append(result.Items, *partial(item.(metav1.Object), as.GroupVersion()))
		return nil
	})
	return result, err
}

// internalType is what a real server calls the Go type of an object in messages: its internal one, whose package has the name of
// the group.
func internalType(obj runtime.Object) string {
	t := reflect.TypeOf(obj).Elem()
	pkg := path.Base(t.PkgPath())
	if group, found := strings.CutPrefix(path.Dir(t.PkgPath()), "k8s.io/api/"); found {
		pkg = group
	}
	return "*" + pkg + "." + t.Name()
}

func partial(obj metav1.Object, version schema.GroupVersion) *metav1.PartialObjectMetadata {
	p := meta.AsPartialObjectMetadata(obj)
	if _, ok := obj.(*appsv1.DaemonSet); ok && p.Annotations[appsv1.DeprecatedTemplateGeneration] != "" {
		// Internally it is a field, which is made an annotation only where all of the object is shown.
		p.Annotations = maps.Clone(p.Annotations)
		delete(p.Annotations, appsv1.DeprecatedTemplateGeneration)
	}
	p.SetGroupVersionKind(version.WithKind("PartialObjectMetadata"))
	return p
}

// listOf makes the list object of a kind. Built-ins are copied without apiVersion and kind, which the items of a typed list
// do not have.
func (w wire) listOf(kind *apiserver.Kind, items []apiserver.Object, listMeta metav1.ListMeta) (runtime.Object, error) {
	gvk := kind.GroupVersionKind
	gvk.Kind += "List"
	if kind.Custom() {
		list := &unstructured.UnstructuredList{Object: map[string]any{}, Items: make([]unstructured.Unstructured, len(items))}
		list.SetGroupVersionKind(gvk)
		setListMeta(list, listMeta)
		for i, item := range items {
			list.Items[i].Object = item.(*unstructured.Unstructured).Object
		}
		return list, nil
	}
	list, err := w.scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	list.GetObjectKind().SetGroupVersionKind(gvk)
	setListMeta(list.(metav1.ListInterface), listMeta)
	pointer, err := meta.GetItemsPtr(list)
	if err != nil {
		return nil, err
	}
	all := reflect.ValueOf(pointer).Elem()
	all.Set(reflect.MakeSlice(all.Type(), len(items), len(items)))
	for i, item := range items {
		element := all.Index(i)
		element.Set(reflect.ValueOf(item).Elem())
		element.Addr().Interface().(runtime.Object).GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	return list, nil
}

func setListMeta(list metav1.ListInterface, m metav1.ListMeta) {
	list.SetResourceVersion(m.ResourceVersion)
	list.SetContinue(m.Continue)
	list.SetRemainingItemCount(m.RemainingItemCount)
}

// encode writes an object.
func encode(encoder runtime.Encoder, obj runtime.Object) ([]byte, error) {
	var buffer bytes.Buffer
	if err := encoder.Encode(obj, &buffer); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

// apiError is an error that knows what to tell a client.
type apiError interface {
	error
	apierrors.APIStatus
}

// statusOf returns what an error tells a client; pkg/endpoints/handlers/responsewriters/status.go.
func statusOf(err error) *metav1.Status {
	var status metav1.Status
	if known, ok := errors.AsType[apiError](err); ok {
		status = known.Status()
	} else {
		status = metav1.Status{Code: 500, Message: err.Error()}
	}
	if status.Status == "" {
		status.Status = metav1.StatusFailure
	}
	if status.Code == 0 {
		status.Code = 500
	}
	status.APIVersion, status.Kind = "v1", "Status"
	return &status
}
