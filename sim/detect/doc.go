// Package detect finds in the history of a run what no operator should do, whatever it is for: it needs no property.
//
// A detector that finds something breaks the run as a property does: it gives a verdict of type [property.Detector] under the
// detector's name, and everything that deals with broken properties deals with it. Each can be switched off. They are judged at
// the end of a run, from its history and the event log of its server, and have no influence on it.
//
// Some compare a run with a [Baseline]: where runs without faults come to. The explorer makes it first.
package detect
