package history_test

import (
	"testing"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// TestConflict checks which pairs of steps matter in their order. Conflict(a, b) is of a, which comes first and would be held.
func TestConflict(t *testing.T) {
	step := func(actor string, verb schedule.Verb, name string) history.Record {
		r := history.Record{Event: schedule.Event{Actor: actor, Verb: verb, Kind: "Pod", Namespace: "default", Name: name}}
		if actor == "operator" {
			r.Event.Incarnation = 1
		}
		if verb.IsWrite() {
			r.Committed = 7
		}
		return r
	}
	list := history.Record{Event: schedule.Event{Actor: "operator", Incarnation: 1, Verb: schedule.Sync, Kind: "Pod"}}
	relist := list
	relist.Fault = schedule.Relist
	refused := step("kcm", schedule.Update, "web-0")
	refused.Committed, refused.Code = 0, 409
	get, cachedGet := step("operator", schedule.Get, "web-0"), step("operator", schedule.CachedGet, "web-0")
	update, other := step("kcm", schedule.Update, "web-0"), step("kcm", schedule.Update, "web-1")
	deliver, dequeue := step("operator", schedule.Deliver, "web-0"), step("kcm", schedule.Dequeue, "")
	tests := []struct {
		name              string
		a, b              history.Record
		forward, backward bool // Conflict(a, b), Conflict(b, a)
	}{
		{"a read and a write", get, update, true, true},
		{"a read and a write of another object", get, other, false, false},
		{"a read and a write that was refused", get, refused, false, false},
		{"two writes of a racer", update, update, false, false},
		{"two writes of an operator", step("operator", schedule.Update, "web-0"), step("operator", schedule.Patch, "web-0"), true, true},
		{"a cached read and a delivery", cachedGet, deliver, true, true},
		{"a cached list and a delivery", step("operator", schedule.CachedList, ""), deliver, true, true},
		{"a cached read and another actor's delivery", cachedGet, step("kcm", schedule.Deliver, "web-0"), false, false},
		{"a racer's pass and a delivery", dequeue, step("kcm", schedule.Deliver, "web-0"), true, true},
		{"a cached read and a new list", cachedGet, relist, true, true},
		{"a cached read and an initial list", cachedGet, list, false, false},
		{"a commit and an initial list", update, list, true, false},
		{"a commit and a new list", update, relist, true, true},
		{"a refusal and a new list", refused, relist, false, false},
	}
	for _, test := range tests {
		if got := history.Conflict(&test.a, &test.b); got != test.forward {
			t.Errorf("%s: conflict is %v, want %v", test.name, got, test.forward)
		}
		if got := history.Conflict(&test.b, &test.a); got != test.backward {
			t.Errorf("%s, the other way round: conflict is %v, want %v", test.name, got, test.backward)
		}
	}
}
