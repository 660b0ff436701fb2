package reports

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// reproduced is a replay of the cascade.
func reproduced() Replayed {
	run := cascade()
	run.Hash = 0xb1f0e73131ffa317
	return Replayed{
		File: "scenarios/clickhouse/schedules/cascade.yaml", Times: 1,
		Replay: &history.Replay{
			Run: run, Outcome: history.Reproduced, Matched: 1, Elements: 1, SameHash: true,
			Schedule: &schedule.Schedule{
				Constraints: []schedule.Constraint{run.Constraints[0].Constraint},
				Expect:      schedule.Expectation{Outcome: schedule.Violated, Property: completed.Name, Hash: run.Hash},
				Origin:      schedule.Origin{Strategy: "random walk", Seed: 7, Size: 12, Minimal: true, Executions: 9},
			},
		},
	}
}

// held is a replay in which nothing was broken.
func held(matched int) Replayed {
	p := reproduced()
	p.Outcome, p.Matched, p.SameHash = history.NotReproduced, matched, false
	p.Run.Hash++
	p.Run.Verdicts = []property.Verdict{{Property: completed, Status: property.Held}}
	if matched == 0 {
		p.Run.Constraints[0].Matched, p.Run.Constraints[0].Held = false, false
		p.Unmatched = []string{p.Schedule.Constraints[0].String()}
	}
	return p
}

// replays are replays of every kind, and how they are to be judged.
var replays = map[string]struct {
	make func() (*history.Result, Replayed)
	want Verdict
}{
	"reproduced": {func() (*history.Result, Replayed) {
		p := reproduced()
		p.Whole, p.Exact, p.Times = true, true, 100
		return found(), p
	}, Broken},
	"differently": {func() (*history.Result, Replayed) {
		p := reproduced()
		p.Outcome, p.SameHash, p.Schedule.Expect.Hash = history.ReproducedDifferently, false, 7
		p.Exact, p.Diverged = true, `step 37: the trace has "operator Get Pod default/p #1", the run "operator List Pod #1"`
		return found(), p
	}, Broken},
	"fixed": {func() (*history.Result, Replayed) { return found(), held(1) }, Passed},
	"stale": {func() (*history.Result, Replayed) { return found(), held(0) }, Stale},
	"ignored": {func() (*history.Result, Replayed) {
		p := held(0)
		p.Schedule.WhenUnmatched = schedule.Ignore
		return found(), p
	}, Passed},
	"regression": {func() (*history.Result, Replayed) {
		p := reproduced()
		p.Schedule.Expect, p.Schedule.Origin = schedule.Expectation{Outcome: schedule.Holds}, schedule.Origin{}
		p.Outcome, p.SameHash = history.ReproducedDifferently, false
		return found(), p
	}, Broken},
	"holds": {func() (*history.Result, Replayed) {
		p := held(1)
		p.Schedule.Expect, p.Outcome = schedule.Expectation{Outcome: schedule.Holds}, history.Reproduced
		return found(), p
	}, Passed},
	"limited": {func() (*history.Result, Replayed) {
		p := held(1)
		p.Run.Outcome, p.Run.Reason = history.Inconclusive, "limit of 10 steps"
		p.Run.Problems = []string{"user: Create of Pod default/p: 422 Invalid"}
		return found(), p
	}, Inconclusive},
	"flaky": {func() (*history.Result, Replayed) {
		r, p := found(), reproduced()
		r.Diverged, p.Times = `replay 3, step 9: "operator Get Pod default/p #1" the first time, "the end of the run" the second`, 3
		return r, p
	}, Nondeterministic},
	"misjudged": {func() (*history.Result, Replayed) {
		p := reproduced()
		p.Run.Verdicts = []property.Verdict{{Property: completed, Status: property.Invalid, Error: "no such key: replicas"}}
		return found(), p
	}, InvalidProperty},
	"empty": {func() (*history.Result, Replayed) {
		p := reproduced()
		p.Schedule.Constraints, p.Elements, p.Matched, p.Run.Constraints = nil, 0, 0, nil
		return found(), p
	}, Broken},
}

func TestReplayGolden(t *testing.T) {
	for name, replay := range replays {
		t.Run(name, func(t *testing.T) {
			r, p := replay.make()
			r.Default, r.Command = nil, "stalemate replay "+p.File
			var b bytes.Buffer
			if err := Replay(&b, r, p, Options{}); err != nil {
				t.Fatal(err)
			}
			golden(t, "replay-"+name+".txt", b.String())
		})
	}
}

func TestJudgeReplay(t *testing.T) {
	for name, replay := range replays {
		if got := JudgeReplay(replay.make()); got != replay.want {
			t.Errorf("%s: the verdict is %s, want %s", name, got, replay.want)
		}
	}
}

func TestReplayReportsWriteErrors(t *testing.T) {
	if err := Replay(brokenWriter{}, found(), reproduced(), Options{}); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("Replay to a broken writer: %v", err)
	}
}
