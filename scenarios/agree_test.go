package scenarios_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/yaml"

	"github.com/stalemate-dev/stalemate/scenarios"
)

// validators returns the compiled schemas, by kinds.
func validators(t *testing.T) map[string]*jsonschema.Schema {
	t.Helper()
	compiler := jsonschema.NewCompiler()
	all := map[string]*jsonschema.Schema{}
	for _, kind := range scenarios.Kinds() {
		data, err := scenarios.Schema(kind)
		if err != nil {
			t.Fatal(err)
		}
		document, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
		if err != nil {
			t.Fatal(err)
		}
		if err := compiler.AddResource(scenarios.SchemaURL(kind), document); err != nil {
			t.Fatal(err)
		}
		if all[kind], err = compiler.Compile(scenarios.SchemaURL(kind)); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// accepts returns what a schema has against a file; nil if nothing.
func accepts(schema *jsonschema.Schema, file []byte) error {
	data, err := yaml.YAMLToJSONStrict(file)
	if err != nil {
		return err
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// TestSchemaAcceptsWhatLoads validates every scenario and every schedule of the repository that the loader accepts.
func TestSchemaAcceptsWhatLoads(t *testing.T) {
	validators := validators(t)
	count := map[string]int{}
	err := filepath.WalkDir("..", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(name) != ".yaml" {
			return err
		}
		data := readFile(t, name)
		kind := scenarios.KindScenario
		if !strings.Contains(string(data), "\nkind: "+kind+"\n") {
			if kind = scenarios.KindSchedule; !strings.Contains(string(data), "\nkind: "+kind+"\n") {
				return nil
			}
			_, err = scenarios.LoadSchedule(name, scenarios.Options{})
		} else {
			_, err = scenarios.Load(name, scenarios.Options{})
		}
		if err != nil {
			return nil // which is so on purpose
		}
		count[kind]++
		if err := accepts(validators[kind], data); err != nil {
			t.Errorf("%s: the loader accepts it, the schema does not: %v", name, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if count[scenarios.KindScenario] < 40 || count[scenarios.KindSchedule] < 30 {
		t.Errorf("only %v files", count)
	}
}

// TestShippedFilesNameTheirSchema looks for the line by which editors find the schema: the first one of every scenario that we ship,
// and one of the comments of every schedule.
func TestShippedFilesNameTheirSchema(t *testing.T) {
	const modeline = "# yaml-language-server: $schema="
	for _, shipped := range []struct{ pattern, kind, schema string }{
		{"*/*.yaml", scenarios.KindScenario, "../schema/scenario.json"},
		{"*/testdata/schedules/*.yaml", scenarios.KindSchedule, scenarios.SchemaURL(scenarios.KindSchedule)},
	} {
		files, err := filepath.Glob(shipped.pattern)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, file := range files {
			comments, _, is := strings.Cut(string(readFile(t, file)), "\napiVersion: "+scenarios.APIVersion+"\nkind: "+shipped.kind+"\n")
			if !is {
				continue
			}
			found++
			want := modeline + shipped.schema
			first := strings.HasPrefix(comments+"\n", want+"\n")
			if !first && (shipped.kind == scenarios.KindScenario || !strings.HasSuffix("\n"+comments, "\n"+want)) {
				t.Errorf("%s does not say %q", file, want)
			}
		}
		if found < 40 {
			t.Errorf("only %d files of kind %s", found, shipped.kind)
		}
	}
	if _, err := os.Stat("schema/scenario.json"); err != nil {
		t.Error(err)
	}
}

// beyondSchema are the files of the loader's tests in which nothing is wrong that a schema can say: rules, what the file refers to,
// and names that must be known or differ.
var beyondSchema = sets.New(
	"broken/bad-cel", "broken/crd-invalid", "broken/crd-not-one", "broken/crd-object", "broken/crd-rules", "broken/crd-twice",
	"broken/crd-unknown-field", "broken/crd-versions", "broken/duplicate-names", "broken/ill-typed-cel", "broken/matrix-references",
	"broken/matrix-too-big", "broken/matrix-without", "broken/missing-file", "broken/object-bad-yaml", "broken/object-duplicate",
	"broken/no-nodes", "broken/object-invalid", "broken/object-leaves", "broken/object-list", "broken/object-metadata", "broken/object-owner",
	"broken/object-unknown-field", "broken/object-unknown-kind", "broken/object-webhook", "broken/object-wrong-type",
	"broken/patch-custom", "broken/path-binary", "broken/path-outside", "broken/rbac-bindings", "broken/rbac-roles",
	"broken/two-documents", "broken/unknown-kind", "broken/unknown-reconciler", "broken/unmodelled-kind",
	"broken-schedules/itself", "broken-schedules/matrix-missing", "broken-schedules/matrix-none", "broken-schedules/matrix-unknown",
	"broken-schedules/missing-scenario", "broken-schedules/scenario-directory", "broken-schedules/scenario-outside",
	"broken-schedules/trace-cut",
)

// TestSchemaRefusesWhatIsBroken validates the files that the loader refuses. All but those that are wrong in what they mean, the
// schema refuses too.
func TestSchemaRefusesWhatIsBroken(t *testing.T) {
	validators := validators(t)
	for folder, kind := range map[string]string{"broken": scenarios.KindScenario, "broken-schedules": scenarios.KindSchedule} {
		files, err := filepath.Glob("testdata/" + folder + "/*.yaml")
		if err != nil || len(files) < 10 {
			t.Fatalf("%d files, %v", len(files), err)
		}
		for _, file := range files {
			name := folder + "/" + strings.TrimSuffix(filepath.Base(file), ".yaml")
			err := accepts(validators[kind], readFile(t, file))
			if beyond := beyondSchema.Has(name); beyond != (err == nil) {
				t.Errorf("%s: the schema says %v; beyond it: %t", name, err, beyond)
			}
		}
	}
}

// soundScenario and soundSchedule are what the cases of TestSchemaAndLoaderAgree change in one place.
const (
	soundScenario = `
apiVersion: stalemate.dev/v1alpha1
kind: Scenario
metadata: {name: sound}
spec:
  controllers:
  - {name: operator, reconciler: example/buggy}
  racers:
  - {name: kubelet, type: Kubelet, kubelet: {readyAfter: 5s}}
  - {name: other, type: VolumeBinder}
  script:
  - {delete: {kind: Pod, name: web-0, propagationPolicy: $(policy)}, at: 5s}
  faults:
    maxFaults: 2
    rules:
    - {name: some, type: Crash, match: {actor: operator, verbs: [Update, Patch]}, crash: {at: [BeforeCall, AfterCommit]}}
    - {name: more, types: [Conflict, Forbidden], match: {actor: operator, subresource: status}}
  variables:
  - {name: pod, object: {kind: Pod, name: web-0}, at: Start}
  properties:
  - {name: comes-back, type: Eventually, within: 10m, rule: pod != null}
  - {name: creates, type: Request, match: {verb: Create, occurrence: 2}, rule: response.code < 300}
  matrix:
  - {name: policy, values: [Orphan, Background]}
  limits: {steps: 100, virtualTime: 1h30m, hold: 10s}
`
	soundSchedule = `
apiVersion: stalemate.dev/v1alpha1
kind: Schedule
metadata: {name: sound.schedule}
spec:
  scenario: {path: scenario.yaml}
  matrix: {policy: Orphan}
  order:
  - {hold: 'operator Update Pod default/web-0 #1', until: 'kubelet Update Pod/status default/web-0 #1'}
  - between: {actor: operator, kind: Pod, first: Get, then: Update}
    let: {actor: kubelet, verb: Deliver}
  faults:
  - {at: {actor: operator, verb: Update}, type: LostResponse, lostResponse: {as: ConnectionLost}}
  latencies:
  - {at: 'operator Update Pod default/web-0 #1', for: 5s}
  skip: [1]
  expect: {outcome: Violated, hash: "0123456789abcdef"}
  whenUnmatched: Ignore
  properties:
  - {name: ends, type: Terminal, rule: "true"}
`
)

// TestSchemaAndLoaderAgree changes one thing at a time in files that both accept: then both refuse them. An empty replacement
// takes the line out.
func TestSchemaAndLoaderAgree(t *testing.T) {
	validators := validators(t)
	for kind, cases := range map[string][]struct{ old, change string }{
		scenarios.KindScenario: scenarioSlips,
		scenarios.KindSchedule: scheduleSlips,
	} {
		for _, c := range append(cases, struct{ old, change string }{"", ""}) {
			text := map[string]string{scenarios.KindScenario: soundScenario, scenarios.KindSchedule: soundSchedule}
			if !strings.Contains(text[kind], c.old) {
				t.Fatalf("%s has no %q", kind, c.old)
			}
			text[kind] = strings.Replace(text[kind], c.old, c.change, 1)
			fsys := fstest.MapFS{
				"scenario.yaml": {Data: []byte(text[scenarios.KindScenario])}, "schedule.yaml": {Data: []byte(text[scenarios.KindSchedule])},
			}
			_, loader := scenarios.LoadScheduleFS(fsys, "schedule.yaml", scenarios.Options{Registry: registry()})
			if kind == scenarios.KindScenario && loader != nil {
				_, loader = scenarios.LoadFS(fsys, "scenario.yaml", scenarios.Options{Registry: registry()})
			}
			schema := accepts(validators[kind], []byte(text[kind]))
			if sound := c.old == ""; (loader == nil) != sound || (schema == nil) != sound {
				t.Errorf("%s with %q for %q: the loader says %v, the schema %v", kind, c.change, c.old, loader, schema)
			}
		}
	}
}

// Slips are what is written in the place of what.
var (
	scenarioSlips = []struct{ old, change string }{
		{"apiVersion: stalemate.dev/v1alpha1", "apiVersion: stalemate.dev/v1"},
		{"apiVersion: stalemate.dev/v1alpha1\n", ""},
		{"kind: Scenario", "kind: Scenarios"},
		{"name: sound", "name: Not_a_Label"},
		{"name: sound", "name: two.labels"},
		{"name: sound", "nam: sound"},
		{"spec:\n", "spec:\n  kubernetesVersion: \"1.2\"\n"},
		{"spec:\n", "spec:\n  kubernetesVersion: 1.36\n"},
		{"spec:\n", "spec:\n  settle: maybe\n"},
		{"spec:\n", "spec:\n  given: [{}]\n"},
		{"spec:\n", "spec:\n  given: [objects.yaml]\n"},
		{"spec:\n", "spec:\n  detectors: [{type: HotLop}]\n"},
		{"spec:\n", "spec:\n  detectors: [{enabled: false}]\n"},
		{"controllers:\n  - {name: operator, reconciler: example/buggy}", "controllers: []"},
		{"  controllers:\n  - {name: operator, reconciler: example/buggy}\n", ""},
		{"reconciler: example/buggy", "reconciler: example/buggy, reads: cached"},
		{"reconciler: example/buggy", "reconciler: example/buggy, replicas: 2"},
		{"reconciler: example/buggy", "reconciler: example/buggy, serviceAccount: {name: operator}"},
		{"name: operator, reconciler: example/buggy", "name: operator"},
		{"type: VolumeBinder", "type: VolumeBinders"},
		{"type: VolumeBinder", "type: VolumeBinder, kubelet: {readyAfter: 5s}"},
		{"type: VolumeBinder", "type: Annotator"},
		{"type: VolumeBinder", "type: HorizontalPodAutoscaler, horizontalPodAutoscaler: {namespace: default}"},
		{"name: other, type: VolumeBinder", "name: other"},
		{"readyAfter: 5s", "readyAfter: 5"},
		{"readyAfter: 5s", "readyAfter: 5 seconds"},
		{"readyAfter: 5s", "readyAfter: -5s"},
		{"readyAfter: 5s", "readiAfter: 5s"},
		{"readyAfter: 5s", "unready: {}"},
		{"readyAfter: 5s", "completesAfter: 5s, fails: [{labels: {a: b}, exitCode: 300}]"},
		{"readyAfter: 5s", "lost: [{at: 5s}]"},
		{"at: 5s}", "at: 5s, create: {path: pod.yaml}}"},
		{"delete: {kind: Pod, name: web-0, propagationPolicy: $(policy)}, ", ""},
		{"propagationPolicy: $(policy)}", "propagationPolicy: $(policy)}, retryWhile: Timeout"},
		{"maxFaults: 2", "maxFaults: 0"},
		{"maxFaults: 2", "maxFaults: two"},
		{"maxFaults: 2", "maxFaults: 1.5"},
		{"name: some, type: Crash", "name: some, type: Crsh"},
		{"name: some, type: Crash", "name: some"},
		{"name: some, type: Crash", "type: Crash"},
		{"name: some, type: Crash", "name: some, type: Conflict"},
		{"name: some, type: Crash", "name: some, types: [Crash]"},
		{"crash: {at: [BeforeCall, AfterCommit]}", "crash: {at: [BeforeCall, BeforeCall]}"},
		{"crash: {at: [BeforeCall, AfterCommit]}", "crash: {at: Later}"},
		{"crash: {at: [BeforeCall, AfterCommit]}", "upgrade: {}"},
		{"types: [Conflict, Forbidden]", "types: [Conflict, Upgrade]"},
		{"types: [Conflict, Forbidden]", "type: Conflict, types: [Forbidden]"},
		{"verbs: [Update, Patch]", "verbs: [update]"},
		{"verbs: [Update, Patch]", "verb: Update, verbs: [Update, Patch]"},
		{"verbs: [Update, Patch]", "verb: Deliver"},
		{"subresource: status", "subresource: state"},
		{"object: {kind: Pod, name: web-0}", "object: {kind: Pod, name: web-0}, list: {kind: Pod}"},
		{"object: {kind: Pod, name: web-0}, ", ""},
		{"object: {kind: Pod, name: web-0}", "object: {kind: Pod}"},
		{"at: Start", "at: End"},
		{"within: 10m, ", ""},
		{"type: Eventually, within: 10m", "type: Always, within: 10m"},
		{"type: Eventually", "type: Eventuall"},
		{"rule: pod != null", "rules: pod != null"},
		{"match: {verb: Create, occurrence: 2}, ", ""},
		{"occurrence: 2", "occurrence: -1"},
		{"values: [Orphan, Background]", "values: []"},
		{"values: [Orphan, Background]", "values: [[Orphan], Background]"},
		{"name: policy, values", "name: the policy, values"},
		{"steps: 100", "steps: 0"},
		{"steps: 100", "steps: 3000000000"},
		{"virtualTime: 1h30m", "virtualTime: 1d"},
	}
	scheduleSlips = []struct{ old, change string }{
		{"kind: Schedule", "kind: Scenario"},
		{"name: sound.schedule", "name: sound schedule"},
		{"scenario: {path: scenario.yaml}", "scenario: {}"},
		{"scenario: {path: scenario.yaml}", "scenario: scenario.yaml"},
		{"  scenario: {path: scenario.yaml}\n", ""},
		{"hold: 'operator Update Pod default/web-0 #1', ", ""},
		{"hold: 'operator Update Pod default/web-0 #1'", "hold: 1"},
		{"hold: 'operator Update Pod default/web-0 #1'", "hold: {actr: operator}"},
		{"first: Get", "first: Update"},
		{"first: Get, ", ""},
		{"then: Update", "then: Create"},
		{"verb: Deliver", "verb: Delivers"},
		{"type: LostResponse, ", ""},
		{"type: LostResponse", "type: LostRequest"},
		{"type: LostResponse", "type: Conflict"},
		{"as: ConnectionLost", "as: ConnectionLot"},
		{"for: 5s", "for: soon"},
		{", for: 5s", ""},
		{"skip: [1]", "skip: [first]"},
		{"outcome: Violated", "outcome: Broken"},
		{"hash: \"0123456789abcdef\"", "hash: abc"},
		{"whenUnmatched: Ignore", "whenUnmatched: Pass"},
		{"type: Terminal", "type: Finally"},
		{"type: Terminal, ", ""},
	}
)
