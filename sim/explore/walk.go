package explore

import (
	"time"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// NewWalk returns a strategy that chooses at random, by a seed: it serves one run.
func NewWalk(seed int64) sim.Strategy {
	return &randomWalk{streams: newStreams(seed, "walk"), choose: NewStream(seed, "walk/choose")}
}

// randomWalk takes each choice uniformly, but for the share of steps that keep caches fresh or go on with the thread that
// runs: without it, long stretches of one actor, which most bugs need, would be exponentially rare.
type randomWalk struct {
	streams
	choose *Stream
}

// The odds of a random walk.
const (
	freeOdds  = 3  // one in so many choices is free; the others take what the default order would
	writeOdds = 8  // one in so many writes is late
	readOdds  = 40 // one in so many reads is late
)

// Choose implements sim.Strategy.
func (w *randomWalk) Choose(enabled []sim.Choice) int {
	if w.choose.Below(freeOdds) != 0 {
		return 0
	}
	return w.choose.Below(len(enabled))
}

// Delay implements sim.Strategy.
func (w *randomWalk) Delay(event schedule.Event) time.Duration {
	stream := w.of("delay", event)
	odds := readOdds
	if event.Verb.IsWrite() {
		odds = writeOdds
	}
	if stream.Below(odds) != 0 {
		return 0
	}
	return stream.delay()
}

// Permute implements sim.Strategy.
func (w *randomWalk) Permute(event schedule.Event, n int) []int {
	return w.of("permute", event).permutation(n)
}
