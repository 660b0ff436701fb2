package seinode

import "github.com/stalemate-dev/stalemate/scenarios/track"

// Where the bugs were introduced, and one of them mended.
const (
	pull345 = "[#345](https://github.com/sei-protocol/sei-k8s-controller/pull/345)"
	pull348 = "[#348](https://github.com/sei-protocol/sei-k8s-controller/pull/348)"
)

// The patterns of docs/patterns.md that are met here.
const (
	twoPaths       = 9  // an identity in the status, which one path updates while another creates
	defaultingDiff = 11 // compared with what the API server has filled in
)

// The properties of the scenarios that are broken.
const (
	deletesItsOwn = "deletes-nothing-of-its-own"
	churns        = "churn-is-bounded"
	idleUpdates   = "updates-change-something"
)

// Track returns what is found in the operator.
func Track() []track.Row {
	row := func(pattern int, scenario, variant, bug string, budget int, breaks ...string) track.Row {
		return track.Row{Bug: bug, Pattern: pattern, Scenario: scenario, Controller: "operator", Reconciler: "seinode/" + variant,
			Breaks: breaks, Budget: budget}
	}
	return []track.Row{
		row(twoPaths, "restored.yaml", "v345", pull345+": a set that a task creates after an impostor is taken for one, and deleted", 5,
			deletesItsOwn, "SelfDelete"),
		row(twoPaths, "restored.yaml", "v348", pull348+": the UID is forgotten together with the impostor", 0),
		row(twoPaths, "restored.yaml", "v345-first", pull345+", first commit: an impostor is replaced at once, but see rest.yaml", 0),
		row(twoPaths, "restored-cached.yaml", "v345-first", pull345+", first commit: a cache that still shows the impostor has its "+
			"successor deleted", 100, deletesItsOwn),
		row(twoPaths, "restored-cached.yaml", "v348", pull348+": a cached status from before the set was created makes that an impostor",
			250, deletesItsOwn),
		row(twoPaths, "deleted.yaml", "v348", pull348+": a set that is deleted in the middle of a pass is created by the task, as ever", 100,
			deletesItsOwn),
		row(twoPaths, "faults.yaml", "v348", pull348+": a status that is not written, or not seen, has its set deleted, over and over", 100,
			deletesItsOwn, churns),
		row(0, "pause.yaml", "v348", "paused to 0 and back, with a set that is deleted meanwhile", 0),
		row(0, "gone.yaml", "v348", "deleted in the middle of a plan, with all that belongs to it", 0),
		row(defaultingDiff, "rest.yaml", "v345-first", pull345+", first commit: a set with its defaults is not as rendered, and updated "+
			"in every pass", 5, idleUpdates),
		row(defaultingDiff, "rest.yaml", "v345", pull345+": sets are applied", 0),
		row(defaultingDiff, "rest.yaml", "v348", pull348+": sets are applied", 0),
	}
}
