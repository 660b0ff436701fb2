package schedule

import "time"

// Schedule says what must happen in a run of a scenario: orders and faults against the default order.
type Schedule struct {
	// Constraints order events; Faults strike at them; Skip are the steps of the script, from 0, that are left out, sorted.
	Constraints []Constraint
	Faults      []Fault
	Skip        []int
	// Latencies make single steps late without a fault.
	Latencies []Latency
	// Orders put into another order what has none of its own.
	Orders []Permutation

	// Expect is what the run is to come to, as far as it is known.
	Expect Expectation
	// WhenUnmatched says what it means if a constraint or a fault found no event.
	WhenUnmatched WhenUnmatched
	// Trace, if set, is all that happened in the run, for exact replay.
	Trace *Trace
	// Origin says where the schedule comes from. It has no influence.
	Origin Origin
}

// Latency is a step that is late: a request that reaches the server late, for the most part.
type Latency struct {
	At Event
	// Repeat tells polls apart, which go by one name: how often it came up before.
	Repeat int
	// For is how late the step is, in virtual time from when it could have been taken.
	For time.Duration
}

// Size returns the number of elements that a shrinker may take out: constraints, faults, latencies and orders.
func (s *Schedule) Size() int {
	return len(s.Constraints) + len(s.Faults) + len(s.Latencies) + len(s.Orders)
}

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
	// Signature is the short form of the finding's, see history.SignatureID, and Hash that of the run's history; empty and
	// zero if not known.
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
	// Steps are those from the begin of the script on, polls included.
	Steps []Event
	// Latencies are the delays that a strategy chose, in the order the requests came up.
	Latencies []Latency
	// Orders are the permutations that a strategy chose.
	Orders []Permutation
	// Ties are for the steps where several that were enabled had one name, and the first of them was not the one taken.
	Ties []Tie
}

// Tie tells steps of one name apart.
type Tie struct {
	// Step is the index of the step in the trace; Index says which one of its name it was, from 0, in default order.
	Step, Index int
}

// Permutation is the order in which something without an order of its own was given: an initial list, or a list from a
// cache.
type Permutation struct {
	// At is the event, without its occurrence; Repeat is how often there was something to put in order at an event of this
	// name before.
	At     Event
	Repeat int
	// Order says, for each place, which item is there, by the order of the keys, from 0.
	Order []int
}
