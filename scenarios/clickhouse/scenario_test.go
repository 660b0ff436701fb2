package clickhouse

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/stalemate-dev/stalemate/racer"
	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// The scenario files: those in which only the order makes a difference, and those with faults.
var (
	orderFiles    = []string{"recreate.yaml", "recreate-scaled.yaml", "recreate-control.yaml"}
	faultFiles    = []string{"recreate-errors.yaml", "recreate-crash.yaml", "recreate-upgrade.yaml"}
	scenarioFiles = slices.Concat(orderFiles, faultFiles)
)

func load(t *testing.T, file string) (*scenarios.Scenario, []apiserver.Object) {
	t.Helper()
	registry := &scenarios.Registry{}
	Register(registry)
	scenario, err := scenarios.Load(file, scenarios.Options{Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	config, err := scenario.Config(registry, nil)
	if err != nil {
		t.Fatal(err)
	}
	return scenario, config.Given
}

// find returns the given object of type T that has the name.
func find[T apiserver.Object](t *testing.T, given []apiserver.Object, name string) T {
	t.Helper()
	for _, obj := range given {
		if found, ok := obj.(T); ok && found.GetName() == name {
			return found
		}
	}
	t.Fatalf("no %T %s is given", *new(T), name)
	panic("unreachable")
}

func givenCHI(t *testing.T, given []apiserver.Object) *ClickHouseInstallation {
	t.Helper()
	return toCHI(t, find[*unstructured.Unstructured](t, given, "a").Object)
}

// changedCHI is the CHI as it is after the scenario's script.
func changedCHI(t *testing.T, scenario *scenarios.Scenario, given []apiserver.Object) *ClickHouseInstallation {
	t.Helper()
	content := find[*unstructured.Unstructured](t, given, "a").DeepCopy().Object
	for _, step := range scenario.Manifest.Spec.Script {
		merge(content, step.Patch.Merge)
	}
	return toCHI(t, content)
}

func toCHI(t *testing.T, content map[string]any) *ClickHouseInstallation {
	t.Helper()
	chi := &ClickHouseInstallation{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, chi); err != nil {
		t.Fatal(err)
	}
	return chi
}

// merge applies a JSON merge patch that removes nothing.
func merge(object, patch map[string]any) {
	for name, value := range patch {
		from, isObject := object[name].(map[string]any)
		if to, ok := value.(map[string]any); ok && isObject {
			merge(from, to)
		} else {
			object[name] = value
		}
	}
}

// TestScenarios checks that the scenarios ask for the same change, and that the object version that their rules compare with
// is the one the operator gives the set that the changed CHI asks for.
func TestScenarios(t *testing.T) {
	_, given := load(t, "recreate.yaml")
	want := givenCHI(t, given)
	version := hosts(want)[0].statefulSet().Labels[labelObjectVersion]
	for _, file := range scenarioFiles {
		scenario, given := load(t, file)
		chi := changedCHI(t, scenario, given)
		if diff := cmp.Diff(want.Spec, chi.Spec); diff != "" {
			t.Errorf("%s: the changed CHI is another than that of recreate.yaml (-recreate +%s):\n%s", file, file, diff)
		}
		properties := scenario.Manifest.Spec.Properties
		i := slices.IndexFunc(properties, func(p scenarios.Property) bool { return p.Name == "completed-means-replaced" })
		if rule := properties[i].Rule; !strings.Contains(rule, `"`+version+`"`) {
			t.Errorf("%s: the desired object version is %s, the rule says:\n%s", file, version, rule)
		}
	}
}

// TestScaledToZero checks the start of recreate.yaml: the set is what the operator renders for the CHI as it was, scaled to
// 0; its revision is the one kube-controller-manager recorded for it; and what else it needs is as the operator wants it.
func TestScaledToZero(t *testing.T) {
	_, before := load(t, "recreate-scaled.yaml")
	old := givenCHI(t, before)
	old.Spec.Stop = "yes"
	_, given := load(t, "recreate.yaml")
	set := find[*appsv1.StatefulSet](t, given, "chi-a-0-0")

	h := hosts(old)[0]
	rendered := h.statefulSet()
	if diff := cmp.Diff(rendered.Labels, set.Labels); diff != "" {
		t.Errorf("labels of the set (-rendered +given):\n%s", diff)
	}
	apiserver.NewKinds(apiserver.V136).ByName("StatefulSet").Default(rendered)
	if diff := cmp.Diff(rendered.Spec, set.Spec); diff != "" {
		t.Errorf("spec of the set (-rendered +given):\n%s", diff)
	}

	want, err := racer.NewRevision(set, 1)
	if err != nil {
		t.Fatal(err)
	}
	revision := find[*appsv1.ControllerRevision](t, given, set.Status.CurrentRevision)
	type recorded struct {
		Name, Data string
		Labels     map[string]string
		Revision   int64
	}
	if diff := cmp.Diff(
		recorded{want.Name, string(want.Data.Raw), want.Labels, want.Revision},
		recorded{revision.Name, string(revision.Data.Raw), revision.Labels, revision.Revision},
	); diff != "" {
		t.Errorf("the ControllerRevision (-kube-controller-manager's +given):\n%s", diff)
	}
	if set.Status.UpdateRevision != set.Status.CurrentRevision {
		t.Errorf("the revisions of the set's status differ: %+v", set.Status)
	}
}
