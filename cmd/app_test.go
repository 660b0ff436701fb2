package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/stalemate-dev/stalemate/reports"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// acted is an engine that acts out what a scenario file says: "passed", "broken", "invalid", "diverged", "inconclusive",
// "fails", "panics", "waits" for an interrupt, or "finds" something before it waits; a "matrix" has one entry that passes and
// one that is broken. Schedules say what they act out, too, see [recorded]. Any other content is a wrong file.
type acted struct{}

var acts = []string{"passed", "broken", "invalid", "diverged", "inconclusive", "fails", "panics", "waits", "finds", "matrix"}

func (acted) holdsSchedule(path string) (bool, error) {
	content, err := os.ReadFile(path)
	return strings.Contains(string(content), scheduleMark), err
}

func (acted) load(path string) ([]scenario, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	act := strings.TrimSpace(string(content))
	if !slices.Contains(acts, act) {
		return nil, fmt.Errorf("%s:1:1: unknown act %q", path, act)
	}
	if act == "matrix" {
		return []scenario{play{act: "passed", values: []string{"size=1"}}, play{act: "broken", values: []string{"size=2"}}}, nil
	}
	return []scenario{play{act: act}}, nil
}

func (acted) reconcilers() []entry {
	return []entry{{"widget/buggy", "loses updates"}, {"widget/fixed", "does not"}}
}

func (acted) racers() []entry { return []entry{{"Kubelet", "makes pods ready"}} }

func (acted) faults() []entry { return []entry{{"Crash", "a process dies"}} }

func (acted) detectors() []entry { return []entry{{"Livelock", "the run never comes to rest"}} }

// play is an acted scenario.
type play struct {
	act        string
	values     []string // of a matrix
	reconciler string
}

func (p play) entry() []string { return p.values }

func (p play) prepare(overrides map[string]string) (exploration, error) {
	for controller, reconciler := range overrides {
		if controller != "operator" || !strings.HasPrefix(reconciler, "widget/") {
			return nil, fmt.Errorf("no reconciler %s for %s", reconciler, controller)
		}
		p.reconciler = reconciler
	}
	return p, nil
}

func (p play) header() history.Header {
	h := history.Header{Scenario: strings.Join(append([]string{"play"}, p.values...), " ")}
	if p.reconciler != "" {
		h.Reconcilers = []string{"operator=" + p.reconciler}
	}
	return h
}

var truth = &property.Definition{Name: "truth", Type: property.Terminal, Rule: "widget.ready", Message: "the widget is not ready"}

func (p play) explore(ctx context.Context, o options) (*history.Result, error) {
	r := &history.Result{
		Hash: uint64(o.seed),
		Coverage: history.Coverage{Executions: 3, Properties: []history.PropertyCoverage{
			{Property: truth, Evaluations: 3, Held: 3},
		}},
		Strategies: []history.StrategyResult{{Name: "random walk", Executions: o.runs, Complete: true}},
	}
	o.progress(progress{strategy: "random walk", executions: 3, done: 3, total: o.runs})
	switch p.act {
	case "broken", "fails", "panics", "finds":
		r.Findings = []history.Finding{finding()}
		o.finding(&r.Findings[0])
	case "invalid":
		r.Coverage.Properties[0].Invalid = 1
	case "diverged":
		r.Diverged = "step 3"
	case "inconclusive":
		r.Coverage.Inconclusive = 3
	}
	switch p.act {
	case "waits", "finds":
		<-ctx.Done()
		return nil, ctx.Err()
	case "fails":
		return nil, errors.New("the engine failed")
	case "panics":
		panic("the engine panicked")
	}
	return r, nil
}

func finding() history.Finding {
	return history.Finding{Strategy: "sweep", Execution: 2, Elapsed: time.Second, Run: &history.History{
		Outcome: history.Terminal, Reason: "quiet for 10m0s", Hash: 0xfeed,
		Records: []history.Record{{
			Event:     schedule.Event{Actor: "operator", Verb: schedule.Update, Kind: "Widget", Name: "w", Occurrence: 1},
			ReadsFrom: -1, Code: 409, Reason: "Conflict",
		}},
		Verdicts: []property.Verdict{{Property: truth, Status: property.Broken}},
	}}
}

func (p play) encode(file, name string, s *schedule.Schedule) ([]byte, error) {
	return encodeActed(recorded{act: "reproduced", scenarioPath: "scenario.yaml"}, file, name, s), nil
}

// TestMain lets the scripts run the command, with the acted engine, as a program of its own.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != "stalemate" { // no script, which sets it itself
		if err := os.Unsetenv(onGitHub); err != nil {
			panic(err)
		}
	}
	testscript.Main(m, map[string]func(){
		"stalemate": func() {
			a := &app{stdout: os.Stdout, stderr: os.Stderr, engine: acted{}, registry: noteRegistry()}
			os.Exit(int(a.main(context.Background(), os.Args)))
		},
	})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:           filepath.Join("testdata", "scripts"),
		UpdateScripts: os.Getenv("SIM_UPDATE") == "1",
	})
}

// ran is what a command line came to.
type ran struct {
	exit           Exit
	stdout, stderr string
}

// write writes a file that is named as an act. Its folder serves as the scenario's.
func write(t *testing.T, act string) string {
	t.Helper()
	content := act
	if slices.Contains(scheduleActs, act) {
		content = scheduleMark + act + "\n"
	}
	file := filepath.Join(t.TempDir(), act)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// run runs a command line with the acted engine. Files that are named as an act are written first.
func run(ctx context.Context, t *testing.T, args ...string) ran {
	t.Helper()
	var stdout, stderr bytes.Buffer
	for i, arg := range args {
		if slices.Contains(acts, arg) || slices.Contains(scheduleActs, arg) || arg == "wrong" {
			args[i] = write(t, arg)
		}
	}
	a := &app{stdout: &stdout, stderr: &stderr, engine: acted{}}
	exit := a.main(ctx, append([]string{"stalemate"}, args...))
	return ran{exit, stdout.String(), stderr.String()}
}

// exitCodes are command lines, and what they end with.
var exitCodes = []struct {
	args   string
	want   Exit
	stderr string // part of it
}{
	{"run passed", ExitPassed, ""},
	{"run broken", ExitBroken, ""},
	{"run invalid", ExitUsage, ""},
	{"run diverged", ExitNondeterministic, ""},
	{"run inconclusive", ExitInconclusive, ""},
	{"run fails", ExitInternal, "the engine failed"},
	{"run panics", ExitInternal, "please report it: the engine panicked"},
	{"run wrong", ExitUsage, `unknown act "wrong"`},
	{"run missing.yaml", ExitUsage, "missing.yaml"},
	{"run matrix", ExitBroken, ""},
	{"run matrix --matrix size=1", ExitPassed, ""},
	{"run matrix --matrix size=3", ExitUsage, "no combination of its matrix has size=3"},
	{"run passed --matrix size=1", ExitUsage, "no combination of its matrix has size=1"},
	{"run matrix --matrix size", ExitUsage, "want NAME=VALUE"},
	{"run stale", ExitStale, ""},
	{"run passed stale", ExitStale, ""},
	{"run stale broken", ExitBroken, ""},

	{"replay reproduced", ExitBroken, ""},
	{"replay differently", ExitBroken, ""},
	{"replay fixed", ExitPassed, ""},
	{"replay holds", ExitPassed, ""},
	{"replay stale", ExitStale, ""},
	{"replay ignored", ExitPassed, ""},
	{"replay limited", ExitInconclusive, ""},
	{"replay misjudged", ExitUsage, ""},
	{"replay flaky", ExitBroken, ""},
	{"replay flaky --times 3", ExitNondeterministic, ""},
	{"replay reproduced --times 3", ExitBroken, ""},
	{"replay reproduced --exact", ExitBroken, ""},
	{"replay traced", ExitBroken, ""},
	{"replay stale --exact", ExitUsage, "the schedule has no trace"},
	{"replay stale fixed", ExitStale, ""},
	{"replay stale reproduced wrong", ExitUsage, "a scenario, not a schedule"},
	{"replay collapses", ExitInternal, "the engine failed"},
	{"replay passed", ExitUsage, "a scenario, not a schedule"},
	{"replay missing.yaml", ExitUsage, "missing.yaml"},
	{"replay", ExitUsage, "name at least one"},
	{"replay reproduced --times 0", ExitUsage, "want 1 or more"},
	{"replay reproduced --reconciler operator", ExitUsage, "want CONTROLLER=RECONCILER"},
	{"replay reproduced --reconciler operator=gadget", ExitUsage, "no reconciler gadget"},

	{"shrink reproduced", ExitPassed, "1-minimal: the one element is needed (shrunk from 7 in 12 executions)"},
	{"shrink traced", ExitPassed, "shrunk from 7"},
	{"shrink fixed", ExitUsage, "nothing to shrink"},
	{"shrink stale", ExitStale, "nothing to shrink"},
	{"shrink passed", ExitUsage, "a scenario, not a schedule"},
	{"shrink reproduced stale", ExitUsage, "name one schedule file"},
	{"shrink reproduced --out=", ExitUsage, "the name of a file"},

	{"pin fixed", ExitUsage, "not reproduced, 1 of 1 elements matched"},
	{"pin stale", ExitStale, "not reproduced, 0 of 1 elements matched"},
	{"pin reproduced --expect Maybe", ExitUsage, "want Holds or Violated"},
	{"pin reproduced --name No!", ExitUsage, "want lower-case letters"},
	{"pin", ExitUsage, "name one schedule file"},

	{"report", ExitUsage, "no result file"},
	{"report missing.json", ExitUsage, "missing.json"},
	{"report broken", ExitUsage, "no JSON as --json writes it"},
	{"run passed --json=", ExitUsage, "the name of a file"},
	{"replay reproduced --html=", ExitUsage, "the name of a file"},
	{"report missing.json --trace=", ExitUsage, "the name of a file"},

	{"validate reproduced matrix", ExitPassed, ""},
	{"validate passed", ExitPassed, ""},
	{"validate passed wrong", ExitUsage, "unknown act"},
	{"list", ExitPassed, ""},
	{"", ExitPassed, ""},
	{"help run", ExitPassed, ""},

	{"run passed inconclusive", ExitInconclusive, ""},
	{"run inconclusive broken passed", ExitBroken, ""},
	{"run broken diverged", ExitNondeterministic, ""},
	{"run diverged broken wrong passed", ExitUsage, "unknown act"},
	{"run wrong broken fails", ExitInternal, "the engine failed"},

	{"run", ExitUsage, "name at least one"},
	{"validate", ExitUsage, "name at least one"},
	{"list passed", ExitUsage, "unknown command"},
	{"fly", ExitUsage, "unknown command"},
	{"run passed --fly", ExitUsage, "unknown flag"},
	{"run passed --runs many", ExitUsage, "invalid argument"},
	{"run passed --runs -1", ExitUsage, "negative"},
	{"run passed --for -1s", ExitUsage, "negative"},
	{"run passed --for 0", ExitUsage, "--for wants some time"},
	{"run passed --out=", ExitUsage, "the name of a folder"},
	{"run passed --for 1s --runs 3", ExitUsage, "give one of them"},
	{"run passed --reconciler widget/fixed", ExitUsage, "want CONTROLLER=RECONCILER"},
	{"run passed --reconciler operator=a --reconciler operator=b", ExitUsage, "given twice"},
	{"run passed --reconciler operator=gadget", ExitUsage, "no reconciler gadget"},
	{"run passed --reconciler operator=widget/fixed", ExitPassed, ""},
	{"run passed --out /dev/null/findings", ExitUsage, "--out"},
}

func TestExitCodes(t *testing.T) {
	for _, c := range exitCodes {
		t.Run(c.args, func(t *testing.T) {
			got := run(t.Context(), t, strings.Fields(c.args)...)
			if got.exit != c.want || !strings.Contains(got.stderr, c.stderr) {
				t.Errorf("exit %d, want %d; stderr %q, want %q in it", got.exit, c.want, got.stderr, c.stderr)
			}
			if c.stderr == "" && got.stderr != "" {
				t.Errorf("stderr has %q, want nothing", got.stderr)
			}
		})
	}
}

func TestPrecedence(t *testing.T) {
	order := []Exit{ExitInternal, ExitUsage, ExitNondeterministic, ExitBroken, ExitStale, ExitInconclusive, ExitPassed}
	for i, a := range order {
		for _, b := range order[i:] {
			if stronger(a, b) != a || stronger(b, a) != a {
				t.Errorf("%d and %d: %d takes precedence", a, b, a)
			}
		}
	}
	if got := exitOf(reports.Verdict("new")); got != ExitInternal {
		t.Errorf("an unknown verdict exits with %d, want %d", got, ExitInternal)
	}
}

// TestOutSurvives checks that a finding is on disk however the run ends after it.
func TestOutSurvives(t *testing.T) {
	for act, want := range map[string]struct {
		exit Exit
		note bool // that the exploration did not get to its end
	}{
		"broken": {ExitBroken, false}, "fails": {ExitInternal, true}, "panics": {ExitInternal, true},
	} {
		t.Run(act, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "new", "findings")
			got := run(t.Context(), t, "run", act, "--out", folder)
			if got.exit != want.exit {
				t.Fatalf("exit %d, want %d: %s", got.exit, want.exit, got.stderr)
			}
			entries, err := os.ReadDir(folder)
			if err != nil || len(entries) != 1 || entries[0].Name() != "play-default-order.yaml" {
				t.Fatalf("the folder holds %v, %v; want one finding", entries, err)
			}
			text, err := os.ReadFile(filepath.Join(folder, entries[0].Name()))
			if err != nil || !strings.Contains(string(text), "the widget is not ready") {
				t.Errorf("the finding is not told: %s, %v", text, err)
			}
			if got := strings.Contains(string(text), "before the exploration came to its end"); got != want.note {
				t.Errorf("an early end is noted: %t, want %t:\n%s", got, want.note, text)
			}
		})
	}
}

// TestOutBreaks checks that a finding which cannot be written is still printed, and that the failure is not silent.
func TestOutBreaks(t *testing.T) {
	folder := t.TempDir()
	if err := os.MkdirAll(filepath.Join(folder, "play-default-order.yaml", "in the way"), 0o755); err != nil {
		t.Fatal(err)
	}
	got := run(t.Context(), t, "run", "broken", "--out", folder)
	told := strings.Contains(got.stderr, "cannot be written") && strings.Contains(got.stdout, "FINDING 1 OF 1")
	if got.exit != ExitInternal || !told {
		t.Errorf("exit %d, want %d\nstdout: %s\nstderr: %s", got.exit, ExitInternal, got.stdout, got.stderr)
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

// TestStdoutBreaks checks that findings are on disk before anything is printed.
func TestStdoutBreaks(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(t.TempDir(), "scenario")
	if err := os.WriteFile(file, []byte("broken"), 0o600); err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	a := &app{stdout: brokenWriter{}, stderr: &stderr, engine: acted{}}
	if exit := a.main(t.Context(), []string{"stalemate", "run", file, "--out", folder}); exit != ExitInternal {
		t.Errorf("exit %d, want %d", exit, ExitInternal)
	}
	if _, err := os.Stat(filepath.Join(folder, "play-default-order.yaml")); err != nil {
		t.Error(err)
	}
}

func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	got := run(ctx, t, "run", "waits")
	if got.exit != ExitInconclusive || !strings.Contains(got.stderr, "interrupted") {
		t.Errorf("exit %d, want %d: %s", got.exit, ExitInconclusive, got.stderr)
	}
	got = run(ctx, t, "run", "finds")
	if got.exit != ExitBroken || !strings.Contains(got.stdout, "FINDING 1 OF 1") {
		t.Errorf("exit %d, want %d: %s", got.exit, ExitBroken, got.stdout)
	}
}

func TestCommandLine(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"run passed", "--seed 1"},
		{"run passed --seed 7 --runs 30", "--seed 7 --runs 30"},
		{"run passed --runs 0", "--seed 1 --runs 0"},
		{"run passed --for 90s", "--seed 1 --for 1m30s"},
		{"run passed --reconciler operator=widget/fixed", "--reconciler operator=widget/fixed --seed 1"},
	} {
		got := run(t.Context(), t, strings.Fields(c.args)...)
		if !strings.Contains(got.stdout, "/passed "+c.want+"\n") {
			t.Errorf("%s: the report does not have %q:\n%s", c.args, c.want, got.stdout)
		}
	}
}

func TestStatus(t *testing.T) {
	for _, c := range []struct {
		name     string
		terminal bool
		width    int
		every    time.Duration
		want     string
	}{
		{"narrow", true, 7, 60 * time.Millisecond, "\r\x1b[Kf.yaml\r\x1b[Kf.yaml\r\x1b[K"},
		{"terminal", true, 0, 60 * time.Millisecond,
			"\r\x1b[Kf.yaml: sweep 2 of 9, 3 executions, 1 findings, 0s" +
				"\r\x1b[Kf.yaml: sweep 4 of 9, 5 executions, 1 findings, 0s\r\x1b[K"},
		{"log", false, 0, 6 * time.Second,
			"f.yaml: sweep 2 of 9, 3 executions, 1 findings, 12s\nf.yaml: sweep 4 of 9, 5 executions, 1 findings, 24s\n"},
		{"short", false, 0, time.Second, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b bytes.Buffer
			now := time.Unix(0, 0)
			s := startStatus(&b, c.terminal, "f.yaml", func() time.Time { return now })
			s.width = c.width
			for i := range 4 {
				now = now.Add(c.every)
				s.update(progress{strategy: "sweep", executions: i + 2, done: i + 1, total: 9, findings: 1})
			}
			s.clear()
			if b.String() != c.want {
				t.Errorf("wrote %q, want %q", b.String(), c.want)
			}
		})
	}
}

func TestProgramName(t *testing.T) {
	for arg0, want := range map[string]string{"stalemate": "stalemate", "./bin/ours": "./bin/ours"} {
		if got := programName(arg0); got != want {
			t.Errorf("programName(%q) = %q, want %q", arg0, got, want)
		}
	}
	if got := programName("/tmp/go-build1/b001/exe/stalemate"); !strings.HasPrefix(got, "go run ") {
		t.Errorf("programName of a binary that go run made = %q", got)
	}
}
