package detect

import (
	"maps"
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
	if differs := difference(own, r.History.State); len(differs) > 0 {
		return &Found{At: r.History.End, Values: differs}, 1
	}
	return nil, 1
}

// maxDifferences is how many objects a difference names.
const maxDifferences = 5

// difference says in which objects a state is another than the scenario's own.
func difference(own, state *history.State) []property.Value {
	if own.Hash == state.Hash {
		return nil
	}
	var values []property.Value
	for _, name := range sortedNames(slices.Concat(slices.Collect(maps.Keys(own.Objects)), slices.Collect(maps.Keys(state.Objects)))) {
		before, expected := own.Objects[name]
		after, there := state.Objects[name]
		switch {
		case !there:
			values = append(values, property.Value{Path: name, Value: "absent"})
		case !expected:
			values = append(values, property.Value{Path: name, Value: "left over"})
		case before != after:
			values = append(values, property.Value{Path: name, Value: "different"})
		}
	}
	return values[:min(len(values), maxDifferences)]
}

// findSwallowedError finds a request whose failure the operator kept to itself: the pass returned no error, the request was never
// made good, and the run comes to another end than all runs without faults in random orders.
func findSwallowedError(r *Run) (*Found, int) {
	own := r.Baseline.Own()
	if own == nil || !r.terminal() {
		return nil, 0
	}
	records := r.History.Records
	exercised := 0
	var swallowed *history.Record
	for i := range r.History.Ends {
		end := &r.History.Ends[i]
		for j := end.Record; j >= 0; j-- {
			record := &records[j]
			if record.Thread != end.Thread {
				continue
			}
			if record.Attempt != end.Attempt {
				break
			}
			if !failed(record) || r.Baseline.refused[refusalOf(record)] {
				continue
			}
			exercised++
			if end.Error == "" && !r.madeGood(j) {
				swallowed = record
			}
		}
	}
	if swallowed == nil {
		return nil, exercised
	}
	if differs := difference(own, r.History.State); len(differs) > 0 {
		return &Found{At: swallowed.At, Values: append([]property.Value{about("request", swallowed.Event.Base())}, differs...),
			Note: "the pass returned no error, and the request was not made again with success"}, exercised
	}
	return nil, exercised
}

// failed reports whether a write of an operator failed, so that it was told. A delete of what is not there has not.
func failed(r *history.Record) bool {
	return r.OfProcess() && r.Event.Verb.IsWrite() && !r.Retry && (r.Code >= 400 || r.Code == history.NoAnswer) &&
		!(r.Event.Verb == schedule.Delete && r.Code == 404)
}

// madeGood reports whether a request that failed was made again later, and worked.
func (r *Run) madeGood(i int) bool {
	records := r.History.Records
	want := records[i].Event.Base()
	want.Incarnation = 0
	for j := i + 1; j < len(records); j++ {
		event := records[j].Event.Base()
		event.Incarnation = 0
		if event == want && records[j].Code >= 200 && records[j].Code < 300 {
			return true
		}
	}
	return false
}

// isCount reports whether a field counts changes, or says when or why one happened: what differs between runs that mean the same.
func isCount(name string) bool {
	switch name {
	case "uid", "resourceVersion", "generation", "observedGeneration", "managedFields", "creationTimestamp", "message",
		"selfLink", "collisionCount", "restartCount", "containerID", "podIP", "podIPs", "hostIP", "hostIPs", "startedAt",
		"finishedAt", "startTime", "completionTime":
		return true
	default:
		return strings.HasPrefix(name, "last") && (strings.HasSuffix(name, "Time") || strings.HasSuffix(name, "Timestamp"))
	}
}
