package handler

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// begin begins a watch; handleWatch of pkg/endpoints/handlers/get.go and serveWatchHandler of watch.go.
func (c *call) begin(req *apiserver.Request, form representation, options internalversion.ListOptions) (*answer, error) {
	told, err := open(c.r.Context(), c.backend, req, options)
	if _, refused := errors.AsType[apiError](err); err != nil && !refused {
		return nil, ended(c.r, err)
	}
	if err != nil {
		return nil, err
	}
	if form.StreamSerializer == nil {
		told.Close()
		return nil, nothingAcceptable(codecs().names(true))
	}
	mediaType := form.MediaType
	if mediaType != runtime.ContentTypeJSON {
		mediaType += ";stream=watch"
	}
	s := &stream{told: told, form: form}
	return &answer{code: http.StatusOK, header: http.Header{"Content-Type": {mediaType}}, stream: s}, nil
}

// stream makes the frames of a watch, one when it is asked for one. It is used by one goroutine at a time.
type stream struct {
	told *Stream
	form representation
}

// next waits for the next frame. Its errors are those of [Stream.Next].
func (s *stream) next(ctx context.Context) ([]byte, error) {
	eventType, obj, err := s.told.Next(ctx)
	if err != nil {
		return nil, err
	}
	return s.frame(eventType, obj)
}

func (s *stream) close() { s.told.Close() }

// frame encodes one event.
func (s *stream) frame(eventType watch.EventType, obj runtime.Object) ([]byte, error) {
	obj, err := shown(obj, s.form.as)
	if err != nil {
		return nil, err
	}
	raw, err := encode(s.form.Serializer, obj)
	if err != nil {
		return nil, err
	}
	event := &metav1.WatchEvent{Type: string(eventType), Object: runtime.RawExtension{Raw: raw}}
	var frame bytes.Buffer
	if err := s.form.StreamSerializer.Serializer.Encode(event, s.form.StreamSerializer.Framer.NewFrameWriter(&frame)); err != nil {
		return nil, err
	}
	return frame.Bytes(), nil
}

// ServeHTTP answers a request of a client on the other side of a connection.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a, err := h.serve(r)
	if err != nil {
		panic(http.ErrAbortHandler) // there is no answer: break the connection
	}
	maps.Copy(w.Header(), a.header)
	w.WriteHeader(a.code)
	if a.stream == nil {
		_, _ = w.Write(a.body) // nobody is left to tell
		return
	}
	defer a.stream.close()
	flush := http.NewResponseController(w).Flush
	_ = flush()
	for {
		frame, err := a.stream.next(r.Context())
		if err != nil {
			return
		}
		if _, err := w.Write(frame); err != nil {
			return
		}
		_ = flush() // a writer without it sends when it likes
	}
}

// RoundTrip answers a request of a client in this process, on the client's goroutine.
func (h *Handler) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer func() { _ = r.Body.Close() }()
	}
	ctx, cancel := context.WithCancel(r.Context())
	inner := r.WithContext(ctx)
	if inner.Method == "" {
		inner.Method = http.MethodGet
	}
	if inner.Header == nil {
		inner.Header = http.Header{}
	}
	a, err := h.serve(inner)
	if err != nil {
		cancel()
		return nil, errors.Unwrap(err) // what the backend said
	}
	response := &http.Response{
		Status: strconv.Itoa(a.code) + " " + http.StatusText(a.code), StatusCode: a.code,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header, ContentLength: int64(len(a.body)), Request: r,
	}
	if a.stream == nil {
		cancel()
		response.Body = io.NopCloser(bytes.NewReader(a.body))
		return response, nil
	}
	response.ContentLength = -1
	response.Body = &streamBody{stream: a.stream, ctx: ctx, cancel: cancel}
	return response, nil
}

// streamBody is the body of a watch. What there is to read is made when it is read.
type streamBody struct {
	stream *stream
	ctx    context.Context
	cancel context.CancelFunc
	frame  []byte // what of the last frame is still to be read

	mu              sync.Mutex
	reading, closed bool
}

// Read waits for the next frame. It is called by one goroutine at a time.
func (b *streamBody) Read(p []byte) (int, error) {
	if len(b.frame) == 0 {
		if err := b.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(p, b.frame)
	b.frame = b.frame[n:]
	return n, nil
}

func (b *streamBody) fill() (err error) {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return http.ErrBodyReadAfterClose
	}
	b.reading = true
	b.mu.Unlock()
	b.frame, err = b.stream.next(b.ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.reading = false
	if b.closed {
		b.stream.close()
		return io.EOF // nobody cares any more, and a client would report anything else
	}
	return err
}

// Close ends the watch. It does not wait for a Read that is under way, which returns by itself.
func (b *streamBody) Close() error {
	b.cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed && !b.reading {
		b.stream.close()
	}
	b.closed = true
	return nil
}
