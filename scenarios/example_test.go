package scenarios_test

import (
	"fmt"
	"testing/fstest"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
)

// A team registers its reconcilers under names, and loads a scenario that uses them.
func Example() {
	var registry scenarios.Registry
	registry.Add("example/buggy", scenarios.Reconciler{
		Doc:     "creates a second set when it does not see the first",
		Program: func(scenarios.ProgramOptions) sim.Program { return program{} },
	})

	files := fstest.MapFS{"scenario.yaml": {Data: []byte(`
apiVersion: stalemate.dev/v1alpha1
kind: Scenario
metadata: {name: one-set}
spec:
  controllers:
  - {name: operator, reconciler: example/buggy}
  racers:
  - {name: kcm, type: StatefulSetController}
  variables:
  - {name: sets, list: {kind: StatefulSet}}
  properties:
  - name: never-two-sets
    type: Always
    rule: sets.size() < 2
`)}}
	scenario, err := scenarios.LoadFS(files, "scenario.yaml", scenarios.Options{Registry: &registry})
	if err != nil {
		fmt.Println(err)
		return
	}
	config, err := scenario.Config(&registry, map[string]string{"operator": "example/buggy"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(config.Name, len(config.Processes), len(config.Racers))
	// Output: one-set 1 1
}

// What is wrong with a file is reported all at once, each error with its place.
func ExampleError() {
	files := fstest.MapFS{"scenario.yaml": {Data: []byte(`apiVersion: stalemate.dev/v1alpha1
kind: Scenario
metadata: {name: broken}
spec:
  controllers:
  - {name: operator, reconciler: example/buggy}
  racers:
  - name: kcm
    typ: StatefulSetController
  properties:
  - name: always
    type: Always
    rule: 1 + true
`)}}
	_, err := scenarios.LoadFS(files, "scenario.yaml", scenarios.Options{})
	fmt.Println(err)
	// Output:
	// scenario.yaml:9:5: spec.racers[0].typ: unknown field, did you mean "type"?
	//   7 |   racers:
	//   8 |   - name: kcm
	// > 9 |     typ: StatefulSetController
	//     |     ^
	// scenario.yaml:13:13: spec.properties[0].rule: found no matching overload for '_+_' applied to '(int, bool)'
	//   11 |   - name: always
	//   12 |     type: Always
	// > 13 |     rule: 1 + true
	//      |             ^
}
