package reports

import (
	"cmp"
	"io"
	"reflect"
	"strings"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
)

// Document is one of the documents in a file of results: what an exploration or a replay came to, with all that reports say of it.
type Document struct {
	// Result is what the exploration came to. For a replay it has the names and variables of the scenario, the command line, and
	// where replays differed.
	Result *history.Result
	// Replay is the replay, nil for an exploration.
	Replay *Replayed
	// Problem says why there was neither: a file that is wrong, for instance. The result then has only names.
	Problem string
}

// problem is a problem as a document has it.
type problem struct {
	Result *history.Result
	Words  string
}

// replayed is a replay as a document has it. How much of it is told is up to who reads it.
type replayed struct {
	Result *history.Result
	Replay *history.Replay
	File   string
	Times  int
	Exact  bool
}

// Encode writes the document as JSON.
func (d Document) Encode(w io.Writer) error {
	switch {
	case d.Problem != "":
		return encode(w, KindProblem, reflect.ValueOf(problem{d.Result, d.Problem}))
	case d.Replay == nil:
		return EncodeResult(w, d.Result)
	}
	body := replayed{d.Result, d.Replay.Replay, d.Replay.File, d.Replay.Times, d.Replay.Exact}
	return encode(w, KindReplay, reflect.ValueOf(body))
}

// Text writes the report of the document for a person to read, as [Text] or [Replay] does.
func (d Document) Text(w io.Writer, o Options) error {
	switch {
	case d.Problem != "":
		t := newText(d.Result, o)
		t.failed(d)
		return t.flush(w)
	case d.Replay == nil:
		return Text(w, d.Result, o)
	}
	return Replay(w, d.Result, *d.Replay, o)
}

// failed writes that nothing could be run, and why.
func (t *text) failed(d Document) {
	t.linef("%s  %s", t.in(alarm, "! FAILED"), t.in(bold, t.subject()))
	for line := range strings.Lines(d.Problem) {
		t.linef("  %s", strings.TrimRight(line, "\n"))
	}
}

// Failed is the verdict on what could not be run to its end.
const Failed Verdict = "failed"

// Verdict says how the exploration or the replay came out.
func (d Document) Verdict() Verdict {
	switch {
	case d.Problem != "":
		return Failed
	case d.Replay == nil:
		return Judge(d.Result)
	default:
		return JudgeReplay(d.Result, *d.Replay)
	}
}

// Name names what was explored or replayed: "recreate with operator=clickhouse/buggy", with the file of a schedule after a colon.
func (d Document) Name() string {
	name := newText(d.Result, Options{}).subject()
	if d.Replay != nil {
		name += ": " + d.Replay.File
	}
	return name
}

// Exploration returns the result of an exploration: of a replay, one that has its run as the only one, which is a finding if it
// failed.
func (d Document) Exploration() *history.Result {
	if d.Replay == nil {
		return d.Result
	}
	r, run := *d.Result, d.Replay.Run
	r.Findings, r.Default, r.Strategies, r.Hash = nil, nil, nil, run.Hash
	r.Coverage = history.Coverage{Executions: max(d.Replay.Times, 1)}
	if run.Outcome == history.Livelock || run.Outcome == history.Inconclusive {
		r.Coverage.Inconclusive = r.Coverage.Executions
	}
	for _, v := range run.Verdicts {
		r.Coverage.Properties = append(r.Coverage.Properties, covered(v))
	}
	if !run.Failed() {
		r.Default = run
		return &r
	}
	s := d.Replay.Schedule
	r.Findings = []history.Finding{{
		Signature: s.Expect.Signature, Strategy: cmp.Or(s.Origin.Strategy, "replay"), Seed: s.Origin.Seed, Execution: 1, Run: run,
		Schedule: s, Command: r.Command,
	}}
	return &r
}

// covered says how a property fared in one run.
func covered(v property.Verdict) history.PropertyCoverage {
	c := history.PropertyCoverage{Property: v.Property, Evaluations: v.Evaluations, Error: v.Error}
	switch v.Status {
	case property.Held:
		c.Held, c.Evaluations = 1, max(c.Evaluations, 1)
	case property.Broken:
		c.Broken = 1
	case property.Invalid:
		c.Invalid = 1
	case property.NotExercised:
	}
	return c
}

// commandOf is the Replay of [Options] for results that have the command lines in them.
func commandOf(f *history.Finding) string { return f.Command }
