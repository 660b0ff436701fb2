package scenarios_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
)

var update = flag.Bool("update", os.Getenv("SIM_UPDATE") != "", "rewrite the golden files")

// program is a program that does nothing.
type program struct{ options scenarios.ProgramOptions }

func (program) Start(context.Context, *sim.Env) error { return nil }

// registry returns the reconcilers that the scenarios of the tests name.
func registry() *scenarios.Registry {
	var r scenarios.Registry
	for _, name := range []string{"example/buggy", "example/fixed", "other/one"} {
		r.Add(name, scenarios.Reconciler{
			Doc:     "does nothing",
			Program: func(o scenarios.ProgramOptions) sim.Program { return program{o} },
		})
	}
	return &r
}

// TestBroken loads every file of testdata/broken. Each must be refused with the text next to it, and each error must name its
// place.
func TestBroken(t *testing.T) {
	files, err := filepath.Glob("testdata/broken/*.yaml")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d broken files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			_, err := scenarios.Load(file, scenarios.Options{Registry: registry()})
			var broken *scenarios.Error
			if !errors.As(err, &broken) {
				t.Fatalf("got %v, want a *scenarios.Error", err)
			}
			checkDiagnostics(t, broken)
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}

// checkDiagnostics checks what holds for every diagnostic.
func checkDiagnostics(t *testing.T, broken *scenarios.Error) {
	t.Helper()
	if len(broken.Diagnostics) == 0 {
		t.Error("an error without a diagnostic")
	}
	for _, d := range broken.Diagnostics {
		if d.File == "" || d.Message == "" {
			t.Errorf("a diagnostic without a file or a message: %+v", d)
		}
		if (d.Line > 0) != (d.Snippet != "") || (d.Line > 0) != (d.Column > 0) {
			t.Errorf("a diagnostic with part of a place: %+v", d)
		}
	}
}

// golden compares a text with a file.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; run with -update to write it", err)
	}
	if diff := gocmp.Diff(string(want), got); diff != "" {
		t.Errorf("differs from %s (-want +got), run with -update to accept:\n%s", file, diff)
	}
}

// TestValid loads every scenario of testdata/valid, and compares what the engine is to run with a golden file.
func TestValid(t *testing.T) {
	for _, file := range []string{"testdata/valid/everything.yaml", "testdata/valid/minimal.json"} {
		t.Run(filepath.Base(file), func(t *testing.T) {
			scenario, err := scenarios.Load(file, scenarios.Options{Registry: registry()})
			if err != nil {
				t.Fatal(err)
			}
			config, err := scenario.Config(registry(), nil)
			if err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(file, filepath.Ext(file))+".txt", describe(config))
		})
	}
}

// describe prints what a configuration holds.
func describe(config *sim.Config) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("%s on %s, unsettled %t", config.Name, config.Kinds.Version(), config.Unsettled)
	line("limits: %d steps, %s, hold %s", config.Limits.Steps, config.Limits.VirtualTime, config.Limits.Hold)
	for _, object := range config.Given {
		kind := object.GetObjectKind().GroupVersionKind().Kind
		line("given %s %s/%s, generation %d", kind, object.GetNamespace(), object.GetName(), object.GetGeneration())
	}
	line("faults: at most %d, healed after %s", config.Faults.Max, config.Faults.HealAfter)
	for _, rule := range config.Faults.Rules {
		line("rule %s at %s, at most %d", rule.Name, rule.Match.String(), rule.Max)
		for _, fault := range rule.Faults {
			line("  %s %+v", fault.Type, fault.Params)
		}
	}
	for _, process := range config.Processes {
		line("process %s upgrades to %v", process.Name, slices.Sorted(maps.Keys(process.Upgrades)))
		options := process.Program.(program).options
		line("process %s reads %q, live %t or %t", process.Name, options.Reads, options.LiveReads(true), options.LiveReads(false))
	}
	for _, racer := range config.Racers {
		line("racer %s %T, with the script %t", racer.Name, racer.New(), racer.WithScript)
		if options := reflect.ValueOf(racer.New()).Elem().FieldByName("options"); options.IsValid() && racer.Name != scenarios.UserActor {
			line("  %+v", options)
		}
	}
	for _, variable := range config.Properties.Variables() {
		line("variable %+v", variable)
	}
	for _, p := range config.Properties.Definitions() {
		line("property %s %s %q within %s: %q", p.Name, p.Type, p.Message, p.Within, p.Rule)
	}
	return b.String()
}

func TestConfigOverrides(t *testing.T) {
	scenario, err := scenarios.Load("testdata/valid/minimal.json", scenarios.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var chosen string
	var r scenarios.Registry
	for _, name := range []string{"example/buggy", "example/fixed"} {
		r.Add(name, scenarios.Reconciler{Program: func(scenarios.ProgramOptions) sim.Program {
			chosen = name
			return program{}
		}})
	}
	for _, test := range []struct {
		overrides map[string]string
		chosen    string
		err       string
	}{
		{chosen: "example/fixed"},
		{overrides: map[string]string{"operator": "example/buggy"}, chosen: "example/buggy"},
		{
			overrides: map[string]string{"operator": "example/bugy", "racer": "example/buggy", "kubelet": "x"},
			err: `testdata/valid/minimal.json: override kubelet=x: no such controller; there is "operator"` + "\n" +
				`testdata/valid/minimal.json: override operator=example/bugy: no such reconciler; there is "example/buggy"` + "\n" +
				`testdata/valid/minimal.json: override racer=example/buggy: no such controller; there is "operator"`,
		},
	} {
		chosen = ""
		_, err := scenario.Config(&r, test.overrides)
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != test.err || chosen != test.chosen {
			t.Errorf("%v: chose %q, error:\n%s\nwant %q, error:\n%s", test.overrides, chosen, text, test.chosen, test.err)
		}
	}
	if _, err := scenario.Config(&scenarios.Registry{}, nil); err == nil || !strings.Contains(err.Error(), "none is registered") {
		t.Errorf("with an empty registry: %v", err)
	}
}

func TestLoadBigFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "big.yaml")
	if err := os.WriteFile(file, []byte("apiVersion: stalemate.dev/v1alpha1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 50<<20); err != nil { // sparse: 50 MB that take no room
		t.Fatal(err)
	}
	_, err := scenarios.Load(file, scenarios.Options{})
	const want = ": too big: 50 MiB, and 10 MiB is the most; split it, or keep only the objects that the scenario needs"
	if err == nil || err.Error() != file+want {
		t.Errorf("got %v, want %s", err, file+want)
	}
}

// pathTest is a scenario in root/deep/down that refers to an object.
type pathTest struct {
	name string
	path string            // of the object, in the scenario
	link map[string]string // symbolic links, from and to
	load string            // the file to load; deep/down/scenario.yaml if empty
	mark string            // what makes the root a repository
	want string            // part of the error; empty if there is none
}

// TestLoadPaths loads scenarios from folders with and without a repository around them, through symbolic links.
func TestLoadPaths(t *testing.T) {
	for _, test := range []pathTest{
		{name: "inside", path: "../object.yaml", mark: ".git"},
		{name: "inside, a worktree or module", path: "../../object.yaml", mark: "go.mod"},
		{name: "outside", path: "../../../object.yaml", mark: ".git", want: "outside the repository that holds the scenario"},
		{name: "no repository", path: "../object.yaml", want: "outside the repository that holds the scenario"},
		{name: "no repository, same folder", path: "object.yaml"},
		{name: "link inside", path: "link.yaml", link: map[string]string{"deep/down/link.yaml": "../object.yaml"}, mark: ".git"},
		{
			name: "link outside", path: "link.yaml", mark: ".git",
			link: map[string]string{"deep/down/link.yaml": "../../../outside.yaml"},
			want: `spec.given[0].path: "link.yaml": cannot be read: path escapes from parent`,
		},
		{
			name: "folder outside", path: "link/outside.yaml", mark: ".git",
			link: map[string]string{"deep/down/link": "../../.."},
			want: `spec.given[0].path: "link/outside.yaml": cannot be read: path escapes from parent`,
		},
		{
			name: "the scenario is a link", path: "../object.yaml", mark: ".git", load: "link.yaml",
			link: map[string]string{"link.yaml": "deep/down/scenario.yaml"},
		},
		{name: "the scenario is not there", load: "nothing.yaml", want: "nothing.yaml: no such file"},
		{name: "the scenario is a folder", load: "deep", want: "deep: not a regular file: name a YAML file"},
		{name: "a folder", path: "..", mark: ".git"},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := writeTree(t, test)
			_, err := scenarios.Load(filepath.Join(root, cmp.Or(test.load, "deep/down/scenario.yaml")), scenarios.Options{})
			if test.want == "" && err != nil {
				t.Errorf("got %v", err)
			}
			if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// writeTree writes the files of a test, and returns the folder that is the repository.
func writeTree(t *testing.T, test pathTest) string {
	t.Helper()
	const scenario = `
apiVersion: stalemate.dev/v1alpha1
kind: Scenario
metadata: {name: paths}
spec:
  given: [{path: %s}]
  controllers: [{name: operator, reconciler: example/buggy}]
  properties: [{name: always, type: Always, rule: "true"}]
`
	const object = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"
	root := filepath.Join(t.TempDir(), "root")
	files := map[string]string{
		"../outside.yaml":           object,
		"object.yaml":               object,
		"deep/object.yaml":          object,
		"deep/kustomization.yaml":   "resources: [object.yaml]\n",
		"deep/kustomizeconfig.yaml": "nameReference: []\n",
		"deep/down/object.yaml":     object,
		"deep/down/scenario.yaml":   fmt.Sprintf(scenario, test.path),
	}
	if test.mark != "" {
		files[test.mark] = ""
	}
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range test.link {
		if err := os.Symlink(to, filepath.Join(root, from)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func TestRegistryAddPanics(t *testing.T) {
	good := scenarios.Reconciler{Program: func(scenarios.ProgramOptions) sim.Program { return program{} }}
	for name, add := range map[string]func(*scenarios.Registry){
		"empty":      func(r *scenarios.Registry) { r.Add("", good) },
		"equals":     func(r *scenarios.Registry) { r.Add("a=b", good) },
		"twice":      func(r *scenarios.Registry) { r.Add("a", good); r.Add("a", good) },
		"no program": func(r *scenarios.Registry) { r.Add("a", scenarios.Reconciler{}) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			add(&scenarios.Registry{})
		})
	}
}
