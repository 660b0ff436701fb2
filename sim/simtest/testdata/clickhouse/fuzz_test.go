package clickhouse_test

import (
	"testing"

	"github.com/stalemate-dev/stalemate/sim/simtest"
)

func FuzzRecreate(f *testing.F) {
	simtest.Fuzz(f, simtest.Scenario(recreate), reconcilers())
}
