// Package racer holds the competitors of an operator: the controllers, node agents and people that write to the objects
// the operator works on. Each is a [sim.Racer]: a pure step machine that makes one API call a step, reads its informers'
// views in the very moment it decides, and keeps its state as plain data.
//
//   - [StatefulSetController]: kube-controller-manager's StatefulSet controller.
//   - [DeploymentController]: its Deployment controller.
//   - [ReplicaSetController]: its ReplicaSet controller.
//   - [GarbageCollector]: kube-controller-manager's garbage collector.
//   - [NamespaceController]: its namespace controller, which empties what is being deleted.
//   - [DisruptionController]: its disruption controller, which says how many pods may be evicted.
//   - [JobController]: its Job controller, and the one that deletes Jobs some time after they have finished.
//   - [HorizontalPodAutoscaler]: its horizontal pod autoscaler, which is told what the metrics would lead to.
//   - [NodeLifecycle]: what it does about a lost node: taints, evictions, and the end of pods without a node.
//   - [Scheduler]: binds pods to nodes.
//   - [Kubelet]: runs and terminates pods, on every node there is.
//   - [VolumeBinder]: binds claims, and lets a claim go that no pod uses.
//   - [User]: a script of creates, patches and deletes.
//   - [Annotator]: changes an annotation again and again.
//
// What is left out: Events (no racer reads them back, and no controller waits for one), the jitter of client-go's
// retries (a pause is its nominal length; how calls interleave is the explorer's choice), and PersistentVolumes. A
// claim stays Pending where no [VolumeBinder] races; neither the StatefulSet controller nor the [Kubelet] waits for
// Bound.
//
// A racer belongs to one run. The engine must not hand out a key of a racer's queue before the initial lists of all its
// informers have arrived, as the real controllers wait for their caches to sync before they start their workers.
package racer

import "github.com/stalemate-dev/stalemate/sim"

var (
	_ sim.Racer = (*StatefulSetController)(nil)
	_ sim.Racer = (*DeploymentController)(nil)
	_ sim.Racer = (*ReplicaSetController)(nil)
	_ sim.Racer = (*GarbageCollector)(nil)
	_ sim.Racer = (*NamespaceController)(nil)
	_ sim.Racer = (*DisruptionController)(nil)
	_ sim.Racer = (*JobController)(nil)
	_ sim.Racer = (*HorizontalPodAutoscaler)(nil)
	_ sim.Racer = (*NodeLifecycle)(nil)
	_ sim.Racer = (*Scheduler)(nil)
	_ sim.Racer = (*Kubelet)(nil)
	_ sim.Racer = (*VolumeBinder)(nil)
	_ sim.Racer = (*User)(nil)
	_ sim.Racer = (*Annotator)(nil)

	_ sim.ScriptListener = (*HorizontalPodAutoscaler)(nil)
	_ sim.ScriptListener = (*NodeLifecycle)(nil)
	_ sim.ScriptListener = (*Kubelet)(nil)
)
