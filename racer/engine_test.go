package racer

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
)

// phase is the virtual time a script leaves the controllers to settle. A random walk holds single calls back for up to
// about a minute.
const phase = 2 * time.Hour

// TestTracesOnEngine plays the scripts of the recordings on the engine: in the default order, and in the random orders that
// explorations use. What is left is always what was recorded. SIM_TRACES_SEEDS sets the number of random orders.
func TestTracesOnEngine(t *testing.T) {
	seeds := 3
	if text := os.Getenv("SIM_TRACES_SEEDS"); text != "" {
		var err error
		if seeds, err = strconv.Atoi(text); err != nil || seeds < 0 {
			t.Fatalf("SIM_TRACES_SEEDS is %q, want a number", text)
		}
	}
	for _, version := range []apiserver.Version{apiserver.V136, apiserver.V137} {
		files, err := filepath.Glob("testdata/traces-" + string(version) + "/*.json")
		if err != nil || len(files) == 0 {
			t.Fatalf("no traces for %s: %v", version, err)
		}
		for _, file := range files {
			t.Run(string(version)+"/"+strings.TrimSuffix(filepath.Base(file), ".json"), func(t *testing.T) {
				recorded := readTrace(t, file)
				playOnEngine(t, version, recorded, sim.Plan{})
				for seed := range int64(seeds) {
					playOnEngine(t, version, recorded, sim.Plan{Seed: seed, Strategy: explore.NewWalk(seed)})
				}
			})
		}
	}
}

func playOnEngine(t *testing.T, version apiserver.Version, recorded *trace, plan sim.Plan) {
	t.Helper()
	var seen *witness
	world, err := sim.NewWorld(traceConfig(t, version, recorded.Script, func() sim.Racer {
		seen = &witness{t: t, encoded: map[apiserver.Object]string{}}
		return seen
	}))
	if err != nil {
		t.Fatal(err)
	}
	run, err := world.Run(plan)
	if err != nil {
		t.Fatal(err)
	}
	if run.Outcome != history.Terminal {
		t.Errorf("seed %d: the run is %s: %s", plan.Seed, run.Outcome, run.Reason)
	}
	if diff := cmp.Diff(recorded.Final, finalState(seen.log, seen.list)); diff != "" {
		t.Errorf("seed %d: final state (-recorded +simulated):\n%s", plan.Seed, diff)
	}
	for obj, before := range seen.encoded {
		if after := encode(t, obj); after != before {
			t.Errorf("seed %d: a stored object was written to:\nbefore %s\nafter  %s", plan.Seed, before, after)
		}
	}
}

// traceConfig returns the scenario that a script makes with the controllers that ran when it was recorded.
func traceConfig(t *testing.T, version apiserver.Version, script []traceStep, witness func() sim.Racer) *sim.Config {
	t.Helper()
	kubelet := true
	var user UserOptions
	at := time.Duration(0)
	for i, step := range script {
		next := UserStep{At: at, RetryWhile: step.RetryWhile}
		switch {
		case step.Settle:
			at += phase
			continue
		case step.Kubelet != nil:
			if i > 0 || *step.Kubelet {
				t.Fatalf("step %d: a kubelet can only be left out from the start", i+1)
			}
			kubelet = false
			continue
		case step.Create != nil:
			set := step.Create.DeepCopy()
			set.Namespace = traceNamespace
			next.Create = &UserCreate{Kind: "StatefulSet", Object: set}
		case step.Patch != nil:
			next.Patch = &UserPatch{
				Kind: step.Patch.Kind, Namespace: traceNamespace, Name: step.Patch.Name,
				Type: types.MergePatchType, Data: step.Patch.Merge,
			}
		case step.Delete != nil:
			next.Delete = &UserDelete{Kind: step.Delete.Kind, Namespace: traceNamespace, Name: step.Delete.named()}
			if policy := step.Delete.PropagationPolicy; policy != "" {
				next.Delete.Options.PropagationPolicy = &policy
			}
		}
		user.Steps = append(user.Steps, next)
	}
	config := &sim.Config{
		Name: "trace", Kinds: apiserver.NewKinds(version), Unsettled: true,
		Given:  []apiserver.Object{newNamespace(traceNamespace)},
		Limits: sim.Limits{Steps: 100_000, VirtualTime: 100 * time.Hour},
		Racers: []sim.RacerConfig{
			{Name: "witness", New: witness},
			{Name: "kcm", New: func() sim.Racer { return NewStatefulSetController(StatefulSetControllerOptions{Version: version}) }},
			{Name: "gc", New: func() sim.Racer { return NewGarbageCollector(GarbageCollectorOptions{}) }},
			{Name: "namespaces", New: func() sim.Racer { return NewNamespaceController(NamespaceControllerOptions{}) }},
			{Name: "user", WithScript: true, New: func() sim.Racer { return NewUser(user) }},
		},
	}
	if kubelet {
		config.Racers = append(config.Racers, sim.RacerConfig{
			Name: "kubelet", New: func() sim.Racer { return NewKubelet(KubeletOptions{Binds: true}) },
		})
	}
	return config
}

// witness is a racer that does nothing but look.
type witness struct {
	t       *testing.T
	views   map[string]*cache.View
	events  map[string][]apiserver.Event
	encoded map[apiserver.Object]string // how each object looked when it was first seen
}

func (w *witness) Start(env sim.RacerEnv) {
	w.views, w.events = map[string]*cache.View{}, map[string][]apiserver.Event{}
	for _, kind := range []string{"StatefulSet", "ControllerRevision", "Pod"} {
		w.views[kind] = env.Informer(env.Kind(kind), func(d cache.Delta) {
			w.events[kind] = append(w.events[kind], apiserver.Event{Type: d.Type, Object: d.Object})
			if _, ok := w.encoded[d.Object]; !ok {
				w.encoded[d.Object] = encode(w.t, d.Object)
			}
		})
	}
}

func (w *witness) log(kind string) []apiserver.Event { return w.events[kind] }

func (w *witness) list(kind string) []apiserver.Object {
	return w.views[kind].List(traceNamespace)
}
