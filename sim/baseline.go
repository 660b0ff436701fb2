package sim

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/stalemate-dev/stalemate/sim/detect"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// baselines are where a scenario's runs without faults come to, by the steps of its script that are left out. They are made when
// they are needed first.
type baselines struct {
	mu     sync.Mutex
	bySkip map[string]*detect.Baseline
}

// baselineWalks is how many runs in random orders a baseline is made of, besides the one in the default order.
const baselineWalks = 4

// Baseline returns where runs without faults come to that leave out these steps of the script. It is nil if some of them come to
// no rest, or end with an error, which the runs that are judged by it will show as well.
func (w *World) Baseline(skip []int) *detect.Baseline {
	key := fmt.Sprint(skip)
	w.baselines.mu.Lock()
	defer w.baselines.mu.Unlock()
	b, made := w.baselines.bySkip[key]
	if made {
		return b
	}
	if w.baselines.bySkip == nil {
		w.baselines.bySkip = map[string]*detect.Baseline{}
	}
	b = w.makeBaseline(skip)
	w.baselines.bySkip[key] = b
	return b
}

func (w *World) makeBaseline(skip []int) *detect.Baseline {
	b := &detect.Baseline{}
	for n := range baselineWalks + 1 {
		plan := Plan{Skip: skip}
		if n > 0 {
			plan.Strategy = &wanderer{rand.New(rand.NewPCG(uint64(n), 0))}
		}
		h, err := (&run{world: w, plan: &plan, basic: true}).execute()
		if err != nil || h.Outcome != history.Terminal {
			return nil
		}
		b.Add(h)
	}
	return b
}

// wanderer takes the next step of the default order, or sometimes any other.
type wanderer struct{ random *rand.Rand }

// wanderOdds is that one in so many of its choices is free.
const wanderOdds = 4

// Choose implements Strategy.
func (w *wanderer) Choose(enabled []Choice) int {
	if w.random.IntN(wanderOdds) > 0 {
		return 0
	}
	return w.random.IntN(len(enabled))
}

// Delay implements Strategy.
func (w *wanderer) Delay(schedule.Event) time.Duration { return 0 }

// Permute implements Strategy.
func (w *wanderer) Permute(_ schedule.Event, n int) []int { return w.random.Perm(n) }
