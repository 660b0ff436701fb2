// Package schedule names the events of a run and says which orders of them a run must follow.
//
// An [Event] is a name that survives edits: who acts, on which reconcile key, with which verb, on which object, and for
// the how-manieth time. A [Constraint] orders two of them. Everything that steers a run, the sweep, a random walk or a
// replay, is written in these terms.
package schedule
