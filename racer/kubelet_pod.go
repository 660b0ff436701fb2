package racer

import (
	"encoding/json"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

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
