package reports

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// pageData is what the script of an HTML report draws. It is compact, for a run may have tens of thousands of steps: strings are
// indices into a table, and rows are columns of numbers.
type pageData struct {
	Strings []string   `json:"strings"`
	Runs    []*runData `json:"runs"`

	strings interner
}

func newPageData() *pageData {
	d := &pageData{strings: interner{index: map[string]int{}}, Runs: []*runData{}}
	d.strings.of("") // has index 0
	return d
}

// interner numbers strings in the order they are first met.
type interner struct {
	all   []string
	index map[string]int
}

func (n *interner) of(s string) int {
	i, known := n.index[s]
	if !known {
		i = len(n.all)
		n.index[s] = i
		n.all = append(n.all, s)
	}
	return i
}

// runData is one run.
type runData struct {
	Lanes []laneData `json:"lanes"`
	Rows  rowColumns `json:"rows"`
	// Passes are the passes of reconcilers: lane, first row, last row, what it is over, the error it returned.
	Passes [][5]int `json:"passes"`
	// Decisions are the rows of each thing that decides, in the order they happened.
	Decisions [][]int `json:"decisions"`
	// Violations are the rows at which something is broken.
	Violations []int         `json:"violations"`
	Objects    []*objectData `json:"objects"`
}

// The kinds of lanes.
const (
	processLane = iota
	cacheLane
	serverLane
	racerLane
)

// laneData is a lane of a timeline: an actor, a process's cache, or the API server.
type laneData struct {
	Name string `json:"name"`
	What string `json:"what"`
	Kind int    `json:"kind"`
}

// rowKind says what a row is, and how it is drawn.
type rowKind int

// The kinds of rows. The script has the same list.
const (
	readRow       rowKind = iota // a request that only reads, and its answer
	commitRow                    // a write that was carried out
	unchangedRow                 // a write that changed nothing
	refusedRow                   // a request that was refused
	notFoundRow                  // a read of what is not there
	unansweredRow                // a request without an answer
	cachedRow                    // a read from a cache
	deliveryRow                  // a cache is told of a commit
	listRow                      // a cache takes a list
	startRow                     // a process starts
	machineRow                   // queues, timers, handlers
	passRow                      // a pass begins
	logRow                       // a log line
	errorLogRow                  // an error in the log
	brokenRow                    // a property is broken
	endRow                       // the end of the run
)

// The flags of rows.
const (
	shownFlag = 1 << iota // worth a line also where not all steps are shown
	markFlag              // decides
	faultFlag             // a fault struck here
)

// rowColumns are the rows of a timeline, one column for each thing to know. Strings are indices into the table, rows are indices
// plus one, zero being none.
type rowColumns struct {
	At     []int64 `json:"at"` // virtual milliseconds
	Kind   []int   `json:"kind"`
	Flags  []int   `json:"flags"`
	Lane   []int   `json:"lane"`
	What   []int   `json:"what"`
	Answer []int   `json:"answer"`
	Notes  []int   `json:"notes"`
	Detail []int   `json:"detail"`
	Event  []int   `json:"event"` // the name that schedules have for it
	// Object is the object, plus one, and Version which of its versions the step found or made.
	Object  []int `json:"object"`
	Version []int `json:"version"`
	Cause   []int `json:"cause"` // the row that made it possible: the commit that is delivered
	Reads   []int `json:"reads"` // the row that gave a write the revision it carried
}

// pageRow is one row of a timeline, before it is put into columns.
type pageRow struct {
	at                           time.Duration
	kind                         rowKind
	flags, lane                  int
	what, answer, notes, detail  string
	event                        string
	object, version              int
	causeRecord, readsFromRecord int
	record                       int // -1 for what is no step
}

// runBuilder makes the data of one run.
type runBuilder struct {
	data    *pageData
	run     *runData
	history *history.History
	// line tells steps in the words of the text report.
	line    *timeline
	text    *text
	marked  map[int]bool
	lanes   map[string]int // by the name of an actor
	caches  map[string]int // by the name of a process
	server  int
	rows    []pageRow
	objects *objectVersions
	passes  passRows
}

// add adds a run, with what decides it.
func (d *pageData) add(t *text, h *history.History, decisions []decision) {
	b := &runBuilder{
		data: d, history: h, text: t, marked: map[int]bool{},
		run: &runData{
			Lanes: []laneData{}, Passes: [][5]int{}, Decisions: [][]int{}, Violations: []int{}, Objects: []*objectData{},
		},
		line: &timeline{namespace: onlyNamespace(h), faults: h.Faults},
	}
	for _, decision := range decisions {
		for _, record := range decision.records {
			b.marked[record] = true
		}
	}
	b.layLanes()
	b.objects = newObjectVersions(h, b.line.namespace, t.result.Variables)
	b.addSteps()
	b.addEnding()
	slices.SortStableFunc(b.rows, func(a, c pageRow) int { return cmp.Compare(a.at, c.at) })
	rowOf := b.rowsOfRecords()
	b.fillColumns(rowOf)
	b.fillPasses(rowOf)
	for _, decision := range decisions {
		rows := []int{}
		for _, record := range decision.records {
			rows = append(rows, rowOf[record])
		}
		b.run.Decisions = append(b.run.Decisions, rows)
	}
	b.run.Objects = b.objects.data(&d.strings, rowOf)
	d.Runs = append(d.Runs, b.run)
}

// layLanes lays out the lanes: the processes under test with their caches, the API server, and the racers.
func (b *runBuilder) layLanes() {
	b.lanes, b.caches = map[string]int{}, map[string]int{}
	lane := func(name, what string, kind int) int {
		b.run.Lanes = append(b.run.Lanes, laneData{name, what, kind})
		return len(b.run.Lanes) - 1
	}
	cached := map[string]bool{}
	for i := range b.history.Records {
		if r := &b.history.Records[i]; b.tested(r.Event.Actor) && ofCache(r) {
			cached[r.Event.Actor] = true
		}
	}
	actors := actorsOf(b.history)
	for _, name := range b.text.tested {
		if !slices.Contains(actors, name) {
			continue
		}
		b.lanes[name] = lane(name, b.text.actors[name], processLane)
		if cached[name] {
			b.caches[name] = lane(name+" cache", "what "+name+"'s informers have been told", cacheLane)
		}
	}
	b.server = lane("API server", "requests reach it, and writes are committed", serverLane)
	for _, name := range actors {
		if _, known := b.lanes[name]; !known && name != "" {
			b.lanes[name] = lane(name, b.text.actors[name], racerLane)
		}
	}
}

func (b *runBuilder) tested(actor string) bool { return slices.Contains(b.text.tested, actor) }

// ofCache reports whether a step is a cache's: it is told of something, or read.
func ofCache(r *history.Record) bool {
	switch r.Event.Verb {
	case schedule.Deliver, schedule.Sync, schedule.CachedGet, schedule.CachedList:
		return true
	default:
		return false
	}
}

// addSteps adds the steps of the run with its log lines, and a row where a pass begins.
func (b *runBuilder) addSteps() {
	logs := b.history.Logs
	flush := func(upTo int) {
		for len(logs) > 0 && logs[0].Record <= upTo {
			b.addLog(&logs[0])
			logs = logs[1:]
		}
	}
	flush(-1)
	for i := range b.history.Records {
		r := &b.history.Records[i]
		tested := b.tested(r.Event.Actor)
		if begin, ok := b.passes.next(r); ok && tested && !ofCache(r) {
			b.rows = append(b.rows, pageRow{
				at: r.At, kind: passRow, lane: b.lanes[r.Event.Actor], what: begin.text, record: -1,
				flags: shownFlag, causeRecord: -1, readsFromRecord: -1, object: -1,
			})
		}
		b.addStep(i, r, tested)
		flush(i)
	}
	flush(len(b.history.Records))
}

// addStep adds the row of a step.
func (b *runBuilder) addStep(i int, r *history.Record, tested bool) {
	told := b.line.tell(r)
	row := pageRow{
		at: r.At, kind: kindOfRow(r), lane: b.lanes[r.Event.Actor], record: i, event: r.Event.String(),
		what: told.what, answer: told.answer, detail: told.detail, causeRecord: r.Cause, readsFromRecord: r.ReadsFrom,
	}
	cache, hasCache := b.caches[r.Event.Actor]
	if hasCache && (r.Event.Verb == schedule.Deliver || r.Event.Verb == schedule.Sync) {
		row.lane = cache
	}
	if b.marked[i] || shown(r, tested) || tested && r.Event.Verb == schedule.Deliver && !heartbeat(r) {
		row.flags |= shownFlag
	}
	notes := told.notes
	if b.marked[i] {
		row.flags |= markFlag
	}
	if b.marked[i] || r.Code >= 400 && r.Carried > 0 {
		notes = slices.Concat(revisions(r), notes)
	}
	if r.Repeats > 0 {
		notes = append(notes, fmt.Sprintf("%s more until %s", count(r.Repeats, "time"), clock(r.LastAt)))
	}
	if r.Fault != "" {
		row.flags |= faultFlag
		notes = append(notes, "fault "+told.fault)
	}
	row.notes = strings.Join(notes, ", ")
	row.object, row.version = b.objects.at(i)
	b.rows = append(b.rows, row)
}

// kindOfRow says what kind of row a step has.
func kindOfRow(r *history.Record) rowKind {
	switch v := r.Event.Verb; {
	case v == schedule.Deliver:
		return deliveryRow
	case v == schedule.Sync:
		return listRow
	case v == schedule.CachedGet || v == schedule.CachedList:
		return cachedRow
	case v == schedule.Start:
		return startRow
	case !v.IsRequest():
		return machineRow
	case r.Code == history.NoAnswer:
		return unansweredRow
	case refused(r):
		return refusedRow
	case r.Code == 404:
		return notFoundRow
	case r.Committed > 0:
		return commitRow
	case v.IsWrite():
		return unchangedRow
	default:
		return readRow
	}
}

// addLog adds the row of a log line.
func (b *runBuilder) addLog(l *history.Log) {
	row := pageRow{
		at: l.At, kind: logRow, lane: b.lanes[l.Actor], what: logWords(l), record: -1,
		causeRecord: -1, readsFromRecord: -1, object: -1,
	}
	if l.Level < 0 {
		row.kind = errorLogRow
	}
	if worthTelling(l) {
		row.flags = shownFlag
	}
	b.rows = append(b.rows, row)
}

// addEnding adds what is broken, and the end.
func (b *runBuilder) addEnding() {
	concluding := func(at time.Duration, kind rowKind, what, detail string) {
		b.rows = append(b.rows, pageRow{
			at: at, kind: kind, lane: -1, what: what, detail: detail, flags: shownFlag, record: -1,
			causeRecord: -1, readsFromRecord: -1, object: -1,
		})
	}
	for _, v := range b.history.Broken() {
		concluding(v.At, brokenRow, v.Property.Name+" is broken", cmp.Or(messageOf(v), strings.Join(valueLines(v.Values), ", ")))
	}
	if b.history.Outcome == history.Panicked {
		concluding(b.history.End, brokenRow, "Reconcile panicked", "")
	}
	concluding(b.history.End, endRow, ending(b.history), "")
}

// rowsOfRecords returns the row of each record.
func (b *runBuilder) rowsOfRecords() []int {
	rowOf := make([]int, len(b.history.Records))
	for i := range b.rows {
		if b.rows[i].record >= 0 {
			rowOf[b.rows[i].record] = i
		}
	}
	return rowOf
}

// fillColumns puts the rows into columns.
func (b *runBuilder) fillColumns(rowOf []int) {
	c, table := &b.run.Rows, &b.data.strings
	ref := func(record int) int {
		if record < 0 || record >= len(rowOf) {
			return 0
		}
		return rowOf[record] + 1
	}
	for i := range b.rows {
		r := &b.rows[i]
		c.At, c.Kind = append(c.At, r.at.Milliseconds()), append(c.Kind, int(r.kind))
		c.Flags, c.Lane = append(c.Flags, r.flags), append(c.Lane, r.lane)
		c.What, c.Answer = append(c.What, table.of(r.what)), append(c.Answer, table.of(r.answer))
		c.Notes, c.Detail = append(c.Notes, table.of(r.notes)), append(c.Detail, table.of(r.detail))
		c.Event = append(c.Event, table.of(r.event))
		c.Object, c.Version = append(c.Object, r.object+1), append(c.Version, r.version)
		c.Cause, c.Reads = append(c.Cause, ref(r.causeRecord)), append(c.Reads, ref(r.readsFromRecord))
		if r.kind == brokenRow {
			b.run.Violations = append(b.run.Violations, i)
		}
	}
}

// passID tells the passes of a run apart.
type passID struct{ thread, attempt int }

// fillPasses adds the passes of the processes under test, from their first step to their last.
func (b *runBuilder) fillPasses(rowOf []int) {
	index := map[passID]int{}
	for i := range b.history.Records {
		r := &b.history.Records[i]
		over := passOver(r)
		if over == "" || !b.tested(r.Event.Actor) {
			continue
		}
		id := passID{r.Thread, r.Attempt}
		at, known := index[id]
		if !known {
			at = len(b.run.Passes)
			index[id] = at
			name := b.data.strings.of(fmt.Sprintf("%s, pass %d", over, r.Attempt))
			first := rowOf[i]
			if first > 0 && b.rows[first-1].kind == passRow { // the row that says that it begins
				first--
			}
			b.run.Passes = append(b.run.Passes, [5]int{b.lanes[r.Event.Actor], first, rowOf[i], name, 0})
		}
		b.run.Passes[at][2] = rowOf[i]
	}
	for _, end := range b.history.Ends {
		at, known := index[passID{end.Thread, end.Attempt}]
		if known && end.Error != "" {
			b.run.Passes[at][4] = b.data.strings.of(end.Error)
		}
	}
}
