package clickhouse

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of the operator's custom resources.
var GroupVersion = schema.GroupVersion{Group: "clickhouse.altinity.com", Version: "v1"}

// AddToScheme adds the operator's custom resource to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &ClickHouseInstallation{}, &ClickHouseInstallationList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// ClickHouseInstallation is the operator's custom resource, trimmed to what its StatefulSet path reads and writes. Field
// names are those of the original (pkg/apis/clickhouse.altinity.com/v1, release 0.27.0).
type ClickHouseInstallation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   Spec   `json:"spec"`
	Status Status `json:"status,omitempty"`
}

// ClickHouseInstallationList is a list of them.
type ClickHouseInstallationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []ClickHouseInstallation `json:"items"`
}

// Spec is what the user wants.
type Spec struct {
	// Stop scales all hosts to zero while it is true.
	Stop          StringBool    `json:"stop,omitempty"`
	Defaults      Defaults      `json:"defaults,omitzero"`
	Configuration Configuration `json:"configuration,omitzero"`
	Templates     Templates     `json:"templates,omitzero"`
}

// StringBool is a boolean in one of the spellings the operator takes: yes, true, 1, on, enable and enabled are true, in
// any case; everything else is false.
type StringBool string

// IsTrue reports whether the text stands for true.
func (b StringBool) IsTrue() bool {
	switch strings.ToLower(string(b)) {
	case "yes", "true", "1", "on", "enable", "enabled":
		return true
	default:
		return false
	}
}

// Defaults choose the templates that every host uses.
type Defaults struct {
	Templates TemplateNames `json:"templates,omitzero"`
}

// TemplateNames are names of templates.
type TemplateNames struct {
	// PodTemplate is the template of the hosts' pods; a plain ClickHouse container if empty or unknown.
	PodTemplate string `json:"podTemplate,omitempty"`
	// DataVolumeClaimTemplate is mounted at /var/lib/clickhouse, if it names a template.
	DataVolumeClaimTemplate string `json:"dataVolumeClaimTemplate,omitempty"`
}

// Configuration lists the clusters of an installation.
type Configuration struct {
	// Clusters has at most one entry here; see the package comment.
	Clusters []Cluster `json:"clusters,omitempty"`
}

// Cluster is a named set of hosts.
type Cluster struct {
	Name   string `json:"name"`
	Layout Layout `json:"layout,omitzero"`
}

// Layout says how many hosts a cluster has. A count of zero means one.
type Layout struct {
	ShardsCount   int `json:"shardsCount,omitempty"`
	ReplicasCount int `json:"replicasCount,omitempty"`
}

// Templates are what hosts are made from.
type Templates struct {
	PodTemplates         []PodTemplate         `json:"podTemplates,omitempty"`
	VolumeClaimTemplates []VolumeClaimTemplate `json:"volumeClaimTemplates,omitempty"`
}

// PodTemplate is a named pod spec.
type PodTemplate struct {
	Name string         `json:"name"`
	Spec corev1.PodSpec `json:"spec,omitzero"`
}

// VolumeClaimTemplate is a named claim spec. Hosts whose containers mount a volume of its name get such a claim.
type VolumeClaimTemplate struct {
	Name string                           `json:"name"`
	Spec corev1.PersistentVolumeClaimSpec `json:"spec,omitzero"`
}

// The values of [Status.Status].
const (
	StatusInProgress = "InProgress"
	StatusCompleted  = "Completed"
	StatusAborted    = "Aborted"
)

// Status is what the operator says about its last pass.
type Status struct {
	Status   string `json:"status,omitempty"`
	Clusters int    `json:"clusters,omitempty"`
	Shards   int    `json:"shards,omitempty"`
	Replicas int    `json:"replicas,omitempty"`
	Hosts    int    `json:"hosts,omitempty"`
	// The counters below are of the last pass. HostsAdded counts a host even if the creation of its StatefulSet failed,
	// as the original does.
	HostsUnchanged int `json:"hostsUnchanged,omitempty"`
	HostsUpdated   int `json:"hostsUpdated,omitempty"`
	HostsAdded     int `json:"hostsAdded,omitempty"`
	HostsCompleted int `json:"hostsCompleted,omitempty"`
	// Error is the newest of Errors, the errors that aborted passes, oldest first.
	Error  string   `json:"error,omitempty"`
	Errors []string `json:"errors,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (c *ClickHouseInstallation) DeepCopyObject() runtime.Object { return c.DeepCopy() }

// DeepCopy returns a copy that shares nothing with c.
func (c *ClickHouseInstallation) DeepCopy() *ClickHouseInstallation {
	if c == nil {
		return nil
	}
	out := *c
	out.ObjectMeta = *c.ObjectMeta.DeepCopy()
	out.Spec = *c.Spec.DeepCopy()
	out.Status = *c.Status.DeepCopy()
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *ClickHouseInstallationList) DeepCopyObject() runtime.Object { return l.DeepCopy() }

// DeepCopy returns a copy that shares nothing with l.
func (l *ClickHouseInstallationList) DeepCopy() *ClickHouseInstallationList {
	if l == nil {
		return nil
	}
	out := *l
	out.ListMeta = *l.ListMeta.DeepCopy()
	out.Items = copyEach(l.Items, func(c *ClickHouseInstallation) ClickHouseInstallation { return *c.DeepCopy() })
	return &out
}

// DeepCopy returns a copy that shares nothing with s.
func (s *Spec) DeepCopy() *Spec {
	out := *s
	out.Configuration.Clusters = copyEach(s.Configuration.Clusters, func(c *Cluster) Cluster { return *c })
	out.Templates.PodTemplates = copyEach(s.Templates.PodTemplates, func(t *PodTemplate) PodTemplate {
		return PodTemplate{Name: t.Name, Spec: *t.Spec.DeepCopy()}
	})
	out.Templates.VolumeClaimTemplates = copyEach(s.Templates.VolumeClaimTemplates,
		func(t *VolumeClaimTemplate) VolumeClaimTemplate {
			return VolumeClaimTemplate{Name: t.Name, Spec: *t.Spec.DeepCopy()}
		})
	return &out
}

// DeepCopy returns a copy that shares nothing with s.
func (s *Status) DeepCopy() *Status {
	out := *s
	out.Errors = copyEach(s.Errors, func(e *string) string { return *e })
	return &out
}

// copyEach copies a slice element by element, keeping nil apart from empty.
func copyEach[T any](in []T, one func(*T) T) []T {
	if in == nil {
		return nil
	}
	out := make([]T, len(in))
	for i := range in {
		out[i] = one(&in[i])
	}
	return out
}
