package schedule

import (
	"cmp"
	"strings"
)

// Verb says what an event does. The verbs of the Kubernetes API come first; the others are steps of the simulated
// machinery around it.
type Verb string

// The verbs of an event.
const (
	Get              Verb = "Get"
	List             Verb = "List"
	Watch            Verb = "Watch"
	Create           Verb = "Create"
	Update           Verb = "Update"
	Patch            Verb = "Patch"
	Delete           Verb = "Delete"
	DeleteCollection Verb = "DeleteCollection"

	CachedGet  Verb = "CachedGet"  // a Get answered by an informer's cache
	CachedList Verb = "CachedList" // a List answered by an informer's cache
	Start      Verb = "Start"      // a process starts
	Sync       Verb = "Sync"       // an informer delivers its initial list
	Deliver    Verb = "Deliver"    // an informer's cursor moves by one event
	Handle     Verb = "Handle"     // the event handlers of a delivered event run
	Dequeue    Verb = "Dequeue"    // a work queue hands a key to a worker
	Timer      Verb = "Timer"      // an engine timer fires
	Wake       Verb = "Wake"       // a call whose context ended is released
	Await      Verb = "Await"      // a read goes on that waited until an informer had the process's own writes
	Advance    Verb = "Advance"    // the clock moves on
)

// IsWrite reports whether the verb can change the store.
func (v Verb) IsWrite() bool {
	switch v {
	case Create, Update, Patch, Delete, DeleteCollection:
		return true
	default:
		return false
	}
}

// IsRead reports whether the verb only reads, from the server or from a cache.
func (v Verb) IsRead() bool {
	switch v {
	case Get, List, CachedGet, CachedList:
		return true
	default:
		return false
	}
}

// verbs are all there are.
var verbs = []Verb{Get, List, Watch, Create, Update, Patch, Delete, DeleteCollection, CachedGet, CachedList, Start, Sync, Deliver,
	Handle, Dequeue, Timer, Wake, Await, Advance}

// hasObject reports whether events of this verb are about an object or a kind. Others have at most a name, like timers.
func (v Verb) hasObject() bool {
	switch v {
	case Start, Dequeue, Timer, Wake, Advance:
		return false
	default:
		return true
	}
}

// IsRequest reports whether the verb is a request to the API server.
func (v Verb) IsRequest() bool { return v == Get || v == List || v == Watch || v.IsWrite() }

// Event names one event of a run. Names are stable under edits of the operator and under reorderings of other actors:
// they hold no global index, no goroutine, no revision, UID or random suffix.
//
// Occurrence counts events that are equal in all other fields, from 1. A run of reads that returned the same revision
// is one event (a poll), so how often an operator polls does not shift the names of what comes later.
type Event struct {
	Actor       string // the process or racer, as the scenario names it
	Incarnation int    // which start of that process, from 1; zero for a racer
	Controller  string // the controller within the process, or the queue of a racer; empty where there is only one
	Key         string // the reconcile key, "namespace/name"; empty outside a reconcile
	Verb        Verb
	Kind        string // "StatefulSet"; group-qualified ("Widget.example.com") only where two groups share the name
	Namespace   string
	Name        string // generated names appear as roles
	Subresource string
	// Return is set for the way back of a request's response, where a schedule takes that apart from the commit.
	Return     bool
	Occurrence int
}

// Object returns the name of the object that the event touches: "StatefulSet default/web", with the subresource where
// there is one.
func (e Event) Object() string {
	var b strings.Builder
	b.WriteString(e.Kind)
	if e.Subresource != "" {
		b.WriteString("/" + e.Subresource)
	}
	if e.Name != "" {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		if e.Namespace != "" {
			b.WriteString(e.Namespace + "/")
		}
		b.WriteString(e.Name)
	}
	return b.String()
}

// String returns the event on one line: "operator Update StatefulSet default/web #2". [ParseEvent] reads it.
//
// The way back of a response is "operator return of Update StatefulSet default/web #2", a list in one namespace
// "operator List Pod default/". What would be taken for something else, like a slash in the name of an actor, is escaped as
// in a URL: "%2F".
func (e Event) String() string {
	return e.text(escape(e.Actor, " /([", 0), escape(string(e.Verb), " ", 0), e.objectText())
}

// Base returns the event without its occurrence: what it has in common with those that are counted together.
func (e Event) Base() Event {
	e.Occurrence = 0
	return e
}

// AsWritten returns the event as [ParseEvent] reads it from its text, which leaves out the first start of a process.
func (e Event) AsWritten() Event {
	if e.Incarnation == 1 {
		e.Incarnation = 0
	}
	return e
}

// Compare orders events by their fields.
func Compare(a, b Event) int {
	return cmp.Or(
		strings.Compare(a.Actor, b.Actor), cmp.Compare(a.Incarnation, b.Incarnation),
		strings.Compare(a.Controller, b.Controller), strings.Compare(a.Key, b.Key),
		strings.Compare(string(a.Verb), string(b.Verb)), strings.Compare(a.Kind, b.Kind),
		strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name),
		strings.Compare(a.Subresource, b.Subresource), compareBools(a.Return, b.Return), cmp.Compare(a.Occurrence, b.Occurrence))
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}
