package reference_test

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/reference"
	"github.com/stalemate-dev/stalemate/scenarios/track"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/simtest/simtrack"
)

// quietRuns is how many runs by seed there are over all correct reconcilers together, unless SIM_RUNS says otherwise. The track
// record rests on 100000.
const quietRuns = 400

// chunk is how many of the runs of one scenario follow each other in one world.
const chunk = 100

// quiet is a part of the runs that are to raise nothing: one reconciler in one entry of one scenario's matrix.
type quiet struct {
	row   track.Row
	entry *scenarios.Scenario
	// first and last are the seeds.
	first, last int64
}

// TestQuiet runs every correct reconciler by seed, in the scenarios that it is said to be correct in: with the orders and faults that
// an exploration draws for that seed. Nothing may be raised: no property broken, no panic, and each run comes to rest. SIM_RUNS is
// the number of runs, over all reconcilers.
func TestQuiet(t *testing.T) {
	registry := &scenarios.Registry{}
	reference.Register(registry)
	parts := parts(t, registry, numberOfRuns(t))
	var executed, faulty atomic.Int64
	var workers sync.WaitGroup
	var raisers sync.Map // the entries that raised something
	next := make(chan quiet)
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for part := range next {
				if _, failed := raisers.Load(part.entry); failed {
					continue // one failure of it says enough
				}
				if !part.run(t, registry, &executed, &faulty) {
					raisers.Store(part.entry, true)
				}
			}
		})
	}
	for _, part := range parts {
		next <- part
	}
	close(next)
	workers.Wait()
	t.Logf("%d runs, %d of them with faults", executed.Load(), faulty.Load())
	if faulty.Load() == 0 && !t.Failed() {
		t.Error("no fault ever struck")
	}
}

func numberOfRuns(t *testing.T) int {
	t.Helper()
	text := os.Getenv("SIM_RUNS")
	if text == "" {
		return quietRuns
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("SIM_RUNS is %q, want a positive number", text)
	}
	return n
}

// parts shares a number of runs out evenly, every scenario having one at least.
func parts(t *testing.T, registry *scenarios.Registry, runs int) []quiet {
	t.Helper()
	var whole []quiet
	for _, folder := range reference.Folders() {
		for _, row := range folder.Track() {
			if len(row.Breaks) > 0 {
				continue
			}
			file := filepath.Join("..", folder.Name, row.Scenario)
			scenario, err := scenarios.Load(file, scenarios.Options{Registry: registry})
			if err != nil {
				t.Fatal(err)
			}
			for _, entry := range scenario.Entries() {
				whole = append(whole, quiet{row: row, entry: entry})
			}
		}
	}
	var all []quiet
	share := int64((runs + len(whole) - 1) / len(whole))
	for first := int64(1); first <= share; first += chunk {
		for _, part := range whole {
			part.first, part.last = first, min(first+chunk-1, share)
			all = append(all, part)
		}
	}
	return all
}

// run executes the runs of a part, up to the first that raises something. It reports whether none did.
func (q *quiet) run(t *testing.T, registry *scenarios.Registry, executed, faulty *atomic.Int64) bool {
	t.Helper()
	config, err := q.entry.Config(registry, q.row.Reconcilers())
	if err != nil {
		t.Error(err)
		return false
	}
	world, err := sim.NewWorld(config)
	if err != nil {
		t.Errorf("%s: %v", q.row.Name(), err)
		return false
	}
	survey, err := explore.NewSurvey(world)
	if err != nil {
		t.Errorf("%s: %v", q.row.Name(), err)
		return false
	}
	for seed := q.first; seed <= q.last; seed++ {
		name, strategy := survey.Strategy(seed)
		h, err := world.Run(sim.Plan{Seed: seed, Strategy: strategy})
		if err != nil {
			t.Errorf("%s, seed %d: %v", q.row.Name(), seed, err)
			return false
		}
		executed.Add(1)
		if len(h.Faults) > 0 {
			faulty.Add(1)
		}
		if raised := raised(h); raised != "" {
			t.Errorf("%s: seed %d, %s: %s\n    %s", q.row.Name(), seed, name, raised,
				simtrack.Command(&q.row, q.entry, "--seed", fmt.Sprint(seed), "--runs 1"))
			return false
		}
	}
	return true
}

// raised says what a run raised; empty if nothing.
func raised(h *history.History) string {
	if broken := track.Broken(h); len(broken) > 0 {
		return strings.Join(broken, ", ")
	}
	if h.Outcome != history.Terminal {
		return fmt.Sprintf("%s: %s", h.Outcome, h.Reason)
	}
	return ""
}
