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
	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/clickhouse"
)

const (
	recordScenarios = "scenarios/clickhouse"
	recordSchedules = recordScenarios + "/testdata/schedules"
)

// trial is one variant of the operator in one scenario, explored up to the end of the sweeps.
type trial struct {
	scenario, variant string
	report            string
	files             []string // of its findings, by their names, sorted
}

// command returns the command line that explores it.
func (r *trial) command() []string {
	return []string{"run", r.scenario, "--reconciler", "operator=clickhouse/" + r.variant, "--runs", "0"}
}

// TestTrackRecord explores every variant in every scenario, and compares with the README's tables, and with the schedules that
// are committed: one for each finding. With SIM_UPDATE=1 it writes both.
func TestTrackRecord(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this runs some thousand executions")
	}
	t.Chdir("..")
	if os.Getenv("SIM_UPDATE") == "1" {
		for _, file := range committedFindings(t) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
	}
	trials := recordTrials(t)
	var group sync.WaitGroup
	for i := range trials {
		group.Go(func() { explored(t, &trials[i]) })
	}
	group.Wait()
	var found []string
	for i := range trials {
		for _, name := range trials[i].files {
			found = append(found, recordSchedules+"/"+name)
		}
	}
	slices.Sort(found)
	if committed := committedFindings(t); !slices.Equal(committed, found) {
		t.Fatalf("%s has\n%s\nand what is found is\n%s\nSIM_UPDATE=1 brings it up to date",
			recordSchedules, strings.Join(committed, "\n"), strings.Join(found, "\n"))
	}
	compareWithReadme(t, "record", recordTable(trials))
	compareWithReadme(t, "findings", findingsTable(t, trials))
}

// recordTable has a row for each scenario, and a column for each variant.
func recordTable(trials []trial) string {
	var head, rule, rows string
	for i := range trials {
		r := &trials[i]
		if r.scenario == trials[0].scenario {
			head += " " + r.variant + " |"
			rule += "---|"
		}
		if i == 0 || r.scenario != trials[i-1].scenario {
			rows += fmt.Sprintf("\n| [%s](%s) |", filepath.Base(r.scenario), r.scenario)
		}
		rows += " " + outcome(r.report) + " |"
	}
	return "| scenario |" + head + "\n|---|" + rule + rows + "\n"
}

// findingsTable has a row for each finding: variants that do the same under the same schedule share one.
func findingsTable(t *testing.T, trials []trial) string {
	t.Helper()
	type row struct {
		told     string
		variants []string
		file     string
	}
	var rows []row
	for i := range trials {
		r := &trials[i]
		for _, name := range r.files {
			file := recordSchedules + "/" + name
			decides, breaks := gistOfFinding(t, file)
			told := fmt.Sprintf("%s | %s | %s", strings.TrimSuffix(filepath.Base(r.scenario), ".yaml"), decides, breaks)
			at := slices.IndexFunc(rows, func(other row) bool { return other.told == told })
			if at < 0 {
				at, rows = len(rows), append(rows, row{told: told, file: file})
			}
			rows[at].variants = append(rows[at].variants, r.variant)
		}
	}
	table := "| scenario | what decides | what breaks | variants | replay |\n|---|---|---|---|---|\n"
	for _, r := range rows {
		table += fmt.Sprintf("| %s | %s | `stalemate replay %s` |\n", r.told, strings.Join(r.variants, ", "), r.file)
	}
	return table
}

// gistOfFinding returns what decides a finding, in a sentence of the report in its file, and what it breaks, in the words of its
// scenario.
func gistOfFinding(t *testing.T, file string) (decides, breaks string) {
	t.Helper()
	text := regexp.MustCompile(`(?m)^# ?`).ReplaceAllString(readText(t, file), "")
	broken := regexp.MustCompile(`(?m)^FINDING \d+ OF \d+: (.*)$`).FindStringSubmatch(text)
	sentence := regexp.MustCompile(`(?s)\nWHAT DECIDES\n  (.*?\.)\s`).FindStringSubmatch(text)
	if broken == nil || sentence == nil {
		t.Fatalf("%s does not say what decides, or what is broken:\n%s", file, text)
	}
	names := strings.Split(broken[1], ", ")
	for _, p := range loadSchedule(t, file).Scenario.Manifest.Spec.Properties {
		if p.Name == names[0] {
			breaks = p.Message
		}
	}
	switch more := len(names) - 1; {
	case more == 1:
		breaks += ", and one more property"
	case more > 1:
		breaks += fmt.Sprintf(", and %d more properties", more)
	}
	return strings.TrimSuffix(strings.Join(strings.Fields(sentence[1]), " "), "."), breaks
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

// committedFindings returns the schedules of the track record that an exploration wrote, and not a person.
func committedFindings(t *testing.T) []string {
	t.Helper()
	byHand := func(file string) bool { return loadSchedule(t, file).Spec.Origin.Strategy == "" }
	return slices.DeleteFunc(recorded(t), byHand)
}

// recordTrials returns every variant in every scenario.
func recordTrials(t *testing.T) []trial {
	t.Helper()
	files, err := filepath.Glob(recordScenarios + "/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scenarios, %v; want some", len(files), err)
	}
	name := func(file string) string { return strings.TrimSuffix(file, filepath.Ext(file)) }
	slices.SortFunc(files, func(a, b string) int { return strings.Compare(name(a), name(b)) }) // what is varied comes first
	registry := &scenarios.Registry{}
	clickhouse.Register(registry)
	var trials []trial
	for _, file := range files {
		for _, name := range registry.Names() {
			trials = append(trials, trial{scenario: file, variant: strings.TrimPrefix(name, "clickhouse/")})
		}
	}
	return trials
}

// explored runs a trial. Its findings are written to a folder of its own, or with SIM_UPDATE=1 to where they are committed, too.
func explored(t *testing.T, r *trial) {
	t.Helper()
	folder := t.TempDir()
	var exit int
	r.report, exit = stalemate(t, append(r.command(), "--out", folder)...)
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Error(err)
	}
	for _, entry := range entries {
		r.files = append(r.files, entry.Name())
	}
	if want := map[bool]cmd.Exit{true: cmd.ExitPassed, false: cmd.ExitBroken}[len(entries) == 0]; exit != int(want) {
		t.Errorf("%s: exit %d with %d findings, want %d", strings.Join(r.command(), " "), exit, len(entries), want)
	}
	if os.Getenv("SIM_UPDATE") == "1" && len(r.files) > 0 {
		stalemate(t, append(r.command(), "--out", recordSchedules)...)
	}
}

// outcome says in some words what a report says.
func outcome(report string) string {
	words, _, _ := strings.Cut(report, "  ")
	if findings := regexp.MustCompile(`^  (\d+ findings?) in `).FindStringSubmatch(afterFirstLine(report)); findings != nil {
		words = findings[1]
	} else if words == "✓ PASSED" {
		words = "passes"
	}
	if !strings.Contains(report, "complete: all") || strings.Contains(report, "NOT complete") {
		words += "; the sweep did not end"
	}
	return words
}

func afterFirstLine(text string) string {
	_, rest, _ := strings.Cut(text, "\n")
	return rest
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

func TestOutcome(t *testing.T) {
	const sweep = "\n  sweep          86 executions; complete: all 86 candidates\n"
	for _, c := range []struct{ report, want string }{
		{"✓ PASSED  x\n" + sweep, "passes"},
		{"✓ PASSED  x\n\n  sweep  NOT complete: 9 candidates", "passes; the sweep did not end"},
		{"? INCONCLUSIVE  x\n" + sweep, "? INCONCLUSIVE"},
		{"✗ BROKEN  x\n  1 finding in 9 executions, 1s.\n" + sweep, "1 finding"},
		{"✗ BROKEN  x\n  5 findings in 90 executions.\n" + sweep, "5 findings"},
	} {
		if got := outcome(c.report); got != c.want {
			t.Errorf("outcome of\n%s\nis %q, want %q", c.report, got, c.want)
		}
	}
}
