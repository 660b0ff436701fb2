package scenarios_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stalemate-dev/stalemate/scenarios"
)

// TestMatrix checks the entries of a scenario with a matrix: their order, names and values, and what stands in the places of
// references.
func TestMatrix(t *testing.T) {
	scenario, err := scenarios.Load("testdata/valid/matrix.yaml", scenarios.Options{Registry: registry()})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range scenario.Entries() {
		names = append(names, entry.Entry)
		if entry.Name != "matrix" || entry.Path != scenario.Path {
			t.Errorf("entry %s is of scenario %q in %q", entry.Entry, entry.Name, entry.Path)
		}
		if inner := entry.Entries(); len(inner) != 1 || inner[0] != entry {
			t.Errorf("entry %s has entries of its own", entry.Entry)
		}
		selected, err := scenario.Select(entry.Values)
		if err != nil || selected != entry {
			t.Errorf("%v selects %v, %v", entry.Values, selected, err)
		}
		if _, err := entry.Config(registry(), nil); err != nil {
			t.Errorf("entry %s: %v", entry.Entry, err)
		}
	}
	want := []string{
		"variant=buggy,replicas=0,object=web", "variant=buggy,replicas=3,object=web",
		"variant=fixed,replicas=0,object=web", "variant=fixed,replicas=3,object=web",
	}
	if !slices.Equal(names, want) {
		t.Fatalf("the entries are %q, want %q", names, want)
	}
	last := scenario.Entries()[3]
	merge := last.Manifest.Spec.Script[0].Patch.Merge
	annotations := merge["metadata"].(map[string]any)["annotations"].(map[string]any)
	if text := annotations["example.com/text"]; text != "$(variant) is fixed" {
		t.Errorf("the text is %q", text)
	}
	if replicas := merge["spec"].(map[string]any)["replicas"]; replicas != float64(3) {
		t.Errorf("replicas are %#v, want a number", replicas)
	}
	if rule := last.Manifest.Spec.Properties[0].Rule; rule != "sts == null || sts.spec.replicas == 3" {
		t.Errorf("the rule is %s", rule)
	}
	if name := last.Manifest.Spec.Controllers[0].Reconciler; name != "example/fixed" {
		t.Errorf("the reconciler is %s", name)
	}
}

// TestMatrixNeedsChoice checks that a scenario with a matrix is not run as if it had none.
func TestMatrixNeedsChoice(t *testing.T) {
	scenario, err := scenarios.Load("testdata/valid/matrix.yaml", scenarios.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = scenario.Config(registry(), nil)
	var broken *scenarios.Error
	if !errors.As(err, &broken) || !strings.Contains(err.Error(), "choose an entry to run; there is variant=buggy,replicas=0") {
		t.Errorf("the scenario as a whole has a configuration, or another error: %v", err)
	}
	values := maps.Clone(scenario.Entries()[0].Values)
	values["replicas"] = "4"
	for _, values := range []map[string]string{nil, {"variant": "fixed"}, values} {
		if entry, err := scenario.Select(values); err == nil {
			t.Errorf("%v selects %s", values, entry.Entry)
		}
	}
}

// TestNoMatrix checks that a scenario without a matrix is its own entry.
func TestNoMatrix(t *testing.T) {
	scenario, err := scenarios.Load("testdata/valid/minimal.json", scenarios.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if entries := scenario.Entries(); len(entries) != 1 || entries[0] != scenario || scenario.Entry != "" || scenario.Values != nil {
		t.Errorf("%d entries, the first is %q", len(entries), entries[0].Entry)
	}
	if entry, err := scenario.Select(nil); err != nil || entry != scenario {
		t.Errorf("no values select %v, %v", entry, err)
	}
	if _, err := scenario.Select(map[string]string{"policy": "Foreground"}); err == nil {
		t.Error("values select an entry where there is no matrix")
	}
}
