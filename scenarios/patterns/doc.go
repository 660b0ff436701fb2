// Package patterns holds the ways in which operators in the wild have failed, each boiled down to a pair of reconcilers of one
// small custom resource: one that fails, "patterns/<pattern>-buggy", and one that does not, "patterns/<pattern>-correct".
//
// Of each pattern there is a file of Go, which says what was seen where, and what a pass is, call by call; a scenario,
// <pattern>.yaml, which says what a user may expect; and testdata/schedules/<pattern>.yaml, the shortest way to the failure.
// What the originals do beside the path that fails is left out. docs/patterns.md is the catalogue of all patterns, with those
// that other folders show.
//
// Where it takes two instances of the operator, one of which takes over from the other, there is a third reconciler,
// "patterns/<pattern>-leader": the instance that works before the one under test does.
package patterns
