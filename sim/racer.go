package sim

import (
	"time"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// Racer is a competitor of the operator: kube-controller-manager's StatefulSet controller, the garbage collector, a
// kubelet, a user. It is a pure step machine which the engine runs inline: it has no goroutine, reads no clock but
// [RacerEnv.Now] and no randomness, never changes an object it was handed, and makes API calls only by returning them
// from a [Task].
type Racer interface {
	// Start is called once, at the start of a run. It declares informers, queues and timers.
	Start(env RacerEnv)
}

// Observer is implemented by racers that are told of every event as it happens: scripts, whose steps may wait for one.
type Observer interface {
	Racer
	Observe(event schedule.Event)
}

// Skipper is implemented by racers that tell the story of a scenario, step by step, and can leave out steps of it.
type Skipper interface {
	Racer
	// Skip is called before Start with the steps to leave out, from 0 and sorted; the others are made as if those had been
	// made, too. Steps that the racer does not have are none of its own.
	Skip(steps []int)
}

// ClaimProtector is implemented by racers that let claims go which are protected while pods use them: only then the server
// protects them. See [apiserver.Server.ProtectClaims].
type ClaimProtector interface {
	Racer
	ProtectsClaims()
}

// ScriptListener is implemented by racers of the cluster that are told when the script begins, since their own times count from
// there. While a cluster only settles it never does. Racers that are part of the script start with it, and are not told.
type ScriptListener interface {
	Racer
	ScriptBegins()
}

// RacerEnv is what the engine offers a racer.
type RacerEnv interface {
	// Now returns the virtual time.
	Now() time.Time
	// Kind returns the row of the kinds table for a kind's name ("StatefulSet"), or nil if the scenario has no such kind.
	Kind(name string) *apiserver.Kind
	// Kinds returns every kind of the scenario, in a fixed order.
	Kinds() []*apiserver.Kind
	// Informer starts an informer over all objects of a kind in all namespaces. Its cursor moves one event a step, when
	// the engine says so; handle is called after the cursor has moved (nil if there is nothing to do). The initial list
	// arrives as Added events with Initial set, in one step. Each informer has a cursor of its own, and the view returned
	// may be read at any time from then on.
	Informer(kind *apiserver.Kind, handle func(cache.Delta)) *cache.View
	// Queue makes a work queue that feeds `workers` workers. When the engine hands a key to a worker, begin makes the
	// task of this pass. A pass that ends with [Fail] is retried with the back-off of kube-controller-manager (5 ms
	// doubling to 1000 s, per key); one that ends with [Done] has its back-off forgotten.
	Queue(name string, workers int, begin func(key string) Task) RacerQueue
	// After calls f once, as an engine timer, when d has passed; the timer is named for schedules. The function returned
	// stops it.
	After(name string, d time.Duration, f func()) (stop func())
	// Log adds a line to the history.
	Log(message string)
	// Problem reports that something is wrong with the scenario itself, as a step of a script that was refused.
	Problem(message string)
}

// RacerQueue is a work queue with the rules of client-go's: a key that is queued is not queued twice, and a key that is
// being processed is handed out again only when its pass is over.
type RacerQueue interface {
	// Add queues a key.
	Add(key string)
	// AddAfter queues a key when d has passed. Where the key waits for another time already, the earlier one counts.
	AddAfter(key string, d time.Duration)
}

// Task is one pass of a racer over one key, as a step machine: one API call a step.
type Task interface {
	// Next is given the response to the request it returned last, nil on the first call and after a wait, and returns
	// what to do now. Whatever it reads from views it reads in this moment; the request it returns is executed by a
	// later step, with other actors' steps possibly in between.
	Next(resp *apiserver.Response) Action
}

// Action is what a task wants next. Make one with [Call], [Wait], [Done] or [Fail].
type Action struct {
	request *apiserver.Request
	wait    time.Duration
	err     error
}

// Call makes a request to the API server.
func Call(r *apiserver.Request) Action { return Action{request: r} }

// Parts returns what an action was made from: a request, a pause, an error, or none of them. It is for those who drive a
// racer without the engine, as a test of one does.
func (a Action) Parts() (request *apiserver.Request, wait time.Duration, err error) {
	return a.request, a.wait, a.err
}

// Wait pauses the task for a span of virtual time; a span of zero or less counts as a nanosecond. Next is then called
// with a nil response.
func Wait(d time.Duration) Action { return Action{wait: max(d, 1)} }

// Done ends the pass.
func Done() Action { return Action{} }

// Fail ends the pass with an error: the key is queued again after its back-off.
func Fail(err error) Action { return Action{err: err} }
