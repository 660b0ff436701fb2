package explore_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
	"github.com/stalemate-dev/stalemate/sim/client"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

var update = flag.Bool("update", false, "rewrite golden files")

// busy is a scenario with all that the sweep turns round: live and cached reads, lists, writes with and without a lock, a
// poll, a second controller in the process, and a racer with caches.
func busy(t *testing.T) *sim.Config {
	t.Helper()
	poll := func(ctx context.Context, deps sim.Deps, key types.NamespacedName) (ctrl.Result, error) {
		app := &corev1.ConfigMap{}
		for {
			if err := deps.Live.Get(ctx, key, app); err != nil {
				return ctrl.Result{}, ctrlclient.IgnoreNotFound(err)
			}
			if app.Data["want"] != "" {
				break
			}
			time.Sleep(2 * time.Second)
		}
		if err := errors.Join(deps.Client.Get(ctx, key, app), deps.Live.List(ctx, &corev1.ConfigMapList{})); err != nil {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, createChild(ctx, deps, app)
	}
	config := scenario{
		given: []apiserver.Object{configMap("app", nil)},
		racers: []sim.RacerConfig{
			user(after(5*time.Second, mergePatch(`{"data":{"want":"1"}}`)), after(7*time.Second, mergePatch(`{"data":{"want":"2"}}`))),
			{Name: "copier", New: func() sim.Racer { return &copier{} }},
		},
		properties: alwaysThere,
	}.build()(t, poll)
	mark := func(ctx context.Context, deps sim.Deps, key types.NamespacedName) (ctrl.Result, error) {
		app := &corev1.ConfigMap{}
		if err := deps.Client.Get(ctx, key, app); err != nil {
			return ctrl.Result{}, ctrlclient.IgnoreNotFound(err)
		}
		return ctrl.Result{}, setData(ctx, deps, app, "have", app.Data["want"])
	}
	config.Processes[0].Program = client.Reconcilers(testScheme, controller("waiter", poll), controller("marker", mark))
	return config
}

// copier is a racer that copies what is wanted into an annotation, in two writes of one pass.
type copier struct {
	env  sim.RacerEnv
	kind *apiserver.Kind
}

func (c *copier) Start(env sim.RacerEnv) {
	c.env, c.kind = env, env.Kind("ConfigMap")
	var queue sim.RacerQueue
	view := env.Informer(c.kind, func(d cache.Delta) { queue.Add(d.Object.GetName()) })
	queue = env.Queue("copies", 1, func(name string) sim.Task {
		app, _ := view.Get("default", name).(*corev1.ConfigMap)
		if app == nil || app.Data["want"] == app.Annotations["copied"] {
			return &writes{}
		}
		want := app.Data["want"]
		return &writes{patches: []*apiserver.Request{c.annotate(name, "copying", want), c.annotate(name, "copied", want)}}
	})
}

func (c *copier) annotate(name, key, value string) *apiserver.Request {
	return &apiserver.Request{Verb: schedule.Patch, Kind: c.kind, Namespace: "default", Name: name,
		PatchType: types.MergePatchType, PatchData: fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value)}
}

// writes is a task of some requests, whatever is answered.
type writes struct{ patches []*apiserver.Request }

func (w *writes) Next(*apiserver.Response) sim.Action {
	if len(w.patches) == 0 {
		return sim.Done()
	}
	next := w.patches[0]
	w.patches = w.patches[1:]
	return sim.Call(next)
}

// TestSweepOrdersComeAbout executes every candidate of the scenario, and checks that the step held comes right after the one
// it was held for, or else that it is not counted as matched. The golden file says which orders there are, and in which
// order they are tried.
func TestSweepOrdersComeAbout(t *testing.T) {
	world, err := sim.NewWorld(busy(t))
	if err != nil {
		t.Fatal(err)
	}
	standard := execute(t, world, sim.Plan{})
	var b strings.Builder
	candidates, _ := explore.Candidates(standard, world.Config())
	for i, c := range candidates {
		h := execute(t, world, sim.Plan{Constraints: []schedule.Constraint{c}})
		result := h.Constraints[0]
		first, second := find(h, c.Event), find(h, c.Waits)
		if !result.Held {
			t.Errorf("%s: the step was not held", c)
		}
		if came := first > second && second >= 0; came != result.Matched {
			t.Errorf("%s: the steps are at %d and %d, and the constraint's matched is %v", c, first, second, result.Matched)
		}
		if result.Matched {
			for _, r := range h.Records[second+1 : first] {
				if r.Event.Verb != schedule.Deliver && r.Event.Verb != schedule.Handle {
					t.Errorf("%s: %s comes between them", c, r.Event)
				}
			}
		}
		fmt.Fprintf(&b, "%d %s: %v\n", i+1, c, result.Matched)
	}
	compareGolden(t, "sweep.golden", b.String())
}

// TestSweepCounts checks the account of a sweep: what need not be executed is not.
func TestSweepCounts(t *testing.T) {
	result := explored(t, busy(t), explore.Options{Runs: -1})
	world, err := sim.NewWorld(busy(t))
	if err != nil {
		t.Fatal(err)
	}
	candidates, _ := explore.Candidates(result.Default, world.Config())
	distinct, unmatched := map[uint64]bool{}, 0
	for _, c := range candidates {
		h := execute(t, world, sim.Plan{Constraints: []schedule.Constraint{c}})
		if !h.Constraints[0].Matched {
			unmatched++
			distinct[h.Hash] = true
		}
	}
	if unmatched == len(distinct) {
		t.Errorf("all %d unmatched candidates give runs of their own: the scenario has nothing to save", unmatched)
	}
	sweep := result.Strategies[1]
	if sweep.Candidates != len(candidates) || sweep.Unmatched != unmatched || !sweep.Complete {
		t.Errorf("account is %+v, want %d candidates, %d unmatched, complete", sweep, len(candidates), unmatched)
	}
	if want := len(candidates) - unmatched + len(distinct); sweep.Executions != want {
		t.Errorf("%d executions, want %d: one for each order that comes about, and one for each way in which none does",
			sweep.Executions, want)
	}
	if again := explored(t, busy(t), explore.Options{Runs: -1}); again.Hash != result.Hash {
		t.Errorf("two sweeps have hashes %x and %x", result.Hash, again.Hash)
	}
}

func execute(t *testing.T, world *sim.World, plan sim.Plan) *history.History {
	t.Helper()
	h, err := world.Run(plan)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// find returns the index of an event, -1 if it did not happen.
func find(h *history.History, event schedule.Event) int {
	for i := range h.Records {
		if h.Records[i].Event == event {
			return i
		}
	}
	return -1
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs (-update rewrites it); got:\n%s", path, got)
	}
}
