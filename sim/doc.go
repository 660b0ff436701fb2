// Package sim runs an operator's reconcilers against a simulated Kubernetes API server in virtual time, and decides the
// order of everything that happens.
//
// A [Config] says what may happen: objects, processes (the operators under test), racers (their competitors), properties.
// [NewWorld] makes it ready to run. [World.Run] executes it once under a [Plan], and returns its history with the verdicts
// of the properties. The same plan gives the same history, on any machine and at any GOMAXPROCS; package
// [github.com/stalemate-dev/stalemate/sim/explore] looks for plans that break a property.
//
// # How a run works
//
// Every run has a [testing/synctest] bubble of its own, and one goroutine of it is the engine. Goroutines of programs park
// in the engine whenever they call the API server, read a cache, wait for a work queue or register an event handler. The
// engine grants one step, waits until every goroutine is parked again, lists what is enabled in an order that depends on
// names only, chooses, and grants the next: a request reaches the server and its answer returns; an informer's cursor
// moves by one event; the handlers of that event run; a work queue hands out a key; an engine timer fires; or, if nothing
// is enabled, the clock goes on. Racers have no goroutines: they are step machines that the engine runs inline.
//
// Timers that user code sets (time.Sleep, context.WithTimeout) cannot be granted, only let run. Every step takes a constant
// span of virtual time plus a nanosecond, so that no two such timers, set in different steps, fire at the same instant.
//
// What is outside our control, and makes an operator nondeterministic: map order, math/rand/v2 and crypto/rand, select over
// several ready channels, and goroutines that share memory between two calls, or that one pass starts side by side to write
// the very same thing. It shows as two executions of one plan that differ. The global generator of math/rand, which client-go
// draws its jitter from, begins every run in one state.
//
// # The default order
//
// Without a plan nothing is preempted: a thread goes on until it has to wait. Caches are kept fresh: an event is delivered
// to every informer before anything else happens. What became enabled first goes first. A plan's constraints hold single
// events back until another one has happened; a strategy chooses freely.
package sim
