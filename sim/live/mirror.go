package live

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
	"github.com/stalemate-dev/stalemate/sim/property"
)

// mirror follows the objects of the real server by watches of its own, so that properties, racers and the gate may look at them. A
// kind is followed from when somebody first asks for it.
type mirror struct {
	ctx       context.Context
	server    *server
	kinds     *apiserver.Kinds
	committed func(kind string) // is told of every change, in their order for each kind

	mu      sync.Mutex
	changed chan struct{}
	tables  map[*apiserver.Kind]*table
	latest  int64
}

// table is what is known of one kind.
type table struct {
	following sync.Once
	objects   map[types.NamespacedName]apiserver.Object
	log       []apiserver.Event
	revision  int64 // of the list or the latest event
}

var (
	_ cache.Source    = source{}
	_ property.Reader = (*mirror)(nil)
)

func newMirror(ctx context.Context, server *server, kinds *apiserver.Kinds, committed func(string)) *mirror {
	return &mirror{ctx: ctx, server: server, kinds: kinds, committed: committed, changed: make(chan struct{}),
		tables: map[*apiserver.Kind]*table{}}
}

// of returns the table of a kind, which is filled when it returns.
func (m *mirror) of(kind *apiserver.Kind) *table {
	m.mu.Lock()
	t := m.tables[kind]
	if t == nil {
		t = &table{objects: map[types.NamespacedName]apiserver.Object{}}
		m.tables[kind] = t
	}
	m.mu.Unlock()
	t.following.Do(func() {
		if m.list(kind, t, false) == nil {
			go m.run(kind, t)
		}
	})
	return t
}

// run watches until the run is over, and lists anew where a watch cannot go on.
func (m *mirror) run(kind *apiserver.Kind, t *table) {
	for m.ctx.Err() == nil {
		if err := m.watch(kind, t); err != nil && m.ctx.Err() == nil {
			_ = m.list(kind, t, true) // if that fails, so will the watch, and it is tried again
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// list brings the table up to the present state. What has changed is in the log of the kind only if it is said to be.
func (m *mirror) list(kind *apiserver.Kind, t *table, log bool) error {
	var list struct {
		Metadata struct{ ResourceVersion string }
		Items    []json.RawMessage
	}
	answer, err := m.server.send(m.ctx, http.MethodGet, pathOf(kind, "", "", ""), nil, nil)
	if err != nil {
		return err
	}
	if answer.code != http.StatusOK {
		return fmt.Errorf("%s: %d", kind, answer.code)
	}
	if err := json.Unmarshal(answer.body, &list); err != nil {
		return err
	}
	listed := map[types.NamespacedName]apiserver.Object{}
	for _, item := range list.Items {
		obj, err := decodeItem(kind, item)
		if err != nil {
			return err
		}
		listed[keyOf(obj)] = obj
	}
	m.mu.Lock()
	var events []apiserver.Event
	if log {
		events = differences(t.objects, listed)
	}
	t.objects, t.revision = listed, number(list.Metadata.ResourceVersion)
	t.log = append(t.log, events...)
	m.latest = max(m.latest, t.revision)
	m.wake()
	m.mu.Unlock()
	if len(events) > 0 {
		m.committed(kind.Name())
	}
	return nil
}

// differences returns the events that lead from one state to another, in the order of their revisions.
func differences(old, now map[types.NamespacedName]apiserver.Object) []apiserver.Event {
	var events []apiserver.Event
	for key, obj := range now {
		switch before := old[key]; {
		case before == nil:
			events = append(events, apiserver.Event{Type: apiserver.Added, Object: obj, Revision: revisionOf(obj)})
		case before.GetResourceVersion() != obj.GetResourceVersion():
			events = append(events, apiserver.Event{Type: apiserver.Modified, Object: obj, Prev: before, Revision: revisionOf(obj)})
		}
	}
	for key, obj := range old {
		if now[key] == nil {
			events = append(events, apiserver.Event{Type: apiserver.Deleted, Object: obj, Prev: obj, Revision: revisionOf(obj)})
		}
	}
	slices.SortFunc(events, func(a, b apiserver.Event) int { return cmp.Compare(a.Revision, b.Revision) })
	return events
}

// decodeItem reads an item of a list, which does not say what it is if it is a built-in.
func decodeItem(kind *apiserver.Kind, item []byte) (apiserver.Object, error) {
	obj, err := kind.Decode(item)
	if err != nil {
		return nil, fmt.Errorf("what the server says of a %s: %w", kind, err)
	}
	return obj, nil
}

func (m *mirror) watch(kind *apiserver.Kind, t *table) error {
	m.mu.Lock()
	query := url.Values{"watch": {"true"}, "resourceVersion": {strconv.FormatInt(t.revision, 10)}, "allowWatchBookmarks": {"true"}}
	m.mu.Unlock()
	body, err := m.server.stream(m.ctx, pathOf(kind, "", "", ""), query)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	decoder := json.NewDecoder(body)
	for {
		var event struct {
			Type   string
			Object json.RawMessage
		}
		if err := decoder.Decode(&event); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if event.Type == "ERROR" {
			return fmt.Errorf("watch of %s: %s", kind, bytes.TrimSpace(event.Object))
		}
		obj, err := kind.Decode(event.Object)
		if err != nil {
			return err
		}
		m.apply(kind, t, event.Type, obj)
	}
}

// apply adds an event to the table.
func (m *mirror) apply(kind *apiserver.Kind, t *table, what string, obj apiserver.Object) {
	m.mu.Lock()
	key, revision := keyOf(obj), revisionOf(obj)
	event := apiserver.Event{Revision: revision, Object: obj, Prev: t.objects[key]}
	switch what {
	case "ADDED":
		event.Type = apiserver.Added
		t.objects[key] = obj
	case "MODIFIED":
		event.Type = apiserver.Modified
		t.objects[key] = obj
	case "DELETED":
		event.Type = apiserver.Deleted
		delete(t.objects, key)
	}
	t.revision = max(t.revision, revision)
	m.latest = max(m.latest, revision)
	if event.Type != 0 {
		t.log = append(t.log, event)
	}
	m.wake()
	m.mu.Unlock()
	if event.Type != 0 {
		m.committed(kind.Name())
	}
}

func (m *mirror) wake() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// changes returns a channel that is closed when something changes.
func (m *mirror) changes() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.changed
}

// await waits until the mirror has what a request has brought about, for at most a while: not every answer says what that is.
func (m *mirror) await(kind *apiserver.Kind, limit time.Duration, there func(get func(namespace, name string) apiserver.Object,
	revision int64) bool,
) {
	t := m.of(kind)
	timer := time.NewTimer(limit)
	defer timer.Stop()
	get := func(namespace, name string) apiserver.Object {
		if obj, ok := t.objects[types.NamespacedName{Namespace: namespace, Name: name}]; ok {
			return obj
		}
		return nil
	}
	for {
		m.mu.Lock()
		ok, changed := there(get, t.revision), m.changed
		m.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-timer.C:
			return
		case <-m.ctx.Done():
			return
		}
	}
}

// get returns an object as the mirror has it, nil if there is none.
func (m *mirror) get(kind *apiserver.Kind, namespace, name string) apiserver.Object {
	t := m.of(kind)
	m.mu.Lock()
	defer m.mu.Unlock()
	if obj, ok := t.objects[types.NamespacedName{Namespace: namespace, Name: name}]; ok {
		return obj
	}
	return nil
}

// newest returns the revision of the latest event of a kind, zero if there was none.
func (m *mirror) newest(kind *apiserver.Kind) int64 {
	t := m.of(kind)
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(t.log) == 0 {
		return 0
	}
	return t.log[len(t.log)-1].Revision
}

// Log implements [cache.Source].
func (m *mirror) Log(kind *apiserver.Kind) []apiserver.Event {
	t := m.of(kind)
	m.mu.Lock()
	defer m.mu.Unlock()
	return t.log
}

// Revision implements [cache.Source].
func (m *mirror) Revision() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.latest
}

// snapshot returns the objects of a namespace in the order of their keys.
func (m *mirror) snapshot(kind *apiserver.Kind, namespace string) []apiserver.Object {
	t := m.of(kind)
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []apiserver.Object
	for key, obj := range t.objects {
		if namespace == "" || namespace == key.Namespace {
			all = append(all, obj)
		}
	}
	slices.SortFunc(all, func(a, b apiserver.Object) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return all
}

// source lets racers' views follow the mirror.
type source struct{ *mirror }

// List implements [cache.Source].
func (s source) List(kind *apiserver.Kind, namespace string) []apiserver.Object {
	return s.snapshot(kind, namespace)
}

// Get implements [property.Reader].
func (m *mirror) Get(kind, namespace, name string) apiserver.Object {
	if k := m.kinds.ByName(kind); k != nil {
		return m.get(k, namespace, name)
	}
	return nil
}

// List implements [property.Reader].
func (m *mirror) List(kind, namespace string, selector labels.Selector) []apiserver.Object {
	k := m.kinds.ByName(kind)
	if k == nil {
		return nil
	}
	var chosen []apiserver.Object
	for _, obj := range m.snapshot(k, namespace) {
		if k.Matches(obj, selector, nil) {
			chosen = append(chosen, obj)
		}
	}
	return chosen
}

func keyOf(obj apiserver.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

func revisionOf(obj apiserver.Object) int64 {
	if obj == nil {
		return 0
	}
	return number(obj.GetResourceVersion())
}

// number returns a revision as a number, zero if it is none.
func number(revision string) int64 {
	n, err := strconv.ParseInt(revision, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
