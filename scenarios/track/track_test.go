package track

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// broken returns a finding that breaks properties under a schedule.
func broken(s *schedule.Schedule, properties ...string) history.Finding {
	h := &history.History{Outcome: history.Terminal}
	for _, name := range properties {
		h.Verdicts = append(h.Verdicts, property.Verdict{Property: &property.Definition{Name: name}, Status: property.Broken})
	}
	return history.Finding{Strategy: "sweep", Execution: 7, Run: h, Schedule: s}
}

// seen returns what a Sometimes came to.
func seen(held int) history.PropertyCoverage {
	return history.PropertyCoverage{Property: &property.Definition{Name: "reached", Type: property.Sometimes}, Held: held}
}

func TestCheck(t *testing.T) {
	one := &schedule.Schedule{Constraints: make([]schedule.Constraint, 1)}
	buggy := Row{Scenario: "web.yaml", Reconciler: "op/buggy", Breaks: []string{"a", "b"}, Budget: 10}
	correct := Row{Scenario: "web.yaml", Reconciler: "op/correct"}
	passes := history.Coverage{Executions: 9, Properties: []history.PropertyCoverage{seen(9), seen(0)}}
	tests := []struct {
		name   string
		row    Row
		result history.Result
		first  int
		want   string // part of the error; empty for none
	}{
		{"all is as stated", buggy, history.Result{Findings: []history.Finding{broken(one, "a"), broken(one, "b", "c")}}, 7, ""},
		{"one is missing", buggy, history.Result{Findings: []history.Finding{broken(one, "a")}}, 7, "b not broken"},
		{"another one", buggy, history.Result{Findings: []history.Finding{broken(one, "a", "b"), broken(one, "c")}}, 7,
			"breaks c, which its row does not state; it was found by sweep in execution 7"},
		{"too late", buggy, history.Result{Findings: []history.Finding{broken(one, "a", "b")}}, 11, "took 11 executions, its budget is 10"},
		{"too large", buggy, history.Result{Findings: []history.Finding{
			broken(&schedule.Schedule{Constraints: make([]schedule.Constraint, 3)}, "a", "b")}}, 7, "takes 3 orders and 0 faults"},
		{"nothing", correct, history.Result{Coverage: passes}, 0, ""},
		{"something", correct, history.Result{Findings: []history.Finding{broken(one, "a")}, Coverage: passes}, 7, "breaks a"},
		{"vacuous", correct, history.Result{Coverage: history.Coverage{Properties: []history.PropertyCoverage{seen(0)}}}, 0, "vacuous"},
		{"inconclusive", correct, history.Result{Coverage: history.Coverage{Executions: 9, Inconclusive: 1}}, 0, "1 of 9"},
		{"a rule that fails", correct, history.Result{Coverage: history.Coverage{Properties: []history.PropertyCoverage{
			{Property: &property.Definition{Name: "p"}, Invalid: 1, Error: "no such key"}}}}, 0, "p is invalid: no such key"},
		{"a script that fails", correct, history.Result{Coverage: history.Coverage{Problems: []string{"step 1 was refused"}}}, 0, "refused"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := test.row.Check(&Outcome{Entries: []Entry{{Result: &test.result}}, First: test.first})
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("the error is %v, want %q in it", err, test.want)
			}
		})
	}
}

func TestSmall(t *testing.T) {
	constraints, latencies := make([]schedule.Constraint, 3), []schedule.Latency{{For: time.Second}}
	for name, c := range map[string]struct {
		schedule *schedule.Schedule
		small    bool
	}{
		"default order":                {nil, true},
		"two constraints and a fault":  {&schedule.Schedule{Constraints: constraints[:2], Faults: make([]schedule.Fault, 1)}, true},
		"three constraints":            {&schedule.Schedule{Constraints: constraints}, false},
		"two faults":                   {&schedule.Schedule{Faults: make([]schedule.Fault, 2)}, false},
		"a constraint and a latency":   {&schedule.Schedule{Constraints: constraints[:1], Latencies: latencies}, true},
		"two constraints, one latency": {&schedule.Schedule{Constraints: constraints[:2], Latencies: latencies}, false},
		"three lists":                  {&schedule.Schedule{Orders: make([]schedule.Permutation, 3)}, false},
		"steps that are left out":      {&schedule.Schedule{Constraints: constraints[:2], Skip: []int{0, 1, 2}}, true},
		"only a trace":                 {&schedule.Schedule{Trace: &schedule.Trace{}}, false},
	} {
		if err := small(c.schedule); (err == nil) != c.small {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRecords(t *testing.T) {
	folder := t.TempDir()
	if records, err := ReadRecords(folder); err != nil || records != nil {
		t.Errorf("a folder without records has %v, %v", records, err)
	}
	file := filepath.Join(folder, File)
	if err := os.Mkdir(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	want := []Record{
		{Row: "web/op/buggy", First: 3, Executions: 9, Findings: []Finding{{Breaks: []string{"a"}, Decides: []string{"x → <y>."}}}},
		{Row: "web/op/correct", Executions: 9},
	}
	if err := WriteRecords(folder, want); err != nil {
		t.Fatal(err)
	}
	got, err := ReadRecords(folder)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := os.WriteFile(file, []byte(`[{"row": "a", "extra": 1}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadRecords(folder); err == nil || !strings.Contains(err.Error(), `unknown field "extra"`) {
		t.Errorf("the error is %v", err)
	}
}
