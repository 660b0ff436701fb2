package explore

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// run makes a history of steps, a second apart, in which nothing follows from anything but within threads. Causes and
// times that differ are the test's to set.
func run(records ...history.Record) *history.History {
	h := &history.History{Records: records}
	seen := map[schedule.Event]int{}
	for i := range h.Records {
		r := &h.Records[i]
		seen[r.Event]++
		r.Event.Occurrence = seen[r.Event]
		if r.At == 0 {
			r.At = time.Duration(i) * time.Second
		}
		if r.Cause == 0 {
			r.Cause = -1
		}
	}
	return h
}

// step is a step of an actor on a ConfigMap. An actor is a process unless its name begins with "r". It has a thread of its own.
func step(actor string, verb schedule.Verb, name string) history.Record {
	r := history.Record{Event: schedule.Event{Actor: actor, Verb: verb, Kind: "ConfigMap", Namespace: "default", Name: name},
		ReadsFrom: -1}
	if actor[0] != 'r' {
		r.Event.Incarnation = 1
	}
	for _, c := range actor {
		r.Thread = r.Thread*31 + int(c)
	}
	if verb == schedule.Deliver || verb == schedule.Sync {
		r.Thread = -r.Thread
	}
	return r
}

func read(actor, name string) history.Record { return step(actor, schedule.Get, name) }

// write is a write that committed; locked is one that carries a revision.
func write(actor, name string) history.Record {
	r := step(actor, schedule.Update, name)
	r.Committed = 1
	return r
}

func locked(actor, name string) history.Record {
	r := write(actor, name)
	r.Carried = 1
	return r
}

func refused(actor, name string) history.Record { return step(actor, schedule.Update, name) }

// in moves a step to another thread of its actor.
func in(thread int, r history.Record) history.Record {
	r.Thread = thread
	return r
}

// because gives a step a cause.
func because(cause int, r history.Record) history.Record {
	r.Cause = cause
	return r
}

func at(t time.Duration, r history.Record) history.Record {
	r.At = t
	return r
}

func created(actor, generated string) history.Record {
	r := step(actor, schedule.Create, "")
	r.Committed = 1
	r.After = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: generated}}
	return r
}

// other changes the kind or the namespace of a step.
func other(kind, namespace string, r history.Record) history.Record {
	r.Event.Kind, r.Event.Namespace = kind, namespace
	return r
}

func TestReorders(t *testing.T) {
	tests := []struct {
		name    string
		history *history.History
		want    []string // "held by its index < the one it waits for"
	}{
		{"two writers", run(write("a", "x"), write("b", "x")), []string{"0<1"}},
		{"a read and a write, both ways", run(read("a", "x"), write("b", "x"), read("c", "x")), []string{"0<1", "1<2"}},
		{"two reads", run(read("a", "x"), read("b", "x")), nil},
		{"a write that was refused", run(refused("a", "x"), read("b", "x")), nil},
		{"a write that was refused, and one that was not", run(refused("a", "x"), write("b", "x")), []string{"0<1"}},
		{"two objects", run(write("a", "x"), write("b", "y")), nil},
		{"two kinds", run(write("a", "x"), other("Secret", "default", write("b", "x"))), nil},
		{"two namespaces", run(write("a", "x"), other("ConfigMap", "second", write("b", "x"))), nil},
		{"a list", run(step("a", schedule.List, ""), write("b", "x")), []string{"0<1"}},
		{"a list of all namespaces", run(other("ConfigMap", "", step("a", schedule.List, "")), write("b", "x")),
			[]string{"0<1"}},
		{"a list of another namespace", run(other("ConfigMap", "second", step("a", schedule.List, "")), write("b", "x")), nil},
		{"a generated name", run(created("a", "x-1"), write("b", "x-1"), write("c", "x-2")), []string{"0<1"}},
		{"one thread", run(write("a", "x"), write("a", "x")), nil},
		{"two threads of a process", run(in(1, write("a", "x")), in(2, write("a", "x"))), []string{"0<1"}},
		{"two threads of a racer", run(in(1, write("r", "x")), in(2, write("r", "x"))), nil},
		{"what does not follow", run(write("r", "x"), step("r2", schedule.Deliver, "x"), write("r2", "x")), []string{"0<2"}},
		{"beyond the bound", run(at(1, write("a", "x")), at(11*time.Second, write("b", "x"))), nil},
		{"at the bound", run(at(1, write("a", "x")), at(10*time.Second+1, write("b", "x"))), []string{"0<1"}},
		{"a poll is one step", run(polls(99, read("a", "x")), write("b", "x"), read("a", "x")), []string{"0<1", "1<2"}},
		{"a cached read", run(step("a", schedule.Deliver, "x"), step("a", schedule.CachedGet, "x"),
			step("a", schedule.Deliver, "x")), []string{"0<1", "1<2"}},
		{"a cached list", run(step("a", schedule.Deliver, "x"), step("a", schedule.CachedList, "")), []string{"0<1"}},
		{"another's cache", run(step("a", schedule.Deliver, "x"), step("b", schedule.CachedGet, "x")), nil},
		{"a cached read of another object", run(step("a", schedule.Deliver, "x"), step("a", schedule.CachedGet, "y")), nil},
		{"a racer takes a key", run(step("r", schedule.Deliver, "x"), in(7, step("r", schedule.Dequeue, ""))), []string{"0<1"}},
		{"a process takes a key", run(step("a", schedule.Deliver, "x"), in(7, step("a", schedule.Dequeue, ""))), nil},
		{"an initial list", run(write("a", "x"), step("b", schedule.Sync, ""), write("a", "x")), []string{"0<1"}},
		{"the initial list of a racer", run(write("a", "x"), step("r", schedule.Sync, "")), nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := pairs(test.history, reorders(test.history, 10*time.Second)); !slices.Equal(got, test.want) {
				t.Errorf("reorders are %q, want %q", got, test.want)
			}
		})
	}
}

func polls(repeats int, r history.Record) history.Record {
	r.Repeats = repeats
	return r
}

// pairs writes candidates by the indexes of their records.
func pairs(h *history.History, candidates []candidate) []string {
	index := map[schedule.Event]int{}
	for i := range h.Records {
		index[h.Records[i].Event] = i
	}
	var texts []string
	for _, c := range candidates {
		texts = append(texts, string(rune('0'+index[c.Event]))+"<"+string(rune('0'+index[c.Waits])))
	}
	return texts
}

// TestReordersFollow checks pairs of which the later step follows from the earlier: none but an operator's request can
// wait for such a step, and only for the next write of its name.
func TestReordersFollow(t *testing.T) {
	chain := func(actor string) *history.History {
		h := run(write(actor, "x"), step("rkcm", schedule.Deliver, "x"), in(5, step("rkcm", schedule.Dequeue, "")),
			in(5, write("rkcm", "x")), in(5, write("rkcm", "x")), in(5, read("rkcm", "x")))
		h.Records[1].Cause, h.Records[2].Cause = 0, 1
		return h
	}
	for actor, want := range map[string][]string{"a": {"0<3"}, "r": nil} {
		h := chain(actor)
		if got := pairs(h, reorders(h, time.Minute)); !slices.Equal(got, want) {
			t.Errorf("%s: reorders are %q, want %q", actor, got, want)
		}
	}
}

// TestReordersBegin checks that what comes before the script is held by nobody.
func TestReordersBegin(t *testing.T) {
	h := run(write("a", "x"), write("b", "x"), write("c", "x"))
	h.ScriptBegins = 1
	if got, want := pairs(h, reorders(h, time.Minute)), []string{"1<2"}; !slices.Equal(got, want) {
		t.Errorf("reorders are %q, want %q", got, want)
	}
}

// TestReordersWeight checks the order: the operator's locked writes first, and else as in the run.
func TestReordersWeight(t *testing.T) {
	h := run(read("a", "x"), locked("r1", "x"), write("r2", "x"), locked("a", "x"), write("r2", "x"))
	want := []string{"3<4", "1<2", "1<3", "1<4", "0<1", "0<2", "0<4", "2<3"}
	if got := pairs(h, reorders(h, time.Minute)); !slices.Equal(got, want) {
		t.Errorf("reorders are %q, want %q", got, want)
	}
}

func TestHappensBefore(t *testing.T) {
	// 0 and 2 are of one thread, 1 and 3 of another; 2 causes 3. The rest makes the sets longer than a word.
	records := []history.Record{write("a", "x"), write("b", "x"), write("a", "x"), because(2, write("b", "x"))}
	for range 100 {
		records = append(records, write("c", "x"))
	}
	records = append(records, because(3, write("d", "x")), because(103, write("e", "x")))
	before := happensBefore(run(records...))
	tests := []struct {
		i, j int
		want bool
	}{
		{0, 2, true}, {0, 3, true}, {1, 3, true}, {2, 3, true}, {0, 1, false}, {1, 2, false},
		{3, 0, false}, {3, 3, false}, {4, 103, true}, {102, 103, true}, {3, 103, false}, {0, 103, false},
		{0, 104, true}, {1, 104, true}, {3, 104, true}, {4, 104, false}, {4, 105, true}, {103, 105, true}, {104, 105, false},
	}
	for _, test := range tests {
		if got := before.has(test.i, test.j); got != test.want {
			t.Errorf("%d happens before %d: %v, want %v", test.i, test.j, got, test.want)
		}
	}
}

// TestVainHolds checks which constraints are known to be unmatched after one was.
func TestVainHolds(t *testing.T) {
	h := run(write("a", "x"), write("b", "x"), write("c", "x"), write("a", "x"))
	early, held, late, another := h.Records[0].Event, h.Records[1].Event, h.Records[2].Event, h.Records[3].Event
	never := schedule.Event{Actor: "nobody"}
	vain := vainHolds{}
	if vain.has(schedule.Constraint{Event: held, Waits: never}) {
		t.Error("a hold is vain that was never tried")
	}
	vain.add(schedule.Constraint{Event: held, Waits: late}, h)
	for waits, want := range map[schedule.Event]bool{late: true, never: true, early: false} {
		if got := vain.has(schedule.Constraint{Event: held, Waits: waits}); got != want {
			t.Errorf("holding for %s is vain: %v, want %v", waits, got, want)
		}
	}
	if vain.has(schedule.Constraint{Event: another, Waits: late}) {
		t.Error("the hold of another step is vain")
	}
	// What it waited for came first, and still the constraint is unmatched: that says nothing of the others.
	vain.add(schedule.Constraint{Event: late, Waits: held}, h)
	if vain.has(schedule.Constraint{Event: late, Waits: never}) {
		t.Error("a hold is vain that was not")
	}
}
