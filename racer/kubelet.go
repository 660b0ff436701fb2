package racer

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
)

// KubeletOptions configures a [Kubelet]. All times are virtual. With the zero value a bound pod is Running and Ready, and
// a terminating one gone, without delay.
type KubeletOptions struct {
	// ReadyAfter is how long a pod takes from being bound (or from the start of the run) to being Ready. If it is zero,
	// one status write makes the pod Running and Ready; otherwise one makes it Running at once, and another Ready later.
	ReadyAfter time.Duration
	// TerminationAfter is how long the containers of a terminating pod take to stop. They are killed when the pod's
	// grace period is over. For a pod that is terminating already when the run starts, both count from there.
	TerminationAfter time.Duration
	// WaitsForFinalizers leaves a terminating pod as it is until it has no finalizers, and then deletes it with grace 0, as
	// KWOK's stages and most stand-ins for a kubelet do. A real one ends the containers at once and says so in the status.
	WaitsForFinalizers bool
	// CompletesAfter is how long the containers run of a pod that has been made Ready and whose restartPolicy is not Always.
	// Then they end, all at once, and the pod Succeeds. Zero means that they run until the pod is deleted.
	CompletesAfter time.Duration
	// Fails says which containers fail then. Those of a pod whose restartPolicy is OnFailure are restarted, and the others
	// make it Failed.
	Fails []PodFailure
	// Wedged names the pods that never terminate, as "name" or "namespace/name".
	Wedged []string
	// Lost are the times in which a node is lost: nothing is written about its pods, and none of them goes.
	Lost []Outage
	// Binds makes the kubelet bind pods itself, for a scenario without a scheduler.
	Binds bool
	// Node is the node that pods are then bound to; empty means "node1".
	Node string
}

// PodFailure says which pods fail, by their labels, and how. Of several for a pod the first one counts.
type PodFailure struct {
	// Labels that the pods have.
	Labels map[string]string
	// Times is how often it happens, counted over all pods; zero means always.
	Times int
	// ExitCode is that of the containers; zero means 1.
	ExitCode int32
}

// Outage is a time in which a node is lost: it cannot reach the API server, and nobody knows what goes on there.
type Outage struct {
	// Node is the name of the node.
	Node string
	// At is when it is lost, since the script began.
	At time.Duration
	// Back is when it is back, since the script began; zero means never.
	Back time.Duration
}

// Kubelet plays the kubelets of all nodes: it runs the pods that are bound, and terminates those that are deleted. What
// it writes is what the status manager of a real one writes (pkg/kubelet/status/status_manager.go, v1.36): GET, then a
// strategic merge patch of the status; at the end of a pod a terminal phase, and a DELETE with grace 0.
//
// A pod whose containers stop within their grace period Succeeds; one that is killed Fails.
//
// A node that was lost and is back says so by GET and PATCH of the Node's status, if there is a Node object.
type Kubelet struct {
	options KubeletOptions
	env     sim.RacerEnv
	queue   sim.RacerQueue
	nodes   sim.RacerQueue
	kind    *apiserver.Kind
	pods    *cache.View
	ages    map[types.UID]podAge
	failed  []int           // how often each of the options' failures has happened
	lost    map[string]bool // the nodes that are lost at present
}

// podAge holds when a pod's containers were started, and when they were told to stop; zero if they were not.
type podAge struct {
	started, stopping time.Time
	restarts          int  // of containers that had failed
	decided           bool // whether it is known how the containers will end
	exitCode          int32
}

// NewKubelet returns the kubelets for one run.
func NewKubelet(options KubeletOptions) *Kubelet {
	options.Node = cmp.Or(options.Node, "node1")
	return &Kubelet{
		options: options, ages: map[types.UID]podAge{}, failed: make([]int, len(options.Fails)), lost: map[string]bool{},
	}
}

// Start implements [sim.Racer].
func (k *Kubelet) Start(env sim.RacerEnv) {
	k.env = env
	k.kind = env.Kind("Pod")
	k.queue = env.Queue("pods", 1, func(key string) sim.Task {
		namespace, name, _ := strings.Cut(key, "/")
		return &podSync{kubelet: k, namespace: namespace, name: name}
	})
	if len(k.options.Lost) > 0 {
		k.nodes = env.Queue("nodes", 1, func(key string) sim.Task {
			return &nodeReturn{kubelet: k, target: target{kind: env.Kind("Node"), name: key, manager: managerKubelet}}
		})
	}
	k.pods = env.Informer(k.kind, k.handle)
}

// ScriptBegins implements [sim.ScriptListener]: from here the times of outages count.
func (k *Kubelet) ScriptBegins() {
	for _, outage := range k.options.Lost {
		k.env.After("lose "+outage.Node, outage.At, func() { k.lost[outage.Node] = true })
		if outage.Back > 0 {
			k.env.After("find "+outage.Node, outage.Back, func() { k.find(outage.Node) })
		}
	}
}

// find ends an outage: the kubelet sees what has become of its pods, and what is due about them.
func (k *Kubelet) find(node string) {
	delete(k.lost, node)
	k.nodes.Add(node)
	for _, obj := range k.pods.List("") {
		if pod := obj.(*corev1.Pod); k.nodeOf(pod) == node {
			k.see(pod)
		}
	}
}

// nodeOf returns the node whose kubelet cares about a pod.
func (k *Kubelet) nodeOf(pod *corev1.Pod) string { return cmp.Or(pod.Spec.NodeName, k.options.Node) }

func (k *Kubelet) handle(d cache.Delta) {
	pod := d.Object.(*corev1.Pod)
	if d.Type == apiserver.Deleted {
		delete(k.ages, pod.UID)
		return
	}
	if d.Recreated() {
		delete(k.ages, d.Old.GetUID())
	}
	if !k.lost[k.nodeOf(pod)] {
		k.see(pod)
	}
}

// see notes what a pod has come to, and queues it for when something is due.
func (k *Kubelet) see(pod *corev1.Pod) {
	age := k.ages[pod.UID]
	if pod.Spec.NodeName != "" && age.started.IsZero() {
		age.started = k.env.Now()
	}
	if terminating(pod) && age.stopping.IsZero() {
		age.stopping = k.env.Now()
	}
	k.ages[pod.UID] = age
	k.enqueue(pod)
}

// enqueue queues a pod for when something is due.
func (k *Kubelet) enqueue(pod *corev1.Pod) {
	switch due, in := k.due(pod); {
	case due == dueNothing:
	case in > 0:
		k.queue.AddAfter(key(pod.Namespace, pod.Name), in)
	default:
		k.queue.Add(key(pod.Namespace, pod.Name))
	}
}

// due is what a kubelet does next about a pod.
type due uint8

const (
	dueNothing due = iota
	dueBinding
	dueRunning
	dueReady
	dueCompletion
	dueTermination
)

// due returns what to do next about a pod, and in how long.
func (k *Kubelet) due(pod *corev1.Pod) (due, time.Duration) {
	now, age := k.env.Now(), k.ages[pod.UID]
	switch {
	case k.lost[k.nodeOf(pod)]:
		return dueNothing, 0
	case terminating(pod):
		grace := graceOf(pod)
		if pod.Spec.NodeName == "" || k.wedged(pod) || k.held(pod) {
			return dueNothing, 0
		}
		return dueTermination, age.stopping.Add(min(k.options.TerminationAfter, grace)).Sub(now)
	case terminal(pod):
		return dueNothing, 0
	case runningAndReady(pod):
		return k.dueWhenReady(pod)
	case pod.Spec.NodeName == "" && k.options.Binds:
		return dueBinding, 0
	case pod.Spec.NodeName == "":
		return dueNothing, 0
	}
	in := age.started.Add(k.options.ReadyAfter).Sub(now)
	if pod.Status.Phase != corev1.PodRunning && in > 0 {
		return dueRunning, 0
	}
	return dueReady, in
}

// held reports whether all that is left to a terminating pod is that its finalizers go.
func (k *Kubelet) held(pod *corev1.Pod) bool {
	if k.options.WaitsForFinalizers {
		return len(pod.Finalizers) > 0
	}
	return terminal(pod) && graceOf(pod) == 0
}

// dueWhenReady returns what to do about a pod that runs, if its containers end by themselves.
func (k *Kubelet) dueWhenReady(pod *corev1.Pod) (due, time.Duration) {
	if k.options.CompletesAfter == 0 || pod.Spec.RestartPolicy == corev1.RestartPolicyAlways {
		return dueNothing, 0
	}
	age := k.ages[pod.UID]
	runs := time.Duration(age.restarts+1) * k.options.CompletesAfter
	return dueCompletion, age.started.Add(k.options.ReadyAfter + runs).Sub(k.env.Now())
}

// exitCode decides how the containers of a pod end. It does not decide again before that is written.
func (k *Kubelet) exitCode(pod *corev1.Pod) int32 {
	age := k.ages[pod.UID]
	if age.decided {
		return age.exitCode
	}
	age.decided = true
	for i, failure := range k.options.Fails {
		if labels.SelectorFromSet(failure.Labels).Matches(labels.Set(pod.Labels)) &&
			(failure.Times == 0 || k.failed[i] < failure.Times) {
			k.failed[i]++
			age.exitCode = cmp.Or(failure.ExitCode, 1)
			break
		}
	}
	k.ages[pod.UID] = age
	return age.exitCode
}

// restarted notes that the containers of a pod run again.
func (k *Kubelet) restarted(pod *corev1.Pod) {
	age := k.ages[pod.UID]
	age.restarts, age.decided, age.exitCode = age.restarts+1, false, 0
	k.ages[pod.UID] = age
}

func (k *Kubelet) wedged(pod *corev1.Pod) bool {
	return slices.Contains(k.options.Wedged, pod.Name) ||
		slices.Contains(k.options.Wedged, key(pod.Namespace, pod.Name))
}

func terminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func graceOf(pod *corev1.Pod) time.Duration {
	if pod.DeletionGracePeriodSeconds == nil {
		return 0
	}
	return time.Duration(*pod.DeletionGracePeriodSeconds) * time.Second
}

// podSync is one pass over one pod.
type podSync struct {
	kubelet         *Kubelet
	namespace, name string
	step            podSyncStep
	pod             *corev1.Pod // as the view had it
	pending         []podChange // status writes to make, each after a read
	deletes         bool        // whether the pod goes after them
}

type podSyncStep uint8

const (
	podSyncBegin podSyncStep = iota
	podSyncLast              // the answer to the last request is due
	podSyncRead
	podSyncWrite
)

// podChange is a status to bring a pod to.
type podChange struct {
	phase    corev1.PodPhase
	ready    bool
	exitCode int32
	restart  bool // whether the containers have failed, and run again
}

// Next implements [sim.Task].
func (s *podSync) Next(resp *apiserver.Response) sim.Action {
	if s.pod != nil && s.kubelet.lost[s.kubelet.nodeOf(s.pod)] {
		return sim.Done() // it will see to it when it is back
	}
	switch s.step {
	case podSyncBegin:
		return s.begin()
	case podSyncRead:
		if err := failure(resp); err != nil {
			return over(err)
		}
		return s.write(resp.Object.(*corev1.Pod))
	case podSyncWrite:
		if err := failure(resp); err != nil {
			return over(err)
		}
		if s.pending[0].restart {
			s.kubelet.restarted(s.pod)
		}
		s.pending = s.pending[1:]
		return s.proceed()
	default:
		return over(failure(resp))
	}
}

// over ends a pass. An object that is gone needs no retry. A conflict does: not every one comes from another write, whose
// event would bring the key back.
func over(err error) sim.Action {
	if err == nil || apierrors.IsNotFound(err) {
		return sim.Done()
	}
	return sim.Fail(err)
}

func (s *podSync) target() target {
	return target{kind: s.kubelet.kind, namespace: s.namespace, name: s.name, manager: managerKubelet}
}

func (s *podSync) begin() sim.Action {
	pod, ok := s.kubelet.pods.Get(s.namespace, s.name).(*corev1.Pod)
	if !ok {
		return sim.Done()
	}
	s.pod = pod
	what, in := s.kubelet.due(pod)
	if in > 0 {
		s.kubelet.enqueue(pod)
		return sim.Done()
	}
	switch what {
	case dueNothing:
		return sim.Done()
	case dueBinding:
		s.step = podSyncLast
		return sim.Call(s.target().bind(pod.UID, s.kubelet.options.Node))
	case dueRunning:
		s.pending = []podChange{{phase: corev1.PodRunning}}
	case dueReady:
		s.pending = []podChange{{phase: corev1.PodRunning, ready: true}}
	case dueCompletion:
		s.complete()
	case dueTermination:
		s.terminate()
	}
	return s.proceed()
}

// complete plans what follows when the containers of a pod end by themselves.
func (s *podSync) complete() {
	change := podChange{phase: corev1.PodSucceeded, exitCode: s.kubelet.exitCode(s.pod)}
	switch {
	case change.exitCode == 0:
	case s.pod.Spec.RestartPolicy == corev1.RestartPolicyOnFailure:
		change.phase, change.ready, change.restart = corev1.PodRunning, true, true
	default:
		change.phase = corev1.PodFailed
	}
	s.pending = []podChange{change}
}

// terminate plans the end of a pod: not Ready, then a terminal phase, then gone.
func (s *podSync) terminate() {
	s.deletes = true
	if s.kubelet.options.WaitsForFinalizers {
		return
	}
	end := podChange{phase: corev1.PodSucceeded}
	if grace := graceOf(s.pod); grace > 0 && s.kubelet.options.TerminationAfter >= grace {
		end = podChange{phase: corev1.PodFailed, exitCode: 137}
	}
	if podReady(s.pod) {
		s.pending = append(s.pending, podChange{phase: s.pod.Status.Phase})
	}
	if !terminal(s.pod) {
		s.pending = append(s.pending, end)
	}
}

func (s *podSync) proceed() sim.Action {
	switch {
	case len(s.pending) > 0:
		s.step = podSyncRead
		return sim.Call(s.target().get())
	case s.deletes:
		s.step = podSyncLast
		return sim.Call(s.target().delete(deleteNow(s.pod.UID)))
	default:
		return sim.Done()
	}
}

// deleteNow are the options that remove a pod for good.
func deleteNow(uid types.UID) metav1.DeleteOptions {
	var grace int64
	return metav1.DeleteOptions{GracePeriodSeconds: &grace, Preconditions: &metav1.Preconditions{UID: &uid}}
}

func (s *podSync) write(live *corev1.Pod) sim.Action {
	if live.UID != s.pod.UID {
		return sim.Done()
	}
	s.step = podSyncWrite
	data := statusPatch(live, s.pending[0], s.kubelet.env.Now())
	return sim.Call(s.target().patchStatus(types.StrategicMergePatchType, data))
}

// statusPatch returns the strategic merge patch that brings a pod to a status. A condition keeps the time of its last
// transition if it does not change.
func statusPatch(pod *corev1.Pod, change podChange, now time.Time) []byte {
	at := metav1.NewTime(now)
	status := corev1.PodStatus{Phase: change.phase}
	if pod.Status.StartTime == nil {
		status.StartTime = &at
	}
	reason := ""
	switch {
	case change.phase == corev1.PodSucceeded:
		reason = "PodCompleted"
	case change.phase == corev1.PodFailed:
		reason = "PodFailed"
	case !change.ready:
		reason = "ContainersNotReady"
	}
	ready := conditionStatus(change.ready)
	for _, condition := range []corev1.PodCondition{
		{Type: corev1.PodInitialized, Status: corev1.ConditionTrue},
		{Type: corev1.ContainersReady, Status: ready, Reason: reason},
		{Type: corev1.PodReady, Status: ready, Reason: reason},
	} {
		old := podCondition(pod, condition.Type)
		if old != nil && old.Status == condition.Status && old.Reason == condition.Reason {
			continue
		}
		condition.LastTransitionTime = at
		if old != nil && old.Status == condition.Status {
			condition.LastTransitionTime = old.LastTransitionTime
		}
		status.Conditions = append(status.Conditions, condition)
	}
	status.ContainerStatuses = containerStatuses(pod, change, at)
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err != nil {
		panic(err) // a status always encodes
	}
	return data
}

func conditionStatus(is bool) corev1.ConditionStatus {
	if is {
		return corev1.ConditionTrue
	}
	return corev1.ConditionFalse
}

// containerStatuses returns the statuses of a pod's containers, which all start and stop together.
func containerStatuses(pod *corev1.Pod, change podChange, at metav1.Time) []corev1.ContainerStatus {
	started := at
	if pod.Status.StartTime != nil {
		started = *pod.Status.StartTime
	}
	state := corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}}
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: change.exitCode, Reason: "Completed", StartedAt: started, FinishedAt: at}}
	if change.exitCode != 0 {
		ended.Terminated.Reason = "Error"
	}
	switch change.phase {
	case corev1.PodSucceeded, corev1.PodFailed:
		state = ended
	case corev1.PodPending:
		state = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	}
	running := state.Running != nil
	var statuses []corev1.ContainerStatus
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		status := corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, State: state, Ready: change.ready, Started: &running,
		}
		if before := containerStatus(pod, container.Name); before != nil {
			status.RestartCount, status.LastTerminationState = before.RestartCount, before.LastTerminationState
		}
		if change.restart {
			status.RestartCount++
			status.LastTerminationState = ended
			status.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}}
		}
		statuses = append(statuses, status)
	}
	return statuses
}

// containerStatus returns the status of a container of a pod, nil if it has none yet.
func containerStatus(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if pod.Status.ContainerStatuses[i].Name == name {
			return &pod.Status.ContainerStatuses[i]
		}
	}
	return nil
}

// nodeReturn says of a node that it is back: GET, and a strategic merge patch of its status; pkg/kubelet/kubelet_node_status.go.
type nodeReturn struct {
	kubelet *Kubelet
	target  target
	step    podSyncStep
}

// Next implements [sim.Task].
func (n *nodeReturn) Next(resp *apiserver.Response) sim.Action {
	switch n.step {
	case podSyncBegin:
		n.step = podSyncRead
		return sim.Call(n.target.get())
	case podSyncRead:
		if err := failure(resp); err != nil {
			return over(err)
		}
		n.step = podSyncLast
		return sim.Call(n.target.patchStatus(types.StrategicMergePatchType, n.patch(resp.Object.(*corev1.Node))))
	default:
		return over(failure(resp))
	}
}

// patch makes every condition again what a kubelet that is well makes it.
func (n *nodeReturn) patch(node *corev1.Node) []byte {
	at := metav1.NewTime(n.kubelet.env.Now())
	var conditions []corev1.NodeCondition
	for _, condition := range []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientMemory",
			Message: "kubelet has sufficient memory available"},
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasNoDiskPressure",
			Message: "kubelet has no disk pressure"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "KubeletHasSufficientPID",
			Message: "kubelet has sufficient PID available"},
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status"},
	} {
		condition.LastHeartbeatTime, condition.LastTransitionTime = at, at
		for _, old := range node.Status.Conditions {
			if old.Type == condition.Type && old.Status == condition.Status {
				condition.LastTransitionTime = old.LastTransitionTime
			}
		}
		conditions = append(conditions, condition)
	}
	data, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions}})
	if err != nil {
		panic(err) // conditions always encode
	}
	return data
}
