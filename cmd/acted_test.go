package cmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// scheduleMark begins the line of an acted schedule file that says what it acts out.
const scheduleMark = "schedule: "

// scheduleActs are what acted schedules act out: one that is "reproduced" or "reproduced differently"; whose bug is "fixed", or
// whose elements are "stale", or would be but are "ignored"; one that expects that all "holds", and so it is; one whose run is
// "limited" or "misjudged"; one whose replays differ ("flaky"), whose replay "collapses", and one that fails by its trace alone
// ("traced").
var scheduleActs = []string{
	"reproduced", "differently", "fixed", "stale", "ignored", "holds", "limited", "misjudged", "flaky", "collapses", "traced",
}

func (acted) loadSchedule(path string) (recording, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := recorded{scenarioPath: filepath.Join(filepath.Dir(path), "scenario.yaml"), runs: new(int)}
	for line := range strings.Lines(string(content)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch name {
		case "schedule":
			r.act = value
		case "scenario":
			r.scenarioPath = filepath.Join(filepath.Dir(path), value)
		case "expect":
			r.expects = schedule.Outcome(value)
		}
	}
	if !slices.Contains(scheduleActs, r.act) {
		return nil, fmt.Errorf("%s:1:1: unknown act %q", path, r.act)
	}
	return r, nil
}

// recorded is an acted schedule.
type recorded struct {
	act          string
	scenarioPath string
	expects      schedule.Outcome
	reconciler   string
	runs         *int // how often it was replayed
}

// encodeActed returns the file of an acted schedule.
func encodeActed(r recorded, file, name string, s *schedule.Schedule) []byte {
	relative, err := filepath.Rel(filepath.Dir(file), r.scenarioPath)
	if err != nil {
		relative = r.scenarioPath
	}
	text := fmt.Sprintf("%s%s\nname: %s\nscenario: %s\nexpect: %s\nsignature: %s\n", scheduleMark, r.act, name, relative,
		s.Expect.Outcome, s.Expect.Signature)
	for _, f := range s.Faults {
		text += fmt.Sprintf("fault: %s\n", f)
	}
	return []byte(text)
}

func (r recorded) prepare(overrides map[string]string) (replayer, error) {
	p, err := play{}.prepare(overrides)
	if err != nil {
		return nil, err
	}
	r.reconciler = p.(play).reconciler
	return r, nil
}

func (r recorded) header() history.Header { return play{reconciler: r.reconciler}.header() }

func (r recorded) scenario() string { return r.scenarioPath }

func (r recorded) encode(file, name string, s *schedule.Schedule) ([]byte, error) {
	return encodeActed(r, file, name, s), nil
}

var crash = schedule.Fault{Type: schedule.Crash, Params: schedule.Params{Point: schedule.AfterCommit}, At: schedule.Event{
	Actor: "operator", Incarnation: 1, Verb: schedule.Update, Kind: "Widget", Name: "w", Occurrence: 1}}

func (r recorded) schedule() *schedule.Schedule {
	s := &schedule.Schedule{
		Faults: []schedule.Fault{crash},
		Expect: schedule.Expectation{Outcome: schedule.Violated, Property: truth.Name, Hash: 0xfeed},
		Origin: schedule.Origin{Strategy: "PCT", Seed: 3, Size: 7, Minimal: true, Executions: 12},
	}
	if r.expects != "" {
		s.Expect = schedule.Expectation{Outcome: r.expects}
	}
	switch r.act {
	case "holds":
		s.Expect = schedule.Expectation{Outcome: schedule.Holds}
	case "ignored":
		s.WhenUnmatched = schedule.Ignore
	case "reproduced", "traced":
		s.Trace = &schedule.Trace{}
	}
	return s
}

func (r recorded) replay(exact bool) (*history.Replay, error) {
	*r.runs++
	if r.act == "collapses" {
		return nil, errors.New("the engine failed")
	}
	replay := &history.Replay{
		Schedule: r.schedule(), Run: finding().Run, Outcome: history.Reproduced, Matched: 1, Elements: 1, SameHash: true,
	}
	replay.Run.Faults = []history.FaultResult{{Fault: crash, Struck: true}}
	held := []property.Verdict{{Property: truth, Status: property.Held}}
	switch r.act {
	case "differently":
		replay.Outcome, replay.SameHash = history.ReproducedDifferently, false
	case "fixed", "stale", "ignored":
		replay.Outcome, replay.SameHash, replay.Run.Verdicts, replay.Run.Hash = history.NotReproduced, false, held, 0xfade
		if r.act != "fixed" {
			replay.Matched, replay.Unmatched, replay.Run.Faults = 0, []string{crash.String()}, nil
		}
	case "traced":
		if !exact {
			replay.Outcome, replay.SameHash, replay.Run.Verdicts = history.NotReproduced, false, held
		}
	case "holds":
		replay.Run.Verdicts = held
	case "limited":
		replay.Outcome, replay.Run.Verdicts = history.NotReproduced, held
		replay.Run.Outcome, replay.Run.Reason = history.Inconclusive, "limit of 10 steps"
	case "misjudged":
		replay.Run.Verdicts = []property.Verdict{{Property: truth, Status: property.Invalid, Error: "no such key"}}
	case "flaky":
		replay.Run.Hash += uint64(*r.runs)
	}
	return replay, nil
}

func (r recorded) run(*schedule.Schedule) (*history.Replay, error) { return r.replay(false) }

func (r recorded) differ(first, second *history.History) string {
	if first.Hash == second.Hash {
		return ""
	}
	return "step 3"
}

func (r recorded) shrink(context.Context) (*schedule.Schedule, error) { return r.schedule(), nil }
