package crd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	openapierrors "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/validate"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// Validate checks a new object (old is nil) or an update of the main resource, after pruning and defaulting;
// pkg/registry/customresource/{strategy,validator}.go in k8s.io/apiextensions-apiserver. An update is not refused for
// anything that it leaves as it was. The metadata of the object is not looked at.
func (d *Definition) Validate(object, old map[string]any) field.ErrorList {
	changed := changedFields(object, old)
	if old != nil && len(changed) == 0 {
		return nil
	}
	errs := ratcheted(d.validateSchema(object, changed), object, old, d.structural)
	errs = append(errs, d.validateScale(object, true)...)
	if d.embedded {
		errs = append(errs, validateEmbedded(object, d.structural)...)
	}
	return append(errs, d.validateLists(object, old)...)
}

// validateEmbedded checks the metadata of embedded objects. The library's function takes a context from v0.37 on.
func validateEmbedded(object map[string]any, s *structural.Structural) field.ErrorList {
	switch validate := any(objectmeta.Validate).(type) {
	case func(*field.Path, any, *structural.Structural, bool) field.ErrorList:
		return validate(nil, object, s, false)
	case func(context.Context, *field.Path, any, *structural.Structural, bool) field.ErrorList:
		return validate(context.Background(), nil, object, s, false)
	default:
		panic(fmt.Sprintf("crd: unknown form %T of objectmeta.Validate", validate))
	}
}

// ValidateStatus checks a write to the status subresource, as Validate does.
func (d *Definition) ValidateStatus(object, old map[string]any) field.ErrorList {
	status, ok := object["status"]
	if ok && canon.Equal(status, old["status"]) {
		return nil
	}
	var errs field.ErrorList
	if ok && d.status != nil {
		errs = ratcheted(fieldErrors(d.status.Validate(status), field.NewPath("status")), object, old, d.structural)
	}
	errs = append(errs, d.validateScale(object, false)...)
	return append(errs, d.validateLists(object, old)...)
}

// changedFields returns the top-level fields that differ, in a fixed order.
func changedFields(object, old map[string]any) []string {
	var changed []string
	for _, name := range slices.Sorted(maps.Keys(object)) {
		switch before, ok := old[name]; {
		case name == "apiVersion", name == "kind", name == "metadata":
		case !ok || !canon.Equal(object[name], before):
			changed = append(changed, name)
		}
	}
	for name := range old {
		if _, ok := object[name]; !ok {
			return append(changed, name) // which of several does not matter: the whole is looked at
		}
	}
	return changed
}

// validateSchema checks the changed fields, or the whole object if its validity is more than that of its fields.
func (d *Definition) validateSchema(object map[string]any, changed []string) field.ErrorList {
	required := d.openAPI.Required
	missing := slices.ContainsFunc(required, func(name string) bool { _, ok := object[name]; return !ok })
	if d.fields == nil || missing {
		return fieldErrors(d.whole.Validate(object), nil)
	}
	var errs field.ErrorList
	for _, name := range changed {
		if value, ok := object[name]; ok && d.fields[name] != nil {
			errs = append(errs, fieldErrors(d.fields[name].Validate(value), nil)...)
		}
	}
	return errs
}

// validateLists checks that sets and maps hold nothing twice, unless they did before.
func (d *Definition) validateLists(object, old map[string]any) field.ErrorList {
	if !d.unique {
		return nil
	}
	errs := listtype.ValidateListSetsAndMaps(nil, d.structural, object)
	if len(errs) > 0 && old != nil && len(listtype.ValidateListSetsAndMaps(nil, d.structural, old)) > 0 {
		return nil
	}
	return errs
}

// validateScale checks the values that the scale subresource serves. A write to the status does not look at the spec.
func (d *Definition) validateScale(object map[string]any, spec bool) field.ErrorList {
	if d.Scale == nil {
		return nil
	}
	var errs field.ErrorList
	paths := []string{d.Scale.StatusReplicasPath}
	if spec {
		paths = []string{d.Scale.SpecReplicasPath, d.Scale.StatusReplicasPath}
	}
	for _, path := range paths {
		n, _, err := unstructured.NestedInt64(object, strings.Split(strings.TrimPrefix(path, "."), ".")...)
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(field.NewPath(path), n, err.Error()))
		case n < 0:
			errs = append(errs, field.Invalid(field.NewPath(path), n, "should be a non-negative integer"))
		case n > math.MaxInt32:
			errs = append(errs, field.Invalid(field.NewPath(path), n, fmt.Sprintf("should be less than or equal to %v", math.MaxInt32)))
		}
	}
	if path := d.Scale.LabelSelectorPath; path != nil {
		s, _, err := unstructured.NestedString(object, strings.Split(strings.TrimPrefix(*path, "."), ".")...)
		if err != nil {
			errs = append(errs, field.Invalid(field.NewPath(*path), s, err.Error()))
		}
	}
	return errs
}

// fieldErrors puts the errors of the OpenAPI validator into the words of the API server;
// pkg/apiserver/validation/validation.go in k8s.io/apiextensions-apiserver.
func fieldErrors(result *validate.Result, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, err := range result.Errors {
		invalid, ok := errors.AsType[*openapierrors.Validation](err)
		if !ok {
			errs = append(errs, field.Invalid(root, "", err.Error()))
			continue
		}
		at := root
		if name := strings.TrimPrefix(invalid.Name, "."); name != "" {
			at = at.Child(name)
		}
		errs = append(errs, fieldError(invalid, at))
	}
	// The validator walks objects in the order of their maps.
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs
}

func fieldError(err *openapierrors.Validation, at *field.Path) *field.Error {
	value := err.Value
	if value == nil {
		value = ""
	}
	switch err.Code() {
	case openapierrors.RequiredFailCode:
		return field.Required(at, "")
	case openapierrors.EnumFailCode:
		allowed := make([]string, len(err.Values))
		for i, v := range err.Values {
			if text, ok := v.(string); ok {
				allowed[i] = text
			} else if encoded, err := json.Marshal(v); err == nil {
				allowed[i] = string(encoded)
			}
		}
		return field.NotSupported(at, err.Value, allowed)
	case openapierrors.TooLongFailCode:
		return field.TooLong(at, "", number(err.Valid))
	case openapierrors.MaxItemsFailCode, openapierrors.TooManyPropertiesCode:
		return field.TooMany(at, number(err.Value), number(err.Valid))
	case openapierrors.InvalidTypeCode:
		return field.TypeInvalid(at, value, err.Error())
	default:
		return field.Invalid(at, value, err.Error())
	}
}

// number returns a bound the validator gives, -1 if there is none.
func number(v any) int {
	if n, ok := v.(int64); ok {
		return int(n)
	}
	return -1
}

// ratcheted drops the errors about values that an update did not change. Items of a list are matched by their keys if the
// list is a map; those of other lists have nothing to be compared with.
func ratcheted(errs field.ErrorList, object, old map[string]any, s *structural.Structural) field.ErrorList {
	if old == nil {
		return errs
	}
	return slices.DeleteFunc(errs, func(err *field.Error) bool { return unchanged(errorPath(err), object, old, s) })
}

// errorPath returns the steps to the value an error is about. Of anyOf and its like the validator only says it in the text:
// `"spec.limit" must validate at least one schema`.
func errorPath(err *field.Error) []string {
	path := err.Field
	if quoted, ok := strings.CutPrefix(err.Detail, `"`); ok && path == (*field.Path)(nil).String() {
		path, _, _ = strings.Cut(quoted, `"`)
	}
	return strings.FieldsFunc(path, func(r rune) bool { return strings.ContainsRune(".[]", r) })
}

// unchanged says whether the value at a path, or one that holds it, is the same in both objects.
func unchanged(path []string, value, old any, s *structural.Structural) bool {
	if value != nil && canon.Equal(value, old) {
		return true
	}
	if len(path) == 0 || s == nil {
		return false
	}
	switch value := value.(type) {
	case map[string]any:
		before, ok := old.(map[string]any)
		if !ok {
			return false
		}
		child, ok := value[path[0]]
		if !ok {
			return false // something is missing, of an object that changed
		}
		return unchanged(path[1:], child, before[path[0]], property(s, path[0]))
	case []any:
		before, _ := old.([]any)
		i, err := strconv.Atoi(path[0])
		if err != nil || i >= len(value) || s.XListType == nil || *s.XListType != "map" {
			return false
		}
		item, ok := value[i].(map[string]any)
		if !ok {
			return false
		}
		return unchanged(path[1:], item, itemWithKeys(before, item, s.XListMapKeys), s.Items)
	default:
		return false
	}
}

// property returns the schema of a property.
func property(s *structural.Structural, name string) *structural.Structural {
	if p, ok := s.Properties[name]; ok {
		return &p
	}
	if s.AdditionalProperties != nil {
		return s.AdditionalProperties.Structural
	}
	return nil
}

// itemWithKeys returns the item of a list that has the keys of another, or nil.
func itemWithKeys(list []any, like map[string]any, keys []string) any {
	for _, v := range list {
		item, ok := v.(map[string]any)
		if ok && !slices.ContainsFunc(keys, func(key string) bool { return !canon.Equal(item[key], like[key]) }) {
			return item
		}
	}
	return nil
}
