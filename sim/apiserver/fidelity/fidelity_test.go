package fidelity_test

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stalemate-dev/stalemate/sim/apiserver/fidelity"
)

var update = flag.Bool("update", os.Getenv("SIM_UPDATE") != "", "rewrite docs/fidelity.md")

const (
	root = "../../.." // of the module
	page = root + "/docs/fidelity.md"
)

// TestPage keeps docs/fidelity.md equal to the tables; -update writes it anew.
func TestPage(t *testing.T) {
	want := fidelity.Page()
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(got), want); diff != "" {
		t.Errorf("the page is not what the tables say: run SIM_UPDATE=1 go test ./sim/apiserver/fidelity (-page +tables):\n%s", diff)
	}
}

// TestRows checks that every row is whole: what is said to be modelled has a case, what is not a reason.
func TestRows(t *testing.T) {
	seen := map[string]bool{}
	for _, area := range fidelity.Areas() {
		for _, row := range area.Rows {
			if seen[row.ID] || row.Behaviour == "" {
				t.Errorf("row %q is there twice, or says nothing", row.ID)
			}
			seen[row.ID] = true
			for _, problem := range problems(row) {
				t.Errorf("row %s, %q: %s", row.ID, row.Behaviour, problem)
			}
		}
	}
	for prefix, count := range map[string]int{"N": 8, "S": 79, "C": 34, "R": 4, "K": 9} {
		for n := 1; n <= count; n++ {
			if id := prefix + strconv.Itoa(n); !seen[id] {
				t.Errorf("row %s is missing", id)
			}
		}
	}
}

// problems says what is wrong with a row.
func problems(row fidelity.Row) []string {
	var found []string
	report := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	shown := 0
	for _, c := range row.Cases {
		if err := exists(c); err != nil {
			report("%v", err)
		} else {
			shown++
		}
	}
	switch row.Status {
	case fidelity.Modelled:
		if row.Missing != "" {
			report("modelled, and yet something is missing")
		}
	case fidelity.Partly, fidelity.NotModelled:
		if row.Missing == "" {
			report("%s, but not why", row.Status)
		}
	default:
		report("status %q", row.Status)
	}
	if row.Status != fidelity.NotModelled && shown == 0 {
		report("%s, but no case shows it", row.Status)
	}
	if row.Status == fidelity.NotModelled && len(row.Cases) > 0 {
		report("not modelled, and yet there are cases")
	}
	return found
}

// TestProblems checks that the check sees what is wrong.
func TestProblems(t *testing.T) {
	const good = "sim/apiserver/fidelity.TestProblems"
	for name, test := range map[string]struct {
		row  fidelity.Row
		want string
	}{
		"no case": {fidelity.Row{Status: fidelity.Modelled}, "modelled, but no case shows it"},
		"partly":  {fidelity.Row{Status: fidelity.Partly, Missing: "x"}, "partly, but no case shows it"},
		"no such test": {fidelity.Row{Status: fidelity.Modelled, Cases: []fidelity.Case{good, good + "s"}},
			"there is no TestProblemss"},
		"no such subtest": {fidelity.Row{Status: fidelity.Modelled, Cases: []fidelity.Case{good, good + "/no" + "where"}}, "no subtest"},
		"no such folder": {fidelity.Row{Status: fidelity.Modelled, Cases: []fidelity.Case{good, "sim/nowhere.TestX"}},
			"no tests in sim/nowhere"},
		"no such golden":  {fidelity.Row{Status: fidelity.Modelled, Cases: []fidelity.Case{good, "golden:nothing"}}, "was not recorded"},
		"no reason":       {fidelity.Row{Status: fidelity.NotModelled}, "not modelled, but not why"},
		"no status":       {fidelity.Row{Cases: []fidelity.Case{good}}, `status ""`},
		"no kind of case": {fidelity.Row{Status: fidelity.Modelled, Cases: []fidelity.Case{good, "x"}}, `case "x": want golden:NAME`},
		"missing anything": {fidelity.Row{Status: fidelity.Modelled, Missing: "x",
			Cases: []fidelity.Case{good + "/no case"}}, "something is missing"},
		"all right": {fidelity.Row{Status: fidelity.Partly, Missing: "x", Cases: []fidelity.Case{good + "/all right"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(problems(test.row), "; ")
			if !strings.Contains(got, test.want) || test.want == "" && got != "" {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// TestNotPassing checks that recordings are known which do not pass: a row cannot rest on them.
func TestNotPassing(t *testing.T) {
	const source = "package p\nvar notPassing = map[string]string{\"a-case\": \"its reason\"}\n"
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", source, 0)
	if err != nil {
		t.Fatal(err)
	}
	tests := &testFiles{functions: map[string]bool{}, texts: map[string]bool{}}
	ast.Inspect(file, tests.add)
	if !slices.Equal(tests.notPassing, []string{"a-case"}) {
		t.Errorf("not passing: %q", tests.notPassing)
	}
}

// exists returns an error if there is no such case, or if it is known not to pass.
func exists(c fidelity.Case) error {
	if name, ok := c.Recording(); ok {
		return recordingExists(name)
	}
	folder, function, subtest, err := c.Test()
	if err != nil {
		return err
	}
	tests, err := testsIn(folder)
	switch {
	case err != nil:
		return err
	case !tests.functions[function]:
		return fmt.Errorf("case %s: there is no %s in %s", c, function, folder)
	case subtest != "" && !tests.texts[subtest]:
		return fmt.Errorf("case %s: there is no subtest %q in %s", c, subtest, folder)
	}
	return nil
}

func recordingExists(name string) error {
	files, err := filepath.Glob(filepath.Join(root, "sim/apiserver/testdata/api-*", name+".json"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("case golden:%s was not recorded", name)
	}
	tests, err := testsIn("sim/apiserver")
	if err != nil {
		return err
	}
	if slices.Contains(tests.notPassing, name) {
		return fmt.Errorf("case golden:%s does not pass", name)
	}
	return nil
}

// testFiles is what the test files of a folder hold.
type testFiles struct {
	functions  map[string]bool
	texts      map[string]bool // strings, which names of subtests are among
	notPassing []string        // the keys of the map of this name
}

var parsed = map[string]*testFiles{}

// testsIn parses the test files of a folder of the module.
func testsIn(folder string) (*testFiles, error) {
	if tests, ok := parsed[folder]; ok {
		return tests, nil
	}
	files, err := filepath.Glob(filepath.Join(root, filepath.FromSlash(folder), "*_test.go"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("there are no tests in %s", folder)
	}
	tests := &testFiles{functions: map[string]bool{}, texts: map[string]bool{}}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, tests.add)
	}
	parsed[folder] = tests
	return tests, nil
}

// add takes in a node of the syntax.
func (f *testFiles) add(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.FuncDecl:
		if n.Recv == nil {
			f.functions[n.Name.Name] = true
		}
	case *ast.BasicLit:
		if text, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING {
			f.texts[text] = true
		}
	case *ast.ValueSpec:
		if len(n.Names) == 1 && n.Names[0].Name == "notPassing" && len(n.Values) == 1 {
			f.addNotPassing(n.Values[0])
		}
	}
	return true
}

func (f *testFiles) addNotPassing(value ast.Expr) {
	list, ok := value.(*ast.CompositeLit)
	if !ok {
		return
	}
	for _, element := range list.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			if key, ok := pair.Key.(*ast.BasicLit); ok {
				if name, err := strconv.Unquote(key.Value); err == nil {
					f.notPassing = append(f.notPassing, name)
				}
			}
		}
	}
}
