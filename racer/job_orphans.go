package racer

import (
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// orphaned reports whether no sync of a Job will ever take the finalizer off a pod; handleSingleOrphanPod.
func (c *JobController) orphaned(pod *corev1.Pod) bool {
	if !tracked(pod) {
		return false
	}
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return true
	}
	if ref.Kind != jobGVK.Kind || ref.APIVersion != jobGVK.GroupVersion().String() {
		return false
	}
	job := c.resolve(pod.Namespace, ref)
	return job == nil || !managedElsewhere(job) && jobFinished(job)
}

// jobOrphan takes the finalizer off one pod: syncOrphanPod.
type jobOrphan struct {
	c      *JobController
	key    string
	called bool
}

// Next implements [sim.Task].
func (o *jobOrphan) Next(resp *apiserver.Response) sim.Action {
	if o.called {
		return o.c.orphans.over(o.key, o.c.untracked(resp))
	}
	namespace, name := splitKey(o.key)
	pod, ok := o.c.pods.Get(namespace, name).(*corev1.Pod)
	if !ok || !o.c.orphaned(pod) {
		return o.c.orphans.over(o.key, nil)
	}
	o.called = true
	return sim.Call(o.c.untrack(pod))
}

// untracked takes the answer to the request that takes a finalizer off. It does not matter if the pod is gone.
func (c *JobController) untracked(resp *apiserver.Response) error {
	err := failure(resp)
	if err == nil {
		c.own.wroteOwned(c.podKind, resp)
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// jobSweep takes the finalizer off all pods of a Job that is finished or gone: syncOrphanPodsBySelector. Errors are left at that.
type jobSweep struct {
	c     *JobController
	key   string
	begun bool
	pods  []*corev1.Pod
}

// Next implements [sim.Task].
func (s *jobSweep) Next(resp *apiserver.Response) sim.Action {
	if !s.begun {
		s.begun = true
		namespace, _ := splitKey(s.key)
		for _, obj := range s.c.pods.List(namespace) {
			if pod := obj.(*corev1.Pod); s.c.swept[s.key].Matches(labels.Set(pod.Labels)) {
				s.pods = append(s.pods, pod)
			}
		}
	} else if err := s.c.untracked(resp); err != nil {
		s.c.env.Log(fmt.Sprintf("syncing an orphan pod of %s failed: %v", s.key, err))
	}
	for len(s.pods) > 0 {
		pod := s.pods[0]
		s.pods = s.pods[1:]
		if s.c.orphaned(pod) {
			return sim.Call(s.c.untrack(pod))
		}
	}
	return sim.Done()
}

// expires reports whether a Job is to be deleted some time after it has finished.
func expires(job *batchv1.Job) bool {
	return job.Spec.TTLSecondsAfterFinished != nil && jobFinished(job)
}

// jobExpiry deletes a Job whose time after it has finished is over: processJob of ttlafterfinished_controller.go. It asks the
// server before, as the time may have been changed.
type jobExpiry struct {
	c    *JobController
	key  string
	step jobExpiryStep
}

type jobExpiryStep uint8

const (
	jobExpiryBegin jobExpiryStep = iota
	jobExpiryRead
	jobExpiryDeleted
)

// Next implements [sim.Task]. The queue has the back-off of all controllers.
func (e *jobExpiry) Next(resp *apiserver.Response) sim.Action {
	target := e.c.jobTarget(e.key)
	switch e.step {
	case jobExpiryBegin:
		if job := e.c.cachedJob(e.key); job == nil || !e.due(job) {
			return sim.Done()
		}
		e.step = jobExpiryRead
		return sim.Call(target.get())
	case jobExpiryRead:
		if err := failure(resp); err != nil {
			return over(err)
		}
		job := resp.Object.(*batchv1.Job)
		if !e.due(job) {
			return sim.Done()
		}
		e.step = jobExpiryDeleted
		policy, uid := metav1.DeletePropagationForeground, job.UID
		return sim.Call(target.delete(metav1.DeleteOptions{
			PropagationPolicy: &policy, Preconditions: &metav1.Preconditions{UID: &uid},
		}))
	default:
		if err := failure(resp); err != nil {
			return sim.Fail(err)
		}
		return sim.Done()
	}
}

// due reports whether a Job's time is over, and has it looked at again when it will be; processTTL.
func (e *jobExpiry) due(job *batchv1.Job) bool {
	if job.DeletionTimestamp != nil || !expires(job) {
		return false
	}
	left := finishedCondition(job).LastTransitionTime.Add(time.Duration(*job.Spec.TTLSecondsAfterFinished) * time.Second).Sub(e.c.env.Now())
	if left > 0 {
		e.c.expiries.AddAfter(e.key, left)
	}
	return left <= 0
}
