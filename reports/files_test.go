package reports

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// filesIn returns files for findings in a folder, which hold what identifies a finding.
func filesIn(folder string) *Files {
	return &Files{
		Folder: folder,
		Encode: func(_, name string, s *schedule.Schedule) ([]byte, error) {
			return fmt.Appendf(nil, "name: %s\nsignature: %s\n", name, s.Expect.Signature), nil
		},
		Replay: func(file string) string { return "stalemate replay " + filepath.Base(file) },
	}
}

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

// twins returns a result with two findings whose schedules have one name.
func twins() *history.Result {
	r := found()
	first := r.Findings[0]
	first.Schedule = &schedule.Schedule{Constraints: []schedule.Constraint{first.Run.Constraints[0].Constraint}}
	second := first
	second.Signature = "another"
	r.Findings = []history.Finding{first, second}
	return r
}

const (
	raceFile = "clickhouse-recreate-buggy-race-update-statefulset-status-operator.yaml"
	twinFile = "clickhouse-recreate-buggy-race-update-statefulset-status-operator-90a6d346.yaml"
)

// TestFiles checks that there is a file for each finding that an exploration came to in the end, and none for what one of them was
// taken for on the way; files of others are left alone. Real time makes no difference.
func TestFiles(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "other.yaml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	files, r := filesIn(folder), twins()
	early := *r
	early.Findings = slices.Clone(r.Findings[:1])
	early.Findings[0].Signature, early.Findings[0].Schedule = "what it was taken for", nil
	if err := files.Save(&early, 0); err != nil {
		t.Fatal(err)
	}
	if got, want := namesIn(t, folder), []string{"clickhouse-recreate-buggy-default-order.yaml", "other.yaml"}; !slices.Equal(got, want) {
		t.Errorf("when something is found, the folder has %q, want %q", got, want)
	}
	contents := func() (all []string) {
		if err := files.Finish(r); err != nil {
			t.Fatal(err)
		}
		if got, want := namesIn(t, folder), []string{twinFile, raceFile, "other.yaml"}; !slices.Equal(got, want) {
			t.Errorf("in the end, the folder has %q, want %q", got, want)
		}
		for _, name := range []string{raceFile, twinFile} {
			content, err := os.ReadFile(filepath.Join(folder, name))
			if err != nil || !strings.Contains(string(content), "# WHAT DECIDES\n") ||
				!strings.Contains(string(content), "\nname: "+strings.TrimSuffix(name, ".yaml")) {
				t.Errorf("%s has %v\n%s", name, err, content)
			}
			all = append(all, string(content))
		}
		return all
	}
	before := contents()
	r.Elapsed, r.Findings[0].Elapsed = time.Hour, time.Minute
	if after := contents(); !slices.Equal(before, after) {
		t.Errorf("later, the files are others:\n%s", strings.Join(after, "\n"))
	}
	for i, want := range []string{raceFile, twinFile} {
		if got := files.ReplayLine(r)(&r.Findings[i]); got != "stalemate replay "+want {
			t.Errorf("finding %d is replayed by %q, want that of %s", i, got, want)
		}
	}
}

// TestFilesOfOthers checks that a later exploration finds its own files, and leaves those of other findings alone.
func TestFilesOfOthers(t *testing.T) {
	folder, r := t.TempDir(), twins()
	for _, test := range []struct {
		findings []history.Finding
		want     []string
	}{
		{r.Findings[:1], []string{raceFile}}, {r.Findings[1:], []string{twinFile, raceFile}}, {r.Findings[:1], []string{twinFile, raceFile}},
	} {
		one := *r
		one.Findings = test.findings
		if err := filesIn(folder).Finish(&one); err != nil {
			t.Fatal(err)
		}
		if got := namesIn(t, folder); !slices.Equal(got, test.want) {
			t.Errorf("the folder has %q, want %q", got, test.want)
		}
	}
}

// TestFilesFail checks that what was saved stays if what is to replace it cannot be written.
func TestFilesFail(t *testing.T) {
	files, r := filesIn(t.TempDir()), twins()
	r.Findings = r.Findings[:1]
	if err := files.Save(r, 0); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("no words for it")
	files.Encode = func(string, string, *schedule.Schedule) ([]byte, error) { return nil, broken }
	r.Findings[0].Schedule = nil
	if err := files.Finish(r); !errors.Is(err, broken) {
		t.Errorf("the error is %v, want %v", err, broken)
	}
	if got := namesIn(t, files.Folder); !slices.Equal(got, []string{raceFile}) {
		t.Errorf("the folder has %q, want %q", got, raceFile)
	}
	files.Folder = filepath.Join(files.Folder, "absent")
	if err := filesIn(files.Folder).Finish(r); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "cannot be written") {
		t.Errorf("without a folder, the error is %v", err)
	}
	if err := (*Files)(nil).Finish(r); err != nil {
		t.Error(err)
	}
}

func TestScheduleOf(t *testing.T) {
	f := found().Findings[0]
	f.Schedule, f.Seed = nil, 7
	want := schedule.Expectation{Outcome: schedule.Violated, Property: completed.Name, Hash: f.Run.Hash,
		Signature: history.SignatureID(f.Signature)}
	if got := scheduleOf(&f); got.Expect != want || got.Origin != (schedule.Origin{Strategy: "sweep", Seed: 7}) {
		t.Errorf("a finding of the default order is written as %+v", got)
	}
	f.Schedule = &schedule.Schedule{Expect: schedule.Expectation{Outcome: schedule.Violated, Hash: 1}}
	if got := scheduleOf(&f); got != f.Schedule {
		t.Errorf("a finding with a schedule is written as %+v", got)
	}
}

func TestScheduleName(t *testing.T) {
	update := schedule.Event{Actor: "operator", Verb: schedule.Update, Kind: "StatefulSet", Subresource: "status", Name: "s"}
	lost := schedule.Fault{Type: schedule.LostResponse, At: update}
	main := ""
	selected := schedule.Selector{Verbs: []schedule.Verb{schedule.Update, schedule.Patch}, Kind: "Pod", Subresource: &main}
	plain := history.Header{Scenario: "play", Reconcilers: []string{"operator=widget/ours"}}
	for _, test := range []struct {
		header   history.Header
		schedule schedule.Schedule
		want     string
	}{
		{plain, schedule.Schedule{}, "play-ours-default-order"},
		{plain, schedule.Schedule{Trace: &schedule.Trace{}}, "play-ours-trace"},
		{plain, schedule.Schedule{Trace: &schedule.Trace{}, Origin: schedule.Origin{Minimal: true}}, "play-ours-default-order"},
		{plain, schedule.Schedule{Faults: []schedule.Fault{lost}}, "play-ours-lostresponse-update-statefulset-status"},
		{plain, schedule.Schedule{Faults: []schedule.Fault{lost, lost, lost}},
			"play-ours-lostresponse-update-statefulset-status-lostresponse-update-statefulset-status-and-1-more"},
		{plain, schedule.Schedule{Faults: []schedule.Fault{{Type: schedule.Crash, Select: &selected}}}, "play-ours-crash-update-patch-pod"},
		{plain, schedule.Schedule{Constraints: []schedule.Constraint{{Event: update, Waits: schedule.Event{Actor: "kcm"}}}},
			"play-ours-race-update-statefulset-status-kcm"},
		{plain, schedule.Schedule{Constraints: []schedule.Constraint{
			{Order: &schedule.Order{Hold: selected, Until: schedule.Selector{Actor: "user"}}}}}, "play-ours-race-update-patch-pod-user"},
		{plain, schedule.Schedule{Latencies: []schedule.Latency{{At: update}}, Orders: []schedule.Permutation{{At: update}}},
			"play-ours-late-update-statefulset-status-order-update-statefulset-status"},
		{history.Header{Scenario: "Play (size=3)", Reconcilers: []string{"a=x/one", "b=x/two"}}, schedule.Schedule{},
			"play-size-3-one-two-default-order"},
		{history.Header{Scenario: strings.Repeat("x", 149) + "-y"}, schedule.Schedule{}, strings.Repeat("x", 149)},
		{history.Header{Scenario: "ü"}, schedule.Schedule{}, "default-order"},
	} {
		if got := ScheduleName(&test.header, &test.schedule); got != test.want {
			t.Errorf("the name is %q, want %q", got, test.want)
		}
	}
	if got := FileName("(ü)"); got != "unnamed" {
		t.Errorf("what no name can be made of is called %q", got)
	}
}

func TestShellQuote(t *testing.T) {
	for word, want := range map[string]string{
		"a/b-c_d.yaml": "a/b-c_d.yaml", "operator=x/y": "operator=x/y", "": "''", "a b": "'a b'", "it's": `'it'\''s'`, "$x": "'$x'",
	} {
		if got := ShellQuote(word); got != want {
			t.Errorf("ShellQuote(%q) = %s, want %s", word, got, want)
		}
	}
}
