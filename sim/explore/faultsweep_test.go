package explore

import (
	"slices"
	"testing"
	"time"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

func rule(match schedule.Selector, types ...schedule.FaultType) sim.FaultRule {
	r := sim.FaultRule{Match: match}
	for _, t := range types {
		r.Faults = append(r.Faults, schedule.Fault{Type: t})
	}
	return r
}

func TestFaultSites(t *testing.T) {
	h := run(write("a", "before"), read("a", "x"), write("a", "x"), step("a", schedule.Deliver, "x"), write("r", "x"),
		write("a", "x"), step("a", schedule.CachedGet, "x"), write("unlocked", "x"))
	for i := range h.Records {
		h.Records[i].Locked = h.Records[i].Event.Verb.IsWrite() && h.Records[i].Event.Actor != "unlocked"
	}
	h.ScriptBegins = 1
	of := func(actor string) schedule.Selector { return schedule.Selector{Actor: actor} }
	tests := []struct {
		name   string
		faults sim.Faults
		want   []string
	}{
		{"none", sim.Faults{}, nil},
		{"every call, writes first", sim.Faults{Rules: []sim.FaultRule{rule(of("a"), schedule.Crash)}}, []string{
			"Crash at a Update ConfigMap default/x #1", "Crash at a Update ConfigMap default/x #2", "Crash at a Get ConfigMap default/x #1"}},
		{"only where it can strike", sim.Faults{Rules: []sim.FaultRule{rule(of("r"), schedule.Crash, schedule.Conflict, schedule.CacheLag)}},
			[]string{"Conflict at r Update ConfigMap default/x #1"}},
		{"a conflict where nothing is locked", sim.Faults{Rules: []sim.FaultRule{{Match: of("unlocked"), Faults: []schedule.Fault{
			{Type: schedule.Conflict}, {Type: schedule.Conflict, Params: schedule.Params{Means: schedule.CompetingWrite}}}}}},
			[]string{"Conflict CompetingWrite at unlocked Update ConfigMap default/x #1"}},
		{"a delivery", sim.Faults{Rules: []sim.FaultRule{rule(of(""), schedule.Relist)}},
			[]string{"Relist at a Deliver ConfigMap default/x #1"}},
		{"variants and rules", sim.Faults{Rules: []sim.FaultRule{
			rule(schedule.Selector{Verbs: []schedule.Verb{schedule.Get}}, schedule.Timeout, schedule.Forbidden),
			rule(schedule.Selector{Actor: "a", Verbs: []schedule.Verb{schedule.Get}}, schedule.NotFound)}},
			[]string{"Timeout at a Get ConfigMap default/x #1", "Forbidden at a Get ConfigMap default/x #1",
				"NotFound at a Get ConfigMap default/x #1"}},
		{"a fault that two rules have", sim.Faults{Rules: []sim.FaultRule{rule(of("a"), schedule.Invalid), rule(of("a"), schedule.Invalid)}},
			[]string{"Invalid at a Update ConfigMap default/x #1", "Invalid at a Update ConfigMap default/x #2"}},
		{"the n-th", sim.Faults{Rules: []sim.FaultRule{
			rule(schedule.Selector{Verbs: []schedule.Verb{schedule.Update}, Occurrence: 2}, schedule.Conflict)}},
			[]string{"Conflict at r Update ConfigMap default/x #1"}},
		{"before they heal", sim.Faults{Rules: []sim.FaultRule{rule(of(""), schedule.Conflict)}, HealAfter: 3 * time.Second},
			[]string{"Conflict at a Update ConfigMap default/x #1"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var got []string
			for _, s := range faultSites(h, &test.faults) {
				got = append(got, s.fault.String())
				if h.Records[s.record].Event != s.fault.At {
					t.Errorf("%s is at record %d, which is %s", s.fault, s.record, h.Records[s.record].Event)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("sites are\n%q, want\n%q", got, test.want)
			}
		})
	}
}

// TestReveal checks which calls of swept runs get faults of their own.
func TestReveal(t *testing.T) {
	crash := rule(schedule.Selector{}, schedule.Crash)
	crash.Name = "crash"
	single := crash
	single.Max = 1
	constraint := sim.Plan{Constraints: make([]schedule.Constraint, 1)}
	fault := sim.Plan{Faults: make([]schedule.Fault, 1)}
	fresh := func() *history.History {
		return run(read("a", "x"), write("a", "x"), write("r", "y"), write("a", "new"))
	}
	failed := fresh()
	failed.Outcome = history.Panicked
	tests := []struct {
		name    string
		faults  sim.Faults
		options Options
		plan    sim.Plan
		rule    string
		history *history.History
		want    int
	}{
		{"a reorder", sim.Faults{Rules: []sim.FaultRule{crash}}, Options{}, constraint, "", fresh(), 1},
		{"nothing new", sim.Faults{Rules: []sim.FaultRule{crash}}, Options{}, constraint, "", run(read("a", "x")), 0},
		{"a run that failed", sim.Faults{Rules: []sim.FaultRule{crash}}, Options{}, constraint, "", failed, 0},
		{"no rules", sim.Faults{}, Options{}, constraint, "", fresh(), 0},
		{"not wanted", sim.Faults{Rules: []sim.FaultRule{crash}}, Options{Revealed: -1}, constraint, "", fresh(), 0},
		{"one fault is all there may be", sim.Faults{Rules: []sim.FaultRule{crash}}, Options{}, fault, "crash", fresh(), 0},
		{"a second fault", sim.Faults{Rules: []sim.FaultRule{crash}, Max: 2}, Options{}, fault, "crash", fresh(), 1},
		{"one fault of the rule", sim.Faults{Rules: []sim.FaultRule{single}, Max: 2}, Options{}, fault, "crash", fresh(), 0},
		{"a fault of another rule", sim.Faults{Rules: []sim.FaultRule{single}, Max: 2}, Options{}, fault, "another", fresh(), 1},
	}
	for _, test := range tests {
		x := &explorer{Session: &Session{options: test.options, faults: &test.faults},
			result: &history.Result{Default: run(read("a", "x"), write("a", "x"))}}
		x.reveal(test.plan, test.rule, test.history)
		x.reveal(test.plan, test.rule, test.history) // reveals nothing more
		if got := len(x.revealed.plans); got != test.want {
			t.Errorf("%s: %d plans, want %d", test.name, got, test.want)
		}
		for _, plan := range x.revealed.plans {
			if last := plan.Faults[len(plan.Faults)-1]; last.At.Name != "new" || len(plan.Faults) != len(test.plan.Faults)+1 {
				t.Errorf("%s: the plan's faults are %v", test.name, plan.Faults)
			}
		}
	}
}
