package cmd_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stalemate-dev/stalemate/cmd"
	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/clickhouse"
	"github.com/stalemate-dev/stalemate/scenarios/reference"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// workspace changes to a folder that is like a team's repository: it has our scenarios, without their track record, and room for
// what is found.
func workspace(t *testing.T) {
	t.Helper()
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS("../scenarios/clickhouse")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(folder, "testdata")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "go.mod"), []byte("module example.com/team\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(folder)
}

// command runs our own command with arguments, and fails the test if it does not end with an exit code. It returns what was
// printed.
func command(t *testing.T, want cmd.Exit, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errors bytes.Buffer
	registry := &scenarios.Registry{}
	reference.Register(registry)
	if exit := cmd.Main(append([]string{"stalemate"}, args...), &out, &errors, registry); exit != int(want) {
		t.Fatalf("%s: exit %d, want %d\n%s%s", strings.Join(args, " "), exit, want, out.String(), errors.String())
	}
	return out.String(), errors.String()
}

// only returns the only file that a pattern matches.
func only(t *testing.T, pattern string) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) != 1 {
		t.Fatalf("%s are %q, %v; want one file", pattern, files, err)
	}
	return files[0]
}

// contains checks that a text has all parts.
func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in:\n%s", part, text)
		}
	}
}

// TestFindingIsReplayed checks that what the sweep finds comes about again, to the last step, from the file alone. With the
// first patch, the operator does not make the call any more that the race was about in one scenario, so that nothing can be
// said; in the other it does, and the race comes to nothing.
func TestFindingIsReplayed(t *testing.T) {
	workspace(t)
	for _, c := range []struct {
		scenario string
		patched  cmd.Exit
		want     []string
	}{
		{"recreate", cmd.ExitStale, []string{"? STALE", "not reproduced, 0 of 1 matched", "unmatched      operator(default/a) Update"}},
		{"recreate-scaled", cmd.ExitPassed, []string{"✓ NOT REPRODUCED", "not reproduced, 1 of 1 matched"}},
	} {
		out := "findings/" + c.scenario
		report, _ := command(t, cmd.ExitBroken, "run", c.scenario+".yaml", "--runs", "0", "--out", out)
		file := only(t, out+"/clickhouse-"+c.scenario+"-*.yaml")
		contains(t, report, "replay         stalemate replay "+file)
		contains(t, readText(t, file), "# WHAT DECIDES\n", "# TIMELINE\n", "../../"+c.scenario+".yaml")
		replay, _ := command(t, cmd.ExitBroken, "replay", file, "--times", "100")
		contains(t, replay, "✗ REPRODUCED", "reproduced, 1 of 1 matched", "as recorded", "100, all alike", "1-minimal: the one element is needed")
		same, _ := command(t, cmd.ExitBroken, "run", file)
		contains(t, same, "✗ REPRODUCED", "1 of 1 matched")
		fixed, _ := command(t, c.patched, "replay", out, "--reconciler", "operator=clickhouse/patch-a")
		contains(t, fixed, append(c.want, "differs: ")...)
	}
}

// TestReconcilerIsRecorded checks that a finding knows which reconciler it was found with, and its scenario from a folder
// outside of the repository.
func TestReconcilerIsRecorded(t *testing.T) {
	workspace(t)
	out := t.TempDir()
	scenario := strings.Replace(readText(t, "recreate.yaml"), "reconciler: clickhouse/buggy", "reconciler: clickhouse/patch-a", 1)
	if err := os.WriteFile("recreate.yaml", []byte(scenario), 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, cmd.ExitPassed, "run", "recreate.yaml", "--runs", "0", "--out", out)
	command(t, cmd.ExitBroken, "run", "recreate.yaml", "--runs", "0", "--out", out, "--reconciler", "operator=clickhouse/buggy")
	report, _ := command(t, cmd.ExitBroken, "replay", out)
	contains(t, report, "with operator=clickhouse/buggy", "reproduced, 1 of 1 matched", "as recorded")

	file := only(t, out+"/clickhouse-recreate-buggy-race-*.yaml")
	command(t, cmd.ExitPassed, "validate", file)
	for _, arguments := range [][]string{{"shrink", file, "--out", "small.yaml"}, {"pin", file, "--to", ".", "--name", "pinned"}} {
		command(t, cmd.ExitPassed, arguments...)
		written := strings.Replace(arguments[len(arguments)-1], "pinned", "pinned.yaml", 1)
		contains(t, readText(t, written), "\n  reconcilers: {operator: clickhouse/buggy}\n")
	}
}

// TestPinnedSchedule checks that a finding becomes a regression test: it fails as long as the bug is there.
func TestPinnedSchedule(t *testing.T) {
	workspace(t)
	command(t, cmd.ExitBroken, "run", "recreate-scaled.yaml", "--runs", "0", "--out", "findings")
	file := only(t, "findings/*.yaml")
	pinned, _ := command(t, cmd.ExitPassed, "pin", file)
	again, _ := command(t, cmd.ExitPassed, "pin", file)
	target := only(t, "testdata/schedules/clickhouse-recreate-scaled-*.yaml")
	contains(t, pinned, "pinned to "+target)
	contains(t, again, "already pinned to "+target)
	contains(t, readText(t, target), "../../recreate-scaled.yaml", "expect: {outcome: Holds}", "# WHAT DECIDES\n")
	command(t, cmd.ExitPassed, "validate", target)
	command(t, cmd.ExitBroken, "replay", "testdata/schedules")
	report, _ := command(t, cmd.ExitPassed, "replay", "testdata/schedules", "--reconciler", "operator=clickhouse/patch-a")
	contains(t, report, "✓ HOLDS", "nothing is broken, 1 of 1 matched")

	// What was pinned can be pinned elsewhere, as the record of a bug.
	command(t, cmd.ExitPassed, "pin", target, "--force", "--expect", "Violated", "--to", "bugs", "--name", "scaled")
	report, _ = command(t, cmd.ExitBroken, "replay", "bugs/scaled.yaml")
	contains(t, report, "✗ REPRODUCED", "as recorded")
	_, stderr := command(t, cmd.ExitUsage, "pin", file, "--to", "bugs", "--name", "scaled")
	contains(t, stderr, "bugs/scaled.yaml: exists with other content")
}

// TestShrunkSchedule checks that what does not matter is taken out of a schedule, and that the smaller one fails the same way.
func TestShrunkSchedule(t *testing.T) {
	workspace(t)
	command(t, cmd.ExitBroken, "run", "recreate.yaml", "--runs", "0", "--out", "findings")
	file := only(t, "findings/*.yaml")
	text := readText(t, file)
	more := strings.Replace(text, "  order:\n", "  order:\n"+
		`  - hold: "operator(default/a) Get StatefulSet default/chi-a-0-0 #1"`+"\n"+
		`    until: "kcm(default/chi-a-0-0) Update StatefulSet/status default/chi-a-0-0 #1"`+"\n", 1)
	if more == text {
		t.Fatalf("there is no order in\n%s", text)
	}
	if err := os.WriteFile(file, []byte(more), 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr := command(t, cmd.ExitPassed, "shrink", file, "--out", "small.yaml")
	contains(t, stderr, "1-minimal: the one element is needed (shrunk from 2 in ")
	report, _ := command(t, cmd.ExitBroken, "replay", "small.yaml")
	contains(t, report, "reproduced, 1 of 1 matched", "as recorded")
}

// TestShrunkFromTrace checks that a schedule of which only the trace is left, as a strategy made it, is replayed by that, and
// shrinks to elements.
func TestShrunkFromTrace(t *testing.T) {
	workspace(t)
	file := scenarios.ScheduleFile{Name: "traced", Scenario: "recreate.yaml", Spec: traced(t, "recreate.yaml")}
	content, err := scenarios.EncodeSchedule(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("traced.yaml", content, 0o600); err != nil {
		t.Fatal(err)
	}
	report, _ := command(t, cmd.ExitBroken, "replay", "traced.yaml", "--times", "3")
	contains(t, report, "the schedule has no elements", "as recorded", "trace          followed to the last step", "3, all alike")
	_, stderr := command(t, cmd.ExitPassed, "shrink", "traced.yaml", "--out", "small.yaml")
	contains(t, stderr, "1-minimal: ", " (shrunk from ")
	report, _ = command(t, cmd.ExitBroken, "replay", "small.yaml")
	contains(t, report, "✗ REPRODUCED", "as recorded", " matched")
}

// traced returns a schedule that has nothing but the trace of the first run by seed of a scenario that fails.
func traced(t *testing.T, path string) *schedule.Schedule {
	t.Helper()
	registry := &scenarios.Registry{}
	clickhouse.Register(registry)
	loaded, err := scenarios.Load(path, scenarios.Options{Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	config, err := loaded.Config(registry, nil)
	if err != nil {
		t.Fatal(err)
	}
	world, err := sim.NewWorld(config)
	if err != nil {
		t.Fatal(err)
	}
	survey, err := explore.NewSurvey(world)
	if err != nil {
		t.Fatal(err)
	}
	for seed := range int64(1000) {
		_, strategy := survey.Strategy(seed)
		h, err := world.Run(sim.Plan{Seed: seed, Strategy: strategy, Record: true})
		if err != nil {
			t.Fatal(err)
		}
		if h.Failed() {
			return &schedule.Schedule{Trace: h.Trace, Origin: schedule.Origin{Strategy: "PCT", Seed: seed},
				Expect: schedule.Expectation{Outcome: schedule.Violated, Signature: explore.Signature(h), Hash: h.Hash}}
		}
	}
	t.Fatal("no seed fails")
	return nil
}
