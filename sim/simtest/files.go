package simtest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// schedulesFolder is where schedules are committed: beside a test, or beside a scenario.
var schedulesFolder = filepath.Join("testdata", "schedules")

// scheduleFolders returns the folders where schedules of a scenario may be.
func (o *options) scheduleFolders(scenario string) []string {
	return []string{schedulesFolder, filepath.Join(filepath.Dir(scenario), schedulesFolder)}
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
