package racer

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// nodeSync is one pass over one node: tryUpdateNodeHealth, MarkPodsNotReady, and the two passes that taint it.
type nodeSync struct {
	n       *NodeLifecycle
	name    string
	step    nodeStep
	pods    []*corev1.Pod
	changes []taintChange
	err     error
}

type nodeStep uint8

const (
	nodeBegin nodeStep = iota
	nodeWritten
	nodeMarking
	nodeTaintRead
	nodeTaintWritten
)

// taintChange adds a taint to a node, or takes it off.
type taintChange struct {
	taint corev1.Taint
	add   bool
}

// Next implements [sim.Task].
func (s *nodeSync) Next(resp *apiserver.Response) sim.Action {
	switch s.step {
	case nodeBegin:
		return s.begin()
	case nodeWritten:
		if err := failure(resp); err != nil {
			return over(err)
		}
		s.n.unmarked[s.name] = true
		return s.beginMarking()
	case nodeMarking:
		if err := failure(resp); err != nil && !apierrors.IsNotFound(err) {
			s.err = firstError(s.err, err)
		}
		return s.mark()
	case nodeTaintRead:
		if err := failure(resp); err != nil {
			return over(err)
		}
		return s.taint(resp.Object.(*corev1.Node))
	default:
		if err := failure(resp); err != nil {
			return over(err)
		}
		return s.nextTaint()
	}
}

func (s *nodeSync) begin() sim.Action {
	node, ok := s.n.nodes.Get("", s.name).(*corev1.Node)
	if !ok {
		return sim.Done()
	}
	readiness := nodeReadiness(node)
	if since, silent := s.n.silent[s.name]; silent && readiness != "" && readiness != corev1.ConditionUnknown {
		left := since.Add(nodeGrace).Sub(s.n.env.Now())
		if left <= 0 {
			s.step = nodeWritten
			return sim.Call(s.n.nodeTarget(s.name).updateStatus(s.unknown(node)))
		}
		s.n.health.AddAfter(s.name, left)
	}
	if s.n.unmarked[s.name] && readiness != corev1.ConditionTrue {
		return s.beginMarking()
	}
	delete(s.n.unmarked, s.name)
	return s.beginTaints(node)
}

// unknown returns a copy of a node of which nothing is known.
func (s *nodeSync) unknown(node *corev1.Node) *corev1.Node {
	at := metav1.NewTime(s.n.env.Now())
	changed := *node
	changed.Status.Conditions = slices.Clone(node.Status.Conditions)
	for _, kind := range []corev1.NodeConditionType{
		corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure,
	} {
		i := slices.IndexFunc(changed.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == kind })
		if i < 0 {
			changed.Status.Conditions = append(changed.Status.Conditions, corev1.NodeCondition{
				Type: kind, Status: corev1.ConditionUnknown, Reason: "NodeStatusNeverUpdated",
				Message:           "Kubelet never posted node status.",
				LastHeartbeatTime: node.CreationTimestamp, LastTransitionTime: at,
			})
			continue
		}
		if c := &changed.Status.Conditions[i]; c.Status != corev1.ConditionUnknown {
			c.Status, c.Reason, c.LastTransitionTime = corev1.ConditionUnknown, "NodeStatusUnknown", at
			c.Message = "Kubelet stopped posting node status."
		}
	}
	return &changed
}

func (s *nodeSync) beginMarking() sim.Action {
	s.pods = s.n.podsOn(s.name)
	s.step = nodeMarking
	return s.mark()
}

// mark makes the next pod not Ready that is. It is put as it was cached, so a pod that has changed since is tried again.
func (s *nodeSync) mark() sim.Action {
	for len(s.pods) > 0 {
		pod := s.pods[0]
		s.pods = s.pods[1:]
		i := slices.IndexFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady })
		if i < 0 || pod.Status.Conditions[i].Status == corev1.ConditionFalse {
			continue
		}
		changed := *pod
		changed.Status.Conditions = slices.Clone(pod.Status.Conditions)
		changed.Status.Conditions[i].Status = corev1.ConditionFalse
		changed.Status.Conditions[i].LastTransitionTime = metav1.NewTime(s.n.env.Now())
		return sim.Call(s.n.podTarget(keyOf(pod)).updateStatus(&changed))
	}
	if s.err != nil {
		return sim.Fail(fmt.Errorf("unable to mark all pods of %s not ready: %w", s.name, s.err))
	}
	delete(s.n.unmarked, s.name)
	if node, ok := s.n.nodes.Get("", s.name).(*corev1.Node); ok {
		return s.beginTaints(node)
	}
	return sim.Done()
}

// conditionTaints are the taints that a node has for as long as it has a condition: nodeConditionToTaintKeyStatusMap.
var conditionTaints = []struct {
	condition corev1.NodeConditionType
	status    corev1.ConditionStatus
	key       string
}{
	{corev1.NodeReady, corev1.ConditionFalse, corev1.TaintNodeNotReady},
	{corev1.NodeReady, corev1.ConditionUnknown, corev1.TaintNodeUnreachable},
	{corev1.NodeMemoryPressure, corev1.ConditionTrue, corev1.TaintNodeMemoryPressure},
	{corev1.NodeDiskPressure, corev1.ConditionTrue, corev1.TaintNodeDiskPressure},
	{corev1.NodeNetworkUnavailable, corev1.ConditionTrue, corev1.TaintNodeNetworkUnavailable},
	{corev1.NodePIDPressure, corev1.ConditionTrue, corev1.TaintNodePIDPressure},
}

// beginTaints finds out which taints a node is to have and which not: doNoScheduleTaintingPass, processTaintBaseEviction.
func (s *nodeSync) beginTaints(node *corev1.Node) sim.Action {
	var add, drop []taintChange
	change := func(key string, effect corev1.TaintEffect, wanted bool) {
		taint := corev1.Taint{Key: key, Effect: effect}
		switch has := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }); {
		case wanted && !has:
			taint.TimeAdded = &metav1.Time{Time: s.n.env.Now()}
			add = append(add, taintChange{taint, true})
		case has && !wanted:
			drop = append(drop, taintChange{taint, false})
		}
	}
	for _, row := range conditionTaints {
		change(row.key, corev1.TaintEffectNoSchedule, slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == row.condition && c.Status == row.status
		}))
	}
	change(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule, node.Spec.Unschedulable)
	readiness, spared := nodeReadiness(node), s.n.allLost()
	change(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute, readiness == corev1.ConditionUnknown && !spared)
	change(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute, readiness == corev1.ConditionFalse && !spared)
	s.changes = append(add, drop...)
	return s.nextTaint()
}

// nextTaint reads the node before the next change, as it is now.
func (s *nodeSync) nextTaint() sim.Action {
	if len(s.changes) == 0 {
		return sim.Done()
	}
	s.step = nodeTaintRead
	return sim.Call(s.n.nodeTarget(s.name).get())
}

// taint changes one taint of a node as it was read: PatchNodeTaints.
func (s *nodeSync) taint(node *corev1.Node) sim.Action {
	change := s.changes[0]
	s.changes = s.changes[1:]
	taints := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool { return t.MatchTaint(&change.taint) })
	had := len(taints) < len(node.Spec.Taints)
	if had == change.add {
		return s.nextTaint()
	}
	if change.add {
		taints = append(taints, change.taint)
	}
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": node.ResourceVersion},
		"spec":     map[string]any{"taints": slices.Clip(taints)},
	})
	if err != nil {
		panic(err) // taints always encode
	}
	s.step = nodeTaintWritten
	return sim.Call(s.n.nodeTarget(s.name).patch(types.StrategicMergePatchType, data))
}

// taintEviction evicts one pod: addConditionAndDeletePod, which is tried five times, whatever goes wrong. The pod is known by its
// name alone.
type taintEviction struct {
	n     *NodeLifecycle
	key   string
	step  evictionStep
	tries int
}

type evictionStep uint8

const (
	evictionBegin evictionStep = iota
	evictionRead
	evictionMarked
	evictionDeleted
)

// The tries of an eviction: retries of taint_eviction.go, and the pause between them.
const (
	evictionTries = 5
	evictionPause = 10 * time.Millisecond
)

// Next implements [sim.Task].
func (e *taintEviction) Next(resp *apiserver.Response) sim.Action {
	target := e.n.podTarget(e.key)
	if resp == nil {
		e.step = evictionRead
		return sim.Call(target.get())
	}
	if err := failure(resp); err != nil {
		return e.again(err)
	}
	switch e.step {
	case evictionRead:
		if pod := resp.Object.(*corev1.Pod); !disrupted(pod) {
			e.step = evictionMarked
			return sim.Call(target.patchStatus(types.StrategicMergePatchType, disruptionPatch(pod, "", corev1.PodCondition{
				Reason: "DeletionByTaintManager", Message: "Taint manager: deleting due to NoExecute taint",
				LastTransitionTime: metav1.NewTime(e.n.env.Now()),
			})))
		}
		fallthrough
	case evictionMarked:
		e.step = evictionDeleted
		return sim.Call(target.delete(metav1.DeleteOptions{}))
	default:
		return sim.Done()
	}
}

func (e *taintEviction) again(err error) sim.Action {
	if e.tries++; e.tries < evictionTries {
		return sim.Wait(evictionPause)
	}
	e.n.env.Log(fmt.Sprintf("gave up deleting %s: %v", e.key, err))
	delete(e.n.evicted, e.key)
	return sim.Done()
}

// disrupted reports whether a pod is marked for eviction already.
func disrupted(pod *corev1.Pod) bool {
	condition := podCondition(pod, corev1.DisruptionTarget)
	return condition != nil && condition.Status == corev1.ConditionTrue && condition.Reason == "DeletionByTaintManager"
}

// disruptionPatch is a strategic merge patch that gives a pod the condition DisruptionTarget and, unless it is empty, a phase.
func disruptionPatch(pod *corev1.Pod, phase corev1.PodPhase, condition corev1.PodCondition) []byte {
	status := map[string]any{}
	if condition.Reason != "" {
		condition.Type, condition.Status, condition.ObservedGeneration = corev1.DisruptionTarget, corev1.ConditionTrue, pod.Generation
		status["conditions"] = []corev1.PodCondition{condition}
	}
	if phase != "" {
		status["phase"], status["observedGeneration"] = phase, pod.Generation
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		panic(err) // a status always encodes
	}
	return data
}

// podCollection is one round of the pod garbage collector: gcTerminating, gcOrphaned, gcUnscheduledTerminating. What fails is left to
// the next round.
type podCollection struct {
	n       *NodeLifecycle
	step    collectionStep
	nodes   []string      // whose absence is still to be made sure of
	victims []*corev1.Pod // sorted by reason
}

type collectionStep uint8

const (
	collectionBegin collectionStep = iota
	collectionNode
	collectionFailed
	collectionDeleted
)

// Next implements [sim.Task].
func (c *podCollection) Next(resp *apiserver.Response) sim.Action {
	switch c.step {
	case collectionBegin:
		c.begin()
	case collectionNode:
		node := c.nodes[0]
		c.nodes = c.nodes[1:]
		delete(c.n.missing, node)
		if apierrors.IsNotFound(failure(resp)) {
			c.victims = append(c.victims, selectPods(c.n.podsOn(node), func(pod *corev1.Pod) bool {
				return c.n.collectable(pod) == collectOrphaned
			})...)
		}
	case collectionFailed:
		if err := failure(resp); err == nil {
			return c.delete()
		}
		c.victims = c.victims[1:]
	default:
		c.victims = c.victims[1:]
	}
	if len(c.nodes) > 0 {
		c.step = collectionNode
		return sim.Call(c.n.nodeTarget(c.nodes[0]).get())
	}
	if len(c.victims) == 0 {
		c.n.arm()
		return sim.Done()
	}
	pod := c.victims[0]
	if terminal(pod) {
		return c.delete()
	}
	var condition corev1.PodCondition
	if c.n.collectable(pod) == collectOrphaned {
		condition = corev1.PodCondition{Reason: "DeletionByPodGC", Message: "PodGC: node no longer exists",
			LastTransitionTime: metav1.NewTime(c.n.env.Now())}
	}
	c.step = collectionFailed
	patch := disruptionPatch(pod, corev1.PodFailed, condition)
	return sim.Call(c.n.podTarget(keyOf(pod)).patchStatus(types.StrategicMergePatchType, patch))
}

func (c *podCollection) delete() sim.Action {
	c.step = collectionDeleted
	var grace int64
	return sim.Call(c.n.podTarget(keyOf(c.victims[0])).delete(metav1.DeleteOptions{GracePeriodSeconds: &grace}))
}

// begin finds the pods to delete, and the nodes that have been missing for long enough.
func (c *podCollection) begin() {
	now, missing := c.n.env.Now(), map[string]bool{}
	var unscheduled []*corev1.Pod
	for _, obj := range c.n.pods.List("") {
		switch pod := obj.(*corev1.Pod); c.n.collectable(pod) {
		case collectOutOfService:
			c.victims = append(c.victims, pod)
		case collectUnscheduled:
			unscheduled = append(unscheduled, pod)
		case collectOrphaned:
			missing[pod.Spec.NodeName] = true
		case collectNot:
		}
	}
	c.victims = append(c.victims, unscheduled...)
	for _, node := range slices.Sorted(maps.Keys(missing)) {
		since, known := c.n.missing[node]
		switch {
		case !known:
			c.n.missing[node] = now
		case now.Sub(since) >= nodeQuarantine:
			c.nodes = append(c.nodes, node)
		}
	}
}
