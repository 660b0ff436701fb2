package racer

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
)

// NodeLifecycleOptions configures a [NodeLifecycle].
type NodeLifecycleOptions struct {
	// Lost are the times in which the kubelet of a node is silent: those of [KubeletOptions].
	Lost []Outage
}

// NodeLifecycle plays what kube-controller-manager does about a node that is lost (v1.36.3), to Node objects:
//
//   - The node lifecycle controller (pkg/controller/nodelifecycle): 50 s after a kubelet went silent the node's conditions are Unknown
//     and its pods not Ready; then the node is tainted, unless no node at all is left.
//   - Taint eviction (pkg/controller/tainteviction): when a pod has tolerated the taints for its time (300 s unless it says
//     otherwise), it gets the condition DisruptionTarget and is deleted: GET, PATCH of the status, DELETE. Without its kubelet it is
//     Terminating from then on.
//   - The pod garbage collector (pkg/controller/podgc): 20 s after it could, it makes pods Failed and deletes them for good that
//     terminate on a node which is tainted out-of-service, that terminate and were never bound, or whose Node object was deleted at
//     least 40 s before.
//
// Instead of heartbeats there are the options. A node whose object has no Ready condition is taken to be well, and one that never had
// an object to exist. Nodes are not told apart by zone, and the bounds on how many are tainted at a time are left out.
type NodeLifecycle struct {
	options NodeLifecycleOptions
	env     sim.RacerEnv

	health, evictions, collections sim.RacerQueue
	nodeKind, podKind              *apiserver.Kind
	nodes, pods                    *cache.View

	silent   map[string]time.Time // since when the kubelet of a node is silent
	unmarked map[string]bool      // the nodes that became Unknown, and whose pods are still to be made not Ready
	waiting  map[string]func()    // what stops the timers of the pods that are to be evicted
	evicted  map[string]bool      // the pods that were, until they are gone
	deleted  map[string]bool      // the nodes whose objects were deleted
	missing  map[string]time.Time // when the collector first missed them
	armed    bool                 // whether a collection is due
}

// The times of the controllers, at their defaults.
const (
	nodeGrace        = 50 * time.Second // --node-monitor-grace-period
	collectionPeriod = 20 * time.Second // gcCheckPeriod
	nodeQuarantine   = 40 * time.Second // quarantineTime
)

// collectionKey is the one key of the collector's queue.
const collectionKey = "pods"

// NewNodeLifecycle returns the controllers for one run.
func NewNodeLifecycle(options NodeLifecycleOptions) *NodeLifecycle {
	return &NodeLifecycle{
		options: options, silent: map[string]time.Time{}, unmarked: map[string]bool{}, waiting: map[string]func(){},
		evicted: map[string]bool{}, deleted: map[string]bool{}, missing: map[string]time.Time{},
	}
}

// Start implements [sim.Racer].
func (n *NodeLifecycle) Start(env sim.RacerEnv) {
	n.env = env
	n.nodeKind, n.podKind = env.Kind("Node"), env.Kind("Pod")
	n.health = env.Queue("node-lifecycle", 1, func(key string) sim.Task { return &nodeSync{n: n, name: key} })
	n.evictions = env.Queue("taint-eviction", 1, func(key string) sim.Task { return &taintEviction{n: n, key: key} })
	n.collections = env.Queue("pod-garbage-collector", 1, func(string) sim.Task { return &podCollection{n: n} })
	n.nodes = env.Informer(n.nodeKind, n.handleNode)
	n.pods = env.Informer(n.podKind, n.handlePod)
}

// ScriptBegins implements [sim.ScriptListener]: from here the times of outages count.
func (n *NodeLifecycle) ScriptBegins() {
	for _, outage := range n.options.Lost {
		n.env.After("miss "+outage.Node, outage.At, func() {
			n.silent[outage.Node] = n.env.Now()
			n.health.AddAfter(outage.Node, nodeGrace)
		})
		if outage.Back > 0 {
			n.env.After("hear from "+outage.Node, outage.Back, func() { delete(n.silent, outage.Node) })
		}
	}
}

func (n *NodeLifecycle) handleNode(d cache.Delta) {
	node := d.Object.(*corev1.Node)
	if d.Type == apiserver.Deleted {
		n.deleted[node.Name] = true
		n.arm()
		return
	}
	delete(n.deleted, node.Name)
	delete(n.missing, node.Name)
	var before *corev1.Node
	if d.Type == apiserver.Modified {
		before = d.Old.(*corev1.Node)
	}
	if before == nil || nodeReadiness(before) != nodeReadiness(node) {
		for _, other := range n.nodes.List("") { // whether one is tainted depends on the others
			n.health.Add(other.GetName())
		}
	}
	n.health.Add(node.Name)
	if before == nil || !slices.EqualFunc(noExecute(before), noExecute(node), sameTaint) {
		for _, pod := range n.podsOn(node.Name) {
			n.judge(pod)
		}
	}
	n.arm()
}

func (n *NodeLifecycle) handlePod(d cache.Delta) {
	pod := d.Object.(*corev1.Pod)
	if d.Type == apiserver.Deleted {
		n.spare(keyOf(pod))
		return
	}
	before, _ := d.Old.(*corev1.Pod)
	if d.Type == apiserver.Added || before.Spec.NodeName != pod.Spec.NodeName ||
		len(before.Spec.Tolerations) != len(pod.Spec.Tolerations) {
		n.judge(pod)
	}
	n.arm()
}

// podsOn returns the cached pods of a node.
func (n *NodeLifecycle) podsOn(node string) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, obj := range n.pods.List("") {
		if pod := obj.(*corev1.Pod); pod.Spec.NodeName == node {
			pods = append(pods, pod)
		}
	}
	return pods
}

// judge sets when a pod is to be evicted, if it is: processPodOnNode of taint_eviction.go.
func (n *NodeLifecycle) judge(pod *corev1.Pod) {
	node, ok := n.nodes.Get("", pod.Spec.NodeName).(*corev1.Node)
	if !ok {
		return
	}
	key := keyOf(pod)
	taints := noExecute(node)
	in, tolerated, forever := tolerationTime(taints, pod.Spec.Tolerations)
	switch {
	case len(taints) == 0, tolerated && forever:
		n.spare(key)
	case n.evicted[key]:
	case !tolerated:
		n.spare(key)
		n.evicted[key] = true
		n.evictions.Add(key)
	case n.waiting[key] == nil:
		n.waiting[key] = n.env.After("evict "+key, in, func() {
			delete(n.waiting, key)
			n.evicted[key] = true
			n.evictions.Add(key)
		})
	}
}

// spare stops what was to happen to a pod.
func (n *NodeLifecycle) spare(key string) {
	if stop := n.waiting[key]; stop != nil {
		stop()
	}
	delete(n.waiting, key)
	delete(n.evicted, key)
}

// noExecute returns the taints of a node for which pods are evicted.
func noExecute(node *corev1.Node) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectNoExecute })
}

func sameTaint(a, b corev1.Taint) bool { return a.MatchTaint(&b) && a.Value == b.Value }

// tolerates reports whether a toleration is for a taint: ToleratesTaint of k8s.io/api/core/v1/toleration.go.
func tolerates(toleration *corev1.Toleration, taint *corev1.Taint) bool {
	if toleration.Effect != "" && toleration.Effect != taint.Effect || toleration.Key != "" && toleration.Key != taint.Key {
		return false
	}
	return toleration.Operator == corev1.TolerationOpExists ||
		cmp.Or(toleration.Operator, corev1.TolerationOpEqual) == corev1.TolerationOpEqual && toleration.Value == taint.Value
}

// tolerationTime returns for how long a pod tolerates taints, and whether it tolerates them at all, and for ever:
// GetMatchingTolerations, getMinTolerationTime.
func tolerationTime(taints []corev1.Taint, tolerations []corev1.Toleration) (least time.Duration, tolerated, forever bool) {
	forever = true
	for i := range taints {
		at := slices.IndexFunc(tolerations, func(t corev1.Toleration) bool { return tolerates(&t, &taints[i]) })
		if at < 0 {
			return 0, false, false
		}
		if seconds := tolerations[at].TolerationSeconds; seconds != nil {
			if in := time.Duration(max(*seconds, 0)) * time.Second; forever || in < least {
				least, forever = in, false
			}
		}
	}
	return least, true, forever
}

// nodeReadiness returns the status of a node's condition Ready, empty if it has none.
func nodeReadiness(node *corev1.Node) corev1.ConditionStatus {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status
		}
	}
	return ""
}

// allLost reports whether no node is well: then the trouble is taken to be the control plane's own; handleDisruption.
func (n *NodeLifecycle) allLost() bool {
	return !slices.ContainsFunc(n.nodes.List(""), func(obj apiserver.Object) bool {
		readiness := nodeReadiness(obj.(*corev1.Node))
		return readiness == "" || readiness == corev1.ConditionTrue
	})
}

// arm has the collector look at the pods in a while, if there is anything for it to do.
func (n *NodeLifecycle) arm() {
	if n.armed || !slices.ContainsFunc(n.pods.List(""), func(obj apiserver.Object) bool {
		return n.collectable(obj.(*corev1.Pod)) != collectNot
	}) {
		return
	}
	n.armed = true
	n.env.After("collect pods", collectionPeriod, func() {
		n.armed = false
		n.collections.Add(collectionKey)
	})
}

// collectReason is why the collector deletes a pod.
type collectReason uint8

const (
	collectNot collectReason = iota
	collectOutOfService
	collectOrphaned
	collectUnscheduled
)

// collectable reports why the collector deletes a pod. There is nothing to be done about one that is only held by its finalizers.
func (n *NodeLifecycle) collectable(pod *corev1.Pod) collectReason {
	node, exists := n.nodes.Get("", pod.Spec.NodeName).(*corev1.Node)
	switch {
	case terminating(pod) && terminal(pod) && graceOf(pod) == 0:
		return collectNot
	case pod.Spec.NodeName == "" && terminating(pod):
		return collectUnscheduled
	case pod.Spec.NodeName != "" && !exists && n.deleted[pod.Spec.NodeName]:
		return collectOrphaned
	case exists && terminating(pod) && nodeReadiness(node) != corev1.ConditionTrue &&
		slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService }):
		return collectOutOfService
	default:
		return collectNot
	}
}

func (n *NodeLifecycle) nodeTarget(name string) target { return targetOf(n.nodeKind, "", name) }

func (n *NodeLifecycle) podTarget(key string) target { return targetAt(n.podKind, key) }
