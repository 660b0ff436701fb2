// Package client holds the ways in: how an operator's program is plugged into a run.
//
// [Manager] is the engine's own ground: a manager of ours, on which an unmodified SetupWithManager runs with
// controller-runtime's real builder, sources, predicates, handlers and controllers. Its client, cache and informers work
// directly on the simulated server's objects: no JSON, no reflectors, no goroutines of their own. The work queue of a
// controller is replaced by ours, with the same rules, so that the engine decides which key is handed out when; a queue
// that the operator chose itself is left alone. [Reconcilers] is a few lines on top of it, for people who have a
// reconciler and no SetupWithManager to go with it.
//
// Not modelled yet: webhooks (registered, never called), leader election (the process always leads), server-side apply,
// cache options (ByObject, transforms), raw client-go through GetConfig (an explicit error).
package client
