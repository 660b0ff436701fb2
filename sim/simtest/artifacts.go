package simtest

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/stalemate-dev/stalemate/reports"
	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim/canon"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// artifacts is the folder that a test writes to, if it was asked to: by -sim.report, or by go test's own -artifacts. A
// nil one writes nothing.
type artifacts struct{ folder string }

// artifacts returns the folder of a test.
func (c *testCase) artifacts(t TB) (*artifacts, error) {
	asked := flag.Lookup("test.artifacts")
	if c.given.has("report") {
		return newArtifacts(fromRoot(c.given.report))
	}
	owner, ok := t.(interface{ ArtifactDir() string })
	if !ok || asked == nil || asked.Value.String() != "true" {
		return nil, nil
	}
	return newArtifacts(owner.ArtifactDir())
}

func newArtifacts(folder string) (*artifacts, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, fmt.Errorf("the folder of reports cannot be made: %w", err)
	}
	absolute, err := filepath.Abs(folder)
	return &artifacts{absolute}, err
}

// report writes the report of a test.
func (a *artifacts) report(t TB, text string) error {
	if a == nil {
		return nil
	}
	return os.WriteFile(filepath.Join(a.folder, plainName(t.Name())+".txt"), []byte(text+"\n"), 0o644)
}

// schedule writes the schedule of a finding, with its report as a comment, and returns the file. It is named by the
// scenario and the signature of the finding, so that one that comes again finds its own file. There is none for a
// scenario that has no file itself.
func (a *artifacts) schedule(c *testCase, f *history.Finding, report string) (string, error) {
	if a == nil || c.scenario == nil {
		return "", nil
	}
	var signature canon.Hasher
	signature.String(f.Signature)
	name := fmt.Sprintf("%s-%016x", plainName(c.names.Scenario), signature.Sum())
	file := filepath.Join(a.folder, name+".yaml")
	scenario, err := filepath.Abs(c.scenario.Path)
	if err == nil {
		scenario, err = filepath.Rel(a.folder, scenario)
	}
	if err != nil {
		return "", fmt.Errorf("schedule %s: %w", name, err)
	}
	content, err := scenarios.EncodeSchedule(scenarios.ScheduleFile{
		Name: name, Scenario: filepath.ToSlash(scenario), Reconcilers: c.replaced, Matrix: c.scenario.Values, Spec: scheduleOf(f),
	})
	if err != nil {
		return "", err
	}
	return file, os.WriteFile(file, append([]byte(reports.Comment(report)), content...), 0o644)
}

// scheduleOf returns the schedule of a finding, with what the run under it comes to.
func scheduleOf(f *history.Finding) *schedule.Schedule {
	s := schedule.Schedule{Origin: schedule.Origin{Strategy: f.Strategy, Seed: f.Seed}}
	if f.Schedule != nil {
		s = *f.Schedule
	}
	if s.Expect.Outcome == "" {
		s.Expect = schedule.Expectation{Outcome: schedule.Violated, Signature: f.Signature, Hash: f.Run.Hash}
		if broken := f.Run.Broken(); len(broken) > 0 {
			s.Expect.Property = broken[0].Property.Name
		}
	}
	return &s
}

// replayArgument returns the flag that replays a schedule file, with the file as it is seen from the module's root;
// empty if there is no file, or none that can name its scenario, which must be in the same repository.
func replayArgument(file string) string {
	root, _, err := moduleRoot()
	if file == "" || err != nil {
		return ""
	}
	relative, err := filepath.Rel(root, file)
	if err != nil || !filepath.IsLocal(relative) {
		return ""
	}
	return "-sim.replay=" + filepath.ToSlash(relative)
}

// plainName makes a name of the name of a test or scenario that a file and a schedule can have.
func plainName(name string) string {
	plain := func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return ' '
	}
	return cmp.Or(strings.Join(strings.Fields(strings.Map(plain, strings.ToLower(name))), "-"), "unnamed")
}
