package clickhouse_test

import (
	"fmt"
	"testing"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/clickhouse"
	"github.com/stalemate-dev/stalemate/sim/simtest"
)

const recreate = "../../../../scenarios/clickhouse/recreate.yaml"

// reconcilers are those that the scenario may name: "clickhouse/buggy" and its fixes.
func reconcilers() simtest.Option {
	registry := &scenarios.Registry{}
	clickhouse.Register(registry)
	return simtest.Registry(registry)
}

func TestRecreateTable(t *testing.T) {
	for _, seed := range []int64{1, 2, 3} {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			simtest.Run(t, simtest.Scenario(recreate), reconcilers(), simtest.Seed(seed))
		})
	}
}
