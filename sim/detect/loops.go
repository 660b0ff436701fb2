package detect

import (
	"fmt"
	"slices"
	"time"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// endlessCommits is how often an operator must have committed to one object, for a run that reaches a limit while it still does to
// be one of writes without end.
const endlessCommits = 100

// findLivelock finds a run that never comes to rest: the cluster comes back to the same states again and again, or the operator
// writes to an object without end.
func findLivelock(r *Run) (*Found, int) {
	h := r.History
	if h.Outcome != history.Livelock && h.Outcome != history.Inconclusive {
		return nil, 1
	}
	half := h.End / 2
	counts := map[schedule.Event]int{}
	var busiest schedule.Event
	late := 0
	for i := range h.Records {
		record := &h.Records[i]
		if record.Committed == 0 || !record.OfProcess() {
			continue
		}
		base := record.Event.Base()
		counts[base]++
		if counts[base] > counts[busiest] {
			busiest, late = base, 0
		}
		if base == busiest && record.At >= half {
			late++
		}
	}
	if h.Outcome == history.Inconclusive && (counts[busiest] < endlessCommits || late < endlessCommits/4) {
		return nil, 1
	}
	found := &Found{At: h.End, Note: "the run did not come to rest: " + h.Reason}
	if n := counts[busiest]; n > 0 {
		found.Values = []property.Value{about("write", busiest)}
		found.Note += fmt.Sprintf("; %s was committed %d times", busiest, n)
	}
	return found, 1
}

// A hot loop is a key that is reconciled so often in so short a time, while nobody else changes anything.
const (
	hotPasses = 50
	hotWindow = 5 * time.Second
)

// findHotLoop finds a key that is reconciled again and again without a pause and without a reason: nobody else has changed
// anything, and what the passes themselves change are few objects.
func findHotLoop(r *Run) (*Found, int) {
	h := r.History
	passes := map[int][]int{} // by thread, the records that began a pass since somebody else changed something
	exercised := 0
	for i := range h.Records {
		record := &h.Records[i]
		switch {
		case record.Committed != 0 && !record.OfProcess():
			clear(passes)
		case record.Event.Verb == schedule.Dequeue && record.OfProcess():
			exercised++
			begun := append(passes[record.Thread], i)
			for record.At-h.Records[begun[0]].At > hotWindow {
				begun = begun[1:]
			}
			passes[record.Thread] = begun
			if len(begun) >= hotPasses && r.changedSince(begun[0], i)*5 < len(begun) {
				return &Found{At: record.At, Values: []property.Value{{Path: "actor", Value: record.Event.Actor}, {Path: "key",
					Value: record.Event.Key}}, Note: fmt.Sprintf("%d passes within %s", len(begun), record.At-h.Records[begun[0]].At)}, exercised
			}
		}
	}
	return nil, exercised
}

// changedSince counts the objects that operators committed to between two records.
func (r *Run) changedSince(from, to int) int {
	objects := map[string]bool{}
	for i := from; i <= to; i++ {
		if record := &r.History.Records[i]; record.Committed != 0 {
			objects[objectOf(record)] = true
		}
	}
	return len(objects)
}

// churnWrites is how many writes that come to nothing new are churn.
const churnWrites = 10

// findWriteChurn finds an operator that keeps writing to an object at rest: since anybody else changed it, it has brought the
// object back again and again to what it already was, or sent whole updates that changed nothing. Applies that change nothing are
// how many operators are meant to work, and do not count.
func findWriteChurn(r *Run) (*Found, int) {
	h := r.History
	type state struct {
		seen map[uint64]bool
		vain map[string]int // by actor
	}
	objects := map[string]*state{}
	exercised := 0
	for i := range h.Records {
		record := &h.Records[i]
		if !record.Event.Verb.IsWrite() {
			continue
		}
		name := objectOf(record)
		if record.Committed != 0 && !record.OfProcess() {
			delete(objects, name)
			continue
		}
		if !record.OfProcess() || record.Code < 200 || record.Code > 299 || record.After == nil {
			continue
		}
		exercised++
		at := objects[name]
		if at == nil {
			at = &state{seen: map[uint64]bool{}, vain: map[string]int{}}
			objects[name] = at
			if record.Before != nil {
				at.seen[content(record.Before)] = true
			}
		}
		switch hash := content(record.After); {
		case record.Committed == 0 && (record.Event.Verb != schedule.Update || record.Event.Subresource != ""):
			continue
		case record.Committed != 0 && !at.seen[hash]:
			at.seen[hash] = true
			continue
		}
		at.vain[record.Event.Actor] += 1 + record.Repeats
		if n := at.vain[record.Event.Actor]; n >= churnWrites {
			return &Found{At: max(record.At, record.LastAt), Values: []property.Value{about("write", record.Event.Base())},
				Note: fmt.Sprintf("%d writes that came to nothing new, while nobody else wrote to it", n)}, exercised
		}
	}
	return nil, exercised
}

// about names an event, without its occurrence.
func about(path string, event schedule.Event) property.Value {
	event.Incarnation = 0
	return property.Value{Path: path, Value: event.String()}
}

// objectOf names the object of a write: "StatefulSet default/web".
func objectOf(r *history.Record) string {
	event := r.Event
	event.Subresource = ""
	if event.Name == "" && r.After != nil {
		event.Name = r.After.GetName()
	}
	return event.Object()
}

// sortedNames returns names, sorted and without repeats.
func sortedNames(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
