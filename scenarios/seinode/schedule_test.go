package seinode

import (
	"testing"

	"github.com/stalemate-dev/stalemate/sim/simtest/simtrack"
)

// TestSchedules replays what was found in v348: each breaks what it is to break, by what it names.
func TestSchedules(t *testing.T) { simtrack.Schedules(t, Register, nil) }
