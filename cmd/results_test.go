package cmd

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stalemate-dev/stalemate/reports"
	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/reference"
)

// maxResult is how large the result of an exploration may be for each of its runs that it tells of, in bytes.
const maxResult = 1 << 20

// pinned is a schedule that brings the bug of the ClickHouse operator about.
const pinned = "../scenarios/clickhouse/testdata/schedules/annotation-between-get-and-update.yaml"

// mainRun runs a command line with the reference operators.
func mainRun(t *testing.T, args ...string) ran {
	t.Helper()
	registry := &scenarios.Registry{}
	reference.Register(registry)
	var stdout, stderr bytes.Buffer
	exit := Main(append([]string{"stalemate"}, args...), &stdout, &stderr, registry)
	return ran{Exit(exit), stdout.String(), stderr.String()}
}

// TestResultsAreWhole explores and replays with real operators, and checks that what is written of it says the same as what was
// printed when it ran, to the byte.
func TestResultsAreWhole(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
		want Exit
	}{
		{"a finding", []string{"run", "../scenarios/clickhouse/recreate.yaml", "--runs", "3", "--out", t.TempDir()}, ExitBroken},
		{"faults", []string{"run", "../scenarios/clickhouse/recreate-errors.yaml", "--runs", "3", "--names"}, ExitBroken},
		{"a replay", []string{"replay", pinned}, ExitBroken},
	} {
		t.Run(test.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "result.json")
			live := mainRun(t, append(test.args, "--json", file)...)
			if live.exit != test.want || live.stderr != "" {
				t.Fatalf("exit code %d, want %d: %s", live.exit, test.want, live.stderr)
			}
			report := []string{"report", file}
			if test.args[len(test.args)-1] == "--names" {
				report = append(report, "--names")
			}
			if read := mainRun(t, report...); read.exit != ExitPassed || read.stdout != live.stdout {
				t.Errorf("exit code %d, the reports differ (-live +read):\n%s", read.exit, cmp.Diff(live.stdout, read.stdout))
			}
			content, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			documents, err := reports.DecodeDocuments(bytes.NewReader(content))
			if err != nil {
				t.Fatal(err)
			}
			runs := 0
			for _, d := range documents {
				runs += 1 + len(d.Result.Findings)
			}
			if len(content) > runs*maxResult {
				t.Errorf("%d bytes are too many for %d runs", len(content), runs)
			}
		})
	}
}

// recreated is the result of its replay, for tests of reports.
const recreated = "../reports/testdata/recreate.json"

// TestRecreateResult compares what a replay comes to with the file that is committed; SIM_UPDATE=1 writes it anew.
func TestRecreateResult(t *testing.T) {
	file := filepath.Join(t.TempDir(), "result.json")
	if got := mainRun(t, "replay", pinned, "--json", file); got.exit != ExitBroken {
		t.Fatalf("exit code %d: %s", got.exit, got.stderr)
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if os.Getenv("SIM_UPDATE") == "1" {
		if err := os.WriteFile(recreated, got, 0o644); err != nil { //nolint:gosec // a file of the repository
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(recreated)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the result is not the committed one, which SIM_UPDATE=1 writes anew (-want +got):\n%s", cmp.Diff(string(want), string(got)))
	}
}
