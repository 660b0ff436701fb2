package detect

import (
	"fmt"
	"time"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// How often an operator must have committed for a run that does not come to rest to be its fault.
const (
	// returningCommits is how often to one object where the cluster comes back to one state again and again.
	returningCommits = 5
	// endlessCommits is how often to one object where a limit was reached, and endlessObjects how often to objects of one kind.
	endlessCommits = 100
	endlessObjects = 1000
)

// findLivelock finds a run that never comes to rest: the cluster comes back to the same states again and again, or the operator
// writes without end; and it still does so in the end.
func findLivelock(r *Run) (*Found, int) {
	h := r.History
	least := endlessCommits
	switch h.Outcome {
	case history.Livelock:
		least = returningCommits
	case history.Inconclusive:
	default:
		return nil, 1
	}
	busiest, commits := r.busiest(func(event schedule.Event) schedule.Event { return event })
	if commits < least {
		busiest, commits = r.busiest(func(event schedule.Event) schedule.Event {
			event.Name = ""
			return event
		})
		least = max(least, endlessObjects)
	}
	if commits < least {
		return nil, 1
	}
	return &Found{At: h.End, Values: []property.Value{about("write", busiest)},
		Note: fmt.Sprintf("the run did not come to rest: %s; %s was committed %d times", h.Reason, busiest, commits)}, 1
}

// busiest returns what operators committed most often, of events as they are named, and how often; of several the first. It is
// nothing if they had stopped by then: less than a quarter of that was in the second half of the run.
func (r *Run) busiest(named func(schedule.Event) schedule.Event) (event schedule.Event, commits int) {
	h := r.History
	counts, late := map[schedule.Event]int{}, map[schedule.Event]int{}
	for i := range h.Records {
		record := &h.Records[i]
		if record.Committed == 0 || !record.OfProcess() || r.beats(record.Event.Kind) {
			continue
		}
		name := named(record.Event.Base())
		counts[name]++
		if record.At >= h.End/2 {
			late[name]++
		}
		if counts[name] > commits {
			event, commits = name, counts[name]
		}
	}
	if late[event]*4 < commits {
		return schedule.Event{}, 0
	}
	return event, commits
}

// A hot loop is a key that is reconciled so often in so short a time, while nobody else changes anything. The default rate limiter
// of a queue allows ten passes in that time to one that fails or asks to come back.
const (
	hotPasses = 50
	hotWindow = 5 * time.Second
	// hotProgress is that passes are no hot loop if one in so many brings something new about.
	hotProgress = 5
)

// findHotLoop finds a key that is reconciled again and again without a pause and without a reason: nobody else changes anything,
// and the passes themselves bring nothing new about.
func findHotLoop(r *Run) (*Found, int) {
	h := r.History
	passes := map[int][]int{} // by thread, the records that began a pass since somebody else changed something
	exercised := 0
	for i := range h.Records {
		record := &h.Records[i]
		if record.Event.Verb != schedule.Dequeue {
			if r.disturbs(record) {
				clear(passes)
			}
			continue
		}
		if !record.OfProcess() {
			continue
		}
		exercised++
		begun := append(passes[record.Thread], i)
		for record.At-h.Records[begun[0]].At > hotWindow {
			begun = begun[1:]
		}
		passes[record.Thread] = begun
		if len(begun) >= hotPasses && r.progress(begun[0], i)*hotProgress < len(begun) {
			return &Found{At: record.At,
				Values: []property.Value{{Path: "actor", Value: writer(&record.Event)}, {Path: "key", Value: record.Event.Key}},
				Note:   fmt.Sprintf("%d passes within %s", len(begun), record.At-h.Records[begun[0]].At)}, exercised
		}
	}
	return nil, exercised
}

// progress counts what operators brought about between two records: objects that were not there before as they are.
func (r *Run) progress(from, to int) int {
	type version struct {
		object
		content uint64
	}
	seen := map[version]bool{}
	n := 0
	for i := from; i <= to; i++ {
		record := &r.History.Records[i]
		if record.Committed == 0 || record.After == nil || r.beats(record.Event.Kind) {
			continue
		}
		if made := (version{objectOf(record), r.content(record.After)}); !seen[made] {
			seen[made] = true
			n++
		}
	}
	return n
}

// churnWrites is how many writes that come to nothing new are churn.
const churnWrites = 10

// findWriteChurn finds an operator that keeps writing to an object at rest: while nobody else changes anything, it brings the
// object back again and again to what it already was, or sends whole updates that change nothing. Applies and writes of a status
// that change nothing are how many operators are meant to work, and a write that only moves times on is a heartbeat.
func findWriteChurn(r *Run) (*Found, int) {
	h := r.History
	counts, _ := r.writes()
	exercised := 0
	objects := map[object]*churn{}
	for i := range h.Records {
		record := &h.Records[i]
		if r.disturbs(record) {
			clear(objects)
			continue
		}
		if !record.OfProcess() || !record.Event.Verb.IsWrite() {
			continue
		}
		exercised++
		name := objectOf(record)
		if counts[name] < churnWrites || record.Code < 200 || record.Code > 299 || record.After == nil {
			continue
		}
		at := objects[name]
		if at == nil {
			at = &churn{seen: map[uint64]bool{}, vain: map[string]int{}}
			objects[name] = at
		}
		if at.add(r, record) >= churnWrites {
			return &Found{At: latest(record), Values: []property.Value{about("write", record.Event)},
				Note: fmt.Sprintf("%d writes that came to nothing new, while nobody else changed anything",
					at.vain[record.Event.Actor])}, exercised
		}
	}
	return nil, exercised
}

// writes counts the writes of operators, by their objects, and says how many one object had at most.
func (r *Run) writes() (counts map[object]int, most int) {
	if r.counts == nil {
		r.counts = map[object]int{}
		for i := range r.History.Records {
			record := &r.History.Records[i]
			if record.OfProcess() && record.Event.Verb.IsWrite() && !r.beats(record.Event.Kind) {
				r.counts[objectOf(record)] += 1 + record.Repeats
				r.most = max(r.most, r.counts[objectOf(record)])
			}
		}
	}
	return r.counts, r.most
}

// churn is what is known of one object since somebody else changed anything.
type churn struct {
	seen map[uint64]bool // what the object has said
	vain map[string]int  // the writes that came to nothing new, by actor
}

// add adds a write, and returns how many of its actor came to nothing new.
func (c *churn) add(r *Run, record *history.Record) int {
	after := r.content(record.After)
	if record.Before != nil {
		before := r.content(record.Before)
		c.seen[before] = true
		if record.Committed != 0 && before == after {
			return 0
		}
	}
	if record.Committed == 0 && (record.Event.Verb != schedule.Update || record.Event.Subresource != "") {
		return 0
	}
	if !c.seen[after] {
		c.seen[after] = true
		return 0
	}
	c.vain[record.Event.Actor] += 1 + record.Repeats
	return c.vain[record.Event.Actor]
}
