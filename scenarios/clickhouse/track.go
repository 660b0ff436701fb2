package clickhouse

import "github.com/stalemate-dev/stalemate/scenarios/track"

// issue is where the bug was reported.
const issue = "[#1990](https://github.com/Altinity/clickhouse-operator/issues/1990)"

// The properties of the scenarios that are broken.
const (
	scaledUp  = "completed-means-scaled-up"
	replaced  = "completed-means-replaced"
	completed = "change-completes"
)

// Track returns what is found in the operator.
func Track() []track.Row {
	row := func(scenario, variant, bug string, budget int, breaks ...string) track.Row {
		return track.Row{Bug: bug, Pattern: 1, Scenario: scenario, Controller: "operator", Reconciler: "clickhouse/" + variant,
			Breaks: breaks, Budget: budget}
	}
	const (
		waits  = "a failed scale to 0 no longer skips the delete"
		drops  = "nor is the error of the delete dropped"
		aborts = "nor that of the create"
		anew   = "an operator that starts anew does what was left undone"
	)
	return []track.Row{
		row("recreate.yaml", "buggy", issue+": a failed scale to 0 skips the delete, and the CHI still ends Completed", 50, scaledUp,
			"SwallowedError"),
		row("recreate-scaled.yaml", "buggy", issue+": the same, of a set that is still scaled up", 50, replaced),
		row("recreate-errors.yaml", "buggy", issue+": one write that fails is enough, whichever it is", 200, scaledUp, replaced),
		row("recreate.yaml", "patch-a", waits, 0),
		row("recreate.yaml", "patch-ab", drops, 0),
		row("recreate.yaml", "v0.27.1", aborts, 0),
		row("recreate-scaled.yaml", "patch-a", waits, 0),
		row("recreate-scaled.yaml", "v0.27.1", aborts, 0),
		row("recreate-errors.yaml", "patch-a",
			"patch A still drops the error of the create: the CHI ends Completed without a set", 200, scaledUp),
		row("recreate-errors.yaml", "patch-ab", "patches A and B still drop the error of the create", 200, scaledUp),
		row("recreate-errors.yaml", "v0.27.1", "0.27.1 ends Aborted, and nothing ever tries again", 200, completed),
		row("recreate-crash.yaml", "patch-a", anew, 0),
		row("recreate-crash.yaml", "patch-ab", anew, 0),
		row("recreate-crash.yaml", "v0.27.1", anew, 0),
		row("recreate-upgrade.yaml", "v0.27.1", anew+", also as patch A", 0),
	}
}
