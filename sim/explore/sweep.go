package explore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// sweep executes every feasible reorder of two conflicting steps of the default run, one at a time.
func (x *explorer) sweep(ctx context.Context) error {
	bound := x.world.Config().Limits.HoldBound()
	account := x.begin(Sweep, fmt.Sprintf("every feasible reorder of two conflicting steps of the default run, one at a time, "+
		"at constant latency; a step is held for at most %s", bound))
	candidates := reorders(x.result.Default, bound)
	account.Candidates = len(candidates)
	planned, vain := len(candidates), vainHolds{}
	for _, c := range candidates {
		if err := ctx.Err(); err != nil {
			return err
		}
		if x.spent() {
			return nil
		}
		if vain.has(c.Constraint) {
			account.Unmatched++
			planned--
			continue
		}
		plan := sim.Plan{Seed: x.options.Seed, Constraints: []schedule.Constraint{c.Constraint}}
		h, err := x.execute(ctx, plan, planned)
		if err != nil {
			return err
		}
		if h == nil {
			continue
		}
		// Until the step comes up that is held, the run is the default run.
		same := c.first
		if !h.Constraints[0].Held {
			same++
		}
		if err := divergence(x.result.Default, h, same); err != nil {
			return err
		}
		if !h.Constraints[0].Matched {
			account.Unmatched++
			vain.add(c.Constraint, h)
		}
		x.reveal(plan, "", h)
	}
	account.Complete = true
	return nil
}

// vainHolds keeps, for each step that was held in vain, the steps that came before it all the same. To hold it for any
// other one gives the very same run, which need not be executed again.
type vainHolds map[schedule.Event]map[schedule.Event]bool

// add takes note of a run in which a constraint was not matched.
func (v vainHolds) add(c schedule.Constraint, h *history.History) {
	before := map[schedule.Event]bool{}
	for i := range h.Records {
		if h.Records[i].Event == c.Event {
			break
		}
		before[h.Records[i].Event] = true
	}
	if !before[c.Waits] {
		v[c.Event] = before
	}
}

// has reports whether the constraint is known to be unmatched.
func (v vainHolds) has(c schedule.Constraint) bool {
	before, ok := v[c.Event]
	return ok && !before[c.Waits]
}

// candidate is a constraint that turns round a pair of conflicting steps of a run. The first of them is the one held, here
// by its record.
type candidate struct {
	schedule.Constraint
	first, weight int
}

// The weights of candidates: those that are usually the most decisive are executed first.
const (
	lockLost      = iota // a process's write with an optimistic lock waits for another write: it will be refused
	lockLostLate         // the same, where the default run had the other write follow from it
	lockLostRacer        // a racer's write with an optimistic lock, in the same way
	plainReorder
	lateReorder
)

// reorders returns the constraints that turn round one pair of conflicting steps of a run. The later step must come within
// the bound on holds: until then the earlier one is held.
//
// A pair whose steps follow from each other cannot be turned round, with one exception. What an event waits for is a name,
// "kcm Update StatefulSet/status default/web #2", and if the operator is slow to make its call, another cause may bring the
// event of that name about: time that passes, as when a pod is gone at last. So for each request of an operator the next
// write of each name is tried, whatever it followed from in the default run; if it does not come, the order is unmatched.
func reorders(h *history.History, bound time.Duration) []candidate {
	var candidates []candidate
	before := happensBefore(h)
	for i := h.ScriptBegins; i < len(h.Records); i++ {
		first := &h.Records[i]
		tried := map[schedule.Event]bool{}
		for j := i + 1; j < len(h.Records); j++ {
			second := &h.Records[j]
			if first.Thread == second.Thread || !history.Conflict(first, second) {
				continue
			}
			name := second.Event.Base()
			next := first.OfProcess() && first.Event.Verb.IsRequest() && second.Committed != 0 && !tried[name]
			tried[name] = true
			follows := before.has(i, j)
			if follows && !next || !follows && second.At-first.At > bound {
				continue
			}
			candidates = append(candidates, candidate{
				Constraint: schedule.Constraint{Event: first.Event, Waits: second.Event},
				first:      i, weight: weigh(first, second, follows),
			})
		}
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return a.weight - b.weight })
	return candidates
}

func weigh(first, second *history.Record, follows bool) int {
	locked := first.Event.Verb.IsWrite() && first.Carried != 0 && second.Committed != 0
	switch {
	case locked && !first.OfProcess():
		return lockLostRacer
	case locked && !follows:
		return lockLost
	case locked:
		return lockLostLate
	case !follows:
		return plainReorder
	default:
		return lateReorder
	}
}

// order is the happens-before relation of a run.
type order struct {
	words int
	sets  []uint64
}

// happensBefore computes which steps follow from which: those of one thread in their order, and each from what made it
// possible.
func happensBefore(h *history.History) *order {
	n := len(h.Records)
	o := &order{words: (n + 63) / 64}
	o.sets = make([]uint64, n*o.words)
	latest := map[int]int{}
	for j := range h.Records {
		r := &h.Records[j]
		if i, ok := latest[r.Thread]; ok {
			o.include(i, j)
		}
		if r.Cause >= 0 && r.Cause != j {
			o.include(r.Cause, j)
		}
		latest[r.Thread] = j
	}
	return o
}

// include adds to what is before j the step i, and all that is before i.
func (o *order) include(i, j int) {
	for w := range o.words {
		o.sets[j*o.words+w] |= o.sets[i*o.words+w]
	}
	o.sets[j*o.words+i/64] |= 1 << (i % 64)
}

// has reports whether step i happens before step j.
func (o *order) has(i, j int) bool { return o.sets[j*o.words+i/64]&(1<<(i%64)) != 0 }
