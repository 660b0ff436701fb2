package reference_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/reference"
)

// TestFolders checks that every folder with a track record is among the folders, and that rows are about what the folder has.
func TestFolders(t *testing.T) {
	var names []string
	for _, folder := range reference.Folders() {
		names = append(names, folder.Name)
		checkFolder(t, folder)
	}
	files, err := filepath.Glob("../*/track_test.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if name := filepath.Base(filepath.Dir(file)); name != "track" && !slices.Contains(names, name) {
			t.Errorf("scenarios/%s has a track record, and is not among the folders %q", name, names)
		}
	}
}

func checkFolder(t *testing.T, folder reference.Folder) {
	t.Helper()
	registry := &scenarios.Registry{}
	folder.Register(registry)
	for _, name := range registry.Names() {
		if !strings.HasPrefix(name, folder.Name+"/") {
			t.Errorf("scenarios/%s registers %s", folder.Name, name)
		}
	}
	named := map[string]bool{}
	for _, row := range folder.Track() {
		if named[row.Name()] {
			t.Errorf("scenarios/%s has two rows %s", folder.Name, row.Name())
		}
		named[row.Name()] = true
		if _, ok := registry.Get(row.Reconciler); !ok {
			t.Errorf("%s: there is no such reconciler", row.Name())
		}
		if _, err := os.Stat(filepath.Join("..", folder.Name, row.Scenario)); err != nil {
			t.Errorf("%s: %v", row.Name(), err)
		}
		if (len(row.Breaks) > 0) != (row.Budget > 0) {
			t.Errorf("%s breaks %q within %d executions: it has either both or none", row.Name(), row.Breaks, row.Budget)
		}
	}
}
