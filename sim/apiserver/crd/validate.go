package crd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
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
// anything that it leaves as it was. Of the metadata only what the schema says of its name is looked at.
func (d *Definition) Validate(object, old map[string]any) field.ErrorList {
	errs := d.validateSchema(object, old)
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
	var errs field.ErrorList
	status, ok := object["status"]
	same := d.alone && canon.Equal(status, old["status"])
	if at := field.NewPath("status"); ok && d.status != nil && !same {
		if errs = fieldErrors(d.status.Validate(status), at); len(errs) > 0 {
			values := &pair{value: status, old: old["status"], schema: property(d.structural, "status")}
			update := forgiving{pair: values, schema: d.status.Schema}
			errs = fieldErrors(update.Validate(status), at)
		}
	}
	errs = append(errs, d.validateScale(object, false)...)
	return append(errs, d.validateLists(object, old)...)
}

// changedFields returns the top-level fields that differ, in a fixed order, and whether there were others that are gone. Those
// that every object has are left out, as long as nothing is said of them.
func (d *Definition) changedFields(object, old map[string]any) (changed []string, gone bool) {
	for _, name := range slices.Sorted(maps.Keys(object)) {
		restricted, always := d.header[name]
		switch before, ok := old[name]; {
		case always && !restricted:
		case !ok || !canon.Equal(object[name], before):
			changed = append(changed, name)
		}
	}
	for name := range old {
		if _, ok := object[name]; !ok {
			gone = true
		}
	}
	return changed, gone
}

// validateSchema checks an object against the schema. It does little where little changed: what is stored is valid, unless there
// are other versions of the kind, whose schemas say something else.
func (d *Definition) validateSchema(object, old map[string]any) field.ErrorList {
	changed, gone := d.changedFields(object, old)
	if d.fields != nil && (old == nil || d.alone) && !gone && !d.lacks(object) {
		var errs field.ErrorList
		for _, name := range changed {
			if rules := d.fields[name]; rules != nil {
				errs = append(errs, fieldErrors(rules.Validate(object[name]), nil)...)
			}
		}
		if old == nil || len(errs) == 0 {
			return errs
		}
	}
	errs := fieldErrors(d.whole.Validate(object), nil)
	if old == nil || len(errs) == 0 {
		return errs
	}
	update := forgiving{pair: &pair{value: object, old: old, schema: d.structural}, root: true, schema: d.openAPI}
	return fieldErrors(update.Validate(object), nil)
}

// lacks reports whether an object has not all top-level fields that it must have.
func (d *Definition) lacks(object map[string]any) bool {
	return slices.ContainsFunc(d.openAPI.Required, func(name string) bool { _, ok := object[name]; return !ok })
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
	type placed struct {
		*field.Error
		after string // the text by which it is in its place
	}
	var found []placed
	for _, err := range result.Errors {
		invalid, ok := errors.AsType[*openapierrors.Validation](err)
		if !ok { // it says more of what the one before it is about
			more := placed{Error: field.Invalid(root, "", err.Error())}
			if len(found) > 0 {
				more.after = found[len(found)-1].after
			}
			found = append(found, more)
			continue
		}
		at := root
		if name := strings.TrimPrefix(invalid.Name, "."); name != "" {
			at = at.Child(name)
		}
		converted := fieldError(invalid, at)
		found = append(found, placed{converted, converted.Error()})
	}
	// The validator walks objects in the order of their maps.
	slices.SortStableFunc(found, func(a, b placed) int { return strings.Compare(a.after, b.after) })
	var errs field.ErrorList
	for _, err := range found {
		errs = append(errs, err.Error)
	}
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
