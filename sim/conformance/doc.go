// Package conformance compares the simulated API server with a real one: it plays what was recorded against a real
// kube-apiserver, and random sequences of requests against both. docs/conformance.md says how to use it.
//
// The tests need a control plane, see package assets of sim/live, and are skipped where there is none.
package conformance
