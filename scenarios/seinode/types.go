package seinode

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// GroupVersion is the API group and version of the operator's custom resources.
var GroupVersion = schema.GroupVersion{Group: "sei.io", Version: "v1alpha1"}

// AddToScheme adds the operator's custom resource to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &SeiNode{}, &SeiNodeList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// SeiNode is the operator's custom resource, one node of a chain, trimmed to what its StatefulSet depends on. Field names are
// those of the original.
type SeiNode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec   `json:"spec"`
	Status Status `json:"status,omitempty"`
}

// SeiNodeList is a list of them.
type SeiNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []SeiNode `json:"items"`
}

// Spec is what the user wants.
type Spec struct {
	// Image is what the node runs.
	Image string `json:"image"`
	// Paused scales the node to zero while it is true, and holds back its plan.
	Paused bool `json:"paused,omitempty"`
}

// Status is what the operator knows.
type Status struct {
	Phase Phase `json:"phase,omitempty"`
	// CurrentImage is the image of the last rollout that was seen to be complete.
	CurrentImage string `json:"currentImage,omitempty"`
	// StatefulSet is the set that the operator takes for its own. One of the same name with another UID is an impostor.
	StatefulSet *StatefulSetRef `json:"statefulSet,omitempty"`
	// Plan is what is being done, or was done last.
	Plan *Plan `json:"plan,omitempty"`
}

// Phase says how far a node has come.
type Phase string

// The phases of a node.
const (
	PhaseRunning     Phase = "Running"     // its first plan is complete
	PhaseTerminating Phase = "Terminating" // it is being deleted
)

// StatefulSetRef is the identity of a StatefulSet.
type StatefulSetRef struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

// Plan is a list of tasks, done in their order.
type Plan struct {
	Phase PlanPhase `json:"phase"`
	Tasks []Task    `json:"tasks"`
}

// PlanPhase says whether a plan is done.
type PlanPhase string

// The phases of a plan.
const (
	PlanActive   PlanPhase = "Active"
	PlanComplete PlanPhase = "Complete"
)

// active reports whether there is a plan that is not done.
func (p *Plan) active() bool { return p != nil && p.Phase == PlanActive }

// Task is one step of a plan.
type Task struct {
	Type   TaskType   `json:"type"`
	Status TaskStatus `json:"status"`
}

// TaskType says what a task does.
type TaskType string

// The tasks of a plan, in their order.
const (
	TaskApplyStatefulSet TaskType = "apply-statefulset"
	TaskApplyService     TaskType = "apply-service"
	TaskObserveImage     TaskType = "observe-image"
)

// TaskStatus says whether a task is done.
type TaskStatus string

// The states of a task. One that has begun and is not done stays pending: it is done anew in the next pass.
const (
	TaskPending  TaskStatus = "Pending"
	TaskComplete TaskStatus = "Complete"
)

// DeepCopyObject implements runtime.Object.
func (n *SeiNode) DeepCopyObject() runtime.Object { return n.DeepCopy() }

// DeepCopy returns a copy that shares nothing with n.
func (n *SeiNode) DeepCopy() *SeiNode {
	if n == nil {
		return nil
	}
	out := *n
	out.ObjectMeta = *n.ObjectMeta.DeepCopy()
	out.Status = *n.Status.DeepCopy()
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *SeiNodeList) DeepCopyObject() runtime.Object { return l.DeepCopy() }

// DeepCopy returns a copy that shares nothing with l.
func (l *SeiNodeList) DeepCopy() *SeiNodeList {
	if l == nil {
		return nil
	}
	out := *l
	out.ListMeta = *l.ListMeta.DeepCopy()
	out.Items = slices.Clone(l.Items)
	for i := range out.Items {
		out.Items[i] = *l.Items[i].DeepCopy()
	}
	return &out
}

// DeepCopy returns a copy that shares nothing with s.
func (s *Status) DeepCopy() *Status {
	out := *s
	if s.StatefulSet != nil {
		ref := *s.StatefulSet
		out.StatefulSet = &ref
	}
	if s.Plan != nil {
		out.Plan = &Plan{Phase: s.Plan.Phase, Tasks: slices.Clone(s.Plan.Tasks)}
	}
	return &out
}
