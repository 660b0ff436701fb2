package explore

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// TestRepresentative checks which run stands for a cluster: the first, unless its order did not come about.
func TestRepresentative(t *testing.T) {
	var told []int
	x := &explorer{
		result: &history.Result{}, tally: newTally(&sim.Config{}), strategy: &history.StrategyResult{Name: Sweep},
		Session: &Session{options: Options{Found: func(f *history.Finding) error {
			told = append(told, f.Execution)
			return nil
		}}},
	}
	broken := func(name string, matched ...bool) *history.History {
		verdict := property.Verdict{Property: &property.Definition{Name: name}, Status: property.Broken}
		h := &history.History{Verdicts: []property.Verdict{verdict}}
		for _, m := range matched {
			h.Constraints = append(h.Constraints, history.ConstraintResult{Held: true, Matched: m})
		}
		return h
	}
	for i, h := range []*history.History{
		broken("a", false), broken("a", false), broken("b", true), broken("a", true), broken("a", true), broken("b", false),
		broken("c"),
	} {
		x.tally.Executions = i + 1
		if err := x.found(t.Context(), sim.Plan{}, h); err != nil {
			t.Fatal(err)
		}
	}
	type cluster struct{ execution, also int }
	var got []cluster
	for _, f := range x.result.Findings {
		got = append(got, cluster{f.Execution, f.Also})
	}
	if want := []cluster{{4, 3}, {3, 1}, {7, 0}}; !slices.Equal(got, want) {
		t.Errorf("findings are %v, want %v", got, want)
	}
	if want := []int{1, 3, 4, 7}; !slices.Equal(told, want) {
		t.Errorf("told of executions %v, want %v", told, want)
	}
}

func TestCompare(t *testing.T) {
	a, b := write("a", "x"), write("b", "x")
	first, other := run(a, b), run(a, b, read("a", "x"))
	other.Hash = 1
	var diverged *NondeterminismError
	if err := Compare(first, first); err != nil {
		t.Errorf("a history differs from itself: %v", err)
	}
	if err := Compare(first, other); !errors.As(err, &diverged) || diverged.Step != 2 || diverged.First != "the end of the run" {
		t.Errorf("compare returns %v, want the end of the first run", diverged)
	}
	other = run(a, b)
	other.Hash, other.Records[1].Code = 1, 409
	if err := Compare(first, other); !errors.As(err, &diverged) || diverged.Step != 1 {
		t.Errorf("compare returns %v, want the code of step 1", diverged)
	}
}

func TestSignature(t *testing.T) {
	failing := func(actor string, incarnation, code int) history.Record {
		event := schedule.Event{Actor: actor, Incarnation: incarnation, Verb: schedule.Update, Kind: "Pod"}
		return history.Record{Code: code, Event: event}
	}
	tests := []struct {
		name string
		h    history.History
		want string
	}{
		{"nothing", history.History{}, ""},
		{"last failing write of each process", history.History{Records: []history.Record{
			failing("op", 1, 409), failing("op", 1, 422), failing("op", 1, 200), failing("racer", 0, 409), failing("another", 2, 404)}},
			"another Update Pod 404\nop Update Pod 422"},
		{"panic with a place", history.History{Outcome: history.Panicked, Panic: panicOf(7)},
			"panic in example.com/op.(*R).Reconcile"},
		{"the same with another value", history.History{Outcome: history.Panicked, Panic: panicOf(9)},
			"panic in example.com/op.(*R).Reconcile"},
		{"panic without a stack", history.History{Outcome: history.Panicked, Panic: "operator: no"}, "panic operator: no"},
	}
	for _, test := range tests {
		if got := Signature(&test.h); got != test.want {
			t.Errorf("%s: signature is %q, want %q", test.name, got, test.want)
		}
	}
}

func panicOf(index int) string {
	return "operator: index out of range [" + string(rune('0'+index)) + `]

goroutine 35 [running, synctest bubble 3]:
runtime/debug.Stack()
	/go/src/runtime/debug/stack.go:26 +0x5e
example.com/client.(*reconciler).Reconcile.func1()
	/src/controller.go:92 +0x45
panic({0x15a4c20?, 0x3e6a2c0?})
	/go/src/runtime/panic.go:783 +0x132
runtime.goPanicIndex(0x9, 0x3)
	/go/src/runtime/panic.go:115 +0x72
example.com/op.(*R).Reconcile(0xc000123400, {0x1, 0x2})
	/src/r.go:30 +0x1d
`
}

// TestSameBug checks which findings are one.
func TestSameBug(t *testing.T) {
	broken := func(code int, s *schedule.Schedule) *history.Finding {
		h := &history.History{Outcome: history.Panicked, Panic: panicOf(7)}
		h.Records = []history.Record{{Code: code, Event: schedule.Event{Actor: "op", Incarnation: 1, Verb: schedule.Update}}}
		return &history.Finding{Signature: Signature(h), Run: h, Schedule: s}
	}
	order := func(actors ...string) *schedule.Schedule {
		s := &schedule.Schedule{}
		for _, actor := range actors {
			s.Constraints = append(s.Constraints, schedule.Constraint{Event: schedule.Event{Actor: actor}})
		}
		return s
	}
	crash := order("a")
	crash.Faults = []schedule.Fault{{Type: schedule.Crash}}
	tests := []struct {
		name         string
		known, other *history.Finding
		same         bool
	}{
		{"the default order, and an order with another failing write", broken(200, nil), broken(409, order("a")), true},
		{"two orders with different failing writes", broken(200, order("a")), broken(409, order("b")), false},
		{"two orders with the same failing write", broken(409, order("a")), broken(409, order("b")), true},
		{"one order with different failing writes", broken(200, order("a")), broken(409, order("a")), true},
		{"one that needs more", broken(200, order("a")), broken(409, order("b", "a")), true},
		{"one that needs less", broken(200, order("b", "a")), broken(409, order("a")), false},
		{"one that needs a fault, too", broken(200, order("a")), broken(409, crash), true},
		{"one that needs no fault", broken(200, crash), broken(409, order("a")), false},
	}
	for _, test := range tests {
		if got := sameBug(test.known, test.other); got != test.same {
			t.Errorf("%s: one finding is %v, want %v", test.name, got, test.same)
		}
	}
}

// TestAccountsFor checks which runs of strategies need not be shrunk.
func TestAccountsFor(t *testing.T) {
	run := func(code int, struck ...schedule.FaultType) *history.History {
		h := &history.History{Outcome: history.Panicked, Panic: panicOf(7)}
		h.Records = []history.Record{{Code: code, Event: schedule.Event{Actor: "op", Incarnation: 1, Verb: schedule.Update}}}
		for _, fault := range struck {
			h.Faults = append(h.Faults, history.FaultResult{Fault: schedule.Fault{Type: fault}, Struck: true, Record: -1})
		}
		return h
	}
	some := &schedule.Schedule{}
	tests := []struct {
		name  string
		known history.Finding
		run   *history.History
		want  bool
	}{
		{"the same", history.Finding{Schedule: some, Run: run(409)}, run(409), true},
		{"another failing write", history.Finding{Schedule: some, Run: run(409)}, run(422), false},
		{"another failing write, and the default order", history.Finding{Run: run(409)}, run(422), true},
		{"a fault more", history.Finding{Schedule: some, Run: run(409)}, run(409, schedule.Crash), true},
		{"a fault less", history.Finding{Schedule: some, Run: run(409, schedule.Crash)}, run(409, schedule.Delay), false},
		{"the same fault, and more", history.Finding{Schedule: some, Run: run(409, schedule.Crash)},
			run(409, schedule.Delay, schedule.Crash), true},
	}
	for _, test := range tests {
		if got := accountsFor(&test.known, test.run); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

// TestSignatureFaults checks which faults a signature names: those whose outcome the operator's last failing write does not show.
func TestSignatureFaults(t *testing.T) {
	record := func(code int, fault schedule.FaultType, retry bool) history.Record {
		event := schedule.Event{Actor: "op", Incarnation: 1, Verb: schedule.Update, Kind: "Pod"}
		return history.Record{Code: code, Event: event, Fault: fault, Retry: retry}
	}
	tests := []struct {
		name    string
		records []history.Record
		want    string
	}{
		{"shown", []history.Record{record(422, schedule.Invalid, false)}, "op Update Pod 422"},
		{"no answer", []history.Record{record(history.NoAnswer, schedule.LostResponse, false)}, "op Update Pod no answer"},
		{"overtaken by another failure", []history.Record{record(422, schedule.Invalid, false), record(409, "", false)},
			"op Update Pod 409\nop Update Pod refused"},
		{"that client-go kept to itself", []history.Record{record(429, schedule.TooManyRequests, true)}, "op Update Pod refused"},
		{"a response that was lost, and the next write failed", []history.Record{record(history.NoAnswer, schedule.LostResponse, false),
			record(409, "", false)}, "op Update Pod 409\nfault LostResponse"},
		{"a crash", []history.Record{record(history.NoAnswer, schedule.Crash, false)}, "fault Crash"},
		{"two crashes", []history.Record{record(history.NoAnswer, schedule.Crash, false), record(0, schedule.Crash, false)}, "fault Crash"},
	}
	for _, test := range tests {
		h := &history.History{Records: test.records}
		for i, r := range test.records {
			fault := schedule.Fault{Type: r.Fault, At: r.Event}
			h.Faults = append(h.Faults, history.FaultResult{Fault: fault, Struck: r.Fault != "", Record: i})
		}
		if got := Signature(h); got != test.want {
			t.Errorf("%s: signature is %q, want %q", test.name, got, test.want)
		}
	}
}

// TestReplayOutcome checks how a run compares with what its schedule expects.
func TestReplayOutcome(t *testing.T) {
	holds := &history.History{Outcome: history.Terminal}
	panicked := &history.History{Outcome: history.Panicked, Panic: panicOf(7)}
	broken := &history.History{Verdicts: []property.Verdict{{Property: &property.Definition{Name: "up"}, Status: property.Broken}}}
	unmatched := func(h *history.History) *history.History {
		some := *h
		some.Constraints = []history.ConstraintResult{{}}
		return &some
	}
	violated := func(propertyName, signature string) schedule.Expectation {
		return schedule.Expectation{Outcome: schedule.Violated, Property: propertyName, Signature: signature}
	}
	tests := []struct {
		name   string
		expect schedule.Expectation
		when   schedule.WhenUnmatched
		run    *history.History
		want   history.ReplayOutcome
		stale  bool
	}{
		{"nothing expected, and it fails", schedule.Expectation{}, "", broken, history.Reproduced, false},
		{"the property", violated("up", ""), "", broken, history.Reproduced, false},
		{"another property", violated("down", ""), "", broken, history.ReproducedDifferently, false},
		{"a panic in place of the property", violated("up", ""), "", panicked, history.ReproducedDifferently, false},
		{"the signature", violated("", history.SignatureID("panic in example.com/op.(*R).Reconcile")), "", panicked, history.Reproduced, false},
		{"another signature", violated("", history.SignatureID("panic elsewhere")), "", panicked, history.ReproducedDifferently, false},
		{"fails, and something is unmatched", violated("up", ""), "", unmatched(broken), history.Reproduced, false},
		{"no failure", violated("up", ""), "", holds, history.NotReproduced, false},
		{"no failure, and something is unmatched", violated("up", ""), "", unmatched(holds), history.NotReproduced, true},
		{"the same, and that is fine", violated("up", ""), schedule.Ignore, unmatched(holds), history.NotReproduced, false},
		{"holds as expected", schedule.Expectation{Outcome: schedule.Holds}, "", holds, history.Reproduced, false},
		{"holds, but stale", schedule.Expectation{Outcome: schedule.Holds}, "", unmatched(holds), history.NotReproduced, true},
		{"holds, and what is unmatched is fine", schedule.Expectation{Outcome: schedule.Holds}, schedule.Ignore, unmatched(holds),
			history.Reproduced, false},
		{"should hold", schedule.Expectation{Outcome: schedule.Holds}, "", broken, history.ReproducedDifferently, false},
	}
	for _, test := range tests {
		s := &schedule.Schedule{Expect: test.expect, WhenUnmatched: test.when,
			Constraints: make([]schedule.Constraint, len(test.run.Constraints))}
		r := compared(s, test.run)
		if r.Outcome != test.want || r.Stale() != test.stale || r.Matched != 0 || r.Elements != len(s.Constraints) {
			t.Errorf("%s: %s, stale %v, %d of %d matched; want %s, stale %v", test.name, r.Outcome, r.Stale(), r.Matched, r.Elements,
				test.want, test.stale)
		}
	}
}

// TestUnmatched checks which elements of a schedule count as unmatched.
func TestUnmatched(t *testing.T) {
	late := write("a", "x")
	late.Event.Occurrence = 1
	h := run(write("a", "x"))
	h.Constraints = []history.ConstraintResult{{Matched: true}, {Constraint: schedule.Constraint{Event: late.Event, Waits: late.Event}}}
	h.Faults = []history.FaultResult{{Struck: true}, {Fault: schedule.Fault{Type: schedule.Crash, At: late.Event}},
		{Fault: schedule.Fault{Type: schedule.Delay}}} // the last is a strategy's
	s := &schedule.Schedule{Constraints: make([]schedule.Constraint, 2), Faults: make([]schedule.Fault, 2),
		Latencies: []schedule.Latency{{At: late.Event, For: 1}, {At: schedule.Event{Actor: "nobody", Verb: schedule.Get}, For: time.Second}}}
	want := []string{"a Update ConfigMap default/x #1 waits for a Update ConfigMap default/x #1",
		"Crash at a Update ConfigMap default/x #1", "nobody Get takes 1s"}
	if got := unmatched(s, h); !slices.Equal(got, want) {
		t.Errorf("unmatched are %q, want %q", got, want)
	}
}
