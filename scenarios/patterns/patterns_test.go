package patterns

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/track"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

var update = flag.Bool("update", false, "write the golden files of testdata anew")

// forEach runs a test with the buggy and the correct reconciler of each pattern.
func forEach(t *testing.T, test func(t *testing.T, p *pattern, suffix string)) {
	for _, p := range patterns {
		for _, suffix := range []string{"buggy", "correct"} {
			t.Run(p.name+"/"+suffix, func(t *testing.T) { test(t, &p, suffix) })
		}
	}
}

func execute(t *testing.T, config *sim.Config, plan sim.Plan) *history.History {
	t.Helper()
	world, err := sim.NewWorld(config)
	if err != nil {
		t.Fatal(err)
	}
	h, err := world.Run(plan)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func registry() *scenarios.Registry {
	r := &scenarios.Registry{}
	Register(r)
	return r
}

// TestDefaultOrder checks that both reconcilers of a pattern come to a good end where nothing goes wrong.
func TestDefaultOrder(t *testing.T) {
	forEach(t, func(t *testing.T, p *pattern, suffix string) {
		scenario, err := scenarios.Load(p.name+".yaml", scenarios.Options{Registry: registry()})
		if err != nil {
			t.Fatal(err)
		}
		config, err := scenario.Config(registry(), map[string]string{operator: p.reconciler(suffix)})
		if err != nil {
			t.Fatal(err)
		}
		h := execute(t, config, sim.Plan{})
		if h.Outcome != history.Terminal {
			t.Errorf("the run ended %s: %s", h.Outcome, h.Reason)
		}
		for _, verdict := range h.Verdicts {
			if verdict.Status != property.Held {
				t.Errorf("%s: %s %s %v", verdict.Property.Name, verdict.Status, verdict.Error, verdict.Values)
			}
		}
	})
}

// TestCatalogue checks that docs/patterns.md has the commands that show each pattern, and that the scenarios it names are there.
func TestCatalogue(t *testing.T) {
	root := filepath.Join("..", "..")
	data, err := os.ReadFile(filepath.Join(root, "docs", "patterns.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, sections, _ := strings.Cut(string(data), "\n## ")
	forEach(t, func(t *testing.T, p *pattern, suffix string) {
		_, section, found := strings.Cut("\n## "+sections, fmt.Sprintf("\n## %d. ", p.number))
		if !found {
			t.Fatalf("there is no section %d", p.number)
		}
		section, _, _ = strings.Cut(section, "\n## ")
		command := fmt.Sprintf("stalemate run scenarios/patterns/%s.yaml --reconciler %s=%s\n", p.name, operator, p.reconciler(suffix))
		if !strings.Contains(section, command) {
			t.Errorf("section %d does not have the command %q", p.number, command)
		}
	})
	for _, name := range regexp.MustCompile(`scenarios/[\w./-]+\.yaml`).FindAllString(sections, -1) {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Error(err)
		}
	}
}

// calls lists what the operator called since the script began, and what it read from its caches.
func calls(h *history.History) string {
	var b strings.Builder
	for i := h.ScriptBegins; i < len(h.Records); i++ {
		r := &h.Records[i]
		switch e := r.Event; {
		case e.Actor != operator:
		case e.Verb == schedule.CachedGet || e.Verb == schedule.CachedList:
			fmt.Fprintln(&b, e)
		case e.Verb.IsRequest() && e.Verb != schedule.Watch:
			fmt.Fprintln(&b, e, r.Code, r.Reason)
		}
	}
	return b.String()
}

func compareGolden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-update rewrites it; -want +got):\n%s", path, diff)
	}
}

// TestSchedules checks that the schedule of each pattern breaks just what the buggy reconciler is said to break, and nothing in
// the other; and that it does so again. The golden files hold what the operator calls, and what it reads from its caches.
func TestSchedules(t *testing.T) {
	forEach(t, func(t *testing.T, p *pattern, suffix string) {
		var want []string
		if suffix == "buggy" {
			want = p.breaks
		}
		h := replay(t, p.name, p.reconciler(suffix), want)
		compareGolden(t, filepath.Join("testdata", "calls", p.name+"-"+suffix+".txt"), calls(h))
	})
}

// TestSchedulesBeyond checks the schedules that are about fixes which are not enough.
func TestSchedulesBeyond(t *testing.T) {
	for _, test := range []struct {
		schedule, reconciler string
		breaks               []string
	}{
		{"stale-list-lost", "patterns/stale-list-correct", []string{"no-more-than-asked-for"}},
		{"recreated-owner-by-uid", "patterns/recreated-owner-by-uid", []string{"living-app-keeps-its-own"}},
		{"recreated-owner-by-uid", "patterns/recreated-owner-correct", nil},
		{"recreated-owner", "patterns/recreated-owner-by-uid", nil},
		{"external-create", "patterns/external-create-pending", []string{"app-gets-its-volume"}},
		{"external-create-lost", "patterns/external-create-pending", []string{"one-volume"}},
		{"external-create-lost", "patterns/external-create-correct", nil},
	} {
		t.Run(test.schedule+"/"+test.reconciler, func(t *testing.T) {
			replay(t, test.schedule, test.reconciler, test.breaks)
		})
	}
}

// replay runs a schedule of testdata with a reconciler, twice, and checks what it breaks.
func replay(t *testing.T, name, reconciler string, breaks []string) *history.History {
	t.Helper()
	s, err := scenarios.LoadSchedule(filepath.Join("testdata", "schedules", name+".yaml"), scenarios.Options{Registry: registry()})
	if err != nil {
		t.Fatal(err)
	}
	config, err := s.Config(registry(), map[string]string{operator: reconciler})
	if err != nil {
		t.Fatal(err)
	}
	h := execute(t, config, sim.PlanOf(s.Spec))
	for _, fault := range h.Faults {
		if !fault.Struck {
			t.Errorf("%s did not strike", fault.Fault)
		}
	}
	for _, c := range h.Constraints {
		if !c.Matched {
			t.Errorf("%s did not come about", c.Constraint)
		}
	}
	if diff := cmp.Diff(breaks, track.Stated(h)); diff != "" {
		t.Errorf("broken properties (-want +got):\n%s", diff)
	}
	if h.Outcome != history.Terminal {
		t.Errorf("the run ended %s: %s", h.Outcome, h.Reason)
	}
	if again := execute(t, config, sim.PlanOf(s.Spec)); again.Hash != h.Hash {
		t.Errorf("a second run has the hash %x, the first %x", again.Hash, h.Hash)
	}
	return h
}
