package leaderworkerset

import "github.com/stalemate-dev/stalemate/scenarios/track"

// issue is where the bug was reported, and fix what was done about it.
const (
	issue = "[#732](https://github.com/kubernetes-sigs/lws/issues/732)"
	fix   = "[#733](https://github.com/kubernetes-sigs/lws/pull/733)"
)

// The properties of the scenarios, but for what is broken nowhere.
const (
	dyingSet   = "no-revision-from-a-dying-set"
	oneForEach = "one-revision-per-key"
	ownKey     = "revision-has-its-own-key"
	available  = "available-means-updated"
	whoIsReady = "status-tells-who-is-ready"
)

// Track returns what is found in the operator.
func Track() []track.Row {
	row := func(scenario, variant, bug string, budget int, breaks ...string) track.Row {
		return track.Row{Bug: bug, Pattern: 3, Scenario: scenario, Controller: "lws", Reconciler: "leaderworkerset/" + variant,
			Breaks: breaks, Budget: budget}
	}
	return []track.Row{
		row("background.yaml", "buggy", issue+": the StatefulSet of a deleted LeaderWorkerSet is taken for that of the next one", 20,
			dyingSet, ownKey, available, "DyingParent"),
		row("forced.yaml", "buggy", issue+": so is one that is being deleted", 5, dyingSet, ownKey, available, "DyingParent"),
		row("forced.yaml", "fixed", fix+" waits until such a one is gone", 0),
		row("background.yaml", "fixed", fix+" sees none that the garbage collector has not come to yet", 20, dyingSet, ownKey, available),
		row("foreground.yaml", "fixed", fix+" sees none that a cache shows as it was; nor do informers agree with each other", 50,
			dyingSet, oneForEach, ownKey, whoIsReady),
		row("orphan.yaml", "fixed", "a set that is nobody's any more, and a revision that still seems to be the old one's", 50,
			oneForEach, ownKey, available, whoIsReady),
		row("forced-faults.yaml", "fixed", "a pass that fails after the revision was created leaves it to be created again", 400, oneForEach),
		row("background.yaml", "hardened", "our own: looks whose the set is", 0),
		row("forced-faults.yaml", "hardened", "our own: takes the revision that there is", 0),
	}
}
