package scenarios_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/clickhouse"
	"github.com/stalemate-dev/stalemate/sim"
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

// TestDeterminism runs every shipped scenario in the default order, by random walks, and with each of some faults, in the
// default order and in a walk; twice under each of GOMAXPROCS 1 and 2, each time from a world of its own. It compares the
// hashes of the histories. SIM_RUNS sets the number of seeds, and of faults.
func TestDeterminism(t *testing.T) {
	seeds := 15
	if text := os.Getenv("SIM_RUNS"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			t.Fatalf("SIM_RUNS is %q, want a positive number", text)
		}
		seeds = n
	}
	registry := &scenarios.Registry{}
	clickhouse.Register(registry)
	for _, file := range shipped(t) {
		t.Run(file, func(t *testing.T) {
			first := hashes(t, registry, file, seeds, 1)
			for _, processors := range []int{1, 2, 2} {
				for i, hash := range hashes(t, registry, file, seeds, processors) {
					if hash != first[i] {
						t.Errorf("run %d under GOMAXPROCS %d has hash %016x, the first had %016x", i, processors, hash, first[i])
					}
				}
			}
			if distinct := len(unique(first)); distinct < seeds/2 {
				t.Errorf("%d runs have only %d different histories: the seeds do not matter", len(first), distinct)
			}
		})
	}
}

// hashes returns the hashes of the settling, the default order and the walks of a scenario.
func hashes(t *testing.T, registry *scenarios.Registry, file string, seeds, processors int) []uint64 {
	t.Helper()
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(processors))
	scenario, err := scenarios.Load(file, scenarios.Options{Registry: registry})
	if err != nil {
		t.Fatal(err)
	}
	var all []uint64
	for _, entry := range scenario.Entries() {
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
