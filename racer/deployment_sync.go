package racer

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// deploymentSync is one sync of one Deployment: syncDeployment. It walks through its stages as [setSync] does.
type deploymentSync struct {
	c     *DeploymentController
	key   string
	stage deploymentStage
	asked bool // whether an answer is due

	// deployment is what the cache held when the sync began, with what the sync has learnt since: its annotations and its status
	// are the sync's own. Every write is made of it, and carries the revision that it had at the beginning.
	deployment *appsv1.Deployment
	claim      *claim[*appsv1.ReplicaSet]
	sets       []*appsv1.ReplicaSet // its own, from old to new
	pods       map[types.UID][]*corev1.Pod

	// The ReplicaSet of the template, or nil, and all others: what the stages up to deploymentRevision find out.
	create  bool
	then    deploymentStage
	newSet  *appsv1.ReplicaSet
	oldSets []*appsv1.ReplicaSet
	err     error // why the ReplicaSet could not be created

	// scales are the ReplicaSets to resize, one after the other; scaled is how many of them have been.
	scales  []scaling
	scaled  int
	removed int32 // replicas taken from old ReplicaSets
	// confused is set where an old ReplicaSet has more available pods than it is to have, as right after it shrank: upstream
	// takes that for an error, and takes nothing more from the old ones in this sync.
	confused bool
	unused   []*appsv1.ReplicaSet
	next     int // of the unused ones, to be deleted
}

type deploymentStage uint8

// The stages, with the functions of pkg/controller/deployment (v1.36.3) that they play.
const (
	deploymentBegin      deploymentStage = iota // syncDeployment, up to its first call
	deploymentClaim                             // getReplicaSetsForDeployment
	deploymentPaused                            // checkPausedConditions, its answer
	deploymentDecide                            // the rest of syncDeployment
	deploymentFind                              // getNewReplicaSet
	deploymentUpdated                           // the same, where there is one that was not as it should be
	deploymentCreated                           // the same, where there was none
	deploymentRefused                           // the same, where there is none still
	deploymentRevision                          // the same, its last write: of the revision
	deploymentScaling                           // isScalingEvent
	deploymentScale                             // scale
	deploymentScaled                            // what follows it in sync
	deploymentRoll                              // rolloutRolling
	deploymentGrown                             // the same, after reconcileNewReplicaSet
	deploymentCleaned                           // reconcileOldReplicaSets, after cleanupUnhealthyReplicas
	deploymentShrunk                            // the same, after scaleDownOldReplicaSetsForRollingUpdate
	deploymentRecreate                          // rolloutRecreate
	deploymentEmptied                           // the same, after scaleDownOldReplicaSetsForRecreate
	deploymentRefill                            // the same, where there is a new ReplicaSet
	deploymentRefilled                          // the same, after scaleUpNewReplicaSetForRecreate
	deploymentRollback                          // rollback
	deploymentComplete                          // cleanupDeployment, if the rollout is complete
	deploymentCleanup                           // cleanupDeployment of a paused one
	deploymentStatus                            // syncDeploymentStatus
	deploymentProgress                          // syncRolloutStatus
	deploymentLastAnswer                        // the answer to the last write
)

// deploymentStages are the parts of a sync, by stage.
var deploymentStages = [...]func(*deploymentSync, *apiserver.Response) (sim.Action, bool){
	deploymentBegin:      (*deploymentSync).begin,
	deploymentClaim:      (*deploymentSync).claimSets,
	deploymentPaused:     (*deploymentSync).pausedNoted,
	deploymentDecide:     (*deploymentSync).decide,
	deploymentFind:       (*deploymentSync).findNew,
	deploymentUpdated:    (*deploymentSync).newUpdated,
	deploymentCreated:    (*deploymentSync).newCreated,
	deploymentRefused:    (*deploymentSync).newRefused,
	deploymentRevision:   (*deploymentSync).revisionNoted,
	deploymentScaling:    (*deploymentSync).ifScaled,
	deploymentScale:      (*deploymentSync).scale,
	deploymentScaled:     (*deploymentSync).afterScale,
	deploymentRoll:       (*deploymentSync).roll,
	deploymentGrown:      (*deploymentSync).afterGrowth,
	deploymentCleaned:    (*deploymentSync).shrinkOld,
	deploymentShrunk:     (*deploymentSync).afterShrinking,
	deploymentRecreate:   (*deploymentSync).recreate,
	deploymentEmptied:    (*deploymentSync).afterEmptying,
	deploymentRefill:     (*deploymentSync).refill,
	deploymentRefilled:   (*deploymentSync).afterRefill,
	deploymentRollback:   (*deploymentSync).rollBack,
	deploymentComplete:   (*deploymentSync).cleanUpComplete,
	deploymentCleanup:    (*deploymentSync).cleanUpPaused,
	deploymentStatus:     (*deploymentSync).writeStatus,
	deploymentProgress:   (*deploymentSync).writeProgress,
	deploymentLastAnswer: (*deploymentSync).over,
}

// Next implements [sim.Task].
func (s *deploymentSync) Next(resp *apiserver.Response) sim.Action {
	for {
		action, yield := deploymentStages[s.stage](s, resp)
		if yield {
			return action
		}
		resp = nil
	}
}

func (s *deploymentSync) enter(stage deploymentStage) (sim.Action, bool) {
	s.stage, s.asked = stage, false
	return sim.Action{}, false
}

// ask makes a request whose answer goes to a stage.
func (s *deploymentSync) ask(stage deploymentStage, request *apiserver.Request) (sim.Action, bool) {
	s.stage, s.asked = stage, true
	return sim.Call(request), true
}

func (s *deploymentSync) fail(err error) (sim.Action, bool) { return s.c.failed(s.key, err), true }

// over takes the answer to the last write of a sync.
func (s *deploymentSync) over(resp *apiserver.Response) (sim.Action, bool) {
	if err := failure(resp); err != nil {
		return s.fail(err)
	}
	return s.c.done(s.key), true
}

func (s *deploymentSync) target() target { return targetAt(s.c.kind, s.key) }

func (s *deploymentSync) setTarget(name string) target {
	return targetOf(s.c.setKind, s.deployment.Namespace, name)
}

// putStatus asks for the Deployment's status, and annotations, as the sync has them by now.
func (s *deploymentSync) putStatus(stage deploymentStage) (sim.Action, bool) {
	return s.ask(stage, s.target().updateStatus(s.body()))
}

// body returns what a request may keep: the sync goes on changing its annotations.
func (s *deploymentSync) body() *appsv1.Deployment {
	body := *s.deployment
	body.Annotations = maps.Clone(body.Annotations)
	return &body
}

func (s *deploymentSync) begin(*apiserver.Response) (sim.Action, bool) {
	namespace, name := splitKey(s.key)
	cached, ok := s.c.deployments.Get(namespace, name).(*appsv1.Deployment)
	if !ok {
		return s.c.done(s.key), true
	}
	deployment := *cached
	deployment.Annotations = cloned(cached.Annotations)
	s.deployment = &deployment
	selector, err := metav1.LabelSelectorAsSelector(cached.Spec.Selector)
	if err != nil {
		return s.fail(fmt.Errorf("deployment %s has invalid label selector: %w", s.key, err))
	}
	s.claim = &claim[*appsv1.ReplicaSet]{
		owner: cached, ownerAt: s.target(), gvk: deploymentGVK, kind: s.c.setKind,
		matches: func(set *appsv1.ReplicaSet) bool { return selector.Matches(labels.Set(set.Labels)) },
	}
	for _, obj := range s.c.sets.List(namespace) {
		s.claim.candidates = append(s.claim.candidates, obj.(*appsv1.ReplicaSet))
	}
	return s.enter(deploymentClaim)
}

func (s *deploymentSync) claimSets(resp *apiserver.Response) (sim.Action, bool) {
	if action, yield := s.claim.run(resp); yield {
		return action, true
	}
	if err := s.claim.err(); err != nil {
		return s.fail(err)
	}
	s.sets = s.claim.claimed
	slices.SortFunc(s.sets, byCreation)
	s.pods = map[types.UID][]*corev1.Pod{}
	for _, set := range s.sets {
		s.pods[set.UID] = s.c.podsOf(set)
	}
	if s.deployment.DeletionTimestamp != nil {
		return s.find(false, deploymentStatus)
	}
	if s.notePause() {
		return s.putStatus(deploymentPaused)
	}
	return s.enter(deploymentDecide)
}

// notePause brings the condition Progressing into line with whether the Deployment is paused, and reports whether it was not.
// A deadline that was missed stays noted.
func (s *deploymentSync) notePause() bool {
	if !hasDeadline(s.deployment) {
		return false
	}
	condition, paused := deploymentCondition(&s.deployment.Status, appsv1.DeploymentProgressing), s.deployment.Spec.Paused
	switch noted := condition != nil && condition.Reason == reasonPaused; {
	case condition != nil && condition.Reason == reasonTimedOut, paused == noted:
		return false
	case paused:
		s.setProgressing(&s.deployment.Status, corev1.ConditionUnknown, reasonPaused, "Deployment is paused")
	default:
		s.setProgressing(&s.deployment.Status, corev1.ConditionUnknown, reasonResumed, "Deployment is resumed")
	}
	return true
}

func (s *deploymentSync) pausedNoted(resp *apiserver.Response) (sim.Action, bool) {
	if err := failure(resp); err != nil {
		return s.fail(err)
	}
	return s.enter(deploymentDecide)
}

func (s *deploymentSync) decide(*apiserver.Response) (sim.Action, bool) {
	if s.deployment.Spec.Paused {
		return s.find(false, deploymentScale)
	}
	if _, ok := rollbackTo(s.deployment); ok {
		return s.find(true, deploymentRollback)
	}
	return s.find(false, deploymentScaling)
}

// find looks for the ReplicaSet of the template, and creates it if it is to: getAllReplicaSetsAndSyncRevision.
func (s *deploymentSync) find(create bool, then deploymentStage) (sim.Action, bool) {
	s.create, s.then, s.newSet, s.oldSets = create, then, nil, nil
	for _, set := range s.sets {
		if s.newSet == nil && sameTemplateButHash(&set.Spec.Template, &s.deployment.Spec.Template) {
			s.newSet = set
		} else {
			s.oldSets = append(s.oldSets, set)
		}
	}
	return s.enter(deploymentFind)
}

// all returns all ReplicaSets, the new one last.
func (s *deploymentSync) all() []*appsv1.ReplicaSet {
	if s.newSet == nil {
		return s.oldSets
	}
	return append(slices.Clone(s.oldSets), s.newSet)
}

func (s *deploymentSync) findNew(*apiserver.Response) (sim.Action, bool) {
	newest, _ := lastRevisions(s.oldSets)
	if s.newSet != nil {
		return s.findExisting(newest + 1)
	}
	if !s.create {
		return s.enter(s.then)
	}
	set := newReplicaSet(s.deployment)
	*set.Spec.Replicas = newReplicas(s.deployment, append(slices.Clone(s.oldSets), set), set)
	annotate(set.Annotations, s.deployment, newest+1)
	annotateReplicas(set.Annotations, s.deployment)
	s.newSet = set
	return s.ask(deploymentCreated, s.setTarget(set.Name).create(set.DeepCopy()))
}

// findExisting brings the annotations of a ReplicaSet that exists into line, or, if they are, the Deployment's with them.
func (s *deploymentSync) findExisting(revision int64) (sim.Action, bool) {
	set := *s.newSet
	set.Annotations = cloned(set.Annotations)
	if changed := annotate(set.Annotations, s.deployment, revision); changed || set.Spec.MinReadySeconds != s.deployment.Spec.MinReadySeconds {
		set.Spec.MinReadySeconds = s.deployment.Spec.MinReadySeconds
		return s.ask(deploymentUpdated, s.setTarget(set.Name).update(&set))
	}
	changed := s.setRevision(set.Annotations[revisionAnnotation])
	if hasDeadline(s.deployment) && deploymentCondition(&s.deployment.Status, appsv1.DeploymentProgressing) == nil {
		s.setProgressing(&s.deployment.Status, corev1.ConditionTrue, reasonFound, fmt.Sprintf("Found new replica set %q", set.Name))
		changed = true
	}
	if changed {
		return s.putStatus(deploymentRevision)
	}
	return s.enter(s.then)
}

// setRevision notes the revision of the Deployment and reports whether it is news.
func (s *deploymentSync) setRevision(revision string) bool {
	if old, ok := s.deployment.Annotations[revisionAnnotation]; ok && old == revision {
		return false
	}
	s.deployment.Annotations[revisionAnnotation] = revision
	return true
}

func (s *deploymentSync) newUpdated(resp *apiserver.Response) (sim.Action, bool) {
	if err := failure(resp); err != nil {
		return s.fail(err)
	}
	s.newSet = resp.Object.(*appsv1.ReplicaSet)
	return s.enter(s.then)
}

func (s *deploymentSync) newCreated(resp *apiserver.Response) (sim.Action, bool) {
	wanted, err := s.newSet, failure(resp)
	switch {
	case err == nil:
		s.newSet = resp.Object.(*appsv1.ReplicaSet)
		if hasDeadline(s.deployment) {
			s.setProgressing(&s.deployment.Status, corev1.ConditionTrue, reasonCreated, fmt.Sprintf("Created new replica set %q", s.newSet.Name))
		}
	case apierrors.IsAlreadyExists(err):
		existing, ok := s.c.sets.Get(wanted.Namespace, wanted.Name).(*appsv1.ReplicaSet)
		if !ok {
			return s.fail(apierrors.NewNotFound(appsv1.Resource("replicasets"), wanted.Name))
		}
		if !metav1.IsControlledBy(existing, s.deployment) || !sameTemplateButHash(&existing.Spec.Template, &s.deployment.Spec.Template) {
			s.collide()
			s.err = err
			return s.putStatus(deploymentRefused)
		}
		s.newSet = existing
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return s.fail(err)
	default:
		if !hasDeadline(s.deployment) {
			return s.fail(err)
		}
		s.err = err
		s.setProgressing(&s.deployment.Status, corev1.ConditionFalse, reasonCreateError,
			fmt.Sprintf("Failed to create new replica set %q: %v", wanted.Name, err))
		return s.putStatus(deploymentRefused)
	}
	if changed := s.setRevision(wanted.Annotations[revisionAnnotation]); changed || err == nil && hasDeadline(s.deployment) {
		return s.putStatus(deploymentRevision)
	}
	return s.enter(s.then)
}

// collide counts a ReplicaSet of another template or owner that has the name that the Deployment wants to give. The next sync
// gives another.
func (s *deploymentSync) collide() {
	var collisions int32
	if s.deployment.Status.CollisionCount != nil {
		collisions = *s.deployment.Status.CollisionCount
	}
	collisions++
	s.deployment.Status.CollisionCount = &collisions
}

// newRefused ends a sync that could not create its ReplicaSet, whether that could be noted in the status or not.
func (s *deploymentSync) newRefused(*apiserver.Response) (sim.Action, bool) { return s.fail(s.err) }

func (s *deploymentSync) revisionNoted(resp *apiserver.Response) (sim.Action, bool) {
	if err := failure(resp); err != nil {
		return s.fail(err)
	}
	return s.enter(s.then)
}

// rollbackTo returns the revision that an annotation asks to go back to, as apps/v1beta1 did with a field; 0 is the last one.
func rollbackTo(deployment *appsv1.Deployment) (int64, bool) {
	revision, err := strconv.ParseInt(deployment.Annotations[appsv1.DeprecatedRollbackTo], 10, 64)
	return revision, err == nil
}

// rollBack gives the Deployment the template of an older ReplicaSet, and takes the request off it, also if there is none.
func (s *deploymentSync) rollBack(*apiserver.Response) (sim.Action, bool) {
	revision, _ := rollbackTo(s.deployment)
	if revision == 0 {
		_, revision = lastRevisions(s.all())
	}
	for _, set := range s.all() {
		if own, err := revisionOf(set); err != nil || own != revision || revision == 0 {
			continue
		}
		if !sameTemplateButHash(&s.deployment.Spec.Template, &set.Spec.Template) {
			s.restore(set)
		}
		break
	}
	delete(s.deployment.Annotations, appsv1.DeprecatedRollbackTo)
	return s.ask(deploymentLastAnswer, s.target().update(s.body()))
}

// restore takes over the template of a ReplicaSet, and those of its annotations that came from the Deployment.
func (s *deploymentSync) restore(set *appsv1.ReplicaSet) {
	s.deployment.Spec.Template = *withoutHash(&set.Spec.Template).DeepCopy()
	maps.DeleteFunc(s.deployment.Annotations, func(name, _ string) bool { return !ownAnnotations[name] })
	for name, value := range set.Annotations {
		if !ownAnnotations[name] {
			s.deployment.Annotations[name] = value
		}
	}
}
