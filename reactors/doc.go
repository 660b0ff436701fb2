// Package reactors holds what goes wrong in a cluster: a reactor for each type of fault of package schedule, which stands at
// the simulated API server's door and makes the fault happen at one event of a run.
//
//	config.NewReactor = reactors.New
//	history, err := world.Run(sim.Plan{Faults: []schedule.Fault{{Type: schedule.LostResponse, At: event}}})
//
// [New] makes the reactor of a fault, [Validate] says what is wrong with one, [Complete] fills in the parameters that were
// left out, and [Doc] describes a type in a line. When, how often and for how long faults may strike is the engine's to
// watch over: see [sim.Faults].
//
// # What they look like to an operator
//
// A fault does what a real server, client or watch does, so that code which looks at errors takes the way it would take on a
// cluster. The errors have the codes, reasons, texts and causes of Kubernetes v1.36, where a server answers in plain text as
// client-go v0.36 presents that; each builder names its source.
//
// An error arises at one of two layers. In the [schedule.Transport], which is the default, client-go sees it and tries again
// by itself after a 429 or a 5xx with a Retry-After, any verb, up to ten times (k8s.io/client-go/rest/with_retry.go): the
// operator may never learn of it. At the [schedule.Client] it is what the operator's client returns in the end.
//
// # Together with client-go/testing
//
// [FromClientGo] gives the Reactors and ReactionFuncs of k8s.io/client-go/testing a place in the engine's chain, and
// [Reaction] turns a fault into a ReactionFunc for the fake of any generated clientset.
package reactors
