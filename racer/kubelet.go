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
	// Wedged names the pods that never terminate, as "name" or "namespace/name".
	Wedged []string
	// Binds makes the kubelet bind pods itself, for a scenario without a scheduler.
	Binds bool
	// Node is the node that pods are then bound to; empty means "node1".
	Node string
}

// Kubelet plays the kubelets of all nodes: it runs the pods that are bound, and terminates those that are deleted. What
// it writes is what the status manager of a real one writes (pkg/kubelet/status/status_manager.go, v1.36): GET, then a
// strategic merge patch of the status; at the end of a pod a terminal phase, and a DELETE with grace 0.
//
// A pod whose containers stop within their grace period Succeeds; one that is killed Fails.
type Kubelet struct {
	options KubeletOptions
	env     sim.RacerEnv
	queue   sim.RacerQueue
	kind    *apiserver.Kind
	pods    *cache.View
	ages    map[types.UID]podAge
}

// podAge holds when a pod's containers were started, and when they were told to stop; zero if they were not.
type podAge struct {
	started, stopping time.Time
}

// NewKubelet returns the kubelets for one run.
func NewKubelet(options KubeletOptions) *Kubelet {
	options.Node = cmp.Or(options.Node, "node1")
	return &Kubelet{options: options, ages: map[types.UID]podAge{}}
}

// Start implements [sim.Racer].
func (k *Kubelet) Start(env sim.RacerEnv) {
	k.env = env
	k.kind = env.Kind("Pod")
	k.queue = env.Queue("pods", 1, func(key string) sim.Task {
		namespace, name, _ := strings.Cut(key, "/")
		return &podSync{kubelet: k, namespace: namespace, name: name}
	})
	k.pods = env.Informer(k.kind, k.handle)
}

func (k *Kubelet) handle(d cache.Delta) {
	pod := d.Object.(*corev1.Pod)
	if d.Type == apiserver.Deleted {
		delete(k.ages, pod.UID)
		return
	}
	if d.Recreated() {
		delete(k.ages, d.Old.GetUID())
	}
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
	dueTermination
)

// due returns what to do next about a pod, and in how long.
func (k *Kubelet) due(pod *corev1.Pod) (due, time.Duration) {
	now, age := k.env.Now(), k.ages[pod.UID]
	switch {
	case terminating(pod):
		grace := graceOf(pod)
		if pod.Spec.NodeName == "" || k.wedged(pod) || k.held(pod) {
			return dueNothing, 0
		}
		return dueTermination, age.stopping.Add(min(k.options.TerminationAfter, grace)).Sub(now)
	case terminal(pod), runningAndReady(pod):
		return dueNothing, 0
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
	phase corev1.PodPhase
	ready bool
}

// Next implements [sim.Task].
func (s *podSync) Next(resp *apiserver.Response) sim.Action {
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
	case dueTermination:
		s.terminate()
	}
	return s.proceed()
}

// terminate plans the end of a pod: not Ready, then a terminal phase, then gone.
func (s *podSync) terminate() {
	s.deletes = true
	if s.kubelet.options.WaitsForFinalizers {
		return
	}
	phase := corev1.PodSucceeded
	if grace := graceOf(s.pod); grace > 0 && s.kubelet.options.TerminationAfter >= grace {
		phase = corev1.PodFailed
	}
	if podReady(s.pod) {
		s.pending = append(s.pending, podChange{phase: s.pod.Status.Phase})
	}
	if !terminal(s.pod) {
		s.pending = append(s.pending, podChange{phase: phase})
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
	switch change.phase {
	case corev1.PodSucceeded:
		state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: "Completed", StartedAt: started, FinishedAt: at}}
	case corev1.PodFailed:
		state = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: 137, Reason: "Error", StartedAt: started, FinishedAt: at}}
	case corev1.PodPending:
		state = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	}
	running := state.Running != nil
	var statuses []corev1.ContainerStatus
	for i := range pod.Spec.Containers {
		container := &pod.Spec.Containers[i]
		statuses = append(statuses, corev1.ContainerStatus{
			Name: container.Name, Image: container.Image, State: state, Ready: change.ready, Started: &running,
		})
	}
	return statuses
}
