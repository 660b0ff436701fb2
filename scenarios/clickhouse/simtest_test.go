package clickhouse_test

import (
	"testing"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/clickhouse"
	"github.com/stalemate-dev/stalemate/sim/simtest"
)

// TestRecreate explores the recreate path with each variant of the operator. `-sim.seed=N -v -sim.v` prints the hash
// that `stalemate run scenarios/clickhouse/recreate.yaml --seed N` comes to, too.
func TestRecreate(t *testing.T) {
	registry := &scenarios.Registry{}
	clickhouse.Register(registry)
	t.Run("buggy", func(t *testing.T) {
		found := simtest.Explore(t, simtest.Scenario("recreate.yaml"), simtest.Registry(registry))
		if !found.Failed() {
			t.Errorf("the bug was not found:\n%s", found.Report())
		}
	})
	for _, fixed := range []string{"patch-a", "patch-ab", "v0.27.1"} {
		t.Run(fixed, func(t *testing.T) {
			simtest.Run(t, simtest.Scenario("recreate.yaml"), simtest.Registry(registry),
				simtest.Replace("operator", "clickhouse/"+fixed))
		})
	}
}
