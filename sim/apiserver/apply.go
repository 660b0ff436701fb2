package apiserver

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/stalemate-dev/stalemate/sim/canon"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// checkWriteOptions checks who a write says it comes from; pkg/apis/meta/v1/validation of k8s.io/apimachinery.
func checkWriteOptions(req *Request) *statusError {
	apply := req.Verb == schedule.Patch && req.PatchType == types.ApplyPatchType
	if req.FieldManager == "" && req.Force == nil && !apply {
		return nil
	}
	var errs field.ErrorList
	kind := ""
	switch req.Verb {
	case schedule.Create:
		kind, errs = "CreateOptions", metavalidation.ValidateCreateOptions(&metav1.CreateOptions{FieldManager: req.FieldManager})
	case schedule.Update:
		kind, errs = "UpdateOptions", metavalidation.ValidateUpdateOptions(&metav1.UpdateOptions{FieldManager: req.FieldManager})
	case schedule.Patch:
		options := &metav1.PatchOptions{FieldManager: req.FieldManager, Force: req.Force}
		kind, errs = "PatchOptions", metavalidation.ValidatePatchOptions(options, req.PatchType)
	default: // the others have no such options
	}
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: metav1.GroupName, Kind: kind}, "", errs)
}

// apply answers a PATCH with an apply configuration: the object is merged with it field by field, by who owns them, and is
// created if it does not exist; applyPatcher and patcher.applyPatch in pkg/endpoints/handlers/patch.go.
func (s *Server) apply(req *Request) *Response {
	e := s.table(req.Kind).get(req.Namespace, req.Name)
	if e == nil && req.Subresource != "" && !req.createsByUpdate() {
		return failed(notFound(req.view(), req.Name))
	}
	s.applied(req.Kind)
	if e != nil && req.review == nil && slices.Contains(e.settled, repetitionOf(req)) && s.admitNamespaceOf(req) == nil {
		return answer(req.Kind.full(e.fields, e.object), e.object)
	}
	config, err := decodeConfig(req)
	if err != nil {
		return failed(err)
	}
	if e == nil {
		return s.applyNew(req, config)
	}
	stored, before := e.object, s.ownershipOf(req.Kind, e)
	e = s.table(req.Kind).get(req.Namespace, req.Name)
	merged, err := s.merged(req, config, stored, before.entries)
	if err != nil {
		return failed(err)
	}
	if err := checkRepeatedKeys(req); err != nil {
		return failed(err)
	}
	obj, err := s.receiveApplied(req, merged.Object)
	if err != nil {
		return failed(err)
	}
	if err := s.admitUpdate(req, obj, e); err != nil {
		return failed(err)
	}
	c := claim{write: write{by: recorded}, before: before, entries: merged.entries}
	if req.Subresource == "" && req.alias == nil { // converting to the version that is stored tidies
		c.untidy = untidyMeta(merged.tree)
	}
	response := s.settle(req, obj, stored, c)
	if response.Err == nil && merged.tree != nil && req.Kind.deletesDuringUpdate(response.Object, stored) {
		response.Object = req.Kind.untidied(response.Object, merged.tree)
	}
	if response.Err == nil && response.Committed == 0 && !req.DryRun && req.review == nil && len(req.warnings) == 0 &&
		canon.Equal(&merged.entries, &before.entries) {
		s.remember(req)
	}
	return response
}

// untidied returns what is answered to an apply that deletes a custom resource, as it took the last finalizer: that is not read
// again, so it has everything empty that was merged into its metadata. Recorded from kube-apiserver v1.37.1;
// deleteWithoutFinalizers of pkg/registry/generic/registry/store.go.
func (k *Kind) untidied(obj Object, merged map[string]any) Object {
	shown := k.shallowCopy(obj)
	maps.Copy(rawMeta(shown), emptyMeta(merged))
	return shown
}

// repetition is an apply that may come again. Operators apply the same configuration over and over: what changed nothing at
// all changes nothing the next time, as long as nobody else writes to the object.
type repetition struct {
	view                                     *Kind
	manager, subresource, validation, config string
	force                                    bool
}

// maxRepetitions is how many are remembered of an object: an operator applies to a few subresources.
const maxRepetitions = 4

func repetitionOf(req *Request) repetition {
	return repetition{
		view: req.view(), manager: req.FieldManager, subresource: req.Subresource, validation: req.FieldValidation,
		config: string(req.PatchData), force: req.Force != nil && *req.Force,
	}
}

// remember notes that an apply changed nothing.
func (s *Server) remember(req *Request) {
	e := s.table(req.Kind).writable(req.Namespace, req.Name)
	recent := e.settled[max(0, len(e.settled)-maxRepetitions+1):]
	e.settled = append(slices.Clip(recent), repetitionOf(req))
}

// applyNew creates an object from an apply configuration. The revision that it may name is not looked at.
func (s *Server) applyNew(req *Request, config *unstructured.Unstructured) *Response {
	k := req.Kind
	merged, err := s.merged(req, config, nil, nil)
	if err != nil {
		return failed(err)
	}
	if err := checkRepeatedKeys(req); err != nil {
		return failed(err)
	}
	if uid := merged.GetUID(); uid != "" {
		return failed(apierrors.NewConflict(req.view().GroupResource(), req.Name, fmt.Errorf(
			"uid mismatch: the provided object specified uid %s, and no existing object was found", uid)))
	}
	obj, err := s.receiveApplied(req, merged.Object)
	if err != nil {
		return failed(err)
	}
	if refusal := req.createForbidden(); refusal != nil {
		return refusal
	}
	if err := s.admitNamespace(k, obj); err != nil {
		return failed(err)
	}
	if err := checkReadable(obj.GetResourceVersion()); err != nil {
		return failed(err)
	}
	s.receiveMissing(req, obj)
	c := claim{write: write{by: recorded}, entries: merged.entries}
	if req.alias == nil {
		c.untidy = untidyMeta(merged.tree)
	}
	return s.createClaimed(req, obj, c)
}

// decodeConfig reads an apply configuration, which is YAML or JSON.
func decodeConfig(req *Request) (*unstructured.Unstructured, *statusError) {
	config := map[string]any{}
	if err := json.Unmarshal(req.PatchData, &config); err != nil { // most are JSON, which is much faster to read
		config = map[string]any{}
		if err := yaml.Unmarshal(req.PatchData, &config); err != nil {
			return nil, badRequest("error decoding YAML: %v", err)
		}
	}
	return &unstructured.Unstructured{Object: config}, nil
}

// checkRepeatedKeys refuses an apply configuration that has a key twice, or warns of it, if that is asked for. It comes last:
// whatever else is wrong is told first.
func checkRepeatedKeys(req *Request) *statusError {
	if req.FieldValidation != metav1.FieldValidationWarn && req.FieldValidation != metav1.FieldValidationStrict {
		return nil
	}
	err := yaml.UnmarshalStrict(req.PatchData, &map[string]any{})
	switch {
	case err == nil:
	case req.FieldValidation == metav1.FieldValidationStrict:
		return badRequest("error strict decoding YAML: %v", err)
	default:
		req.warnings = append(req.warnings, err.Error())
	}
	return nil
}

// merged merges an apply configuration into an object, nil for none, and returns the result with its managedFields.
func (s *Server) merged(
	req *Request, config *unstructured.Unstructured, stored Object, entries []metav1.ManagedFieldsEntry,
) (*subject, *statusError) {
	view := req.view()
	manager, err := view.fields.manager(req.Subresource)
	if err != nil {
		return nil, plain(err.Error())
	}
	if text := view.fields.gap(); text != "" {
		s.gap(text)
	}
	live := view.New()
	if stored != nil {
		live = view.bare(stored)
	}
	return s.merge(req, manager, config, &subject{Object: live, entries: entries})
}

// merge has the library merge an apply configuration into an object.
func (s *Server) merge(
	req *Request, manager *managedfields.FieldManager, config *unstructured.Unstructured, live *subject,
) (*subject, *statusError) {
	var result runtime.Object
	var err error
	force := req.Force != nil && *req.Force
	atTime(s.now().Unix(), func(shift int64) {
		before := &subject{Object: live.Object, entries: shifted(live.entries, shift)}
		if result, err = manager.Apply(before, config, req.FieldManager, force); err == nil {
			merged := result.(*subject)
			merged.entries = shifted(merged.entries, -shift)
		}
	})
	if err != nil {
		return nil, applyError(err)
	}
	return result.(*subject), nil
}

// applyError returns the answer to an apply that failed. The library finds conflicts in the order of a map.
func applyError(err error) *statusError {
	status, ok := errors.AsType[*statusError](err)
	if !ok {
		return plain(err.Error())
	}
	if status.ErrStatus.Details != nil {
		slices.SortFunc(status.ErrStatus.Details.Causes, func(a, b metav1.StatusCause) int {
			return cmp.Or(strings.Compare(a.Field, b.Field), strings.Compare(a.Message, b.Message))
		})
	}
	return status
}

// receiveApplied does with a merged object what is done with any that a client sends.
func (s *Server) receiveApplied(req *Request, obj Object) (Object, *statusError) {
	view := req.view()
	if err := placeIn(req.Namespace, obj); err != nil {
		return nil, err
	}
	if err := checkName(req, obj); err != nil {
		return nil, err
	}
	if view.embedded != nil {
		if err := view.embedded(obj); err != nil { // it is found when the object is validated
			return nil, invalid(view, req.Name, field.ErrorList{err})
		}
	}
	if view.defaultApplied != nil {
		view.defaultApplied(obj)
		delete(rawMeta(obj), "selfLink")
	} else {
		view.receive(obj, view.dropped(req.Subresource))
	}
	req.dropRepeatedOwners(obj, " after mutating admission happens")
	return req.stored(obj)
}

// appliedScale merges an apply configuration into the Scale of an object, and notes in the request who then owns the fields
// of the object itself.
func (s *Server) appliedScale(req *Request, scale *autoscalingv1.Scale) (*autoscalingv1.Scale, *statusError) {
	k := req.view()
	config, refusal := decodeConfig(req)
	if refusal != nil {
		return nil, refusal
	}
	manager, err := k.fields.manager("scale")
	if err != nil {
		return nil, plain(err.Error())
	}
	s.applied(req.Kind)
	e := s.table(req.Kind).get(req.Namespace, req.Name)
	stored := req.shown(e.object)
	c := claim{write: write{by: recorded}, before: s.ownershipOf(req.Kind, e)}
	var changed *subject
	c.entries, err = k.throughScale(&subject{Object: stored, entries: c.before.entries}, func(live *subject) (*subject, error) {
		live.Object = scale
		if changed, refusal = s.merge(req, manager, config, live); refusal != nil {
			return nil, refusal
		}
		return changed, nil
	})
	switch {
	case refusal != nil:
		return nil, refusal
	case err != nil:
		return nil, plain(err.Error())
	}
	if err := checkRepeatedKeys(req); err != nil {
		return nil, err
	}
	req.applied = &c
	return changed.Object.(*autoscalingv1.Scale), nil
}
