package racer

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// replicaSync is one sync of one ReplicaSet: syncReplicaSet. It walks through its stages as [setSync] does.
type replicaSync struct {
	c     *ReplicaSetController
	key   string
	stage replicaStage

	set         *appsv1.ReplicaSet // as the cache had it when the sync began; immutable
	selector    labels.Selector
	manages     bool // whether all that was expected has been seen
	claim       *claim[*corev1.Pod]
	active      []*corev1.Pod // the set's own
	terminating []*corev1.Pod

	creates   slowStart
	victims   []*corev1.Pod // to delete
	next      int           // of the victims
	asked     bool          // whether an answer is due
	manageErr error

	now     time.Time
	status  appsv1.ReplicaSetStatus
	written *appsv1.ReplicaSet // what the status was put into
	failed  error              // why the first try to write it failed
}

type replicaStage uint8

// The stages, with the functions of pkg/controller/replicaset (v1.36.3) that they play.
const (
	replicaBegin  replicaStage = iota // syncReplicaSet, up to its first call
	replicaClaim                      // claimPods
	replicaManage                     // manageReplicas, what it decides
	replicaCreate                     // the same, slowStartBatch
	replicaDelete                     // the same, its deletions
	replicaStatus                     // calculateStatus and updateReplicaSetStatus
	replicaReread                     // the same, the read between its two tries
	replicaEnd                        // the end of syncReplicaSet
)

// replicaStages are the parts of a sync, by stage.
var replicaStages = [...]func(*replicaSync, *apiserver.Response) (sim.Action, bool){
	replicaBegin:  (*replicaSync).begin,
	replicaClaim:  (*replicaSync).claimPods,
	replicaManage: (*replicaSync).manage,
	replicaCreate: (*replicaSync).createPods,
	replicaDelete: (*replicaSync).deletePods,
	replicaStatus: (*replicaSync).writeStatus,
	replicaReread: (*replicaSync).reread,
	replicaEnd:    (*replicaSync).end,
}

// maxReplicasAtOnce is the most pods that one sync creates or deletes: BurstReplicas.
const maxReplicasAtOnce = 500

// Next implements [sim.Task].
func (s *replicaSync) Next(resp *apiserver.Response) sim.Action {
	for {
		action, yield := replicaStages[s.stage](s, resp)
		if yield {
			return action
		}
		resp = nil
	}
}

func (s *replicaSync) enter(stage replicaStage) (sim.Action, bool) {
	s.stage, s.asked, s.next = stage, false, 0
	return sim.Action{}, false
}

func (s *replicaSync) ask(request *apiserver.Request) (sim.Action, bool) {
	s.asked = true
	return sim.Call(request), true
}

func (s *replicaSync) target() target { return targetAt(s.c.setKind, s.key) }

func (s *replicaSync) podTarget(name string) target {
	return targetOf(s.c.podKind, s.set.Namespace, name)
}

func (s *replicaSync) begin(*apiserver.Response) (sim.Action, bool) {
	if err := s.c.own.ensureReady(s.key); err != nil {
		return sim.Fail(err), true
	}
	namespace, name := splitKey(s.key)
	s.set, _ = s.c.sets.Get(namespace, name).(*appsv1.ReplicaSet)
	if s.set == nil {
		s.c.own.forget(s.key)
		delete(s.c.expected, s.key)
		return sim.Done(), true
	}
	s.manages = s.c.expected.satisfied(s.key, s.c.env.Now())
	selector, err := metav1.LabelSelectorAsSelector(s.set.Spec.Selector)
	if err != nil {
		s.c.env.Log(fmt.Sprintf("ReplicaSet %s: bad selector: %v", s.key, err))
		return sim.Done(), true // a retry would not help
	}
	s.selector = selector
	s.claim = &claim[*corev1.Pod]{
		owner: s.set, ownerAt: s.target(), gvk: replicaSetGVK, kind: s.c.podKind, matches: s.matches,
		own: s.c.own,
	}
	for _, obj := range s.c.pods.List(s.set.Namespace) {
		pod := obj.(*corev1.Pod)
		ref := metav1.GetControllerOfNoCopy(pod)
		switch mine := ref != nil && ref.UID == s.set.UID; {
		case ref != nil && !mine, terminal(pod):
		case !terminating(pod):
			s.claim.candidates = append(s.claim.candidates, pod)
		case mine && s.matches(pod):
			s.terminating = append(s.terminating, pod)
		}
	}
	return s.enter(replicaClaim)
}

func (s *replicaSync) matches(pod *corev1.Pod) bool {
	return s.selector.Matches(labels.Set(pod.Labels))
}

func (s *replicaSync) claimPods(resp *apiserver.Response) (sim.Action, bool) {
	if action, yield := s.claim.run(resp); yield {
		return action, true
	}
	if err := s.claim.err(); err != nil {
		return sim.Fail(err), true
	}
	s.active = s.claim.claimed
	return s.enter(replicaManage)
}

// manage decides how many pods to create, or which to delete, and says what it expects to see of it.
func (s *replicaSync) manage(*apiserver.Response) (sim.Action, bool) {
	if !s.manages || s.set.DeletionTimestamp != nil {
		return s.enter(replicaStatus)
	}
	switch diff := len(s.active) - int(*s.set.Spec.Replicas); {
	case diff < 0:
		s.creates = newSlowStart(min(-diff, maxReplicasAtOnce), 0)
		s.c.expected.expect(s.key, s.creates.total, 0, s.c.env.Now())
		return s.enter(replicaCreate)
	case diff > 0:
		s.victims = s.toDelete(min(diff, maxReplicasAtOnce))
		s.c.expected.expectDeletions(s.key, s.victims, s.c.env.Now())
		return s.enter(replicaDelete)
	default:
		return s.enter(replicaStatus)
	}
}

// createPods creates the missing pods.
func (s *replicaSync) createPods(resp *apiserver.Response) (sim.Action, bool) {
	if s.asked {
		s.asked = false
		err := failure(resp)
		if err == nil {
			s.c.own.wrote(s.set, s.c.podKind, resp.Revision)
		}
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			err = nil // counts as created: nothing can be any more, and nothing needs to be
		}
		s.creates.note(err)
	}
	if s.creates.over() {
		s.manageErr = s.creates.firstError()
		s.c.expected.created(s.key, s.creates.missing()) // those will not be seen
		return s.enter(replicaStatus)
	}
	return s.ask(s.podTarget("").create(podFromTemplate(&s.set.Spec.Template, s.set, replicaSetGVK)))
}

// deletePods deletes all victims, and fails for the first that could not be.
func (s *replicaSync) deletePods(resp *apiserver.Response) (sim.Action, bool) {
	if s.asked {
		s.asked = false
		victim := s.victims[s.next]
		s.next++
		if err := failure(resp); err != nil {
			s.c.expected.deleted(s.key, victim)
			if !apierrors.IsNotFound(err) {
				s.manageErr = firstError(s.manageErr, fmt.Errorf("unable to delete pods: %w", err))
			}
		}
	}
	if s.next == len(s.victims) {
		return s.enter(replicaStatus)
	}
	return s.ask(s.podTarget(s.victims[s.next].Name).delete(metav1.DeleteOptions{}))
}

// writeStatus puts the status, also after an error, and tries once more with what it then reads.
func (s *replicaSync) writeStatus(resp *apiserver.Response) (sim.Action, bool) {
	if s.asked {
		err := failure(resp)
		switch {
		case err == nil:
			s.c.own.wrote(s.set, s.c.setKind, resp.Revision)
			s.written = resp.Object.(*appsv1.ReplicaSet)
			return s.enter(replicaEnd)
		case s.failed != nil:
			return sim.Fail(err), true
		}
		s.failed = err
		s.stage = replicaReread
		return s.ask(s.target().get())
	}
	if s.written == nil {
		s.now = s.c.env.Now()
		s.status = s.computeStatus()
		s.written = s.set
		if s.set.Generation == s.set.Status.ObservedGeneration && !s.statusDiffers() {
			return s.enter(replicaEnd)
		}
		s.status.ObservedGeneration = s.set.Generation
	}
	body := *s.written
	body.Status = s.status
	return s.ask(s.target().updateStatus(&body))
}

func (s *replicaSync) reread(resp *apiserver.Response) (sim.Action, bool) {
	if err := failure(resp); err != nil {
		return sim.Fail(err), true
	}
	s.written = resp.Object.(*appsv1.ReplicaSet)
	return s.enter(replicaStatus)
}

func (s *replicaSync) computeStatus() appsv1.ReplicaSetStatus {
	status := s.set.Status
	gone := int32(len(s.terminating))
	status.Replicas, status.TerminatingReplicas = int32(len(s.active)), &gone
	status.FullyLabeledReplicas, status.ReadyReplicas, status.AvailableReplicas = 0, 0, 0
	template := labels.Set(s.set.Spec.Template.Labels).AsSelectorPreValidated()
	for _, pod := range s.active {
		if template.Matches(labels.Set(pod.Labels)) {
			status.FullyLabeledReplicas++
		}
		if podReady(pod) {
			status.ReadyReplicas++
			if available(pod, s.set.Spec.MinReadySeconds, s.now) {
				status.AvailableReplicas++
			}
		}
	}
	status.Conditions = s.conditions()
	return status
}

// conditions returns the set's conditions with that of a failure to create or delete pods: it comes with the first failure,
// and goes with the first sync without one.
func (s *replicaSync) conditions() []appsv1.ReplicaSetCondition {
	old := s.set.Status.Conditions
	isFailure := func(c appsv1.ReplicaSetCondition) bool { return c.Type == appsv1.ReplicaSetReplicaFailure }
	switch failing := slices.ContainsFunc(old, isFailure); {
	case s.manageErr != nil && !failing:
		reason := "FailedCreate"
		if len(s.active) > int(*s.set.Spec.Replicas) {
			reason = "FailedDelete"
		}
		return append(slices.Clone(old), appsv1.ReplicaSetCondition{
			Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.now),
			Reason: reason, Message: s.manageErr.Error(),
		})
	case s.manageErr == nil && failing:
		return slices.DeleteFunc(slices.Clone(old), isFailure)
	default:
		return old
	}
}

func (s *replicaSync) statusDiffers() bool {
	old, status := s.set.Status, s.status
	old.ObservedGeneration, status.ObservedGeneration = 0, 0
	return !equality.Semantic.DeepEqual(old, status)
}

// end plans another sync for when the next pod becomes available, as no event says that.
func (s *replicaSync) end(*apiserver.Response) (sim.Action, bool) {
	if s.manageErr != nil {
		return sim.Fail(s.manageErr), true
	}
	minReady := s.written.Spec.MinReadySeconds
	if status := &s.written.Status; minReady > 0 && status.ReadyReplicas != status.AvailableReplicas {
		in := time.Duration(minReady) * time.Second
		if at, ok := nextAvailability(s.active, minReady, s.now); ok {
			in = max(0, at.Sub(s.c.env.Now()))
		}
		s.c.queue.AddAfter(s.key, in)
	}
	return sim.Done(), true
}
