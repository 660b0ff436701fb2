package detect

import (
	"regexp"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/canon"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Baseline is where runs without faults come to.
type Baseline struct {
	// States are the terminal states of the runs, masked, in the order in which they were first seen. A scenario that has more
	// than one has none of its own: what differs from them says nothing.
	States []*history.State
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
func (b *Baseline) Own() *history.State {
	if b == nil || len(b.States) != 1 {
		return nil
	}
	return b.States[0]
}

// Add adds a run that has come to its terminal state.
func (b *Baseline) Add(h *history.History) {
	if !slices.ContainsFunc(b.States, func(known *history.State) bool { return known.Hash == h.State.Hash }) {
		b.States = append(b.States, h.State)
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

// Masks remembers the hashes of masked objects, which are immutable. It may be used by several goroutines at once.
type Masks struct{ hashes sync.Map }

// StateOf returns the state of a server, masked: see docs/detectors.md for what is left out.
func (m *Masks) StateOf(server *apiserver.Server) *history.State {
	s := &history.State{Objects: map[string]uint64{}}
	var whole canon.Hasher
	for _, kind := range server.Kinds().All() {
		if kind.Volatile || kind.Kind == "ControllerRevision" { // which of them are kept depends on who saw what when
			continue
		}
		for _, obj := range server.List(kind, "") {
			name := kind.Name() + " " + keyOf(obj)
			hash := m.hash(obj)
			s.Objects[name] = hash
			whole.String(name)
			whole.Int(int64(hash))
		}
	}
	s.Hash = whole.Sum()
	return s
}

func (m *Masks) hash(obj apiserver.Object) uint64 {
	if hash, known := m.hashes.Load(obj); known {
		return hash.(uint64)
	}
	hash := canon.Hash(masked(obj))
	m.hashes.Store(obj, hash)
	return hash
}

var uidPattern = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// masked returns an object without what may differ between runs that mean the same.
func masked(obj apiserver.Object) *unstructured.Unstructured {
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj.DeepCopyObject())
	if err != nil {
		return &unstructured.Unstructured{Object: map[string]any{}}
	}
	mask(tree)
	return &unstructured.Unstructured{Object: tree}
}

// mask takes out of a tree, in place, the fields that count or date changes, and blanks UIDs.
func mask(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name, field := range v {
			if isCount(name) {
				delete(v, name)
			} else {
				v[name] = mask(field)
			}
		}
	case []any:
		for i := range v {
			v[i] = mask(v[i])
		}
	case string:
		return uidPattern.ReplaceAllString(v, "uid")
	}
	return value
}
