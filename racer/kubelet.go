package racer

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	// Unready are the images with which a pod never becomes Ready: it is Running at once, and stays so, as a program does that
	// cannot serve. What counts is the image that a container has while the pod is not Ready.
	Unready []string
	// Wedged names the pods that never terminate, as "name" or "namespace/name".
	Wedged []string
	// Lost are the times in which a node is lost: nothing is written about its pods, and none of them goes.
	Lost []Outage
	// Binds makes the kubelet bind pods itself, for a scenario without a scheduler.
	Binds bool
	// Node is the node that pods are then bound to; empty means [DefaultNode].
	Node string
}

// DefaultNode is the node that a kubelet binds pods to which is told of no other.
const DefaultNode = "node1"

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
	options.Node = cmp.Or(options.Node, DefaultNode)
	return &Kubelet{
		options: options, ages: map[types.UID]podAge{}, failed: make([]int, len(options.Fails)), lost: map[string]bool{},
	}
}

// Start implements [sim.Racer].
func (k *Kubelet) Start(env sim.RacerEnv) {
	k.env = env
	k.kind = env.Kind("Pod")
	k.queue = env.Queue("pods", 1, func(key string) sim.Task {
		namespace, name := splitKey(key)
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
		k.queue.AddAfter(keyOf(pod), in)
	default:
		k.queue.Add(keyOf(pod))
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
	in, never := age.started.Add(k.options.ReadyAfter).Sub(now), k.neverReady(pod)
	switch {
	case pod.Status.Phase != corev1.PodRunning && (in > 0 || never):
		return dueRunning, 0
	case never:
		return dueNothing, 0
	default:
		return dueReady, in
	}
}

func (k *Kubelet) neverReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return slices.Contains(k.options.Unready, c.Image) })
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
		slices.Contains(k.options.Wedged, keyOf(pod))
}
