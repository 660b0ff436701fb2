package simtest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/stalemate-dev/stalemate/reports"
	"github.com/stalemate-dev/stalemate/scenarios"
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
	return os.WriteFile(filepath.Join(a.folder, reports.FileName(t.Name())+".txt"), []byte(text+"\n"), 0o644)
}

// findings returns the files of the findings of a case. There are none for a scenario that has no file itself.
func (a *artifacts) findings(c *testCase, replay func(file string) string) *reports.Files {
	if a == nil || c.scenario == nil {
		return nil
	}
	return &reports.Files{
		Folder: a.folder, Replay: replay,
		Encode: func(file, name string, s *schedule.Schedule) ([]byte, error) {
			return c.scenario.EncodeSchedule(file, scenarios.ScheduleFile{Name: name, Reconcilers: c.replaced, Spec: s})
		},
	}
}

// replayLine returns the line that runs a test with the schedule in a file, as it is seen from the module's root; empty if the
// file cannot name its scenario, which must be in the same repository.
func replayLine(t TB, file string) string {
	root, _, err := moduleRoot()
	if err != nil {
		return ""
	}
	relative, err := filepath.Rel(root, file)
	if err != nil || !filepath.IsLocal(relative) {
		return ""
	}
	return line(t, "-sim.replay="+filepath.ToSlash(relative))
}
