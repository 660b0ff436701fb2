package clickhouse_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stalemate-dev/stalemate/cmd"
	"github.com/stalemate-dev/stalemate/reports"
	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/clickhouse"
	"github.com/stalemate-dev/stalemate/sim/simtest"
)

func reconcilers() *scenarios.Registry {
	registry := &scenarios.Registry{}
	clickhouse.Register(registry)
	return registry
}

// TestRecreate explores the recreate path with each variant of the operator. `-sim.seed=N -v -sim.v` prints the hash
// that `stalemate run scenarios/clickhouse/recreate.yaml --seed N` comes to, too.
func TestRecreate(t *testing.T) {
	t.Run("buggy", func(t *testing.T) {
		found := simtest.Explore(t, simtest.Scenario("recreate.yaml"), simtest.Registry(reconcilers()))
		if found.Verdict() != reports.Broken {
			t.Errorf("the bug was not found:\n%s", found.Report())
		}
	})
	for _, fixed := range []string{"patch-a", "patch-ab", "v0.27.1"} {
		t.Run(fixed, func(t *testing.T) {
			simtest.Run(t, simtest.Scenario("recreate.yaml"), simtest.Registry(reconcilers()),
				simtest.Replace("operator", "clickhouse/"+fixed))
		})
	}
}

// TestRecreateAgreesWithTheCommand checks that a test and the command come to the same, execution by execution.
func TestRecreateAgreesWithTheCommand(t *testing.T) {
	registry := reconcilers()
	for _, variant := range []string{"clickhouse/buggy", "clickhouse/v0.27.1"} {
		explored := simtest.Explore(t, simtest.Scenario("recreate.yaml"), simtest.Registry(registry),
			simtest.Replace("operator", variant), simtest.Seed(7), simtest.Runs(10))
		var stdout, stderr bytes.Buffer
		words := []string{"stalemate", "run", "recreate.yaml", "--reconciler", "operator=" + variant,
			"--seed", fmt.Sprint(explored.Seed), "--runs", "10"}
		cmd.Main(words, &stdout, &stderr, registry)
		if hash := fmt.Sprintf("history hash %016x", explored.Hash); !bytes.Contains(stdout.Bytes(), []byte(hash)) {
			t.Errorf("the command does not print %q:\n%s%s", hash, stdout.String(), stderr.String())
		}
	}
}
