package simtest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// aCourse has a departure of each kind.
var aCourse = Course{
	Schedule: schedule.Schedule{
		Constraints: []schedule.Constraint{{
			Event: schedule.Event{Actor: "user", Key: "step 2", Verb: schedule.Patch, Kind: "Pod", Namespace: "default", Name: "a", Occurrence: 1},
			Waits: schedule.Event{Actor: "kcm", Verb: schedule.Update, Kind: "Pod", Subresource: "status", Namespace: "default", Name: "a",
				Occurrence: 2},
		}},
		Faults: []schedule.Fault{{
			Type:   schedule.LostResponse,
			At:     schedule.Event{Actor: "kcm", Verb: schedule.Create, Kind: "Pod", Namespace: "default", Occurrence: 1},
			Params: schedule.Params{Means: schedule.ConnectionLost, For: time.Second},
		}},
		Latencies: []schedule.Latency{{
			At:  schedule.Event{Actor: "kcm", Verb: schedule.Get, Kind: "Node", Name: "n", Occurrence: 1},
			For: 2 * time.Second,
		}},
	},
	Choices: []Choice{{At: 3, Take: 1}},
}

func ExampleCourse() {
	get := schedule.Event{Actor: "operator", Key: "default/a", Verb: schedule.Get, Kind: "Pod", Namespace: "default", Name: "a", Occurrence: 1}
	fmt.Println(Course{})
	fmt.Println(Course{
		Schedule: schedule.Schedule{
			Faults:    []schedule.Fault{{Type: schedule.Timeout, At: get}},
			Latencies: []schedule.Latency{{At: get, For: time.Second}},
		},
		Choices: []Choice{{At: 3, Take: 1}},
	})
	// Output:
	// the default order
	// Timeout at operator(default/a) Get Pod default/a #1
	// operator(default/a) Get Pod default/a #1 comes 1s late
	// at choice 3, take step 1
}

// TestCourseInline checks that a line stands for the course it was made from.
func TestCourseInline(t *testing.T) {
	for _, c := range []Course{{}, aCourse} {
		if again, err := parseCourse(c.inline()); err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("%s\nis read as\n%s: %v", c.inline(), again, err)
		}
		if strings.ContainsAny(c.inline(), "\n'") {
			t.Errorf("%s is more than a line, or hard to quote", c.inline())
		}
	}
}

func TestParseCourse(t *testing.T) {
	for _, test := range []struct{ text, err string }{
		{`{}`, ""},
		{`{"order":[{"hold":"a Get Pod #1","until":"b Update Pod #1"}]}`, ""},
		{`{`, "unexpected EOF"},
		{`{} {}`, "more than one"},
		{`{"orders":[]}`, `unknown field "orders"`},
		{`{"order":[{"hold":"a","until":"b Update Pod #1"}]}`, `event "a"`},
		{`{"latencies":[{"at":"a Get Pod #1","for":"soon"}]}`, `invalid duration "soon"`},
	} {
		_, err := parseCourse(test.text)
		if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%s: error is %v, want %q", test.text, err, test.err)
		}
	}
}

// FuzzParseCourse checks that a text is refused, or is a course whose own line says the same.
func FuzzParseCourse(f *testing.F) {
	f.Add(`{}`)
	f.Add(aCourse.inline())
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseCourse(text)
		if err != nil {
			return
		}
		if again, err := parseCourse(c.inline()); err != nil || again.inline() != c.inline() {
			t.Errorf("%s\nis read as\n%s: %v", c.inline(), again.inline(), err)
		}
	})
}

// TestTape checks which step is taken at which choice.
func TestTape(t *testing.T) {
	one := []sim.Choice{{}}
	three := []sim.Choice{{}, {}, {}}
	tape := &tape{choices: []Choice{{At: 1, Take: 2}, {At: 2, Take: 4}, {At: 9, Take: 1}}}
	for i, step := range []struct {
		enabled []sim.Choice
		want    int
	}{{three, 0}, {one, 0}, {three, 2}, {three, 1}, {three, 0}} {
		if got := tape.Choose(step.enabled); got != step.want {
			t.Errorf("step %d: takes %d, want %d", i, got, step.want)
		}
	}
	if tape.points != 4 {
		t.Errorf("it saw %d choices, want 4: where one step is enabled there is none", tape.points)
	}
}

// TestDecode checks that any input of a fuzz test is a course within bounds, and which.
func TestDecode(t *testing.T) {
	w := theWorld(t)
	for _, test := range []struct {
		data []byte
		want string
	}{
		{nil, "the default order"},
		{[]byte{0, 0, 0}, "the default order"},
		{[]byte{kindReorder, 1, 0, 0}, w.reorders[1].String()},
		{[]byte{kindReorder, 1, 0, 0, kindReorder, 1, 0, 9}, w.reorders[1].String()}, // the same again is nothing new
		{[]byte{kindReorder + kinds, byte(len(w.reorders)), byte(len(w.reorders) >> 8), 0}, w.reorders[0].String()},
		{[]byte{kindFault, 0, 0, 0}, "the default order"}, // the scenario has none
		{[]byte{kindLatency, 0, 0, 3}, w.requests[0].String() + " comes 8ms late"},
		{[]byte{kindLatency, 0, 0, 17}, w.requests[0].String() + " comes 1ms late"}, // the bound is 2m0s
		{[]byte{kindChoice, 2, 0, 1, kindChoice, 1, 0, 0}, "at choice 1, take step 1\nat choice 2, take step 2"},
		{[]byte{kindChoice, 2, 0, 1, kindChoice, 2, 0, 0}, "at choice 2, take step 2"},
	} {
		if got := w.decode(test.data).String(); got != test.want {
			t.Errorf("%v is\n%s\nwant\n%s", test.data, got, test.want)
		}
	}
	var long []byte
	for i := range byte(40) {
		long = append(long, kindChoice, i, 0, 0)
	}
	if got := w.decode(long).Size(); got != maxDepartures {
		t.Errorf("a long input has %d departures, want %d", got, maxDepartures)
	}
}
