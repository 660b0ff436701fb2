package sim

import (
	"bytes"
	"encoding/json"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// visit is one request to the server.
type visit struct {
	thread  *thread
	event   schedule.Event // its name, as announced
	request *apiserver.Request
	state   *eventState
	poll    bool
	carried int64
	locked  bool
	sight   int64

	response *apiserver.Response // the server's; nil if the request did not reach it
	record   int                 // -1 before there is one
	again    bool                // client-go makes the request again
}

// announce names a request that a thread is about to make; the event is without its occurrence.
func (e *engine) announce(t *thread, event schedule.Event, r *apiserver.Request) visit {
	state, sight := e.stateOf(event), e.sight(r)
	poll := state.mayRepeat(t) && state.sight == sight
	event.Occurrence = state.count
	if !poll {
		event.Occurrence++
	}
	return visit{thread: t, event: event, request: r, state: state, poll: poll,
		carried: carriedRevision(r), locked: r.Lock() != "", sight: sight, record: -1}
}

// serve has the server carry a request out. A commit is recorded at once: what others do because of it comes later.
func (e *engine) serve(v *visit) {
	e.monitor.Before(e.clock, v.event)
	v.response = e.server.Do(v.request)
	if v.response.Committed != 0 {
		v.thread.commits++
		e.committed(v.request.Kind)
		e.appendCall(v, answer{response: v.response})
		e.monitor.Committed(e.clock, v.request.Kind.Name())
		if v.thread.story {
			e.disturbed(e.clock)
		}
	}
	e.monitor.After(e.clock, v.event, v.request, v.response)
}

// close records a request with what the actor saw of its answer, and with the faults that struck.
func (e *engine) close(v *visit, a answer, d *Door) {
	e.history.Requests++
	if v.response == nil && a.response != nil { // a reactor answered in place of the server
		e.monitor.Before(e.clock, v.event)
		e.monitor.After(e.clock, v.event, v.request, a.response)
	}
	state := v.state
	switch code := a.code(); {
	case v.record >= 0:
		e.amend(v.record, a)
	case v.poll && code == state.code && !v.again:
		e.repeat(state, &v.event, code)
		v.record = state.record
	default:
		e.appendCall(v, a)
	}
	e.history.Records[v.record].Retry = v.again
	if v.response != nil && v.response.Denied != nil {
		e.denied(v)
	}
	state.code, state.burst, state.commits, state.sight = a.code(), v.thread.burst, v.thread.commits, v.sight
	state.spoilt = v.again
	if d != nil {
		state.spoilt = state.spoilt || len(d.struck) > 0
		for _, a := range d.struck {
			e.struck(a, v.record)
		}
	}
}

// amend corrects a record, made when its request was committed, to what the actor saw of it.
func (e *engine) amend(record int, a answer) {
	r := &e.history.Records[record]
	before := *r
	a.write(r)
	if r.Code != before.Code || r.Reason != before.Reason {
		e.hash.Int(int64(r.Code))
		e.hash.String(r.Reason)
	}
}

func (e *engine) appendCall(v *visit, a answer) {
	v.state.count++
	record := history.Record{Event: v.event, Cause: -1, ReadsFrom: -1, Carried: v.carried, Locked: v.locked}
	record.Event.Occurrence = v.state.count // of a poll that is answered in another way it is the next
	if v.response != nil {
		record.Before, record.Committed = v.response.Before, v.response.Committed
		record.Webhooks = v.response.Webhooks
	}
	if a.err == nil {
		record.After, record.Revision = a.response.Object, a.response.Revision
	}
	if v.event.Subresource == "scale" && record.Committed != 0 {
		// The answer is the Scale, which says nothing about the rest of the object.
		record.After = e.server.Get(v.request.Kind, v.event.Namespace, v.event.Name)
	}
	a.write(&record)
	if v.carried != 0 {
		record.ReadsFrom = e.readsFrom(v.event, v.request.Kind, v.carried)
	}
	e.append(v.thread, record)
	v.record, v.state.record = e.last, e.last
}

// readsFrom finds the answer that gave an actor the revision its write carries: the latest one that did. None can have come
// before the commit that made the revision.
func (e *engine) readsFrom(event schedule.Event, kind *apiserver.Kind, carried int64) int {
	for i := len(e.history.Records) - 1; i >= e.commits[carried]; i-- {
		r := &e.history.Records[i]
		if r.Event.Actor != event.Actor || r.Event.Incarnation != event.Incarnation || r.Event.Kind != event.Kind {
			continue
		}
		switch r.Event.Verb {
		case schedule.List, schedule.CachedList:
			if e.listed(r, event, kind, carried) {
				return i
			}
		case schedule.Deliver, schedule.Handle:
		default:
			if r.After != nil && r.After.GetName() == event.Name && r.After.GetNamespace() == event.Namespace &&
				revision(r.After) == carried {
				return i
			}
		}
	}
	return -1
}

// listed reports whether a list showed the object at the revision: it was the object's latest when the list was made.
func (e *engine) listed(list *history.Record, event schedule.Event, kind *apiserver.Kind, carried int64) bool {
	if carried > list.Revision || list.Event.Namespace != "" && list.Event.Namespace != event.Namespace {
		return false
	}
	log := e.server.Log(kind)
	for i := len(log) - 1; i >= 0 && log[i].Revision > carried; i-- {
		changed := log[i].Object
		if log[i].Revision <= list.Revision && changed.GetName() == event.Name && changed.GetNamespace() == event.Namespace {
			return false
		}
	}
	return true
}

// carriedRevision returns the revision that a write carries as its optimistic lock.
func carriedRevision(r *apiserver.Request) int64 {
	switch {
	case r.Verb == schedule.Update && r.Object != nil:
		return revision(r.Object)
	case r.Verb == schedule.Patch && bytes.Contains(r.PatchData, []byte("resourceVersion")):
		return patchedRevision(r)
	default:
		return 0
	}
}

// patchedRevision returns the revision in the body of a patch, which the server then insists on: zero if there is none.
func patchedRevision(r *apiserver.Request) int64 {
	var body struct {
		Metadata struct{ ResourceVersion string }
	}
	if r.PatchType == types.JSONPatchType || json.Unmarshal(r.PatchData, &body) != nil {
		return 0
	}
	n, err := strconv.ParseInt(body.Metadata.ResourceVersion, 10, 64)
	if err != nil {
		return 0
	}
	return n
}
