package racer

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

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
	s.creates = newSlowStart(len(s.creating), 0)
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
			s.c.own.wroteOwned(s.c.podKind, resp)
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
		s.c.expected.deleted(s.key, s.victims[s.next]) // no event will tell
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

// create makes the missing pods.
func (s *jobSync) create(resp *apiserver.Response) (sim.Action, bool) {
	if s.asked != callNone {
		s.created(resp)
	}
	if s.creates.over() {
		if skipped := s.creates.total - s.creates.done; skipped > 0 {
			s.activeCount -= int32(skipped)
			s.c.expected.created(s.key, skipped)
		}
		s.manageErr = s.creates.firstError()
		return s.enter(jobDecide)
	}
	pod := newJobPod(s.job, s.creating[s.creates.done])
	return s.ask(callCreate, s.c.podTarget(pod).create(pod))
}

// created takes the answer to the request for one pod. In a namespace that is being deleted the request counts as granted, and the
// pod as expected: upstream leaves it at that, as all others would fail, too.
func (s *jobSync) created(resp *apiserver.Response) {
	err := failure(resp)
	switch {
	case err == nil:
		s.c.own.wroteOwned(s.c.podKind, resp)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		err = nil
	default:
		s.c.expected.created(s.key, 1) // no event will tell
		s.activeCount--
	}
	s.creates.note(err)
}
