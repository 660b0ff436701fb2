package detect

import (
	"slices"

	"github.com/stalemate-dev/stalemate/sim/property"
)

// Type names a detector.
type Type string

// The detectors.
const (
	Livelock         Type = "Livelock"
	HotLoop          Type = "HotLoop"
	WriteChurn       Type = "WriteChurn"
	CompetingWriters Type = "CompetingWriters"
	ForeignStatus    Type = "ForeignStatus"
	DyingParent      Type = "DyingParent"
	SelfDelete       Type = "SelfDelete"
	MistakenDelete   Type = "MistakenDelete"
	Divergence       Type = "Divergence"
	Orphans          Type = "Orphans"
	SwallowedError   Type = "SwallowedError"
)

// detector is a row of the table of detectors.
type detector struct {
	name Type
	// doc says in one line what it finds; message what that means for who reads a report.
	doc, message string
	// optIn says that it is off unless a scenario asks for it.
	optIn bool
	// compares says that it compares a run with the baseline.
	compares bool
	// find returns what it found first, nil for nothing. Exercised is how often there was something to judge.
	find func(r *Run) (found *Found, exercised int)
}

// detectors are all there are, in the order of their verdicts.
var detectors = []detector{
	{
		name: Livelock, find: findLivelock,
		doc:     "the run never comes to rest: states of the cluster repeat, or writes go on without end",
		message: "the operator does not come to rest",
	},
	{
		name: HotLoop, find: findHotLoop,
		doc:     "a key is reconciled again and again without a pause, while nobody else changes anything",
		message: "the operator reconciles without a pause",
	},
	{
		name: WriteChurn, find: findWriteChurn,
		doc:     "an operator keeps writing to an object that nobody else changes, and nothing new comes of it",
		message: "the operator keeps writing what is there already",
	},
	{
		name: CompetingWriters, find: findCompetingWriters,
		doc:     "an operator and somebody else undo each other's changes of an object",
		message: "two writers undo each other's changes",
	},
	{
		name: ForeignStatus, find: findForeignStatus,
		doc:     "an operator writes the status of an object that a controller of Kubernetes owns",
		message: "a status was written by one who does not own it",
	},
	{
		name: DyingParent, find: findDyingParent,
		doc:     "an operator makes an object for an owner that is terminating, or out of one that an owner's predecessor left",
		message: "an object was made from one that is on its way out",
	},
	{
		name: SelfDelete, find: findSelfDelete,
		doc:     "an operator deletes what it has just made, though nobody asks for anything else",
		message: "the operator deleted what it had just made",
	},
	{
		name: MistakenDelete, find: findMistakenDelete,
		doc:     "an operator deletes by its name an object that has another UID than the one it looked at",
		message: "another object was deleted than the one that was looked at",
	},
	{
		name: Orphans, find: findOrphans,
		doc:     "what an operator made for a custom resource is still there when that is gone and nothing moves any more",
		message: "what was made for a custom resource outlives it",
	},
	{
		name: SwallowedError, find: findSwallowedError, compares: true,
		doc:     "a write fails, the operator keeps it to itself, and the cluster comes to another end than without faults",
		message: "an error was swallowed, and that changed the outcome",
	},
	{
		name: Divergence, find: findDivergence, compares: true, optIn: true,
		doc:     "with faults the cluster comes to another end than without, though they stopped",
		message: "faults that are long over changed the outcome",
	},
}

// Types returns all detectors, in the order of their verdicts.
func Types() []Type {
	types := make([]Type, len(detectors))
	for i := range detectors {
		types[i] = detectors[i].name
	}
	return types
}

// Doc says in one line what a detector finds.
func Doc(t Type) string { return rowOf(t).doc }

// OptIn reports whether a detector is off unless a scenario asks for it.
func OptIn(t Type) bool { return rowOf(t).optIn }

func rowOf(t Type) *detector {
	return &detectors[slices.IndexFunc(detectors, func(d detector) bool { return d.name == t })]
}

// Set is a choice of detectors. It is read only: runs share it. A nil Set has none.
type Set struct {
	on          []*detector
	definitions []property.Definition
}

// NewSet returns the detectors that are on unless said otherwise, but for those that the map says.
func NewSet(switches map[Type]bool) *Set {
	s := &Set{}
	for i := range detectors {
		d := &detectors[i]
		on, said := switches[d.name]
		if on || !said && !d.optIn {
			s.on = append(s.on, d)
			s.definitions = append(s.definitions, property.Definition{
				Name: string(d.name), Type: property.Detector, Rule: d.doc, Message: d.message,
			})
		}
	}
	return s
}

// With returns the set with one detector switched on or off.
func (s *Set) With(t Type, on bool) *Set {
	switches := map[Type]bool{}
	for i := range detectors {
		switches[detectors[i].name] = s != nil && slices.Contains(s.on, &detectors[i])
	}
	switches[t] = on
	return NewSet(switches)
}

// Definitions returns what the verdicts are of, in their order.
func (s *Set) Definitions() []property.Definition {
	if s == nil {
		return nil
	}
	return slices.Clone(s.definitions)
}

// NeedsBaseline reports whether a detector of the set compares runs with a baseline.
func (s *Set) NeedsBaseline() bool {
	return s != nil && slices.ContainsFunc(s.on, func(d *detector) bool { return d.compares })
}

// Judge returns the verdicts on a run, one for each detector of the set. One that finds nothing holds, also where there was nothing
// to judge: then the verdict has no evaluations.
func (s *Set) Judge(r *Run) []property.Verdict {
	if s == nil {
		return nil
	}
	verdicts := make([]property.Verdict, len(s.on))
	for i, d := range s.on {
		v := &verdicts[i]
		found, exercised := d.find(r)
		v.Property, v.Evaluations, v.Status, v.At = &s.definitions[i], exercised, property.Held, r.History.End
		if found != nil {
			v.Status, v.At, v.Values, v.Note = property.Broken, found.At, found.Values, found.Note
		}
	}
	return verdicts
}
