package handler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/stalemate-dev/stalemate/sim/apiserver/rbac"
)

// Handler serves a backend over HTTP. Its fields are set before it is used; it may be used by several goroutines at once.
type Handler struct {
	// User says who sends a request, and false if it cannot tell: such a request is answered with 401 Unauthorized. Nil is
	// [Impersonated].
	User func(*http.Request) (User, bool)
	// Authorizer says who may do what. Nil lets everybody do everything.
	Authorizer Authorizer

	backend Backend
}

// New returns a handler for a backend.
func New(backend Backend) *Handler { return &Handler{backend: backend} }

// Config returns how client-go reaches the handler without a network. Clients are not slowed down: QPS is unlimited.
func (h *Handler) Config() *rest.Config {
	return &rest.Config{Host: "http://stalemate.invalid", Transport: h, QPS: -1}
}

// The time a real server gives a request: requestTimeoutUpperBound of pkg/endpoints/handlers/rest.go for a write, and
// RequestTimeout of pkg/server/config.go for everything else but watches.
const (
	writeTimeout = 34 * time.Second
	readTimeout  = time.Minute
)

// answer is what a request is answered with.
type answer struct {
	code   int
	header http.Header
	body   []byte
	stream *stream // of a watch, instead of a body
}

// text is an answer that is no API object.
func text(code int, body string) *answer {
	header := http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "X-Content-Type-Options": {"nosniff"}}
	return &answer{code: code, header: header, body: []byte(body)}
}

// serve answers a request. An error means that there is no answer: the connection breaks. The order of its steps is that of
// DefaultBuildHandlerChain, pkg/server/config.go.
func (h *Handler) serve(r *http.Request) (*answer, error) {
	t, err := targetOf(r)
	if err != nil {
		return text(http.StatusInternalServerError,
			fmt.Sprintf("Internal Server Error: %q: failed to create RequestInfo: %v\n", r.URL.RequestURI(), err)), nil
	}
	r, cancel, err := withTimeout(r, t)
	defer cancel()
	var access *rbac.Access
	if err == nil {
		access, err = h.admit(r, t)
	}
	var a *answer
	switch {
	case err != nil:
	case t.resource:
		a, err = h.serveResource(r, t, access)
	default:
		a, err = h.serveOther(r)
	}
	if err != nil {
		a, err = refuse(r, err)
	}
	if err == nil && (a.code < 100 || a.code > 999) { // net/http panics at a code that a webhook has made up
		return text(http.StatusInternalServerError, panicked+"\n"), nil
	}
	return a, err
}

// panicked is what a request is answered with that makes a server panic; pkg/server/filters/wrap.go of k8s.io/apiserver v1.36.
const panicked = "This request caused apiserver to panic. Look in the logs for details."

// withTimeout returns the request with the time it has.
func withTimeout(r *http.Request, t target) (*http.Request, context.CancelFunc, error) {
	limit := readTimeout
	switch t.verb {
	case "watch":
		return r, func() {}, nil
	case "create", "update", "patch", "delete":
		limit = writeTimeout
	}
	if text := r.URL.Query().Get("timeout"); text != "" {
		asked, err := time.ParseDuration(text)
		if err != nil {
			return r, func() {}, badRequest("invalid timeout specified in the request URL - %v", err)
		}
		if asked > 0 {
			limit = min(limit, asked)
		}
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), limit, errOutOfTime)
	return r.WithContext(ctx), cancel, nil
}

// noAnswer is a request that ended without an answer.
type noAnswer struct{ error }

func (n noAnswer) Unwrap() error { return n.error }

// errOutOfTime is why the context of a request ends that the server gives up.
var errOutOfTime = errors.New("the request has run out of time")

// ended is what becomes of a request that the backend did not answer; pkg/endpoints/handlers/finisher/finisher.go.
func ended(r *http.Request, err error) error {
	if errors.Is(context.Cause(r.Context()), errOutOfTime) {
		return apierrors.NewTimeoutError(fmt.Sprintf("request did not complete within requested timeout - %v", r.Context().Err()), 0)
	}
	return noAnswer{err}
}

// refuse answers a request with an error; ErrorNegotiated of pkg/endpoints/handlers/responsewriters/writers.go. It returns an
// error for which there is no answer.
func refuse(r *http.Request, err error) (*answer, error) {
	if _, ok := errors.AsType[noAnswer](err); ok {
		return nil, err
	}
	if _, ok := errors.AsType[noSuchPath](err); ok {
		return text(http.StatusNotFound, err.Error()), nil
	}
	status := statusOf(err)
	header := http.Header{}
	if d := status.Details; d != nil && d.RetryAfterSeconds > 0 {
		header.Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	if n, ok := errors.AsType[notAllowed](err); ok {
		header.Set("Allow", strings.Join(n.methods, ", "))
	}
	form, ok := codecs().negotiate(r, offer{})
	if !ok {
		form.SerializerInfo, form.pretty = codecs().media[0], true
	}
	header.Set("Content-Type", form.MediaType)
	body, encodeErr := encode(form.encoder(), status)
	if encodeErr != nil {
		return nil, noAnswer{encodeErr}
	}
	return &answer{code: int(status.Code), header: header, body: body}, nil
}
