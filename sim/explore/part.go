package explore

import (
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Part is what one unit came to, or several: parts merge, see [Merge]. But for histories it is encoded as JSON; those are in
// [Part.Bodies], and are put back by [Part.Attach].
type Part struct {
	// Units counts the units that the part is of.
	Units int `json:"units"`
	// Seed is that of the exploration's options.
	Seed  int64 `json:"seed"`
	Tally Tally `json:"tally"`
	// Failures are the ways in which runs failed, in the order of their origins: one for each signature, with the first run that
	// failed so.
	Failures []Failure `json:"failures,omitempty"`
	// Shrunk are the findings that shrink units came to, by their origins.
	Shrunk []Shrinkage `json:"shrunk,omitempty"`
	// Marks are what runs showed that no run known to the unit had shown before: the coverage that grows with new behaviour, sorted.
	Marks []Marked `json:"marks,omitempty"`

	bodies history.Result
}

// Failure is a way in which runs fail: what tells raw runs apart, before anything is shrunk.
type Failure struct {
	// Signature is that of the run as it was met, see [Signature]. Broken and Failing are parts of it: what was broken, with which
	// values; and that with the last writes that failed. Faults are those that struck and that no failing write shows.
	Signature string   `json:"signature"`
	Broken    string   `json:"broken"`
	Failing   string   `json:"failing"`
	Faults    []string `json:"faults,omitempty"`
	// Origin is the first run that failed so, and Count how many did.
	Origin Origin `json:"origin"`
	Count  int    `json:"count"`
	// Kept says that the part has the history of the first run.
	Kept bool `json:"kept,omitempty"`
}

// Shrinkage is what a shrink unit came to.
type Shrinkage struct {
	// Origin is that of the failure, Raw its signature.
	Origin Origin `json:"origin"`
	Raw    string `json:"raw"`
}

// Mark is something that a run showed, by its hash.
type Mark uint64

// MarkKind says what a mark is of.
type MarkKind string

// The kinds of marks.
const (
	// EndState is the masked state of the cluster at the end of a run, with the run's outcome.
	EndState MarkKind = "EndState"
	// Edge is the outcome of a call at a call site, or that a write at one site was overtaken by one at another.
	Edge MarkKind = "Edge"
)

// Marked is a mark, with the first run that showed it.
type Marked struct {
	Mark   Mark     `json:"mark"`
	Kind   MarkKind `json:"kind"`
	Origin Origin   `json:"origin"`
	// Schedule brings the run about, as far as constraints, latencies and faults can say it. Of several marks of one run the first
	// has it. It is nil for the default order.
	Schedule *schedule.Schedule `json:"schedule,omitempty"`
}

// Merge puts parts together. Its result does not depend on their order, nor on how they were put together before; no unit may be in
// two of them. It leaves the parts as they are.
func Merge(parts ...*Part) *Part {
	return nil
}

// Pending returns the units that shrink what has to be shrunk and is not. It does not depend on what else has been shrunk, so that
// what the parts of shards need is needed by no more than them once they are merged.
func (p *Part) Pending() []Unit {
	return nil
}

// Result returns what the exploration came to so far. Of its header only the scenario's name is known; Elapsed is zero. Findings are
// numbered as if one exploration had executed all units in order, and their Elapsed is zero. The Hash is the sum of those of all
// executions.
func (p *Part) Result() *history.Result {
	return nil
}

// Bodies returns what JSON does not carry: findings with their histories, replays and the default run. It is encoded beside the
// part, as a result.
func (p *Part) Bodies() *history.Result { return &p.bodies }

// Attach puts back what [Part.Bodies] returned.
func (p *Part) Attach(bodies *history.Result) error {
	return nil
}
