package simtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// exhibit is a test of the gallery, with what it is to say.
type exhibit struct {
	name      string
	arguments []string
	variables []string
	schedule  string // added to the committed ones, if set
	passes    bool
	says      []string
	saysNot   []string
}

// Schedules to add to the committed ones.
const (
	known = `apiVersion: stalemate.dev/v1alpha1
kind: Schedule
metadata: {name: known-bug}
spec:
  scenario: {path: ../../note.yaml}
  order:
  - hold: "user(step 2) Patch ConfigMap default/note #1"
    until: "operator(default/note) Get ConfigMap default/note #2"
  expect: {outcome: Violated, property: have-what-is-wanted`
	bugOfGood  = known + "}\n" // which the scenario names
	bugOfRacy  = known + "}\n  reconcilers: {operator: note/racy}\n"
	anotherBug = known + ", signature: other}\n  reconcilers: {operator: note/racy}\n"
)

var unmatched = strings.Replace(bugOfGood, "note #2", "note #9", 1)

// outcomes are the reasons to pass and to fail.
var outcomes = []exhibit{
	{name: "passes", arguments: []string{"-test.run=TestGood", "-test.v"}, passes: true,
		says: []string{"PASS: TestGood/schedule=regression", "PASS: TestGood/explore"}, saysNot: []string{"history hash"}},
	{name: "says so", arguments: []string{"-test.run=TestGood", "-test.v", "-sim.v"}, passes: true,
		says: []string{"✓ PASSED  note with operator=note/good", "✓ HOLDS", "history hash"}},
	{name: "broken by default", arguments: []string{"-test.run=TestBuggy"},
		says: []string{"FAIL: TestBuggy/schedule=regression", "note: broken", "have-what-is-wanted",
			"-run '^TestBuggy$/^explore$' -sim.seed=1\nFAIL\n"}},
	{name: "broken by an order", arguments: []string{"-test.run=TestRacy"},
		says: []string{"FAIL: TestRacy/schedule=regression", "FAIL: TestRacy/explore", "409 Conflict"}},
	{name: "known bug", arguments: []string{"-test.run=TestRacy/schedule=known", "-test.v"}, schedule: bugOfRacy,
		passes: true, says: []string{"known-bug.yaml still shows the bug that it is the record of"}},
	{name: "known bug that is fixed", arguments: []string{"-test.run=TestGood/schedule=known"}, schedule: bugOfGood,
		says: []string{"seems fixed: set spec.expect.outcome to Holds"}},
	{name: "known bug that is another", arguments: []string{"-test.run=TestRacy/schedule=known"}, schedule: anotherBug,
		says: []string{"not in the way that the schedule is the record of"}},
	{name: "known bug of others", arguments: []string{"-test.run=TestRacy/schedule=known", "-test.v"}, schedule: bugOfGood,
		passes: true, says: []string{"SKIP: TestRacy/schedule=known-bug", "of operator=note/good, which this test replaces"}},
	{name: "known bug of a reconciler that the test does not know", arguments: []string{"-test.run=TestGood/schedule=known", "-test.v"},
		schedule: strings.Replace(bugOfRacy, "racy", "old", 1), passes: true,
		says: []string{"SKIP: TestGood/schedule=known-bug", "of operator=note/old, which this test replaces"}},
	{name: "stale", arguments: []string{"-test.run=TestGood/schedule=known"}, schedule: unmatched,
		says: []string{"note: stale", "unmatched", "note #9"}},
	{name: "stale is all right", arguments: []string{"-test.run=TestGood/schedule=known"},
		schedule: unmatched + "  whenUnmatched: Ignore\n", passes: true},
	{name: "broken schedule", arguments: []string{"-test.run=TestMatrix/variant=good"}, schedule: "kind: Schedule\n",
		says: []string{"FAIL: TestMatrix/variant=good/schedule=known-bug", "apiVersion: expected"}},
	{name: "nondeterministic", arguments: []string{"-test.run=TestRandom/explore"},
		says: []string{"operator under test is nondeterministic", "look there for the wall clock"}},
	{name: "does not settle", arguments: []string{"-test.run=TestRestless/explore"},
		says: []string{"does not settle", "mend the operator"}},
	{name: "matrix", arguments: []string{"-test.run=TestMatrix", "-test.v"},
		says: []string{"PASS: TestMatrix/variant=good/explore", "FAIL: TestMatrix/variant=buggy/explore",
			"matrix (variant=buggy)", "-run '^TestMatrix$/^variant=buggy$/^explore$' -sim.seed=1"}},
	{name: "invalid property", arguments: []string{"-test.run=TestInvalid"},
		says: []string{"invalid: invalid property", "no such key: absent"}},
	{name: "unknown reconciler", arguments: []string{"-test.run=TestUnknown"},
		says: []string{"override operator=note/goood"}},
	{name: "reconciler twice", arguments: []string{"-test.run=TestTwice"}, says: []string{`"note/good" is added twice`}},
	{name: "course", arguments: []string{"-test.run=TestWorld"},
		says: []string{"note: broken: have-what-is-wanted", "'-sim.replay={"}},
}

// steered are what flags and variables do.
var steered = []exhibit{
	{name: "flag", arguments: []string{"-test.run=TestBuggy/explore", "-sim.seed=7", "-sim.runs=3"},
		says: []string{"runs by seed from 7 on", "-run '^TestBuggy$/^explore$' -sim.seed=7 -sim.runs=3\n"}},
	{name: "variable", arguments: []string{"-test.run=TestBuggy/explore", "-sim.seed=7"},
		variables: []string{"SIM_SEED=8", "SIM_RUNS=3"}, says: []string{"-sim.seed=7 -sim.runs=3\n"}},
	{name: "short", arguments: []string{"-test.run=TestBuggy/explore", "-test.short"},
		says: []string{"-short -sim.seed=1\n"}},
	{name: "flag of no value", arguments: []string{"-sim.seed=x"},
		says: []string{`invalid value "x" for flag -sim.seed: want a whole number`}},
	{name: "flag out of range", arguments: []string{"-sim.runs=-1"}, says: []string{"want a number of runs, 0 for none"}},
	{name: "variable of no value", arguments: []string{"-test.run=TestGood"}, variables: []string{"SIM_FOR=soon"},
		says: []string{`SIM_FOR="soon": want a time such as 30s or 2h`}},
	{name: "two ends", arguments: []string{"-test.run=TestGood", "-sim.runs=1", "-sim.for=1s"},
		says: []string{"are two ways to end"}},
	{name: "past the deadline", arguments: []string{"-test.run=TestGood/explore", "-sim.for=1h", "-test.timeout=10m"},
		says: []string{"add -timeout=0"}},
	{name: "for some time", arguments: []string{"-test.run=TestBuggy/explore", "-sim.for=100ms"},
		says: []string{"-sim.seed=1 -sim.runs="}, saysNot: []string{"-sim.runs=0", "-sim.runs=100\n"}},
	{name: "replay of nothing", arguments: []string{"-test.run=TestGood", "-sim.replay=absent.yaml"},
		says: []string{"absent.yaml: no such file"}},
	{name: "replay of nonsense", arguments: []string{"-test.run=TestGood", `-sim.replay={"order":[{"hold":"?"}]}`},
		says: []string{"-sim.replay: "}},
	{name: "replay of another scenario",
		arguments: []string{"-test.run=TestMatrix", "-test.v", "-sim.replay=testdata/schedules/regression.yaml"},
		passes:    true, says: []string{"SKIP: TestMatrix", "a schedule of another scenario"}},
	{name: "replay that holds",
		arguments: []string{"-test.run=TestGood", "-test.v", "-sim.replay=testdata/schedules/regression.yaml"},
		passes:    true, says: []string{"✓ HOLDS"}, saysNot: []string{"/explore"}},
	{name: "replay that is broken",
		arguments: []string{"-test.run=TestRacy", "-sim.replay=testdata/schedules/regression.yaml"},
		says:      []string{"✗ BROKEN", "-run '^TestRacy$' -sim.replay=testdata/schedules/regression.yaml\n"}},
}

// TestGallery runs the gallery, and checks what its tests say.
func TestGallery(t *testing.T) {
	for _, test := range slices.Concat(outcomes, steered) {
		t.Run(test.name, func(t *testing.T) {
			gallery := testsOf(t, galleryPackage)
			if test.schedule != "" {
				gallery.write(t, galleryPackage+"/testdata/schedules/known-bug.yaml", test.schedule)
			}
			c := gallery.command(gallery.file, test.arguments...)
			c.Env = append(c.Env, test.variables...)
			output, passed := finish(t, c)
			if passed != test.passes {
				t.Errorf("passed: %v, want %v", passed, test.passes)
			}
			for _, want := range test.says {
				if !strings.Contains(output, want) {
					t.Errorf("it does not say %q", want)
				}
			}
			for _, no := range test.saysNot {
				if strings.Contains(output, no) {
					t.Errorf("it says %q", no)
				}
			}
			if t.Failed() {
				t.Log(output)
			}
		})
	}
}

// TestLinesFindTheSame pastes the lines of what fails in the gallery.
func TestLinesFindTheSame(t *testing.T) {
	gallery := testsOf(t, galleryPackage)
	for _, test := range []string{"TestBuggy/explore", "TestRacy/explore", "TestRacy/schedule", "TestMatrix", "TestInvalid", "TestWorld"} {
		t.Run(test, func(t *testing.T) {
			output, passed := gallery.run(t, "-test.run="+test)
			if passed {
				t.Fatalf("the test passed:\n%s", output)
			}
			line := printed(t, output)
			again, passed := gallery.paste(t, line)
			if passed || printed(t, again) != line {
				t.Errorf("the line %s\npassed: %v, and gave\n%s", line, passed, again)
			}
		})
	}
}

// TestArtifacts checks what is written where it is asked for, and that the lines replay it.
func TestArtifacts(t *testing.T) {
	gallery := testsOf(t, galleryPackage)
	for _, arguments := range [][]string{{"-sim.report=found/here"}, {"-test.artifacts", "-test.outputdir=" + gallery.root}} {
		output, passed := gallery.run(t, append(arguments, "-test.run=TestRacy/explore")...)
		if passed {
			t.Fatalf("the test passed:\n%s", output)
		}
		line := printed(t, output)
		file := regexp.MustCompile(`-run '\^TestRacy\$' -sim\.replay=(\S+\.yaml)$`).FindStringSubmatch(line)
		if file == nil {
			t.Fatalf("the line replays no file: %s", line)
		}
		written, err := os.ReadFile(filepath.Join(gallery.root, file[1]))
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"# ✗ BROKEN", "\nkind: Schedule\n", "reconcilers: {operator: note/racy}", "outcome: Violated"} {
			if !strings.Contains(string(written), want) {
				t.Errorf("%q is not in the schedule:\n%s", want, written)
			}
		}
		report := filepath.Join(gallery.root, filepath.Dir(file[1]), "testracy-explore.txt")
		if text, err := os.ReadFile(report); err != nil || !strings.Contains(string(text), "WHAT DECIDES") {
			t.Errorf("the report is %q: %v", text, err)
		}
		again, passed := gallery.paste(t, line)
		if passed || !strings.Contains(again, "✗ REPRODUCED") || printed(t, again) != line {
			t.Errorf("the line passed: %v, and gave\n%s", passed, again)
		}
	}
	if entries, err := os.ReadDir(filepath.Join(gallery.root, galleryPackage, "testdata")); err != nil || len(entries) != 1 {
		t.Errorf("testdata holds %v: %v", entries, err)
	}
}

// TestRunsOfTests checks how many random runs a test makes.
func TestRunsOfTests(t *testing.T) {
	gallery := testsOf(t, galleryPackage)
	for _, test := range []struct {
		arguments []string
		runs      int
	}{
		{[]string{"-test.run=TestGood"}, 100},
		{[]string{"-test.run=TestGood", "-test.short"}, 20},
		{[]string{"-test.run=TestGood", "-test.short", "-sim.runs=9"}, 9},
		{[]string{"-test.run=TestRuns"}, 10},
		{[]string{"-test.run=TestRuns", "-test.short"}, 2},
		{[]string{"-test.run=TestRuns", "-sim.runs=7"}, 7},
		{[]string{"-test.run=TestNoRuns"}, 0},
		{[]string{"-test.run=TestGood", "-sim.runs=0"}, 0},
	} {
		output, passed := gallery.run(t, append(test.arguments, "-test.v", "-sim.v")...)
		if !passed {
			t.Fatalf("%v:\n%s", test.arguments, output)
		}
		runs := 0
		for _, match := range regexp.MustCompile(`(?m)^ +(?:random walk|PCT|selective PCT) +(\d+) execution`).FindAllStringSubmatch(output, -1) {
			var n int
			if _, err := fmt.Sscan(match[1], &n); err != nil {
				t.Fatal(err)
			}
			runs += n
		}
		if runs != test.runs {
			t.Errorf("%v made %d random runs, want %d:\n%s", test.arguments, runs, test.runs, output)
		}
	}
}

// TestArtifactsOfCourses checks that a course is written as a schedule, too.
func TestArtifactsOfCourses(t *testing.T) {
	gallery := testsOf(t, galleryPackage)
	output, passed := gallery.run(t, "-test.run=TestWorld", "-sim.report=found")
	line := printed(t, output)
	if passed || !strings.Contains(line, "-run '^TestWorld$' -sim.replay=found/note-") {
		t.Fatalf("the test passed: %v, with the line %s", passed, line)
	}
	if again, passed := gallery.paste(t, line); passed || printed(t, again) != line {
		t.Errorf("the line passed: %v, and gave\n%s", passed, again)
	}
}
