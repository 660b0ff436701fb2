package clickhouse_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/stalemate-dev/stalemate/sim/simtest"
	"github.com/stalemate-dev/stalemate/sim/simtest/simrapid"
)

func TestRecreateRapid(t *testing.T) {
	world := simtest.NewWorld(t, simtest.Scenario(recreate), reconcilers())
	rapid.Check(t, simrapid.Property(world))
}
