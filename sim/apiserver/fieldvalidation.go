package apiserver

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kjson "sigs.k8s.io/json"
)

// Field validation finds what a patch says in vain: fields that the kind does not have, and fields that the patch has twice.
// It costs more than the patch itself and is done only where it is asked for; an object that is sent whole has lost such fields
// by the time it is a [Request].

// checksFields reports whether the request asks what becomes of unknown fields.
func (r *Request) checksFields() bool {
	return r.FieldValidation == metav1.FieldValidationWarn || r.FieldValidation == metav1.FieldValidationStrict
}

// patched returns a new object: the stored one with the patch of the request applied.
func (r *Request) patched(k *Kind, stored Object) (Object, *statusError) {
	if !r.checksFields() {
		return k.patched(stored, r.PatchType, r.PatchData)
	}
	var obj Object
	var shown string // the patch, or what it made, as a refusal shows it
	var unknown []error
	var err *statusError
	if r.PatchType == types.StrategicMergePatchType {
		obj, shown, unknown, err = k.strategicChecked(stored, r.PatchData)
	} else {
		obj, shown, unknown, err = k.jsonChecked(stored, r.PatchType, r.PatchData)
	}
	if err == nil {
		err = r.warnUnknown(unknown, shown)
	}
	if err != nil {
		return nil, err
	}
	return obj, nil
}

// warnUnknown warns of what a patch says in vain, or refuses it, as it is asked to.
func (r *Request) warnUnknown(unknown []error, shown string) *statusError {
	if len(unknown) > 0 && r.FieldValidation == metav1.FieldValidationStrict {
		return invalidPatch(shown, runtime.NewStrictDecodingError(unknown))
	}
	for _, field := range unknown {
		r.warnings = append(r.warnings, field.Error())
	}
	return nil
}

// jsonChecked applies a JSON patch or a JSON merge patch; jsonPatcher of pkg/endpoints/handlers/patch.go.
func (k *Kind) jsonChecked(stored Object, patchType types.PatchType, patch []byte) (
	obj Object, shown string, unknown []error, statusErr *statusError,
) {
	var into any = &map[string]any{}
	if patchType == types.JSONPatchType {
		into = &[]jsonPatchOp{}
	}
	unknown, err := kjson.UnmarshalStrict(patch, into)
	if err != nil {
		return nil, "", nil, badRequest("error decoding patch: %s", withRealTypes(err))
	}
	if patchType == types.JSONPatchType {
		for i, field := range unknown {
			unknown[i] = fmt.Errorf("json patch %w", field)
		}
	}
	data, err := k.Encode(stored)
	if err != nil {
		return nil, "", nil, plain(err.Error())
	}
	if data, statusErr = applyJSON(data, patchType, patch); statusErr != nil {
		return nil, "", nil, statusErr
	}
	obj, more, err := k.decodePatched(data, true)
	if err != nil {
		return nil, "", nil, invalidPatch(string(data), err)
	}
	return obj, string(data), append(unknown, more...), nil
}

// strategicChecked applies a strategic merge patch; smpPatcher of pkg/endpoints/handlers/patch.go.
func (k *Kind) strategicChecked(stored Object, patch []byte) (obj Object, shown string, unknown []error, statusErr *statusError) {
	changes := map[string]any{}
	unknown, err := kjson.UnmarshalStrict(patch, &changes)
	if err != nil {
		return nil, "", nil, badRequest("%v", err)
	}
	document, err := runtime.DefaultUnstructuredConverter.ToUnstructured(stored)
	if err != nil {
		return nil, "", nil, plain(err.Error())
	}
	obj = k.New()
	merged, statusErr := mergeMaps(document, changes, obj)
	if statusErr != nil {
		return nil, "", nil, statusErr
	}
	shown = fmt.Sprintf("%+v", changes)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(merged, obj, true); err != nil {
		strict, ok := runtime.AsStrictDecodingError(err)
		if !ok {
			return nil, "", nil, invalidPatch(shown, err)
		}
		unknown = append(unknown, strict.Errors()...)
	}
	obj.GetObjectKind().SetGroupVersionKind(k.GroupVersionKind)
	return obj, shown, unknown, nil
}
