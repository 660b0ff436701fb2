package cmd

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stalemate-dev/stalemate/reports"
)

// TestAnnotationsName checks that what GitHub Actions is told of a real finding has the line of the property in the file, as the
// root of the repository sees it.
func TestAnnotationsName(t *testing.T) {
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	summary := filepath.Join(t.TempDir(), "summary.md")
	t.Setenv(onGitHub, "true")
	t.Setenv("GITHUB_WORKSPACE", root)
	t.Setenv("GITHUB_STEP_SUMMARY", summary)
	ran := mainRun(t, "run", "../scenarios/clickhouse/recreate.yaml", "--runs", "0")
	if ran.exit != ExitBroken {
		t.Fatalf("exit code %d: %s", ran.exit, ran.stderr)
	}
	const property = "completed-means-replaced"
	command := regexp.MustCompile(`(?m)^::error file=scenarios/clickhouse/recreate\.yaml,line=(\d+),col=(\d+),title=.* ` + property + `::`)
	match := command.FindStringSubmatch(ran.stderr)
	if match == nil {
		t.Fatalf("no annotation of %s in:\n%s", property, ran.stderr)
	}
	content, err := os.ReadFile("../scenarios/clickhouse/recreate.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var line, column int
	if _, err := fmt.Sscan(match[1], &line); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(match[2], &column); err != nil {
		t.Fatal(err)
	}
	if got := strings.Split(string(content), "\n")[line-1][column-1:]; !strings.HasPrefix(got, "name: "+property) {
		t.Errorf("line %d, column %d is %q", line, column, got)
	}
	if content, err := os.ReadFile(summary); err != nil || !strings.Contains(string(content), property) {
		t.Errorf("the summary is %q, %v", content, err)
	}
}

// TestSummaryIsFull checks that a step which has used its summary up is left alone.
func TestSummaryIsFull(t *testing.T) {
	summary := filepath.Join(t.TempDir(), "summary.md")
	full := bytes.Repeat([]byte("x"), reports.SummaryLimit)
	if err := os.WriteFile(summary, full, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GITHUB_STEP_SUMMARY", summary)
	if got := run(context.Background(), t, "run", "broken", "--github"); got.exit != ExitBroken {
		t.Errorf("exit code %d: %s", got.exit, got.stderr)
	}
	if info, err := os.Stat(summary); err != nil || info.Size() > reports.SummaryLimit {
		t.Errorf("the summary has %d bytes, %v", info.Size(), err)
	}
}

// TestOutputsSurvive checks that reports are written of what was found before the engine fails, or is interrupted.
func TestOutputsSurvive(t *testing.T) {
	for _, test := range []struct {
		act             string
		suites, failing int
		problem         string
	}{
		{"fails", 2, 1, "the engine failed"},
		{"finds", 1, 1, ""},
		{"waits", 1, 0, "interrupted after 3 executions, without a finding"},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		if test.act != "fails" {
			cancel()
		}
		folder := t.TempDir()
		junit, result := filepath.Join(folder, "junit.xml"), filepath.Join(folder, "result.json")
		ran := run(ctx, t, "run", test.act, "--junit", junit, "--json", result)
		cancel()
		content, err := os.ReadFile(junit)
		if err != nil {
			t.Fatalf("%s: %v", ran.stderr, err)
		}
		var report struct {
			Failures int        `xml:"failures,attr"`
			Suites   []struct{} `xml:"testsuite"`
		}
		if err := xml.Unmarshal(content, &report); err != nil {
			t.Fatal(err)
		}
		if len(report.Suites) != test.suites || report.Failures != test.failing || !strings.Contains(string(content), test.problem) {
			t.Errorf("%s: the report is\n%s", test.act, content)
		}
		if again := run(context.Background(), t, "report", result); again.exit != ExitPassed {
			t.Errorf("%s: the result cannot be rendered: %s", test.act, again.stderr)
		}
	}
}

// TestOutputsThatFail checks that a report which cannot be written is an error, and keeps no other from being written.
func TestOutputsThatFail(t *testing.T) {
	folder := t.TempDir()
	o := &outputs{json: filepath.Join(folder, "gone", "result.json"), junit: filepath.Join(folder, "junit.xml")}
	a := &app{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}
	if err := o.write(a); err == nil || !strings.Contains(err.Error(), "result.json: cannot be written") {
		t.Errorf("the error is %v", err)
	}
	if _, err := os.Stat(o.junit); err != nil {
		t.Error(err)
	}
}

// TestOutputsDiffer checks that no report takes the place of another, or of the wrong input, whatever the files are called.
func TestOutputsDiffer(t *testing.T) {
	folder := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(folder, link); err != nil {
		t.Skip(err)
	}
	one := filepath.Join(folder, "one")
	for _, other := range []string{one, folder + "/./one", filepath.Join(link, "one")} {
		got := run(context.Background(), t, "run", "broken", "--json", one, "--html", other)
		if got.exit != ExitUsage || !strings.Contains(got.stderr, "--json and --html name one file") {
			t.Errorf("%s: exit code %d: %s", other, got.exit, got.stderr)
		}
	}
	for _, args := range [][]string{
		{"report", "-", "-"}, {"fuzz", folder, "--runs", "1", "--stuck", "1ns"}, {"fuzz", folder, "--runs", "1", "--seed", "9223372036854775807"},
	} {
		if got := run(context.Background(), t, args...); got.exit != ExitUsage || got.stderr == "" {
			t.Errorf("%v: exit code %d: %s", args, got.exit, got.stderr)
		}
	}
}
