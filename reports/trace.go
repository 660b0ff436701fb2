package reports

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// traceEvent is one event of the Trace Event Format, which Perfetto and chrome://tracing show.
type traceEvent struct {
	Name     string     `json:"name"`
	Category string     `json:"cat,omitempty"`
	Phase    string     `json:"ph"`
	Time     traceTime  `json:"ts"`
	Duration *traceTime `json:"dur,omitempty"`
	Process  int        `json:"pid"`
	Thread   int        `json:"tid"`
	ID       string     `json:"id,omitempty"`
	Bind     string     `json:"bp,omitempty"`
	Scope    string     `json:"s,omitempty"`
	Args     any        `json:"args,omitempty"`
}

// traceTime is a virtual time, or a span of it, written in microseconds.
type traceTime time.Duration

// MarshalJSON writes the time with all its digits: steps may be a nanosecond apart.
func (t traceTime) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(t)/float64(time.Microsecond), 'f', -1, 64), nil
}

// maxDrawn is how long a step is drawn, if its actor takes no other meanwhile. A step takes no virtual time.
const maxDrawn = time.Millisecond

// Trace writes the runs of explorations and replays in the Trace Event Format, for ui.perfetto.dev or chrome://tracing: a process
// for each run, the default order first and then the findings, and in it a thread for each actor. Steps are slices on the thread of
// their actor, drawn up to a millisecond long; log lines, faults and breaks are instants; an arrow leads from the commit of a write
// to each delivery of it to a cache. Passes, and the times for which steps were held back, are async slices. Times are virtual.
func Trace(w io.Writer, documents []Document) error {
	t := tracer{}
	for _, d := range documents {
		r := d.Exploration()
		if r.Default != nil {
			t.run(d.Name()+": default order", r, r.Default)
		}
		for i := range r.Findings {
			if f := &r.Findings[i]; f.Run != r.Default {
				t.run(fmt.Sprintf("%s: finding %d, %s", d.Name(), i+1, brokenNames(f)), r, f.Run)
			}
		}
	}
	return t.write(w)
}

// tracer collects the events of runs.
type tracer struct {
	events  []traceEvent
	process int // the last run, from 1
	flows   int // arrows so far, over all runs
	// threads are those of the actors of the last run, in the order of their numbers, from 1.
	threads []string
}

// write writes the events, each on a line.
func (t *tracer) write(w io.Writer) error {
	text := []byte("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")
	for i, event := range t.events {
		line, err := json.Marshal(event)
		if err != nil {
			return fmt.Errorf("trace cannot be written: %w", err)
		}
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(text, '\n'), line...)
	}
	if _, err := w.Write(append(text, "]}\n"...)); err != nil {
		return fmt.Errorf("trace cannot be written: %w", err)
	}
	return nil
}

// add appends an event to the last run.
func (t *tracer) add(e traceEvent) {
	e.Process = t.process
	t.events = append(t.events, e)
}

// words are the arguments of an event that only names something.
type words struct {
	Name string `json:"name"`
}

// thread returns the number of an actor's thread, which gets its name when it is first asked for.
func (t *tracer) thread(actor string) int {
	if i := slices.Index(t.threads, actor); i >= 0 {
		return i + 1
	}
	t.threads = append(t.threads, actor)
	name := actor
	if name == "" {
		name = "cluster"
	}
	t.add(traceEvent{Name: "thread_name", Phase: "M", Thread: len(t.threads), Args: words{name}})
	return len(t.threads)
}

// run adds the events of a run.
func (t *tracer) run(name string, r *history.Result, h *history.History) {
	t.process++
	t.threads = nil
	t.add(traceEvent{Name: "process_name", Phase: "M", Args: words{name}})
	for _, actor := range underTest(r) {
		t.thread(actor)
	}
	drawn := durations(h)
	for i := range h.Records {
		t.step(h, i, drawn[i])
	}
	t.passes(h)
	for i := range h.Logs {
		l := &h.Logs[i]
		t.instant(l.At, l.Actor, "log", "» "+l.Message, "t", struct {
			Level  int      `json:"level"`
			Logger string   `json:"logger,omitempty"`
			Values []string `json:"values,omitempty"`
		}{l.Level, l.Logger, l.Values})
	}
	for _, v := range h.Broken() {
		t.instant(v.At, "", "verdict", "✗ "+v.Property.Name+" is broken", "p", struct {
			Rule   string   `json:"rule"`
			Values []string `json:"values,omitempty"`
		}{v.Property.Rule, valueLines(v.Values)})
	}
	t.instant(h.End, "", "verdict", ending(h), "p", nil)
}

// instant adds something that happened at a moment, to an actor (scope t), or to all of the run (p).
func (t *tracer) instant(at time.Duration, actor, category, name, scope string, args any) {
	t.add(traceEvent{Name: name, Category: category, Phase: "i", Time: traceTime(at), Thread: t.thread(actor), Scope: scope, Args: args})
}

// durations returns how long each step is drawn: until the next of its actor, but not longer than maxDrawn.
func durations(h *history.History) []time.Duration {
	drawn := make([]time.Duration, len(h.Records))
	next := map[string]time.Duration{}
	for i := len(h.Records) - 1; i >= 0; i-- {
		r := &h.Records[i]
		drawn[i] = maxDrawn
		if at, ok := next[r.Event.Actor]; ok {
			drawn[i] = min(maxDrawn, max(at-r.At, 0))
		}
		next[r.Event.Actor] = r.At
	}
	return drawn
}

// stepArgs are what there is to be said of a step.
type stepArgs struct {
	Event     string `json:"event"`
	Record    int    `json:"record"`
	Attempt   int    `json:"attempt,omitempty"`
	Answer    string `json:"answer,omitempty"`
	Message   string `json:"message,omitempty"`
	Carried   int64  `json:"carried,omitempty"`
	Revision  int64  `json:"revision,omitempty"`
	Committed int64  `json:"committed,omitempty"`
	Changes   string `json:"changes,omitempty"`
	Fault     string `json:"fault,omitempty"`
	Repeats   int    `json:"repeats,omitempty"`
}

// step adds a step, and the arrow to it if it delivers a commit.
func (t *tracer) step(h *history.History, i int, drawn time.Duration) {
	r := &h.Records[i]
	thread := t.thread(r.Event.Actor)
	base := r.Event.Base()
	name := string(base.Verb)
	if object := base.Object(); object != "" {
		name += " " + object
	}
	args := stepArgs{
		Event: r.Event.String(), Record: i, Attempt: r.Attempt, Answer: answer(r), Message: r.Message, Carried: r.Carried,
		Revision: r.Revision, Committed: r.Committed, Fault: string(r.Fault), Repeats: r.Repeats,
	}
	if r.Committed > 0 {
		args.Changes = changeWords(changedFields(r.Before, r.After))
	}
	if args.Answer != "" {
		name += " → " + args.Answer
	}
	duration := traceTime(drawn)
	t.add(traceEvent{
		Name: name, Category: category(r), Phase: "X", Time: traceTime(r.At), Duration: &duration, Thread: thread, Args: args,
	})
	if r.Fault != "" {
		t.instant(r.At, r.Event.Actor, "fault", "✗ "+string(r.Fault), "t", nil)
	}
	if r.Held >= time.Millisecond {
		t.async(fmt.Sprintf("held-%d-%d", t.process, i), "held back: "+name, "held", r.Event.Actor, max(r.At-r.Held, 0), r.At)
	}
	if commit := committed(h, r); commit != nil {
		t.arrow(commit, r)
	}
}

// category groups steps, so that a viewer can hide those of a group.
func category(r *history.Record) string {
	switch {
	case r.Event.Verb.IsRequest():
		return "request"
	case r.Event.Verb.IsRead():
		return "cache"
	case r.Event.Verb == schedule.Deliver || r.Event.Verb == schedule.Sync:
		return "watch"
	default:
		return "machinery"
	}
}

// committed returns the record of the commit that a delivery tells of, nil if the step is no delivery, or of what was there before
// the run.
func committed(h *history.History, r *history.Record) *history.Record {
	if r.Event.Verb != schedule.Deliver || r.Cause < 0 || r.Cause >= len(h.Records) {
		return nil
	}
	if commit := &h.Records[r.Cause]; commit.Committed > 0 && commit.At <= r.At {
		return commit
	}
	return nil
}

// arrow leads from a commit to its delivery.
func (t *tracer) arrow(from, to *history.Record) {
	t.flows++
	arrow := traceEvent{Name: "watch", Category: "watch", ID: strconv.Itoa(t.flows)}
	arrow.Phase, arrow.Time, arrow.Thread = "s", traceTime(from.At), t.thread(from.Event.Actor)
	t.add(arrow)
	arrow.Phase, arrow.Time, arrow.Thread, arrow.Bind = "f", traceTime(to.At), t.thread(to.Event.Actor), "e"
	t.add(arrow)
}

// async adds a slice that others of its actor may overlap.
func (t *tracer) async(id, name, category, actor string, from, until time.Duration) {
	slice := traceEvent{Name: name, Category: category, Phase: "b", Time: traceTime(from), Thread: t.thread(actor), ID: id}
	t.add(slice)
	slice.Phase, slice.Time = "e", traceTime(until)
	t.add(slice)
}

// passes adds the passes of controllers: from their first step to their end, or to that of the run.
func (t *tracer) passes(h *history.History) {
	type pass struct{ thread, attempt int }
	begun := map[pass]bool{}
	for i := range h.Records {
		r := &h.Records[i]
		over, p := passOver(r), pass{r.Thread, r.Attempt}
		if over == "" || begun[p] {
			continue
		}
		begun[p] = true
		until := h.End
		if at := slices.IndexFunc(h.Ends, func(e history.PassEnd) bool { return e.Thread == p.thread && e.Attempt == p.attempt }); at >= 0 {
			until = max(h.Ends[at].At, r.At)
		}
		id := fmt.Sprintf("pass-%d-%d-%d", t.process, p.thread, p.attempt)
		t.async(id, fmt.Sprintf("%s, pass %d", over, p.attempt), "pass", r.Event.Actor, r.At, until)
	}
}
