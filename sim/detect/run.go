package detect

import (
	"slices"
	"strings"
	"time"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/canon"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Run is what a detector judges: a run that has ended. It serves one judgement.
type Run struct {
	History *history.History
	// Settled is how the state came about from which the run started; nil if it started from objects as they were written.
	Settled *history.History
	// Server is the API server as the run left it.
	Server *apiserver.Server
	// Story are the actors that tell the scenario's story, like a user: what they do may be a reason for anything.
	Story map[string]bool
	// Baseline is where runs without faults come to; nil if that is not known.
	Baseline *Baseline
	// Masks are those of the scenario.
	Masks *Masks

	state    *State
	threads  map[int][]int // by thread, the indexes of its records
	contents map[apiserver.Object]uint64
	volatile map[string]bool
	counts   map[object]int // see writes
	most     int
}

// Found is what a detector found.
type Found struct {
	// At is the virtual time at which it was decided.
	At time.Duration
	// Values say what was found, in the form of the values that a rule reads: "object" and "StatefulSet default/web". They are
	// the same wherever the finding is the same: no counts, times or revisions.
	Values []property.Value
	// Note says more, that may differ from run to run: how often, how fast.
	Note string
}

// terminal reports whether the run came to rest.
func (r *Run) terminal() bool { return r.History.Outcome == history.Terminal }

// ended returns the state that the run left.
func (r *Run) ended() *State {
	if r.state == nil {
		r.state = r.Masks.StateOf(r.Server)
	}
	return r.state
}

// content returns the hash of what an object says, without what counts its changes.
func (r *Run) content(obj apiserver.Object) uint64 {
	hash, known := r.contents[obj]
	if !known {
		if r.contents == nil {
			r.contents = map[apiserver.Object]uint64{}
		}
		bare := obj.DeepCopyObject().(apiserver.Object)
		bare.SetGeneration(0)
		hash = canon.Hash(bare)
		r.contents[obj] = hash
	}
	return hash
}

// beats reports whether a kind is one whose writes say nothing about progress.
func (r *Run) beats(kind string) bool {
	if r.volatile == nil {
		r.volatile = map[string]bool{}
		for _, k := range r.Server.Kinds().All() {
			if k.Volatile {
				r.volatile[k.Name()] = true
			}
		}
	}
	return r.volatile[kind]
}

// disturbs reports whether a step of somebody else than an operator changed anything but a heartbeat.
func (r *Run) disturbs(record *history.Record) bool {
	return record.Committed != 0 && !record.OfProcess() && !r.beats(record.Event.Kind)
}

// at returns an object as it was after a revision; nil if there was none.
func (r *Run) at(kind *apiserver.Kind, namespace, name string, revision int64) apiserver.Object {
	log := r.Server.Log(kind)
	end, _ := slices.BinarySearchFunc(log, revision+1, func(e apiserver.Event, at int64) int { return int(e.Revision - at) })
	for i := end - 1; i >= 0; i-- {
		if obj := log[i].Object; obj.GetName() == name && obj.GetNamespace() == namespace {
			if log[i].Type == apiserver.Deleted {
				return nil
			}
			return obj
		}
	}
	return nil
}

// thread returns the indexes of the records of a thread, in their order.
func (r *Run) thread(number int) []int {
	if r.threads == nil {
		r.threads = map[int][]int{}
		for i := range r.History.Records {
			t := r.History.Records[i].Thread
			r.threads[t] = append(r.threads[t], i)
		}
	}
	return r.threads[number]
}

// pass returns the steps of the pass that a record belongs to, up to that record, the latest first. A poll that found what an
// earlier pass had found has no record of its own in this one: the one it repeats stands for it. That is exact where the record
// is of a commit, for what comes after a commit is no repetition.
func (r *Run) pass(i int) []int {
	records := r.History.Records
	last := &records[i]
	before := r.thread(last.Thread)
	end, _ := slices.BinarySearch(before, i)
	begin := records[r.begin(i)].At
	var steps []int
	for _, j := range before[:end] {
		if records[j].Attempt == last.Attempt || records[j].Repeats > 0 && records[j].LastAt >= begin {
			steps = append(steps, j)
		}
	}
	slices.SortStableFunc(steps, func(a, b int) int { return int(latest(&records[b]) - latest(&records[a])) })
	return steps
}

// begin returns the index of the first record of the pass that a record belongs to.
func (r *Run) begin(i int) int {
	records := r.History.Records
	for _, j := range r.thread(records[i].Thread) {
		if records[j].Attempt == records[i].Attempt {
			return j
		}
	}
	return i
}

// latest returns when a step took place last.
func latest(r *history.Record) time.Duration { return max(r.At, r.LastAt) }

// object is the object of a step.
type object struct{ kind, namespace, name string }

func objectOf(r *history.Record) object {
	name := r.Event.Name
	if name == "" && r.After != nil {
		name = r.After.GetName()
	}
	return object{r.Event.Kind, r.Event.Namespace, name}
}

// String returns the object's name as events have it: "StatefulSet default/web".
func (o object) String() string {
	return schedule.Event{Kind: o.kind, Namespace: o.namespace, Name: o.name}.Object()
}

// key returns the key under which the object is reconciled.
func (o object) key() string {
	if o.namespace == "" {
		return o.name
	}
	return o.namespace + "/" + o.name
}

// keyOf returns the key under which an object is reconciled.
func keyOf(obj apiserver.Object) string { return object{"", obj.GetNamespace(), obj.GetName()}.key() }

// about names an event, whichever of its kind it is and whichever start of the process made it.
func about(path string, event schedule.Event) property.Value {
	event.Incarnation, event.Occurrence = 0, 0
	return property.Value{Path: path, Value: event.String()}
}

// writer names who makes a request: of several controllers in one process, which.
func writer(event *schedule.Event) string {
	return strings.TrimSuffix(event.Actor+"/"+event.Controller, "/")
}

// creates reports whether a step of an operator made an object.
func creates(r *history.Record) bool {
	return r.OfProcess() && r.Committed != 0 && r.Before == nil && r.After != nil && r.Event.Subresource == "" &&
		(r.Event.Verb == schedule.Create || r.Event.Verb == schedule.Patch || r.Event.Verb == schedule.Update)
}

// deletes reports whether a step of an operator deleted an object, or marked it.
func deletes(r *history.Record) bool {
	return r.OfProcess() && r.Committed != 0 && r.Event.Verb == schedule.Delete && r.Before != nil &&
		r.Before.GetDeletionTimestamp() == nil
}
