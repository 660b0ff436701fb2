package example

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/stalemate-dev/stalemate/sim/simtest/simtrack"
)

// TestMain checks that no goroutine of a run outlives it.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTrack explores every scenario of the tutorial.
func TestTrack(t *testing.T) { simtrack.Test(t, Track(), Register) }
