package racer

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// decide finds out whether the Job is complete, and otherwise whether it is suspended.
func (s *jobSync) decide(*apiserver.Response) (sim.Action, bool) {
	now, job := s.c.env.Now(), s.job
	enough := s.succeeded > 0
	if job.Spec.Completions != nil {
		enough = s.succeeded >= *job.Spec.Completions
	}
	switch {
	case enough && s.activeCount == 0:
		s.finished = newJobCondition(batchv1.JobSuccessCriteriaMet, batchv1.JobReasonCompletionsReached,
			"Reached expected number of succeeded pods", now)
	case !s.managed:
	case suspended(job):
		if s.setCondition(batchv1.JobSuspended, corev1.ConditionTrue, "JobSuspended", "Job suspended") {
			s.flush, job.Status.StartTime = true, nil
		}
	default:
		if s.setCondition(batchv1.JobSuspended, corev1.ConditionFalse, "JobResumed", "Job resumed") {
			s.flush, job.Status.StartTime = true, &metav1.Time{Time: now}
		}
	}
	return s.track()
}

// setCondition brings a condition to a status, and reports whether that changed anything. It does not add one that is false:
// ensureJobConditionStatus.
func (s *jobSync) setCondition(kind batchv1.JobConditionType, is corev1.ConditionStatus, reason, message string) bool {
	conditions := s.job.Status.Conditions
	condition := newJobCondition(kind, reason, message, s.c.env.Now())
	condition.Status = is
	for i, old := range conditions {
		if old.Type == kind {
			same := old.Status == is && old.Reason == reason && old.Message == message
			if !same {
				conditions[i] = *condition
			}
			return !same
		}
	}
	if is == corev1.ConditionFalse {
		return false
	}
	s.job.Status.Conditions = append(conditions, *condition)
	return true
}

func newJobCondition(kind batchv1.JobConditionType, reason, message string, now time.Time) *batchv1.JobCondition {
	at := metav1.NewTime(now)
	return &batchv1.JobCondition{
		Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastProbeTime: at, LastTransitionTime: at,
	}
}

// trueJobCondition returns a copy of a condition that is true, or nil.
func trueJobCondition(job *batchv1.Job, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for _, condition := range job.Status.Conditions {
		if condition.Type == kind && condition.Status == corev1.ConditionTrue {
			return &condition
		}
	}
	return nil
}

// track adds to the status which pods have ended and are still to be counted, and finds out whose finalizers can go.
func (s *jobSync) track() (sim.Action, bool) {
	status := &s.job.Status
	s.flush = s.flush || s.activeCount != status.Active || !equalCount(s.ready, status.Ready) ||
		!equalCount(s.terminatingNow, status.Terminating)
	status.Active, status.Ready, status.Terminating = s.activeCount, &s.ready, &s.terminatingNow
	if indexed(s.job) {
		slices.SortStableFunc(s.pods, func(a, b *corev1.Pod) int { return indexOf(a) - indexOf(b) })
	}
	s.holding = map[types.UID]bool{}
	for _, pod := range s.pods {
		if tracked(pod) && !s.ignored[pod.UID] {
			s.holding[pod.UID] = true
		}
	}
	s.flush = s.settleUncounted() || s.flush
	for _, pod := range s.pods {
		if s.holding[pod.UID] && s.releasable(pod) {
			s.releases = append(s.releases, pod)
			s.note(pod)
		}
	}
	if indexed(s.job) {
		text := s.completed.String()
		s.flush = s.flush || text != status.CompletedIndexes
		status.Succeeded, status.CompletedIndexes = int32(len(s.completed)), text
	}
	s.announce()
	return s.enter(jobCount)
}

func equalCount(n int32, old *int32) bool { return old != nil && *old == n }

// releasable reports whether the finalizer of a pod can go: canRemoveFinalizer.
func (s *jobSync) releasable(pod *corev1.Pod) bool {
	return s.job.DeletionTimestamp != nil || s.finished != nil || pod.Status.Phase == corev1.PodSucceeded || podFailed(pod, s.job)
}

// note adds a pod whose finalizer can go to those that are to be counted. Of an indexed Job the indexes of the successful ones are
// enough. What still runs when the Job has failed counts as failed.
func (s *jobSync) note(pod *corev1.Pod) {
	uncounted := s.job.Status.UncountedTerminatedPods
	switch {
	case pod.Status.Phase == corev1.PodSucceeded && !s.counted[1][pod.UID]:
		if indexed(s.job) {
			if s.counts(pod) && !s.before.has(indexOf(pod)) {
				s.completed = s.completed.with(indexOf(pod))
				s.flush = true
			}
		} else if !s.counted[0][pod.UID] {
			uncounted.Succeeded = append(uncounted.Succeeded, pod.UID)
			s.flush = true
		}
	case podFailed(pod, s.job) || s.finished != nil && s.finished.Type != batchv1.JobSuccessCriteriaMet:
		if !s.counted[1][pod.UID] && s.counts(pod) {
			uncounted.Failed = append(uncounted.Failed, pod.UID)
			s.flush = true
		}
	}
}

// announce puts into the status how the Job will end, before the finalizers go that prove it.
func (s *jobSync) announce() {
	if s.finished == nil {
		return
	}
	now, status := s.c.env.Now(), &s.job.Status
	switch s.finished.Type {
	case batchv1.JobFailureTarget:
		status.Conditions = append(status.Conditions, *s.finished)
		s.flush = true
		s.finished = newJobCondition(batchv1.JobFailed, s.finished.Reason, s.finished.Message, now)
	case batchv1.JobSuccessCriteriaMet:
		if trueJobCondition(s.job, batchv1.JobSuccessCriteriaMet) == nil {
			status.Conditions = append(status.Conditions, *s.finished)
			s.flush = true
		}
		s.finished = newJobCondition(batchv1.JobComplete, s.finished.Reason, s.finished.Message, now)
	default: // it was announced before
	}
}

// settleUncounted counts the pods whose finalizers are off: cleanUncountedPodsWithoutFinalizers.
func (s *jobSync) settleUncounted() bool {
	status, uncounted := &s.job.Status, s.job.Status.UncountedTerminatedPods
	settle := func(list *[]types.UID, count *int32) bool {
		left := slices.DeleteFunc(slices.Clone(*list), func(uid types.UID) bool { return !s.holding[uid] })
		settled := len(*list) - len(left)
		if settled > 0 {
			*count += int32(settled)
			*list = slices.Clip(left)
		}
		return settled > 0
	}
	succeeded, failed := settle(&uncounted.Succeeded, &status.Succeeded), settle(&uncounted.Failed, &status.Failed)
	return succeeded || failed
}

// writeStatus is the request that writes what the status is by now.
func (s *jobSync) writeStatus() (sim.Action, bool) {
	return s.ask(callStatus, s.c.jobTarget(s.key).updateStatus(s.job.DeepCopy()))
}

// statusWritten takes the answer, whose object the sync goes on with.
func (s *jobSync) statusWritten(resp *apiserver.Response) error {
	if err := failure(resp); err != nil {
		return err
	}
	s.job = resp.Object.(*batchv1.Job).DeepCopy()
	if s.job.Status.UncountedTerminatedPods == nil {
		s.job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	s.c.own.wrote(s.job, s.c.jobKind, resp.Revision)
	return nil
}

// count writes the pods that are to be counted, before any of their finalizers go.
func (s *jobSync) count(resp *apiserver.Response) (sim.Action, bool) {
	if s.asked == callNone && s.flush {
		return s.writeStatus()
	}
	if s.asked != callNone {
		if err := s.statusWritten(resp); err != nil {
			return s.over(fmt.Errorf("tracking status: adding uncounted pods to status: %w", err))
		}
		s.c.failed[s.key], s.flush = s.failures, false
	}
	if len(s.releases) > 0 && s.c.released[s.key] == nil {
		s.c.released[s.key] = map[types.UID]bool{}
	}
	for _, pod := range s.releases {
		s.c.released[s.key][pod.UID] = true
	}
	return s.enter(jobRelease)
}

// release takes off the finalizers, and counts the pods for which that succeeded.
func (s *jobSync) release(resp *apiserver.Response) (sim.Action, bool) {
	if s.asked != callNone {
		uid := s.releases[s.next].UID
		if failure(resp) != nil {
			delete(s.c.released[s.key], uid) // no event will tell
		}
		if err := s.c.untracked(resp); err != nil {
			s.progress = firstError(s.progress, err)
		} else {
			delete(s.holding, uid)
		}
		s.next++
	}
	if s.next < len(s.releases) {
		return s.ask(callRelease, s.c.untrack(s.releases[s.next]))
	}
	s.flush = s.settleUncounted() || s.flush
	if s.progress != nil {
		return s.enter(jobProgress)
	}
	return s.enter(jobFinish)
}

// keepProgress writes what was counted although not all finalizers could be taken off.
func (s *jobSync) keepProgress(resp *apiserver.Response) (sim.Action, bool) {
	if s.asked == callNone && s.flush {
		return s.writeStatus()
	}
	if s.asked != callNone {
		if err := s.statusWritten(resp); err != nil {
			return s.over(fmt.Errorf("tracking status: removing uncounted pods from status: %w", err))
		}
	}
	return s.over(fmt.Errorf("tracking status: %w", s.progress))
}

// finish writes the counters, and how the Job has ended if all pods are counted and gone.
func (s *jobSync) finish(resp *apiserver.Response) (sim.Action, bool) {
	if s.asked == callNone {
		s.enact()
		if s.flush {
			return s.writeStatus()
		}
	} else {
		ended := jobFinished(s.job)
		if err := s.statusWritten(resp); err != nil {
			return s.over(fmt.Errorf("tracking status: removing uncounted pods from status: %w", err))
		}
		if ended {
			s.c.finished[s.job.UID] = true
		}
	}
	return s.over(s.manageErr)
}

// enact ends the Job: enactJobFinished.
func (s *jobSync) enact() {
	status := &s.job.Status
	uncounted := status.UncountedTerminatedPods
	if s.finished == nil || len(uncounted.Succeeded)+len(uncounted.Failed) > 0 || s.terminatingNow > 0 {
		return
	}
	s.setCondition(s.finished.Type, s.finished.Status, s.finished.Reason, s.finished.Message)
	if s.finished.Type == batchv1.JobComplete {
		status.CompletionTime = &s.finished.LastTransitionTime
	}
	s.flush = true
}
