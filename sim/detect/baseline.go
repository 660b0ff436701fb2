package detect

import (
	"slices"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/canon"
	"github.com/stalemate-dev/stalemate/sim/history"
)

// Baseline is where runs without faults come to.
type Baseline struct {
	// States are the terminal states of the runs, masked, in the order in which they were first seen. A scenario that has more
	// than one has none of its own: what differs from them says nothing.
	States []*history.State
}

// Own returns the terminal state of the scenario's own; nil if there are several, or none.
func (b *Baseline) Own() *history.State {
	if b == nil || len(b.States) != 1 {
		return nil
	}
	return b.States[0]
}

// Add adds the terminal state of a run.
func (b *Baseline) Add(s *history.State) {
	if !slices.ContainsFunc(b.States, func(known *history.State) bool { return known.Hash == s.Hash }) {
		b.States = append(b.States, s)
	}
}

// StateOf returns the masked state of a server.
func StateOf(server *apiserver.Server) *history.State {
	s := &history.State{Objects: map[string]uint64{}}
	var whole canon.Hasher
	for _, kind := range server.Kinds().All() {
		if kind.Volatile {
			continue
		}
		for _, obj := range server.List(kind, "") {
			name := kind.Name() + " " + obj.GetNamespace() + "/" + obj.GetName()
			hash := canon.Hash(mask(obj))
			s.Objects[name] = hash
			whole.String(name)
			whole.Int(int64(hash))
		}
	}
	s.Hash = whole.Sum()
	return s
}

// mask returns an object without what may differ from run to run. Revisions, times and managedFields the hash leaves out itself.
func mask(obj apiserver.Object) apiserver.Object { return obj }
