package racer

import (
	"fmt"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

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
	errs  []error

	job      *batchv1.Job // a copy, whose status the sync changes
	selector labels.Selector
	mayAdopt adoption

	candidates []*corev1.Pod // pods to claim or not
	pods       []*corev1.Pod // the Job's own
	active     []*corev1.Pod
	satisfied  bool // whether the caches hold what was made and deleted before
	ignored    map[types.UID]bool
	counted    [2]map[types.UID]bool // the UIDs in the status when the sync began: succeeded, failed
	failures   jobFailures
	before     indexSet // the completed indexes of the status
	completed  indexSet // and of the pods

	succeeded, failed                  int32 // also those that the status does not count yet
	activeCount, ready, terminatingNow int32
	finished                           *batchv1.JobCondition // what the Job is to end with
	managed                            bool                  // whether pods could be made and deleted
	victims                            []*corev1.Pod
	lost                               int32 // of the victims, those that were not deleted
	lostReady                          int32 // deletes of ready pods
	creating                           []int // completion indexes of the pods to make, or noIndex
	batch                              int   // how many of them are made before their errors count
	made                               int   // in this batch
	refused                            int   // of those
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
	jobClaim:    (*jobSync).claim,
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

func (s *jobSync) over(err error) (sim.Action, bool) { return s.c.ended(s.c.queue, s.key, err), true }

func (s *jobSync) begin(*apiserver.Response) (sim.Action, bool) {
	c := s.c
	if err := c.ensureReady(s.key); err != nil {
		return s.over(err)
	}
	job := c.cachedJob(s.key)
	switch {
	case job == nil:
		delete(c.expected, s.key)
		delete(c.released, s.key)
		delete(c.written, s.key)
		delete(c.failed, s.key)
		return s.over(nil)
	case managedElsewhere(job), unplayed(job) != "":
		return s.over(nil)
	case jobFinished(job):
		delete(c.failed, s.key)
		delete(c.finished, job.UID)
		c.forgetWrites(job)
		return s.over(nil)
	case c.finished[job.UID]:
		return s.over(nil)
	}
	selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector)
	if err != nil {
		return s.over(fmt.Errorf("couldn't convert Job selector: %w", err))
	}
	s.job, s.selector = job.DeepCopy(), selector
	if s.job.Status.UncountedTerminatedPods == nil {
		s.job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	s.satisfied = c.expected.satisfied(s.key, c.env.Now())
	for _, obj := range c.pods.List(job.Namespace) {
		s.candidates = append(s.candidates, obj.(*corev1.Pod))
	}
	return s.enter(jobClaim)
}

// claim decides which of the namespace's pods are the Job's own. Any error ends the sync, but not before every pod was looked at.
func (s *jobSync) claim(resp *apiserver.Response) (sim.Action, bool) {
	if s.asked != callNone {
		s.claimAnswered(resp)
	}
	for ; s.next < len(s.candidates); s.next++ {
		pod := s.candidates[s.next]
		switch s.verdict(pod) {
		case claimOwn:
			s.pods = append(s.pods, pod)
		case claimRelease:
			return s.ask(callRelease, s.c.podTarget(pod).patch(types.StrategicMergePatchType, s.releasePatch(pod)))
		case claimAdopt:
			if !s.mayAdopt.checked {
				return s.ask(callRecheck, s.c.jobTarget(s.key).get())
			}
			if s.mayAdopt.err == nil {
				return s.ask(callAdopt, s.c.podTarget(pod).patch(types.StrategicMergePatchType, s.adoptPatch(pod)))
			}
			s.errs = append(s.errs, fmt.Errorf("can't adopt Pod %s (%s): %w", keyOf(pod), pod.UID, s.mayAdopt.err))
		case claimIgnore:
		}
	}
	if err := utilerrors.NewAggregate(s.errs); err != nil {
		return s.over(err)
	}
	return s.evaluate()
}

// verdict judges a cached pod: ClaimObject of pkg/controller/controller_ref_manager.go.
func (s *jobSync) verdict(pod *corev1.Pod) claimVerdict {
	matches, deleting := s.selector.Matches(labels.Set(pod.Labels)), s.job.DeletionTimestamp != nil
	ref := metav1.GetControllerOfNoCopy(pod)
	switch {
	case ref != nil && ref.UID != s.job.UID:
		return claimIgnore
	case ref != nil && matches:
		return claimOwn
	case ref != nil && !deleting:
		return claimRelease
	case ref == nil && matches && !deleting && !terminating(pod):
		return claimAdopt
	default:
		return claimIgnore
	}
}

// claimAnswered takes the answer to a call about the pod that claim looks at.
func (s *jobSync) claimAnswered(resp *apiserver.Response) {
	err := failure(resp)
	pod := s.candidates[s.next]
	switch s.asked {
	case callRecheck:
		s.mayAdopt = adoption{checked: true, err: s.recheck(resp)}
		return // and look at the same pod again
	case callRelease:
		if err == nil {
			s.c.wrotePod(resp)
		} else if !apierrors.IsNotFound(err) && !apierrors.IsInvalid(err) {
			s.errs = append(s.errs, err)
		}
	case callAdopt:
		switch {
		case err == nil:
			s.c.wrotePod(resp)
			if adopted := *pod; !tracked(pod) {
				adopted.Finalizers = append(slices.Clip(pod.Finalizers), batchv1.JobTrackingFinalizer)
				pod = &adopted
			}
			s.pods = append(s.pods, pod)
		case !apierrors.IsNotFound(err):
			s.errs = append(s.errs, err)
		}
	default: // the other calls are not about claims
	}
	s.next++
}

// recheck judges a live read of the Job before adopting anything for it.
func (s *jobSync) recheck(resp *apiserver.Response) error {
	if err := failure(resp); err != nil {
		return err
	}
	live := resp.Object
	if live.GetUID() != s.job.UID {
		return fmt.Errorf("original Job %s is gone: got uid %s, wanted %s", s.key, live.GetUID(), s.job.UID)
	}
	if at := live.GetDeletionTimestamp(); at != nil {
		return fmt.Errorf("Job %s has just been deleted at %s", s.key, at)
	}
	return nil
}

func (s *jobSync) adoptPatch(pod *corev1.Pod) []byte {
	var patch ownersPatch
	patch.Metadata.UID = pod.UID
	patch.Metadata.OwnerReferences = []any{*metav1.NewControllerRef(s.job, jobGVK)}
	patch.Metadata.Finalizers = []string{batchv1.JobTrackingFinalizer}
	return patch.encode()
}

func (s *jobSync) releasePatch(pod *corev1.Pod) []byte {
	var patch ownersPatch
	patch.Metadata.UID = pod.UID
	patch.Metadata.OwnerReferences = []any{droppedOwner{Patch: "delete", UID: s.job.UID}}
	patch.Metadata.DroppedFinalizers = []string{batchv1.JobTrackingFinalizer}
	return patch.encode()
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

// windDown deletes what still runs of a Job that has ended. The Job has not until they are all deleted.
func (s *jobSync) windDown(resp *apiserver.Response) (sim.Action, bool) {
	if s.asked != callNone {
		if err := failure(resp); err != nil && !apierrors.IsNotFound(err) {
			s.lost++
			s.manageErr = firstError(s.manageErr, err)
		}
		if podReady(s.active[s.next]) {
			s.lostReady++
		}
		s.next++
	}
	if s.next < len(s.active) {
		return s.ask(callDelete, s.c.podTarget(s.active[s.next]).delete(metav1.DeleteOptions{}))
	}
	if s.lost > 0 || !s.satisfied {
		s.finished = nil
	}
	s.tookAway(int32(len(s.active)))
	return s.track()
}

// tookAway changes the counts after deletes.
func (s *jobSync) tookAway(victims int32) {
	deleted := victims - s.lost
	s.activeCount -= deleted
	s.terminatingNow += deleted
	s.ready -= s.lostReady
}

func firstError(first, err error) error {
	if first != nil {
		return first
	}
	return err
}

// manage decides which pods to delete and which to make: manageJob.
func (s *jobSync) manage() (sim.Action, bool) {
	c, job := s.c, s.job
	now, active := c.env.Now(), int(s.activeCount)
	wanted := s.wantedActive()
	if s.victims = excess(job, s.active, max(active-wanted, 0)); len(s.victims) > 0 || suspended(job) {
		c.expected.expect(s.key, 0, len(s.victims), now)
		return s.enter(jobRemove)
	}
	missing := wanted - active
	if replacesOnlyFailed(job) {
		missing -= int(s.terminatingNow)
	}
	if missing <= 0 {
		return s.enter(jobDecide)
	}
	if wait := s.failures.wait(now); wait > 0 {
		c.queue.AddAfter(s.key, max(wait, jobBatch))
		return s.enter(jobDecide)
	}
	s.creating = s.pendingIndexes(missing)
	c.expected.expect(s.key, len(s.creating), 0, now)
	s.activeCount += int32(len(s.creating))
	s.batch = min(1, len(s.creating))
	return s.enter(jobCreate)
}

// wantedActive returns how many pods are to run.
func (s *jobSync) wantedActive() int {
	parallelism := int(*s.job.Spec.Parallelism)
	switch completions := s.job.Spec.Completions; {
	case suspended(s.job):
		return 0
	case completions != nil:
		return max(min(int(*completions-s.succeeded), parallelism), 0)
	case s.succeeded > 0:
		return int(s.activeCount)
	default:
		return parallelism
	}
}

// pendingIndexes returns the completion indexes of so many pods that are missing, noIndex where the Job has none:
// firstPendingIndexes.
func (s *jobSync) pendingIndexes(missing int) []int {
	if !indexed(s.job) {
		return slices.Repeat([]int{noIndex}, missing)
	}
	taken := s.completed
	for _, pod := range s.pods {
		if podActive(pod) || replacesOnlyFailed(s.job) && terminating(pod) && !terminal(pod) {
			taken = taken.with(indexOf(pod))
		}
	}
	var pending []int
	for index := range int(*s.job.Spec.Completions) {
		if len(pending) < missing && !taken.has(index) {
			pending = append(pending, index)
		}
	}
	return pending
}

// remove deletes pods that there are too many of, after their finalizers.
func (s *jobSync) remove(resp *apiserver.Response) (sim.Action, bool) {
	if s.asked != callNone {
		err := failure(resp)
		if s.asked == callRelease && err == nil {
			s.c.wrotePod(resp)
			return s.ask(callDelete, s.c.podTarget(s.victims[s.next]).delete(metav1.DeleteOptions{}))
		}
		s.removed(err)
	}
	if s.next < len(s.victims) {
		pod := s.victims[s.next]
		if tracked(pod) {
			return s.ask(callRelease, s.c.untrack(pod))
		}
		return s.ask(callDelete, s.c.podTarget(pod).delete(metav1.DeleteOptions{}))
	}
	s.tookAway(int32(len(s.victims)))
	return s.enter(jobDecide)
}

// removed takes the last answer about a pod that was to be deleted.
func (s *jobSync) removed(err error) {
	if err != nil {
		s.c.expected.lower(s.key, 0, 1) // no event will tell
		if !apierrors.IsNotFound(err) {
			s.lost++
			s.manageErr = firstError(s.manageErr, err)
		}
	}
	if s.asked == callDelete && podReady(s.victims[s.next]) {
		s.lostReady++
	}
	s.next++
}

// create makes the missing pods in batches of 1, 2, 4 and so on, and stops after a batch with errors.
func (s *jobSync) create(resp *apiserver.Response) (sim.Action, bool) {
	if s.asked != callNone {
		s.created(resp)
	}
	if s.made == s.batch {
		s.creating = s.creating[s.batch:]
		if s.refused > 0 && len(s.creating) > 0 {
			s.activeCount -= int32(len(s.creating))
			s.c.expected.lower(s.key, len(s.creating), 0)
			s.creating = nil
		}
		s.batch, s.made, s.refused = min(2*s.batch, len(s.creating)), 0, 0
	}
	if len(s.creating) == 0 {
		return s.enter(jobDecide)
	}
	pod := newJobPod(s.job, s.creating[s.made])
	return s.ask(callCreate, s.c.podTarget(pod).create(pod))
}

func (s *jobSync) created(resp *apiserver.Response) {
	s.made++
	err := failure(resp)
	switch {
	case err == nil:
		s.c.wrotePod(resp)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause): // all others would fail, too
	default:
		s.c.expected.lower(s.key, 1, 0)
		s.activeCount--
		s.refused++
		s.manageErr = firstError(s.manageErr, err)
	}
}
