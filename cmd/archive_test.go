package cmd

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// namesIn returns the names of the files in a folder, sorted.
func namesIn(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// TestFindingFiles checks that there is a file for each finding that an exploration came to in the end, and none for what one
// of them was taken for on the way; files of others are left alone. Real time makes no difference.
func TestFindingFiles(t *testing.T) {
	folder := t.TempDir()
	out, err := openArchive(folder)
	if err != nil {
		t.Fatal(err)
	}
	files := out.open(play{}, "stalemate")
	if err := os.WriteFile(filepath.Join(folder, "other.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := &history.Result{Scenario: "play", Findings: []history.Finding{finding()}, Elapsed: time.Second}
	if err := files.save(r, 0); err != nil {
		t.Fatal(err)
	}
	early := namesIn(t, folder)
	r.Findings[0].Signature = "what it is in the end"
	if err := files.finish(r); err != nil {
		t.Fatal(err)
	}
	late := namesIn(t, folder)
	if len(early) != 2 || len(late) != 2 || !slices.Contains(late, "other.yaml") || slices.Equal(early, late) {
		t.Errorf("the folder has %q when a finding is found, and %q in the end", early, late)
	}
	file := files.name(r, &r.Findings[0])
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	r.Elapsed, r.Findings[0].Elapsed = time.Hour, time.Minute
	if err := files.finish(r); err != nil {
		t.Fatal(err)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("later, the file is another one (%v):\n%s\nit was:\n%s", err, after, before)
	}
}

func TestScheduleOf(t *testing.T) {
	f := finding()
	f.Signature, f.Seed = "s", 7
	want := schedule.Expectation{Outcome: schedule.Violated, Property: truth.Name, Signature: "s", Hash: 0xfeed}
	if got := scheduleOf(&f); got.Expect != want || got.Origin != (schedule.Origin{Strategy: "sweep", Seed: 7}) {
		t.Errorf("a finding of the default order is written as %+v", got)
	}
	f.Schedule = &schedule.Schedule{Faults: []schedule.Fault{crash}, Expect: schedule.Expectation{Outcome: schedule.Violated, Hash: 1}}
	if got := scheduleOf(&f); got.Expect != f.Schedule.Expect || len(got.Faults) != 1 {
		t.Errorf("a finding with a schedule is written as %+v", got)
	}
}

// TestContentHash checks that the name of a pinned schedule depends on what it asks for, and on nothing else.
func TestContentHash(t *testing.T) {
	other := crash
	other.Point = schedule.BeforeCall
	base := schedule.Schedule{Faults: []schedule.Fault{crash, other}}
	hash := contentHash(&base, nil)
	same := schedule.Schedule{Faults: []schedule.Fault{other, crash}, Origin: schedule.Origin{Seed: 7}, Trace: &schedule.Trace{},
		Expect: schedule.Expectation{Outcome: schedule.Holds}}
	if contentHash(&same, nil) != hash {
		t.Error("the order of elements, or where a schedule comes from, makes a difference")
	}
	for name, s := range map[string]schedule.Schedule{
		"fewer faults": {Faults: base.Faults[:1]},
		"a step less":  {Faults: base.Faults, Skip: []int{0}},
		"a latency":    {Faults: base.Faults, Latencies: []schedule.Latency{{At: crash.At, For: time.Second}}},
		"an order":     {Faults: base.Faults, Orders: []schedule.Permutation{{At: crash.At, Order: []int{1, 0}}}},
	} {
		if contentHash(&s, nil) == hash {
			t.Errorf("%s makes no difference", name)
		}
	}
	if contentHash(&base, []string{"operator=widget/fixed"}) == hash {
		t.Error("another reconciler makes no difference")
	}
}

func TestFileName(t *testing.T) {
	for scenario, want := range map[string]string{
		"widget-update": "widget-update", "lws (policy=Foreground, size=3)": "lws-policy-foreground-size-3",
		strings.Repeat("x", 45) + "-yyy": strings.Repeat("x", 45),
	} {
		if got := fileName(scenario); got != want {
			t.Errorf("fileName(%q) = %q, want %q", scenario, got, want)
		}
	}
}
