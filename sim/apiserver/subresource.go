package apiserver

import (
	"fmt"
	"maps"
	"net/http"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// doBinding answers a POST to pods/binding: the Pod gets its node, once. The request's object is a *corev1.Binding;
// pkg/registry/core/pod/storage/storage.go setPodNodeAndMetadata of k8s.io/kubernetes.
func (s *Server) doBinding(req *Request) *Response {
	binding, ok := req.Object.(*corev1.Binding)
	if !ok || req.Verb != schedule.Create || req.Kind.order != podOrder {
		return failed(noSuchResource())
	}
	e := s.table(req.Kind).get(req.Namespace, req.Name)
	if e == nil {
		return failed(notFound(req.Kind, req.Name))
	}
	stored := e.object.(*corev1.Pod)
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
	pod.Labels = overlay(stored.Labels, binding.Labels)
	pod.Status.Conditions = s.scheduledCondition(stored.Status.Conditions)
	revision := s.commit(req.Kind, &pod, stored)
	return &Response{Code: http.StatusCreated, Revision: revision, Committed: revision, Before: stored}
}

func refuseBinding(pod *corev1.Pod, binding *corev1.Binding) string {
	switch {
	case binding.UID != "" && binding.UID != pod.UID:
		return fmt.Sprintf("Precondition failed: UID in precondition: %s, UID in object meta: %s", binding.UID, pod.UID)
	case pod.DeletionTimestamp != nil:
		return fmt.Sprintf("pod %s is being deleted, cannot be assigned to a host", pod.Name)
	case pod.Spec.NodeName != "":
		return fmt.Sprintf("pod %s is already assigned to node %q", pod.Name, pod.Spec.NodeName)
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

// doScale answers requests to statefulsets/scale, whose objects are *autoscalingv1.Scale; pkg/registry/apps/statefulset/
// storage/storage.go of k8s.io/kubernetes.
func (s *Server) doScale(req *Request) *Response {
	if req.Kind.order != statefulSetOrder {
		s.gap("the subresource scale is modelled for StatefulSets only: for other kinds it is answered with 404")
		return failed(noSuchResource())
	}
	e := s.table(req.Kind).get(req.Namespace, req.Name)
	if e == nil {
		return failed(notFound(req.Kind, req.Name))
	}
	stored := e.object.(*appsv1.StatefulSet)
	scale := scaleOf(stored)
	switch req.Verb {
	case schedule.Get:
		return &Response{Code: http.StatusOK, Object: scale, Revision: e.revision}
	case schedule.Update:
		wanted, ok := req.Object.(*autoscalingv1.Scale)
		if !ok {
			return failed(badRequest("%s/scale: the object is a %T, want *v1.Scale", req.Kind, req.Object))
		}
		scale = wanted
	case schedule.Patch:
		var err *statusError
		if scale, err = patchedScale(scale, req); err != nil {
			return failed(err)
		}
	default:
		return failed(apierrors.NewMethodNotSupported(req.Kind.GroupResource(), string(req.Verb)))
	}
	return s.writeScale(req, scale, stored, e)
}

// writeScale changes the number of replicas.
func (s *Server) writeScale(req *Request, scale *autoscalingv1.Scale, stored *appsv1.StatefulSet, e *entry) *Response {
	if scale.Name != req.Name {
		return failed(badRequest("the name of the object (%s) does not match the name on the URL (%s)", scale.Name, req.Name))
	}
	if scale.UID != "" && scale.UID != stored.UID {
		return failed(uidConflict(req.Kind, req.Namespace, req.Name, scale.UID, stored.UID))
	}
	set := *stored
	set.Spec.Replicas = new(scale.Spec.Replicas)
	set.ResourceVersion = scale.ResourceVersion
	main := *req
	main.Subresource = ""
	response := s.replace(&main, &set, e)
	if response.Err == nil {
		response.Object = scaleOf(response.Object.(*appsv1.StatefulSet))
	}
	return response
}

func patchedScale(scale *autoscalingv1.Scale, req *Request) (*autoscalingv1.Scale, *statusError) {
	document, err := kjson.Marshal(scale)
	if err != nil {
		return nil, plain(err.Error())
	}
	document, statusErr := applyJSON(document, req.PatchType, req.PatchData)
	if statusErr != nil {
		return nil, statusErr
	}
	patched := &autoscalingv1.Scale{}
	if err := kjson.Unmarshal(document, patched); err != nil {
		return nil, invalidPatch(string(document), err)
	}
	return patched, nil
}

// scaleOf returns what the scale subresource shows of a set.
func scaleOf(set *appsv1.StatefulSet) *autoscalingv1.Scale {
	scale := &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{
			Name: set.Name, Namespace: set.Namespace, UID: set.UID,
			ResourceVersion: set.ResourceVersion, CreationTimestamp: set.CreationTimestamp,
		},
		Status: autoscalingv1.ScaleStatus{Replicas: set.Status.Replicas},
	}
	if set.Spec.Replicas != nil {
		scale.Spec.Replicas = *set.Spec.Replicas
	}
	if selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector); err == nil {
		scale.Status.Selector = selector.String()
	}
	return scale
}
