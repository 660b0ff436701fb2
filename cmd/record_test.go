package cmd_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stalemate-dev/stalemate/cmd"
	"github.com/stalemate-dev/stalemate/reports"
	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/clickhouse"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

const (
	recordScenarios = "scenarios/clickhouse"
	recordSchedules = recordScenarios + "/testdata/schedules"
)

// trial is one variant of the operator in one scenario, explored up to the end of the sweeps.
type trial struct {
	scenario, variant string
	report            string
	exit              int
	files             []string // of its findings, by their names, sorted
}

// command returns the command line that explores it.
func (r *trial) command() []string {
	return []string{"run", r.scenario, "--reconciler", "operator=" + r.variant, "--runs", "0"}
}

// TestTrackRecord explores every variant in every scenario, and compares with the README's table, and with the schedules that
// are committed: one for each finding. With SIM_UPDATE=1 it writes both.
func TestTrackRecord(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this runs some thousand executions")
	}
	t.Chdir("..")
	trials := recordTrials(t)
	var group sync.WaitGroup
	for i := range trials {
		group.Go(func() { explored(t, &trials[i]) })
	}
	group.Wait()
	record := "| command | exit code | seen |\n|---|---|---|\n"
	findings := "| found in | with | what decides | replay |\n|---|---|---|---|\n"
	var found []string
	for i := range trials {
		r := &trials[i]
		record += fmt.Sprintf("| `stalemate %s` | %d | %s |\n", strings.Join(r.command()[:4], " "), r.exit, outcome(r.report))
		for _, name := range r.files {
			file := recordSchedules + "/" + name
			found = append(found, file)
			if _, err := os.Stat(file); err != nil {
				continue // is told below
			}
			findings += fmt.Sprintf("| %s | %s | %s | `stalemate replay %s` |\n",
				strings.TrimSuffix(filepath.Base(r.scenario), ".yaml"), r.variant, decides(loadSchedule(t, file).Spec), file)
		}
	}
	committed := slices.DeleteFunc(recorded(t), func(file string) bool { return loadSchedule(t, file).Spec.Origin.Strategy == "" })
	slices.Sort(found)
	if !slices.Equal(committed, found) { // those that a person wrote apart
		t.Errorf("%s has\n%s\nand what is found is\n%s\nSIM_UPDATE=1 writes what is missing; delete what is not found any more",
			recordSchedules, strings.Join(committed, "\n"), strings.Join(found, "\n"))
	}
	compareWithReadme(t, "record", record)
	compareWithReadme(t, "findings", findings)
}

// TestTrackRecordReplays replays every schedule of the track record: each is reproduced as it was recorded.
func TestTrackRecordReplays(t *testing.T) {
	t.Chdir("..")
	for _, file := range recorded(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			report, _ := command(t, cmd.ExitBroken, "replay", file)
			contains(t, report, "✗ REPRODUCED  ")
			if loadSchedule(t, file).Spec.Expect.Hash != 0 {
				contains(t, report, ", as recorded\n")
			}
		})
	}
}

// recorded returns the schedules of the track record, sorted.
func recorded(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(recordSchedules + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d schedules in %s, %v; want some", len(files), recordSchedules, err)
	}
	return files
}

// recordTrials returns every variant in every scenario.
func recordTrials(t *testing.T) []trial {
	t.Helper()
	files, err := filepath.Glob(recordScenarios + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scenarios, %v; want some", len(files), err)
	}
	registry := &scenarios.Registry{}
	clickhouse.Register(registry)
	var trials []trial
	for _, file := range files {
		for _, name := range registry.Names() {
			trials = append(trials, trial{scenario: file, variant: name})
		}
	}
	return trials
}

// explored runs a trial. Its findings are written to a folder of its own, or to where they are committed.
func explored(t *testing.T, r *trial) {
	t.Helper()
	folder, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Error(err)
		return
	}
	r.report, r.exit = stalemate(t, append(r.command(), "--out", folder)...)
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Error(err)
	}
	for _, entry := range entries {
		r.files = append(r.files, entry.Name())
	}
	if os.Getenv("SIM_UPDATE") == "1" && len(r.files) > 0 {
		stalemate(t, append(r.command(), "--out", recordSchedules)...)
	}
}

// outcome says in some words what a report says.
func outcome(report string) string {
	var words, broken []string
	told := regexp.MustCompile(`(?m)^FINDING \d+ OF \d+: (.*)$|^  (.*), \S.*, execution \d+ of \d+`)
	for _, finding := range told.FindAllStringSubmatch(report, -1) {
		if what := finding[1] + finding[2]; what != "" {
			broken = append(broken, what)
		}
	}
	for _, what := range slices.Compact(slices.Sorted(slices.Values(broken))) {
		others := slices.DeleteFunc(slices.Clone(broken), func(other string) bool { return other == what })
		if n := len(broken) - len(others); n > 1 {
			words = append(words, fmt.Sprintf("%d findings break %s", n, what))
			continue
		}
		words = append(words, "breaks "+what)
	}
	switch {
	case len(words) > 0:
	case strings.HasPrefix(report, "✓ PASSED"):
		words = append(words, "passes")
	default:
		first, _, _ := strings.Cut(report, "  ")
		words = append(words, first)
	}
	if !strings.Contains(report, "complete: all") || strings.Contains(report, "NOT complete") {
		words = append(words, "the sweep did not end")
	}
	return strings.Join(words, "; ")
}

// loadSchedule loads a schedule of the track record.
func loadSchedule(t *testing.T, file string) *scenarios.Schedule {
	t.Helper()
	registry := &scenarios.Registry{}
	clickhouse.Register(registry)
	loaded, err := scenarios.LoadSchedule(file, scenarios.Options{Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}

// decides returns the elements of a schedule, as its file names them.
func decides(s *schedule.Schedule) string {
	names := reports.Elements(s)
	if len(names) == 0 {
		return "the default order"
	}
	return strings.Join(names, " and ")
}

func TestOutcome(t *testing.T) {
	const sweep = "\n  sweep          86 executions; complete: all 86 candidates\n"
	for _, c := range []struct{ report, want string }{
		{"✓ PASSED  x" + sweep, "passes"},
		{"✓ PASSED  x\n  sweep  NOT complete: 9 candidates", "passes; the sweep did not end"},
		{"? INCONCLUSIVE  x" + sweep, "? INCONCLUSIVE"},
		{"✗ BROKEN  x\n\nFINDING 1 OF 1: a, b\n" + sweep, "breaks a, b"},
		{"✗ BROKEN  x\n\nFINDING 1 OF 5: a\nFINDING 2 OF 5: b\n\nFURTHER FINDINGS\n  a, fault sweep, execution 7 of 90, after 1s\n" +
			"  a, b, fault sweep, execution 8 of 90\n  b, fault sweep, execution 9 of 90\n" + sweep,
			"2 findings break a; breaks a, b; 2 findings break b"},
	} {
		if got := outcome(c.report); got != c.want {
			t.Errorf("outcome of\n%s\nis %q, want %q", c.report, got, c.want)
		}
	}
}
