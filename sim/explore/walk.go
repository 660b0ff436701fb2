package explore

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// walk executes random walks until the budget ends.
func (x *explorer) walk(ctx context.Context) error {
	runs := x.options.Runs
	switch {
	case x.options.For > 0:
		runs = math.MaxInt
	case runs == 0:
		runs = DefaultRuns
	}
	if runs < 0 {
		return nil
	}
	account := x.begin(RandomWalk, fmt.Sprintf("one run for each seed from %d on: every choice among enabled steps uniform, "+
		"some calls late, initial lists in random order", x.options.Seed))
	planned := runs
	if x.options.For > 0 {
		planned = 0
	}
	for n := range runs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if x.options.For > 0 && x.now().Sub(x.begun) >= x.options.For {
			break
		}
		seed := x.options.Seed + int64(n)
		if _, err := x.execute(sim.Plan{Seed: seed, Strategy: NewWalk(seed)}, planned); err != nil {
			return err
		}
	}
	account.Complete = true
	return nil
}

// NewWalk returns a strategy that chooses at random, by a seed: it serves one run.
func NewWalk(seed int64) sim.Strategy {
	return &randomWalk{
		seed:   seed,
		choose: NewStream(seed, "walk/choose"),
		delays: map[schedule.Event]*Stream{},
	}
}

// randomWalk takes each choice uniformly, but for the share of steps that keep caches fresh or go on with the thread that
// runs: without it, long stretches of one actor, which most bugs need, would be exponentially rare.
type randomWalk struct {
	seed   int64
	choose *Stream
	delays map[schedule.Event]*Stream
}

// The odds of a random walk.
const (
	stayOdds  = 3  // one in so many choices is free; the others take what the default order would
	delayOdds = 24 // one in so many requests is late
)

// maxDelay bounds how late a request of a random walk is: more than the operators' usual poll intervals.
const maxDelay = 40 * time.Second

// Choose implements sim.Strategy.
func (w *randomWalk) Choose(enabled []sim.Choice) int {
	if w.choose.Below(stayOdds) != 0 {
		return 0
	}
	return w.choose.Below(len(enabled))
}

// Delay implements sim.Strategy. Every name has a stream of its own, so that a call more or less does not shift what
// happens to the others.
func (w *randomWalk) Delay(event schedule.Event) time.Duration {
	stream := w.delays[event]
	if stream == nil {
		stream = NewStream(w.seed, "walk/delay/"+event.String())
		w.delays[event] = stream
	}
	if stream.Below(delayOdds) != 0 {
		return 0
	}
	// Short delays and long ones alike: the exponent is uniform.
	longest := time.Millisecond << stream.Below(16)
	return min(longest, maxDelay)
}

// Permute implements sim.Strategy.
func (w *randomWalk) Permute(event schedule.Event, n int) []int {
	stream := NewStream(w.seed, "walk/permute/"+event.String())
	order := make([]int, n)
	for i := range order {
		j := stream.Below(i + 1)
		order[i] = order[j]
		order[j] = i
	}
	return order
}
