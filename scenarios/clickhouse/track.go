package clickhouse

import "github.com/stalemate-dev/stalemate/scenarios/track"

// issue is where the bug was reported.
const issue = "[#1990](https://github.com/Altinity/clickhouse-operator/issues/1990)"

// Track returns what is found in the operator.
func Track() []track.Row {
	row := func(scenario, variant, bug string, budget int, breaks ...string) track.Row {
		return track.Row{Bug: bug, Pattern: 1, Scenario: scenario, Controller: "operator", Reconciler: "clickhouse/" + variant,
			Breaks: breaks, Budget: budget}
	}
	return []track.Row{
		row("recreate.yaml", "buggy", issue+": a failed scale to 0 skips the delete, and the CHI still ends Completed", 50,
			"completed-means-scaled-up"),
		row("recreate-scaled.yaml", "buggy", issue+": the same, of a set that is still scaled up", 50, "completed-means-replaced"),
		row("recreate.yaml", "patch-a", "a failed scale to 0 no longer skips the delete", 0),
		row("recreate.yaml", "patch-ab", "nor is the error of the delete dropped", 0),
		row("recreate.yaml", "v0.27.1", "nor that of the create", 0),
	}
}
