package patterns

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of the custom resource that all patterns share.
var GroupVersion = schema.GroupVersion{Group: "patterns.example.com", Version: "v1"}

// AddToScheme adds the custom resource to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &App{}, &AppList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// App is an application that an operator runs. Each pattern reads and writes the fields that it is about.
type App struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   AppSpec   `json:"spec"`
	Status AppStatus `json:"status,omitzero"`
}

// AppList is a list of them.
type AppList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []App `json:"items"`
}

// AppSpec is what the user wants.
type AppSpec struct {
	// Replicas is the number of pods.
	Replicas int32 `json:"replicas,omitempty"`
	// Image is what the pods run.
	Image string `json:"image,omitempty"`
	// Storage is the size of each volume, as a quantity; none if empty.
	Storage string `json:"storage,omitempty"`
}

// The phases of an app: it is as its user wants it, as far as the operator knows, or not yet.
const (
	PhaseReady       = "Ready"
	PhaseProgressing = "Progressing"
)

// AppStatus is what the operator says about an app.
type AppStatus struct {
	// ObservedGeneration is the generation of the spec that the rest of the status is about.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase is [PhaseReady] or [PhaseProgressing].
	Phase string `json:"phase,omitempty"`
	// Revision counts what was issued for the app.
	Revision int64 `json:"revision,omitempty"`
	// Image is what was rolled out last, or is being.
	Image string `json:"image,omitempty"`
	// Conditions say more, where a pattern needs it.
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// DeepCopyObject implements runtime.Object.
func (a *App) DeepCopyObject() runtime.Object { return a.DeepCopy() }

// DeepCopy returns a copy that shares nothing with a.
func (a *App) DeepCopy() *App {
	if a == nil {
		return nil
	}
	out := *a
	out.ObjectMeta = *a.ObjectMeta.DeepCopy()
	out.Status = *a.Status.DeepCopy()
	return &out
}

// DeepCopy returns a copy that shares nothing with s.
func (s *AppStatus) DeepCopy() *AppStatus {
	out := *s
	if s.Conditions != nil {
		out.Conditions = make([]metav1.Condition, len(s.Conditions))
		for i := range s.Conditions {
			s.Conditions[i].DeepCopyInto(&out.Conditions[i])
		}
	}
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *AppList) DeepCopyObject() runtime.Object { return l.DeepCopy() }

// DeepCopy returns a copy that shares nothing with l.
func (l *AppList) DeepCopy() *AppList {
	if l == nil {
		return nil
	}
	out := *l
	out.ListMeta = *l.ListMeta.DeepCopy()
	if l.Items != nil {
		out.Items = make([]App, len(l.Items))
		for i := range l.Items {
			out.Items[i] = *l.Items[i].DeepCopy()
		}
	}
	return &out
}
