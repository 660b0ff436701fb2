package reports

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// watched is a run in which a cache is told of a write, and a pass ends.
func watched() *history.Result {
	r := found()
	h := r.Findings[0].Run
	for i := range h.Records {
		switch r := &h.Records[i]; {
		case r.Event.Verb == schedule.Deliver:
			r.Cause = 2 // the status write before it
		case r.Attempt > 0:
			r.Thread = 3
		}
	}
	h.Ends = []history.PassEnd{{At: h.Records[10].At, Thread: 3, Attempt: 1, Record: 10}}
	h.Records[4].Fault = schedule.Invalid
	return r
}

func traced(t *testing.T, documents ...Document) string {
	t.Helper()
	var b bytes.Buffer
	if err := Trace(&b, documents); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTraceGolden(t *testing.T) {
	p := reproduced()
	golden(t, "trace.json", traced(t, Document{Result: watched()}, Document{Result: &history.Result{Header: found().Header}, Replay: &p}))
}

// readEvent is an event as a viewer reads it.
type readEvent struct {
	Name, Ph, Cat, ID, BP, S string
	TS, Dur                  *float64
	PID, TID                 int
	Args                     map[string]any
}

// lane is a thread of a run.
type lane struct{ process, thread int }

// traceChecker checks a trace by the rules of the format: each event has a known phase, each thread and process a name, slices of
// a thread do not overlap, async slices and arrows have two ends in their order, and arrows end on slices.
type traceChecker struct {
	named     map[lane]bool
	processes map[int]bool
	starts    map[lane]map[float64]bool // of slices
	last      map[lane]float64          // end of the last slice
	open      map[string]float64
	problems  []error
}

func checkTrace(trace string) error {
	var file struct{ TraceEvents []readEvent }
	if err := json.Unmarshal([]byte(trace), &file); err != nil {
		return err
	}
	c := traceChecker{map[lane]bool{}, map[int]bool{}, map[lane]map[float64]bool{}, map[lane]float64{}, map[string]float64{}, nil}
	for i := range file.TraceEvents {
		e := &file.TraceEvents[i]
		if e.TS == nil || *e.TS < 0 || e.Name == "" {
			c.fail("event %d has no time or no name", i)
			continue
		}
		c.event(i, e)
	}
	for key := range c.open {
		c.fail("%s has no end", key)
	}
	return errors.Join(c.problems...)
}

func (c *traceChecker) fail(format string, args ...any) {
	c.problems = append(c.problems, fmt.Errorf(format, args...))
}

func (c *traceChecker) event(i int, e *readEvent) {
	at, key := lane{e.PID, e.TID}, e.Cat+" "+e.ID
	if e.Ph != "M" && (!c.named[at] || !c.processes[e.PID]) {
		c.fail("event %d: %+v has no name", i, at)
	}
	switch e.Ph {
	case "M":
		c.named[at] = c.named[at] || e.Name == "thread_name"
		c.processes[e.PID] = c.processes[e.PID] || e.Name == "process_name"
		if name, _ := e.Args["name"].(string); name == "" {
			c.fail("event %d names nothing", i)
		}
	case "X":
		if e.Dur == nil || *e.Dur < 0 || *e.TS < c.last[at] {
			c.fail("event %d overlaps the one before, or has no length", i)
			return
		}
		const rounding = 1e-6 // a picosecond
		c.last[at] = *e.TS + *e.Dur - rounding
		if c.starts[at] == nil {
			c.starts[at] = map[float64]bool{}
		}
		c.starts[at][*e.TS] = true
	case "s", "b":
		if _, twice := c.open[key]; twice || e.ID == "" {
			c.fail("event %d begins %q again", i, key)
		}
		c.open[key] = *e.TS
	case "f", "e":
		if begin, begun := c.open[key]; !begun || begin > *e.TS {
			c.fail("event %d ends %q, which did not begin before", i, key)
		}
		delete(c.open, key)
		if e.Ph == "f" && (e.BP != "e" || !c.starts[at][*e.TS]) {
			c.fail("event %d: the arrow ends at no slice", i)
		}
	case "i":
		if e.S != "t" && e.S != "p" {
			c.fail("event %d has scope %q", i, e.S)
		}
	default:
		c.fail("event %d has the phase %q", i, e.Ph)
	}
}

func TestTraceRules(t *testing.T) {
	if err := checkTrace(traced(t, append(documents(), Document{Result: watched()})...)); err != nil {
		t.Error(err)
	}
	good := traced(t, Document{Result: watched()})
	for name, wrong := range map[string]string{
		"no end of an arrow": strings.Replace(good, `"ph":"f"`, `"ph":"i"`, 1),
		"a nameless thread":  strings.Replace(good, `"name":"thread_name"`, `"name":"nothing"`, 1),
		"a new phase":        strings.Replace(good, `"ph":"X"`, `"ph":"Q"`, 1),
		"a long slice":       strings.Replace(good, `"dur":`, `"dur":9e9,"was":`, 1),
	} {
		if wrong == good || checkTrace(wrong) == nil {
			t.Errorf("%s is not noticed", name)
		}
	}
}

func TestTraceReportsWriteErrors(t *testing.T) {
	if err := Trace(brokenWriter{}, documents()); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("Trace to a broken writer: %v", err)
	}
}
