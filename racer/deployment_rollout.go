package racer

import (
	"cmp"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// scaling is a ReplicaSet to resize.
type scaling struct {
	set  *appsv1.ReplicaSet
	size int32
	// annotate has the ReplicaSet written also where it only does not say how large its Deployment is.
	annotate bool
}

// runScales resizes ReplicaSets, one after the other: scaleReplicaSet. It returns true with an action to take, and false with an
// error or when all is done. What the server answered takes the place of what was there.
func (s *deploymentSync) runScales(resp *apiserver.Response) (action sim.Action, yield bool, err error) {
	if s.asked {
		s.asked = false
		if err := failure(resp); err != nil {
			return sim.Action{}, false, err
		}
		s.scales[s.scaled].set = resp.Object.(*appsv1.ReplicaSet)
		s.scaled++
	}
	for ; s.scaled < len(s.scales); s.scaled++ {
		next := &s.scales[s.scaled]
		set := *next.set
		set.Annotations = cloned(set.Annotations)
		resizes := *set.Spec.Replicas != next.size
		annotated := annotateReplicas(set.Annotations, s.deployment) && next.annotate
		if !resizes && !annotated {
			continue
		}
		size := next.size
		set.Spec.Replicas = &size
		action, yield = s.ask(s.stage, s.setTarget(set.Name).update(&set))
		return action, yield, nil
	}
	return sim.Action{}, false, nil
}

// resize enters a stage that begins with resizing ReplicaSets.
func (s *deploymentSync) resize(then deploymentStage, scales ...scaling) (sim.Action, bool) {
	s.scales, s.scaled = scales, 0
	return s.enter(then)
}

// ifScaled decides between scaling and a rollout: a Deployment was scaled if an active ReplicaSet has noted another size of it.
func (s *deploymentSync) ifScaled(*apiserver.Response) (sim.Action, bool) {
	for _, set := range active(s.all()) {
		if desired, ok := replicasIn(set, desiredReplicasAnnotation); ok && desired != *s.deployment.Spec.Replicas {
			return s.find(false, deploymentScale)
		}
	}
	if rolling(s.deployment) {
		return s.find(true, deploymentRoll)
	}
	return s.find(false, deploymentRecreate)
}

// scale resizes the only active ReplicaSet, or all of them in proportion to their sizes.
func (s *deploymentSync) scale(*apiserver.Response) (sim.Action, bool) {
	replicas := *s.deployment.Spec.Replicas
	activeSets := active(s.all())
	switch {
	case len(s.all()) == 0:
		return s.resize(deploymentScaled)
	case len(activeSets) == 0 && s.newSet != nil:
		return s.resize(deploymentScaled, scaling{set: s.newSet, size: replicas})
	case len(activeSets) == 0:
		return s.resize(deploymentScaled, scaling{set: slices.MaxFunc(s.oldSets, byCreation), size: replicas})
	case len(activeSets) == 1:
		return s.resize(deploymentScaled, scaling{set: activeSets[0], size: replicas})
	case s.saturated():
		var scales []scaling
		for _, set := range slices.Backward(active(s.oldSets)) {
			scales = append(scales, scaling{set: set})
		}
		return s.resize(deploymentScaled, scales...)
	case rolling(s.deployment):
		// The new one last, the others from new to old.
		old := active(s.oldSets)
		slices.Reverse(old)
		return s.resize(deploymentScaled, proportions(s.deployment, append(old, activeSets[len(old):]...))...)
	default:
		return s.resize(deploymentScaled)
	}
}

// saturated reports whether the new ReplicaSet has all the replicas there are to be, and all of them are available.
func (s *deploymentSync) saturated() bool {
	if s.newSet == nil {
		return false
	}
	replicas := *s.deployment.Spec.Replicas
	desired, ok := replicasIn(s.newSet, desiredReplicasAnnotation)
	return ok && desired == replicas && *s.newSet.Spec.Replicas == replicas && s.newSet.Status.AvailableReplicas == replicas
}

// proportions shares out what a Deployment is to grow or shrink by among its active ReplicaSets. What is left over by rounding
// goes to the largest.
func proportions(deployment *appsv1.Deployment, sets []*appsv1.ReplicaSet) []scaling {
	var allowed int32
	if replicas := *deployment.Spec.Replicas; replicas > 0 {
		allowed = replicas + maxSurge(deployment)
	}
	missing := allowed - total(sets).wanted
	if missing != 0 {
		sets = slices.SortedFunc(slices.Values(sets), func(a, b *appsv1.ReplicaSet) int {
			older := byCreation(a, b)
			if missing > 0 {
				older = -older
			}
			return cmp.Or(cmp.Compare(*b.Spec.Replicas, *a.Spec.Replicas), older)
		})
	}
	var scales []scaling
	var added int32
	for _, set := range sets {
		share := proportion(deployment, set, missing, added)
		scales = append(scales, scaling{set: set, size: *set.Spec.Replicas + share, annotate: true})
		added += share
	}
	scales[0].size = max(0, scales[0].size+missing-added)
	return scales
}

// proportion returns the share of one ReplicaSet, where the others got some already: GetReplicaSetProportion.
func proportion(deployment *appsv1.Deployment, set *appsv1.ReplicaSet, missing, added int32) int32 {
	switch left := missing - added; {
	case missing == 0 || left == 0:
		return 0
	case missing > 0:
		return min(fraction(deployment, set), left)
	default:
		return max(fraction(deployment, set), left)
	}
}

// fraction returns how much a ReplicaSet grows if it keeps its share of the Deployment: getReplicaSetFraction.
func fraction(deployment *appsv1.Deployment, set *appsv1.ReplicaSet) int32 {
	size := *set.Spec.Replicas
	if *deployment.Spec.Replicas == 0 {
		return -size
	}
	before, ok := replicasIn(set, maxReplicasAnnotation)
	if !ok || before == 0 {
		before = deployment.Status.Replicas
	}
	if before == 0 {
		return 0
	}
	return int32(math.Round(float64(size*(*deployment.Spec.Replicas+maxSurge(deployment)))/float64(before))) - size
}

func (s *deploymentSync) afterScale(resp *apiserver.Response) (sim.Action, bool) {
	if action, yield, err := s.runScales(resp); err != nil {
		return s.fail(err)
	} else if yield {
		return action, true
	}
	if _, rollsBack := rollbackTo(s.deployment); s.deployment.Spec.Paused && !rollsBack {
		return s.cleanUp(deploymentCleanup)
	}
	return s.enter(deploymentStatus)
}

// newReplicas returns the size that the new ReplicaSet may have by now: NewRSNewReplicas.
func newReplicas(deployment *appsv1.Deployment, all []*appsv1.ReplicaSet, set *appsv1.ReplicaSet) int32 {
	replicas, size := *deployment.Spec.Replicas, *set.Spec.Replicas
	if !rolling(deployment) {
		return replicas
	}
	room := replicas + maxSurge(deployment) - total(all).wanted
	if room <= 0 {
		return size
	}
	return size + min(room, replicas-size)
}

// roll lets the new ReplicaSet grow, if there is room, or shrink to the size of the Deployment.
func (s *deploymentSync) roll(*apiserver.Response) (sim.Action, bool) {
	replicas, size := *s.deployment.Spec.Replicas, *s.newSet.Spec.Replicas
	if size < replicas {
		size = newReplicas(s.deployment, s.all(), s.newSet)
	} else {
		size = replicas
	}
	return s.resize(deploymentGrown, scaling{set: s.newSet, size: size})
}

// afterGrowth takes the replicas first that are not available from the old ReplicaSets, if there are more of all than need to be.
func (s *deploymentSync) afterGrowth(resp *apiserver.Response) (sim.Action, bool) {
	grows := s.asked
	if action, yield, err := s.runScales(resp); err != nil {
		return s.fail(err)
	} else if yield {
		return action, true
	}
	if grows {
		return s.enter(deploymentProgress)
	}
	old := active(s.oldSets)
	spare := total(s.all()).wanted - minAvailable(s.deployment) - (*s.newSet.Spec.Replicas - s.newSet.Status.AvailableReplicas)
	if len(old) == 0 || spare <= 0 {
		return s.enter(deploymentComplete)
	}
	var scales []scaling
	s.removed, s.confused = 0, false
	for _, set := range old {
		unhealthy := min(spare-s.removed, *set.Spec.Replicas-set.Status.AvailableReplicas)
		if s.confused = unhealthy < 0; s.confused {
			break
		}
		s.removed += unhealthy
		scales = append(scales, scaling{set: set, size: *set.Spec.Replicas - unhealthy})
	}
	return s.resize(deploymentCleaned, scales...)
}

// shrinkOld takes replicas from the old ReplicaSets, from the oldest on, while there are more available ones than need to be. An
// error is left at that: the next sync sees to it.
func (s *deploymentSync) shrinkOld(resp *apiserver.Response) (sim.Action, bool) {
	if action, yield, err := s.runScales(resp); yield {
		return action, true
	} else if err != nil || s.confused {
		return s.enter(deploymentComplete)
	}
	old := make([]*appsv1.ReplicaSet, len(s.scales))
	for i := range s.scales {
		old[i] = s.scales[i].set
	}
	spare := total(old).available + s.newSet.Status.AvailableReplicas - minAvailable(s.deployment)
	var scales []scaling
	for _, set := range old {
		share := max(0, min(spare, *set.Spec.Replicas))
		spare -= share
		s.removed += share
		scales = append(scales, scaling{set: set, size: *set.Spec.Replicas - share})
	}
	return s.resize(deploymentShrunk, scales...)
}

func (s *deploymentSync) afterShrinking(resp *apiserver.Response) (sim.Action, bool) {
	if action, yield, err := s.runScales(resp); err != nil {
		return s.enter(deploymentComplete)
	} else if yield {
		return action, true
	}
	if s.removed > 0 {
		return s.enter(deploymentProgress)
	}
	return s.enter(deploymentComplete)
}

// recreate takes all replicas from the old ReplicaSets.
func (s *deploymentSync) recreate(*apiserver.Response) (sim.Action, bool) {
	var scales []scaling
	for _, set := range active(s.oldSets) {
		scales = append(scales, scaling{set: set})
	}
	return s.resize(deploymentEmptied, scales...)
}

// afterEmptying waits until the pods of the old ReplicaSets have gone.
func (s *deploymentSync) afterEmptying(resp *apiserver.Response) (sim.Action, bool) {
	if action, yield, err := s.runScales(resp); err != nil {
		return s.fail(err)
	} else if yield {
		return action, true
	}
	switch {
	case len(s.scales) > 0 || s.oldPodsRun():
		return s.enter(deploymentProgress)
	case s.newSet == nil:
		return s.find(true, deploymentRefill)
	default:
		return s.enter(deploymentRefill)
	}
}

// oldPodsRun reports whether an old ReplicaSet says that it has pods, or the cache has one of theirs that has not ended.
func (s *deploymentSync) oldPodsRun() bool {
	for _, set := range s.oldSets {
		if set.Status.Replicas > 0 {
			return true
		}
		for _, pod := range s.pods[set.UID] {
			if !terminal(pod) {
				return true
			}
		}
	}
	return false
}

func (s *deploymentSync) refill(*apiserver.Response) (sim.Action, bool) {
	return s.resize(deploymentRefilled, scaling{set: s.newSet, size: *s.deployment.Spec.Replicas})
}

func (s *deploymentSync) afterRefill(resp *apiserver.Response) (sim.Action, bool) {
	if action, yield, err := s.runScales(resp); err != nil {
		return s.fail(err)
	} else if yield {
		return action, true
	}
	return s.enter(deploymentComplete)
}

func (s *deploymentSync) cleanUpComplete(resp *apiserver.Response) (sim.Action, bool) {
	if !s.asked {
		if !complete(s.deployment, &s.deployment.Status) {
			return s.enter(deploymentProgress)
		}
		s.findUnused()
	}
	return s.deleteUnused(resp, deploymentProgress)
}

func (s *deploymentSync) cleanUp(stage deploymentStage) (sim.Action, bool) {
	s.findUnused()
	return s.enter(stage)
}

func (s *deploymentSync) cleanUpPaused(resp *apiserver.Response) (sim.Action, bool) {
	return s.deleteUnused(resp, deploymentStatus)
}

// findUnused finds the old ReplicaSets beyond the limit that have no pods, from the oldest revision on: cleanupDeployment.
func (s *deploymentSync) findUnused() {
	s.unused, s.next = nil, 0
	limit := s.deployment.Spec.RevisionHistoryLimit
	if limit == nil || *limit == math.MaxInt32 {
		return
	}
	alive := slices.DeleteFunc(slices.Clone(s.oldSets), func(set *appsv1.ReplicaSet) bool { return set.DeletionTimestamp != nil })
	slices.SortFunc(alive, byRevision)
	for _, set := range alive[:max(0, len(alive)-int(*limit))] {
		if set.Status.Replicas == 0 && !isActive(set) && set.Generation <= set.Status.ObservedGeneration {
			s.unused = append(s.unused, set)
		}
	}
}

func (s *deploymentSync) deleteUnused(resp *apiserver.Response, then deploymentStage) (sim.Action, bool) {
	if s.asked {
		if err := failure(resp); err != nil && !apierrors.IsNotFound(err) {
			return s.fail(err)
		}
		s.next++
	}
	if s.next == len(s.unused) {
		return s.enter(then)
	}
	return s.ask(s.stage, s.setTarget(s.unused[s.next].Name).delete(metav1.DeleteOptions{}))
}
