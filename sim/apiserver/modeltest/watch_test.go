package modeltest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"
)

// watcher is a watch, and what it still has to tell.
type watcher struct {
	request *request
	began   time.Time
	timeout time.Duration
	marks   bool   // bookmarks are asked for
	failure string // the reason of the one frame of type ERROR that comes; empty for none

	initial []tree // still to be told as additions
	closing int64  // the revision of the bookmark that ends them; zero for none
	told    int64  // no event up to this revision is to come
	next    int    // index of the next event in the log

	cancel context.CancelFunc
	mu     sync.Mutex
	frames []frame
	ended  bool
}

// frame is what a watch tells at once.
type frame struct {
	Type   string
	Object tree
}

// beginWatch begins a watch, if the server lets it.
func (g *game) beginWatch() error {
	m := g.model
	r := &request{client: g.n(len(agents)), verb: "list", kind: choose(g.generator, m.kinds), query: map[string]string{"watch": "1"}}
	if !r.kind.cluster {
		r.namespace = g.pick("default", "n1")
	}
	g.selecting(r)
	setQuery(r, "resourceVersion", g.revision(r.client))
	w := &watcher{request: r, began: time.Now(), timeout: time.Duration(5+g.n(300)) * time.Second, marks: g.chance(2)}
	r.query["timeoutSeconds"] = strconv.Itoa(int(w.timeout / time.Second))
	if w.marks {
		r.query["allowWatchBookmarks"] = "true"
	}
	streamed := g.chance(3)
	if streamed {
		r.query["sendInitialEvents"], r.query["resourceVersionMatch"] = "true", "NotOlderThan"
	}
	code := w.expect(m, streamed)
	response, err := g.open(r, w)
	if err != nil {
		return err
	}
	g.trace = append(g.trace, fmt.Sprintf("%s\n   -> %d", r, response.StatusCode))
	if response.StatusCode != code {
		_ = response.Body.Close()
		return fmt.Errorf("%s: code %d, want %d", r, response.StatusCode, code)
	}
	if code != http.StatusOK {
		return response.Body.Close()
	}
	go w.read(response)
	g.watchers = append(g.watchers, w)
	return nil
}

func (g *game) open(r *request, w *watcher) (*http.Response, error) {
	request, err := r.http()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	return g.subject.RoundTrip(request.WithContext(ctx))
}

// expect works out what a watch has to tell, and returns the code it is answered with.
func (w *watcher) expect(m *model, streamed bool) int {
	r := w.request
	revision, _ := parseRevision(r.query["resourceVersion"])
	initial := streamed || revision == 0
	switch {
	case !r.kind.selectable(r.query["fieldSelector"]):
		return http.StatusBadRequest
	case initial:
		for _, obj := range m.at(r.kind, m.revision) {
			if r.matches(obj) {
				w.initial = append(w.initial, obj)
			}
		}
		revision = m.revision
		if w.marks {
			w.closing = revision
		}
	case revision < m.compacted:
		w.failure = "Expired"
	}
	w.told = revision
	for w.next < len(m.log[r.kind]) && m.log[r.kind][w.next].revision <= revision {
		w.next++
	}
	return http.StatusOK
}

// read takes the frames of a watch from the server.
func (w *watcher) read(response *http.Response) {
	defer func() { _ = response.Body.Close() }()
	decoder := json.NewDecoder(response.Body)
	for {
		var f frame
		err := decoder.Decode(&f)
		w.mu.Lock()
		if err != nil {
			w.ended = true
			w.mu.Unlock()
			return
		}
		w.frames = append(w.frames, f)
		w.mu.Unlock()
	}
}

func (w *watcher) stop() {
	w.cancel()
	w.timeout = 0
}

// check compares the frames that have come with what the model's log says. All that there is to tell must have been told.
func (w *watcher) check(m *model) error {
	w.mu.Lock()
	frames, ended := w.frames, w.ended
	w.frames = nil
	w.mu.Unlock()
	over := time.Since(w.began) >= w.timeout
	for _, f := range frames {
		if err := w.take(m, f); err != nil {
			return fmt.Errorf("%s: %w", w.request, err)
		}
	}
	if over || w.failure == "told" {
		if !ended {
			return fmt.Errorf("%s: does not end", w.request)
		}
		return nil
	}
	if ended {
		return fmt.Errorf("%s: ends after %s", w.request, time.Since(w.began))
	}
	if what, missing, ok := w.expected(m); ok || w.closing > 0 || w.failure != "" {
		return fmt.Errorf("%s: does not tell %s %v", w.request, what, shown(missing))
	}
	return nil
}

// expected returns the next event that the watch has to tell, false if there is none.
func (w *watcher) expected(m *model) (what string, obj tree, ok bool) {
	if len(w.initial) > 0 {
		return "ADDED", w.initial[0], true
	}
	for log := m.log[w.request.kind]; w.next < len(log); w.next++ {
		if what, obj, ok := w.request.transition(log[w.next]); ok {
			return what, obj, true
		}
	}
	return "", nil, false
}

// transition is how a watch with selectors sees an event.
func (r *request) transition(e event) (string, tree, bool) {
	before := e.prev != nil && r.matches(e.prev)
	after := e.what != "DELETED" && r.matches(e.obj)
	switch {
	case before && after:
		return "MODIFIED", e.obj, true
	case after:
		return "ADDED", e.obj, true
	case !before:
		return "", nil, false
	}
	last := clone(e.prev)
	keep(last, e.obj, "metadata", "resourceVersion")
	return "DELETED", last, true
}

// take compares one frame.
func (w *watcher) take(m *model, f frame) error {
	revision, _ := parseRevision(text(f.Object, "metadata", "resourceVersion"))
	switch {
	case w.failure != "":
		if f.Type != "ERROR" || text(f.Object, "reason") != w.failure {
			return fmt.Errorf("tells %s %v, want an ERROR: %s", f.Type, f.Object, w.failure)
		}
		w.failure = "told"
		return nil
	case f.Type == "BOOKMARK":
		return w.takeBookmark(m, revision, text(f.Object, "metadata", "annotations", "k8s.io/initial-events-end") == "true")
	}
	what, obj, ok := w.expected(m)
	if !ok || len(w.initial) == 0 && w.closing > 0 {
		return fmt.Errorf("tells %s %v, which nothing is known of", f.Type, f.Object)
	}
	if f.Type != what || !same(obj, f.Object) {
		return fmt.Errorf("tells %s, want %s (-want +got):\n%s", f.Type, what, cmp.Diff(shown(obj), shown(f.Object)))
	}
	if len(w.initial) > 0 {
		w.initial = w.initial[1:]
	} else {
		w.next++
		w.told = revision
	}
	return nil
}

func (w *watcher) takeBookmark(m *model, revision int64, closing bool) error {
	_, next, pending := w.expected(m)
	due, _ := parseRevision(text(next, "metadata", "resourceVersion"))
	switch {
	case !w.marks:
		return fmt.Errorf("a bookmark that nobody asked for, of %d", revision)
	case closing != (w.closing > 0) || closing && (revision != w.closing || len(w.initial) > 0):
		return fmt.Errorf("a bookmark of %d ends what exists: %t, want one of %d", revision, closing, w.closing)
	case revision < w.told || revision > m.revision || pending && due <= revision:
		return fmt.Errorf("a bookmark of %d, after %d, before %d", revision, w.told, due)
	}
	w.closing, w.told = 0, revision
	return nil
}
