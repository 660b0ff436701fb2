package tidy

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// read returns a file of the repository.
func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestVersionFloor keeps the promise that importing this module forces no upgrade on the operator under test: go.mod asks
// for the oldest versions that are supported, which are those that scaffolds pin.
func TestVersionFloor(t *testing.T) {
	text := read(t, "go.mod")
	floor := map[string]string{
		"go":                             "1.26.0",
		"sigs.k8s.io/controller-runtime": "v0.24.1",
		"k8s.io/api":                     "v0.36.0",
		"k8s.io/apimachinery":            "v0.36.0",
		"k8s.io/apiserver":               "v0.36.0",
		"k8s.io/apiextensions-apiserver": "v0.36.0",
		"k8s.io/client-go":               "v0.36.0",
	}
	for what, want := range floor {
		line := regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(what) + ` (\S+)`).FindStringSubmatch(text)
		if line == nil || line[1] != want {
			t.Errorf("go.mod asks for %s at %v, the floor is %s", what, line, want)
		}
	}
	for _, directive := range []string{"replace", "exclude", "toolchain"} {
		if regexp.MustCompile(`(?m)^` + directive + `\b`).MatchString(text) {
			t.Errorf("go.mod has a %s directive, which users of the module do not get, or are forced by", directive)
		}
	}
}

// TestRootHoldsOnlyTheLayout keeps the root to the folders of the layout, docs, and the files that tools require.
func TestRootHoldsOnlyTheLayout(t *testing.T) {
	expected := []string{
		".ci", ".git", ".github", ".gitignore", ".golangci.yml", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile",
		"README.md", "cmd", "docs", "go.mod", "go.sum", "racer", "reactors", "reports", "scenarios", "sim",
	}
	ignored := ignoredNames(t)
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		matches := func(pattern string) bool {
			ok, err := path.Match(pattern, e.Name())
			return ok && err == nil
		}
		if !slices.Contains(expected, e.Name()) && !slices.ContainsFunc(ignored, matches) {
			t.Errorf("the root holds %s, which the layout does not know", e.Name())
		}
	}
}

// ignoredNames returns the patterns of names in the root that git ignores.
func ignoredNames(t *testing.T) []string {
	t.Helper()
	var names []string
	for line := range strings.Lines(read(t, ".gitignore")) {
		if name := strings.Trim(strings.TrimSpace(line), "/"); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// documents are the pages that name files of the repository.
var documents = []string{"README.md", "CONTRIBUTING.md", "CHANGELOG.md"}

func TestDocumentedScenariosExist(t *testing.T) {
	file := regexp.MustCompile(`\bscenarios/[\w/-]+\.yaml\b`)
	for _, document := range documents {
		for _, name := range file.FindAllString(read(t, document), -1) {
			if _, err := os.Stat(filepath.Join(root, name)); err != nil {
				t.Errorf("%s names %s: %v", document, name, err)
			}
		}
	}
}
