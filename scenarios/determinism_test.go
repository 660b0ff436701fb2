package scenarios_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/scenarios"
	reconcilers "github.com/stalemate-dev/stalemate/scenarios/reference"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/client"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// shipped returns the scenario files that come with us.
func shipped(t *testing.T) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && entry.Name() == "testdata":
			return filepath.SkipDir
		case entry.IsDir() || filepath.Ext(path) != ".yaml":
			return nil
		}
		content, err := os.ReadFile(path)
		if err == nil && strings.Contains(string(content), "\nkind: Scenario\n") {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no scenario files found below this folder")
	}
	return files
}

// numberOfSeeds returns how many seeds, and faults, a scenario is run with: SIM_RUNS, or few.
func numberOfSeeds(t *testing.T) int {
	t.Helper()
	text := os.Getenv("SIM_RUNS")
	if text == "" {
		return 8
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("SIM_RUNS is %q, want a positive number", text)
	}
	return n
}

// TestDeterminism runs every shipped scenario in the default order, by random walks, and with each of some faults, in the
// default order and in a walk; twice under each of GOMAXPROCS 1 and 2, each time from a world of its own. It compares the
// hashes of the histories. SIM_RUNS sets the number of seeds, and of faults, which the entries of a matrix share.
func TestDeterminism(t *testing.T) {
	registry := &scenarios.Registry{}
	reconcilers.Register(registry)
	for _, file := range append(shipped(t), "clickhouse/testdata/rbac/complete.yaml", "clickhouse/testdata/rbac/lacking.yaml") {
		t.Run(file, func(t *testing.T) {
			checkDeterminism(t, registry, func() (*scenarios.Scenario, error) {
				return scenarios.Load(file, scenarios.Options{Registry: registry})
			})
		})
	}
}

// TestDeterminismOfFeatures does the same with webhooks, whose handlers run in the middle of others' requests, with namespaces that
// are emptied and made again, and with a client whose reads wait for its writes.
func TestDeterminismOfFeatures(t *testing.T) {
	registry := &scenarios.Registry{}
	registry.Add("secrets/buggy", secretOperator(true))
	registry.Add("secrets/fixed", secretOperator(false))
	registerCopier(registry)
	registry.Add("consistent", consistentCopier())
	const racers = "  racers:\n  - {name: stamp, type: Annotator, annotator: " +
		"{kind: ConfigMap, name: app, every: 1ms, times: 9, annotation: example.com/stamp}}\n"
	const faults = "  faults:\n    rules:\n    - {name: stale, type: CacheLag}\n    - {name: lost, type: LostResponse}\n" +
		"    - {name: crash, type: Crash, match: {actor: operator}}\n"
	tests := []struct {
		name, scenario, operator, more string
		files                          map[string]string
	}{
		{"webhooks", hookScenario, "secrets/buggy", racers, hookFiles},
		{"webhooks of a fixed operator", hookScenario, "secrets/fixed", racers, hookFiles},
		{"namespaces", namespaceScenario, "copier/buggy", faults, namespaceFiles},
		{"namespaces and a consistent client", namespaceScenario, "consistent", faults, namespaceFiles},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			text := strings.Replace(test.scenario, "reconciler: secrets/buggy", "reconciler: "+test.operator, 1)
			text = strings.Replace(text, "reconciler: copier/buggy", "reconciler: "+test.operator, 1)
			text = strings.Replace(text, "  variables:\n", test.more+"  variables:\n", 1)
			files := fstest.MapFS{"scenario.yaml": {Data: []byte(text)}}
			for name, content := range test.files {
				files[name] = &fstest.MapFile{Data: []byte(content)}
			}
			checkDeterminism(t, registry, func() (*scenarios.Scenario, error) {
				return scenarios.LoadFS(files, "scenario.yaml", scenarios.Options{Registry: registry})
			})
		})
	}
}

// consistentCopier copies the ConfigMap of the namespace default to the namespace shop in two steps, with a client that reads its
// own writes.
func consistentCopier() scenarios.Reconciler {
	return scenarios.Reconciler{Doc: "copies ConfigMaps", Program: func(o scenarios.ProgramOptions) sim.Program {
		return client.Manager(o.Scheme, func(m ctrl.Manager) error {
			c := m.GetClient()
			return ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).Complete(reconcile.Func(
				func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
					source, copied := &corev1.ConfigMap{}, &corev1.ConfigMap{}
					if err := c.Get(ctx, request.NamespacedName, source); err != nil || request.Namespace != "default" {
						return ctrl.Result{}, ctrlclient.IgnoreNotFound(err)
					}
					copied.Namespace, copied.Name = "shop", "copy"
					if err := c.Create(ctx, copied); ctrlclient.IgnoreAlreadyExists(err) != nil {
						return ctrl.Result{}, err
					}
					if err := c.Get(ctx, ctrlclient.ObjectKeyFromObject(copied), copied); err != nil || copied.Data != nil {
						return ctrl.Result{}, err
					}
					copied.Data = source.Data
					return ctrl.Result{}, c.Update(ctx, copied)
				}))
		}, client.ReadYourWrites())
	}}
}

// checkDeterminism runs a scenario again and again, and compares the hashes.
func checkDeterminism(t *testing.T, registry *scenarios.Registry, load func() (*scenarios.Scenario, error)) {
	t.Helper()
	seeds := numberOfSeeds(t)
	first := hashes(t, registry, load, seeds, 1)
	for _, processors := range []int{1, 2, 2} {
		for i, hash := range hashes(t, registry, load, seeds, processors) {
			if hash != first[i] {
				t.Errorf("run %d under GOMAXPROCS %d has hash %016x, the first had %016x", i, processors, hash, first[i])
			}
		}
	}
	if distinct := len(unique(first)); distinct < seeds/2 {
		t.Errorf("%d runs have only %d different histories: the seeds do not matter", len(first), distinct)
	}
}

// hashes returns the hashes of the settling, the default order and the walks of a scenario.
func hashes(
	t *testing.T, registry *scenarios.Registry, load func() (*scenarios.Scenario, error), seeds, processors int,
) []uint64 {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
	scenario, err := load()
	if err != nil {
		t.Fatal(err)
	}
	var all []uint64
	entries := scenario.Entries()
	seeds = (seeds + len(entries) - 1) / len(entries)
	for _, entry := range entries {
		config, err := entry.Config(registry, nil)
		if err != nil {
			t.Fatal(err)
		}
		world, err := sim.NewWorld(config)
		if err != nil {
			t.Fatal(err)
		}
		if settled := world.Settled(); settled != nil {
			all = append(all, settled.Hash)
		}
		run := func(plan sim.Plan) *history.History {
			h, err := world.Run(plan)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, h.Hash)
			return h
		}
		base := run(sim.Plan{})
		for seed := range int64(seeds) {
			run(sim.Plan{Seed: seed, Strategy: explore.NewWalk(seed)})
		}
		for i, fault := range someFaults(config, base, seeds) {
			h := run(sim.Plan{Faults: []schedule.Fault{fault}})
			if len(h.Faults) != 1 || !h.Faults[0].Struck {
				t.Errorf("%s did not strike", fault)
			}
			seed := int64(i)
			run(sim.Plan{Seed: seed, Strategy: explore.NewWalk(seed), Faults: []schedule.Fault{fault}})
		}
	}
	return all
}

// someFaults returns so many of the faults that the sweep tries after a run, spread evenly over it.
func someFaults(config *sim.Config, base *history.History, n int) []schedule.Fault {
	_, all := explore.Candidates(base, config)
	n = min(n, len(all))
	some := make([]schedule.Fault, n)
	for i := range some {
		some[i] = all[i*len(all)/n]
	}
	return some
}

func unique(hashes []uint64) map[uint64]bool {
	set := map[uint64]bool{}
	for _, hash := range hashes {
		set[hash] = true
	}
	return set
}
