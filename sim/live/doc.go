// Package live plays a schedule against a real API server: the same scenario, the same reconcilers, the same properties, and real
// time.
//
//	result, err := live.Confirm(ctx, live.Finding{Name: name, Config: config, Schedule: schedule}, live.Options{})
//	fmt.Println(result)
//
// [Confirm] starts etcd and kube-apiserver, see package controlplane. Each process under test runs on a manager of
// controller-runtime with real caches and queues. Racers that are controllers of kube-controller-manager are played by the real
// one; the others, kubelets and users, are the step machines of the simulation, on real watches and in real time.
//
// # The gate
//
// In front of every actor's transport stands a gate. It gives requests, reads from caches and deliveries the names that they have
// in schedules, and holds a step as long as the schedule holds it. It plays the schedule's faults. Where the schedule says nothing,
// it has requests follow each other as in the simulated run, as far as they come; what does not come within a moment is not waited
// for. Requests pass one at a time, so that properties see one state after the other. A gate only ever makes a step late, or plays
// a fault that the schedule has: whatever is broken behind it can be broken in a real cluster.
//
// # What is weaker than in the simulation
//
// The cluster is taken to be at rest when nothing was committed for some seconds, nothing goes on, and no racer waits for its time:
// the simulation waits for at least ten minutes. And a run is one run: it does not come out the same way twice to the last step.
package live
