package racer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/explore"
)

// traceNamespace is where the scripts are played.
const traceNamespace = "trace"

// trace is what the real controllers did to a script: steps by a user, and what was left when nothing changed any more.
type trace struct {
	Name   string            `json:"name"`
	Doc    string            `json:"doc"`
	Server string            `json:"server"`
	Steps  []string          `json:"steps"`
	Script []traceStep       `json:"script"`
	Events []json.RawMessage `json:"events"`
	Final  []traceState      `json:"final"`
}

// traceStep is one step of a script: exactly one of its fields but RetryWhile is set.
type traceStep struct {
	Create json.RawMessage `json:"create"`
	Patch  *tracePatch     `json:"patch"`
	Delete *traceDelete    `json:"delete"`
	// Settle waits until nothing changes any more.
	Settle bool `json:"settle"`
	// Kubelet says whether there is a kubelet from here on.
	Kubelet *bool `json:"kubelet"`
	// RetryWhile has a create tried again and again while it fails for that reason.
	RetryWhile metav1.StatusReason `json:"retryWhile"`

	created apiserver.Object // what Create holds
}

type tracePatch struct {
	Kind, Name string
	Merge      json.RawMessage
}

type traceDelete struct {
	Kind, Name        string
	PropagationPolicy metav1.DeletionPropagation
}

// traceState is what is recorded of one object. Objects have stable names: "StatefulSet/web#2" is the second of that name.
type traceState struct {
	Kind   string         `json:"kind"`
	Name   string         `json:"name"`
	Fields map[string]any `json:"fields"`
}

// named returns the name of an object of a script. Where a script means its own namespace, that is ours.
func named(kind, name string) string {
	if kind == "Namespace" {
		return traceNamespace
	}
	return name
}

// TestTrace plays the scripts of recordings of real control planes, and compares what is left at the end. On a real cluster
// that did not differ from run to run; so no order of steps may change it here. Each script is played in the default order and
// in random ones, of which every other is the engine's and the others are without any bias, see [driver]; and what must hold
// in every order is checked as well, see [audit].
//
// SIM_RUNS sets the number of random orders, 1000 for all that is claimed, and SIM_TRACES=DIR takes the recordings from
// DIR/traces-1.36 and DIR/traces-1.37.
func TestTrace(t *testing.T) {
	testTraces(t, "traces-*", 24)
}

// TestRollout is TestTrace for Deployments and ReplicaSets.
func TestRollout(t *testing.T) {
	if dir := os.Getenv("SIM_TRACES"); dir != "" {
		if rollouts, err := filepath.Glob(filepath.Join(dir, "rollouts-*")); err == nil && len(rollouts) == 0 {
			t.Setenv("SIM_TRACES", "") // there are none: our own then
		}
	}
	testTraces(t, "rollouts-*", 6)
}

func testTraces(t *testing.T, pattern string, runs int) {
	root := "testdata"
	if dir := os.Getenv("SIM_TRACES"); dir != "" {
		root = dir
	}
	if text := os.Getenv("SIM_RUNS"); text != "" {
		var err error
		if runs, err = strconv.Atoi(text); err != nil || runs < 0 {
			t.Fatalf("SIM_RUNS is %q, want a number of random orders", text)
		}
	}
	dirs, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil {
		t.Fatal(err)
	}
	if len(dirs) == 0 {
		t.Fatalf("no %s in %s: SIM_TRACES is to name the directory that holds traces-1.36 and traces-1.37", pattern, root)
	}
	for _, dir := range dirs {
		_, minor, _ := strings.Cut(filepath.Base(dir), "-")
		version := apiserver.Version(minor)
		if version != apiserver.V136 && version != apiserver.V137 {
			t.Errorf("%s: no Kubernetes %q is played here: name a directory traces-1.36 or traces-1.37", dir, minor)
			continue
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.json"))
		if err != nil || len(files) == 0 {
			t.Errorf("%s: no traces (*.json) in it: %v", dir, err)
		}
		for _, file := range files {
			t.Run(filepath.Base(dir)+"/"+strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
				recorded, err := readTrace(file, version)
				if err != nil {
					t.Fatal(err)
				}
				playTrace(t, version, recorded, runs)
			})
		}
	}
}

// playTrace plays a script in the default order and in random ones, in each kind of cluster in turn.
func playTrace(t *testing.T, version apiserver.Version, recorded *trace, runs int) {
	casts := castsOf(recorded)
	for i, c := range casts {
		playOnEngine(t, version, recorded, c, sim.Plan{}).compare(t, fmt.Sprintf("default order of the engine, cast %d", i), recorded)
		playOnDriver(t, version, recorded, c, nil).compare(t, fmt.Sprintf("default order, cast %d", i), recorded)
	}
	for seed := range int64(runs) {
		c := casts[int(seed/2)%len(casts)]
		var o *outcome
		if seed%2 == 0 {
			o = playOnEngine(t, version, recorded, c, sim.Plan{Seed: seed, Strategy: explore.NewWalk(seed)})
		} else {
			o = playOnDriver(t, version, recorded, c, rand.New(rand.NewPCG(uint64(seed), 0)))
		}
		o.compare(t, fmt.Sprintf("seed %d", seed), recorded)
		if t.Failed() {
			return
		}
	}
}

// cast says who plays a script besides its controllers.
type cast struct {
	// scheduler binds the pods; without one, the kubelet does.
	scheduler bool
	// waits has the kubelet leave terminating pods alone until they have no finalizers.
	waits bool
}

// castsOf returns the casts in which a script ends as it was recorded. The recordings' kubelet bound the pods, so without a
// kubelet there is no scheduler either; and it did not touch a terminating pod that had finalizers, while a real one ends its
// containers, and says so in its status.
func castsOf(recorded *trace) []cast {
	switched := slices.ContainsFunc(recorded.Script, func(s traceStep) bool { return s.Kubelet != nil })
	held := slices.ContainsFunc(recorded.Final, func(s traceState) bool { return s.Kind == "Pod" && s.Fields["terminating"] == true })
	var casts []cast
	for _, c := range []cast{{waits: true}, {waits: true, scheduler: true}, {}, {scheduler: true}} {
		if c.scheduler && switched || held && !c.waits {
			continue
		}
		casts = append(casts, c)
	}
	return casts
}

func readTrace(file string, version apiserver.Version) (*trace, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	recorded := &trace{}
	if err := json.Unmarshal(data, recorded); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	var script struct {
		Script []json.RawMessage `json:"script"`
	}
	if err := json.Unmarshal(data, &script); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	for i := range recorded.Script {
		if err := recorded.Script[i].read(script.Script[i], apiserver.NewKinds(version)); err != nil {
			return nil, fmt.Errorf("%s: step %d of the script: %w", file, i+1, err)
		}
	}
	return recorded, nil
}

// read decodes a step strictly: a step that is not understood in full must not be played in part.
func (s *traceStep) read(data []byte, kinds *apiserver.Kinds) error {
	*s = traceStep{}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(s); err != nil {
		return err
	}
	count := 0
	for _, is := range []bool{len(s.Create) > 0, s.Patch != nil, s.Delete != nil, s.Settle, s.Kubelet != nil} {
		if is {
			count++
		}
	}
	if count != 1 {
		return fmt.Errorf("%s: want exactly one of create, patch, delete, settle and kubelet", data)
	}
	if s.RetryWhile != "" && len(s.Create) == 0 {
		return errors.New("retryWhile is for create")
	}
	switch {
	case s.Patch != nil:
		return knownKind(kinds, s.Patch.Kind)
	case s.Delete != nil:
		return knownKind(kinds, s.Delete.Kind)
	case len(s.Create) > 0:
		return s.readObject(kinds)
	}
	return nil
}

func (s *traceStep) readObject(kinds *apiserver.Kinds) error {
	var header metav1.TypeMeta
	if err := json.Unmarshal(s.Create, &header); err != nil {
		return err
	}
	kind := kinds.ByGVK(header.GroupVersionKind())
	if kind == nil {
		return fmt.Errorf("no kind %q of %q is known", header.Kind, header.APIVersion)
	}
	created, err := kind.Decode(s.Create)
	if err != nil {
		return err
	}
	if kind.Namespaced {
		created.SetNamespace(traceNamespace)
	}
	s.created = created
	return nil
}

func knownKind(kinds *apiserver.Kinds, name string) error {
	if kinds.ByName(name) == nil {
		return fmt.Errorf("no kind %q is known", name)
	}
	return nil
}

// TestTraceRefused checks that a script that is not understood in full is not played.
func TestTraceRefused(t *testing.T) {
	for _, test := range []struct{ step, want string }{
		{`{"scale": {"kind": "StatefulSet"}}`, `step 1 of the script: json: unknown field "scale"`},
		{`{}`, `step 1 of the script: {}: want exactly one of create, patch, delete, settle and kubelet`},
		{`{"settle": true, "kubelet": false}`, `want exactly one of create`},
		{`{"settle": true, "retryWhile": "Conflict"}`, `retryWhile is for create`},
		{`{"patch": {"kind": "Widget", "name": "w"}}`, `no kind "Widget" is known`},
		{`{"delete": {"kind": "Pod", "name": "web-0", "grace": 0}}`, `unknown field "grace"`},
		{`{"create": {"apiVersion": "x/v1", "kind": "Pod"}}`, `no kind "Pod" of "x/v1" is known`},
		{`{"create": {"apiVersion": "v1", "kind": "Pod", "spec": 1}}`, `Pod: json: cannot unmarshal number`},
	} {
		file := filepath.Join(t.TempDir(), "trace.json")
		if err := os.WriteFile(file, []byte(`{"script": [`+test.step+`]}`), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := readTrace(file, apiserver.V136)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q in it", test.step, err, test.want)
		}
	}
}

// TestSameOrderSameCalls plays a script twice in the same order, for each of several orders.
func TestSameOrderSameCalls(t *testing.T) {
	recorded, err := readTrace("testdata/traces-1.36/delete-foreground-held.json", apiserver.V136)
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(5) {
		var runs [2][]string
		for i := range runs {
			d := newDriver(t, apiserver.V136)
			d.random = rand.New(rand.NewPCG(seed, 0))
			d.play(recorded, cast{})
			runs[i] = append(d.calls, d.logs...)
		}
		if diff := cmp.Diff(runs[0], runs[1]); diff != "" {
			t.Fatalf("seed %d: two runs differ:\n%s", seed, diff)
		}
	}
}
