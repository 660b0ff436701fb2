package explore

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
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
	account := x.begin(RandomWalk, fmt.Sprintf("one run for each seed from %d on: one in %d choices among enabled steps uniform, "+
		"some calls late, lists without an order of their own in random order", x.options.Seed, freeOdds))
	planned := runs
	if x.options.For > 0 {
		planned = 0
	}
	for n := range runs {
		if err := ctx.Err(); err != nil {
			return err
		}
		if x.spent() {
			break
		}
		seed := x.options.Seed + int64(n)
		h, err := x.execute(sim.Plan{Seed: seed, Strategy: NewWalk(seed)}, planned)
		if err == nil && n == 0 {
			err = x.recheck(seed, h)
		}
		if err != nil {
			return err
		}
	}
	account.Complete = true
	return nil
}

// recheck executes a walk again, and compares: what races only under preemption does not show in the default order. The
// execution is not counted, as it adds nothing else.
func (x *explorer) recheck(seed int64, first *history.History) error {
	again, err := x.world.Run(sim.Plan{Seed: seed, Strategy: NewWalk(seed)})
	if err != nil {
		return err
	}
	return compare(first, again)
}

// NewWalk returns a strategy that chooses at random, by a seed: it serves one run.
func NewWalk(seed int64) sim.Strategy {
	return &randomWalk{
		seed:   seed,
		choose: NewStream(seed, "walk/choose"),
		named:  map[string]*Stream{},
	}
}

// randomWalk takes each choice uniformly, but for the share of steps that keep caches fresh or go on with the thread that
// runs: without it, long stretches of one actor, which most bugs need, would be exponentially rare.
type randomWalk struct {
	seed   int64
	choose *Stream
	named  map[string]*Stream // by purpose and event
}

// The odds of a random walk.
const (
	freeOdds  = 3  // one in so many choices is free; the others take what the default order would
	writeOdds = 8  // one in so many writes is late
	readOdds  = 40 // one in so many reads is late
)

// delays is the number of lengths a delay may have: a millisecond doubled up to so many times, about a minute, which is
// more than the usual intervals of polls and grace periods.
const delays = 17

// Choose implements sim.Strategy.
func (w *randomWalk) Choose(enabled []sim.Choice) int {
	if w.choose.Below(freeOdds) != 0 {
		return 0
	}
	return w.choose.Below(len(enabled))
}

// stream returns the stream of a purpose and event: every name has its own, so that a call more or less does not shift what
// happens to the others.
func (w *randomWalk) stream(purpose string, event schedule.Event) *Stream {
	name := purpose + "/" + event.String()
	stream := w.named[name]
	if stream == nil {
		stream = NewStream(w.seed, "walk/"+name)
		w.named[name] = stream
	}
	return stream
}

// Delay implements sim.Strategy.
func (w *randomWalk) Delay(event schedule.Event) time.Duration {
	stream := w.stream("delay", event)
	odds := readOdds
	if event.Verb.IsWrite() {
		odds = writeOdds
	}
	if stream.Below(odds) != 0 {
		return 0
	}
	return time.Millisecond << stream.Below(delays)
}

// Permute implements sim.Strategy.
func (w *randomWalk) Permute(event schedule.Event, n int) []int {
	stream := w.stream("permute", event)
	order := make([]int, n)
	for i := range order {
		j := stream.Below(i + 1)
		order[i] = order[j]
		order[j] = i
	}
	return order
}
