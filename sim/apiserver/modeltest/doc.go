// Package modeltest checks the simulated API server against a model of its own: random requests of several clients go to both,
// and every answer, every list and every frame of a watch must be the one that the model foretells.
//
// The model is written from the rules that Kubernetes documents and its sources state, over plain JSON trees. It shares no code
// with the server: what is wrong in one is not wrong in the other. It speaks HTTP only, so that it can judge any API server
// that starts empty.
//
// A sequence that fails is cut down to the requests that matter, and printed with the line that plays it again.
package modeltest
