package scenarios_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"

	"github.com/stalemate-dev/stalemate/scenarios"
)

// FuzzLoad loads a scenario and an object file of any content: either they are good, or there is an [scenarios.Error] whose
// diagnostics all have their place. It must not panic, and it must come to an end.
func FuzzLoad(f *testing.F) {
	object, err := os.ReadFile("testdata/valid/objects/web.yaml")
	if err != nil {
		f.Fatal(err)
	}
	crd, err := os.ReadFile("testdata/valid/crds/widget.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, pattern := range []string{"testdata/valid/*.yaml", "testdata/broken/*.yaml", "testdata/broken/objects/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil || len(files) == 0 {
			f.Fatal(pattern, err)
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data, object)
			f.Add([]byte(scenarioOfObject), data)
		}
	}
	known := registry()
	f.Fuzz(func(t *testing.T, scenario, given []byte) {
		files := fstest.MapFS{
			"folder/scenario.yaml":         {Data: scenario},
			"folder/objects/web.yaml":      {Data: given},
			"folder/crds/widget.yaml":      {Data: crd},
			"folder/objects/more/web.yaml": {Data: object},
		}
		loaded, err := scenarios.LoadFS(files, "folder/scenario.yaml", scenarios.Options{Registry: known})
		if err != nil {
			var broken *scenarios.Error
			if !errors.As(err, &broken) {
				t.Fatalf("got %v, want a *scenarios.Error", err)
			}
			checkDiagnostics(t, broken)
			_ = broken.Error()
			return
		}
		for _, entry := range loaded.Entries() {
			if _, err := entry.Config(known, nil); err != nil {
				t.Fatalf("a scenario that was loaded cannot be put together: %v", err)
			}
		}
	})
}

const scenarioOfObject = `
apiVersion: stalemate.dev/v1alpha1
kind: Scenario
metadata: {name: fuzz}
spec:
  crds: [{path: crds/widget.yaml}]
  given: [{path: objects/web.yaml}]
  controllers: [{name: operator, reconciler: example/buggy}]
  properties: [{name: always, type: Always, rule: "true"}]
`
