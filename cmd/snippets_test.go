package cmd_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
)

// The documents show the code and the scenario of the operator in testdata/widget as they would be in the reader's own
// repository. What they show is compared with what compiles and runs here.

// readersOwn puts the reader's packages and files in the place of ours.
var readersOwn = strings.NewReplacer(
	"github.com/stalemate-dev/stalemate/cmd/testdata/widget/api", "example.com/widget/api",
	"github.com/stalemate-dev/stalemate/cmd/testdata/widget/controller", "example.com/widget/internal/controller",
	"testdata/widget/simulation/", "",
	"testdata/widget/config/", "../config/",
	"package cmd_test", "package simulation",
)

// blocks returns the fenced blocks of a language in a page.
func blocks(t *testing.T, file, language string) []string {
	t.Helper()
	var found []string
	for _, match := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllStringSubmatch(readText(t, file), -1) {
		found = append(found, match[1])
	}
	return found
}

// TestReadmeShowsTheExamples compares the README with example_test.go and the scenario that the examples run.
func TestReadmeShowsTheExamples(t *testing.T) {
	source := readersOwn.Replace(readText(t, "example_test.go"))
	snippets := blocks(t, "../README.md", "go")
	if len(snippets) != 3 {
		t.Fatalf("the README has %d blocks of Go, want a test, a program and a fragment", len(snippets))
	}
	if test := snippets[0]; !strings.Contains(readersOwn.Replace(readText(t, "gotest_test.go")), test) {
		t.Errorf("the README's test is not the one of gotest_test.go:\n%s", test)
	}
	snippets = snippets[1:]
	_, body, _ := strings.Cut(snippets[0], "func main() {\n")
	body, last, _ := strings.Cut(body, "\tos.Exit(")
	if body == "" || !strings.Contains(source, "func Example() {\n"+body+"\tcmd.Main(") {
		t.Errorf("the README's program is not the example:\n%s", snippets[0])
	}
	if want := "cmd.Main(os.Args, os.Stdout, os.Stderr, registry))\n}\n"; last != want {
		t.Errorf("the README's program ends with %q, want %q", last, want)
	}
	checkImports(t, snippets[0], source)
	fragment := "\t\t" + strings.ReplaceAll(strings.TrimSuffix(snippets[1], "\n"), "\n", "\n\t\t") + "\n"
	if !strings.Contains(source, fragment) {
		t.Errorf("the README's fragment is not in the example:\n%s", snippets[1])
	}
	if scenario := readText(t, widgetUpdate); !slices.Contains(blocks(t, "../README.md", "yaml"), scenario) {
		t.Errorf("the README does not show %s", widgetUpdate)
	}
}

// TestReadmeFaults loads the README's fault rules as part of the README's scenario.
func TestReadmeFaults(t *testing.T) {
	_, faults, found := strings.Cut(blocks(t, "../README.md", "yaml")[0], "spec:\n")
	if !found || !strings.HasPrefix(faults, "  faults:\n") {
		t.Fatalf("the README's first block of YAML shows no faults:\n%s", faults)
	}
	const scenario = "testdata/widget/simulation/faults.yaml"
	fsys := fstest.MapFS{scenario: {Data: []byte(readText(t, widgetUpdate) + faults)}}
	addFiles(t, fsys, "testdata/widget/config")
	registry := &scenarios.Registry{}
	registry.Add("widget/ours", scenarios.Reconciler{Program: func(scenarios.ProgramOptions) sim.Program { return nil }})
	if _, err := scenarios.LoadFS(fsys, scenario, scenarios.Options{Registry: registry}); err != nil {
		t.Error(err)
	}
}

// addFiles adds the files of a folder to a file system.
func addFiles(t *testing.T, fsys fstest.MapFS, folder string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(name string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			fsys[filepath.ToSlash(name)] = &fstest.MapFile{Data: []byte(readText(t, name))}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// checkImports checks that a program imports what it uses, and as the example does.
func checkImports(t *testing.T, program, example string) {
	t.Helper()
	imported, file := importsOf(t, program)
	known, _ := importsOf(t, example)
	used := map[string]bool{}
	ast.Inspect(file, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			if name, ok := selector.X.(*ast.Ident); ok && slices.Contains(file.Unresolved, name) {
				used[name.Name] = true
			}
		}
		return true
	})
	for name, path := range imported {
		if known[name] != path {
			t.Errorf("the program imports %s as %s, the example %q", path, name, known[name])
		}
		if !used[name] {
			t.Errorf("the program imports %s and does not use it", path)
		}
		delete(used, name)
	}
	for name := range used {
		t.Errorf("the program uses %s and does not import it", name)
	}
}

// importsOf parses a program and returns the paths it imports, by the names they have in it.
func importsOf(t *testing.T, text string) (map[string]string, *ast.File) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	imports := map[string]string{}
	for _, spec := range file.Imports {
		location, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		name := path.Base(location)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imports[name] = location
	}
	return imports, file
}

// TestGoTestPageShowsTheTests compares docs/go-test.md with gotest_test.go, reactors_test.go and cluster_test.go, which are run here,
// and with the examples of package simtest, which are run there.
func TestGoTestPageShowsTheTests(t *testing.T) {
	sources := []string{readersOwn.Replace(readText(t, "gotest_test.go"))}
	for _, name := range []string{"recreate_test.go", "rapid_test.go", "fuzz_test.go", "suite_test.go"} {
		sources = append(sources, readText(t, "../sim/simtest/testdata/clickhouse/"+name))
	}
	for _, name := range []string{"reactors_test.go", "cluster_test.go"} {
		sources = append(sources, readersOwn.Replace(readText(t, name)))
	}
	if shown := blocks(t, "../docs/go-test.md", "go"); !slices.Equal(shown, sources) {
		t.Errorf("docs/go-test.md shows\n%s\nwant\n%s", strings.Join(shown, "\n⋮\n"), strings.Join(sources, "\n⋮\n"))
	}
}
