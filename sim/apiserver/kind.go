package apiserver

import (
	"reflect"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/stalemate-dev/stalemate/sim/apiserver/builtin"
)

// Kind is a row of the kinds table: all that differs between resources. The request pipeline is the same for every kind.
type Kind struct {
	schema.GroupVersionKind
	Resource   string // plural, lower case: "statefulsets"
	Singular   string // "statefulset"
	ShortNames []string
	Categories []string // groups of resources that kubectl knows by one name: "all"
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
	// CreateKeepsStatus says that a Create stores the status of the request (Node): most kinds start with an empty one.
	CreateKeepsStatus bool
	// DefaultPropagation is what a delete without a policy does.
	DefaultPropagation metav1.DeletionPropagation
	// Uncollected says that the garbage collector has nothing to do with the kind (Event): a delete never waits for it.
	Uncollected bool
	// MetadataLast says that the validation of a new object leaves its metadata out: it is looked at afterwards, if nothing else is
	// wrong; BeforeCreate of pkg/registry/rest/create.go.
	MetadataLast bool
	// Graceful says how a delete may leave the object in place for a while; nil for kinds deleted at once.
	Graceful func(obj Object, options *metav1.DeleteOptions) (seconds int64, graceful bool)

	// Default fills in defaults, in place. It is called for every decoded object, before anything else looks at it. It
	// writes only where something changes, for a patched object shares what was not patched with the stored one.
	Default func(obj Object)
	// PruneUnknown drops the fields of a custom resource that its definition does not know, in place, and returns their paths.
	// Nil where there is no definition, and for built-ins, which never have such fields.
	PruneUnknown func(obj Object) []string
	// Validate checks a new object (old is nil) or an update, after defaulting.
	Validate func(obj, old Object, v Version) field.ErrorList
	// ValidateStatus checks a write to the status subresource.
	ValidateStatus func(obj, old Object, v Version) field.ErrorList
	// ValidName checks a name on creation.
	ValidName apivalidation.ValidateNameFunc
	// PrepareCreate resets what a client may not set on creation beyond metadata and status, in place, and does what the
	// default admission plugins do. The object has its final name, its UID and its creation time. It shares what is below the
	// fields of its spec with what the client sent, which says who owns what: maps and lists are replaced, never written to.
	PrepareCreate func(obj Object)
	// PrepareUpdate carries over what a write to the main resource may not clear besides status, in place.
	PrepareUpdate func(obj, old Object)
	// PrepareStatus carries over what a write to the status subresource may not clear, in place.
	PrepareStatus func(obj, old Object, now metav1.Time)
	// Held says that something of its own keeps an object of the kind, besides its finalizers; nil for most kinds.
	Held func(obj Object) bool
	// ReturnsDeleted says that a delete answers with the object that was deleted instead of a Status.
	ReturnsDeleted bool
	// Fields are the field selectors of the kind besides metadata.name and metadata.namespace, each with its value.
	Fields map[string]func(Object) string
	// UnknownField is how a selector by another field is refused, with a verb for the field's name; empty for the usual text.
	UnknownField string
	// Scale is how the scale subresource reads and writes the kind; nil for kinds without one.
	Scale *Scale

	// Alias is the kind whose objects this one shows in another group or version; nil for a kind with objects of its own.
	// An alias has no store: requests, watches and lists of it are those of the kind behind it, with its objects converted.
	Alias *Alias
	// NotModelled lists what a real server does with the kind and this one does not, for people.
	NotModelled []string

	// Volatile marks kinds whose writes say nothing about progress: Leases and Events. A run can be quiet while they go on.
	Volatile bool

	// admit is what the default admission plugins do about a new object that depends on what else is stored: it changes the
	// object in place, or refuses it. It runs before PrepareCreate.
	admit func(s *Server, obj Object) *statusError
	// vet is what those plugins refuse of a valid object, new (old is nil) or updated, that the main resource is to become.
	vet func(s *Server, obj, old Object) *statusError
	// reread gives an object that is to be stored the defaults that it has when it is read, in place, and reports whether it is stored
	// without them: what is decided about an object after it was decoded may undo its defaults. The next write stores them, even
	// one that changes nothing else. Old is nil for a new object, and the function for most kinds.
	reread func(obj, old Object) bool
	// warn and warnStatus return what a client is warned of that writes a valid object: to the main resource, a new one (old is nil) or
	// an update, and to the status subresource; nil for most kinds.
	warn, warnStatus func(obj, old Object) []string
	// checkRules checks the validation rules of a custom resource, given what is wrong with an object otherwise; nil where there
	// are none.
	checkRules func(obj, old Object, found field.ErrorList) field.ErrorList

	name        string   // see Name
	order       int      // position in the kinds table
	storagePath string   // below /registry/, as error messages show it
	spec        int      // index of the field Spec of Type, -1 if there is none
	status      int      // index of the field Status of Type, -1 if there is none
	gaps        []string // the fidelity gaps that any use of the kind opens
	// defaultApplied takes the place of Default for what was merged by an apply, if it is not nil.
	defaultApplied func(obj Object)
	// embedded returns what cannot be read of the objects within a custom resource, nil if there is nothing; nil for built-ins.
	embedded func(obj Object) *field.Error

	warning     string     // what every request for the kind is warned of; empty for most
	tidy        []tidyStep // what makes a built-in what its reader would decode
	storedForm  []tidyStep // what storing it does to it besides
	fields      *fieldRules
	checks      [2]builtin.Checks              // of metadata, of the main resource and of the status
	applyModels func() map[string]*spec.Schema // of a custom resource that was added with its definition
}

// Scale is how the scale subresource sees a kind.
type Scale struct {
	// Read returns the number of replicas that is asked for, the one there is, and the selector of the pods as text.
	Read func(obj Object) (spec, status int32, selector string)
	// Write sets the number that is asked for, on an object of which everything but the top level may be shared.
	Write func(obj Object, replicas int32)

	// What a custom resource adds, whose definition says where its values are.
	values   func(obj Object) (scaleValues, error)
	at       string         // where the number is that is asked for, as the definition has it
	replicas fieldpath.Path // the same, as ownership knows it
}

// Alias is another way to see a kind: a group and version of its own, with a Go type of its own.
type Alias struct {
	Of *Kind // where the objects are
	// To converts an object of the alias, with its defaults, to the form of the kind behind it, and From the other way.
	// The result may share what it did not have to convert.
	To, From func(obj Object) (Object, error)
}

// GenerationRule says which changes bump metadata.generation.
type GenerationRule uint8

// The generation rules.
const (
	GenerationNone               GenerationRule = iota // stays 0
	GenerationSpec                                     // spec changes
	GenerationSpecAndAnnotations                       // Deployment
	GenerationCustom                                   // anything but metadata (and status, where it is a subresource)
	GenerationContent                                  // anything but metadata, of a built-in without spec and status
	GenerationContentAndLabels                         // EndpointSlice
	GenerationOnce                                     // 1 from the creation on (PriorityClass)
	GenerationLate                                     // spec changes, from 0 on (CSIDriver)
)

// counts reports whether new objects have generation 1.
func (r GenerationRule) counts() bool { return r != GenerationNone && r != GenerationLate }

// StatusReset says what a write to the status subresource leaves as stored.
type StatusReset uint8

// The status resets.
const (
	// ResetSpec keeps spec; labels, annotations and finalizers of the request are stored (most built-ins).
	ResetSpec StatusReset = iota
	// ResetSpecAndOwners keeps spec and ownerReferences (Pod).
	ResetSpecAndOwners
	// ResetSpecAndLabels keeps spec and labels (Deployment).
	ResetSpecAndLabels
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

// Deprecation returns what every request for the kind is warned of, empty for most.
func (k *Kind) Deprecation() string { return k.warning }
