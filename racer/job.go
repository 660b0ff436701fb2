package racer

import (
	"fmt"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
)

// JobController plays kube-controller-manager's Job controller (pkg/controller/job, v1.36.3) and its TTL-after-finished controller
// (pkg/controller/ttlafterfinished): two informers, four rate-limited queues, and one API call a step.
//
// It counts a pod that has ended in two steps, so that none is lost and none is counted twice: the UID goes into the Job's status,
// then the finalizer off the pod, and only then does the counter go up. Pods are made and deleted one after the other where the
// real controller does it at the same time. A Job that another controller manages is left alone.
//
// Left out are podFailurePolicy, successPolicy and backoffLimitPerIndex: a Job that has one is reported as a problem of the scenario,
// and not touched. Neither are there workloads (an alpha feature), nor the bounds of 500 pods for a sync.
type JobController struct {
	env      sim.RacerEnv
	queue    *pacedQueue
	orphans  *pacedQueue    // pods with the finalizer of a Job that will not take it off
	sweeps   sim.RacerQueue // Jobs all of whose pods may be such
	expiries sim.RacerQueue

	podKind, jobKind *apiserver.Kind
	pods, jobs       *cache.View

	own      *consistency
	expected expectations
	// released holds, for each Job, the pods whose finalizers were taken off, until the pod informer tells so.
	released map[string]map[types.UID]bool
	// finished holds the Jobs that the controller has finished, until the Job informer tells so.
	finished map[types.UID]bool
	// failed holds, for each Job, the failures that the next pod has to wait for.
	failed map[string]jobFailures
	// swept holds the selectors of the Jobs that are being swept, which may be gone.
	swept map[string]labels.Selector
}

var jobGVK = batchv1.SchemeGroupVersion.WithKind("Job")

// The times of job_controller.go.
const (
	jobBatch      = time.Second // between an event about a pod and the sync: SyncJobBatchPeriod
	jobRetryFirst = time.Second // the first back-off after an error, doubled each time: DefaultJobApiBackOff
	jobRetryLast  = time.Minute // MaxJobApiBackOff
)

// jobWorkers is the default of --concurrent-job-syncs.
const jobWorkers = 5

// NewJobController returns the controllers for one run.
func NewJobController() *JobController {
	return &JobController{
		expected: expectations{}, released: map[string]map[types.UID]bool{},
		finished: map[types.UID]bool{}, failed: map[string]jobFailures{}, swept: map[string]labels.Selector{},
	}
}

// Start implements [sim.Racer].
func (c *JobController) Start(env sim.RacerEnv) {
	c.env = env
	c.podKind, c.jobKind = env.Kind("Pod"), env.Kind("Job")
	paced := func(name string, begin func(key string) sim.Task) *pacedQueue {
		return newPacedQueue(env, jobRetryFirst, jobRetryLast, env.Queue(name, jobWorkers, begin))
	}
	c.queue = paced("job", func(key string) sim.Task { return &jobSync{c: c, key: key} })
	c.orphans = paced("job-orphan-pod", func(key string) sim.Task { return &jobOrphan{c: c, key: key} })
	c.sweeps = env.Queue("job-orphan-pods", jobWorkers, func(key string) sim.Task { return &jobSweep{c: c, key: key} })
	c.expiries = env.Queue("ttl-after-finished", jobWorkers, func(key string) sim.Task { return &jobExpiry{c: c, key: key} })
	c.jobs = env.Informer(c.jobKind, c.handleJob)
	c.pods = env.Informer(c.podKind, c.handlePod)
	c.own = newConsistency(c.pods, c.jobs)
}

func (c *JobController) handlePod(d cache.Delta) {
	pod := d.Object.(*corev1.Pod)
	switch {
	case d.Type == apiserver.Deleted:
		c.podDeleted(pod, true)
	case terminating(pod):
		if d.Type == apiserver.Added || d.Old.GetResourceVersion() != pod.ResourceVersion {
			c.podDeleted(pod, false)
		}
	case d.Type == apiserver.Added:
		c.podAdded(pod)
	default:
		c.podUpdated(d.Old.(*corev1.Pod), pod)
	}
}

func (c *JobController) podAdded(pod *corev1.Pod) {
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		if job := c.resolve(pod.Namespace, ref); job != nil {
			c.expected.created(keyOf(job), 1)
			c.enqueueLater(job)
		}
		return
	}
	if tracked(pod) {
		c.orphans.Add(keyOf(pod))
	}
	c.enqueueMatching(pod)
}

func (c *JobController) podUpdated(old, pod *corev1.Pod) {
	if old.ResourceVersion == pod.ResourceVersion {
		return
	}
	oldRef, ref := metav1.GetControllerOfNoCopy(old), metav1.GetControllerOfNoCopy(pod)
	refChanged := !sameRef(oldRef, ref)
	if refChanged && oldRef != nil {
		c.podOf(oldRef, pod)
	}
	if ref != nil {
		c.podOf(ref, pod)
		return
	}
	if tracked(pod) {
		c.orphans.Add(keyOf(pod))
	}
	if refChanged || !maps.Equal(old.Labels, pod.Labels) {
		c.enqueueMatching(pod)
	}
}

// podOf tells the Job of a reference that a pod has changed which is or was its own.
func (c *JobController) podOf(ref *metav1.OwnerReference, pod *corev1.Pod) {
	job := c.resolve(pod.Namespace, ref)
	if job == nil {
		return
	}
	if !tracked(pod) {
		delete(c.released[keyOf(job)], pod.UID)
	}
	c.enqueueLater(job)
}

// podDeleted is told of a pod that is being deleted, and again when it is gone.
func (c *JobController) podDeleted(pod *corev1.Pod, gone bool) {
	var job *batchv1.Job
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref != nil {
		job = c.resolve(pod.Namespace, ref)
	}
	if job == nil || jobFinished(job) {
		if tracked(pod) {
			c.orphans.Add(keyOf(pod))
		}
		return
	}
	c.expected.deleted(keyOf(job), pod)
	if gone || !tracked(pod) {
		delete(c.released[keyOf(job)], pod.UID)
	}
	c.enqueueLater(job)
}

func (c *JobController) handleJob(d cache.Delta) {
	job := d.Object.(*batchv1.Job)
	if d.Type != apiserver.Deleted && expires(job) && job.DeletionTimestamp == nil {
		c.expiries.Add(keyOf(job))
	}
	switch d.Type {
	case apiserver.Added:
		if field := unplayed(job); field != "" {
			c.env.Problem(fmt.Sprintf("Job %s: %s is not played; leave it out", keyOf(job), field))
		}
		c.queue.Add(keyOf(job))
	case apiserver.Deleted:
		c.queue.Add(keyOf(job))
		c.own.forgetOwner(job)
		delete(c.finished, job.UID)
		delete(c.failed, keyOf(job))
		c.sweep(job)
	default:
		c.jobUpdated(d.Old.(*batchv1.Job), job)
	}
}

func (c *JobController) jobUpdated(old, job *batchv1.Job) {
	if jobFinished(job) {
		c.sweep(job)
		return
	}
	if old.Generation == job.Generation {
		c.enqueueLater(job)
	} else {
		c.queue.Add(keyOf(job))
	}
	limit, before := job.Spec.ActiveDeadlineSeconds, old.Spec.ActiveDeadlineSeconds
	if job.Status.StartTime != nil && limit != nil && (before == nil || *before != *limit) {
		c.queue.AddAfter(keyOf(job), job.Status.StartTime.Add(time.Duration(*limit)*time.Second).Sub(c.env.Now()))
	}
}

// sweep looks for pods that still have the finalizer of a Job which is finished or gone.
func (c *JobController) sweep(job *batchv1.Job) {
	if selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector); err == nil {
		c.swept[keyOf(job)] = selector
		c.sweeps.Add(keyOf(job))
	}
}

func (c *JobController) enqueueLater(job *batchv1.Job) { c.queue.AddAfter(keyOf(job), jobBatch) }

func (c *JobController) enqueueMatching(pod *corev1.Pod) {
	for _, job := range mayAdopt(c.jobs, pod, func(j *batchv1.Job) *metav1.LabelSelector { return j.Spec.Selector }) {
		c.enqueueLater(job)
	}
}

// resolve returns the cached Job that a controller reference points to, or nil.
func (c *JobController) resolve(namespace string, ref *metav1.OwnerReference) *batchv1.Job {
	return controllerIn[*batchv1.Job](c.jobs, namespace, ref)
}

func (c *JobController) podTarget(pod *corev1.Pod) target {
	return targetOf(c.podKind, pod.Namespace, pod.Name)
}

func (c *JobController) jobTarget(key string) target { return targetAt(c.jobKind, key) }

func (c *JobController) cachedJob(key string) *batchv1.Job {
	namespace, name := splitKey(key)
	job, _ := c.jobs.Get(namespace, name).(*batchv1.Job)
	return job
}

// tracked reports whether a pod has the finalizer that keeps it until its Job has counted it.
func tracked(pod *corev1.Pod) bool {
	return slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer)
}

// untrackPatch takes that finalizer off; removeTrackingFinalizerPatch.
const untrackPatch = `{"metadata":{"$deleteFromPrimitiveList/finalizers":["` + batchv1.JobTrackingFinalizer + `"]}}`

func (c *JobController) untrack(pod *corev1.Pod) *apiserver.Request {
	return c.podTarget(pod).patch(types.StrategicMergePatchType, []byte(untrackPatch))
}

// finishedCondition returns the condition that says that a Job has succeeded or failed for good, or nil.
func finishedCondition(job *batchv1.Job) *batchv1.JobCondition {
	for i := range job.Status.Conditions {
		c := &job.Status.Conditions[i]
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c
		}
	}
	return nil
}

func jobFinished(job *batchv1.Job) bool { return finishedCondition(job) != nil }

// unplayed returns the field of a Job that this controller does not know what to do about, or nothing.
func unplayed(job *batchv1.Job) string {
	switch spec := &job.Spec; {
	case spec.PodFailurePolicy != nil:
		return "spec.podFailurePolicy"
	case spec.SuccessPolicy != nil:
		return "spec.successPolicy"
	case spec.BackoffLimitPerIndex != nil:
		return "spec.backoffLimitPerIndex"
	default:
		return ""
	}
}

// managedElsewhere reports whether another controller manages a Job.
func managedElsewhere(job *batchv1.Job) bool {
	return job.Spec.ManagedBy != nil && *job.Spec.ManagedBy != batchv1.JobControllerName
}
