package racer

import (
	"cmp"
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
)

var deploymentGVK = appsv1.SchemeGroupVersion.WithKind("Deployment")

// DeploymentControllerOptions configures a [DeploymentController]. The zero value plays Kubernetes 1.36 with its defaults.
type DeploymentControllerOptions struct {
	// Version is the minor version of Kubernetes whose controller is played; empty means [apiserver.V136]. Under
	// [apiserver.V137] a Deployment that recreates its pods is looked at when any of them has gone; before, when the last has.
	Version apiserver.Version
	// Workers is how many Deployments are synced at a time; zero means 5, the default of --concurrent-deployment-syncs.
	Workers int
	// ReplicaSets plays the ReplicaSet controller as well, with a queue of its own over the same caches, for a scenario without
	// a [ReplicaSetController].
	ReplicaSets bool
}

// DeploymentController plays kube-controller-manager's Deployment controller (pkg/controller/deployment, v1.36.3): three
// informers, a rate-limited queue, and one API call a step.
//
// It reads nothing but its caches, and the live Deployment before it adopts a ReplicaSet. All writes of a sync are made of the
// objects as it found them: the second write to one object is a conflict, after which the sync is tried again. A sync that has
// failed 16 times in a row is given up until something changes.
//
// When a pod of a Deployment that recreates its pods has gone, 1.36 lists the ReplicaSets live to see whether it was the last;
// this one looks into its cache.
type DeploymentController struct {
	options DeploymentControllerOptions
	env     sim.RacerEnv
	queue   sim.RacerQueue

	kind, setKind           *apiserver.Kind
	deployments, sets, pods *cache.View

	// failures counts how often in a row the sync of a key has failed.
	failures map[string]int
}

// maxDeploymentRetries is how often a failed sync is tried again: maxRetries.
const maxDeploymentRetries = 15

// NewDeploymentController returns the controller for one run.
func NewDeploymentController(options DeploymentControllerOptions) *DeploymentController {
	options.Version = cmp.Or(options.Version, apiserver.V136)
	options.Workers = cmp.Or(options.Workers, 5)
	return &DeploymentController{options: options, failures: map[string]int{}}
}

// Start implements [sim.Racer].
func (c *DeploymentController) Start(env sim.RacerEnv) {
	if c.options.ReplicaSets {
		env = &sharedEnv{RacerEnv: env, informers: map[*apiserver.Kind]*sharedInformer{}}
		NewReplicaSetController(ReplicaSetControllerOptions{}).Start(env)
	}
	c.env = env
	c.kind, c.setKind = env.Kind("Deployment"), env.Kind("ReplicaSet")
	c.queue = env.Queue("deployment", c.options.Workers, c.begin)
	c.deployments = env.Informer(c.kind, func(d cache.Delta) { c.enqueue(d.Object) })
	c.sets = env.Informer(c.setKind, c.handleSet)
	c.pods = env.Informer(env.Kind("Pod"), c.handlePod)
}

func (c *DeploymentController) begin(key string) sim.Task { return &deploymentSync{c: c, key: key} }

func (c *DeploymentController) enqueue(deployment metav1.Object) { c.queue.Add(keyOf(deployment)) }

// done ends a pass without an error, which forgets the errors before.
func (c *DeploymentController) done(key string) sim.Action {
	delete(c.failures, key)
	return sim.Done()
}

// failed ends a pass with an error: handleErr.
func (c *DeploymentController) failed(key string, err error) sim.Action {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return c.done(key)
	}
	if c.failures[key] >= maxDeploymentRetries {
		c.env.Log("dropping Deployment " + key + " out of the queue: " + err.Error())
		return c.done(key)
	}
	c.failures[key]++
	return sim.Fail(err)
}

func (c *DeploymentController) handleSet(d cache.Delta) {
	set := d.Object.(*appsv1.ReplicaSet)
	switch {
	case d.Type == apiserver.Deleted, d.Type == apiserver.Added && set.DeletionTimestamp != nil:
		c.enqueueOwner(set)
	case d.Type == apiserver.Added:
		if metav1.GetControllerOfNoCopy(set) == nil {
			c.enqueueMatching(set)
			return
		}
		c.enqueueOwner(set)
	default:
		c.setUpdated(d.Old.(*appsv1.ReplicaSet), set)
	}
}

func (c *DeploymentController) setUpdated(old, set *appsv1.ReplicaSet) {
	if old.ResourceVersion == set.ResourceVersion {
		return
	}
	ref := metav1.GetControllerOfNoCopy(set)
	refChanged := !sameRef(metav1.GetControllerOfNoCopy(old), ref)
	if refChanged {
		c.enqueueOwner(old)
	}
	switch {
	case ref != nil:
		c.enqueueOwner(set)
	case refChanged || !maps.Equal(old.Labels, set.Labels):
		c.enqueueMatching(set)
	}
}

func (c *DeploymentController) enqueueOwner(set *appsv1.ReplicaSet) {
	if deployment := c.resolve(set); deployment != nil {
		c.enqueue(deployment)
	}
}

func (c *DeploymentController) enqueueMatching(set *appsv1.ReplicaSet) {
	for _, deployment := range mayAdopt(c.deployments, set, func(d *appsv1.Deployment) *metav1.LabelSelector { return d.Spec.Selector }) {
		c.enqueue(deployment)
	}
}

// handlePod looks at Deployments that wait for pods to go.
func (c *DeploymentController) handlePod(d cache.Delta) {
	if d.Type != apiserver.Deleted {
		return
	}
	set := controllerIn[*appsv1.ReplicaSet](c.sets, d.Object.GetNamespace(), metav1.GetControllerOfNoCopy(d.Object))
	if set == nil {
		return
	}
	deployment := c.resolve(set)
	if deployment == nil || deployment.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		return
	}
	if c.options.Version != apiserver.V136 || !c.hasPods(deployment) {
		c.enqueue(deployment)
	}
}

// hasPods reports whether any of the ReplicaSets of a Deployment has a pod.
func (c *DeploymentController) hasPods(deployment *appsv1.Deployment) bool {
	for _, obj := range c.sets.List(deployment.Namespace) {
		if metav1.IsControlledBy(obj, deployment) && len(c.podsOf(obj.(*appsv1.ReplicaSet))) > 0 {
			return true
		}
	}
	return false
}

// podsOf returns the cached pods that a ReplicaSet controls.
func (c *DeploymentController) podsOf(set *appsv1.ReplicaSet) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, obj := range c.pods.List(set.Namespace) {
		if metav1.IsControlledBy(obj, set) {
			pods = append(pods, obj.(*corev1.Pod))
		}
	}
	return pods
}

// resolve returns the cached Deployment that controls a ReplicaSet, or nil.
func (c *DeploymentController) resolve(set *appsv1.ReplicaSet) *appsv1.Deployment {
	return controllerIn[*appsv1.Deployment](c.deployments, set.Namespace, metav1.GetControllerOfNoCopy(set))
}
