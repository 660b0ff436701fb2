package cmd_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stalemate-dev/stalemate/cmd"
	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/reference"
)

// tutorialBlock is a fenced block of the tutorial.
type tutorialBlock struct{ language, text string }

// TestTutorial types what the tutorial says, in a folder with the files of the tutorial, and compares what is printed with what
// stands below: the parts between two ⋮ are there, one after the other.
func TestTutorial(t *testing.T) {
	blocks := tutorialBlocks(t)
	folder := t.TempDir()
	for _, copied := range []string{"scenarios/example", "scenarios/schema"} {
		if err := os.CopyFS(filepath.Join(folder, copied), os.DirFS(filepath.Join("..", copied))); err != nil {
			t.Fatal(err)
		}
	}
	// The root of a repository.
	if err := os.WriteFile(filepath.Join(folder, "go.mod"), []byte("module tutorial\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Chdir(folder)
	commands, printed := 0, ""
	for _, block := range blocks {
		switch block.language {
		case "sh":
			printed = ""
			for line := range strings.Lines(block.text) {
				if strings.HasPrefix(line, "stalemate ") {
					commands++
					printed += typed(t, strings.TrimSpace(line))
				}
			}
		case "text":
			excerpt(t, printed, block.text)
		}
	}
	if commands < 13 {
		t.Errorf("only %d commands", commands)
	}
}

// exitCode is what a command line of the tutorial says about how it ends.
var exitCode = regexp.MustCompile(`^(.*?)(?:\s+# exits with (\d))?$`)

// typed runs a command line and returns what it prints.
func typed(t *testing.T, line string) string {
	t.Helper()
	match := exitCode.FindStringSubmatch(line)
	want, _ := strconv.Atoi(match[2]) // none is 0
	registry := &scenarios.Registry{}
	reference.Register(registry)
	var stdout, stderr bytes.Buffer
	if got := cmd.Main(strings.Fields(match[1]), &stdout, &stderr, registry); got != want {
		t.Errorf("%s: exit code %d, want %d\n%s", line, got, want, stderr.String())
	}
	return stdout.String()
}

// realTime is how long something took, which differs from time to time.
var realTime = regexp.MustCompile(`(executions, |after )[0-9.]+m?s`)

// excerpt compares what is printed with what the tutorial shows of it.
func excerpt(t *testing.T, printed, shown string) {
	t.Helper()
	rest := realTime.ReplaceAllString(printed, "$1…")
	for part := range strings.SplitSeq(realTime.ReplaceAllString(shown, "$1…"), "\n⋮\n") {
		part = strings.TrimSuffix(part, "\n")
		_, after, found := strings.Cut(rest, part)
		if !found {
			t.Errorf("the tutorial shows\n%s\nbut what is printed is, from there on,\n%s", part, rest)
			return
		}
		rest = after
	}
}

// TestTutorialShowsItsFiles looks for the code and the parts of scenarios that the tutorial shows.
func TestTutorialShowsItsFiles(t *testing.T) {
	sources := map[string]string{"go": readText(t, "../scenarios/example/reconcilers.go")}
	files, err := filepath.Glob("../scenarios/example/*.yaml")
	if err != nil || len(files) != 5 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		sources["yaml"] += readText(t, file) + "\n"
	}
	shown := map[string]int{}
	for _, block := range tutorialBlocks(t) {
		if source, ok := sources[block.language]; ok {
			shown[block.language]++
			if !strings.Contains(source, block.text) {
				t.Errorf("the tutorial shows what no file has:\n%s", block.text)
			}
		}
	}
	if shown["go"] < 4 || shown["yaml"] < 5 {
		t.Errorf("the tutorial shows %v", shown)
	}
}

// tutorialBlocks returns the fenced blocks of the tutorial, in their order.
func tutorialBlocks(t *testing.T) []tutorialBlock {
	t.Helper()
	var blocks []tutorialBlock
	fenced := regexp.MustCompile("(?ms)^```([a-z]+)\n(.*?)^```$")
	for _, match := range fenced.FindAllStringSubmatch(readText(t, "../docs/tutorial.md"), -1) {
		blocks = append(blocks, tutorialBlock{match[1], match[2]})
	}
	return blocks
}
