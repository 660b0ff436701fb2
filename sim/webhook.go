package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// A webhook that a process serves is asked in the middle of the step of somebody else: a request of which the server wants to
// know whether it may go on. The handler runs in a goroutine of its process while the engine waits for it, and everybody else
// stands still. What the handler asks for itself, of the server or of a cache, is granted at once, in the order of the names
// where several goroutines ask; such calls are records, and sites of faults, like any other, but nothing comes between them,
// and no constraint holds them. Virtual time passes only where the handler sleeps, or a fault holds up one of its calls; after
// the webhook's timeout the request goes on without an answer.
//
// The other way, in which others take steps while a webhook thinks, would let a handler's reads be stale by the time its answer
// counts. That takes a request which is in the server for several steps, and is not modelled.

// webhookController is the name under which the calls of a process's webhooks appear in the names of events.
const webhookController = "webhook"

// maxAsking bounds how many webhooks may be asked in the course of one request, each about a request of the one before it: on a
// real server those that call themselves again and again end by the timeout of the first.
const maxAsking = 32

// WebhookServer answers the AdmissionReviews that are posted to a process. An [http.ServeMux] is one.
type WebhookServer interface {
	http.Handler
	// Handler returns the handler of a request, with an empty pattern if nobody serves its path.
	Handler(r *http.Request) (h http.Handler, pattern string)
}

// ServeWebhooks says that the process answers admission webhooks from now on, as long as it lives. Requests reach it by the
// path alone: the Service that a webhook's configuration names need not exist, and of several processes that serve a path the
// first is asked.
func (env *Env) ServeWebhooks(s WebhookServer) {
	e := env.process.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	env.process.webhooks = s
}

// asking is a webhook that is being asked.
type asking struct {
	process   *process
	server    WebhookServer
	thread    *thread
	deadline  time.Duration
	goroutine string // guarded by engine.mu, as what follows
	done      bool
	answer    *admissionv1.AdmissionReview
	err       error
}

// callWebhook asks the process that serves a webhook.
func (e *engine) callWebhook(call *apiserver.WebhookCall) (*admissionv1.AdmissionReview, error) {
	p, err := e.servingProcess(call.Path)
	if err != nil {
		return nil, err
	}
	if len(e.asked) >= maxAsking {
		return nil, context.DeadlineExceeded
	}
	a := e.beginAsking(p, call)
	alike, running := e.alike, e.running
	// A client that gives up ends the context of the handler.
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), threadContextKey{}, a.thread))
	e.pay()
	p.spawn(func() { a.post(ctx, call) })
	e.monitor.Aside(func() { err = e.await(a) })
	cancel()
	e.settle()
	e.alike, e.running = alike, running
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked = e.asked[:len(e.asked)-1]
	if err != nil {
		return nil, err
	}
	return a.answer, a.err
}

// servingProcess returns the process that serves a path.
func (e *engine) servingProcess(path string) (*process, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	err := apiserver.ErrNoWebhook
	for _, p := range e.processes {
		if p.webhooks == nil {
			continue
		}
		_, pattern := p.webhooks.Handler(&http.Request{Method: http.MethodPost, URL: &url.URL{Path: path}})
		switch {
		case pattern == "":
		case p.dead:
			err = apiserver.ErrWebhookDown
		default:
			return p, nil
		}
	}
	return nil, err
}

func (e *engine) beginAsking(p *process, call *apiserver.WebhookCall) *asking {
	e.mu.Lock()
	defer e.mu.Unlock()
	a := &asking{
		process: p, server: p.webhooks, thread: p.passThread(passKey{controller: webhookController}),
		deadline: later(e.clock, call.Timeout),
	}
	if n := len(e.asked); n > 0 {
		a.deadline = min(a.deadline, e.asked[n-1].deadline)
	}
	a.thread.burst++
	e.asked = append(e.asked, a)
	return a
}

// await lets a webhook run until it has answered. The error is that of a connection.
func (e *engine) await(a *asking) error {
	for {
		e.settle()
		e.collect()
		e.mu.Lock()
		done, broken := a.done, a.process.dead || e.failure != nil || e.panic != ""
		e.mu.Unlock()
		switch {
		case broken:
			return io.EOF
		case done:
			return nil
		case e.clock >= a.deadline || e.outcome != "":
			return context.DeadlineExceeded
		}
		o, until := e.nextOf(a)
		if o == nil {
			e.advance(until)
			continue
		}
		e.steps++
		e.progress.Add(1)
		e.clock += tick
		if o.request() {
			e.clock += requestLatency
		} else {
			e.clock += localLatency
		}
		e.grant(o)
		if e.steps >= e.config.Limits.steps() {
			e.limit("steps", e.config.Limits.steps())
		}
	}
}

// nextOf returns the call of a webhook's handler that is next, and nil where there is none yet; then until says when to look
// again.
func (e *engine) nextOf(a *asking) (next *op, until time.Duration) {
	until = a.deadline
	for _, o := range e.ops {
		switch {
		case o.thread != a.thread:
		case o.enabled():
			if next == nil || o.since < next.since {
				next = o
			}
		case o.notBefore > e.clock:
			until = min(until, o.notBefore)
		}
	}
	return next, until
}

// post sends a review to the handler, in whose goroutine it is called.
func (a *asking) post(ctx context.Context, call *apiserver.WebhookCall) {
	e := a.process.engine
	e.mu.Lock()
	a.goroutine = goroutineID()
	e.mu.Unlock()
	var answer *admissionv1.AdmissionReview
	err := io.EOF
	defer func() { // also where the process dies
		e.mu.Lock()
		defer e.mu.Unlock()
		a.done, a.answer, a.err = true, answer, err
		e.signal()
	}()
	var body []byte
	if body, err = json.Marshal(call.Review); err != nil {
		return
	}
	var request *http.Request
	if request, err = http.NewRequestWithContext(ctx, http.MethodPost, call.URL, bytes.NewReader(body)); err != nil {
		return
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, */*")
	request.Header.Set("User-Agent", "kube-apiserver-admission")
	request.RequestURI = request.URL.RequestURI()
	err = io.EOF // until the handler has returned
	written := &reply{header: http.Header{}}
	a.server.ServeHTTP(written, request)
	answer, err = written.review()
}

// reply is an answer over HTTP.
type reply struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (r *reply) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *reply) WriteHeader(code int) {
	if r.code == 0 {
		r.code = code
	}
}

// Write implements http.ResponseWriter.
func (r *reply) Write(data []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(data)
}

// review reads the review, as client-go does in an API server (k8s.io/client-go/rest/request.go, transformResponse, v0.36).
func (r *reply) review() (*admissionv1.AdmissionReview, error) {
	if r.code >= http.StatusBadRequest {
		text := strings.TrimSpace(r.body.String())
		return nil, apierrors.NewGenericServerResponse(r.code, http.MethodPost, schema.GroupResource{}, "", text, 0, true)
	}
	answer := &admissionv1.AdmissionReview{}
	if err := json.Unmarshal(r.body.Bytes(), answer); err != nil {
		return nil, fmt.Errorf("couldn't get version/kind; json parse error: %w", err)
	}
	return answer, nil
}

// asks reports whether a goroutine is that of a handler of the process which is being asked, and returns its thread. The caller
// holds e.mu.
func (p *process) asks(goroutine string) (*thread, bool) {
	i := slices.IndexFunc(p.engine.asked, func(a *asking) bool { return a.process == p && a.goroutine == goroutine })
	if i < 0 {
		return nil, false
	}
	return p.engine.asked[i].thread, true
}
