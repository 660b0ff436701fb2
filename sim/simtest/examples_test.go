package simtest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stalemate-dev/stalemate/reports"
)

// The packages of tests that fail. They are in folders that `go test ./...` leaves out, and their lines name them.
const (
	// examplesPackage has the examples of docs/go-test.md, each of which finds the bug of the ClickHouse operator.
	examplesPackage = "sim/simtest/testdata/clickhouse"
	// galleryPackage has a test for each reason to pass or to fail.
	galleryPackage = "sim/simtest/testdata/gallery"
)

// testBinary is the test binary of a package, and a copy of the module's folders it needs, where what tests write does
// no harm.
type testBinary struct{ file, folder, root string }

// build builds the binaries, each once, in a folder that TestMain removes.
var build = map[string]func() (string, error){examplesPackage: builder(examplesPackage), galleryPackage: builder(galleryPackage)}

func builder(folder string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		binary := filepath.Join(scratch, filepath.Base(folder)+".test")
		c := exec.Command("go", "test", "-c", "-o", binary, "./"+folder)
		c.Dir = filepath.Join("..", "..")
		if out, err := c.CombinedOutput(); err != nil {
			return "", fmt.Errorf("%s does not build: %w\n%s", folder, err, out)
		}
		return binary, nil
	})
}

// testsOf returns the tests of a package, to be run.
func testsOf(t *testing.T, folder string) *testBinary {
	t.Helper()
	if testing.Short() {
		t.Skip("builds a test binary")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("there is no go command")
	}
	file, err := build[folder]()
	if err != nil {
		t.Fatal(err)
	}
	b := &testBinary{file: file, folder: folder, root: t.TempDir()}
	for _, copied := range []string{"scenarios/clickhouse", folder} {
		if err := os.CopyFS(filepath.Join(b.root, copied), os.DirFS(filepath.Join("..", "..", copied))); err != nil {
			t.Fatal(err)
		}
	}
	b.write(t, "go.mod", "module example.com/copy\n")
	return b
}

// write writes a file of the copy.
func (b *testBinary) write(t *testing.T, name, content string) {
	t.Helper()
	file := filepath.Join(b.root, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// run runs tests in the folder of their package, and reports whether they passed.
func (b *testBinary) run(t *testing.T, arguments ...string) (output string, passed bool) {
	t.Helper()
	return finish(t, b.command(b.file, arguments...))
}

// paste runs a line that was printed as a shell would, with the binary in place of `go test`.
func (b *testBinary) paste(t *testing.T, line string) (output string, passed bool) {
	t.Helper()
	rest, ok := strings.CutPrefix(line, "go test ./"+b.folder+" ")
	if !ok {
		t.Fatalf("the line does not run %s: %s", b.folder, line)
	}
	rest = strings.Replace(rest, "-run ", "-test.run ", 1)
	return finish(t, b.command("sh", "-c", reports.ShellQuote(b.file)+" "+rest))
}

// command makes a command that runs in the folder of the package, without the variables that would steer it.
func (b *testBinary) command(name string, arguments ...string) *exec.Cmd {
	c := exec.Command(name, arguments...)
	c.Dir = filepath.Join(b.root, b.folder)
	c.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "SIM_") || strings.HasPrefix(variable, "RAPID_")
	})
	return c
}

// finish runs a command of tests, and reports whether they passed.
func finish(t *testing.T, c *exec.Cmd) (output string, passed bool) {
	t.Helper()
	out, err := c.CombinedOutput()
	if exit, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed || failed && exit.ExitCode() < 0 {
		t.Fatalf("%s: %v", c, err)
	}
	return string(out), err == nil
}

// printed returns the last line of an output that runs the test again.
func printed(t *testing.T, output string) string {
	t.Helper()
	lines := regexp.MustCompile(`(?m)^\s*(go test \./\S* .*?)(?:\x1b\[0m)?$`).FindAllStringSubmatch(output, -1)
	if len(lines) == 0 {
		t.Fatalf("no line runs the test again:\n%s", output)
	}
	return lines[len(lines)-1][1]
}

// found checks that an output is that of a test which found the bug of the ClickHouse operator.
func found(t *testing.T, output string, passed bool) {
	t.Helper()
	for _, want := range []string{"completed-means-scaled-up", "completed-means-replaced", "409 Conflict"} {
		if passed || !strings.Contains(output, want) {
			t.Fatalf("the test passed: %v, or %q is not in its output:\n%s", passed, want, output)
		}
	}
}

// TestExamplesFindTheBug checks that each example finds the bug, and prints one line that finds it again.
func TestExamplesFindTheBug(t *testing.T) {
	e := testsOf(t, examplesPackage)
	tests := []struct {
		name, line string
		arguments  []string
	}{
		{"table", ` -run '^TestRecreateTable$/^seed=2$/^explore$' -sim.seed=2`, []string{"-test.run=^TestRecreateTable$/^seed=2$"}},
		{"rapid", ` -run '^TestRecreateRapid$' '-sim.replay={`, []string{"-test.run=^TestRecreateRapid$", "-rapid.seed=1"}},
		{"fuzz", ` -run '^FuzzRecreate$' '-sim.replay={`,
			[]string{"-test.run=^$", "-test.fuzz=^FuzzRecreate$", "-test.fuzztime=60s", "-test.fuzzcachedir=" + t.TempDir()}},
		{"ginkgo", ` -run '^TestSuite$' '-ginkgo.focus=recreate leaves no host behind seed=1$' -sim.seed=1`,
			[]string{"-test.run=^TestSuite$", "-ginkgo.focus=seed=1"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			output, passed := e.run(t, test.arguments...)
			found(t, output, passed)
			line := printed(t, output)
			if !strings.HasPrefix(line, "go test ./"+examplesPackage+test.line) {
				t.Errorf("the line is\n%s\nwant\n… %s …", line, test.line)
			}
			output, passed = e.paste(t, line)
			found(t, output, passed)
			if again := printed(t, output); again != line {
				t.Errorf("the line\n%s\nfails with another line:\n%s", line, again)
			}
		})
	}
}

// TestLineWorksAsItIs runs a line in the module's root, with nothing changed.
func TestLineWorksAsItIs(t *testing.T) {
	e := testsOf(t, examplesPackage)
	output, passed := e.run(t, "-test.run=^TestRecreateRapid$", "-rapid.seed=1", "-rapid.nofailfile")
	found(t, output, passed)
	c := exec.Command("sh", "-c", printed(t, output)+" -rapid.nofailfile")
	c.Dir = filepath.Join("..", "..")
	output, passed = finish(t, c)
	found(t, output, passed)
}

// TestFailFiles checks that what rapid and go test keep of a failure fails again at once.
func TestFailFiles(t *testing.T) {
	e := testsOf(t, examplesPackage)
	for _, test := range []struct {
		name, files string
		fail, again []string
		want        string
	}{
		{"rapid", "testdata/rapid/TestRecreateRapid/*.fail",
			[]string{"-test.run=^TestRecreateRapid$", "-rapid.seed=1"},
			[]string{"-test.run=^TestRecreateRapid$", "-rapid.checks=1", "-rapid.seed=3"}, "failed after 0 tests"},
		{"fuzz", "testdata/fuzz/FuzzRecreate/*",
			[]string{"-test.run=^$", "-test.fuzz=^FuzzRecreate$", "-test.fuzztime=60s", "-test.fuzzcachedir=" + t.TempDir()},
			[]string{"-test.run=^FuzzRecreate$/^[0-9a-f]+$"}, "--- FAIL: FuzzRecreate/"},
	} {
		t.Run(test.name, func(t *testing.T) {
			output, passed := e.run(t, test.fail...)
			found(t, output, passed)
			files, err := fs.Glob(os.DirFS(filepath.Join(e.root, examplesPackage)), test.files)
			if err != nil || len(files) != 1 {
				t.Fatalf("files %q: %v", files, err)
			}
			output, passed = e.run(t, test.again...)
			found(t, output, passed)
			if !strings.Contains(output, test.want) {
				t.Errorf("%q is not in the output:\n%s", test.want, output)
			}
		})
	}
}
