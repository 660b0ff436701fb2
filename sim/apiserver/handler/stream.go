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
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

const (
	// watchTimeout is how long a watch lasts that does not say: the middle of what a real server chooses at random,
	// MinRequestTimeout of pkg/server/config.go to twice that.
	watchTimeout = 45 * time.Minute
	// bookmarkPeriod is how often a watch tells how far it has come, and lastBookmark how long before its end it does so once
	// more: pkg/storage/cacher/cacher.go and cache_watcher.go.
	bookmarkPeriod = time.Minute
	lastBookmark   = 2 * time.Second
)

// begin begins a watch; handleWatch of pkg/endpoints/handlers/get.go and serveWatchHandler of watch.go.
func (c *call) begin(req *apiserver.Request, form representation, options internalversion.ListOptions) (*answer, error) {
	initial := options.SendInitialEvents != nil && *options.SendInitialEvents
	begun, err := c.backend.Watch(c.r.Context(), req, initial)
	if _, refused := errors.AsType[apiError](err); err != nil && !refused {
		return nil, ended(c.r, err)
	}
	if err != nil {
		return nil, err
	}
	if form.StreamSerializer == nil {
		if begun.Events != nil {
			begun.Events.Stop()
		}
		return nil, nothingAcceptable(codecs().names(true))
	}
	mediaType := form.MediaType
	if mediaType != runtime.ContentTypeJSON {
		mediaType += ";stream=watch"
	}
	timeout := watchTimeout
	if options.TimeoutSeconds != nil && *options.TimeoutSeconds != 0 {
		timeout = time.Duration(*options.TimeoutSeconds) * time.Second
	}
	s := &stream{
		req: req, form: form, watch: begun, initial: begun.Objects,
		closing: initial && options.AllowWatchBookmarks, bookmarks: options.AllowWatchBookmarks && timeout > lastBookmark,
	}
	s.life, s.stopLife = context.WithTimeout(c.r.Context(), timeout)
	return &answer{code: http.StatusOK, header: http.Header{"Content-Type": {mediaType}}, stream: s}, nil
}

// stream makes the frames of a watch, one when it is asked for one. It is used by one goroutine at a time.
type stream struct {
	req   *apiserver.Request
	form  representation
	watch *Watch

	initial   []apiserver.Object // still to be told as additions
	closing   bool               // a bookmark is still to be told that ends them
	bookmarks bool               // more of them are to be told from time to time
	done      bool

	life     context.Context // ends with the request, or when the watch has lasted long enough
	stopLife context.CancelFunc
	wake     context.Context // ends when the next bookmark is due, or else with the life
	stopWake context.CancelFunc
}

// next waits for the next frame. The error is io.EOF at the end of the watch, or that of the context, which is the one that the
// request has.
func (s *stream) next(ctx context.Context) ([]byte, error) {
	switch {
	case s.done:
		return nil, io.EOF
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case s.watch.Failure != nil:
		s.done = true
		return s.frame(watch.Error, statusOf(s.watch.Failure))
	case len(s.initial) > 0:
		obj := s.initial[0]
		s.initial = s.initial[1:]
		return s.frame(watch.Added, obj)
	case s.closing:
		s.closing = false
		return s.bookmark(s.watch.Revision, map[string]string{metav1.InitialEventsAnnotationKey: "true"})
	}
	for {
		if s.wake == nil {
			s.setWake()
		}
		event, err := s.watch.Events.Next(s.wake)
		switch {
		case err == nil:
			shown, ok := s.req.Kind.Transition(event, s.req.Namespace, s.req.LabelSelector, s.req.FieldSelector)
			if ok {
				return s.frame(watch.EventType(shown.Type.String()), shown.Object)
			}
			continue
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case s.wake.Err() == nil: // the backend has ended the watch
			s.done = true
			return nil, err
		case s.life.Err() != nil:
			s.done = true
			return nil, io.EOF
		}
		s.stopWake()
		s.wake = nil
		if revision := s.watch.Events.Revision(); revision > s.watch.Revision {
			return s.bookmark(revision, nil)
		}
	}
}

// setWake sets the time of the next bookmark; nextBookmarkTime of cache_watcher.go.
func (s *stream) setWake() {
	if !s.bookmarks {
		s.wake, s.stopWake = context.WithCancel(s.life)
		return
	}
	s.wake, s.stopWake = context.WithTimeout(s.life, bookmarkPeriod)
	end, _ := s.life.Deadline()
	if due, _ := s.wake.Deadline(); due.After(end.Add(-lastBookmark)) {
		s.stopWake()
		s.wake, s.stopWake = context.WithDeadline(s.life, end.Add(-lastBookmark))
		s.bookmarks = false // this is the last one
	}
}

// close frees what the stream holds. Nobody asks it for frames any more.
func (s *stream) close() {
	s.stopLife() // and with it, what waits for the next bookmark
	if s.watch.Events != nil {
		s.watch.Events.Stop()
	}
}

// bookmark is a frame that only tells a revision.
func (s *stream) bookmark(revision int64, annotations map[string]string) ([]byte, error) {
	obj := s.req.Kind.New()
	obj.SetResourceVersion(strconv.FormatInt(revision, 10))
	if annotations != nil {
		obj.SetAnnotations(annotations)
	}
	return s.frame(watch.Bookmark, obj)
}

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
