package sim

import (
	"fmt"
	"sync"
	"time"

	"github.com/stalemate-dev/stalemate/sim/canon"
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
			plan.Strategy = &wanderer{walk: int64(n)}
		}
		r := &run{world: w, plan: &plan, basic: true}
		h, err := r.execute()
		if err != nil || h.Outcome != history.Terminal { // what is judged by it will show that as well
			return nil
		}
		b.Add(h, r.engine.final)
	}
	return b
}

// wanderer takes the next step of the default order, or sometimes any other.
type wanderer struct{ walk, drawn int64 }

// wanderOdds is that one in so many of its choices is free.
const wanderOdds = 4

// draw returns a number below n.
func (w *wanderer) draw(n int) int {
	w.drawn++
	var h canon.Hasher
	h.String("baseline")
	h.Int(w.walk)
	h.Int(w.drawn)
	return int(h.Sum() % uint64(n))
}

// Choose implements Strategy.
func (w *wanderer) Choose(enabled []Choice) int {
	if w.draw(wanderOdds) > 0 {
		return 0
	}
	return w.draw(len(enabled))
}

// Delay implements Strategy.
func (w *wanderer) Delay(schedule.Event) time.Duration { return 0 }

// Permute implements Strategy.
func (w *wanderer) Permute(_ schedule.Event, n int) []int {
	order := make([]int, n)
	for i := range order {
		j := w.draw(i + 1)
		order[i], order[j] = order[j], i
	}
	return order
}
