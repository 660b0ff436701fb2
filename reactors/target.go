package reactors

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// target is what a request is about, as far as errors speak of it. It builds the answers of a real server and client; every
// builder gives its source in Kubernetes v1.36.
type target struct {
	actor       string
	verb        schedule.Verb
	group       schema.GroupVersion
	kind        string
	resource    string
	namespace   string
	object      string // its name
	name        string // the same, where the path has it: not for a create or a list
	subresource string
}

func targetOf(d *sim.Door) target {
	r := d.Request()
	t := target{
		actor: d.Event().Actor, verb: r.Verb, group: r.Kind.GroupVersion(), kind: r.Kind.Kind, resource: r.Kind.Resource,
		namespace: r.Namespace, object: r.Name, subresource: r.Subresource,
	}
	t.name = t.inPath()
	return t
}

// inPath returns the name that the request's path has.
func (t *target) inPath() string {
	if t.verb == schedule.Create && t.subresource == "" {
		return ""
	}
	return t.object
}

func (t *target) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: t.group.Group, Resource: t.resource}
}

// method returns the request's HTTP method.
func (t *target) method() string {
	switch t.verb {
	case schedule.Create:
		return http.MethodPost
	case schedule.Update:
		return http.MethodPut
	case schedule.Patch:
		return http.MethodPatch
	case schedule.Delete, schedule.DeleteCollection:
		return http.MethodDelete
	default:
		return http.MethodGet
	}
}

// url returns the request's address on a cluster whose service network is the default one.
func (t *target) url() string {
	path := "/apis/" + t.group.String()
	if t.group.Group == "" {
		path = "/api/" + t.group.Version
	}
	if t.namespace != "" {
		path += "/namespaces/" + t.namespace
	}
	for _, part := range []string{t.resource, t.name, t.subresource} {
		if part != "" {
			path += "/" + part
		}
	}
	return "https://10.96.0.1:443" + path
}

// broken is the error of a connection that ends before an answer has come: what net/http's Client.Do returns, and client-go
// hands on as it is. It is no API status, so none of apierrors' predicates holds.
func (t *target) broken(cause error) error {
	method := t.method()
	return &url.Error{Op: method[:1] + strings.ToLower(method[1:]), URL: t.url(), Err: cause}
}

// conflict is OptimisticLockErrorMsg of k8s.io/apiserver/pkg/registry/generic/registry/store.go.
func (t *target) conflict(schedule.Fault) *apierrors.StatusError {
	return apierrors.NewConflict(t.groupResource(), t.name, errors.New(
		"the object has been modified; please apply your changes to the latest version and try again"))
}

// invalid is a validation that fails on the object as a whole, as a ValidatingAdmissionPolicy or a rule of a CRD at its root
// does: k8s.io/apimachinery/pkg/api/errors NewInvalid.
func (t *target) invalid(schedule.Fault) *apierrors.StatusError {
	kind := schema.GroupKind{Group: t.group.Group, Kind: t.kind}
	return apierrors.NewInvalid(kind, t.object, field.ErrorList{
		field.Forbidden(field.NewPath("spec"), "the object is refused by a fault of the simulation"),
	})
}

// forbidden is the answer of RBAC: k8s.io/apiserver/pkg/endpoints/handlers/responsewriters/errors.go ForbiddenStatusError.
// The actor runs as a service account of its name.
func (t *target) forbidden(schedule.Fault) *apierrors.StatusError {
	resource, where := t.resource, "at the cluster scope"
	if t.subresource != "" {
		resource += "/" + t.subresource
	}
	if t.namespace != "" {
		where = fmt.Sprintf("in the namespace %q", t.namespace)
	}
	user := "system:serviceaccount:default:" + cmp.Or(t.actor, "default")
	return apierrors.NewForbidden(t.groupResource(), t.name, fmt.Errorf("User %q cannot %s resource %q in API group %q %s",
		user, strings.ToLower(string(t.verb)), resource, t.group.Group, where))
}

func (t *target) notFound(schedule.Fault) *apierrors.StatusError {
	return apierrors.NewNotFound(t.groupResource(), t.name)
}

// plain is what client-go makes of an answer in plain text: k8s.io/client-go/rest/request.go newUnstructuredResponseError.
func (t *target) plain(code int, body string, f schedule.Fault) *apierrors.StatusError {
	return apierrors.NewGenericServerResponse(code, t.method(), t.groupResource(), t.name, body, seconds(f), true)
}

// tooManyRequests is the answer of priority and fairness, and of its predecessor:
// k8s.io/apiserver/pkg/server/filters/priority-and-fairness.go tooManyRequests.
func (t *target) tooManyRequests(f schedule.Fault) *apierrors.StatusError {
	return t.plain(http.StatusTooManyRequests, "Too many requests, please try again later.", f)
}

// serviceUnavailable is the answer of an aggregator, or a load balancer, that does not reach the server behind it:
// k8s.io/kube-aggregator/pkg/apiserver/handler_proxy.go.
func (t *target) serviceUnavailable(f schedule.Fault) *apierrors.StatusError {
	return t.plain(http.StatusServiceUnavailable, "service unavailable", f)
}

// internalError has the form of k8s.io/apimachinery/pkg/api/errors NewInternalError; its cause is an example.
func (t *target) internalError(f schedule.Fault) *apierrors.StatusError {
	err := apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
	err.ErrStatus.Details.RetryAfterSeconds = int32(seconds(f))
	return err
}

// serverTimeout is a storage that is unreachable: k8s.io/apiserver/pkg/storage/errors/storage.go, which calls the operation
// of a patch "update".
func (t *target) serverTimeout(f schedule.Fault) *apierrors.StatusError {
	operation := strings.ToLower(string(t.verb))
	switch t.verb {
	case schedule.Patch:
		operation = "update"
	case schedule.DeleteCollection:
		operation = "list" // which it begins with
	}
	return apierrors.NewServerTimeout(t.groupResource(), operation, seconds(f))
}

// timeout is a handler that did not end in time: k8s.io/apiserver/pkg/endpoints/handlers/finisher/finisher.go.
func (t *target) timeout(f schedule.Fault) *apierrors.StatusError {
	return apierrors.NewTimeoutError(
		"request did not complete within requested timeout - context deadline exceeded", seconds(f))
}

// seconds returns the Retry-After of a fault, zero for none. The server sends the header whenever its details name seconds.
func seconds(f schedule.Fault) int { return int(max(f.RetryAfter, 0) / time.Second) }
