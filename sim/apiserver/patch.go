package apiserver

import (
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
	e := s.table(k).get(req.Namespace, req.Name)
	if e == nil {
		return failed(notFound(k, req.Name))
	}
	obj, err := k.patched(e.object, req.PatchType, req.PatchData)
	if err != nil {
		return failed(err)
	}
	if err := placeIn(req.Namespace, obj); err != nil {
		return failed(err)
	}
	if err := checkName(req, obj); err != nil {
		return failed(err)
	}
	k.receive(obj, k.dropped(req.Subresource))
	return s.replace(req, obj, e)
}

// checkPatchType refuses patches of a type the kind does not take.
func (s *Server) checkPatchType(req *Request) *statusError {
	accepted := []types.PatchType{types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType, types.ApplyPatchType}
	if req.Kind.Custom() {
		accepted = []types.PatchType{types.JSONPatchType, types.MergePatchType, types.ApplyPatchType}
	}
	switch req.PatchType {
	case types.JSONPatchType, types.MergePatchType:
		return nil
	case types.StrategicMergePatchType:
		if !req.Kind.Custom() {
			return nil
		}
	case types.ApplyPatchType:
		s.gap("server-side apply is not modelled: apply patches are answered with 415")
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
	data, err := k.Encode(stored)
	if err != nil {
		return nil, plain(err.Error())
	}
	data, statusErr := applyJSON(data, patchType, patch)
	if statusErr != nil {
		return nil, statusErr
	}
	obj, err := k.Decode(data)
	if err != nil {
		return nil, invalidPatch(string(data), err)
	}
	return obj, nil
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
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, badRequest("error decoding patch: %v", err)
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
	changes := map[string]any{}
	if err := kjson.Unmarshal(patch, &changes); err != nil {
		return nil, badRequest("%v", err)
	}
	touched, sparse := k.touched(stored, changes)
	document, err := runtime.DefaultUnstructuredConverter.ToUnstructured(sparse)
	if err != nil {
		return nil, plain(err.Error())
	}
	merged, statusErr := mergeStrategic(document, changes, k.New())
	if statusErr != nil {
		return nil, statusErr
	}
	obj := k.New()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(merged, obj); err != nil {
		return nil, invalidPatch(fmt.Sprintf("%+v", changes), err)
	}
	if touched != nil {
		obj = k.withFields(stored, obj, touched)
	}
	adopted, err := k.adopt(obj)
	if err != nil {
		return nil, badRequest("%v", err)
	}
	return adopted, nil
}

// touched returns the indexes of the top-level fields that a patch names, and an object that has nothing but those of the
// stored one. Where the patch names anything else, a directive or a field the kind does not have, it returns no indexes
// and the stored object itself.
func (k *Kind) touched(stored Object, changes map[string]any) ([]int, Object) {
	var indexes []int
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

// mergeStrategic calls the library, and tells what went wrong as interpretStrategicMergePatchError of patch.go does.
func mergeStrategic(document, changes map[string]any, schemaOf Object) (merged map[string]any, statusErr *statusError) {
	defer recovered(&statusErr)
	merged, err := strategicpatch.StrategicMergeMapPatch(document, changes, schemaOf)
	switch err {
	case nil:
		return merged, nil
	case mergepatch.ErrBadJSONDoc, mergepatch.ErrBadPatchFormatForPrimitiveList, mergepatch.ErrBadPatchFormatForRetainKeys,
		mergepatch.ErrBadPatchFormatForSetElementOrderList, mergepatch.ErrUnsupportedStrategicMergePatchFormat:
		return nil, badRequest("%v", err)
	case mergepatch.ErrNoListOfLists, mergepatch.ErrPatchContentNotMatchRetainKeys:
		return nil, unprocessable(err)
	default:
		return nil, plain(err.Error())
	}
}

func unprocessable(err error) *statusError {
	none := schema.GroupResource{}
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", none, "", err.Error(), 0, false)
}
