package reports

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// decision is one thing that made a run come out as it did: an order of events.
type decision struct {
	// words say it.
	words string
	// records are the indices of the events it is about, in the order they happened.
	records []int
}

// decider tells what decided a run.
type decider struct {
	run    *history.History
	actors actors
	// defaults is the run in the default order, to compare with; may be nil.
	defaults *history.History
	// tested are the processes under test.
	tested []string
	// schedule is what brought the run about; may be nil.
	schedule *schedule.Schedule
	// namespace is the one that all objects are in, and that goes without saying; empty if there are several.
	namespace string
}

// did names an event as a noun, with its actor.
func (d *decider) did(e schedule.Event) string { return d.actors.did(without(e, d.namespace)) }

// deed names what an event does, as a noun.
func (d *decider) deed(e schedule.Event) string { return deed(without(e, d.namespace)) }

// decisions returns what decided the run: the constraints it followed, the faults that struck, the steps that came late, and
// the lists in another order. Where a run followed no order, they are the steps that came late because a hold ran out; and
// where it is not known what brought its order about, the writes of the processes under test that another actor's write
// overtook.
func (d *decider) decisions() []decision {
	var all []decision
	for _, c := range d.run.Constraints {
		if c.Matched {
			all = append(all, d.constraint(c.Constraint))
		}
	}
	for _, f := range struck(d.run) {
		all = append(all, d.fault(&f))
	}
	if d.schedule != nil {
		for _, l := range d.schedule.Latencies {
			all = append(all, d.latency(l))
		}
		for _, p := range d.schedule.Orders {
			all = append(all, d.permutation(p))
		}
	}
	for _, c := range d.run.Constraints {
		if i := find(d.run, c.Event); len(all) == 0 && !c.Matched && c.Held && i >= 0 {
			all = append(all, d.late(i, c.Waits))
		}
	}
	if len(all) > 0 && (d.schedule != nil || len(d.run.Constraints) > 0) {
		return all
	}
	return append(all, d.overtaken()...)
}

// overtaken tells of the writes of the processes under test that another actor's write overtook.
func (d *decider) overtaken() []decision {
	var all []decision
	for i := range d.run.Records {
		r := &d.run.Records[i]
		if !slices.Contains(d.tested, r.Event.Actor) || !r.Event.Verb.IsWrite() {
			continue
		}
		if by := overtakenBy(d.run, i); by >= 0 {
			all = append(all, d.between(by, i))
		}
	}
	return all
}

// constraint tells of an order that was asked for.
func (d *decider) constraint(c schedule.Constraint) decision {
	held, waits := find(d.run, c.Event), find(d.run, c.Waits)
	if held < 0 || waits < 0 {
		return decision{words: c.String() + "."}
	}
	for _, step := range []int{held, waits} {
		if write := overtook(d.run, step); write >= 0 {
			return d.between(step, write)
		}
	}
	words := fmt.Sprintf("The %s came before the %s, which waited for it.", d.did(c.Waits), d.did(c.Event))
	return decision{words: words + d.contrast(held), records: []int{waits, held}}
}

// maxMeanwhile is how many writes are named that came while a step was late.
const maxMeanwhile = 3

// late tells of a step that was held for an event until the hold ran out.
func (d *decider) late(held int, waits schedule.Event) decision {
	r := &d.run.Records[held]
	records := []int{held}
	by := d.lateness(held)
	words := fmt.Sprintf("The %s came late", d.did(r.Event))
	if by > 0 {
		words = fmt.Sprintf("The %s came %s late", d.did(r.Event), span(by))
	}
	if next := nextWrite(d.run, held); next >= 0 && !r.Event.Verb.IsWrite() {
		words += fmt.Sprintf(", and so did the %s after it", d.deed(d.run.Records[next].Event))
		records = append(records, next)
	}
	why := "did not come"
	if find(d.run, waits) >= 0 {
		why = "came only after it"
	}
	words += fmt.Sprintf(". It was held for an event that %s, the %s.", why, d.did(waits))
	if write := overtook(d.run, held); write >= 0 {
		between := d.between(held, write)
		return decision{words: words + " " + between.words, records: between.records}
	}
	if by > 0 {
		words += d.meanwhile(held, r.At-by)
	}
	return decision{words: words + d.contrast(held), records: records}
}

// lateness returns for how long a step was held, or, where that is not recorded, how much later it came than in the
// default order: up to the hold, the two runs are the same. It is zero if that is not known either.
func (d *decider) lateness(held int) time.Duration {
	r := &d.run.Records[held]
	if r.Held > 0 || d.defaults == nil {
		return r.Held
	}
	i := find(d.defaults, r.Event)
	if i < 0 {
		return 0
	}
	return max(r.At-d.defaults.Records[i].At, 0)
}

// nextWrite returns the index of the next write in the pass of a step, or -1.
func nextWrite(h *history.History, i int) int {
	r := &h.Records[i]
	for j := i + 1; j < len(h.Records); j++ {
		w := &h.Records[j]
		if w.Thread == r.Thread && w.Attempt == r.Attempt && w.Event.Actor == r.Event.Actor && w.Event.Key == r.Event.Key &&
			w.Event.Verb.IsWrite() {
			return j
		}
	}
	return -1
}

// meanwhile names the writes between some time and a step that was held, which others did: those to its own object first,
// then those of the processes under test. Where it is a cache that was late, its actor's own writes count, too.
func (d *decider) meanwhile(held int, since time.Duration) string {
	late := &d.run.Records[held]
	var ranks [3][]string
	for i := range held {
		r := &d.run.Records[i]
		own := r.Event.Actor == late.Event.Actor && late.Event.Verb.IsRequest()
		if r.At < since || r.Committed == 0 || own || heartbeat(r) {
			continue
		}
		rank := 2
		switch {
		case sameObject(r.Event, late.Event):
			rank = 0
		case slices.Contains(d.tested, r.Event.Actor):
			rank = 1
		}
		if what := fmt.Sprintf("the %s by %s", d.deed(r.Event), doer(r.Event)); !slices.Contains(ranks[rank], what) {
			ranks[rank] = append(ranks[rank], what)
		}
	}
	all := slices.Concat(ranks[:]...)
	if len(all) == 0 {
		return " Nothing was written by others meanwhile."
	}
	if more := len(all) - maxMeanwhile; more > 0 {
		all = append(all[:maxMeanwhile], count(more, "other write"))
	}
	return " By then had come: " + strings.Join(all, "; ") + "."
}

// sameObject reports whether two events touch one object, or a subresource of it.
func sameObject(a, b schedule.Event) bool {
	return a.Kind == b.Kind && a.Namespace == b.Namespace && a.Name == b.Name
}

// between tells of a step that came between a read and the write that rests on it.
func (d *decider) between(step, write int) decision {
	by, w := &d.run.Records[step], &d.run.Records[write]
	read := &d.run.Records[w.ReadsFrom]
	what := fmt.Sprintf("%s and %s of %s", read.Event.Verb, w.Event.Verb, without(w.Event, d.namespace).Object())
	if read.Event.Object() != w.Event.Object() {
		what = fmt.Sprintf("%s and %s", d.deed(read.Event), d.deed(w.Event))
	}
	words := fmt.Sprintf("The %s came between %s's %s.", d.did(by.Event), doer(w.Event), what)
	switch {
	case w.Code == 409 && w.Carried > 0 && by.Committed > 0:
		words += fmt.Sprintf(" The %s carried revision %d, the object was at %d: %s.", w.Event.Verb, w.Carried, by.Committed, answer(w))
	case w.Code >= 400:
		words += fmt.Sprintf(" The %s was answered %s.", w.Event.Verb, answer(w))
	case w.Committed > 0:
		words += fmt.Sprintf(" The %s went through, on what had been read before.", w.Event.Verb)
	}
	return decision{words: words + d.contrast(write), records: []int{w.ReadsFrom, step, write}}
}

// contrast says how the same request came out in the default order, if it came out differently.
func (d *decider) contrast(record int) string {
	if d.defaults == nil {
		return ""
	}
	r := &d.run.Records[record]
	i := find(d.defaults, r.Event)
	if i < 0 || d.defaults.Records[i].Code == r.Code {
		return ""
	}
	return fmt.Sprintf(" In the default order the same %s is answered %s.", r.Event.Verb, answer(&d.defaults.Records[i]))
}

// find returns the index of the record of an event, or -1.
func find(h *history.History, e schedule.Event) int {
	return slices.IndexFunc(h.Records, func(r history.Record) bool { return r.Event == e })
}

// overtook returns the index of the first write of another actor that rests on a read before the write at index i, which
// it overtook: it came between the two. It is -1 if there is none.
func overtook(h *history.History, i int) int {
	for j := i + 1; j < len(h.Records); j++ {
		if w := &h.Records[j]; w.Event.Verb.IsWrite() && w.ReadsFrom < i && overtakes(&h.Records[i], w) {
			return j
		}
	}
	return -1
}

// overtakes reports whether r changed the object of w, a write of another actor that rests on a read.
func overtakes(r, w *history.Record) bool {
	return w.ReadsFrom >= 0 && r.Committed > 0 && r.Event.Actor != w.Event.Actor && sameObject(r.Event, w.Event)
}

// overtakenBy returns the index of the last write of another actor to the object of the write at index i that was
// committed after the read the write rests on; -1 if there is none, or if the write rests on no read.
func overtakenBy(h *history.History, i int) int {
	w := &h.Records[i]
	for j := i - 1; j > w.ReadsFrom; j-- {
		if overtakes(&h.Records[j], w) {
			return j
		}
	}
	return -1
}
