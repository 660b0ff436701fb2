package handler

import (
	"context"
	"io"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	listvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
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

// Stream is a watch as its client sees it: what exists first, if that was asked for, then what happens to objects that the
// request selects, bookmarks, and an end after some time. It is used by one goroutine at a time.
type Stream struct {
	req   *apiserver.Request
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

// Open begins a watch of the kind, namespace and selectors of a request, with the options that a client sends. An error that is
// an apierrors.APIStatus is the answer of the server, any other says that there was none. The context is that of the whole
// watch. Close the stream when nobody reads it any more.
func Open(ctx context.Context, backend Backend, req *apiserver.Request, sent *metav1.ListOptions) (*Stream, error) {
	options := internalversion.ListOptions{
		LabelSelector: req.LabelSelector, FieldSelector: req.FieldSelector, Watch: true,
		ResourceVersion: sent.ResourceVersion, ResourceVersionMatch: sent.ResourceVersionMatch,
		TimeoutSeconds: sent.TimeoutSeconds, AllowWatchBookmarks: sent.AllowWatchBookmarks,
		SendInitialEvents: sent.SendInitialEvents, Limit: sent.Limit, Continue: sent.Continue,
	}
	internalversion.SetListOptionsDefaults(&options, true)
	if err := invalidOptions("ListOptions", listvalidation.ValidateListOptions(&options, true)); err != nil {
		return nil, err
	}
	selects(req, options)
	return open(ctx, backend, req, options)
}

// open begins a watch whose options have been checked.
func open(
	ctx context.Context, backend Backend, req *apiserver.Request, options internalversion.ListOptions,
) (*Stream, error) {
	initial := options.SendInitialEvents != nil && *options.SendInitialEvents
	begun, err := backend.Watch(ctx, req, initial)
	if err != nil {
		return nil, err
	}
	timeout := watchTimeout
	if options.TimeoutSeconds != nil && *options.TimeoutSeconds != 0 {
		timeout = time.Duration(*options.TimeoutSeconds) * time.Second
	}
	s := &Stream{
		req: req, watch: begun, initial: begun.Objects,
		closing: initial && options.AllowWatchBookmarks, bookmarks: options.AllowWatchBookmarks && timeout > lastBookmark,
	}
	s.life, s.stopLife = context.WithTimeout(ctx, timeout)
	return s, nil
}

// Next waits for the next event. Its object is in stored form and immutable; that of an ERROR is a *metav1.Status. The error is
// io.EOF at the end of the watch, or that of the context, which is the one of the watch or ends with it.
func (s *Stream) Next(ctx context.Context) (watch.EventType, runtime.Object, error) {
	switch {
	case s.done:
		return "", nil, io.EOF
	case ctx.Err() != nil:
		return "", nil, ctx.Err()
	case s.watch.Failure != nil:
		s.done = true
		return watch.Error, statusOf(s.watch.Failure), nil
	case len(s.initial) > 0:
		obj := s.initial[0]
		s.initial = s.initial[1:]
		return watch.Added, obj, nil
	case s.closing:
		s.closing = false
		return watch.Bookmark, s.bookmark(s.watch.Revision, map[string]string{metav1.InitialEventsAnnotationKey: "true"}), nil
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
				return watch.EventType(shown.Type.String()), shown.Object, nil
			}
			continue
		case ctx.Err() != nil:
			return "", nil, ctx.Err()
		case s.wake.Err() == nil: // the backend has ended the watch
			s.done = true
			return "", nil, err
		case s.life.Err() != nil:
			s.done = true
			return "", nil, io.EOF
		}
		s.stopWake()
		s.wake = nil
		if revision := s.watch.Events.Revision(); revision > s.watch.Revision {
			return watch.Bookmark, s.bookmark(revision, nil), nil
		}
	}
}

// setWake sets the time of the next bookmark; nextBookmarkTime of cache_watcher.go.
func (s *Stream) setWake() {
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

// bookmark is what only tells a revision.
func (s *Stream) bookmark(revision int64, annotations map[string]string) apiserver.Object {
	obj := s.req.Kind.New()
	obj.SetResourceVersion(strconv.FormatInt(revision, 10))
	if annotations != nil {
		obj.SetAnnotations(annotations)
	}
	return obj
}

// Close frees what the stream holds. Nobody asks it for events any more.
func (s *Stream) Close() {
	s.stopLife() // and with it, what waits for the next bookmark
	if s.watch.Events != nil {
		s.watch.Events.Stop()
	}
}
