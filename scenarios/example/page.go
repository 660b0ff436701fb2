package example

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the API group and version of Pages.
var GroupVersion = schema.GroupVersion{Group: "example.com", Version: "v1"}

// AddToScheme adds Pages to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion, &Page{}, &PageList{})
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}

// Page is a text that is to be published.
type Page struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   PageSpec   `json:"spec"`
	Status PageStatus `json:"status,omitzero"`
}

// PageSpec is what the user wants.
type PageSpec struct {
	// Text of the page.
	Text string `json:"text"`
}

// Published is the phase of a Page whose text is published, as far as the operator knows.
const Published = "Published"

// PageStatus is what the operator says about a Page.
type PageStatus struct {
	// Phase is [Published], or empty.
	Phase string `json:"phase,omitempty"`
	// ObservedGeneration is the generation of the spec that was published.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// PageList is a list of them.
type PageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata"`

	Items []Page `json:"items"`
}

// DeepCopyObject implements runtime.Object.
func (p *Page) DeepCopyObject() runtime.Object { return p.DeepCopy() }

// DeepCopy returns a copy that shares nothing with p.
func (p *Page) DeepCopy() *Page {
	if p == nil {
		return nil
	}
	out := *p
	out.ObjectMeta = *p.ObjectMeta.DeepCopy()
	return &out
}

// DeepCopyObject implements runtime.Object.
func (l *PageList) DeepCopyObject() runtime.Object {
	if l == nil {
		return nil
	}
	out := *l
	out.ListMeta = *l.ListMeta.DeepCopy()
	if l.Items != nil {
		out.Items = make([]Page, len(l.Items))
		for i := range l.Items {
			out.Items[i] = *l.Items[i].DeepCopy()
		}
	}
	return &out
}
