package property

import (
	"time"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Type says when a rule is evaluated and what its being false means.
type Type string

// The types of a property.
const (
	// Always must hold after each commit.
	Always Type = "Always"
	// Terminal must hold in the terminal state.
	Terminal Type = "Terminal"
	// Eventually must come to hold within a span of virtual time after the last of heal, script and hold, and stay.
	Eventually Type = "Eventually"
	// Sometimes must hold at least once over all runs; it guards against a vacuous pass and is never a finding.
	Sometimes Type = "Sometimes"
	// Request must hold for each request it matches, seeing the state before the request, the request and the response.
	Request Type = "Request"
	// Detector is what package sim/detect looks for by itself; there is no rule.
	Detector Type = "Detector"
)

// Definition is one property as its author wrote it.
type Definition struct {
	Name    string
	Type    Type
	Rule    string // CEL
	Message string // what it means when the rule is false; the rule itself if empty
	// Within bounds an Eventually in virtual time.
	Within time.Duration
	// Match chooses the requests a Request or Sometimes property looks at. A Sometimes without one is evaluated after
	// each commit.
	Match *schedule.Selector
	// Position is where it is written; zero if in no file.
	Position Position
}

// Position is a place in a file. Lines and columns count from 1.
type Position struct {
	File         string
	Line, Column int
}

// Variable binds a name in rules to the cluster: to one object (null when it is absent), or to a list.
type Variable struct {
	Name string
	// Kind is the kind's name, as the scenario's kinds table has it.
	Kind      string
	Namespace string
	// ObjectName binds one object. If it is empty, the variable is a list.
	ObjectName string
	// Labels restrict a list.
	Labels map[string]string
	// AtStart freezes the variable to what it was when the run began.
	AtStart bool
}

// Status is how a property came out.
type Status string

// The statuses of a property.
const (
	// Held means that the rule was evaluated and never false.
	Held Status = "Held"
	// Broken means that the rule was false where it must hold.
	Broken Status = "Broken"
	// NotExercised means that the rule was never evaluated, or that a Sometimes never held.
	NotExercised Status = "NotExercised"
	// Invalid means that evaluating the rule failed: neither a pass nor a finding, the rule must be mended.
	Invalid Status = "Invalid"
)

// Verdict is how a property came out in one run.
type Verdict struct {
	Property    *Definition
	Status      Status
	Evaluations int
	// At is the virtual time, since the run began, of the evaluation that decided the status.
	At time.Duration
	// Error is the evaluation error of an Invalid property.
	Error string
	// Note says more about a broken Eventually: whether it did not hold in the end, or held too late.
	Note string
	// Values are the values that the rule read when it was broken, or could not be evaluated, in the order they stand in
	// the rule. For an Eventually they are those of the last time it did not hold.
	Values []Value
}

// Value is one path a rule read, and what it found there: "sts.spec.replicas" and "0". Strings are quoted, an object
// that is bound to a variable is printed as its kind and name, and what is not there is "absent". Inside a macro the
// path is that of an element: "pods[0].status.phase".
type Value struct {
	Path  string
	Value string
}
