package explore

import (
	"errors"
	"slices"
	"testing"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// TestRepresentative checks which run stands for a cluster: the first, unless its order did not come about.
func TestRepresentative(t *testing.T) {
	var told []int
	x := &explorer{
		result: &history.Result{}, coverage: newCoverage(&sim.Config{}), strategy: &history.StrategyResult{Name: Sweep},
		options: Options{Found: func(f *history.Finding) error {
			told = append(told, f.Execution)
			return nil
		}},
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
		x.coverage.executions = i + 1
		if err := x.found(sim.Plan{}, h); err != nil {
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
	if err := compare(first, first); err != nil {
		t.Errorf("a history differs from itself: %v", err)
	}
	if err := compare(first, other); !errors.As(err, &diverged) || diverged.Step != 2 || diverged.First != "the end of the run" {
		t.Errorf("compare returns %v, want the end of the first run", diverged)
	}
	other = run(a, b)
	other.Hash, other.Records[1].Code = 1, 409
	if err := compare(first, other); !errors.As(err, &diverged) || diverged.Step != 1 {
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

// TestSameBug checks that a run which only adds to what the default order breaks is no second finding.
func TestSameBug(t *testing.T) {
	broken := func(strategy string, code int) *history.Finding {
		h := &history.History{Outcome: history.Panicked, Panic: panicOf(7)}
		h.Records = []history.Record{{Code: code, Event: schedule.Event{Actor: "op", Incarnation: 1, Verb: schedule.Update}}}
		return &history.Finding{Strategy: strategy, Signature: Signature(h), Run: h}
	}
	if !sameBug(broken(DefaultOrder, 200), broken(Sweep, 409)) {
		t.Error("what the default order breaks, and a sweep with another failing write too, are two findings, want one")
	}
	if sameBug(broken(Sweep, 200), broken(Sweep, 409)) {
		t.Error("two orders that end with different failing writes are one finding, want two")
	}
}
