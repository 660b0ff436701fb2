package racer

import (
	"cmp"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
)

var replicaSetGVK = appsv1.SchemeGroupVersion.WithKind("ReplicaSet")

// ReplicaSetControllerOptions configures a [ReplicaSetController].
type ReplicaSetControllerOptions struct {
	// Workers is how many sets are synced at a time; zero means 5, the default of --concurrent-replicaset-syncs.
	Workers int
}

// ReplicaSetController plays kube-controller-manager's ReplicaSet controller (pkg/controller/replicaset, v1.36.3, which 1.37
// has not changed): two informers, a rate-limited queue, and one API call a step.
//
// It keeps count of the creations and deletions it has asked for, and asks for no more until its cache has shown them; and it
// refuses to sync before its caches hold its own creates and updates. What the real one asks for concurrently, a batch of
// creations or all deletions, comes one after the other here.
type ReplicaSetController struct {
	options ReplicaSetControllerOptions
	env     sim.RacerEnv
	queue   sim.RacerQueue

	podKind, setKind *apiserver.Kind
	pods, sets       *cache.View

	own      *consistency
	expected expectations
}

// NewReplicaSetController returns the controller for one run.
func NewReplicaSetController(options ReplicaSetControllerOptions) *ReplicaSetController {
	options.Workers = cmp.Or(options.Workers, 5)
	return &ReplicaSetController{options: options, expected: expectations{}}
}

// Start implements [sim.Racer].
func (c *ReplicaSetController) Start(env sim.RacerEnv) {
	c.env = env
	c.podKind, c.setKind = env.Kind("Pod"), env.Kind("ReplicaSet")
	c.queue = env.Queue("replicaset", c.options.Workers, c.begin)
	c.sets = env.Informer(c.setKind, c.handleSet)
	c.pods = env.Informer(c.podKind, c.handlePod)
	c.own = newConsistency(c.pods, c.sets)
}

func (c *ReplicaSetController) begin(key string) sim.Task { return &replicaSync{c: c, key: key} }

func (c *ReplicaSetController) enqueue(set *appsv1.ReplicaSet) { c.queue.Add(keyOf(set)) }

func (c *ReplicaSetController) handleSet(d cache.Delta) {
	if d.Recreated() {
		c.setGone(d.Old.(*appsv1.ReplicaSet))
	}
	set := d.Object.(*appsv1.ReplicaSet)
	if d.Type == apiserver.Deleted {
		c.setGone(set)
		return
	}
	c.enqueue(set)
}

// setGone forgets all about a set that was deleted, so that one of the same name starts clean.
func (c *ReplicaSetController) setGone(set *appsv1.ReplicaSet) {
	c.own.forgetOwner(set)
	delete(c.expected, keyOf(set))
	c.enqueue(set)
}

func (c *ReplicaSetController) handlePod(d cache.Delta) {
	pod := d.Object.(*corev1.Pod)
	switch {
	case d.Type == apiserver.Deleted, d.Type == apiserver.Added && terminating(pod):
		c.podGone(pod)
	case d.Type == apiserver.Added:
		c.podAdded(pod)
	default:
		c.podUpdated(d.Old.(*corev1.Pod), pod)
	}
}

func (c *ReplicaSetController) podGone(pod *corev1.Pod) {
	if set := c.resolve(pod.Namespace, metav1.GetControllerOfNoCopy(pod)); set != nil {
		c.expected.deleted(keyOf(set), pod)
		c.enqueue(set)
	}
}

func (c *ReplicaSetController) podAdded(pod *corev1.Pod) {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		c.enqueueMatching(pod)
	} else if set := c.resolve(pod.Namespace, ref); set != nil {
		c.expected.created(keyOf(set), 1)
		c.enqueue(set)
	}
}

func (c *ReplicaSetController) podUpdated(old, pod *corev1.Pod) {
	if old.ResourceVersion == pod.ResourceVersion {
		return
	}
	relabelled := !maps.Equal(old.Labels, pod.Labels)
	if terminating(pod) {
		// A deletion counts from its beginning. The set need not wait for the end of it.
		c.podGone(pod)
		if relabelled {
			c.podGone(old)
		}
		return
	}
	oldRef, ref := metav1.GetControllerOfNoCopy(old), metav1.GetControllerOfNoCopy(pod)
	refChanged := !sameRef(oldRef, ref)
	if refChanged {
		if set := c.resolve(pod.Namespace, oldRef); set != nil {
			c.enqueue(set)
		}
	}
	if ref == nil {
		if relabelled || refChanged {
			c.enqueueMatching(pod)
		}
		return
	}
	set := c.resolve(pod.Namespace, ref)
	if set == nil {
		return
	}
	c.enqueue(set)
	if set.Spec.MinReadySeconds > 0 && !podReady(old) && podReady(pod) {
		c.queue.AddAfter(keyOf(set), time.Duration(set.Spec.MinReadySeconds)*time.Second)
	}
}

// resolve returns the cached set that a controller reference points to, or nil.
func (c *ReplicaSetController) resolve(namespace string, ref *metav1.OwnerReference) *appsv1.ReplicaSet {
	return controllerIn[*appsv1.ReplicaSet](c.sets, namespace, ref)
}

func (c *ReplicaSetController) enqueueMatching(pod *corev1.Pod) {
	for _, set := range mayAdopt(c.sets, pod, func(s *appsv1.ReplicaSet) *metav1.LabelSelector { return s.Spec.Selector }) {
		c.enqueue(set)
	}
}

// siblings returns the cached sets that have the same controller as a set, itself included; none if it has no controller.
func (c *ReplicaSetController) siblings(set *appsv1.ReplicaSet) []*appsv1.ReplicaSet {
	ref := metav1.GetControllerOfNoCopy(set)
	if ref == nil {
		return nil
	}
	var siblings []*appsv1.ReplicaSet
	for _, obj := range c.sets.List("") {
		if other := metav1.GetControllerOfNoCopy(obj); other != nil && other.UID == ref.UID {
			siblings = append(siblings, obj.(*appsv1.ReplicaSet))
		}
	}
	return siblings
}
