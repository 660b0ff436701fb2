package scenarios

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// ScheduleManifest is a schedule as it is written in its file: what must happen in a run of a scenario.
type ScheduleManifest struct {
	// APIVersion is "stalemate.dev/v1alpha1".
	APIVersion string `json:"apiVersion"`
	// Kind is "Schedule".
	Kind string `json:"kind"`
	// Metadata names the schedule.
	Metadata Metadata `json:"metadata"`
	// Spec says what must happen.
	Spec ScheduleSpec `json:"spec"`
}

// ScheduleSpec says what must happen in a run of a scenario. All that it leaves open is as in the default order.
type ScheduleSpec struct {
	// Scenario is the file of the scenario.
	Scenario FileReference `json:"scenario"`
	// Reconcilers take the place of those of the scenario, by the names of controllers, as when the schedule was found.
	Reconcilers map[string]string `json:"reconcilers,omitempty"`
	// Matrix chooses the combination of a scenario with a matrix: a value for each of its names.
	Matrix map[string]string `json:"matrix,omitempty"`
	// Order says what comes before what.
	Order []OrderItem `json:"order,omitempty"`
	// Faults are those that strike.
	Faults []ScheduledFault `json:"faults,omitempty"`
	// Latencies are steps that are late without a fault.
	Latencies []Latency `json:"latencies,omitempty"`
	// Permutations put into another order what has none of its own.
	Permutations []Permutation `json:"permutations,omitempty"`
	// Skip are the steps of the script that are left out, from 1. A create of a file is a step for each of its objects.
	Skip []int `json:"skip,omitempty"`
	// Expect is what the run is to come to.
	Expect Expectation `json:"expect,omitempty"`
	// WhenUnmatched says what it means if an item of the order, a fault, a latency or a permutation found no event.
	WhenUnmatched WhenUnmatched `json:"whenUnmatched,omitempty"`
	// Variables are added to those of the scenario.
	Variables []Variable `json:"variables,omitempty"`
	// Properties are added to those of the scenario.
	Properties []Property `json:"properties,omitempty"`
	// Origin says where the schedule comes from. It has no influence.
	Origin Origin `json:"origin,omitempty"`
	// Trace is every step of the run in which the schedule was found, encoded, for exact replay.
	Trace string `json:"trace,omitempty"`
}

// OrderItem says that one event comes after another: either Hold and Until, or Between and Let. An event is its name as reports
// print it, or a selector; Hold and Until are both names or both selectors.
type OrderItem struct {
	// Hold is the event that is held, until another has come, or the scenario's limit on holds has passed.
	Hold *EventReference `json:"hold,omitempty"`
	// Until is the event that it waits for.
	Until *EventReference `json:"until,omitempty"`
	// Between is a read and the write that rests on it, by one actor.
	Between *Between `json:"between,omitempty"`
	// Let selects what is let in between the two.
	Let *EventSelector `json:"let,omitempty"`
	// Times is how many events that Until or Let selects it takes; 1 by default.
	Times int `json:"times,omitempty"`
}

// Between chooses a read and the write that carries the revision it returned.
type Between struct {
	// Actor is the name of a controller or racer.
	Actor string `json:"actor"`
	// Incarnation, from 1, chooses one start of the process.
	Incarnation int `json:"incarnation,omitempty"`
	// Controller is the name of one controller of the process.
	Controller string `json:"controller,omitempty"`
	// Key is what is being reconciled.
	Key string `json:"key,omitempty"`
	// Kind of the object.
	Kind string `json:"kind,omitempty"`
	// Namespace of the object.
	Namespace string `json:"namespace,omitempty"`
	// Name of the object.
	Name string `json:"name,omitempty"`
	// Subresource of the write; "" chooses those to the main resource, and leaving it out chooses all.
	Subresource *string `json:"subresource,omitempty"`
	// First is the verb of the read: Get, which stands for CachedGet, too; List, which stands for CachedList; or one of these.
	First string `json:"first"`
	// Then is the verb of the write: Update, Patch or Delete.
	Then string `json:"then"`
	// Occurrence, from 1, counts such pairs; the first if it is left out.
	Occurrence int `json:"occurrence,omitempty"`
}

// EventSelector chooses events of a run: the first that matches or, with an occurrence, the n-th. Beside the verbs of
// requests it may have those of other steps, as reports print them: Deliver, Dequeue, CachedGet, …
type EventSelector struct {
	Selector `json:",inline"`
	// Return chooses the way back of the response.
	Return bool `json:"return,omitempty"`
}

// ScheduledFault is a fault and the event at which it strikes: a union of Type and at most the block of that type.
type ScheduledFault struct {
	// At is the event: its name as reports print it, or a selector.
	At EventReference `json:"at"`
	// Type says what goes wrong.
	Type schedule.FaultType `json:"type"`

	FaultBlocks `json:",inline"`
}

// Latency is a step that is late: mostly a request that reaches the server late.
type Latency struct {
	// At is the name of the step, as reports print it.
	At string `json:"at"`
	// Repeat tells polls apart, which go by one name: how often it came up before.
	Repeat int `json:"repeat,omitempty"`
	// For is how late it is, in virtual time from when it could have been taken.
	For metav1.Duration `json:"for"`
}

// Permutation is the order of what has none of its own: the initial list of an informer, or a list from its cache.
type Permutation struct {
	// At is the name of the step without its count, as in "operator Sync Pod".
	At string `json:"at"`
	// Repeat is how often there was something to put in order at a step of this name before.
	Repeat int `json:"repeat,omitempty"`
	// Order says for each place which item stands there, by the order of their keys, from 0.
	Order []int `json:"order"`
}

// Expectation is what a run is to come to.
type Expectation struct {
	// Outcome of the run; Holds by default, where nothing else is expected either, and else Violated.
	Outcome Outcome `json:"outcome,omitempty"`
	// Property is one that is broken; no matter which if it is left out.
	Property string `json:"property,omitempty"`
	// Signature is the short form of the finding's, 16 hexadecimal digits.
	Signature string `json:"signature,omitempty"`
	// Hash is that of the run's history, 16 hexadecimal digits.
	Hash string `json:"hash,omitempty"`
}

// Outcome is what a run comes to.
type Outcome string

// The outcomes.
const (
	// OutcomeViolated means that a property is broken, or that a reconciler panicked.
	OutcomeViolated Outcome = "Violated"
	// OutcomeHolds means that all properties hold.
	OutcomeHolds Outcome = "Holds"
)

// WhenUnmatched says what it means if part of a schedule found no event.
type WhenUnmatched string

// What an unmatched part means.
const (
	// UnmatchedStale means that the schedule does not fit the operator any more. This is the default.
	UnmatchedStale WhenUnmatched = "Stale"
	// UnmatchedIgnore means nothing: the fix removed the call.
	UnmatchedIgnore WhenUnmatched = "Ignore"
)

// Origin says where a schedule comes from.
type Origin struct {
	// Strategy that found it.
	Strategy string `json:"strategy,omitempty"`
	// Seed of the run.
	Seed int64 `json:"seed,omitempty"`
	// Size is the number of items of the order, faults, latencies and permutations before shrinking.
	Size int `json:"size,omitempty"`
	// Minimal says that each of those that are left was taken out once, and is needed.
	Minimal bool `json:"minimal,omitempty"`
	// Executions is the number of runs that shrinking took.
	Executions int `json:"executions,omitempty"`
}

// EventReference is an event in a schedule: a string is its exact name, a mapping selects it.
type EventReference struct {
	Name     string
	Selector *EventSelector
}

// UnmarshalJSON implements [json.Unmarshaler].
func (r *EventReference) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &r.Name)
	}
	return json.Unmarshal(data, &r.Selector)
}
