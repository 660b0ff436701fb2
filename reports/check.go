package reports

import (
	"fmt"

	"github.com/stalemate-dev/stalemate/sim/history"
)

// What is read from a file need not be what was written: these functions see to it that reports find what they rely on. Paths
// name the places in the document, as decoding does.

func checkResult(path string, r *history.Result) error {
	var problems []error
	if r.Default != nil {
		problems = append(problems, checkRun(path+".default", r.Default))
	}
	for i := range r.Findings {
		problems = append(problems, checkFinding(fmt.Sprintf("%s.findings[%d]", path, i), &r.Findings[i]))
	}
	for i := range r.Replays {
		problems = append(problems, checkReplay(fmt.Sprintf("%s.replays[%d]", path, i), &r.Replays[i]))
	}
	for i, p := range r.Coverage.Properties {
		if p.Property == nil {
			problems = append(problems, missing(fmt.Sprintf("%s.coverage.properties[%d].property", path, i)))
		}
	}
	return first(problems)
}

func checkFinding(path string, f *history.Finding) error { return checkRun(path+".run", f.Run) }

func checkReplay(path string, r *history.Replay) error {
	if r.Schedule == nil {
		return missing(path + ".schedule")
	}
	return checkRun(path+".run", r.Run)
}

func checkReplayed(r *replayed) error {
	switch {
	case r.Result == nil:
		return missing("replay.result")
	case r.Replay == nil:
		return missing("replay.replay")
	}
	return first([]error{checkResult("replay.result", r.Result), checkReplay("replay.replay", r.Replay)})
}

// checkRun checks that what a run refers to is there.
func checkRun(path string, h *history.History) error {
	if h == nil {
		return missing(path)
	}
	var problems []error
	index := func(place string, at, before int) {
		if at < -1 || at >= before {
			problems = append(problems, fmt.Errorf("%s%s: there is no record %d there: write the file anew", path, place, at))
		}
	}
	for i := range h.Records {
		index(fmt.Sprintf(".records[%d].readsFrom", i), h.Records[i].ReadsFrom, i)
		index(fmt.Sprintf(".records[%d].cause", i), h.Records[i].Cause, len(h.Records))
	}
	for i, l := range h.Logs {
		index(fmt.Sprintf(".logs[%d].record", i), l.Record, len(h.Records))
	}
	for i, end := range h.Ends {
		index(fmt.Sprintf(".ends[%d].record", i), end.Record, len(h.Records))
	}
	for i, f := range h.Faults {
		index(fmt.Sprintf(".faults[%d].record", i), f.Record, len(h.Records))
	}
	for i, d := range h.Denied {
		index(fmt.Sprintf(".denied[%d].record", i), d.Record, len(h.Records))
	}
	for i, v := range h.Verdicts {
		if v.Property == nil {
			problems = append(problems, missing(fmt.Sprintf("%s.verdicts[%d].property", path, i)))
		}
	}
	return first(problems)
}

func missing(path string) error {
	return fmt.Errorf("%s: missing: write the file anew", path)
}

// first returns the first of several errors; more would say the same.
func first(problems []error) error {
	for _, problem := range problems {
		if problem != nil {
			return problem
		}
	}
	return nil
}
