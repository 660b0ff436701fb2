package reports

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// crashed is a finding with faults: an answer that is lost, a crash, a request that comes late, and a cache that lags; one more
// fault found nothing to strike at. The operator creates twice what it should create once.
func crashed() *history.Result {
	t := newTape()
	t.attempt = 1
	set := statefulSet("7", 1, appsv1.StatefulSetStatus{})
	zero := statefulSet("9", 0, appsv1.StatefulSetStatus{})
	failed := func(fault schedule.FaultType, message string, committed int64) func(*history.Record) {
		return func(r *history.Record) {
			r.Fault, r.Code, r.Message, r.Committed = fault, history.NoAnswer, message, committed
			r.Before, r.After = set, zero
		}
	}
	create := t.step("operator", schedule.Create, "StatefulSet", "chi-a-0-0", "", func(r *history.Record) {
		r.Code, r.Reason, r.Fault, r.Retry = 503, "ServiceUnavailable", schedule.ServiceUnavailable, true
		r.Message = "the server is currently unable to handle the request"
	})
	t.step("operator", schedule.Create, "StatefulSet", "chi-a-0-0", "", func(r *history.Record) {
		r.Code, r.After, r.Committed = 201, set, 7
	})
	lost := t.step("operator", schedule.Update, "StatefulSet", "chi-a-0-0", "",
		failed(schedule.LostResponse, "http2: client connection lost", 9))
	t.step("user", schedule.Patch, "StatefulSet", "chi-a-0-0", "", write(zero, set, 10))
	t.now += 30 * time.Second
	lag := t.step("operator", schedule.Deliver, "StatefulSet", "chi-a-0-0", "", func(r *history.Record) {
		r.Fault, r.Held = schedule.CacheLag, 30*time.Second
	})
	dies := t.step("operator", schedule.Delete, "Pod", "p", "", failed(schedule.Crash, "the process crashed", 0))
	t.now += time.Second
	start := t.step("operator", schedule.Start, "", "", "", func(r *history.Record) { r.Event.Incarnation, r.Event.Namespace = 2, "" })
	late := t.step("kcm", schedule.Update, "StatefulSet", "chi-a-0-0", "status", write(set, zero, 11))
	h := t.end()
	at := func(i int, f schedule.FaultType, rule string, p schedule.Params) history.FaultResult {
		return history.FaultResult{Fault: schedule.Fault{Type: f, At: h.Records[i].Event, Params: p}, Rule: rule, Struck: true, Record: i}
	}
	h.Faults = []history.FaultResult{
		at(create, schedule.ServiceUnavailable, "", schedule.Params{Layer: schedule.Transport}),
		at(lost, schedule.LostResponse, "lost-ack", schedule.Params{Means: schedule.ConnectionLost}),
		at(lag, schedule.CacheLag, "stale", schedule.Params{}),
		at(dies, schedule.Crash, "crash", schedule.Params{Point: schedule.BeforeCall}),
		{Fault: schedule.Fault{Type: schedule.Upgrade, At: h.Records[start].Event, Params: schedule.Params{Reconciler: "x/y"}}, Record: -1},
	}
	h.Verdicts = []property.Verdict{{Property: completed, Status: property.Broken, At: h.End}}
	pods := schedule.Event{Actor: "operator", Verb: schedule.CachedList, Kind: "Pod", Namespace: "default"}
	r := found()
	r.Findings = []history.Finding{{
		Signature: "s", Strategy: "selective PCT", Seed: 12, Execution: 40, Elapsed: time.Second, Run: h,
		Schedule: &schedule.Schedule{
			Faults:    []schedule.Fault{h.Faults[0].Fault, h.Faults[1].Fault, h.Faults[2].Fault, h.Faults[3].Fault},
			Latencies: []schedule.Latency{{At: h.Records[late].Event, For: 40 * time.Millisecond}},
			Orders:    []schedule.Permutation{{At: pods, Repeat: 2, Order: []int{1, 0}}},
			Skip:      []int{0, 2},
			Origin:    schedule.Origin{Strategy: "selective PCT", Seed: 12, Size: 57, Minimal: true, Executions: 31},
		},
	}}
	r.Strategies = append(r.Strategies[:2:2],
		history.StrategyResult{Name: "fault sweep", Executions: 40, Complete: true, Candidates: 40, Unmatched: 2, Scope: "every fault"},
		history.StrategyResult{Name: "sweep of revealed sites", Complete: true},
		history.StrategyResult{Name: "selective PCT", Executions: 12, Findings: 1})
	r.Coverage.Rules = []history.RuleResult{
		{Name: "lost-ack", Eligible: 120, Struck: 14}, {Name: "stale", Eligible: 1, Struck: 1},
		{Name: "upgrade", Eligible: 3}, {Name: "wedge"},
	}
	return r
}

// TestFaultWords checks that each fault is told in words, and differently where it comes about differently.
func TestFaultWords(t *testing.T) {
	update := schedule.Event{Actor: "operator", Verb: schedule.Update, Kind: "StatefulSet", Namespace: "default", Name: "x"}
	deliver := schedule.Event{Actor: "operator", Verb: schedule.Deliver, Kind: "StatefulSet", Namespace: "default", Name: "x"}
	for _, c := range []struct {
		fault schedule.Fault
		want  string
	}{
		{schedule.Fault{Type: schedule.Conflict}, "operator's Update of StatefulSet default/x was answered 409 Conflict, as if"},
		{schedule.Fault{Type: schedule.Conflict, Params: schedule.Params{Means: schedule.CompetingWrite}},
			"Somebody else wrote StatefulSet default/x just before operator's Update"},
		{schedule.Fault{Type: schedule.Invalid}, "was answered 422 Invalid, and was not carried out"},
		{schedule.Fault{Type: schedule.ServerTimeout}, "was answered 500 ServerTimeout, and was not carried out"},
		{schedule.Fault{Type: schedule.Timeout}, "was answered 504 Timeout, and was not carried out"},
		{schedule.Fault{Type: schedule.LostResponse},
			"The connection broke after operator's Update of StatefulSet default/x was carried out: operator never saw the answer."},
		{schedule.Fault{Type: schedule.LostResponse, Params: schedule.Params{Means: schedule.RequestTimeout}},
			"was carried out, but answered 504"},
		{schedule.Fault{Type: schedule.AppliedTwice}, "it was sent twice"},
		{schedule.Fault{Type: schedule.Delay, Params: schedule.Params{For: time.Minute}}, "reached the server 1m late."},
		{schedule.Fault{Type: schedule.Delay, Params: schedule.Params{For: time.Minute, Point: schedule.AfterCommit}},
			"The answer to operator's Update of StatefulSet default/x came back 1m late."},
		{schedule.Fault{Type: schedule.Wedge}, "did not happen, until the faults healed"},
		{schedule.Fault{Type: schedule.CacheLag, At: deliver, Params: schedule.Params{For: 30 * time.Second}},
			"The cache of operator lagged 30s behind on StatefulSet default/x"},
		{schedule.Fault{Type: schedule.WatchDrop, At: deliver}, "The watch of operator ended at StatefulSet default/x, and went on later"},
		{schedule.Fault{Type: schedule.Relist, At: deliver}, "(410 Gone)"},
		{schedule.Fault{Type: schedule.Crash, Params: schedule.Params{For: time.Second}},
			"operator crashed before its Update of StatefulSet default/x reached the server, and started again 1s later with an empty"},
		{schedule.Fault{Type: schedule.Crash, Params: schedule.Params{Point: schedule.AfterCommit}}, "crashed after its Update"},
		{schedule.Fault{Type: schedule.Upgrade, Params: schedule.Params{Reconciler: "x/y", For: time.Second}},
			"x/y started in its place 1s later"},
		{schedule.Fault{Type: schedule.LateDelete, Params: schedule.Params{For: time.Minute}},
			"StatefulSet default/x went 1m later than operator"},
	} {
		if c.fault.At == (schedule.Event{}) {
			c.fault.At = update
		}
		if got := faultWords(c.fault); !strings.Contains(got, c.want) {
			t.Errorf("%s is told as %q, want %q in it", c.fault, got, c.want)
		}
	}
}

// TestEveryFaultIsTold checks that no type of fault is told as another one is.
func TestEveryFaultIsTold(t *testing.T) {
	told := map[string]schedule.FaultType{}
	for _, f := range schedule.FaultTypes() {
		words := faultWords(schedule.Fault{Type: f, At: schedule.Event{Actor: "a", Verb: schedule.Delete, Kind: "Pod", Name: "p"}})
		if other, twice := told[words]; twice {
			t.Errorf("%s and %s are both told as %q", other, f, words)
		}
		told[words] = f
	}
}

// TestUpgradeInTimeline checks that the timeline names the reconciler that starts in the place of another.
func TestUpgradeInTimeline(t *testing.T) {
	tape := newTape()
	tape.attempt = 1
	get := tape.step("operator", schedule.Get, "Widget", "w", "", nil)
	tape.step("operator", schedule.Start, "", "", "", func(r *history.Record) { r.Event.Incarnation = 2 })
	tape.Faults = []history.FaultResult{{Struck: true, Record: get, Fault: schedule.Fault{
		Type: schedule.Upgrade, At: tape.Records[get].Event, Params: schedule.Params{Reconciler: "widget/v2"}}}}
	var rows []string
	for _, r := range newTimeline(tape.end(), []string{"operator"}, nil).rows {
		rows = append(rows, r.words())
	}
	if got := strings.Join(rows, "\n"); !strings.Contains(got, "widget/v2 starts in its place") {
		t.Errorf("the timeline says:\n%s", got)
	}
}

// TestLostReadsTellNothing checks that a request which a fault answered is not taken for a look at its object.
func TestLostReadsTellNothing(t *testing.T) {
	for name, c := range map[string]struct {
		record history.Record
		want   bool
	}{
		"answered":       {history.Record{Code: 200}, true},
		"absent":         {history.Record{Code: 404}, true},
		"refused":        {history.Record{Code: 409}, false},
		"no answer":      {history.Record{Code: history.NoAnswer}, false},
		"fault says 404": {history.Record{Code: 404, Fault: schedule.NotFound}, false},
		"answer lost":    {history.Record{Code: history.NoAnswer, Fault: schedule.LostResponse, Committed: 7}, true},
	} {
		if got := tells(&c.record); got != c.want {
			t.Errorf("%s: tells is %t, want %t", name, got, c.want)
		}
	}
}

func TestShrunk(t *testing.T) {
	two := []schedule.Fault{{Type: schedule.Crash}, {Type: schedule.Timeout}}
	for _, c := range []struct {
		schedule schedule.Schedule
		want     string
	}{
		{schedule.Schedule{Faults: two, Origin: schedule.Origin{Size: 57, Minimal: true, Executions: 31}},
			"1-minimal: each of the 2 elements is needed (shrunk from 57 in 31 executions)"},
		{schedule.Schedule{Faults: two[:1], Origin: schedule.Origin{Size: 1, Minimal: true}}, "1-minimal: the one element is needed"},
		{schedule.Schedule{Faults: two[:1], Origin: schedule.Origin{Size: 1, Minimal: true, Executions: 1}},
			"1-minimal: the one element is needed (1 execution to see that)"},
		{schedule.Schedule{Origin: schedule.Origin{Size: 3, Minimal: true, Executions: 2}},
			"1-minimal: the default order alone does it (shrunk from 3 in 2 executions)"},
		{schedule.Schedule{Faults: two, Origin: schedule.Origin{Size: 90, Executions: 500}},
			"not 1-minimal: 2 elements left that may not all be needed (shrunk from 90 in 500 executions)"},
		{schedule.Schedule{Faults: two}, "not tried: 2 elements"},
		{schedule.Schedule{Faults: two[:1], Skip: []int{0, 2}, Origin: schedule.Origin{Size: 1, Minimal: true}},
			"1-minimal: the one element is needed; steps of the script not needed: 1, 3"},
	} {
		if got := Shrunk(&c.schedule); got != c.want {
			t.Errorf("Shrunk = %q, want %q", got, c.want)
		}
	}
}
