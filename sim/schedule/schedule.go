package schedule

import "time"

// Schedule says what must happen in a run of a scenario: orders and faults against the default order.
type Schedule struct {
	// Constraints order events; Faults strike at them; Skip are the steps of the script, from 0, that are left out, sorted.
	Constraints []Constraint
	Faults      []Fault
	Skip        []int
	// Latencies make single requests late without a fault, within the bound on holds.
	Latencies []Latency

	// Expect is what the run is to come to, as far as it is known.
	Expect Expectation
	// WhenUnmatched says what it means if a constraint or a fault found no event.
	WhenUnmatched WhenUnmatched
	// Trace, if set, is all that happened in the run, for exact replay.
	Trace *Trace
	// Origin says where the schedule comes from. It has no influence.
	Origin Origin
}

// Latency is a request that reaches the server late.
type Latency struct {
	At  Event
	For time.Duration
}

// Size returns the number of elements that a shrinker may take out: constraints, faults and latencies.
func (s *Schedule) Size() int { return len(s.Constraints) + len(s.Faults) + len(s.Latencies) }

// Outcome is what a run under a schedule came to.
type Outcome string

// The outcomes.
const (
	Violated Outcome = "Violated" // a property is broken, or a reconciler panicked
	Holds    Outcome = "Holds"    // all properties hold
)

// Expectation is what a run under a schedule is to come to.
type Expectation struct {
	Outcome Outcome
	// Property is one that is broken; empty if no matter which.
	Property string
	// Signature is that of the finding, and Hash that of the run's history; empty and zero if not known.
	Signature string
	Hash      uint64
}

// WhenUnmatched says what it means if a constraint or a fault of a schedule found no event.
type WhenUnmatched string

// What an unmatched element means.
const (
	Stale  WhenUnmatched = "Stale"  // the schedule does not fit the operator any more; the default
	Ignore WhenUnmatched = "Ignore" // nothing: the fix removed the call
)

// Origin says where a schedule comes from.
type Origin struct {
	// Strategy that found it, the seed of that run, and the number of constraints, faults and latencies before shrinking.
	Strategy string
	Seed     int64
	Size     int
	// Minimal says that every element was taken out once and is needed; Executions is the number of runs that took.
	Minimal    bool
	Executions int
}

// Trace is every choice of a run: the steps in order, and what strategies decided beside them.
type Trace struct {
	Steps     []Event
	Latencies []Latency
	Orders    []Permutation
}

// Permutation is the order in which something without an order of its own was given: an initial list, or a list from a
// cache.
type Permutation struct {
	At    Event
	Order []int
}
