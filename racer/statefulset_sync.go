package racer

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// setSync is one sync of one set. It walks through its stages in order; each stage returns true with an action that it
// wants taken, and is called again with the response (nil after a pause), until it enters another stage.
type setSync struct {
	c     *StatefulSetController
	key   string
	stage setStage

	// What the caches held when the sync began; immutable.
	set      *appsv1.StatefulSet
	selector labels.Selector
	// now is when the sync knew its pods. All it decides about availability it decides for this instant.
	now time.Time

	orphans []*appsv1.ControllerRevision // revisions to adopt
	claim   *claim[*corev1.Pod]
	next    int  // the next of the list that the stage goes through
	calling call // what the stage waits for the answer to

	pods            []*corev1.Pod // the set's own
	history         []*appsv1.ControllerRevision
	current, update *appsv1.ControllerRevision
	wanted          *appsv1.ControllerRevision // the revision being created or renumbered
	number          int64                      // what it is renumbered to
	collisions      int32
	failed          int // tries of the present write that ended in a conflict

	status           appsv1.StatefulSetStatus
	replicas         []*corev1.Pod // by ordinal; missing ones are planned, with no phase
	condemned        []*corev1.Pod // highest ordinal first
	firstUnavailable *corev1.Pod
	batch            slowStart // of a set with parallel pod management
	work             *podWork
	victims          []*corev1.Pod // to be deleted for the update
	written          *appsv1.StatefulSet
	err              error // ends the sync, but only after the status is written
}

type setStage uint8

// The stages, with the functions of pkg/controller/statefulset (v1.36.3) that they play.
const (
	stageBegin           setStage = iota // sync, up to its first call
	stageAdoptRevisions                  // adoptOrphanRevisions
	stageClaimPods                       // getPodsForStatefulSet
	stageRevisions                       // getStatefulSetRevisions, and the calculations that updateStatefulSet begins with
	stageReplicas                        // processReplica, for each ordinal of the set
	stageCondemnedClaims                 // fixPodClaim, for each pod beyond them
	stageCondemned                       // processCondemned, for the same pods
	stageUpdate                          // the rolling update at the end of updateStatefulSet
	stageStatus                          // completeRollingUpdate, updateStatefulSetStatus
	stageTruncate                        // truncateHistory
	stageEnd                             // the end of syncStatefulSet
)

// setStages are the parts of a sync, by stage.
var setStages = [...]func(*setSync, *apiserver.Response) (sim.Action, bool){
	stageBegin:           (*setSync).begin,
	stageAdoptRevisions:  (*setSync).adoptRevisions,
	stageClaimPods:       (*setSync).claimPods,
	stageRevisions:       (*setSync).recordRevision,
	stageReplicas:        (*setSync).processReplicas,
	stageCondemnedClaims: (*setSync).fixCondemnedClaims,
	stageCondemned:       (*setSync).processCondemned,
	stageUpdate:          (*setSync).updatePods,
	stageStatus:          (*setSync).writeStatus,
	stageTruncate:        (*setSync).truncateHistory,
	stageEnd:             (*setSync).end,
}

// Next implements [sim.Task].
func (s *setSync) Next(resp *apiserver.Response) sim.Action {
	for {
		action, yield := setStages[s.stage](s, resp)
		if yield {
			return action
		}
		resp = nil
	}
}

func (s *setSync) enter(next setStage) (sim.Action, bool) {
	s.stage, s.next, s.calling, s.failed = next, 0, callNone, 0
	return sim.Action{}, false
}

func (s *setSync) ask(what call, request *apiserver.Request) (sim.Action, bool) {
	s.calling = what
	return sim.Call(request), true
}

func (s *setSync) setTarget() target { return targetOf(s.c.setKind, s.set.Namespace, s.set.Name) }

func (s *setSync) podTarget(pod *corev1.Pod) target {
	return targetOf(s.c.podKind, pod.Namespace, pod.Name)
}

func (s *setSync) revisionTarget(name string) target {
	return targetOf(s.c.revisionKind, s.set.Namespace, name)
}

func (s *setSync) begin(*apiserver.Response) (sim.Action, bool) {
	if err := s.c.own.ensureReady(s.key); err != nil {
		return sim.Fail(err), true
	}
	s.set = s.c.cachedSet(s.key)
	if s.set == nil {
		s.c.own.forget(s.key)
		return sim.Done(), true
	}
	selector, err := s.c.selectorOf(s.set)
	if err != nil {
		s.c.env.Log(fmt.Sprintf("StatefulSet %s: bad selector: %v", s.key, err))
		return sim.Done(), true // a retry would not help
	}
	s.selector = selector
	return s.enter(stageAdoptRevisions)
}

// selectorOf returns a set's selector.
func (c *StatefulSetController) selectorOf(set *appsv1.StatefulSet) (labels.Selector, error) {
	if selector, ok := c.selectors[set.UID]; ok {
		return selector, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err == nil {
		c.selectors[set.UID] = selector
	}
	return selector, err
}

func (s *setSync) adoptRevisions(resp *apiserver.Response) (sim.Action, bool) {
	switch s.calling {
	case callNone:
		for _, revision := range s.c.listRevisions(s.set, s.selector) {
			if metav1.GetControllerOfNoCopy(revision) == nil {
				s.orphans = append(s.orphans, revision)
			}
		}
		if len(s.orphans) == 0 {
			return s.enter(stageClaimPods)
		}
		return s.ask(callRecheck, s.setTarget().get())
	case callRecheck:
		if err := recheck(s.set, setGVK.Kind, resp); err != nil {
			return sim.Fail(fmt.Errorf("can't adopt ControllerRevisions: %w", err)), true
		}
	default:
		if err := failure(resp); err != nil {
			return sim.Fail(err), true
		}
		s.next++
	}
	if s.next == len(s.orphans) {
		return s.enter(stageClaimPods)
	}
	orphan := s.orphans[s.next]
	patch := adoptPatch(orphan.UID, *metav1.NewControllerRef(s.set, setGVK))
	return s.ask(callAdopt, s.revisionTarget(orphan.Name).patch(types.StrategicMergePatchType, patch))
}

// claimPods decides which of the namespace's pods are the set's own: those that its selector matches, with a name that it would
// give.
func (s *setSync) claimPods(resp *apiserver.Response) (sim.Action, bool) {
	if s.claim == nil {
		s.claim = &claim[*corev1.Pod]{
			owner: s.set, ownerAt: s.setTarget(), gvk: setGVK, kind: s.c.podKind, matches: s.matches,
			own: s.c.own,
		}
		for _, obj := range s.c.pods.List(s.set.Namespace) {
			s.claim.candidates = append(s.claim.candidates, obj.(*corev1.Pod))
		}
	}
	if action, yield := s.claim.run(resp); yield {
		return action, true
	}
	if err := s.claim.err(); err != nil {
		return sim.Fail(err), true
	}
	s.pods = s.claim.claimed
	return s.enter(stageRevisions)
}

func (s *setSync) matches(pod *corev1.Pod) bool {
	parent, _ := parseOrdinal(pod.Name)
	return parent == s.set.Name && s.selector.Matches(labels.Set(pod.Labels))
}

// recordRevision finds or writes the ControllerRevision of the set's template, and the current one.
func (s *setSync) recordRevision(resp *apiserver.Response) (sim.Action, bool) {
	switch {
	case s.calling == callNone:
		return s.findRevision()
	case resp == nil: // after a pause
		return s.renumber()
	}
	err := failure(resp)
	switch s.calling {
	case callCreate:
		if apierrors.IsAlreadyExists(err) {
			return s.ask(callInspect, s.revisionTarget(s.wanted.Name).get())
		}
		if err == nil {
			s.update = resp.Object.(*appsv1.ControllerRevision)
		}
	case callInspect:
		if err == nil {
			existing := resp.Object.(*appsv1.ControllerRevision)
			if string(existing.Data.Raw) != string(s.wanted.Data.Raw) {
				s.collisions++
				return s.createRevision()
			}
			s.update = existing
		}
	case callRenumber:
		if pause, again := s.renumberFailed(err); again {
			return sim.Wait(pause), true
		}
		if err == nil {
			s.update = s.wanted
		}
	default: // the other calls are not about revisions
	}
	return s.revisionRecorded(err)
}

func (s *setSync) findRevision() (sim.Action, bool) {
	s.now = s.c.env.Now()
	s.history = s.c.listRevisions(s.set, s.selector)
	if s.set.Status.CollisionCount != nil {
		s.collisions = *s.set.Status.CollisionCount
	}
	data, err := s.c.recordedData(s.set)
	if err != nil {
		return s.revisionRecorded(err)
	}
	s.number = 1
	if len(s.history) == 0 {
		s.wanted = newRevision(s.set, data, s.number, s.collisions)
		return s.createRevision()
	}
	newest := s.history[len(s.history)-1]
	s.number = newest.Revision + 1
	s.wanted = newRevision(s.set, data, s.number, s.collisions)
	equal := slices.DeleteFunc(slices.Clone(s.history), func(r *appsv1.ControllerRevision) bool {
		return !sameRevision(r, s.wanted)
	})
	switch {
	case len(equal) > 0 && sameRevision(newest, equal[len(equal)-1]):
		s.update = newest
	case len(equal) > 0:
		s.wanted = equal[len(equal)-1]
		return s.renumber()
	case s.c.sameTemplate(s.set, newest):
		s.update = newest
	default:
		return s.createRevision()
	}
	return s.revisionRecorded(nil)
}

// createRevision posts the wanted revision under the name that its data and the collisions so far give it.
func (s *setSync) createRevision() (sim.Action, bool) {
	// Upstream renames the revision on a collision, but leaves its hash label as it was.
	hash := revisionHash(s.wanted.Data.Raw, s.collisions)
	wanted := *s.wanted
	wanted.Name = revisionName(s.set.Name, hash)
	s.wanted = &wanted
	body := wanted
	return s.ask(callCreate, s.revisionTarget(wanted.Name).create(&body))
}

// renumber makes an older revision the newest: the template was rolled back to it. After a conflict the cache may show
// that this was done before, by a sync whose write it did not hold yet.
func (s *setSync) renumber() (sim.Action, bool) {
	if s.wanted.Revision == s.number {
		s.update = s.wanted
		return s.revisionRecorded(nil)
	}
	wanted := *s.wanted
	wanted.Revision = s.number
	s.wanted = &wanted
	body := wanted
	return s.ask(callRenumber, s.revisionTarget(wanted.Name).update(&body))
}

// renumberFailed prepares another try after a conflict, from what the cache holds at this moment.
func (s *setSync) renumberFailed(err error) (pause time.Duration, again bool) {
	if !apierrors.IsConflict(err) {
		return 0, false
	}
	s.failed++
	if cached, ok := s.c.revisions.Get(s.wanted.Namespace, s.wanted.Name).(*appsv1.ControllerRevision); ok {
		s.wanted = cached
	}
	return defaultBackoff.after(s.failed)
}

// revisionRecorded goes on with the pods, or on an error to the end: without revisions no status is written.
func (s *setSync) revisionRecorded(err error) (sim.Action, bool) {
	if err != nil {
		s.err = err
		return s.enter(stageTruncate)
	}
	s.current = s.update
	for _, revision := range s.history {
		if revision.Name == s.set.Status.CurrentRevision {
			s.current = revision
			break
		}
	}
	if s.err = s.plan(); s.err != nil {
		return s.enter(stageTruncate)
	}
	if s.set.DeletionTimestamp != nil {
		return s.enter(stageStatus)
	}
	return s.enter(stageReplicas)
}
