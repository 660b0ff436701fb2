package scenarios_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// equateEmpty takes an empty list or mapping for one that is left out.
var equateEmpty = cmpopts.EquateEmpty()

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// everything are the files of a scenario that a schedule in the same folder can name.
func everything(t testing.TB) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	for _, pattern := range []string{"testdata/valid/everything.yaml", "testdata/valid/*/*.yaml"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatal(pattern, err)
		}
		for _, name := range names {
			files[strings.TrimPrefix(filepath.ToSlash(name), "testdata/valid/")] = &fstest.MapFile{Data: readFile(t, name)}
		}
	}
	return files
}

// TestEncodeSchedule checks how schedules look that are written.
func TestEncodeSchedule(t *testing.T) {
	for _, name := range []string{"everything", "matrix"} {
		file := loadSchedule(t, "testdata/valid-schedules/"+name+".yaml").File()
		file.Comment = "Found by the sweep.\n\nThe second write is lost."
		file.Timeline = "0s  operator  Get\n1s  operator\tUpdate\r\n"
		file.Properties = append(file.Properties, scenarios.Property{
			Name: "long", Type: "Terminal",
			Rule: `widget.?status.?phase.orValue("") != "Completed" || (set != null && set.metadata.uid != before.metadata.uid && ` +
				`set.spec.replicas == 1)`,
			Message: "first line: of two\nand the second #1",
		})
		written, err := scenarios.EncodeSchedule(file)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "testdata/valid-schedules/"+name+".txt", string(written))
	}
}

// trace returns a trace of so many rounds.
func trace(rounds int) *schedule.Trace {
	var trace schedule.Trace
	for i := range rounds {
		get := schedule.Event{
			Actor: "operator", Incarnation: 1, Key: "default/a", Verb: schedule.Get, Kind: "StatefulSet", Namespace: "default",
			Name: "web", Occurrence: i + 1,
		}
		update := get
		update.Verb, update.Subresource, update.Return = schedule.Update, "status", i%2 == 1
		update.Occurrence = i/2 + 1
		trace.Steps = append(trace.Steps, get, update, schedule.Event{Verb: schedule.Advance, Occurrence: i + 1})
		trace.Latencies = append(trace.Latencies, schedule.Latency{At: get, For: time.Duration(i) * 1234567})
		trace.Orders = append(trace.Orders, schedule.Permutation{At: update, Order: []int{2, 0, 1}})
	}
	return &trace
}

// TestTraceIsSmall checks that a trace of a long run does not swamp its file.
func TestTraceIsSmall(t *testing.T) {
	file := scenarios.ScheduleFile{Name: "long", Scenario: "everything.yaml", Spec: &schedule.Schedule{Trace: trace(2000)}}
	written, err := scenarios.EncodeSchedule(file)
	if err != nil {
		t.Fatal(err)
	}
	if most := 30 << 10; len(written) > most {
		t.Errorf("10000 events take %d bytes, want %d at most", len(written), most)
	}
}

// TestEncodeScheduleErrors checks what cannot be written.
func TestEncodeScheduleErrors(t *testing.T) {
	event := schedule.Event{Actor: "operator", Verb: schedule.Get, Occurrence: 1}
	for want, s := range map[string]schedule.Schedule{
		"has no count": {Constraints: []schedule.Constraint{{Event: event}}},
		"parameters that its type has no use for": {
			Faults: []schedule.Fault{{Type: schedule.Conflict, At: event, Params: schedule.Params{For: time.Second}}}},
		"there is no such type": {Faults: []schedule.Fault{{Type: "Quake", At: event}}},
		"a between ends with one verb": {
			Constraints: []schedule.Constraint{{Order: &schedule.Order{From: schedule.Get}}}},
		"no UTF-8": {Expect: schedule.Expectation{Signature: "\xff"}},
	} {
		_, err := scenarios.EncodeSchedule(scenarios.ScheduleFile{Name: "x", Spec: &s})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestEncodeScheduleRoundTrip writes schedules of all sorts, and reads them back.
func TestEncodeScheduleRoundTrip(t *testing.T) {
	files := everything(t)
	rapid.Check(t, func(t *rapid.T) {
		file := drawFile(t)
		written, err := scenarios.EncodeSchedule(file)
		if err != nil {
			t.Fatal(err)
		}
		files["schedule.yaml"] = &fstest.MapFile{Data: written}
		loaded, err := scenarios.LoadScheduleFS(files, "schedule.yaml", scenarios.Options{Registry: registry()})
		if err != nil {
			t.Fatalf("%v\n%s", err, written)
		}
		want := file
		want.Comment, want.Timeline = "", ""
		if diff := cmp.Diff(want, loaded.File(), equateEmpty); diff != "" {
			t.Fatalf("read back it is another (-written +read):\n%s\n%s", diff, written)
		}
		for line := range strings.Lines(string(written)) {
			if strings.TrimRight(line, " \n") != strings.TrimSuffix(line, "\n") {
				t.Fatalf("a line ends with a blank:\n%s", written)
			}
		}
	})
}

// text is any text that YAML can hold.
func text() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String(),
		rapid.StringOf(rapid.SampledFrom([]rune("ab  \n\t:#-'\"\\{}[],&*!|>%@`é\u2028~0"))),
		rapid.SampledFrom([]string{"", "true", "No", "null", "~", "12", "1e3", "0x1f", "-", "- a", "a: b", "a #b", "---", "? a", "<<"}),
		rapid.Map(rapid.SliceOfN(rapid.StringMatching(`[a-z(!=."]{1,12}`), 20, 60), func(words []string) string {
			return strings.Join(words, " ")
		}),
	)
}

func drawFile(t *rapid.T) scenarios.ScheduleFile {
	several := func(label string, draw func(i int)) {
		for i := range rapid.IntRange(0, 3).Draw(t, label) {
			draw(i)
		}
	}
	s := &schedule.Schedule{
		Expect: schedule.Expectation{
			Outcome:   rapid.SampledFrom([]schedule.Outcome{"", schedule.Violated}).Draw(t, "outcome"),
			Property:  rapid.SampledFrom([]string{"", "size-is-right"}).Draw(t, "property"),
			Signature: text().Draw(t, "signature"),
			Hash:      rapid.Uint64().Draw(t, "hash"),
		},
		WhenUnmatched: rapid.SampledFrom([]schedule.WhenUnmatched{"", schedule.Stale, schedule.Ignore}).Draw(t, "unmatched"),
		Origin: schedule.Origin{
			Strategy: text().Draw(t, "strategy"), Seed: rapid.Int64().Draw(t, "seed"), Size: rapid.Int().Draw(t, "size"),
			Minimal: rapid.Bool().Draw(t, "minimal"), Executions: rapid.Int().Draw(t, "executions"),
		},
		Skip: rapid.SampledFrom([][]int{nil, {0}, {1, 2}}).Draw(t, "skip"),
	}
	several("constraints", func(int) { s.Constraints = append(s.Constraints, drawConstraint(t)) })
	several("faults", func(int) { s.Faults = append(s.Faults, drawFault(t)) })
	several("latencies", func(int) {
		event := drawEvent(t, schedule.Get, schedule.Update)
		late := time.Duration(rapid.Int64Range(1, 1e15).Draw(t, "for"))
		s.Latencies = append(s.Latencies, schedule.Latency{At: event, Repeat: rapid.IntRange(0, 3).Draw(t, "repeat"), For: late})
	})
	several("orders", func(int) {
		event := drawEvent(t, schedule.Sync, schedule.CachedList)
		event.Occurrence = 0
		order := rapid.Permutation([]int{0, 1, 2, 3}).Draw(t, "order")
		s.Orders = append(s.Orders, schedule.Permutation{At: event, Repeat: rapid.IntRange(0, 3).Draw(t, "repeat"), Order: order})
	})
	if rapid.Bool().Draw(t, "traced") {
		s.Trace = trace(rapid.IntRange(0, 30).Draw(t, "rounds"))
	}
	file := scenarios.ScheduleFile{
		Comment: text().Draw(t, "comment"), Timeline: text().Draw(t, "timeline"), Name: "drawn", Scenario: "everything.yaml",
		Annotations: rapid.MapOfN(text(), text(), 0, 2).Draw(t, "annotations"),
		Reconcilers: rapid.SampledFrom([]map[string]string{nil, {"operator": "example/fixed"}}).Draw(t, "reconcilers"),
		Spec:        s,
	}
	delete(file.Annotations, "<<") // quoted it is still a merge key to sigs.k8s.io/yaml
	several("properties", func(i int) {
		file.Properties = append(file.Properties, scenarios.Property{
			Name: fmt.Sprintf("added-%d", i), Type: "Always", Rule: "true", Message: text().Draw(t, "message"),
		})
	})
	return file
}

func drawEvent(t *rapid.T, verbs ...schedule.Verb) schedule.Event {
	e := schedule.Event{
		Actor:       rapid.SampledFrom([]string{"operator", "gc", "user"}).Draw(t, "actor"),
		Controller:  rapid.SampledFrom([]string{"", "sets"}).Draw(t, "controller"),
		Key:         rapid.SampledFrom([]string{"", "default/a", "step 1"}).Draw(t, "key"),
		Verb:        rapid.SampledFrom(verbs).Draw(t, "verb"),
		Kind:        rapid.SampledFrom([]string{"StatefulSet", "Widget"}).Draw(t, "kind"),
		Namespace:   rapid.SampledFrom([]string{"", "default"}).Draw(t, "namespace"),
		Name:        rapid.SampledFrom([]string{"web", "a-0"}).Draw(t, "name"),
		Subresource: rapid.SampledFrom([]string{"", "status"}).Draw(t, "subresource"),
		Occurrence:  rapid.IntRange(1, 12).Draw(t, "occurrence"),
	}
	if e.Actor == "operator" {
		e.Incarnation = rapid.IntRange(1, 3).Draw(t, "incarnation")
	}
	return e
}

func drawSelector(t *rapid.T) schedule.Selector {
	return schedule.Selector{
		Actor:       rapid.SampledFrom([]string{"operator", "gc", "user"}).Draw(t, "actor"),
		Incarnation: rapid.IntRange(0, 2).Draw(t, "incarnation"),
		Controller:  text().Draw(t, "controller"),
		Key:         text().Draw(t, "key"),
		Verbs:       rapid.SampledFrom([][]schedule.Verb{{schedule.Update}, {schedule.Patch, schedule.Update}}).Draw(t, "verbs"),
		Kind:        rapid.SampledFrom([]string{"", "Widget"}).Draw(t, "kind"),
		Namespace:   text().Draw(t, "namespace"),
		Name:        text().Draw(t, "name"),
		Occurrence:  rapid.IntRange(0, 3).Draw(t, "occurrence"),
	}
}

func drawConstraint(t *rapid.T) schedule.Constraint {
	if rapid.Bool().Draw(t, "exact") {
		return schedule.Constraint{Event: drawEvent(t, schedule.Get, schedule.Update), Waits: drawEvent(t, schedule.Create)}
	}
	order := &schedule.Order{Hold: drawSelector(t), Until: drawSelector(t), Times: rapid.IntRange(0, 3).Draw(t, "times")}
	order.Until.Return = rapid.Bool().Draw(t, "return")
	if rapid.Bool().Draw(t, "between") {
		order.From = rapid.SampledFrom([]schedule.Verb{schedule.Get, schedule.CachedGet}).Draw(t, "from")
		order.Hold.Verbs = []schedule.Verb{schedule.Update}
	}
	return schedule.Constraint{Order: order}
}

func drawFault(t *rapid.T) schedule.Fault {
	f := rapid.SampledFrom([]schedule.Fault{
		{Type: schedule.Conflict},
		{Type: schedule.Conflict, Params: schedule.Params{Means: schedule.CompetingWrite}},
		{Type: schedule.Timeout, Params: schedule.Params{Layer: schedule.Client, RetryAfter: -1}},
		{Type: schedule.TooManyRequests, Params: schedule.Params{RetryAfter: 2 * time.Second}},
		{Type: schedule.LostResponse, Params: schedule.Params{Means: schedule.ConnectionLost}},
		{Type: schedule.AppliedTwice, Params: schedule.Params{RetryAfter: time.Second}},
		{Type: schedule.Delay, Params: schedule.Params{For: 3 * time.Minute, Point: schedule.AfterCommit}},
		{Type: schedule.Wedge, Params: schedule.Params{For: time.Hour}},
		{Type: schedule.WebhookDenial},
		{Type: schedule.WebhookFailure, Params: schedule.Params{Webhook: "quota.example.com", Means: schedule.DeadlineExceeded}},
		{Type: schedule.Forbidden},
	}).Draw(t, "fault")
	if rapid.Bool().Draw(t, "exact") {
		f.At = drawEvent(t, schedule.Update)
		return f
	}
	selector := drawSelector(t)
	f.Select = &selector
	return f
}
