package scenarios_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// TestBrokenSchedules loads every file of testdata/broken-schedules, like [TestBroken].
func TestBrokenSchedules(t *testing.T) {
	files, err := filepath.Glob("testdata/broken-schedules/*.yaml")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d broken files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".yaml"), func(t *testing.T) {
			_, err := scenarios.LoadSchedule(file, scenarios.Options{Registry: registry()})
			var broken *scenarios.Error
			if !errors.As(err, &broken) {
				t.Fatalf("got %v, want a *scenarios.Error", err)
			}
			checkDiagnostics(t, broken)
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}

func loadSchedule(t *testing.T, file string) *scenarios.Schedule {
	t.Helper()
	s, err := scenarios.LoadSchedule(file, scenarios.Options{Registry: registry()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestScheduleSpec checks what each field of a schedule means to the engine.
func TestScheduleSpec(t *testing.T) {
	want := &schedule.Schedule{
		Constraints: everyOrder(),
		Faults:      everyFault(),
		Latencies: []schedule.Latency{{
			At: schedule.Event{
				Actor: "gc", Verb: schedule.Delete, Kind: "Pod", Namespace: "default", Name: "web-0", Occurrence: 1,
			},
			Repeat: 2,
			For:    3e9,
		}},
		Orders: []schedule.Permutation{{
			At:     schedule.Event{Actor: "operator", Incarnation: 1, Verb: schedule.Sync, Kind: "Pod"},
			Repeat: 1,
			Order:  []int{2, 0, 1},
		}},
		Skip: []int{0, 2},
		Expect: schedule.Expectation{
			Outcome: schedule.Violated, Property: "set-was-replaced", Signature: "size-is-right: 3 != 2", Hash: 0xdeadbeef,
		},
		WhenUnmatched: schedule.Ignore,
		Origin:        schedule.Origin{Strategy: "sweep", Seed: 7, Size: 5, Minimal: true, Executions: 12},
	}
	s := loadSchedule(t, "testdata/valid-schedules/everything.yaml")
	if diff := cmp.Diff(want, s.Spec); diff != "" {
		t.Errorf("what the schedule means (-want +got):\n%s", diff)
	}
	if want := "testdata/valid/everything.yaml"; s.Scenario.Path != want {
		t.Errorf("the scenario is %s, want %s", s.Scenario.Path, want)
	}
}

// everyOrder is the order of testdata/valid-schedules/everything.yaml.
func everyOrder() []schedule.Constraint {
	main := ""
	return []schedule.Constraint{
		{Order: &schedule.Order{
			Hold: schedule.Selector{
				Actor: "operator", Incarnation: 1, Controller: "sets", Key: "default/a", Verbs: []schedule.Verb{schedule.Update},
				Kind: "StatefulSet", Namespace: "default", Name: "web", Subresource: &main, Occurrence: 1,
			},
			From:  schedule.Get,
			Until: schedule.Selector{Actor: "stamp", Verbs: []schedule.Verb{schedule.Update}, Kind: "Widget", Name: "a"},
			Times: 2,
		}},
		{
			Event: schedule.Event{
				Actor: "operator", Incarnation: 1, Key: "default/a", Verb: schedule.Update, Kind: "StatefulSet",
				Namespace: "default", Name: "web", Occurrence: 2,
			},
			Waits: schedule.Event{
				Actor: "kcm", Key: "default/web", Verb: schedule.Update, Kind: "StatefulSet", Namespace: "default", Name: "web",
				Subresource: "status", Occurrence: 1,
			},
		},
		{Order: &schedule.Order{
			Hold: schedule.Selector{
				Actor: "operator", Controller: "sets", Key: "default/a", Verbs: []schedule.Verb{schedule.Update}, Return: true,
				Occurrence: 2,
			},
			Until: schedule.Selector{
				Actor: "gc", Verbs: []schedule.Verb{schedule.Delete, schedule.Patch}, Subresource: &main,
			},
		}},
	}
}

// everyFault are the faults of testdata/valid-schedules/everything.yaml.
func everyFault() []schedule.Fault {
	return []schedule.Fault{
		{
			Type: schedule.LostResponse,
			At: schedule.Event{
				Actor: "operator", Incarnation: 2, Key: "default/a", Verb: schedule.Create, Kind: "StatefulSet",
				Namespace: "default", Name: "web", Occurrence: 1,
			},
			Params: schedule.Params{Means: schedule.RequestTimeout},
		},
		{
			Type:   schedule.Conflict,
			Select: &schedule.Selector{Actor: "operator", Verbs: []schedule.Verb{schedule.Update}, Occurrence: 3},
		},
		{
			Type:   schedule.CacheLag,
			Select: &schedule.Selector{Actor: "operator", Kind: "StatefulSet"},
			Params: schedule.Params{For: 30e9},
		},
		{
			Type:   schedule.Upgrade,
			Select: &schedule.Selector{Actor: "helper", Verbs: []schedule.Verb{schedule.Get}},
			Params: schedule.Params{Reconciler: "example/buggy", Point: schedule.BeforeCall, For: 2e9},
		},
	}
}

// TestScheduleConfig checks whose reconcilers, properties and upgrades a schedule's runs have.
func TestScheduleConfig(t *testing.T) {
	var r scenarios.Registry
	var chosen []string
	for _, name := range []string{"example/buggy", "example/fixed", "other/one", "other/two"} {
		r.Add(name, scenarios.Reconciler{Program: func(scenarios.ProgramOptions) sim.Program {
			chosen = append(chosen, name)
			return program{}
		}})
	}
	s := loadSchedule(t, "testdata/valid-schedules/everything.yaml")
	config, err := s.Config(&r, map[string]string{"plain": "other/two"})
	if err != nil {
		t.Fatal(err)
	}
	// operator, its upgrade by the scenario's rule, helper, its upgrade by the schedule's fault, and plain.
	want := []string{"example/fixed", "example/fixed", "other/one", "example/buggy", "other/two"}
	if !slices.Equal(chosen, want) {
		t.Errorf("chose %q, want %q", chosen, want)
	}
	for i, upgrade := range []string{"example/fixed", "example/buggy", ""} {
		process := config.Processes[i]
		if _, ok := process.Upgrades[upgrade]; ok != (upgrade != "") || len(process.Upgrades) > 1 {
			t.Errorf("process %s upgrades to %v, want only %q", process.Name, process.Upgrades, upgrade)
		}
	}
	last := config.Properties.Definitions()
	if len(last) != len(s.Scenario.Manifest.Spec.Properties)+1 || last[len(last)-1].Name != "set-was-replaced" {
		t.Errorf("the properties are %v, want those of the scenario and the schedule's", last)
	}
	if _, err := s.Config(&r, map[string]string{"nobody": "other/two"}); err == nil {
		t.Error("an override of nobody is taken")
	}
	if _, err := s.Config(&scenarios.Registry{}, nil); err == nil {
		t.Error("an empty registry is enough")
	}
}

// TestScheduleEntry checks that a schedule chooses an entry of a scenario with a matrix.
func TestScheduleEntry(t *testing.T) {
	s := loadSchedule(t, "testdata/valid-schedules/matrix.yaml")
	if want := "variant=fixed,replicas=3,object=web"; s.Scenario.Entry != want {
		t.Errorf("the entry is %s, want %s", s.Scenario.Entry, want)
	}
	if _, err := s.Config(registry(), nil); err != nil {
		t.Error(err)
	}
}

func TestKindOf(t *testing.T) {
	for file, want := range map[string]string{
		"testdata/valid/everything.yaml":           scenarios.KindScenario,
		"testdata/valid/minimal.json":              scenarios.KindScenario,
		"testdata/broken/bad-cel.yaml":             scenarios.KindScenario,
		"testdata/valid-schedules/everything.yaml": scenarios.KindSchedule,
		"testdata/broken-schedules/form.yaml":      scenarios.KindSchedule,
	} {
		if kind, err := scenarios.KindOf(file); kind != want || err != nil {
			t.Errorf("%s is a %q, %v; want a %s", file, kind, err, want)
		}
	}
	for _, file := range []string{
		"testdata/nothing.yaml", "testdata/broken/wrong-kind.yaml", "testdata/broken/empty.yaml", "testdata/broken/binary.yaml",
		"testdata/broken/two-documents.yaml", "testdata",
	} {
		_, err := scenarios.KindOf(file)
		var broken *scenarios.Error
		if !errors.As(err, &broken) {
			t.Errorf("%s: got %v, want a *scenarios.Error", file, err)
			continue
		}
		checkDiagnostics(t, broken)
	}
}

// FuzzLoadSchedule loads a schedule of any content. If it is good, it can be put together, and written and read again
// without a change; if not, every diagnostic has its place.
func FuzzLoadSchedule(f *testing.F) {
	files := fstest.MapFS{}
	for _, pattern := range []string{
		"testdata/valid/*.yaml", "testdata/valid/*/*.yaml", "testdata/valid-schedules/*.yaml", "testdata/broken-schedules/*.yaml",
	} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			f.Fatal(pattern, err)
		}
		for _, name := range names {
			data := readFile(f, name)
			files[filepath.ToSlash(name)] = &fstest.MapFile{Data: data}
			if strings.Contains(name, "schedules") {
				f.Add(data)
			}
		}
	}
	known := registry()
	const name = "testdata/valid-schedules/fuzzed.yaml"
	f.Fuzz(func(t *testing.T, data []byte) {
		files[name] = &fstest.MapFile{Data: data}
		loaded, err := scenarios.LoadScheduleFS(files, name, scenarios.Options{Registry: known})
		if err != nil {
			var broken *scenarios.Error
			if !errors.As(err, &broken) {
				t.Fatalf("got %v, want a *scenarios.Error", err)
			}
			checkDiagnostics(t, broken)
			return
		}
		if _, err := loaded.Config(known, nil); err != nil {
			t.Fatalf("a schedule that was loaded cannot be put together: %v", err)
		}
		written, err := scenarios.EncodeSchedule(loaded.File())
		if err != nil {
			t.Fatalf("a schedule that was loaded cannot be written: %v", err)
		}
		files[name] = &fstest.MapFile{Data: written}
		again, err := scenarios.LoadScheduleFS(files, name, scenarios.Options{Registry: known})
		if err != nil {
			t.Fatalf("what was written cannot be loaded: %v\n%s", err, written)
		}
		if diff := cmp.Diff(loaded.File(), again.File(), equateEmpty); diff != "" {
			t.Errorf("written and read again it is another (-first +second):\n%s\n%s", diff, written)
		}
	})
}

// TestPropertyPositions checks that each property knows the line it begins on, in the scenario's file or the schedule's.
func TestPropertyPositions(t *testing.T) {
	s := loadSchedule(t, "testdata/valid-schedules/everything.yaml")
	var r scenarios.Registry
	for _, name := range []string{"example/buggy", "example/fixed", "other/one", "other/two"} {
		r.Add(name, scenarios.Reconciler{Program: func(scenarios.ProgramOptions) sim.Program { return program{} }})
	}
	config, err := s.Config(&r, nil)
	if err != nil {
		t.Fatal(err)
	}
	definitions := config.Properties.Definitions()
	for i, d := range definitions {
		file := s.Scenario.Path
		if i == len(definitions)-1 {
			file = s.Path
		}
		content, err := os.ReadFile(d.Position.File)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(content), "\n")
		if line := lines[d.Position.Line-1]; d.Position.File != file || !strings.Contains(line[d.Position.Column-1:], "name: "+d.Name) {
			t.Errorf("property %s is said to be at %+v, which is %q", d.Name, d.Position, line)
		}
	}
}
