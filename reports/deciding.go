package reports

import (
	"fmt"
	"slices"

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
}

// decisions returns what decided the run: the constraints it followed, or, where it followed none, the writes of the
// processes under test that another actor's write overtook.
func (d *decider) decisions() []decision {
	var all []decision
	for _, c := range d.run.Constraints {
		if c.Matched {
			all = append(all, d.constraint(c.Constraint))
		}
	}
	if len(all) > 0 {
		return all
	}
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
	words := fmt.Sprintf("The %s by %s came before the %s by %s, which waited for it.",
		deed(c.Waits), d.actors.full(c.Waits.Actor), deed(c.Event), d.actors.full(c.Event.Actor))
	return decision{words: words + d.contrast(held), records: []int{waits, held}}
}

// between tells of a step that came between a read and the write that rests on it.
func (d *decider) between(step, write int) decision {
	by, w := &d.run.Records[step], &d.run.Records[write]
	read := &d.run.Records[w.ReadsFrom]
	what := fmt.Sprintf("%s and %s of %s", read.Event.Verb, w.Event.Verb, w.Event.Object())
	if read.Event.Object() != w.Event.Object() {
		what = fmt.Sprintf("%s and %s", deed(read.Event), deed(w.Event))
	}
	words := fmt.Sprintf("The %s by %s came between %s's %s.", deed(by.Event), d.actors.full(by.Event.Actor), w.Event.Actor, what)
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
	return w.ReadsFrom >= 0 && r.Committed > 0 && r.Event.Actor != w.Event.Actor && r.Event.Kind == w.Event.Kind &&
		r.Event.Namespace == w.Event.Namespace && r.Event.Name == w.Event.Name
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
