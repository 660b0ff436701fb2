// Package scenarios reads scenario files: what may happen to an operator, as YAML that is committed next to it.
//
// A file holds one [Manifest]: the objects at the start, the controllers under test, the racers they compete with, a script,
// and the properties that judge the runs. [Load] reads it strictly: an unknown field, a value of the wrong type, a rule that
// does not compile, an object that no API server would take are errors, and a file's errors are reported all at once, each
// with its place and the lines around it:
//
//	recreate.yaml:13:5: spec.racers[0].typ: unknown field, did you mean "type"?
//	  11 |   racers:
//	  12 |   - name: kcm
//	> 13 |     typ: StatefulSetController
//	     |     ^
//
// A scenario with a matrix stands for several, one for each combination of its values: its [Scenario.Entries].
//
// A [ScheduleManifest] says what must happen in a run of a scenario: orders and faults. [LoadSchedule] reads one with its
// scenario, [EncodeSchedule] writes one, and [KindOf] tells the two kinds of files apart.
//
// A scenario names its reconcilers; a [Registry] says what these names mean. [Scenario.Config] puts the two together into
// what the engine runs.
//
// Files are read as untrusted input: size, nesting and aliases are bounded, and a path must stay inside the repository
// that holds the scenario.
package scenarios
