package cmd

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDocumentedCommandsExist checks every command line in the documentation: the sub-command, its flags and arguments, and
// the targets of make.
func TestDocumentedCommandsExist(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join("..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	commandLine := regexp.MustCompile("(?:^|[` ]|/)(?:cmd/stalemate|stalemate|make) ([a-z][^`|#]*)")
	pages, err := filepath.Glob(filepath.Join("..", "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages in docs, %v", len(pages), err)
	}
	for _, document := range append(pages, "../README.md", "../CONTRIBUTING.md", "../CHANGELOG.md") {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, code := range codeOf(string(text)) {
			match := commandLine.FindStringSubmatch(code)
			if match == nil {
				continue
			}
			words := strings.Fields(match[1])
			if strings.HasPrefix(strings.TrimLeft(match[0], "` /"), "make") {
				if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(words[0]) + `:`).Match(makefile) {
					t.Errorf("%s: there is no make target %s", document, words[0])
				}
			} else if err := parses(words); err != nil && !named(words) {
				t.Errorf("%s: %q: %v", document, code, err)
			}
		}
	}
}

// named reports whether words only name a sub-command, as a sentence does.
func named(words []string) bool {
	c, _, err := (&app{program: "stalemate"}).root().Find(words)
	return err == nil && c.HasParent() && len(words) == 1
}

// parses checks the words of a command line short of running it.
func parses(words []string) error {
	c, rest, err := (&app{program: "stalemate"}).root().Find(words)
	if err != nil {
		return err
	}
	if !c.HasParent() {
		return errors.New("no such sub-command")
	}
	if err := c.ParseFlags(rest); err != nil {
		return err
	}
	return c.ValidateArgs(c.Flags().Args())
}

// codeOf returns the code in a Markdown page: the lines of fenced blocks, and what stands in backquotes.
func codeOf(markdown string) []string {
	var code []string
	fenced := false
	inline := regexp.MustCompile("`([^`]+)`")
	for line := range strings.Lines(markdown) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case fenced:
			code = append(code, line)
		default:
			for _, span := range inline.FindAllStringSubmatch(line, -1) {
				code = append(code, span[1])
			}
		}
	}
	return code
}

func TestDocumentedCommandsAreChecked(t *testing.T) {
	for line, ok := range map[string]bool{
		"run f.yaml --seed 1": true, "list": true, "run": false, "run f.yaml --sed 1": false, "fly": false, "validate a b": true,
	} {
		if err := parses(strings.Fields(line)); (err == nil) != ok {
			t.Errorf("parses(%q) = %v", line, err)
		}
	}
	if got := codeOf("a `b c` d\n```\ne f\n```\n"); len(got) != 2 || got[0] != "b c" || got[1] != "e f" {
		t.Errorf("codeOf = %q", got)
	}
}
