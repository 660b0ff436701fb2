package simtest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stalemate-dev/stalemate/reports"
)

// TB is what a test is to this package. *testing.T, *testing.B, *testing.F, *rapid.T and Ginkgo's GinkgoT() are one.
type TB interface {
	Helper()
	Name() string
	Logf(format string, args ...any)
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Cleanup(f func())
}

// moduleRoot returns the folder above that holds go.mod, and the working directory seen from it, with slashes. `go
// test` runs a package's tests in the package's folder.
func moduleRoot() (root, folder string, err error) {
	folder, err = os.Getwd()
	if err != nil {
		return "", "", err
	}
	for dir := folder; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			relative, err := filepath.Rel(dir, folder)
			return dir, filepath.ToSlash(relative), err
		}
		if dir == filepath.Dir(dir) {
			return "", "", fmt.Errorf("there is no go.mod in a folder above %s", folder)
		}
	}
}

// line returns the command line that runs a test again, with further arguments. It is to be pasted in the module's
// root.
func line(t TB, arguments ...string) string {
	words := []string{"go", "test", "."}
	if _, folder, err := moduleRoot(); err == nil && folder != "." {
		words[2] = "./" + folder
	}
	words = append(words, selection(t)...)
	if testing.Testing() && testing.Short() {
		words = append(words, "-short")
	}
	for _, argument := range arguments {
		words = append(words, reports.ShellQuote(argument))
	}
	return strings.Join(words, " ")
}

// selection returns the arguments that select a test. Under Ginkgo its name is the text of a spec.
func selection(t TB) []string {
	if focus := flag.Lookup("ginkgo.focus"); focus != nil && !goTest(t) {
		words := []string{reports.ShellQuote("-ginkgo.focus=" + regexp.QuoteMeta(t.Name()) + "$")}
		if run := flag.Lookup("test.run"); run != nil && run.Value.String() != "" {
			words = append([]string{"-run", reports.ShellQuote(run.Value.String())}, words...)
		}
		return words
	}
	elements := strings.Split(t.Name(), "/")
	for i, element := range elements {
		elements[i] = "^" + regexp.QuoteMeta(element) + "$"
	}
	return []string{"-run", reports.ShellQuote(strings.Join(elements, "/"))}
}

// goTest reports whether a test has the name of one of package testing.
func goTest(t TB) bool {
	name, _, _ := strings.Cut(t.Name(), "/")
	return regexp.MustCompile(`^(Test|Fuzz|Benchmark|Example)\w*$`).MatchString(name)
}
