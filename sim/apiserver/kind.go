package apiserver

import (
	"reflect"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Kind is a row of the kinds table: all that differs between resources. The request pipeline is the same for every kind.
type Kind struct {
	schema.GroupVersionKind
	Resource   string // plural, lower case: "statefulsets"
	Singular   string // "statefulset"
	ShortNames []string
	Namespaced bool

	// Schema is the OpenAPI schema of a custom resource that was added with its definition, else nil.
	Schema *spec.Schema
	// Type is the Go struct of a built-in, stored typed. It is nil for a custom resource, stored unstructured.
	Type reflect.Type

	// HasStatus says that the kind has a status subresource.
	HasStatus bool
	// StatusKeeps lists what a write to the status subresource does not take from the request besides spec.
	StatusKeeps StatusReset
	// Generation says which changes bump metadata.generation.
	Generation GenerationRule
	// UnconditionalUpdate allows an Update without a resourceVersion.
	UnconditionalUpdate bool
	// CreateOnUpdate lets an Update of a missing object create it.
	CreateOnUpdate bool
	// DefaultPropagation is what a delete without a policy does.
	DefaultPropagation metav1.DeletionPropagation
	// Graceful says how a delete may leave the object in place for a while; nil for kinds deleted at once.
	Graceful func(obj Object, options *metav1.DeleteOptions) (seconds int64, graceful bool)

	// Default fills in defaults, in place. It is called for every decoded object, before anything else looks at it. It
	// writes only where something changes, for a patched object shares what was not patched with the stored one.
	Default func(obj Object)
	// Validate checks a new object (old is nil) or an update, after defaulting.
	Validate func(obj, old Object, v Version) field.ErrorList
	// ValidateStatus checks a write to the status subresource.
	ValidateStatus func(obj, old Object, v Version) field.ErrorList
	// ValidName checks a name on creation.
	ValidName apivalidation.ValidateNameFunc
	// PrepareCreate resets what a client may not set on creation beyond metadata and status, in place, and does what the
	// default admission plugins do.
	PrepareCreate func(obj Object)
	// PrepareUpdate carries over what a write to the main resource may not clear besides status, in place.
	PrepareUpdate func(obj, old Object)
	// PrepareStatus carries over what a write to the status subresource may not clear, in place.
	PrepareStatus func(obj, old Object)
	// Held says that something of its own keeps an object of the kind, besides its finalizers; nil for most kinds.
	Held func(obj Object) bool
	// ReturnsDeleted says that a delete answers with the object that was deleted instead of a Status.
	ReturnsDeleted bool
	// Fields are the field selectors of the kind besides metadata.name and metadata.namespace, each with its value.
	Fields map[string]func(Object) string

	// Volatile marks kinds whose writes say nothing about progress: Leases and Events. A run can be quiet while they go on.
	Volatile bool

	name        string     // see Name
	order       int        // position in the kinds table
	storagePath string     // below /registry/, as error messages show it
	spec        int        // index of the field Spec of Type, -1 if there is none
	status      int        // index of the field Status of Type, -1 if there is none
	gaps        []string   // the fidelity gaps that any use of the kind opens
	tidy        []tidyStep // what makes a built-in what its reader would decode
}

// GenerationRule says which changes bump metadata.generation.
type GenerationRule uint8

// The generation rules.
const (
	GenerationNone               GenerationRule = iota // stays 0
	GenerationSpec                                     // spec changes
	GenerationSpecAndAnnotations                       // Deployment
	GenerationCustom                                   // anything but metadata (and status, where it is a subresource)
)

// StatusReset says what a write to the status subresource leaves as stored.
type StatusReset uint8

// The status resets.
const (
	// ResetSpec keeps spec; labels, annotations and finalizers of the request are stored (most built-ins).
	ResetSpec StatusReset = iota
	// ResetSpecAndOwners keeps spec and ownerReferences (Pod).
	ResetSpecAndOwners
	// ResetAllButStatus keeps everything but status (custom resources).
	ResetAllButStatus
)

// Version is the Kubernetes minor version a server behaves like.
type Version string

// The versions modelled.
const (
	V136 Version = "1.36"
	V137 Version = "1.37"
)

// GroupResource returns the kind's group and resource.
func (k *Kind) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.Group, Resource: k.Resource}
}

// Name returns what scenarios, schedules and reports call the kind: "StatefulSet", or "Widget.example.com" where the
// kinds table has another Widget before it.
func (k *Kind) Name() string { return k.name }

// Custom reports whether the kind is a custom resource, stored unstructured.
func (k *Kind) Custom() bool { return k.Type == nil }

// String returns the kind's name as messages show it: "StatefulSet.apps".
func (k *Kind) String() string { return k.GroupKind().String() }
