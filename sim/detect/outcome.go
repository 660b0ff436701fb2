package detect

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// findDivergence finds a run with faults that comes to another end than all runs without.
func findDivergence(r *Run) (*Found, int) {
	own := r.Baseline.Own()
	struck := slices.ContainsFunc(r.History.Faults, func(f history.FaultResult) bool { return f.Struck })
	if own == nil || !r.terminal() || !struck {
		return nil, 0
	}
	if differs := difference(own, r.ended()); len(differs) > 0 {
		return &Found{At: r.History.End, Values: listed(differs)}, 1
	}
	return nil, 1
}

// difference says for each object, by "Kind namespace/name", in what a state is another than the scenario's own.
func difference(own, state *State) map[string]string {
	differs := map[string]string{}
	if own.Hash == state.Hash {
		return differs
	}
	for _, name := range sortedKeys(own.Objects, state.Objects) {
		before, expected := own.Objects[name]
		after, there := state.Objects[name]
		switch {
		case !there:
			differs[name] = "absent"
		case !expected:
			differs[name] = "left over"
		case before != after:
			differs[name] = "different"
		}
	}
	return differs
}

// maxDifferences is how many objects a finding names.
const maxDifferences = 5

// listed returns differences in the form of values.
func listed(differs map[string]string) []property.Value {
	var values []property.Value
	for _, name := range sortedKeys(differs) {
		values = append(values, property.Value{Path: name, Value: differs[name]})
	}
	return values[:min(len(values), maxDifferences)]
}

// sortedKeys returns the keys of all maps, sorted and without repeats.
func sortedKeys[V any](all ...map[string]V) []string {
	var keys []string
	for _, m := range all {
		keys = slices.AppendSeq(keys, maps.Keys(m))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// findSwallowedError finds a write whose failure the operator kept to itself: the pass returned no error, the write was never made
// good, its object is another at the end than without faults, and the resource that is reconciled does not say so.
func findSwallowedError(r *Run) (*Found, int) {
	own := r.Baseline.Own()
	if own == nil || !r.terminal() || !r.anyFailed() {
		return nil, 0
	}
	exercised := 0
	var last *Found
	for i := range r.History.Ends {
		end := &r.History.Ends[i]
		for _, j := range r.failures(end) {
			exercised++
			if end.Error != "" || r.madeGood(j) {
				continue
			}
			record := &r.History.Records[j]
			if differs := difference(own, r.ended()); matters(differs, record) && !r.told(differs, end, j) {
				last = &Found{At: record.At, Values: append([]property.Value{about("request", record.Event)}, listed(differs)...),
					Note: "the pass returned no error, and the request was not made again with success"}
			}
		}
	}
	return last, exercised
}

// anyFailed reports whether any write failed.
func (r *Run) anyFailed() bool {
	for i := range r.History.Records {
		if failed(&r.History.Records[i]) {
			return true
		}
	}
	return false
}

// failures returns the writes of a pass that failed as none does in runs without faults.
func (r *Run) failures(end *history.PassEnd) []int {
	thread := r.thread(end.Thread)
	last, found := slices.BinarySearch(thread, end.Record)
	if found {
		last++
	}
	var failures []int
	for _, j := range slices.Backward(thread[:last]) {
		record := &r.History.Records[j]
		if record.Attempt != end.Attempt {
			break
		}
		if failed(record) && !r.Baseline.refused[refusalOf(record)] {
			failures = append(failures, j)
		}
	}
	return failures
}

// failed reports whether a write of an operator failed, so that it was told. A delete of what is not there has not, nor has a
// write to a kind that says nothing about progress.
func failed(r *history.Record) bool {
	gone := r.Event.Verb == schedule.Delete && r.Code == http.StatusNotFound
	return r.OfProcess() && r.Event.Verb.IsWrite() && !r.Retry && !gone && (r.Code >= http.StatusBadRequest || r.Code == history.NoAnswer)
}

// madeGood reports whether a write that failed was made again later, and worked.
func (r *Run) madeGood(i int) bool {
	records := r.History.Records
	want := refusalOf(&records[i]).event
	for j := i + 1; j < len(records); j++ {
		if records[j].Code >= 200 && records[j].Code < 300 && refusalOf(&records[j]).event == want {
			return true
		}
	}
	return false
}

// matters reports whether the object of a request is among those that differ; if its name is the server's to make, whether any
// of its kind and namespace is.
func matters(differs map[string]string, record *history.Record) bool {
	if at := objectOf(record); at.name != "" {
		_, differ := differs[at.String()]
		return differ
	}
	prefix := record.Event.Kind + " "
	if record.Event.Namespace != "" {
		prefix += record.Event.Namespace + "/"
	}
	return slices.ContainsFunc(sortedKeys(differs), func(name string) bool { return strings.HasPrefix(name, prefix) })
}

// told reports whether the operator did not keep a failure to itself: after it, in the same pass, it wrote to the resource that is
// reconciled, and that is another at the end than without faults.
func (r *Run) told(differs map[string]string, end *history.PassEnd, failure int) bool {
	records := r.History.Records
	subject := r.subject(end.Thread)
	if _, differ := differs[subject.String()]; !differ || objectOf(&records[failure]) == subject {
		return false
	}
	return slices.ContainsFunc(r.thread(end.Thread), func(i int) bool {
		record := &records[i]
		return i > failure && record.Attempt == end.Attempt && record.Committed != 0 && objectOf(record) == subject
	})
}

// subject returns what the passes of a thread reconcile: of what has the name of their key the first that they read.
func (r *Run) subject(thread int) object {
	for _, i := range r.thread(thread) {
		record := &r.History.Records[i]
		if v := record.Event.Verb; v != schedule.Get && v != schedule.CachedGet {
			continue
		}
		if at := objectOf(record); at.key() == record.Event.Key {
			return at
		}
	}
	return object{}
}
