package leaderworkerset

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// GroupVersion is the API group and version of LeaderWorkerSets.
var GroupVersion = schema.GroupVersion{Group: "leaderworkerset.x-k8s.io", Version: "v1"}

// lwsKind is the kind that owner references name.
var lwsKind = GroupVersion.WithKind("LeaderWorkerSet")

// AddToScheme adds the operator's custom resource to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &LeaderWorkerSet{}, &LeaderWorkerSetList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// LeaderWorkerSet is a number of groups of pods, each a leader and its workers. It is trimmed to what the path of the leaders'
// StatefulSet reads and writes; field names are those of the original (api/leaderworkerset/v1).
type LeaderWorkerSet struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec   `json:"spec"`
	Status Status `json:"status,omitzero"`
}

// LeaderWorkerSetList is a list of them.
type LeaderWorkerSetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []LeaderWorkerSet `json:"items"`
}

// Spec is what the user wants. The webhook fills in whatever pointer is nil.
type Spec struct {
	// Replicas is the number of groups.
	Replicas             *int32               `json:"replicas,omitempty"`
	LeaderWorkerTemplate LeaderWorkerTemplate `json:"leaderWorkerTemplate"`
	RolloutStrategy      RolloutStrategy      `json:"rolloutStrategy,omitzero"`
	NetworkConfig        *NetworkConfig       `json:"networkConfig,omitempty"`
}

// LeaderWorkerTemplate is what groups are made from. Together with the network it is what a revision holds.
type LeaderWorkerTemplate struct {
	// LeaderTemplate is that of the leaders, if it is another than the workers'.
	LeaderTemplate *corev1.PodTemplateSpec `json:"leaderTemplate,omitempty"`
	WorkerTemplate corev1.PodTemplateSpec  `json:"workerTemplate"`
	// Size is the number of pods of a group; here it must be 1, see the package comment.
	Size          *int32 `json:"size,omitempty"`
	RestartPolicy string `json:"restartPolicy,omitempty"`
}

// leader returns the template of the leaders.
func (t *LeaderWorkerTemplate) leader() *corev1.PodTemplateSpec {
	if t.LeaderTemplate != nil {
		return t.LeaderTemplate
	}
	return &t.WorkerTemplate
}

// RolloutStrategy says how an update goes.
type RolloutStrategy struct {
	Type                       string                      `json:"type,omitempty"`
	RollingUpdateConfiguration *RollingUpdateConfiguration `json:"rollingUpdateConfiguration,omitempty"`
}

// RollingUpdateConfiguration bounds how many groups are updated at a time.
type RollingUpdateConfiguration struct {
	// Partition is the number of groups, from the first on, that keep the old template.
	Partition      *int32             `json:"partition,omitempty"`
	MaxUnavailable intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// MaxSurge is how many groups there may be beyond replicas.
	MaxSurge intstr.IntOrString `json:"maxSurge,omitempty"`
}

// NetworkConfig says how pods are named in the DNS.
type NetworkConfig struct {
	SubdomainPolicy *string `json:"subdomainPolicy,omitempty"`
}

// Status is what the operator says about the groups.
type Status struct {
	Conditions      []metav1.Condition `json:"conditions,omitempty"`
	Replicas        int32              `json:"replicas,omitempty"`
	ReadyReplicas   int32              `json:"readyReplicas,omitempty"`
	UpdatedReplicas int32              `json:"updatedReplicas,omitempty"`
	HPAPodSelector  string             `json:"hpaPodSelector,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (l *LeaderWorkerSet) DeepCopyObject() runtime.Object { return l.DeepCopy() }

// DeepCopy returns a copy that shares nothing with l.
func (l *LeaderWorkerSet) DeepCopy() *LeaderWorkerSet {
	if l == nil {
		return nil
	}
	out := *l
	out.ObjectMeta = *l.ObjectMeta.DeepCopy()
	out.Spec = *l.Spec.DeepCopy()
	out.Status = *l.Status.DeepCopy()
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *LeaderWorkerSetList) DeepCopyObject() runtime.Object { return l.DeepCopy() }

// DeepCopy returns a copy that shares nothing with l.
func (l *LeaderWorkerSetList) DeepCopy() *LeaderWorkerSetList {
	if l == nil {
		return nil
	}
	out := *l
	out.ListMeta = *l.ListMeta.DeepCopy()
	if l.Items != nil {
		out.Items = make([]LeaderWorkerSet, len(l.Items))
		for i := range l.Items {
			out.Items[i] = *l.Items[i].DeepCopy()
		}
	}
	return &out
}

// DeepCopy returns a copy that shares nothing with s.
func (s *Spec) DeepCopy() *Spec {
	out := *s
	out.Replicas = copyOf(s.Replicas)
	out.LeaderWorkerTemplate.LeaderTemplate = s.LeaderWorkerTemplate.LeaderTemplate.DeepCopy()
	s.LeaderWorkerTemplate.WorkerTemplate.DeepCopyInto(&out.LeaderWorkerTemplate.WorkerTemplate)
	out.LeaderWorkerTemplate.Size = copyOf(s.LeaderWorkerTemplate.Size)
	if rolling := copyOf(s.RolloutStrategy.RollingUpdateConfiguration); rolling != nil {
		rolling.Partition = copyOf(rolling.Partition)
		out.RolloutStrategy.RollingUpdateConfiguration = rolling
	}
	if network := copyOf(s.NetworkConfig); network != nil {
		network.SubdomainPolicy = copyOf(network.SubdomainPolicy)
		out.NetworkConfig = network
	}
	return &out
}

// DeepCopy returns a copy that shares nothing with s.
func (s *Status) DeepCopy() *Status {
	out := *s
	if s.Conditions != nil {
		out.Conditions = make([]metav1.Condition, len(s.Conditions))
		copy(out.Conditions, s.Conditions)
	}
	return &out
}

// copyOf copies what a pointer points to, one level deep.
func copyOf[T any](p *T) *T {
	if p == nil {
		return nil
	}
	out := *p
	return &out
}
