package ondelete

import "github.com/stalemate-dev/stalemate/scenarios/track"

// Where the bugs were reported.
const (
	latch = "[kubernetes #73492](https://github.com/kubernetes/kubernetes/issues/73492)"
	patch = "[sei-k8s-controller #379](https://github.com/sei-protocol/sei-k8s-controller/pull/379)"
)

// Track returns what is found in the operators, and in the controller that they work beside.
func Track() []track.Row {
	row := func(scenario, reconciler, bug string, budget int, breaks ...string) track.Row {
		return track.Row{Bug: bug, Pattern: 10, Scenario: scenario, Controller: "operator", Reconciler: "ondelete/" + reconciler,
			Breaks: breaks, Budget: budget}
	}
	return []track.Row{
		row("rollout-1.36.yaml", "replacer", latch+": kube-controller-manager 1.36 never ends an OnDelete rollout in the status", 1,
			"update-rolled-out", "no-replica-non-current"),
		row("rollout-1.37.yaml", "replacer", "kube-controller-manager 1.37 does", 0),
		row("observe-image.yaml", "sei-379", patch+": writes a status that kube-controller-manager owns", 1, "status-has-one-writer",
			"ForeignStatus"),
		row("observe-image.yaml", "sei", "leaves it alone", 0),
		row("observe-image.yaml", "pods", "leaves it alone, and asks the pods", 0),
		row("lost-patch.yaml", "sei-379", patch+": the patch is overwritten by a status that was computed before it", 150,
			"update-rolled-out", "current-revision-never-moves-back"),
		row("rollback.yaml", "sei", "takes `currentRevision == updateRevision` for rolled out: a rollback never ends", 1,
			"image-is-rolled-out"),
		row("rollback.yaml", "sei-379", "repairs that, but the rollback of a plan that is not over yet is none: `currentImage` is the "+
			"image from before", 50, "image-is-rolled-out"),
		row("rollback-faults.yaml", "pods", "asks the pods, plans anew when the image changes, and does again whatever fails", 0),
		row("rollback-1.37.yaml", "pods", "the same", 0),
		row("midway.yaml", "sei", "a change after the pod was replaced, and before that was observed, is never rolled out", 50,
			"image-is-rolled-out", "MistakenDelete"),
		row("midway.yaml", "pods", "asks the pods, and plans anew when the image changes", 0),
	}
}
