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
	"github.com/stalemate-dev/stalemate/sim/apiserver"
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
	lock        string // the resourceVersion that a write insists on, if it does
}

func targetOf(d *sim.Door) target { return targetOfRequest(d.Event().Actor, d.Request()) }

func targetOfRequest(actor string, r *apiserver.Request) target {
	t := target{
		actor: actor, verb: r.Verb, group: r.Kind.GroupVersion(), kind: r.Kind.Kind, resource: r.Kind.Resource,
		namespace: r.Namespace, object: r.Name, subresource: r.Subresource, lock: r.Lock(),
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
	text := fmt.Sprintf("User %q cannot %s resource %q in API group %q %s",
		user, strings.ToLower(string(t.verb)), resource, t.group.Group, where)
	return apierrors.NewForbidden(t.groupResource(), t.name, errors.New(text))
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

// internalError is a webhook that is not reached, for a write (k8s.io/apiserver/pkg/util/webhook/error.go, of which
// pkg/admission/plugin/webhook makes an internal error), and for a read an object that cannot be decrypted as the plugin for
// that is away (pkg/storage/value/encrypt/envelope/kmsv2/envelope.go).
func (t *target) internalError(f schedule.Fault) *apierrors.StatusError {
	cause := "failed to decrypt DEK, error: rpc error: code = Unavailable desc = the plugin is away"
	if t.verb.IsWrite() {
		cause = `failed calling webhook "webhook.stalemate.dev": failed to call webhook: ` +
			`Post "https://webhook.stalemate.svc:443/?timeout=10s": dial tcp 10.96.0.2:443: connect: connection refused`
	}
	err := apierrors.NewInternalError(errors.New(cause))
	err.ErrStatus.Details.RetryAfterSeconds = int32(seconds(f))
	return err
}

// serverTimeout is a storage that is unreachable: k8s.io/apiserver/pkg/storage/errors/storage.go, which calls the operation
// of a patch "update". Storage in etcd answers so to a list only, aggregated API servers with other storage to all.
func (t *target) serverTimeout(f schedule.Fault) *apierrors.StatusError {
	operation := strings.ToLower(string(t.verb))
	if t.verb == schedule.Patch {
		operation = "update"
	}
	if t.verb == schedule.DeleteCollection {
		operation = "list" // which it begins with
	}
	return apierrors.NewServerTimeout(t.groupResource(), operation, seconds(f))
}

// timeout is a handler that did not end in time: k8s.io/apiserver/pkg/endpoints/handlers/finisher/finisher.go for a write, and
// pkg/server/filters/timeout.go for a read.
func (t *target) timeout(f schedule.Fault) *apierrors.StatusError {
	text := "request did not complete within the allotted timeout"
	if t.verb.IsWrite() {
		text = "request did not complete within requested timeout - context deadline exceeded"
	}
	return apierrors.NewTimeoutError(text, seconds(f))
}

// patience returns for how long a server waits for its handler: 34 seconds for a write to one object
// (k8s.io/apiserver/pkg/endpoints/handlers/rest.go, requestTimeoutUpperBound), else a minute (pkg/server/config.go,
// RequestTimeout).
func (t *target) patience() time.Duration {
	if t.verb.IsWrite() && t.verb != schedule.DeleteCollection {
		return 34 * time.Second
	}
	return time.Minute
}

// seconds returns the Retry-After of a fault, zero for none. The server sends the header whenever its details name seconds.
func seconds(f schedule.Fault) int { return int(max(f.RetryAfter, 0) / time.Second) }
