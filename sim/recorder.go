package sim

import (
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
	"github.com/stalemate-dev/stalemate/sim/canon"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// eventState is what the engine knows of the events that share a name but for their occurrence.
type eventState struct {
	count  int
	sight  int64 // what the latest one found, see engine.sight
	code   int
	record int
	// burst and commits of the thread at the latest one, see thread.
	burst, commits int
	// spoilt says that a fault struck at the latest one, or that client-go makes it again: what comes next is no repetition.
	spoilt bool
}

// cacheRead says what a cached read looks at.
type cacheRead struct {
	view *cache.View
	key  types.NamespacedName // the name is empty for a list
}

func (r *cacheRead) revision() int64 {
	if r.key.Name == "" {
		return r.view.Revision()
	}
	if obj := r.view.Get(r.key.Namespace, r.key.Name); obj != nil {
		return revision(obj)
	}
	return 0
}

// revision returns an object's resourceVersion as a number, zero if there is none.
func revision(obj apiserver.Object) int64 {
	n, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// revisionOf returns the revision of what a request would find now: of the object, zero if there is none, or of the
// latest event of the kind for a request that names no object.
func (e *engine) revisionOf(r *apiserver.Request) int64 {
	if r.Name == "" {
		if log := e.server.Log(r.Kind); len(log) > 0 {
			return log[len(log)-1].Revision
		}
		return 0
	}
	if obj := e.server.Get(r.Kind, r.Namespace, r.Name); obj != nil {
		return revision(obj)
	}
	return 0
}

// sight returns what tells a poll from a request that is new: the revision of what it finds now, and for a write also
// what it carries. The same write on the same object is answered in the same way.
func (e *engine) sight(r *apiserver.Request) int64 {
	revision := e.revisionOf(r)
	if !r.Verb.IsWrite() {
		return revision
	}
	var h canon.Hasher
	h.Int(revision)
	h.Int(carriedRevision(r))
	switch {
	case r.Object != nil:
		h.Object(r.Object)
	case r.Verb == schedule.Patch:
		h.String(string(r.PatchData))
	default:
		h.Object(&r.Delete)
	}
	return int64(h.Sum())
}

// occurrence returns the number that the step will have among those of its name. A poll keeps the number of the event
// it repeats.
func (e *engine) occurrence(s stepper) int {
	if c, ok := s.(carrier); ok && c.inFlight().returns > 0 {
		return c.inFlight().returns
	}
	state := e.events[*s.base()]
	switch {
	case state == nil:
		return 1
	case e.repeats(s, state):
		return state.count
	default:
		return state.count + 1
	}
}

// name returns the full name of the event that the step will be.
func (e *engine) name(s stepper) schedule.Event {
	event := *s.base()
	event.Occurrence = e.occurrence(s)
	return event
}

// isPoll reports whether the step repeats an event that took place.
func (e *engine) isPoll(s stepper) bool {
	state := e.events[*s.base()]
	return state != nil && e.repeats(s, state)
}

// repeats reports whether the step is a poll: its thread made the same request before, has slept or begun another pass
// since, committed nothing from then on, and what it looks at is as it was.
func (e *engine) repeats(s stepper, state *eventState) bool {
	if !state.mayRepeat(s.owner()) {
		return false
	}
	sight, ok := s.sight(e)
	return ok && state.sight == sight
}

// mayRepeat reports whether a step of the thread is a poll if what it looks at is as it was.
func (s *eventState) mayRepeat(t *thread) bool {
	return t != nil && s.count > 0 && !s.spoilt && s.burst != t.burst && s.commits == t.commits
}

// note appends a record for a step that is no request.
func (e *engine) note(t *thread, event schedule.Event, cause int) {
	state := e.stateOf(event)
	state.count++
	event.Occurrence = state.count
	e.append(t, history.Record{Event: event, Cause: cause, ReadsFrom: -1})
	state.record = e.last
}

func (e *engine) stateOf(event schedule.Event) *eventState {
	state := e.events[event]
	if state == nil {
		state = &eventState{}
		e.events[event] = state
	}
	return state
}

// append adds a record to the history, and the step to the hash.
func (e *engine) append(t *thread, r history.Record) {
	r.At, r.Thread, r.Attempt = e.clock, t.id, t.attempt
	e.last = len(e.history.Records)
	t.last = e.last
	e.history.Records = append(e.history.Records, r)
	e.hashStep(&r)
	e.happened(&e.history.Records[e.last])
	for _, observer := range e.observers {
		observer.Observe(r.Event)
	}
}

// hashStep folds a step into the running hash: what happened, when, and what the objects were after it. UIDs and
// generated names are roles already (see sim/apiserver), and the canonical hash of an object leaves out revisions and
// times, so equal hashes mean equal histories up to the numbering of revisions.
func (e *engine) hashStep(r *history.Record) {
	h := &e.hash
	event := &r.Event
	h.String(event.Actor)
	h.String(event.Controller)
	h.String(event.Key)
	h.String(string(event.Verb))
	h.String(event.Kind)
	h.String(event.Namespace)
	h.String(event.Name)
	h.String(event.Subresource)
	if event.Return {
		h.String("return")
	}
	h.Int(int64(event.Occurrence))
	h.Int(int64(r.At))
	h.Int(int64(r.Code))
	h.String(r.Reason)
	if r.Committed != 0 {
		h.Int(int64(e.state))
	}
	if event.Incarnation > 1 {
		h.Int(int64(event.Incarnation))
	}
}

// repeat counts a poll that was answered as before.
func (e *engine) repeat(state *eventState, event *schedule.Event, code int) {
	record := &e.history.Records[state.record]
	record.Repeats++
	record.LastAt = e.clock
	e.last = state.record
	e.hash.String(string(event.Verb))
	e.hash.Int(int64(e.clock))
	e.hash.Int(int64(code))
}

// committed is called after each request that changed the store.
func (e *engine) committed(kind *apiserver.Kind) {
	e.lagging = true
	before := e.state
	log := e.server.Log(kind)
	for i := len(log) - 1; i >= 0 && log[i].Revision > e.hashed; i-- {
		e.foldState(&log[i])
		e.commits[log[i].Revision] = len(e.history.Records) // the record that follows
	}
	e.hashed = e.server.Revision()
	// A commit that changes nothing but times is a heartbeat, and no progress.
	if !kind.Volatile && e.state != before {
		e.quiet.commit(e.clock)
		e.states[e.state]++
		e.stateSeen = max(e.stateSeen, e.states[e.state])
	}
}

// foldState keeps the hash of the cluster's canonical state: the exclusive or over the hashes of all objects, so that
// one commit costs one object.
func (e *engine) foldState(event *apiserver.Event) {
	if event.Prev != nil {
		e.state ^= e.contentHash(event.Prev)
	}
	if event.Type != apiserver.Deleted {
		e.state ^= e.contentHash(event.Object)
	}
}

// contentHash returns the canonical hash of a stored object, which is immutable.
func (e *engine) contentHash(obj apiserver.Object) uint64 {
	hash, ok := e.contents[obj]
	if !ok {
		hash = canon.Hash(obj)
		e.contents[obj] = hash
	}
	return hash
}

// readCache carries out a read of an informer's view.
func (e *engine) readCache(o *op, read func(*op)) {
	state := e.stateOf(o.event)
	poll := e.repeats(o, state)
	read(o)
	if poll {
		e.repeat(state, &o.event, 0)
	} else {
		e.note(o.thread, o.event, -1)
		record := &e.history.Records[e.last]
		record.Revision = o.reads.revision()
		if o.reads.key.Name != "" {
			if obj := o.reads.view.Get(o.reads.key.Namespace, o.reads.key.Name); obj != nil {
				record.After = obj
			}
		}
	}
	state.burst, state.commits, state.sight = o.thread.burst, o.thread.commits, o.reads.revision()
}
