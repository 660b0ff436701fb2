package leaderworkerset

import (
	"testing"

	"github.com/stalemate-dev/stalemate/sim/simtest/simtrack"
)

// TestSchedules replays what was found in the fixed version: each schedule still breaks the property that it names.
func TestSchedules(t *testing.T) { simtrack.Schedules(t, Register, nil) }
