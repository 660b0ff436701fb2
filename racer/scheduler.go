package racer

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
)

// SchedulerOptions configures a [Scheduler].
type SchedulerOptions struct {
	// Nodes are the names of the nodes that pods are put on, in turn. Empty means the Node objects of the cluster, in
	// the order of their names. Node objects that are unschedulable or being deleted are passed over, and those with taints
	// that the pod does not tolerate.
	Nodes []string
}

// Scheduler plays kube-scheduler, with no other policy than taking the nodes in turn: POST pods/{name}/binding for a pod,
// or, while there is no node to put it on, a status patch that says Unschedulable.
type Scheduler struct {
	options SchedulerOptions
	env     sim.RacerEnv
	queue   sim.RacerQueue
	kind    *apiserver.Kind
	pods    *cache.View
	nodes   *cache.View
	turn    int
}

// NewScheduler returns the scheduler for one run.
func NewScheduler(options SchedulerOptions) *Scheduler {
	options.Nodes = slices.Clone(options.Nodes)
	return &Scheduler{options: options}
}

// Start implements [sim.Racer].
func (s *Scheduler) Start(env sim.RacerEnv) {
	s.env = env
	s.kind = env.Kind("Pod")
	s.queue = env.Queue("pods", 1, func(key string) sim.Task {
		namespace, name := splitKey(key)
		return &binding{scheduler: s, target: target{
			kind: s.kind, namespace: namespace, name: name, manager: managerScheduler}}
	})
	s.nodes = env.Informer(env.Kind("Node"), s.handleNode)
	s.pods = env.Informer(s.kind, s.handlePod)
}

func (s *Scheduler) handlePod(d cache.Delta) {
	if pod := d.Object.(*corev1.Pod); d.Type != apiserver.Deleted && schedulable(pod) && !unschedulable(pod) {
		s.queue.Add(keyOf(pod))
	}
}

// handleNode gives the pods that found no node another try.
func (s *Scheduler) handleNode(cache.Delta) {
	if s.pods == nil {
		return
	}
	for _, obj := range s.pods.List("") {
		if pod := obj.(*corev1.Pod); schedulable(pod) {
			s.queue.Add(keyOf(pod))
		}
	}
}

func schedulable(pod *corev1.Pod) bool {
	return pod.Spec.NodeName == "" && !terminating(pod) && !terminal(pod) && len(pod.Spec.SchedulingGates) == 0
}

func unschedulable(pod *corev1.Pod) bool {
	scheduled := podCondition(pod, corev1.PodScheduled)
	return scheduled != nil && scheduled.Status == corev1.ConditionFalse
}

// nextNode returns the node whose turn it is, or nothing.
func (s *Scheduler) nextNode(pod *corev1.Pod) string {
	var nodes []string
	for _, name := range s.options.Nodes {
		if node, ok := s.nodes.Get("", name).(*corev1.Node); !ok || fits(pod, node) {
			nodes = append(nodes, name)
		}
	}
	if len(s.options.Nodes) == 0 {
		for _, obj := range s.nodes.List("") {
			if node := obj.(*corev1.Node); fits(pod, node) {
				nodes = append(nodes, node.Name)
			}
		}
	}
	if len(nodes) == 0 {
		return ""
	}
	node := nodes[s.turn%len(nodes)]
	s.turn++
	return node
}

// fits reports whether a pod may be put on a node.
func fits(pod *corev1.Pod, node *corev1.Node) bool {
	return !node.Spec.Unschedulable && node.DeletionTimestamp == nil &&
		!slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
			return taint.Effect != corev1.TaintEffectPreferNoSchedule &&
				!slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return tolerates(&t, &taint) })
		})
}

// binding is one pass over one pod: one call.
type binding struct {
	scheduler *Scheduler
	target    target
	called    bool
}

// Next implements [sim.Task].
func (b *binding) Next(resp *apiserver.Response) sim.Action {
	if b.called {
		return over(failure(resp))
	}
	pod, ok := b.scheduler.pods.Get(b.target.namespace, b.target.name).(*corev1.Pod)
	if !ok || !schedulable(pod) {
		return sim.Done()
	}
	b.called = true
	if node := b.scheduler.nextNode(pod); node != "" {
		return sim.Call(b.target.bind(pod.UID, node))
	}
	if unschedulable(pod) {
		return sim.Done()
	}
	return sim.Call(b.target.patchStatus(types.StrategicMergePatchType, b.unschedulablePatch(pod)))
}

func (b *binding) unschedulablePatch(pod *corev1.Pod) []byte {
	status := corev1.PodStatus{Conditions: []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
		Message: "no nodes available to schedule pods", LastTransitionTime: metav1.NewTime(b.scheduler.env.Now()),
	}}}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		panic(err) // a status always encodes
	}
	return data
}
