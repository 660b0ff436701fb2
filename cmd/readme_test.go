package cmd_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stalemate-dev/stalemate/cmd"
	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/clickhouse"
)

// stalemate runs our own command, from the root of the repository, and returns what it printed and its exit code.
func stalemate(t *testing.T, args ...string) (string, int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	registry := &scenarios.Registry{}
	clickhouse.Register(registry)
	exit := cmd.Main(append([]string{"stalemate"}, args...), &stdout, &stderr, registry)
	if strings.Contains(stderr.String(), "error: ") {
		t.Errorf("%s: %s", strings.Join(args, " "), stderr.String())
	}
	return stdout.String(), exit
}

// compareWithReadme compares a text with what stands between two marks in the README, or with SIM_UPDATE=1 puts it there.
func compareWithReadme(t *testing.T, mark, want string) {
	t.Helper()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(text), "<!-- "+mark+":begin -->\n")
	got, after, ends := strings.Cut(rest, "<!-- "+mark+":end -->\n")
	if !begins || !ends {
		t.Fatalf("the README has no marks for %s", mark)
	}
	if got == want {
		return
	}
	if os.Getenv("SIM_UPDATE") != "1" {
		t.Errorf("the README's %s differs from what the command prints (SIM_UPDATE=1 rewrites it); it prints:\n%s", mark, want)
		return
	}
	text = fmt.Appendf(nil, "%s<!-- %s:begin -->\n%s<!-- %s:end -->\n%s", before, mark, want, mark, after)
	if err := os.WriteFile("README.md", text, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestReadmeShowsTheRealReport runs the command that the README begins with. Only real time may differ.
func TestReadmeShowsTheRealReport(t *testing.T) {
	t.Chdir("..")
	report, exit := stalemate(t, "run", "scenarios/clickhouse/recreate.yaml")
	if exit != int(cmd.ExitBroken) {
		t.Errorf("exit %d, want %d", exit, cmd.ExitBroken)
	}
	elapsed := regexp.MustCompile(`(executions|after),? [0-9.]+m?s\b`)
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	// The times in the README stay as they were when it was last written.
	shown := elapsed.FindAllString(string(text), -1)
	for i, now := range elapsed.FindAllString(report, -1) {
		if i < len(shown) {
			report = strings.Replace(report, now, shown[i], 1)
		}
	}
	compareWithReadme(t, "report", "```text\n"+report+"```\n")
}

// TestTrackRecord runs every variant of every scenario, up to the end of the sweep, and compares with the README's table.
func TestTrackRecord(t *testing.T) {
	if testing.Short() {
		t.Skip("runs some thousand executions")
	}
	t.Chdir("..")
	files, err := filepath.Glob("scenarios/clickhouse/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	registry := &scenarios.Registry{}
	clickhouse.Register(registry)
	var rows [][]string
	for _, file := range files {
		for _, name := range registry.Names() {
			rows = append(rows, []string{"run", file, "--reconciler", "operator=" + name, "--runs", "0"})
		}
	}
	cells := make([]string, len(rows))
	var group sync.WaitGroup
	for i, args := range rows {
		group.Go(func() {
			report, exit := stalemate(t, args...)
			cells[i] = fmt.Sprintf("| `stalemate %s` | %d | %s |\n", strings.Join(args[:4], " "), exit, outcome(report))
		})
	}
	group.Wait()
	compareWithReadme(t, "record", "| command | exit code | seen |\n|---|---|---|\n"+strings.Join(cells, ""))
}

// outcome says in some words what a report says.
func outcome(report string) string {
	var words []string
	for _, finding := range regexp.MustCompile(`(?m)^FINDING \d+ OF \d+: (.*)$`).FindAllStringSubmatch(report, -1) {
		words = append(words, "breaks "+finding[1])
	}
	if len(words) == 0 {
		words = append(words, "passes")
	}
	if !strings.Contains(report, "complete: all") || strings.Contains(report, "NOT complete") {
		words = append(words, "the sweep did not end")
	}
	return strings.Join(words, "; ")
}
