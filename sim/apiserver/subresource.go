package apiserver

import (
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// doBinding answers a POST to pods/binding: the Pod gets its node, once. The request's object is a *corev1.Binding;
// pkg/registry/core/pod/storage/storage.go setPodNodeAndMetadata of k8s.io/kubernetes.
func (s *Server) doBinding(req *Request) *Response {
	binding, ok := req.Object.(*corev1.Binding)
	if !ok || req.Verb != schedule.Create || req.Kind.order != podOrder {
		return failed(noSuchResource())
	}
	if err := placeIn(req.Namespace, binding); err != nil {
		return failed(err)
	}
	if err := s.admitInto(req.Kind, req.Namespace, req.Name); err != nil {
		return failed(err)
	}
	if binding.Name != req.Name {
		return failed(badRequest("name in URL does not match name in Binding object"))
	}
	if errs := validateBinding(binding); len(errs) > 0 {
		return failed(plain(errs.ToAggregate().Error())) // not told as a failed validation, so that it is an internal error
	}
	e := s.table(req.Kind).get(req.Namespace, req.Name)
	if e == nil {
		return failed(notFound(req.Kind, req.Name))
	}
	reviewed, err := req.reviewForeign(corev1.SchemeGroupVersion.WithKind("Binding"), binding, nil, e.object)
	if err != nil {
		return failed(err)
	}
	binding = reviewed.(*corev1.Binding)
	stored := e.object.(*corev1.Pod)
	switch {
	case binding.UID != "" && binding.UID != stored.UID:
		return failed(uidConflict(req.Kind, req.Namespace, req.Name, binding.UID, stored.UID, req.DryRun))
	case binding.ResourceVersion != "" && binding.ResourceVersion != stored.ResourceVersion:
		return failed(storageConflict(req.Kind, req.Namespace, req.Name, "ResourceVersion", binding.ResourceVersion,
			stored.ResourceVersion, req.DryRun))
	}
	if refusal := refuseBinding(stored, binding); refusal != "" {
		resource := schema.GroupResource{Resource: "pods/binding"}
		return failed(apierrors.NewConflict(resource, req.Name, errorText(refusal)))
	}
	if req.DryRun {
		return &Response{Code: http.StatusCreated, Before: stored}
	}
	pod := *stored
	pod.Spec.NodeName = binding.Target.Name
	pod.Annotations = overlay(stored.Annotations, binding.Annotations)
	pod.Labels = overlay(overlay(stored.Labels, binding.Labels), s.topologyLabels(binding.Target.Name))
	pod.Status.Conditions = s.scheduledCondition(stored.Status.Conditions)
	revision := s.commit(req.Kind, &pod, stored)
	return &Response{Code: http.StatusCreated, Revision: revision, Committed: revision, Before: stored}
}

// validateBinding checks what a pod is to be bound to; ValidatePodBinding in pkg/apis/core/validation of k8s.io/kubernetes.
func validateBinding(binding *corev1.Binding) field.ErrorList {
	var errs field.ErrorList
	if kind := binding.Target.Kind; kind != "" && kind != "Node" {
		errs = append(errs, field.NotSupported(field.NewPath("target", "kind"), kind, []string{"Node", "<empty>"}))
	}
	if binding.Target.Name == "" {
		errs = append(errs, field.Required(field.NewPath("target", "name"), ""))
	}
	return errs
}

func refuseBinding(pod *corev1.Pod, binding *corev1.Binding) string {
	switch {
	case binding.UID != "" && binding.UID != pod.UID:
		return fmt.Sprintf("Precondition failed: UID in precondition: %s, UID in object meta: %s", binding.UID, pod.UID)
	case pod.DeletionTimestamp != nil:
		return fmt.Sprintf("pod %s is being deleted, cannot be assigned to a host", pod.Name)
	case pod.Spec.NodeName != "":
		return fmt.Sprintf("pod %s is already assigned to node %q", pod.Name, pod.Spec.NodeName)
	case len(pod.Spec.SchedulingGates) > 0:
		return fmt.Sprintf("pod %s has non-empty .spec.schedulingGates", pod.Name)
	default:
		return ""
	}
}

// overlay returns base with the entries of top; base itself where there are none.
func overlay(base, top map[string]string) map[string]string {
	if len(top) == 0 {
		return base
	}
	merged := maps.Clone(base)
	if merged == nil {
		merged = map[string]string{}
	}
	maps.Copy(merged, top)
	return merged
}

// scheduledCondition returns the conditions with PodScheduled being true.
func (s *Server) scheduledCondition(conditions []corev1.PodCondition) []corev1.PodCondition {
	scheduled := corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: s.timestamp()}
	i := slices.IndexFunc(conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodScheduled })
	if i < 0 {
		return append(slices.Clip(conditions), scheduled)
	}
	conditions = slices.Clone(conditions)
	if conditions[i].Status == corev1.ConditionTrue {
		scheduled.LastTransitionTime = conditions[i].LastTransitionTime
	}
	conditions[i] = scheduled
	return conditions
}

// doScale answers requests to the scale subresource, whose objects are *autoscalingv1.Scale; pkg/registry/apps/statefulset/
// storage/storage.go of k8s.io/kubernetes and its like.
func (s *Server) doScale(req *Request) *Response {
	k := req.view()
	if k.Scale == nil {
		return failed(req.noSubresource())
	}
	e := s.table(req.Kind).get(req.Namespace, req.Name)
	if e == nil {
		return failed(notFound(k, req.Name))
	}
	scale, err := k.readScale(req.shown(e.object), req.Verb == schedule.Get)
	if err != nil {
		return failed(err)
	}
	switch req.Verb {
	case schedule.Get:
		return &Response{Code: http.StatusOK, Object: scale, Revision: e.revision}
	case schedule.Update:
		wanted, ok := req.Object.(*autoscalingv1.Scale)
		if !ok {
			return failed(badRequest("%s/scale: the object is a %T, want *v1.Scale", k, req.Object))
		}
		scale = wanted
	case schedule.Patch:
		if scale, err = s.patchedScale(scale, req); err != nil {
			return failed(err)
		}
		e = s.table(req.Kind).get(req.Namespace, req.Name)
	default:
		return failed(apierrors.NewMethodNotSupported(k.GroupResource(), strings.ToLower(string(req.Verb))))
	}
	return s.writeScale(req, scale, e)
}

// writeScale changes the number of replicas.
func (s *Server) writeScale(req *Request, scale *autoscalingv1.Scale, e *entry) *Response {
	k, stored := req.inVersion(e.object)
	if err := placeIn(req.Namespace, scale); err != nil {
		return failed(err)
	}
	if err := checkName(req, scale); err != nil {
		return failed(err)
	}
	if scale.UID != "" && scale.UID != stored.GetUID() {
		return failed(uidConflict(k, req.Namespace, req.Name, scale.UID, stored.GetUID(), req.DryRun))
	}
	reviewed, err := req.reviewForeign(autoscalingv1.SchemeGroupVersion.WithKind("Scale"), scale, k.scaleOf(stored), stored)
	if err != nil {
		return failed(err)
	}
	scale = reviewed.(*autoscalingv1.Scale)
	if err := k.checkScale(req.Name, scale); err != nil {
		return failed(err)
	}
	scaled := k.shallowCopy(stored)
	k.Scale.Write(scaled, scale.Spec.Replicas)
	if scale.ResourceVersion != "" {
		scaled.SetResourceVersion(scale.ResourceVersion)
	}
	main := *req
	main.Subresource, main.review = "", nil
	response := s.replaceThrough(&main, "scale", scaled, e)
	if response.Err == nil {
		response.Object = k.scaleOf(req.shown(response.Object))
	}
	return response
}

// checkReplicas refuses a negative number of replicas.
func checkReplicas(name string, scale *autoscalingv1.Scale) *statusError {
	if scale.Spec.Replicas >= 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: autoscalingv1.GroupName, Kind: "Scale"}, name,
		apivalidation.ValidateNonnegativeField(int64(scale.Spec.Replicas), field.NewPath("spec", "replicas")))
}

// patchedScale returns a scale with the patch of a request applied.
func (s *Server) patchedScale(scale *autoscalingv1.Scale, req *Request) (*autoscalingv1.Scale, *statusError) {
	if err := s.checkPatchType(req); err != nil {
		return nil, err
	}
	if req.PatchType == types.ApplyPatchType {
		return s.appliedScale(req, scale)
	}
	if req.PatchType == types.StrategicMergePatchType {
		changes, err := decodeStrategic(req.PatchData)
		if err != nil {
			return nil, err
		}
		patched := &autoscalingv1.Scale{}
		return patched, mergeStrategic(scale, changes, patched)
	}
	document, err := kjson.Marshal(scale)
	if err != nil {
		return nil, plain(err.Error())
	}
	document, statusErr := applyJSON(document, req.PatchType, req.PatchData)
	if statusErr != nil {
		return nil, statusErr
	}
	patched, unknown, err := decodeScale(document, req.Kind.Custom(), req.checksFields())
	if err != nil {
		return nil, invalidPatch(string(document), err)
	}
	return patched, req.warnUnknown(unknown, string(document))
}

// decodeScale reads a patched Scale. That of a custom resource need not say of what version it is.
func decodeScale(document []byte, custom, strict bool) (scale *autoscalingv1.Scale, unknown []error, err error) {
	said, err := json.DefaultMetaFactory.Interpret(document)
	if err != nil {
		return nil, nil, err
	}
	want := autoscalingv1.SchemeGroupVersion.WithKind("Scale")
	if custom && said.GroupVersion().Empty() {
		said.Group, said.Version = want.Group, want.Version
	}
	obj, unknown, err := decodeSaid(want, reflect.TypeFor[autoscalingv1.Scale](), document, *said, strict)
	if err != nil {
		return nil, nil, err
	}
	return obj.(*autoscalingv1.Scale), unknown, nil
}

// scaleOf returns what the scale subresource shows of an object.
func (k *Kind) scaleOf(obj Object) *autoscalingv1.Scale {
	spec, status, selector := k.Scale.Read(obj)
	return &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{
			Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(),
			ResourceVersion: obj.GetResourceVersion(), CreationTimestamp: obj.GetCreationTimestamp(),
		},
		Spec:   autoscalingv1.ScaleSpec{Replicas: spec},
		Status: autoscalingv1.ScaleStatus{Replicas: status, Selector: selector},
	}
}
