package history

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Record is one step of a run. It holds references to immutable objects, never copies.
type Record struct {
	// At is the virtual time since the run began.
	At    time.Duration
	Event schedule.Event
	// Attempt counts the passes over the event's key, from 1; zero outside a pass.
	Attempt int

	// Code, Reason and Message are the server's answer to a request; Code is zero for steps that are no request.
	Code    int
	Reason  string
	Message string
	// Before and After are the object around a write, or After alone for a read; nil where there is none.
	Before, After apiserver.Object
	// Carried is the revision a write carried as its optimistic lock, zero if none.
	Carried int64
	// Locked says that a write carried a lock of any form, see [apiserver.Request.Lock].
	Locked bool
	// Revision is the revision of the answer: of the object read or written, or of the list.
	Revision int64
	// Committed is the revision the step committed at, zero if it changed nothing.
	Committed int64
	// ReadsFrom is the index of the record whose answer gave this write the revision it carried, or -1.
	ReadsFrom int
	// Repeats counts how often a poll was repeated with the same answer after this record; those steps have no
	// record of their own. LastAt is when the last of them was.
	Repeats int
	LastAt  time.Duration
	// Thread numbers the sequences of steps in program order: the passes of a controller over one key, a racer's worker,
	// an informer's cursor. Cause is the index of the record that made this step possible besides: the commit that is
	// delivered, the event that queued a key; -1 if none. Together they are the run's happens-before order.
	Thread, Cause int
	// Held says for how long a constraint or a fault held the step back; of an Await, for how long it waited.
	Held time.Duration
	// Fault is the type of the fault that struck at this step, empty if none. Code, Reason and Message are what the actor
	// saw; whether the server carried the request out, Committed tells.
	Fault schedule.FaultType
	// Retry is set if client-go tries the request again by itself: the actor has not seen this answer.
	Retry bool
	// Webhooks are the names of the admission webhooks that were called about the request, in their order.
	Webhooks []string
}

// Admits reports whether a fault finds at the request what it needs there, if anything: a lock, or a webhook, of those that there
// were in the run. A webhook that the cluster does not know is asked last, so only about what nothing else refuses.
func (r *Record) Admits(f *schedule.Fault, webhooks []string) bool {
	switch {
	case f.NeedsLock():
		return r.Locked
	case !f.NeedsWebhook():
		return true
	case f.Webhook != "" && !slices.Contains(webhooks, f.Webhook):
		return r.Code < http.StatusBadRequest && r.Code != NoAnswer
	default:
		return f.FindsWebhook(r.Webhooks, webhooks)
	}
}

// NoAnswer is the code of a request whose connection broke before an answer came; Message is the error.
const NoAnswer = -1

// Log is one line an actor logged.
type Log struct {
	At    time.Duration
	Actor string
	// Record is the index of the record the line came after, -1 if none.
	Record int
	// Key and Attempt are the reconcile it was logged in; empty outside one.
	Key     string
	Attempt int
	Logger  string
	// Level is logr's V level; -1 is an error.
	Level   int
	Message string
	// Values are the key/value pairs, formatted as key=value and in order.
	Values []string
}

// Outcome says how a run ended.
type Outcome string

// The outcomes of a run.
const (
	// Terminal means that the run was quiet for the whole horizon.
	Terminal Outcome = "Terminal"
	// Livelock means that a limit was reached while the observations repeated.
	Livelock Outcome = "Livelock"
	// Inconclusive means that a limit was reached.
	Inconclusive Outcome = "Inconclusive"
	// Panicked means that a reconciler panicked.
	Panicked Outcome = "Panicked"
)

// History is what happened in one run.
type History struct {
	Records []Record
	Logs    []Log
	// ScriptBegins is the index of the first record of the scenario proper. What comes before is the start of its
	// processes over the settled state.
	ScriptBegins int
	// Hash is the running hash over the canonical values of every step.
	Hash uint64
	// State is the hash of the state that the run ended in, masked as docs/detectors.md has it: without what may differ between runs
	// that mean the same. It is zero unless the plan asked for it.
	State   uint64
	Outcome Outcome
	// Reason says in words why the run ended: "quiet for 10m0s", "limit of 5000 steps".
	Reason string
	// Horizon is the span of virtual time without a commit after which the run was called terminal.
	Horizon time.Duration
	// Steps, Requests and End count what the run did, and say when, in virtual time since its begin, it ended.
	Steps, Requests int
	End             time.Duration
	// Panic is the value and stack of a panic in a reconciler.
	Panic string
	// Verdicts are the properties' verdicts, in the scenario's order.
	Verdicts []property.Verdict
	// Constraints are the ordering constraints of the run, with what became of each.
	Constraints []ConstraintResult
	// Faults are the faults of the run, with what became of each: those of its plan in their order, then those that its
	// strategy injected, in the order they struck.
	Faults []FaultResult
	// Rules count, for each of the scenario's fault rules, the events it matched and the faults that struck. Sites have the same by
	// call sites and types of faults, in the order in which those came up.
	Rules []RuleResult
	Sites []SiteResult
	// Trace is every choice of the run, if the plan asked for it.
	Trace *schedule.Trace
	// Deviations are the constraints that, against the default order, bring the order about that a strategy chose: together
	// with Lateness, in place of the plan's latencies, and besides the plan's own constraints. Lateness says what
	// constraints cannot: for how long the strategy delayed requests and, as polls have no names of their own, for how long
	// it passed over polls.
	Deviations []schedule.Constraint
	Lateness   []schedule.Latency
	// Webhooks are the names of the admission webhooks that there were in the course of the run, sorted.
	Webhooks []string
	// Denied are the rights that processes wanted and do not have by their roles, sorted.
	Denied []Denial
	// Gaps are the things the run touched that are not modelled, sorted and without repeats.
	Gaps []string
	// Problems say what went wrong with the scenario itself: a step of its script that was refused.
	Problems []string
	// Passes count the passes of each controller, sorted by actor and controller.
	Passes []Passes
	// Ends are the ends of passes, in their order.
	Ends []PassEnd
	// Unfinished says what had not ended when the run did: "operator sleeps in a reconcile of default/a".
	Unfinished []string
}

// PassEnd is the end of one pass of a controller over a key.
type PassEnd struct {
	At time.Duration
	// Thread and Attempt are those of the pass's records.
	Thread, Attempt int
	// Record is the index of the last record before the end.
	Record int
	// Error is the error that the pass returned, empty for none.
	Error string
}

// Passes count the passes of one controller in a run.
type Passes struct {
	Actor, Controller string
	Total, Failed     int
	// LastError is the error that the last failed pass returned.
	LastError string
}

// FaultResult says what became of a fault.
type FaultResult struct {
	schedule.Fault
	// Rule is the name of the rule it is of, empty for one that only a plan has.
	Rule string
	// Struck is set if its event came up, and the fault struck there; its At is then the event's name. Record is the index of
	// the record, -1 if it has none.
	Struck bool
	Record int
}

// RuleResult counts what a fault rule did.
type RuleResult struct {
	Name string
	// Eligible counts the events at which a fault of the rule could have struck, Struck those at which one did.
	Eligible, Struck int
}

// SiteResult counts what the faults of one type of a rule did at a call site.
type SiteResult struct {
	// Rule is the name of the rule.
	Rule string
	Type schedule.FaultType
	// Site is the event at which they strike, by whichever start of the process, reconcile key and occurrence: its Incarnation, Key
	// and Occurrence are empty.
	Site schedule.Event
	// Eligible counts the events at which one could have struck, Struck those at which one did.
	Eligible, Struck int
}

// CompareSites orders sites by rule, type and event.
func CompareSites(a, b SiteResult) int {
	return cmp.Or(strings.Compare(a.Rule, b.Rule), strings.Compare(string(a.Type), string(b.Type)), schedule.Compare(a.Site, b.Site))
}

// MergeSites adds sites up: one for each rule, type and event, sorted by them.
func MergeSites(all ...[]SiteResult) []SiteResult {
	merged := slices.SortedFunc(slices.Values(slices.Concat(all...)), CompareSites)
	n := 0
	for _, s := range merged {
		if n > 0 && CompareSites(merged[n-1], s) == 0 {
			merged[n-1].Eligible += s.Eligible
			merged[n-1].Struck += s.Struck
			continue
		}
		merged[n] = s
		n++
	}
	return merged[:n]
}

// ConstraintResult says what became of a constraint.
type ConstraintResult struct {
	// Constraint has the names of the events as far as they were found, also where it was written as an order.
	schedule.Constraint
	// Held is set if the event came up and was held.
	Held bool
	// Matched is set if the event waited for was seen to come first.
	Matched bool
}

// Busiest returns the event, without its occurrence, that was committed most often, and how often; of several the first.
func (h *History) Busiest() (event schedule.Event, commits int) {
	counts := map[schedule.Event]int{}
	for i := range h.Records {
		r := &h.Records[i]
		if r.Committed == 0 {
			continue
		}
		name := r.Event.Base()
		counts[name]++
		if counts[name] > commits {
			event, commits = name, counts[name]
		}
	}
	return event, commits
}

// Broken returns the verdicts of the properties that were broken, in order.
func (h *History) Broken() []property.Verdict {
	var broken []property.Verdict
	for _, v := range h.Verdicts {
		if v.Status == property.Broken {
			broken = append(broken, v)
		}
	}
	return broken
}

// Failed reports whether the run is a finding: a property was broken, or a reconciler panicked.
func (h *History) Failed() bool { return h.Outcome == Panicked || len(h.Broken()) > 0 }
