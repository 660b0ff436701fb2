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

// lane is a thread of a run.
type lane struct{ process, thread int }

// checkTrace checks a trace by the rules of the format: each event has a known phase, each thread and process a name, slices of a
// thread do not overlap but nest, async slices and arrows have two ends in their order, and arrows end on slices.
func checkTrace(trace string) error {
	var file struct {
		TraceEvents []struct {
			Name, Ph, Cat, ID, BP, S string
			TS, Dur                  *float64
			PID, TID                 int
			Args                     map[string]any
		} `json:"traceEvents"`
	}
	if err := json.Unmarshal([]byte(trace), &file); err != nil {
		return err
	}
	var problems []error
	fail := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	named, processes := map[lane]bool{}, map[int]bool{}
	slices, last := map[lane]map[float64]bool{}, map[lane]float64{}
	open := map[string]float64{}
	for i, e := range file.TraceEvents {
		at := lane{e.PID, e.TID}
		if e.Ph != "M" && (!named[at] || !processes[e.PID]) {
			fail("event %d: %+v has no name", i, at)
		}
		if e.TS == nil || *e.TS < 0 || e.Name == "" {
			fail("event %d has no time or no name", i)
			continue
		}
		key := e.Cat + " " + e.ID
		switch e.Ph {
		case "M":
			named[at] = named[at] || e.Name == "thread_name"
			processes[e.PID] = processes[e.PID] || e.Name == "process_name"
			if name, _ := e.Args["name"].(string); name == "" {
				fail("event %d names nothing", i)
			}
		case "X":
			duration := 0.0
			if e.Dur != nil {
				duration = *e.Dur
			}
			if duration < 0 || *e.TS < last[at] {
				fail("event %d overlaps the one before, or lasts %v", i, duration)
			}
			last[at] = *e.TS + duration - 1e-6
			if slices[at] == nil {
				slices[at] = map[float64]bool{}
			}
			slices[at][*e.TS] = true
		case "s", "b":
			if _, twice := open[key]; twice || e.ID == "" {
				fail("event %d begins %q again", i, key)
			}
			open[key] = *e.TS
		case "f", "e":
			if begin, begun := open[key]; !begun || begin > *e.TS {
				fail("event %d ends %q, which did not begin before", i, key)
			}
			delete(open, key)
			if e.Ph == "f" && (e.BP != "e" || !slices[at][*e.TS]) {
				fail("event %d: the arrow ends at no slice", i)
			}
		case "i":
			if e.S != "t" && e.S != "p" {
				fail("event %d has scope %q", i, e.S)
			}
		default:
			fail("event %d has the phase %q", i, e.Ph)
		}
	}
	for key := range open {
		fail("%s has no end", key)
	}
	return errors.Join(problems...)
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
