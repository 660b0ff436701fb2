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
)

// jobSync is one sync of one Job. It walks through its stages as [setSync] does.
type jobSync struct {
	c     *JobController
	key   string
	stage jobStage
	next  int  // the next of the list that the stage goes through
	asked call // what the stage waits for the answer to

	job   *batchv1.Job // a copy, whose status the sync changes
	claim *claim[*corev1.Pod]

	pods      []*corev1.Pod // the Job's own
	active    []*corev1.Pod
	satisfied bool // whether the caches hold what was made and deleted before
	ignored   map[types.UID]bool
	counted   [2]map[types.UID]bool // the UIDs in the status when the sync began: succeeded, failed
	failures  jobFailures
	before    indexSet // the completed indexes of the status
	completed indexSet // and of the pods

	succeeded, failed                  int32 // also those that the status does not count yet
	activeCount, ready, terminatingNow int32
	finished                           *batchv1.JobCondition // what the Job is to end with
	managed                            bool                  // whether pods could be made and deleted
	victims                            []*corev1.Pod
	lost                               int32 // of the victims, those that were not deleted
	lostReady                          int32 // deletes of ready pods
	creating                           []int // completion indexes of the pods to make, or noIndex
	creates                            slowStart
	manageErr                          error

	flush    bool // whether the status is to be written
	releases []*corev1.Pod
	holding  map[types.UID]bool // the pods that have the finalizer
	progress error
}

type jobStage uint8

// The stages, with the functions of pkg/controller/job (v1.36.3) that they play.
const (
	jobBegin    jobStage = iota // syncJob, up to its first call
	jobClaim                    // getPodsForJob
	jobWindDown                 // deleteActivePods
	jobRemove                   // deleteJobPods
	jobCreate                   // the end of manageJob
	jobDecide                   // the rest of syncJob
	jobCount                    // trackJobStatusAndRemoveFinalizers, flushUncountedAndRemoveFinalizers
	jobRelease                  // removeTrackingFinalizerFromPods
	jobProgress                 // flushUncountedAndRemoveFinalizers, after an error
	jobFinish                   // enactJobFinished
)

// jobStages are the parts of a sync, by stage.
var jobStages = [...]func(*jobSync, *apiserver.Response) (sim.Action, bool){
	jobBegin:    (*jobSync).begin,
	jobClaim:    (*jobSync).claimPods,
	jobWindDown: (*jobSync).windDown,
	jobRemove:   (*jobSync).remove,
	jobCreate:   (*jobSync).create,
	jobDecide:   (*jobSync).decide,
	jobCount:    (*jobSync).count,
	jobRelease:  (*jobSync).release,
	jobProgress: (*jobSync).keepProgress,
	jobFinish:   (*jobSync).finish,
}

// Next implements [sim.Task].
func (s *jobSync) Next(resp *apiserver.Response) sim.Action {
	for {
		action, yield := jobStages[s.stage](s, resp)
		if yield {
			return action
		}
		resp = nil
	}
}

func (s *jobSync) enter(next jobStage) (sim.Action, bool) {
	s.stage, s.next, s.asked = next, 0, callNone
	return sim.Action{}, false
}

func (s *jobSync) ask(what call, request *apiserver.Request) (sim.Action, bool) {
	s.asked = what
	return sim.Call(request), true
}

func (s *jobSync) over(err error) (sim.Action, bool) { return s.c.queue.over(s.key, err), true }

func (s *jobSync) begin(*apiserver.Response) (sim.Action, bool) {
	c := s.c
	if err := c.own.ensureReady(s.key); err != nil {
		return s.over(err)
	}
	job := c.cachedJob(s.key)
	switch {
	case job == nil:
		delete(c.expected, s.key)
		delete(c.released, s.key)
		c.own.forget(s.key)
		delete(c.failed, s.key)
		return s.over(nil)
	case managedElsewhere(job), unplayed(job) != "":
		return s.over(nil)
	case jobFinished(job):
		delete(c.failed, s.key)
		delete(c.finished, job.UID)
		c.own.forgetOwner(job)
		return s.over(nil)
	case c.finished[job.UID]:
		return s.over(nil)
	}
	selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector)
	if err != nil {
		return s.over(fmt.Errorf("couldn't convert Job selector: %w", err))
	}
	s.job = job.DeepCopy()
	if s.job.Status.UncountedTerminatedPods == nil {
		s.job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	s.satisfied = c.expected.satisfied(s.key, c.env.Now())
	s.claim = &claim[*corev1.Pod]{
		owner: s.job, ownerAt: c.jobTarget(s.key), gvk: jobGVK, kind: c.podKind,
		matches:   func(pod *corev1.Pod) bool { return selector.Matches(labels.Set(pod.Labels)) },
		finalizer: batchv1.JobTrackingFinalizer, own: c.own,
	}
	for _, obj := range c.pods.List(job.Namespace) {
		s.claim.candidates = append(s.claim.candidates, obj.(*corev1.Pod))
	}
	return s.enter(jobClaim)
}

// claimPods decides which of the namespace's pods are the Job's own. Those that it adopts have its finalizer from here on.
func (s *jobSync) claimPods(resp *apiserver.Response) (sim.Action, bool) {
	if action, yield := s.claim.run(resp); yield {
		return action, true
	}
	if err := s.claim.err(); err != nil {
		return s.over(err)
	}
	s.pods = s.claim.claimed
	for i, pod := range s.pods {
		if adopted := *pod; !metav1.IsControlledBy(pod, s.job) && !tracked(pod) {
			adopted.Finalizers = append(slices.Clip(pod.Finalizers), batchv1.JobTrackingFinalizer)
			s.pods[i] = &adopted
		}
	}
	return s.evaluate()
}

// evaluate counts the pods, and finds out whether the Job has ended.
func (s *jobSync) evaluate() (sim.Action, bool) {
	c, job := s.c, s.job
	now := c.env.Now()
	s.active = selectPods(s.pods, podActive)
	s.activeCount = int32(len(s.active))
	s.ready = int32(len(selectPods(s.active, podReady)))
	s.terminatingNow = int32(len(selectPods(s.pods, func(pod *corev1.Pod) bool { return terminating(pod) && !terminal(pod) })))
	uncounted := job.Status.UncountedTerminatedPods
	s.counted = [2]map[types.UID]bool{uidsOf(uncounted.Succeeded), uidsOf(uncounted.Failed)}
	s.ignored = maps.Clone(c.released[s.key])

	newSucceeded := s.endedPods(s.counted[0], func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodSucceeded })
	newFailed := s.endedPods(s.counted[1], func(pod *corev1.Pod) bool { return podFailed(pod, job) })
	s.succeeded = job.Status.Succeeded + int32(len(newSucceeded)+len(uncounted.Succeeded))
	s.failed = job.Status.Failed + int32(len(newFailed)+len(uncounted.Failed))
	if job.Status.StartTime == nil && !suspended(job) {
		job.Status.StartTime = &metav1.Time{Time: now}
	}
	s.failures = c.failed[s.key].with(newSucceeded, newFailed)
	s.judge(now)
	if indexed(job) {
		s.calculateIndexes()
	}
	switch {
	case s.finished != nil:
		return s.enter(jobWindDown)
	case s.satisfied && job.DeletionTimestamp == nil:
		s.managed = true
		return s.manage()
	default:
		return s.enter(jobDecide)
	}
}

// endedPods returns the pods for which something holds and which neither the status nor an earlier sync knows:
// getValidPodsWithFilter.
func (s *jobSync) endedPods(known map[types.UID]bool, holds func(*corev1.Pod) bool) []*corev1.Pod {
	return selectPods(s.pods, func(pod *corev1.Pod) bool {
		return tracked(pod) && !known[pod.UID] && !s.ignored[pod.UID] && s.counts(pod) && holds(pod)
	})
}

// counts reports whether a pod has a completion index of the Job, if it has to have one.
func (s *jobSync) counts(pod *corev1.Pod) bool {
	index := indexOf(pod)
	return !indexed(s.job) || index != noIndex && index < int(*s.job.Spec.Completions)
}

// calculateIndexes finds the indexes that are completed: calculateSucceededIndexes.
func (s *jobSync) calculateIndexes() {
	s.before = parseIndexes(s.job.Status.CompletedIndexes, int(*s.job.Spec.Completions))
	s.completed = s.before
	for _, pod := range s.pods {
		if pod.Status.Phase == corev1.PodSucceeded && tracked(pod) && s.counts(pod) {
			s.completed = s.completed.with(indexOf(pod))
		}
	}
	s.succeeded = int32(len(s.completed))
}

// judge finds out whether the Job has succeeded before or has failed, and asks for another sync when its deadline comes.
func (s *jobSync) judge(now time.Time) {
	job := s.job
	if s.finished = trueJobCondition(job, batchv1.JobSuccessCriteriaMet); s.finished != nil {
		return
	}
	if target := trueJobCondition(job, batchv1.JobFailureTarget); target != nil {
		s.finished = newJobCondition(batchv1.JobFailed, target.Reason, target.Message, now)
		return
	}
	switch limit := job.Spec.ActiveDeadlineSeconds; {
	case s.failed > *job.Spec.BackoffLimit || s.restartedTooOften():
		s.finished = newJobCondition(batchv1.JobFailureTarget, batchv1.JobReasonBackoffLimitExceeded,
			"Job has reached the specified backoff limit", now)
	case limit == nil || job.Status.StartTime == nil || suspended(job):
	default:
		left := job.Status.StartTime.Add(time.Duration(*limit) * time.Second).Sub(now)
		if left <= 0 {
			s.finished = newJobCondition(batchv1.JobFailureTarget, batchv1.JobReasonDeadlineExceeded,
				"Job was active longer than specified deadline", now)
			return
		}
		s.c.queue.AddAfter(s.key, left)
	}
}

// restartedTooOften reports whether the containers of pods that are restarted where they are were restarted more often than the Job
// allows: pastBackoffLimitOnFailure.
func (s *jobSync) restartedTooOften() bool {
	if s.job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return false
	}
	restarts := int32(0)
	for _, pod := range s.pods {
		if pod.Status.Phase != corev1.PodRunning && pod.Status.Phase != corev1.PodPending {
			continue
		}
		for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
			for i := range statuses {
				restarts += statuses[i].RestartCount
			}
		}
	}
	return restarts >= max(*s.job.Spec.BackoffLimit, 1)
}
