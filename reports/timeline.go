package reports

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// row is one line of a timeline: something one actor did, said or met.
type row struct {
	at time.Duration
	// actor whose column it stands in; empty for what concerns all.
	actor  string
	text   string
	detail string // further lines beneath, dimmed
	style  style
	mark   bool // decides the outcome
	// pass is set where a pass begins: its number, and what it is a pass over.
	pass int
	over string
	// more counts the times it happened again with nothing else in between, the last of them at until.
	more  int
	until time.Duration
}

// words returns the row's text with its repetitions.
func (r *row) words() string {
	switch r.more {
	case 0:
		return r.text
	case 1:
		return fmt.Sprintf("%s, and once more at %s", r.text, clock(r.until))
	default:
		return fmt.Sprintf("%s, and %d more times until %s", r.text, r.more, clock(r.until))
	}
}

// timeline is a run as rows in the order of virtual time, with a column for each actor.
type timeline struct {
	rows   []row
	actors []string // the columns
	// namespace is the one that all objects are in and that is therefore not printed; empty if there are several.
	namespace string
	// leftOut counts the steps that are not shown.
	leftOut int
	// left is where the first actor's column begins: right of the times.
	left int
	// faults are those of the run.
	faults []history.FaultResult
}

// newTimeline makes the timeline of a run. The steps in deciding are shown and marked whatever they are.
func newTimeline(h *history.History, tested []string, deciding []int) *timeline {
	t := &timeline{actors: slices.Clone(tested), namespace: onlyNamespace(h), faults: h.Faults}
	logs := h.Logs
	flush := func(upTo int) {
		for len(logs) > 0 && logs[0].Record <= upTo {
			t.addLog(&logs[0])
			logs = logs[1:]
		}
	}
	flush(-1)
	passes := passRows{}
	for i := range h.Records {
		r := &h.Records[i]
		mark := slices.Contains(deciding, i)
		if !mark && !shown(r, slices.Contains(tested, r.Event.Actor)) {
			t.leftOut += 1 + r.Repeats
			flush(i)
			continue
		}
		if begin, ok := passes.next(r); ok && slices.Contains(tested, r.Event.Actor) {
			t.add(begin)
		}
		t.addStep(t.step(r, mark), slices.Contains(tested, r.Event.Actor))
		flush(i)
	}
	flush(len(h.Records))
	for _, v := range h.Broken() {
		t.add(row{at: v.At, text: "✗ " + v.Property.Name + " is broken", style: alarm, mark: true})
	}
	t.add(row{at: h.End, text: ending(h), style: dim})
	slices.SortStableFunc(t.rows, func(a, b row) int { return cmp.Compare(a.at, b.at) })
	t.collapse()
	if broken := h.Broken(); len(broken) > 0 && h.Outcome != history.Panicked && !slices.ContainsFunc(broken, later) {
		t.cut()
	}
	return t
}

// later reports whether a property is about what comes of a run, so that all of it is worth telling.
func later(v property.Verdict) bool { return !atOnce(v) }

// maxAfter is how many rows are shown after the last that decides, where what came later does not matter.
const maxAfter = 5

// cut leaves out what came after the break, save for a few rows, and says so in one line before the end.
func (t *timeline) cut() {
	last := len(t.rows) - 1
	for last > 0 && !t.rows[last].mark {
		last--
	}
	from, end := last+1+maxAfter, len(t.rows)-1
	if rest := end - from; rest > 1 {
		words := fmt.Sprintf("… and %s until the end, after the break", count(rest, "more line"))
		t.rows = slices.Replace(t.rows, from, end, row{at: t.rows[from].at, text: words, style: dim})
	}
}

// ending says in words how a run ended.
func ending(h *history.History) string {
	if h.Outcome == history.Terminal {
		return "end: " + whyEnded(h)
	}
	return fmt.Sprintf("end: %s, %s", h.Outcome, h.Reason)
}

// whyEnded says why a run ended. Where commits went on while it was called quiet, for they say nothing about progress, it
// says that, and which there were most of.
func whyEnded(h *history.History) string {
	counts := map[string]int{}
	for i := range h.Records {
		if r := &h.Records[i]; h.Outcome == history.Terminal && r.Committed > 0 && r.At > h.End-h.Horizon {
			counts[fmt.Sprintf("%s %s %s", doer(r.Event), r.Event.Verb, kindOf(r.Event))]++
		}
	}
	if len(counts) == 0 {
		return h.Reason
	}
	busiest := slices.MaxFunc(slices.Sorted(maps.Keys(counts)), func(a, b string) int { return cmp.Compare(counts[a], counts[b]) })
	return fmt.Sprintf("no commit but of times, Leases or Events for %s; most of them: %s, %s",
		span(h.Horizon), busiest, count(counts[busiest], "time"))
}

// kindOf names the kind an event is about, with the subresource: "Widget/status".
func kindOf(e schedule.Event) string {
	e.Name = ""
	return e.Object()
}

// shown reports whether a step that decides nothing is worth a line: the requests of a process under test, and the
// writes of its competitors. The machinery in between, reads by competitors, and writes that say nothing about progress
// are not.
func shown(r *history.Record, tested bool) bool {
	e := r.Event
	switch {
	case r.Fault != "":
		return true
	case !e.Verb.IsRequest():
		return e.Verb == schedule.Start && e.Incarnation > 1
	case heartbeat(r) || e.Verb == schedule.Watch:
		return false
	case tested:
		return true
	default:
		return e.Verb.IsWrite()
	}
}

// heartbeat reports whether a step is about an object that says nothing about progress.
func heartbeat(r *history.Record) bool { return r.Event.Kind == "Lease" || r.Event.Kind == "Event" }

// onlyNamespace returns the namespace that all requests of the run share, or nothing.
func onlyNamespace(h *history.History) string {
	only := ""
	for i := range h.Records {
		switch ns := h.Records[i].Event.Namespace; {
		case ns == "" || ns == only:
		case only == "":
			only = ns
		default:
			return ""
		}
	}
	return only
}

// without returns an event without the namespace that goes without saying.
func without(e schedule.Event, namespace string) schedule.Event {
	if e.Namespace == namespace {
		e.Namespace = ""
	}
	return e
}

// add appends a row, giving its actor a column.
func (t *timeline) add(r row) {
	if r.actor != "" && !slices.Contains(t.actors, r.actor) {
		t.actors = append(t.actors, r.actor)
	}
	t.rows = append(t.rows, r)
}

// maxChanges is how many changed fields of a write are listed.
const maxChanges = 4

// addStep appends the row of a step, or counts it with the last one if a competitor does the same thing again.
func (t *timeline) addStep(step row, tested bool) {
	if tested || step.mark {
		t.add(step)
		return
	}
	t.addAgain(step)
}

// addAgain appends a row, or counts it with the last one if that is the same.
func (t *timeline) addAgain(step row) {
	if n := len(t.rows); n > 0 {
		if last := &t.rows[n-1]; last.actor == step.actor && last.text == step.text && !last.mark {
			last.more += 1 + step.more
			last.until = max(step.at, step.until)
			return
		}
	}
	t.add(step)
}

// step makes the row of a step.
func (t *timeline) step(r *history.Record, mark bool) row {
	told := t.tell(r)
	if mark {
		told.notes = slices.Concat(revisions(r), told.notes)
	}
	return row{
		at: r.At, actor: r.Event.Actor, text: told.text(), detail: told.detail, style: told.style, mark: mark,
		more: r.Repeats, until: r.LastAt,
	}
}

// telling is a step in words.
type telling struct {
	what   string   // "Update StatefulSet web"
	answer string   // "409 Conflict"; empty for what is no request
	notes  []string // what the answer does not say: "no change"
	fault  string   // the type of the fault that struck
	detail string   // further words: what a write changed, or the server's message
	style  style
}

// text returns the step on one line.
func (s telling) text() string {
	words := s.what
	if s.answer != "" {
		words += " → " + s.answer
	}
	words = strings.Join(append([]string{words}, s.notes...), ", ")
	if s.fault != "" {
		words += " ✗ " + s.fault
	}
	return words
}

// tell puts a step into words.
func (t *timeline) tell(r *history.Record) telling {
	told := telling{what: t.what(r), answer: answer(r), fault: string(r.Fault)}
	if r.Retry {
		told.notes = append(told.notes, "client-go tries again")
	}
	write := r.Event.Verb.IsWrite()
	switch {
	case r.Fault != "":
		told.style, told.detail = red, faultDetail(r)
	case refused(r):
		told.style, told.detail = red, r.Message
	case write && r.Code < 400 && r.Committed == 0 && r.Code > 0:
		told.notes = append(told.notes, "no change")
	case write && r.Event.Verb != schedule.Create && r.Event.Verb != schedule.DeleteCollection:
		told.detail = changeWords(changedFields(r.Before, r.After))
	}
	return told
}

// refused reports whether a request was refused, or not answered. That nothing is found is an answer to a read like another.
func refused(r *history.Record) bool {
	return r.Code == history.NoAnswer || r.Code >= 400 && (r.Code != 404 || !r.Event.Verb.IsRead())
}

// what says what a step does, without its actor: "Update StatefulSet web".
func (t *timeline) what(r *history.Record) string {
	e := without(r.Event, t.namespace)
	switch {
	case e.Verb == schedule.Start:
		return t.started(e)
	case e.Verb == schedule.Sync:
		return "takes a new list: " + e.Object()
	case e.Verb == schedule.Create && e.Name == "" && r.After != nil:
		e.Name = r.After.GetName() // the server generated it
	}
	return strings.TrimSpace(string(e.Verb) + " " + e.Object())
}

// started says how a process starts: anew after a crash, or as another reconciler after an upgrade.
func (t *timeline) started(e schedule.Event) string {
	if e.Incarnation < 2 {
		return "starts"
	}
	for _, f := range t.faults {
		if f.Struck && f.Type == schedule.Upgrade && f.At.Actor == e.Actor && f.At.Incarnation == e.Incarnation-1 {
			return f.Reconciler + " starts in its place"
		}
	}
	return fmt.Sprintf("starts again, with an empty memory (start %d)", e.Incarnation)
}

// changeWords lists changes on one line.
func changeWords(changes []change) string {
	var words []string
	for _, c := range changes[:min(len(changes), maxChanges)] {
		words = append(words, c.String())
	}
	if more := len(changes) - maxChanges; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(words, ", ")
}

// revisions says which revisions a deciding step carried, and came to, and for how long it was held back.
func revisions(r *history.Record) []string {
	var words []string
	switch {
	case r.Code >= 400 && r.Carried > 0:
		words = append(words, fmt.Sprintf("carried revision %d", r.Carried))
	case r.Code < 400 && r.Code != history.NoAnswer && r.Revision > 0:
		words = append(words, fmt.Sprintf("revision %d", r.Revision))
	}
	if r.Held >= time.Millisecond {
		words = append(words, "held back "+clock(r.Held))
	}
	return words
}

// maxLevel is the highest logr level that is shown: what a manager logs by default, and one level of detail.
const maxLevel = 1

// loggerNoise are the keys that controller-runtime adds to every line.
var loggerNoise = []string{
	"controller", "controllerGroup", "controllerKind", "reconcileID", "namespace", "name", "worker count", "source",
}

// startNoise is what controller-runtime logs about itself at every start.
var startNoise = []string{"Starting EventSource", "Starting Controller", "Starting workers"}

// addLog appends the row of a log line.
func (t *timeline) addLog(l *history.Log) {
	if !worthTelling(l) {
		t.leftOut++
		return
	}
	s := yellow
	if l.Level < 0 {
		s = red
	}
	t.addAgain(row{at: l.At, actor: l.Actor, text: "» " + logWords(l), style: s})
}

// worthTelling reports whether a log line is shown: what a manager logs by default, and not about its own start.
func worthTelling(l *history.Log) bool {
	return l.Level <= maxLevel && !slices.Contains(startNoise, l.Message)
}

// logWords returns a log line without what controller-runtime adds to each.
func logWords(l *history.Log) string {
	words := []string{l.Message}
	for _, value := range l.Values {
		if key, _, _ := strings.Cut(value, "="); !slices.Contains(loggerNoise, key) {
			words = append(words, value)
		}
	}
	return strings.Join(words, " ")
}

const (
	markWidth = 2 // the mark at the left
	timeGap   = 2 // between the times and the first column
	// minColumn and maxColumn bound how far the columns of two actors lie apart. A row may run on over the columns to
	// its right, for nothing else happens at its time.
	minColumn, maxColumn = 8, 26
	// textRoom is what rows of the last column should have at least.
	textRoom = 56
)

// print writes the timeline: a header, and the rows, each in its actor's column, with lifelines for the others.
func (t *timeline) print(p *page) {
	times := 0
	for _, r := range t.rows {
		times = max(times, len(clock(r.at)))
	}
	t.left = markWidth + times + timeGap
	step := 0
	if len(t.actors) > 1 {
		step = min(max((p.width-t.left-textRoom)/(len(t.actors)-1), minColumn), maxColumn)
	}
	header := []string{fmt.Sprintf("%-*s", t.left, "  time")}
	for i, actor := range t.actors {
		if i < len(t.actors)-1 {
			actor = fmt.Sprintf("%-*s", step, shorten(actor, max(step-1, 1)))
		}
		header = append(header, actor)
	}
	p.linef("%s", p.in(bold, strings.Join(header, "")))
	before := time.Duration(0)
	for i, r := range t.rows {
		if i > 0 && r.at-before >= time.Second {
			p.linef("%s", p.in(dim, fmt.Sprintf("%*s  ", t.left-timeGap, "⋮")+lifelines(len(t.actors), step, len(t.actors))))
		}
		before = r.at
		t.printRow(p, r, step)
	}
}

// printRow writes one row with its details.
func (t *timeline) printRow(p *page, r row, step int) {
	column := max(slices.Index(t.actors, r.actor), 0)
	mark, at := "  ", fmt.Sprintf("%*s  ", t.left-markWidth-timeGap, clock(r.at))
	if r.mark {
		mark = p.in(alarm, "▶ ")
	}
	left := lifelines(column, step, len(t.actors))
	room := p.width - t.left - column*step
	s := r.style
	if r.mark && s == plain {
		s = bold
	}
	for i, line := range wrapAll(r.words(), room-2) {
		if i > 0 {
			mark, at, line = "  ", strings.Repeat(" ", t.left-markWidth), "  "+line
		}
		p.linef("%s%s%s%s", mark, p.in(dim, at), p.in(dim, left), p.in(s, line))
	}
	if r.detail == "" {
		return
	}
	for _, line := range wrapAll(r.detail, room-4) {
		p.linef("%s%s", strings.Repeat(" ", t.left), p.in(dim, left+"    "+line))
	}
}

// lifelines draws the lines of the first n columns of all, each step wide. Where n is all, the last has no padding.
func lifelines(n, step, all int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("│")
		if i < all-1 {
			b.WriteString(strings.Repeat(" ", max(step-1, 0)))
		}
	}
	return b.String()
}

// whenBroken says when a broken property was seen to be broken.
func whenBroken(v property.Verdict, h *history.History) string {
	switch v.Property.Type {
	case property.Terminal:
		return fmt.Sprintf("in the terminal state at %s of virtual time (%s)", clock(v.At), whyEnded(h))
	case property.Eventually:
		return fmt.Sprintf("at %s of virtual time: %s (it must hold for good within %s)", clock(v.At),
			cmp.Or(v.Note, "it did not come to hold, or not to stay"), span(v.Property.Within))
	default:
		when := fmt.Sprintf("at %s of virtual time", clock(v.At))
		if v.Note != "" {
			when += ": " + v.Note
		}
		return when
	}
}
