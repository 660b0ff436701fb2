package cmd_test

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stalemate-dev/stalemate/cmd"
	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/reference"
)

// stalemate runs our own command, from the root of the repository, and returns what it printed and its exit code.
func stalemate(t *testing.T, args ...string) (string, int) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	registry := &scenarios.Registry{}
	reference.Register(registry)
	exit := cmd.Main(append([]string{"stalemate"}, args...), &stdout, &stderr, registry)
	if strings.Contains(stderr.String(), "error: ") {
		t.Errorf("%s: %s", strings.Join(args, " "), stderr.String())
	}
	return stdout.String(), exit
}

// marked returns what stands between two marks in a page.
func marked(t *testing.T, page, mark string) string {
	t.Helper()
	_, rest, begins := strings.Cut(readText(t, page), "<!-- "+mark+":begin -->\n")
	text, _, ends := strings.Cut(rest, "<!-- "+mark+":end -->\n")
	if !begins || !ends {
		t.Fatalf("%s has no marks for %s", page, mark)
	}
	return text
}

// compareWithPage compares a text with what stands between two marks in a page, or with SIM_UPDATE=1 puts it there.
func compareWithPage(t *testing.T, page, mark, want string) {
	t.Helper()
	got := marked(t, page, mark)
	if got == want {
		return
	}
	if os.Getenv("SIM_UPDATE") != "1" {
		t.Errorf("%s differs in what it shows of %s (SIM_UPDATE=1 rewrites it); it is:\n%s", page, mark, want)
		return
	}
	begin := "<!-- " + mark + ":begin -->\n"
	text := strings.Replace(readText(t, page), begin+got, begin+want, 1)
	if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

const readme = "README.md"

func readText(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestReadmeShowsTheRealReport runs the command that the README begins with. Only real time may differ.
func TestReadmeShowsTheRealReport(t *testing.T) {
	t.Chdir("..")
	report, exit := stalemate(t, "run", "scenarios/clickhouse/recreate.yaml")
	if exit != int(cmd.ExitBroken) {
		t.Errorf("exit %d, want %d", exit, cmd.ExitBroken)
	}
	elapsed := regexp.MustCompile(`(executions|after),? [0-9.]+m?s\b`)
	// The times in the README stay as they were when it was last written.
	shown := elapsed.FindAllString(marked(t, readme, "report"), -1)
	for i, now := range elapsed.FindAllString(report, -1) {
		if i < len(shown) {
			report = strings.Replace(report, now, shown[i], 1)
		}
	}
	compareWithPage(t, readme, "finding", "```text\n"+gist(t, report)+"```\n")
	compareWithPage(t, readme, "report", "```text\n"+report+"```\n")
}

// gist cuts a report down to its first finding, of which only the first property is left, and to what decides.
func gist(t *testing.T, report string) string {
	t.Helper()
	parts := regexp.MustCompile(`(?s)(FINDING 1 OF .*?\n)\n.*?(  found by .*)TIMELINE\n`).FindStringSubmatch(report)
	if parts == nil {
		t.Fatalf("no finding of several properties, and what decides, in the report:\n%s", report)
	}
	return parts[1] + "  ⋮\n" + strings.TrimSuffix(parts[2], "\n")
}
