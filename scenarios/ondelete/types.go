package ondelete

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of the operator's custom resource.
var GroupVersion = schema.GroupVersion{Group: "sei.io", Version: "v1alpha1"}

// AddToScheme adds the operator's custom resource to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &SeiNode{}, &SeiNodeList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// SeiNode is the operator's custom resource, trimmed to what the rollout of an image reads and writes. Field names are those of the
// original (sei-k8s-controller, api/v1alpha1).
type SeiNode struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec   `json:"spec"`
	Status Status `json:"status,omitzero"`
}

// SeiNodeList is a list of them.
type SeiNodeList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []SeiNode `json:"items"`
}

// Spec is what the user wants.
type Spec struct {
	// Image is what the node's pod is to run.
	Image string `json:"image"`
}

// Status is how far the operator has come.
type Status struct {
	// CurrentImage is the image that was last seen to be rolled out.
	CurrentImage string `json:"currentImage,omitempty"`
	// Plan is what the operator is about to do, nil if nothing.
	Plan *Plan `json:"plan,omitempty"`
}

// PlanPhase says how far a plan is.
type PlanPhase string

// The phases of a plan.
const (
	PlanActive   PlanPhase = "Active"
	PlanComplete PlanPhase = "Complete"
)

// Plan is a list of tasks that are done in their order.
type Plan struct {
	Phase PlanPhase `json:"phase"`
	// Image is what the plan was made for; the original does not keep it.
	Image string        `json:"image"`
	Tasks []PlannedTask `json:"tasks"`
}

// TaskStatus says whether a task is done.
type TaskStatus string

// The states of a task.
const (
	TaskPending  TaskStatus = "Pending"
	TaskComplete TaskStatus = "Complete"
)

// PlannedTask is one step of a plan.
type PlannedTask struct {
	Type   string     `json:"type"`
	Status TaskStatus `json:"status"`
}

// DeepCopyObject implements runtime.Object.
func (n *SeiNode) DeepCopyObject() runtime.Object { return n.DeepCopy() }

// DeepCopy returns a copy that shares nothing with n.
func (n *SeiNode) DeepCopy() *SeiNode {
	if n == nil {
		return nil
	}
	out := *n
	out.ObjectMeta = *n.ObjectMeta.DeepCopy()
	if n.Status.Plan != nil {
		plan := *n.Status.Plan
		plan.Tasks = slices.Clone(plan.Tasks)
		out.Status.Plan = &plan
	}
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
	if l.Items != nil {
		out.Items = make([]SeiNode, len(l.Items))
		for i := range l.Items {
			out.Items[i] = *l.Items[i].DeepCopy()
		}
	}
	return &out
}
