package explore

import (
	"time"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Reorders returns the constraints that the sweep tries on a run, for tests of what becomes of them.
func Reorders(h *history.History, bound time.Duration) []schedule.Constraint {
	var constraints []schedule.Constraint
	for _, c := range reorders(h, bound) {
		constraints = append(constraints, c.Constraint)
	}
	return constraints
}
