package simtest

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/stalemate-dev/stalemate/scenarios"
)

// schedulesFolder is where schedules are committed: beside a test, or beside a scenario.
var schedulesFolder = filepath.Join("testdata", "schedules")

// scheduleFiles returns the schedule files that are committed beside the test, and beside its scenario, where
// `stalemate pin` puts them, sorted. A file of which it cannot be told what it holds is among them, for a broken
// schedule must not go unnoticed.
func (c *testCase) scheduleFiles() ([]string, error) {
	if c.scenario == nil {
		return nil, nil
	}
	var files []string
	for _, folder := range []string{schedulesFolder, filepath.Join(filepath.Dir(c.scenario.Path), schedulesFolder)} {
		inside, err := filesIn(folder)
		if err != nil {
			return nil, err
		}
		for _, file := range inside {
			if kind, err := scenarios.KindOf(file); (err != nil || kind == scenarios.KindSchedule) &&
				!slices.ContainsFunc(files, func(known string) bool { return sameFile(known, file) }) {
				files = append(files, file)
			}
		}
	}
	return files, nil
}

// filesIn returns the YAML files in a folder, sorted; none if there is no such folder.
func filesIn(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var files []string
	for _, entry := range entries {
		if !entry.IsDir() && slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(entry.Name())) {
			files = append(files, filepath.Join(folder, entry.Name()))
		}
	}
	return files, err
}

// fromRoot returns a file or folder that a person names in the module's root, where the tests run in the package's
// folder. A file that is only in the package's folder is found there.
func fromRoot(name string) string {
	root, _, err := moduleRoot()
	if filepath.IsAbs(name) || err != nil {
		return name
	}
	inRoot := filepath.Join(root, name)
	if _, err := os.Stat(inRoot); err != nil {
		if _, err := os.Stat(name); err == nil {
			return name
		}
	}
	return inRoot
}

func sameFile(a, b string) bool {
	first, err := os.Stat(a)
	if err != nil {
		return false
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second)
}

// loadSchedule loads a schedule file, if it is one of the case's scenario and entry; nil if it is another's. That its
// reconcilers are ones which the test knows is not checked: the test may replace them.
func (c *testCase) loadSchedule(file string) (*scenarios.Schedule, error) {
	if kind, err := scenarios.KindOf(file); err != nil {
		return nil, err
	} else if kind != scenarios.KindSchedule {
		return nil, fmt.Errorf("%s: a scenario, not a schedule", file)
	}
	s, err := scenarios.LoadSchedule(file, scenarios.Options{})
	if err != nil {
		return nil, err
	}
	if c.scenario == nil || !sameFile(s.Scenario.Path, c.scenario.Path) || !maps.Equal(s.Scenario.Values, c.scenario.Values) {
		return nil, nil
	}
	return s, nil
}
