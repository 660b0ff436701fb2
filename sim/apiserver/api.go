package apiserver

import (
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/apiserver/rbac"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Object is what the server stores: a typed built-in, or an *unstructured.Unstructured for a custom resource. A stored
// object is immutable: whoever holds one may keep it for ever and must copy it before changing anything.
//
// It is the same interface as controller-runtime's client.Object.
type Object interface {
	metav1.Object
	runtime.Object
}

// Request is one request to the server, after decoding. All ways in meet here.
type Request struct {
	Verb        schedule.Verb // Get, List, Create, Update, Patch, Delete or DeleteCollection
	Kind        *Kind
	Namespace   string
	Name        string
	Subresource string // "", "status", "scale", "binding", "eviction" or "finalize"

	// Object is the body of a Create or Update. The server takes it over: the caller must not touch it afterwards, and
	// must hand in a copy if it does not own it. It has the stored form of its kind: the Go
	// type of a built-in, an *unstructured.Unstructured of a custom resource (see [Kind.StoredCopy]).
	Object Object
	// PatchType and PatchData are the body of a Patch.
	PatchType types.PatchType
	PatchData []byte

	DryRun bool // a Delete may also say it in its options
	// Create, Update, Patch.
	FieldManager string
	// UserAgent is who sends the request: a write that names no field manager is made under the part before the first slash.
	UserAgent string
	// Force lets an apply take fields from other managers. Only for an apply.
	Force *bool
	// FieldValidation says what becomes of the fields of a patched object that its kind does not have: metav1's Warn or
	// Strict. With Ignore, or empty, they are dropped without a word. The object of a Create or Update has lost them already.
	FieldValidation string
	// Access is who makes the request, and what says whether they may: what they may not is answered with 403, also an Update
	// or Patch that would create what they may not create. Nil may do everything.
	Access *rbac.Access
	// Delete and DeleteCollection.
	Delete metav1.DeleteOptions
	// Get, List and DeleteCollection.
	ResourceVersion      string
	ResourceVersionMatch metav1.ResourceVersionMatch
	LabelSelector        labels.Selector // nil selects everything
	FieldSelector        fields.Selector // nil selects everything
	Limit                int64
	Continue             string

	// Webhook, if set, acts in place of an admission webhook.
	Webhook *WebhookFault

	warnings []string                 // for the response
	said     *schema.GroupVersionKind // what a custom resource said of itself, where that is not what it is
	applied  *claim                   // what an apply to the scale subresource says about the object itself
	review   *review                  // nil where no webhook is to be asked
	alias    *Kind                    // the kind that was asked for, where it is an alias; Kind is then the one behind it
}

// Key returns the namespace and name the request is about.
func (r *Request) Key() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
}

// dryRun reports whether nothing is to be committed. A delete may say so in its options alone.
func (r *Request) dryRun() bool { return r.DryRun || len(r.Delete.DryRun) > 0 }

// Response is the server's answer.
type Response struct {
	Code int // the HTTP status code
	// Err is nil on success. It carries code, reason, message and details as a real server sends them.
	Err *apierrors.StatusError
	// Object is the object read or written, in stored form and immutable. Nil for a List, for an error, and for a
	// delete that a real server answers with a plain Status.
	Object Object
	// Items are the objects of a List in the order of their storage keys (namespace, name).
	Items []Object
	// Revision is the store's revision the answer reflects: of the list, or the object's own.
	Revision int64
	// Continue and Remaining page a List.
	Continue  string
	Remaining *int64
	// Committed is the revision this request was committed at; zero for reads, errors, dry runs and writes that
	// changed nothing.
	Committed int64
	// Before is the object as it was when the request arrived, nil if it did not exist. Set for writes only.
	Before Object
	// Denied is what the request's [Access] has not allowed, nil if it is not that which Err is about.
	Denied *rbac.Attributes
	// Warnings are the texts a real server sends in Warning headers.
	Warnings []string
	// Webhooks are the names of the admission webhooks that were called, in their order.
	Webhooks []string
}

// Event is one entry of a resource's event log: one commit.
type Event struct {
	Revision int64
	Type     EventType
	// Object is the object after the commit; for a delete the last stored state at the revision of the delete.
	Object Object
	// Prev is the object before the commit, nil for an addition.
	Prev Object
}

// EventType says what a commit did to its object.
type EventType uint8

// The types of an event, named as watch events are.
const (
	Added EventType = iota + 1
	Modified
	Deleted
)

// String returns the name a watch event has.
func (t EventType) String() string {
	switch t {
	case Added:
		return "ADDED"
	case Modified:
		return "MODIFIED"
	case Deleted:
		return "DELETED"
	default:
		return "UNKNOWN"
	}
}

// Clock tells the server the virtual time.
type Clock func() time.Time
