package detect

import (
	"maps"
	"slices"

	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Baseline is where runs without faults come to.
type Baseline struct {
	// States are the terminal states of the runs, in the order in which they were first seen. A scenario that has more than one
	// has none of its own: what differs from them says nothing.
	States []*State
	// refused are the writes of operators that failed in one of the runs: who meets the same failure handles it.
	refused map[refusal]bool
}

// refusal is a write that failed, without its occurrence, and how.
type refusal struct {
	event schedule.Event
	code  int
}

func refusalOf(r *history.Record) refusal {
	event := r.Event.Base()
	event.Incarnation = 0
	return refusal{event, r.Code}
}

// Own returns the terminal state of the scenario's own; nil if there are several, or none.
func (b *Baseline) Own() *State {
	if b == nil || len(b.States) != 1 {
		return nil
	}
	return b.States[0]
}

// Add adds a run that has come to a terminal state.
func (b *Baseline) Add(h *history.History, end *State) {
	if !slices.ContainsFunc(b.States, func(known *State) bool { return known.Hash == end.Hash }) {
		b.States = append(b.States, end)
	}
	if b.refused == nil {
		b.refused = map[refusal]bool{}
	}
	for i := range h.Records {
		if r := &h.Records[i]; failed(r) {
			b.refused[refusalOf(r)] = true
		}
	}
}

// Differing returns the objects in which the terminal states are not all the same, by "Kind namespace/name", sorted.
func (b *Baseline) Differing() []string {
	differing := map[string]string{}
	for _, state := range b.States[min(1, len(b.States)):] {
		maps.Copy(differing, difference(b.States[0], state))
	}
	return sortedKeys(differing)
}
