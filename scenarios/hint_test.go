package scenarios_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stalemate-dev/stalemate/scenarios"
)

// TestHints checks that the error about a slip says what was meant, for each kind of name that files have.
func TestHints(t *testing.T) {
	for _, c := range []struct{ what, old, slip, hint string }{
		{"a field of the file", "metadata:", "metdata:", `did you mean "metadata"?`},
		{"a field of a mapping", "maxFaults:", "maxFault:", `did you mean "maxFaults"?`},
		{"a field, by its case", "readyAfter:", "readyafter:", `did you mean "readyAfter"?`},
		{"a type of racer", "type: VolumeBinder", "type: VolumBinder", `did you mean "VolumeBinder"?`},
		{"a type of fault", "type: Crash", "type: crash", `did you mean "Crash"?`},
		{"one of several types of faults", "[Conflict, Forbidden]", "[Conflict, Forbiddn]", `did you mean "Forbidden"?`},
		{"a value of a fault's block", "AfterCommit]", "AfterComit]", `did you mean "AfterCommit"?`},
		{"a detector", "limits:", "detectors: [{type: HotLop}]\n  limits:", `did you mean "HotLoop"?`},
		{"a verb", "verb: Create", "verb: create", `did you mean "Create"?`},
		{"one of several verbs", "[Update, Patch]", "[Updates, Patch]", `did you mean "Update"?`},
		{"a subresource", "subresource: status", "subresource: staus", `did you mean "status"?`},
		{"a kind of object", "kind: Pod, name: web-0}, at: Start", "kind: Pods, name: web-0}, at: Start", `did you mean "Pod"?`},
		{"an actor", "actor: operator, verbs", "actor: operater, verbs", `did you mean "operator"?`},
		{"a reconciler", "example/buggy", "example/bugy", `there is "example/buggy"`},
		{"a type of property", "type: Eventually", "type: Eventuall", `did you mean "Eventually"?`},
		{"a variable in a rule", "rule: pod != null", "rule: pods != null", `did you mean 'pod'?`},
		{"a field in a rule", "rule: pod != null", "rule: pod.spec.nodename == \"\"", `did you mean 'nodeName'?`},
		{"a field of a response", "response.code", "response.cod", `did you mean 'code'?`},
		{"a name of the matrix", "$(policy)", "$(polcy)", `did you mean "policy"?`},
		{"a policy", "[Orphan, Background]", "[Orphan, Backgrund]", `did you mean "Background"?`},
		{"a moment", "at: Start", "at: start", `did you mean "Start"?`},
		{"a reason to try again", "at: 5s}", "at: 5s, retryWhile: Conflikt}", `did you mean "Conflict"?`},
		{"where reads go", "reconciler: example/buggy", "reconciler: example/buggy, reads: cache", `did you mean "Cached"?`},
		{"a version", "spec:\n", "spec:\n  kubernetesVersion: \"1.35\"\n", `did you mean "1.36"?`},
		{"a field of a patch", "delete: {kind: Pod, name: web-0, propagationPolicy: $(policy)}",
			"patch: {kind: Pod, name: web-0, merge: {spec: {nodeNam: $(policy)}}}", `did you mean "nodeName"?`},
	} {
		if !strings.Contains(soundScenario, c.old) {
			t.Fatalf("%s: there is no %q", c.what, c.old)
		}
		file := &fstest.MapFile{Data: []byte(strings.Replace(soundScenario, c.old, c.slip, 1))}
		_, err := scenarios.LoadFS(fstest.MapFS{"f.yaml": file}, "f.yaml", scenarios.Options{Registry: registry()})
		if err == nil || !strings.Contains(err.Error(), c.hint) {
			t.Errorf("%s: %q says\n%v\nwant in it: %s", c.what, c.slip, err, c.hint)
		}
	}
}

// TestHintsOfSchedules does so for what only schedules have.
func TestHintsOfSchedules(t *testing.T) {
	for _, c := range []struct{ what, old, slip, hint string }{
		{"a field", "skip:", "skips:", `did you mean "skip"?`},
		{"a field of an event", "verb: Deliver", "verbe: Deliver", `did you mean "verb"?`},
		{"a verb of an event", "verb: Deliver", "verb: Delivr", `did you mean "Deliver"?`},
		{"a verb of a read", "first: Get", "first: get", `did you mean "Get"?`},
		{"an outcome", "outcome: Violated", "outcome: violated", `did you mean "Violated"?`},
		{"what is unmatched", "whenUnmatched: Ignore", "whenUnmatched: Ignored", `did you mean "Ignore"?`},
		{"a controller", "skip: [1]", "reconcilers: {operater: example/fixed}", `did you mean "operator"?`},
		{"a property", "outcome: Violated", "outcome: Violated, property: comes-bak", `did you mean "comes-back"?`},
	} {
		if !strings.Contains(soundSchedule, c.old) {
			t.Fatalf("%s: there is no %q", c.what, c.old)
		}
		fsys := fstest.MapFS{
			"scenario.yaml": {Data: []byte(soundScenario)},
			"f.yaml":        {Data: []byte(strings.Replace(soundSchedule, c.old, c.slip, 1))},
		}
		_, err := scenarios.LoadScheduleFS(fsys, "f.yaml", scenarios.Options{Registry: registry()})
		if err == nil || !strings.Contains(err.Error(), c.hint) {
			t.Errorf("%s: %q says\n%v\nwant in it: %s", c.what, c.slip, err, c.hint)
		}
	}
}

// TestExplainErrors checks the paths that there are not.
func TestExplainErrors(t *testing.T) {
	for path, want := range map[string]string{
		"":                                 ": a path begins with scenario or schedule, as in scenario.spec.racers",
		"senario.spec":                     `did you mean "scenario"?`,
		"scenario.spec.racer":              `scenario.spec.racer: unknown field, did you mean "racers"?`,
		"spec.racers[3].kubelet.readAfter": `scenario.spec.racers.kubelet.readAfter: unknown field, did you mean "readyAfter"?`,
		"schedule.spec.racers":             "schedule.spec.racers: unknown field; the fields here are scenario, reconcilers,",
		"scenario.kind.name":               "scenario.kind.name: unknown field: scenario.kind is of type string, and has none",
		"scenario.spec..racers":            "scenario.spec.: unknown field",
	} {
		if _, err := scenarios.Explain(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Explain(%q): %v, want in it: %s", path, err, want)
		}
	}
	for path, want := range map[string]string{
		"Scenario": "", "schedule": "", "spec.racers": "spec.racers", "metadata.name": "metadata.name",
		"spec.racers[0].kubelet.fails[1].labels": "spec.racers.kubelet.fails.labels", "schedule.spec.order.hold.return": "spec.order.hold.return",
	} {
		if field, err := scenarios.Explain(path); err != nil || field.Path != want {
			t.Errorf("Explain(%q) is of %q, %v", path, field.Path, err)
		}
	}
}
