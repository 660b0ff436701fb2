// Package client holds the ways in: how an operator's program is plugged into a run.
//
// [Manager] is the engine's own ground: a manager of ours, on which an unmodified SetupWithManager runs with
// controller-runtime's real builder, sources, predicates, handlers and controllers. Its client, cache and informers work
// directly on the simulated server's objects: no JSON, no reflectors, no goroutines of their own. The work queue of a
// controller is replaced by ours, with the rules of controller-runtime's priority queue or, where UsePriorityQueue is off,
// of client-go's, so that the engine decides which key is handed out when. [Reconcilers] is a few lines on top of it, for
// people who have a reconciler and no SetupWithManager to go with it.
//
// # What is as in a real manager
//
// Typed, unstructured and metadata-only objects of a kind have informers of their own; informers that are asked for before
// the manager starts get their initial list when it does, and cached reads before that fail. Every informer's cursor moves
// by itself, so that reads of two kinds, or of one kind in two forms, may show different moments. Unstructured objects are
// read live, and everything else from caches, unless the options of the client say otherwise. After a watch that could not go
// on, event handlers are told what a new list shows: tombstones of what is gone, updates of all that was known before, changed
// or not, and additions that are no initial ones. Errors have the texts of controller-runtime, client-go and the API server,
// those of requests that client-go never sends included.
//
// [WithOptions] takes the options of ctrl.NewManager. A cache may be restricted to namespaces and by selectors: what leaves a
// selector is deleted from the cache, and still exists. Transforms make of an object what the cache holds, and an update of what
// was read so wipes the rest. Reads copy what the cache holds, unless they waive it; event handlers are handed it, and change the
// cache with it. [ReadYourWrites] makes cached reads wait for the client's own writes: the wait is a step, Await, and ends
// with the context of the read.
//
// A real cache lists in the order of a Go map, which is another one each time. Here it is that of the keys in the default order;
// strategies choose another, for each list anew and from a stream that the seed and the name of the read decide.
//
// A panic in a reconciler, handler, index function or runnable ends the run and is a finding, whatever RecoverPanic says. One
// in a goroutine that the operator starts itself ends the whole test binary: nobody can recover it.
//
// The admission webhooks that are registered with the manager's webhook server answer from its start on, each in the middle of a
// request that a configuration in the store has sent to it: [sim.Env.ServeWebhooks].
//
// # Without an engine
//
// [Direct] is a client for ordinary unit tests, which watches too (client.WithWatch): package simtest makes it. Its requests are
// executed at once.
//
// # What is not modelled yet
//
//   - Leader election: the process always leads. Conversion webhooks can be registered and are never called; admission webhooks are.
//   - Resyncs, unless a SyncPeriod asks for them: they mask lost events. Their period has no jitter.
//   - A cache of several namespaces is listed in the order of these. Errors of transforms are reported as gaps.
//   - Clients of a manager that watch (client.WithWatch).
//   - Raw client-go through GetConfig or GetHTTPClient gets an explicit error.
//   - Event handlers of one process run one at a time: one that waits for a call holds up the others.
//   - Package-level loggers, as log.Log, write where they always do, and not into the history. A logger for them has to be set before
//     the first simulation: from then on they are silent if there is none.
//   - Events are not retried, aggregated or limited in number.
//
// # What the engine does not see
//
// Three things keep a work queue of their own: a controller whose NewQueue the operator chose, one whose requests are of a
// type of their own, and one that the operator starts itself (NewUnmanaged). They work, and what they do is the same in every
// run as far as their queues are, but which key they hand out is not a choice, passes over requests of another type have no
// names, and a key that waits in them for its time does not keep a run from being called terminal after the horizon.
package client
