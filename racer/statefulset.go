package racer

import (
	"cmp"
	"maps"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
)

// StatefulSetControllerOptions configures a [StatefulSetController]. The zero value plays Kubernetes 1.36 with its
// defaults.
type StatefulSetControllerOptions struct {
	// Version is the minor version of Kubernetes whose controller is played; empty means [apiserver.V136]. Under
	// [apiserver.V137] currentRevision follows updateRevision for every update strategy (kubernetes PR 136833), and
	// maxUnavailable is honoured.
	Version apiserver.Version
	// Workers is how many sets are synced at a time; zero means 5, the default of --concurrent-statefulset-syncs.
	Workers int
}

// StatefulSetController plays kube-controller-manager's StatefulSet controller (pkg/controller/statefulset, v1.36.3):
// four informers, a rate-limited queue, and one API call a step.
//
// It reads nothing but its caches (and, before it adopts, the live set), so it acts on whatever they hold. From 1.36 on
// it refuses to sync before they hold its own creates and updates; deletes and ControllerRevisions are not tracked.
type StatefulSetController struct {
	options StatefulSetControllerOptions
	env     sim.RacerEnv
	queue   sim.RacerQueue

	podKind, setKind, claimKind, revisionKind *apiserver.Kind
	pods, sets, claims, revisions             *cache.View

	// own holds back syncs until the caches show the controller's own writes.
	own *consistency
	// selectors memoises the selectors of sets, which never change.
	selectors map[types.UID]labels.Selector
	// recorded memoises the revision data of a set's template: it changes with the generation only.
	recorded map[types.UID]recordedTemplate
}

type recordedTemplate struct {
	generation int64
	data       []byte
}

// NewStatefulSetController returns the controller for one run.
func NewStatefulSetController(options StatefulSetControllerOptions) *StatefulSetController {
	options.Version = cmp.Or(options.Version, apiserver.V136)
	options.Workers = cmp.Or(options.Workers, 5)
	return &StatefulSetController{
		options:  options,
		recorded: map[types.UID]recordedTemplate{}, selectors: map[types.UID]labels.Selector{},
	}
}

// Start implements [sim.Racer]. PersistentVolumeClaims and ControllerRevisions have informers without handlers: a
// change to one wakes nobody.
func (c *StatefulSetController) Start(env sim.RacerEnv) {
	c.env = env
	c.podKind, c.setKind = env.Kind("Pod"), env.Kind("StatefulSet")
	c.claimKind, c.revisionKind = env.Kind("PersistentVolumeClaim"), env.Kind("ControllerRevision")
	c.queue = env.Queue("statefulset", c.options.Workers, c.begin)
	c.pods = env.Informer(c.podKind, c.handlePod)
	c.sets = env.Informer(c.setKind, c.handleSet)
	c.claims = env.Informer(c.claimKind, nil)
	c.revisions = env.Informer(c.revisionKind, nil)
	c.own = newConsistency(c.pods, c.sets, c.claims)
}

func (c *StatefulSetController) begin(key string) sim.Task { return &setSync{c: c, key: key} }

func (c *StatefulSetController) enqueue(set metav1.Object) { c.queue.Add(keyOf(set)) }

func (c *StatefulSetController) handleSet(d cache.Delta) {
	if d.Type == apiserver.Deleted || d.Recreated() {
		delete(c.recorded, d.Old.GetUID())
		delete(c.selectors, d.Old.GetUID())
	}
	c.enqueue(d.Object)
}

func (c *StatefulSetController) handlePod(d cache.Delta) {
	pod := d.Object.(*corev1.Pod)
	switch {
	case d.Type == apiserver.Deleted, d.Type == apiserver.Added && pod.DeletionTimestamp != nil:
		c.podGone(pod)
	case d.Type == apiserver.Added:
		c.podAdded(pod)
	default:
		c.podUpdated(d.Old.(*corev1.Pod), pod)
	}
}

func (c *StatefulSetController) podGone(pod *corev1.Pod) {
	if set := c.resolve(pod.Namespace, metav1.GetControllerOfNoCopy(pod)); set != nil {
		c.enqueue(set)
	}
}

func (c *StatefulSetController) podAdded(pod *corev1.Pod) {
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		if set := c.resolve(pod.Namespace, ref); set != nil {
			c.enqueue(set)
		}
		return
	}
	c.enqueueMatching(pod)
}

func (c *StatefulSetController) podUpdated(old, pod *corev1.Pod) {
	if old.ResourceVersion == pod.ResourceVersion {
		return
	}
	oldRef, ref := metav1.GetControllerOfNoCopy(old), metav1.GetControllerOfNoCopy(pod)
	refChanged := !sameRef(oldRef, ref)
	if refChanged && oldRef != nil {
		if set := c.resolve(pod.Namespace, oldRef); set != nil {
			c.enqueue(set)
		}
	}
	if ref != nil {
		set := c.resolve(pod.Namespace, ref)
		if set == nil {
			return
		}
		c.enqueue(set)
		if set.Spec.MinReadySeconds > 0 && !podReady(old) && podReady(pod) {
			c.queue.AddAfter(keyOf(set), time.Duration(set.Spec.MinReadySeconds)*time.Second)
		}
		return
	}
	if refChanged || !maps.Equal(old.Labels, pod.Labels) {
		c.enqueueMatching(pod)
	}
}

// resolve returns the cached set that a controller reference points to, or nil.
func (c *StatefulSetController) resolve(namespace string, ref *metav1.OwnerReference) *appsv1.StatefulSet {
	return controllerIn[*appsv1.StatefulSet](c.sets, namespace, ref)
}

func (c *StatefulSetController) enqueueMatching(pod *corev1.Pod) {
	for _, set := range mayAdopt(c.sets, pod, func(s *appsv1.StatefulSet) *metav1.LabelSelector { return s.Spec.Selector }) {
		c.enqueue(set)
	}
}

func (c *StatefulSetController) cachedSet(key string) *appsv1.StatefulSet {
	namespace, name := splitKey(key)
	set, _ := c.sets.Get(namespace, name).(*appsv1.StatefulSet)
	return set
}

func (c *StatefulSetController) cachedPod(namespace, name string) *corev1.Pod {
	pod, _ := c.pods.Get(namespace, name).(*corev1.Pod)
	return pod
}

func (c *StatefulSetController) cachedClaim(namespace, name string) *corev1.PersistentVolumeClaim {
	claim, _ := c.claims.Get(namespace, name).(*corev1.PersistentVolumeClaim)
	return claim
}
