package scenarios_test

import (
	"fmt"
	"testing/fstest"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/schedule"
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

// A scenario with a matrix is run once for each combination of its values.
func ExampleScenario_Entries() {
	var registry scenarios.Registry
	registry.Add("example/buggy", scenarios.Reconciler{
		Program: func(scenarios.ProgramOptions) sim.Program { return program{} },
	})
	files := fstest.MapFS{"scenario.yaml": {Data: []byte(`
apiVersion: stalemate.dev/v1alpha1
kind: Scenario
metadata: {name: delete}
spec:
  controllers: [{name: operator, reconciler: example/buggy}]
  script:
  - delete: {kind: StatefulSet, name: web, propagationPolicy: $(policy)}
  matrix:
  - {name: policy, values: [Background, Foreground]}
  properties: [{name: always, type: Always, rule: "true"}]
`)}}
	scenario, err := scenarios.LoadFS(files, "scenario.yaml", scenarios.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, entry := range scenario.Entries() {
		config, err := entry.Config(&registry, nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(config.Name, entry.Entry)
	}
	// Output:
	// delete policy=Background
	// delete policy=Foreground
}

// A finding is kept as a schedule file that a person can read.
func ExampleEncodeSchedule() {
	update := schedule.Event{
		Actor: "operator", Incarnation: 1, Key: "default/a", Verb: schedule.Update, Kind: "StatefulSet", Namespace: "default",
		Name: "web", Occurrence: 2,
	}
	status := schedule.Event{
		Actor: "kcm", Key: "default/web", Verb: schedule.Update, Kind: "StatefulSet", Subresource: "status", Namespace: "default",
		Name: "web", Occurrence: 1,
	}
	written, err := scenarios.EncodeSchedule(scenarios.ScheduleFile{
		Comment:     "Found by the sweep.",
		Name:        "status-before-update",
		Scenario:    "../scenario.yaml",
		Reconcilers: map[string]string{"operator": "example/buggy"},
		Spec: &schedule.Schedule{
			Constraints: []schedule.Constraint{{Event: update, Waits: status}},
			Faults:      []schedule.Fault{{Type: schedule.LostResponse, At: update}},
			Expect:      schedule.Expectation{Outcome: schedule.Violated, Property: "scaled-up"},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(string(written))
	// Output:
	// # Found by the sweep.
	// # yaml-language-server: $schema=https://raw.githubusercontent.com/stalemate-dev/stalemate/main/scenarios/schema/schedule.json
	// apiVersion: stalemate.dev/v1alpha1
	// kind: Schedule
	// metadata: {name: status-before-update}
	// spec:
	//   scenario: {path: ../scenario.yaml}
	//   reconcilers: {operator: example/buggy}
	//   order:
	//   - hold: "operator(default/a) Update StatefulSet default/web #2"
	//     until: "kcm(default/web) Update StatefulSet/status default/web #1"
	//   faults:
	//   - {at: "operator(default/a) Update StatefulSet default/web #2", type: LostResponse}
	//   expect: {outcome: Violated, property: scaled-up}
}
