package apiserver

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxPatchOperations is the limit of pkg/endpoints/handlers/patch.go.
const maxPatchOperations = 10_000

// patch answers a PATCH; pkg/endpoints/handlers/patch.go. It is applied to what is stored now, so it never conflicts
// unless the patch itself names a resourceVersion.
func (s *Server) patch(req *Request) *Response {
	k := req.Kind
	if err := s.checkPatchType(req); err != nil {
		return failed(err)
	}
	if req.PatchType == types.ApplyPatchType {
		return s.apply(req)
	}
	e := s.table(k).get(req.Namespace, req.Name)
	if e == nil {
		return failed(notFound(req.view(), req.Name))
	}
	view, stored := req.view(), e.object
	if bytes.Contains(req.PatchData, []byte("managedFields")) {
		stored = k.full(s.ownershipOf(k, e), stored)
		e = s.table(k).get(req.Namespace, req.Name)
	}
	obj, err := req.patched(view, req.shown(stored))
	if err != nil {
		return failed(err)
	}
	req.takeSaid(obj)
	if err := placeIn(req.Namespace, obj); err != nil {
		return failed(err)
	}
	if err := checkName(req, obj); err != nil {
		return failed(err)
	}
	view.receive(obj, view.dropped(req.Subresource))
	req.dropRepeatedOwners(obj, " after mutating admission happens")
	if obj, err = req.stored(obj); err != nil {
		return failed(err)
	}
	return s.replace(req, obj, e)
}

// checkPatchType refuses patches of a type the kind does not take, and options that such a patch does not have.
func (s *Server) checkPatchType(req *Request) *statusError {
	accepted := []types.PatchType{types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType, types.ApplyPatchType}
	if req.Kind.Custom() {
		accepted = []types.PatchType{types.JSONPatchType, types.MergePatchType, types.ApplyPatchType}
	}
	switch req.PatchType {
	case types.JSONPatchType, types.MergePatchType, types.ApplyPatchType:
		return checkWriteOptions(req)
	case types.StrategicMergePatchType:
		if !req.Kind.Custom() {
			return checkWriteOptions(req)
		}
	}
	return unsupportedPatch(accepted...)
}

// patched returns a new object: the stored one with the patch applied.
func (k *Kind) patched(stored Object, patchType types.PatchType, patch []byte) (Object, *statusError) {
	switch patchType {
	case types.StrategicMergePatchType:
		return k.strategicPatched(stored, patch)
	case types.MergePatchType:
		if obj, ok := k.mergePatched(stored, patch); ok {
			return obj, nil
		}
	}
	return k.jsonPatched(stored, patchType, patch)
}

// jsonPatched applies a JSON patch or a JSON merge patch to the object as a whole.
func (k *Kind) jsonPatched(stored Object, patchType types.PatchType, patch []byte) (Object, *statusError) {
	data, err := k.Encode(stored)
	if err != nil {
		return nil, plain(err.Error())
	}
	data, statusErr := applyJSON(data, patchType, patch)
	if statusErr != nil {
		return nil, statusErr
	}
	obj, _, err := k.decodePatched(data, false)
	if err != nil {
		return nil, invalidPatch(string(data), err)
	}
	return obj, nil
}

// withoutKind returns what a decoder said, without the kind that [Kind.Decode] puts before it.
func withoutKind(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return inner
	}
	return err
}

// invalidPatch is a patch whose result is no object of the kind.
func invalidPatch(value string, err error) *statusError {
	return apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{
		field.Invalid(field.NewPath("patch"), value, strings.TrimSpace(err.Error())),
	})
}

// recovered turns a panic of a patch library into the error a real server answers with, which uses the same libraries:
// pkg/server/filters/wrap.go of k8s.io/apiserver. It is deferred around nothing but a library's call.
func recovered(err **statusError) {
	if recover() != nil {
		*err = plain("This request caused apiserver to panic. Look in the logs for details.")
	}
}

// jsonPatchOp is the form an operation of a JSON patch must have. The library that applies the patch is less strict.
type jsonPatchOp struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	From  string `json:"from"`
	Value any    `json:"value"`
}

// withRealTypes returns what a decoder said, with the package that has the type on a real server.
func withRealTypes(err error) string {
	return strings.ReplaceAll(err.Error(), "apiserver.jsonPatchOp", "handlers.jsonPatchOp")
}

// applyJSON applies a JSON patch or a JSON merge patch to a document; jsonPatcher.applyJSPatch of patch.go.
func applyJSON(document []byte, patchType types.PatchType, patch []byte) (patched []byte, statusErr *statusError) {
	defer recovered(&statusErr)
	if patchType == types.MergePatchType {
		if err := kjson.Unmarshal(patch, &map[string]any{}); err != nil {
			return nil, badRequest("error decoding patch: %v", err)
		}
		merged, err := jsonpatch.MergePatch(document, patch)
		if err != nil {
			return nil, badRequest("%v", err)
		}
		return merged, nil
	}
	if err := kjson.Unmarshal(patch, &[]jsonPatchOp{}); err != nil {
		return nil, badRequest("error decoding patch: %s", withRealTypes(err))
	}
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, badRequest("%v", err)
	}
	if len(operations) > maxPatchOperations {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf(
			"The allowed maximum operations in a JSON patch is %d, got %d", maxPatchOperations, len(operations)))
	}
	patched, err = operations.Apply(document)
	if err != nil {
		return nil, unprocessable(err)
	}
	return patched, nil
}

// strategicPatched applies a strategic merge patch; smpPatcher of patch.go. Only the top-level fields that the patch
// touches take the way through maps, which is slow; the result shares the others with the stored object.
func (k *Kind) strategicPatched(stored Object, patch []byte) (Object, *statusError) {
	changes, err := decodeStrategic(patch)
	if err != nil {
		return nil, err
	}
	touched, sparse := k.touched(stored, changes)
	obj := k.New()
	if err := mergeStrategic(sparse, changes, obj); err != nil {
		return nil, err
	}
	if touched != nil {
		obj = k.withFields(stored, obj, touched)
	}
	// What the patch says of apiVersion and kind does not matter: the path says what is patched.
	obj.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
	return obj, nil
}

func decodeStrategic(patch []byte) (map[string]any, *statusError) {
	changes := map[string]any{}
	if err := kjson.Unmarshal(patch, &changes); err != nil {
		return nil, badRequest("%v", err)
	}
	return changes, nil
}

// touched returns the indexes of the top-level fields that a patch names, and an object that has nothing but those of the
// stored one. Where the patch names anything else, a directive or a field the kind does not have, it returns no indexes
// and the stored object itself.
func (k *Kind) touched(stored Object, changes map[string]any) ([]int, Object) {
	indexes := make([]int, 0, len(changes)) // not nil where the patch names nothing
	for name := range changes {
		if name == "apiVersion" || name == "kind" {
			continue
		}
		index, ok := topLevelField(k.Type, name)
		if !ok {
			return nil, stored
		}
		indexes = append(indexes, index)
	}
	return indexes, k.withFields(k.New(), stored, indexes)
}

// withFields returns a copy of base that has some of its top-level fields from another object.
func (k *Kind) withFields(base, from Object, indexes []int) Object {
	obj := k.shallowCopy(base)
	to, source := reflect.ValueOf(obj).Elem(), reflect.ValueOf(from).Elem()
	for _, index := range indexes {
		to.Field(index).Set(source.Field(index))
	}
	return obj
}

// mergeStrategic merges changes into an object, and reads the result into another of its type.
func mergeStrategic(original runtime.Object, changes map[string]any, into runtime.Object) *statusError {
	document, err := runtime.DefaultUnstructuredConverter.ToUnstructured(original)
	if err != nil {
		return plain(err.Error())
	}
	merged, statusErr := mergeMaps(document, changes, into)
	if statusErr != nil {
		return statusErr
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(merged, into); err != nil {
		return invalidPatch(fmt.Sprintf("%+v", changes), err)
	}
	return nil
}

// mergeMaps calls the library, and tells what went wrong as interpretStrategicMergePatchError of patch.go does.
func mergeMaps(document, changes map[string]any, schemaOf runtime.Object) (merged map[string]any, statusErr *statusError) {
	defer recovered(&statusErr)
	merged, err := strategicpatch.StrategicMergeMapPatch(document, changes, schemaOf)
	switch {
	case err == nil:
		return merged, nil
	case errors.Is(err, mergepatch.ErrBadJSONDoc),
		errors.Is(err, mergepatch.ErrBadPatchFormatForPrimitiveList),
		errors.Is(err, mergepatch.ErrBadPatchFormatForRetainKeys),
		errors.Is(err, mergepatch.ErrBadPatchFormatForSetElementOrderList),
		errors.Is(err, mergepatch.ErrUnsupportedStrategicMergePatchFormat):
		return nil, badRequest("%v", err)
	case errors.Is(err, mergepatch.ErrNoListOfLists), errors.Is(err, mergepatch.ErrPatchContentNotMatchRetainKeys):
		return nil, unprocessable(err)
	default:
		return nil, plain(err.Error())
	}
}

func unprocessable(err error) *statusError {
	none := schema.GroupResource{}
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", none, "", err.Error(), 0, false)
}
