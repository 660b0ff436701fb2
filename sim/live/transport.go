package live

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// passContextKey is the key of contexts under which a pass keeps its thread.
type passContextKey struct{}

// transport is the gate in front of the real server, as one start of a program under test has it in its HTTP client.
type transport struct {
	process *process
	inner   http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if t.process.isDead() {
		return nil, errDied
	}
	body, err := takeBody(r)
	if err != nil {
		return nil, err
	}
	c := t.process.cluster
	call := read(c.kinds, r, body)
	switch {
	case passesBy(call):
		return t.inner.RoundTrip(r)
	case call.watch:
		return t.watch(r, call)
	case t.isInitialList(r, call):
		return t.list(r, call)
	}
	p := &passage{call: call, agent: t.process, visit: visit{event: eventOf(call.Request), key: t.process.thread(r.Context())}}
	t.process.name(&p.visit)
	p.send = func(ctx context.Context) (*answer, error) {
		response, err := t.inner.RoundTrip(withBody(r.WithContext(ctx), body))
		if err != nil {
			return nil, err
		}
		return readAnswer(response)
	}
	answer, err := c.pass(r.Context(), p)
	if err != nil {
		return nil, err
	}
	return answer.response(r), nil
}

// takeBody reads the body of a request, and gives it another one with the same content.
func takeBody(r *http.Request) ([]byte, error) {
	if r.Body == nil || r.Body == http.NoBody {
		return nil, nil
	}
	body, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	withBody(r, body)
	return body, err
}

func withBody(r *http.Request, body []byte) *http.Request {
	if body != nil {
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	return r
}

// isInitialList reports whether a list is that of an informer, and not of a reconciler or of the rest of the program.
func (t *transport) isInitialList(r *http.Request, call *call) bool {
	return call.Verb == schedule.List && r.Context().Value(passContextKey{}) == nil && call.ResourceVersion == "0"
}

// informer is the visit of an informer's step.
func (t *transport) informer(kind *apiserver.Kind, verb schedule.Verb) visit {
	v := visit{event: schedule.Event{Actor: t.process.config.Name, Incarnation: t.process.incarnation, Verb: verb, Kind: kind.Name()}}
	v.key = threadKey{actor: v.event.Actor, incarnation: v.event.Incarnation, deliveries: v.event.Kind}
	return v
}

// list lets an informer have its initial list.
func (t *transport) list(r *http.Request, call *call) (*http.Response, error) {
	g, v := t.process.cluster.gate, t.informer(call.Kind, schedule.Sync)
	if err := g.comeUp(r.Context(), &v); err != nil {
		return nil, err
	}
	response, err := t.inner.RoundTrip(r)
	if err == nil {
		g.done(&v, Step{}, 0)
	}
	return response, err
}

// watch opens an informer's watch. Its events come by the gate one by one.
func (t *transport) watch(r *http.Request, call *call) (*http.Response, error) {
	initial := r.URL.Query().Get("sendInitialEvents") == "true"
	if initial {
		v := t.informer(call.Kind, schedule.Sync)
		if err := t.process.cluster.gate.comeUp(r.Context(), &v); err != nil {
			return nil, err
		}
	}
	if err := t.process.pausesOf(call.Kind).wait(r.Context()); err != nil {
		return nil, err
	}
	response, err := t.inner.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusOK {
		return response, err
	}
	s := &stream{transport: t, kind: call.Kind, initial: initial, ctx: r.Context(), body: response.Body,
		decoder: json.NewDecoder(response.Body)}
	response.Body = s
	return response, nil
}

// stream is the body of a watch, from which an informer reads one event after the other.
type stream struct {
	*transport
	kind    *apiserver.Kind
	initial bool // what comes now is the initial list
	ctx     context.Context
	body    io.ReadCloser
	decoder *json.Decoder
	rest    []byte // of the event that was let through
	ended   error
}

// Close implements [io.Closer].
func (s *stream) Close() error { return s.body.Close() }

// Read implements [io.Reader].
func (s *stream) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.ended != nil {
			return 0, s.ended
		}
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// next lets one event through, once nothing holds it.
func (s *stream) next() error {
	var raw json.RawMessage
	if err := s.decoder.Decode(&raw); err != nil {
		return err
	}
	var event struct {
		Type   string
		Object metav1.PartialObjectMetadata
	}
	if err := json.Unmarshal(raw, &event); err != nil {
		return err
	}
	switch {
	case event.Type == "BOOKMARK" && s.initial && event.Object.Annotations[metav1.InitialEventsAnnotationKey] == "true":
		s.initial = false
		v := s.informer(s.kind, schedule.Sync)
		s.process.cluster.gate.done(&v, Step{}, 0)
	case event.Type == "BOOKMARK", event.Type == "ERROR", s.initial:
	default:
		if err := s.deliver(&event.Object); err != nil {
			return err
		}
		if s.ended != nil && s.rest != nil {
			return nil
		}
	}
	s.process.delivered(s.kind, number(event.Object.ResourceVersion))
	s.rest = append(raw, '\n')
	return nil
}

// deliver waits until an event may be delivered, and records it. A fault may end the watch in its place.
func (s *stream) deliver(obj *metav1.PartialObjectMetadata) error {
	g, v := s.process.cluster.gate, s.informer(s.kind, schedule.Deliver)
	v.event.Namespace, v.event.Name = obj.Namespace, obj.Name
	v.cause = number(obj.ResourceVersion)
	if err := g.comeUp(s.ctx, &v); err != nil {
		return err
	}
	if s.process.isDead() {
		return errDied
	}
	struck := g.struck(v.strikes)
	if struck != nil && (struck.fault.Type == schedule.WatchDrop || struck.fault.Type == schedule.Relist) {
		s.process.pausesOf(s.kind).until(time.Now().Add(struck.fault.For))
		g.done(&v, Step{Fault: struck.fault.Type}, 0)
		if s.ended = io.EOF; struck.fault.Type == schedule.WatchDrop {
			return io.EOF
		}
		s.rest = expired(v.cause)
		return nil
	}
	g.done(&v, Step{Fault: struck.faultType()}, 0)
	return nil
}

// expired is the last event of a watch that cannot go on from where it is.
func expired(revision int64) []byte {
	gone := apierrors.NewResourceExpired("too old resource version: " + strconv.FormatInt(revision, 10)).ErrStatus
	gone.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	data, err := json.Marshal(map[string]any{"type": "ERROR", "object": &gone})
	if err != nil { // it is a struct of strings and numbers
		panic(err)
	}
	return append(data, '\n')
}
