package handler

import (
	"context"
	"strconv"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Backend is what a [Handler] serves. Its methods may be called by several goroutines at once.
type Backend interface {
	// Kinds returns the kinds table. It does not change.
	Kinds() *apiserver.Kinds
	// Do executes a request, as [apiserver.Server.Do] does. An error means that the client gets no answer; whether the request
	// was executed is then unknown to it.
	Do(ctx context.Context, req *apiserver.Request) (*apiserver.Response, error)
	// Watch begins a watch of the kind of a request. The request's namespace and selectors are not for the backend: it tells
	// every event of the kind. With initial, the watch begins with what exists at the request's revision or later. An error
	// that is an apierrors.APIStatus refuses the watch, any other breaks the connection.
	Watch(ctx context.Context, req *apiserver.Request, initial bool) (*Watch, error)
}

// Watch is a watch that has begun.
type Watch struct {
	// Objects are those that exist, if they were asked for, that match the request; in the order of their storage keys.
	Objects []apiserver.Object
	// Revision is where the events begin: the first one has a later revision.
	Revision int64
	// Failure, if not nil, is the one thing the watch has to tell.
	Failure *apierrors.StatusError
	// Events are what happens. They are nil after a failure.
	Events Events
}

// Events are the events of a kind, one after another. They are read by one goroutine.
type Events interface {
	// Next waits for the next event. An error, that of the context if it ended, ends the watch.
	Next(ctx context.Context) (apiserver.Event, error)
	// Revision returns the revision that a bookmark may carry: no event up to it is still to come.
	Revision() int64
	// Stop ends the watch. It is called once, when nobody reads any more.
	Stop()
}

// Local is a backend that executes requests at once, one at a time, on a server of its own. Make one with [NewLocal].
type Local struct {
	mu     sync.Mutex
	server *apiserver.Server
	// changed is closed at the next commit; nil while nobody waits for one. It is made by who waits, so that it belongs to
	// their synctest bubble, and dropped when all have left, so that nobody closes it from outside.
	changed chan struct{}
	waiting int // how many wait for it
}

// NewLocal returns a backend for a server, which nobody else may use from then on but through [Local.Use].
func NewLocal(server *apiserver.Server) *Local { return &Local{server: server} }

// Kinds returns the kinds table of the server.
func (l *Local) Kinds() *apiserver.Kinds { return l.server.Kinds() }

// Use calls a function with the server, while no request is executed. Watches tell what it changed.
func (l *Local) Use(f func(*apiserver.Server)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.server.Revision()
	f(l.server)
	if l.changed != nil && l.server.Revision() != before {
		close(l.changed)
		l.changed, l.waiting = nil, 0
	}
}

// Do executes a request at once, except that a read at a revision still to come waits for it, as a watch cache does.
func (l *Local) Do(ctx context.Context, req *apiserver.Request) (*apiserver.Response, error) {
	if req.Verb == schedule.Get || req.Verb == schedule.List {
		l.await(ctx, req.ResourceVersion)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var response *apiserver.Response
	l.Use(func(s *apiserver.Server) { response = s.Do(req) })
	return response, nil
}

// freshness is how long a read waits for its revision: blockTimeout of pkg/storage/cacher/watch_cache.go of
// k8s.io/apiserver v1.36.
const freshness = 3 * time.Second

// await waits until the server has reached a revision, but not for ever.
func (l *Local) await(ctx context.Context, text string) {
	revision, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return
	}
	l.mu.Lock()
	reached := l.server.Revision() >= revision
	l.mu.Unlock()
	if reached {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, freshness)
	defer cancel()
	for ctx.Err() == nil {
		l.mu.Lock()
		if l.server.Revision() >= revision {
			l.mu.Unlock()
			return
		}
		changed := l.onChange()
		l.mu.Unlock()
		l.pause(ctx, changed)
	}
}

// pause waits for a commit or for the end of the context, with a channel of [Local.onChange].
func (l *Local) pause(ctx context.Context, changed <-chan struct{}) {
	select {
	case <-changed:
	case <-ctx.Done():
		l.leave(changed)
	}
}

// onChange returns a channel that is closed at the next commit. The caller holds the lock.
func (l *Local) onChange() <-chan struct{} {
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	l.waiting++
	return l.changed
}

// leave gives a channel of onChange up.
func (l *Local) leave(changed <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed != changed {
		return // it has been closed
	}
	if l.waiting--; l.waiting == 0 {
		l.changed = nil
	}
}

// Watch begins a watch.
func (l *Local) Watch(ctx context.Context, req *apiserver.Request, initial bool) (*Watch, error) {
	if initial {
		l.await(ctx, req.ResourceVersion)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	start, err := l.server.StartWatch(req, initial)
	if err != nil {
		return nil, err
	}
	w := &Watch{Objects: start.Objects, Revision: start.Revision, Failure: start.Failure}
	if w.Failure == nil {
		w.Events = &localEvents{local: l, kind: req.Kind, next: start.Next, revision: start.Revision}
	}
	return w, nil
}

// localEvents are a cursor into the event log of a kind.
type localEvents struct {
	local    *Local
	kind     *apiserver.Kind
	next     int   // index of the next event
	revision int64 // of the last event that was told, or where the watch began
}

func (e *localEvents) Next(ctx context.Context) (apiserver.Event, error) {
	l := e.local
	for {
		l.mu.Lock()
		log := l.server.Log(e.kind)
		for e.next < len(log) {
			event := log[e.next]
			e.next++
			if event.Revision > e.revision { // a watch can begin in the future
				e.revision = event.Revision
				l.mu.Unlock()
				return event, nil
			}
		}
		if err := ctx.Err(); err != nil {
			l.mu.Unlock()
			return apiserver.Event{}, err
		}
		changed := l.onChange()
		l.mu.Unlock()
		l.pause(ctx, changed)
	}
}

func (e *localEvents) Revision() int64 {
	e.local.mu.Lock()
	defer e.local.mu.Unlock()
	if e.next < len(e.local.server.Log(e.kind)) {
		return e.revision
	}
	return max(e.revision, e.local.server.Revision())
}

func (e *localEvents) Stop() {}
