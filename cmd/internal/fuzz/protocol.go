package fuzz

import (
	"encoding/json"
	"time"

	"github.com/stalemate-dev/stalemate/sim/explore"
)

// What goes over the pipes between the supervisor and a worker is one JSON value after the other: a [task] for the worker's standard
// input, and for each some replies on its standard output, the last of which is final. When its input ends, a worker exits.

// Subject is what is explored: one entry of one scenario's matrix, with the reconcilers that take the place of its own.
type Subject struct {
	// File is the scenario's file; empty for the built-in canary.
	File string `json:"file,omitempty"`
	// Values choose the entry of the matrix.
	Values map[string]string `json:"values,omitempty"`
	// Reconcilers are by the names of controllers.
	Reconcilers map[string]string `json:"reconcilers,omitempty"`
	// Schedules are the files of those that found something once, run before the sweep.
	Schedules []string `json:"schedules,omitempty"`
}

// task is one unit to do.
type task struct {
	// Target numbers the subject: a worker opens each once, and keeps it.
	Target  int     `json:"target"`
	Subject Subject `json:"subject"`
	// Seed is that of the exploration.
	Seed int64        `json:"seed"`
	Unit explore.Unit `json:"unit"`
	// Corpus are the files of the schedules of a ScheduleUnit.
	Corpus []string `json:"corpus,omitempty"`
	// Seen are marks that the worker has not been told of yet: it keeps them for each target.
	Seen []explore.Mark `json:"seen,omitempty"`
	// Trace is the number of the execution whose every choice goes to the black box, as it killed a worker before; zero for none.
	// Opening says that it is one of those that opening the subject takes.
	Trace   int  `json:"trace,omitempty"`
	Opening bool `json:"opening,omitempty"`
	// Early has findings passed on at once, before the unit has ended.
	Early bool `json:"early,omitempty"`
	// Stuck bounds the real time that an execution may go without a step.
	Stuck time.Duration `json:"stuck,omitempty"`
}

// reply is what a worker says about the task that it does. One of the fields is set.
type reply struct {
	// Finding is a failure that has just been met: a finding as package reports encodes it.
	Finding json.RawMessage `json:"finding,omitempty"`
	// Leak is a run that left goroutines behind.
	Leak *incident `json:"leak,omitempty"`
	// Skipped is a file of the corpus that does not fit any more.
	Skipped *skippedFile `json:"skipped,omitempty"`
	// Done ends the task.
	Done *done `json:"done,omitempty"`
	// Failed ends the task, too: the unit came to nothing.
	Failed *failure `json:"failed,omitempty"`
	// Stuck ends the task and the worker: a run made no step any more, and its goroutines cannot be stopped.
	Stuck *stuck `json:"stuck,omitempty"`
}

// done is what a unit came to.
type done struct {
	Part *explore.Part `json:"part"`
	// Bodies are what the part does not carry, as package reports encodes a result.
	Bodies json.RawMessage `json:"bodies"`
	// CPU is what the unit took.
	CPU time.Duration `json:"cpu"`
	// Retire says that the worker had better be replaced: what earlier runs left behind fills it.
	Retire bool `json:"retire,omitempty"`
}

// skippedFile is a file that is left out.
type skippedFile struct {
	File string `json:"file"`
	Why  string `json:"why"`
}

// failureKind says whose failure it is that a unit came to nothing.
type failureKind string

const (
	wrongScenario    failureKind = "scenario"         // the scenario's, or the program's set-up
	nondeterministic failureKind = "nondeterministic" // the operator's
	internal         failureKind = "internal"         // ours
	deadly           failureKind = "deadly"           // the operator's, which ends its process
)

// failure is why a unit came to nothing.
type failure struct {
	Kind failureKind `json:"kind"`
	Text string      `json:"text"`
}

// stuck is what the watchdog within the worker found.
type stuck struct {
	Goroutines []string      `json:"goroutines"`
	Stacks     string        `json:"stacks"`
	Timeout    time.Duration `json:"timeout"`
}

// incident is something that a run did to its process.
type incident struct {
	Flight flight `json:"flight"`
	// Where says what did it: "sleep in main.poll at poll.go:12".
	Where string `json:"where"`
}
