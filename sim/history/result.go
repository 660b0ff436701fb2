package history

import (
	"fmt"
	"time"

	"github.com/stalemate-dev/stalemate/sim/canon"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Finding is a broken property, with the run that shows it.
type Finding struct {
	// Signature clusters findings: the properties broken, the values their rules read, and the outcome codes of the
	// operator's last failing writes.
	Signature string
	// Strategy that found it: "default order", "sweep", "fault sweep", "PCT", "random walk".
	Strategy string
	// Seed of the execution; it matters for PCT and random walks only.
	Seed int64
	// Execution is the number of the execution that found it, from 1.
	Execution int
	// Elapsed is the real time from the start of the exploration to the finding.
	Elapsed time.Duration
	// Also counts the later executions with the same signature.
	Also int
	Run  *History
	// Schedule brings Run about: shrunk, if the exploration shrinks. Nil if the default order does.
	Schedule *schedule.Schedule
	// Command is the command line that replays it; empty if there is none.
	Command string
}

// SignatureID returns the short form of a signature, as schedules have it: 16 hexadecimal digits.
func SignatureID(signature string) string {
	var h canon.Hasher
	h.String(signature)
	return fmt.Sprintf("%016x", h.Sum())
}

// Replay is what a run under a schedule came to, compared with what was expected.
type Replay struct {
	Schedule *schedule.Schedule
	Run      *History
	// Outcome of the comparison.
	Outcome ReplayOutcome
	// Matched counts the constraints, faults and latencies that found their events, out of Elements.
	Matched, Elements int
	// Unmatched are those that did not, in words.
	Unmatched []string
	// SameHash is set if the history is the expected one to the last step.
	SameHash bool
	// Diverged says, for an exact replay, where the run went another way than the trace: the code has changed.
	Diverged string
}

// ReplayOutcome says whether a run came to what its schedule expects.
type ReplayOutcome string

// The outcomes of a replay.
const (
	Reproduced            ReplayOutcome = "reproduced"
	ReproducedDifferently ReplayOutcome = "reproduced differently" // something is broken, but not what was
	NotReproduced         ReplayOutcome = "not reproduced"         // nothing is broken, or not what was expected
)

// Stale reports whether the replay says nothing: it was not reproduced, and part of the schedule found no event, or the run
// went another way than the trace that it was to follow.
func (r *Replay) Stale() bool {
	astray := r.Matched < r.Elements || r.Diverged != ""
	return r.Outcome == NotReproduced && astray && r.Schedule.WhenUnmatched != schedule.Ignore
}

// Header is what is known of a scenario before anything has run.
type Header struct {
	Scenario string // metadata.name, and in parentheses the values of its matrix
	Path     string // the scenario's file
	// Reconcilers name the reconcilers that run, as "actor=reconciler".
	Reconcilers []string
	// Racers name the competitors, as "actor=type".
	Racers []string
	// Reactors counts the reactors of the test's own at the API server's door, which act beside the faults of rules.
	Reactors int
	// Variables are the scenario's, so that a report can show the objects a broken rule is about.
	Variables []property.Variable
}

// Result is what an exploration of one scenario came to.
type Result struct {
	Header
	Seed int64
	// Command is the command line that runs the exploration again.
	Command string

	Findings []Finding
	// Replays say what the committed schedules came to that were run first, in their order.
	Replays []Replay
	// Diverged is set if the same schedule, executed twice, gave two histories: it names the first step that differed.
	Diverged string
	// Default is the run in the default order.
	Default *History
	// Strategies say what was explored, in order.
	Strategies []StrategyResult
	// Coverage is over all executions.
	Coverage Coverage
	Elapsed  time.Duration
	// Hash folds the history hashes of all executions in order.
	Hash uint64
}

// StrategyResult says what one strategy did.
type StrategyResult struct {
	Name       string // "default order", "sweep", "random walk"
	Executions int
	Findings   int // executions that failed
	// Complete says that the strategy ran to its end: for the sweep, that every candidate was executed.
	Complete bool
	// Scope says in words what that means: "every feasible single reorder of two conflicting steps …".
	Scope string
	// Candidates, Unmatched: for the sweep, how many reorders there were, and in how many the order did not come about; for
	// that of faults, how many faults, and how many did not strike.
	Candidates, Unmatched int
	Inconclusive          int
	// Shrinking counts the executions that shrank its findings. They are none of Executions, nor of what Coverage is over.
	Shrinking int
}

// Coverage says what a verdict rests on.
type Coverage struct {
	Executions   int
	Inconclusive int
	// Properties, in the scenario's order, over all executions.
	Properties []PropertyCoverage
	// NeverRaced are the operator's writes which no execution ever saw overtaken by a conflicting write of another actor
	// since the read they rest on.
	NeverRaced []string
	// Rules count what the scenario's fault rules did, over all executions; Sites have the same by call sites and types of faults,
	// sorted. A type that a rule has and no site of it has is one that could strike nowhere.
	Rules []RuleResult
	Sites []SiteResult
	// Denied are the rights that processes wanted in some execution and do not have by their roles, sorted; Requests are over all
	// executions, and Record means nothing.
	Denied []Denial
	// Gaps are the things that some execution touched and that are not modelled, sorted.
	Gaps []string
	// Problems are those of the runs that came up in every execution: the scenario does not do what it was written for.
	Problems []string
	// Notes are further limits of what was modelled, in sentences.
	Notes []string
}

// PropertyCoverage says how often a property was looked at.
type PropertyCoverage struct {
	Property    *property.Definition
	Evaluations int
	// Held counts the executions in which it held (for Sometimes: in which it was seen), Broken those in which not.
	Held, Broken, Invalid int
	// Error is the first evaluation error.
	Error string
}

// Failed reports whether there is a finding.
func (r *Result) Failed() bool { return len(r.Findings) > 0 }
