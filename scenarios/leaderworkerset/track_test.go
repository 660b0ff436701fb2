package leaderworkerset

import (
	"testing"

	"github.com/stalemate-dev/stalemate/scenarios/track"
)

// TestTrack explores every row of the track record.
func TestTrack(t *testing.T) {
	for _, row := range Track() {
		t.Run(row.Name(), func(t *testing.T) {
			outcome, err := row.Explore(t.Context(), Register, track.Options{})
			if err == nil {
				err = row.Check(outcome)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}
