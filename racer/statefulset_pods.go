package racer

import (
	"cmp"
	"errors"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// plan computes the first status and sorts the pods into replicas, present and planned, and condemned ones.
func (s *setSync) plan() error {
	collisions := s.collisions
	s.status = appsv1.StatefulSetStatus{
		ObservedGeneration: s.set.Generation,
		CurrentRevision:    s.current.Name,
		UpdateRevision:     s.update.Name,
		CollisionCount:     &collisions,
	}
	countReplicas(&s.status, s.set.Spec.MinReadySeconds, s.now, s.pods)

	start := startOrdinal(s.set)
	s.replicas = make([]*corev1.Pod, *s.set.Spec.Replicas)
	for _, pod := range s.pods {
		ordinal := ordinalOf(pod)
		switch {
		case inRange(s.set, ordinal):
			s.replicas[ordinal-start] = pod
		case ordinal >= 0:
			s.condemned = append(s.condemned, pod)
		}
	}
	slices.SortStableFunc(s.condemned, func(a, b *corev1.Pod) int { return cmp.Compare(ordinalOf(b), ordinalOf(a)) })
	for i := range s.replicas {
		if s.replicas[i] == nil {
			pod, err := s.newVersionedPod(start + i)
			if err != nil {
				return err
			}
			s.replicas[i] = pod
		}
	}
	s.firstUnavailable = s.findUnavailable()
	return nil
}

// findUnavailable returns the unavailable pod of the lowest ordinal, condemned ones last, or nil.
func (s *setSync) findUnavailable() *corev1.Pod {
	for _, pod := range s.replicas {
		if s.unavailable(pod) {
			return pod
		}
	}
	for _, pod := range slices.Backward(s.condemned) {
		if s.unavailable(pod) {
			return pod
		}
	}
	return nil
}

func (s *setSync) unavailable(pod *corev1.Pod) bool {
	return unavailable(pod, s.set.Spec.MinReadySeconds, s.now)
}

// atCurrentRevision reports whether a missing pod comes back at the current revision rather than the update revision.
// The partition counts for every type of update; without one, a rolling update keeps as many pods at the current
// revision as the status says there are, so a pod that dies in mid-rollout comes back old.
func atCurrentRevision(set *appsv1.StatefulSet, ordinal int) bool {
	strategy := &set.Spec.UpdateStrategy
	index := ordinal - startOrdinal(set)
	if strategy.RollingUpdate != nil {
		return index < partitionOf(set)
	}
	return strategy.Type == appsv1.RollingUpdateStatefulSetStrategyType && index < int(set.Status.CurrentReplicas)
}

func (s *setSync) newVersionedPod(ordinal int) (*corev1.Pod, error) {
	revision := s.update
	if atCurrentRevision(s.set, ordinal) {
		revision = s.current
	}
	template := &s.set.Spec.Template
	if revision != s.update {
		recorded, err := templateOf(revision)
		if err != nil {
			return nil, err
		}
		template = recorded
	}
	return newPod(s.set, template, revision.Name, ordinal), nil
}

// recount computes the counters again, planned pods included: they count for nothing, as they have no phase.
func (s *setSync) recount() {
	countReplicas(&s.status, s.set.Spec.MinReadySeconds, s.now, s.replicas, s.condemned)
}

func (s *setSync) processReplicas(resp *apiserver.Response) (sim.Action, bool) {
	return s.workThrough(resp, taskReplica, s.replicas, stageCondemnedClaims)
}

func (s *setSync) fixCondemnedClaims(resp *apiserver.Response) (sim.Action, bool) {
	return s.workThrough(resp, taskClaims, s.condemned, stageCondemned)
}

func (s *setSync) processCondemned(resp *apiserver.Response) (sim.Action, bool) {
	return s.workThrough(resp, taskCondemned, s.condemned, stageUpdate)
}

// workThrough does a task on each pod of a list, in the order and batches that the set's pod management asks for.
func (s *setSync) workThrough(resp *apiserver.Response, task podTask, pods []*corev1.Pod, then setStage) (sim.Action, bool) {
	if s.work == nil {
		s.batch = newSlowStart(len(pods), maxBatch)
	}
	for {
		if s.work == nil {
			if s.next == len(pods) {
				return s.enter(then)
			}
			s.work = &podWork{sync: s, task: task, pod: pods[s.next]}
		}
		action, yield := s.work.run(resp)
		if yield {
			return action, true
		}
		resp = nil
		exit, err := s.work.exit, s.work.err
		s.work = nil
		s.next++
		if s.stop(exit, err) {
			s.recount()
			return s.enter(stageStatus)
		}
	}
}

// stop takes the outcome of the work on one pod and reports whether the sync must not go on to the next: a set with ordered pods
// stops at the first that must be waited for or fails.
func (s *setSync) stop(exit bool, err error) bool {
	if !burst(s.set) {
		s.err = err
		return exit || err != nil
	}
	s.batch.note(err)
	if s.batch.over() {
		s.err = utilerrors.NewAggregate(s.batch.errs)
	}
	return s.err != nil
}

// updatePods deletes pods of an old revision, one at a time (up to maxUnavailable in 1.37).
func (s *setSync) updatePods(resp *apiserver.Response) (sim.Action, bool) {
	if resp == nil {
		s.recount()
		if s.set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
			return s.enter(stageStatus)
		}
		if s.victims, s.err = s.outdated(); s.err != nil {
			return s.enter(stageStatus)
		}
	} else {
		if err := failure(resp); err != nil && !apierrors.IsNotFound(err) {
			s.err = err
			return s.enter(stageStatus)
		}
		s.status.CurrentReplicas--
		s.next++
	}
	if s.next == len(s.victims) {
		return s.enter(stageStatus)
	}
	return sim.Call(s.podTarget(s.victims[s.next]).delete(metav1.DeleteOptions{})), true
}

// outdated returns the pods to delete for the update in this sync.
func (s *setSync) outdated() ([]*corev1.Pod, error) {
	if s.c.options.Version != apiserver.V136 {
		return s.outdatedWithinBudget()
	}
	for i := len(s.replicas) - 1; i >= partitionOf(s.set); i-- {
		pod := s.replicas[i]
		if s.replaceable(pod) {
			return []*corev1.Pod{pod}, nil
		}
		if s.unavailable(pod) {
			return nil, nil
		}
	}
	return nil, nil
}

func (s *setSync) replaceable(pod *corev1.Pod) bool {
	return podRevision(pod) != s.update.Name && !terminating(pod)
}

// outdatedWithinBudget is the choice of 1.37, where MaxUnavailableStatefulSet is on: from the highest ordinal down, as
// many as maxUnavailable leaves. With parallel pod management, outdated pods that are down already go first, and are
// not counted a second time.
func (s *setSync) outdatedWithinBudget() ([]*corev1.Pod, error) {
	budget, err := maxUnavailable(s.set)
	if err != nil {
		return nil, err
	}
	for _, pod := range s.replicas {
		if s.unavailable(pod) {
			budget--
		}
	}
	var victims, healthy []*corev1.Pod
	for i := len(s.replicas) - 1; i >= partitionOf(s.set); i-- {
		pod := s.replicas[i]
		switch {
		case !s.replaceable(pod):
		case burst(s.set) && s.unavailable(pod):
			victims = append(victims, pod)
		default:
			healthy = append(healthy, pod)
		}
	}
	return append(victims, healthy[:max(0, min(budget, len(healthy)))]...), nil
}

// writeStatus puts the status, also after an error. A conflict is retried with the set as the cache has it at that
// moment, but always with the status that was computed before.
func (s *setSync) writeStatus(resp *apiserver.Response) (sim.Action, bool) {
	switch {
	case s.written == nil:
		completeUpdate(s.set, &s.status, s.c.options.Version)
		if !statusDiffers(s.set, &s.status) {
			return s.enter(stageTruncate)
		}
		s.written = s.set
	case resp != nil:
		err := failure(resp)
		if err == nil {
			s.c.own.wrote(s.written, s.c.setKind, resp.Revision)
			return s.enter(stageTruncate)
		}
		s.failed++
		if cached := s.c.cachedSet(s.key); cached != nil {
			s.written = cached
		}
		if pause, again := defaultRetry.after(s.failed); again && apierrors.IsConflict(err) {
			return sim.Wait(pause), true
		}
		if s.err == nil {
			s.err = err
		}
		return s.enter(stageTruncate)
	}
	body := *s.written
	body.Status = s.status
	return sim.Call(s.setTarget().updateStatus(&body)), true
}

// truncateHistory deletes the oldest revisions that nothing refers to, beyond the limit.
func (s *setSync) truncateHistory(resp *apiserver.Response) (sim.Action, bool) {
	if resp == nil {
		s.history = s.expired()
	} else {
		if err := failure(resp); err != nil {
			s.err = errors.Join(s.err, err)
			return s.enter(stageEnd)
		}
		s.next++
	}
	if s.next == len(s.history) {
		return s.enter(stageEnd)
	}
	return sim.Call(s.revisionTarget(s.history[s.next].Name).delete(metav1.DeleteOptions{})), true
}

func (s *setSync) expired() []*appsv1.ControllerRevision {
	live := map[string]bool{}
	for _, revision := range []*appsv1.ControllerRevision{s.current, s.update} {
		if revision != nil {
			live[revision.Name] = true
		}
	}
	for _, pod := range s.pods {
		live[podRevision(pod)] = true
	}
	unused := slices.DeleteFunc(slices.Clone(s.history), func(r *appsv1.ControllerRevision) bool { return live[r.Name] })
	limit := s.set.Spec.RevisionHistoryLimit
	if limit == nil || *limit < 0 || len(unused) <= int(*limit) {
		return nil
	}
	return unused[:len(unused)-int(*limit)]
}

// end plans another sync for when the next pod becomes available, as no event says that. If none is known to, it is for
// minReadySeconds later, in case.
func (s *setSync) end(*apiserver.Response) (sim.Action, bool) {
	if s.err != nil {
		return sim.Fail(s.err), true
	}
	minReady := s.set.Spec.MinReadySeconds
	if minReady > 0 && s.status.ReadyReplicas != s.status.AvailableReplicas {
		in := time.Duration(minReady) * time.Second
		if at, ok := nextAvailability(s.pods, minReady, s.now); ok {
			in = max(0, at.Sub(s.c.env.Now()))
		}
		s.c.queue.AddAfter(s.key, in)
	}
	return sim.Done(), true
}
