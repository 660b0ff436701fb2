package racer

import (
	"fmt"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// podWork is what one sync does about one pod: a step machine within the step machine of the sync.
type podWork struct {
	sync *setSync
	task podTask
	pod  *corev1.Pod // immutable; replaced by a copy to change it

	step   podStep
	inside purpose // of the claim steps
	next   int     // claim template
	asked  bool    // whether an answer is due
	failed int     // tries of an update that ended in a conflict
	dirty  bool    // whether the pod must be put
	errs   []error

	// The outcome.
	exit bool
	err  error
}

// podTask is what a sync wants of a pod.
type podTask uint8

const (
	taskReplica   podTask = iota // create it, or bring it into line
	taskClaims                   // fix the owners of a condemned pod's claims
	taskCondemned                // delete it
)

type podStep uint8

// The steps, with the functions of pkg/controller/statefulset that they play a part of.
const (
	stepDecide  podStep = iota
	stepDeleted         // DeleteStatefulPod
	stepClaims          // createPersistentVolumeClaims
	stepCreated         // CreateStatefulPod
	stepOwners          // UpdatePodClaimForRetentionPolicy
	stepCheck           // the second half of processReplica
	stepConform         // UpdateStatefulPod, a try
	stepPaused          // the same, between two tries
	stepPut             // the same, its write
	stepFinished
)

// purpose is what the steps on claims are part of.
type purpose uint8

const (
	forCreate purpose = iota
	forPending
	forConform
	forCondemned
)

// podSteps are the steps by number. Like the stages of a sync, they return true with an action.
var podSteps = [...]func(*podWork, *apiserver.Response) (sim.Action, bool){
	stepDecide:  (*podWork).decide,
	stepDeleted: (*podWork).deleted,
	stepClaims:  (*podWork).createClaims,
	stepCreated: (*podWork).created,
	stepOwners:  (*podWork).fixOwners,
	stepCheck:   (*podWork).check,
	stepConform: (*podWork).conform,
	stepPaused:  (*podWork).paused,
	stepPut:     (*podWork).putAnswered,
}

// run returns true with an action to take, or false when the work is over.
func (w *podWork) run(resp *apiserver.Response) (sim.Action, bool) {
	for w.step != stepFinished {
		action, yield := podSteps[w.step](w, resp)
		if yield {
			return action, true
		}
		resp = nil
	}
	return sim.Action{}, false
}

func (w *podWork) enter(step podStep) (sim.Action, bool) {
	w.step, w.next, w.asked = step, 0, false
	return sim.Action{}, false
}

func (w *podWork) ask(step podStep, request *apiserver.Request) (sim.Action, bool) {
	w.step, w.asked = step, true
	return sim.Call(request), true
}

func (w *podWork) finish(exit bool, err error) (sim.Action, bool) {
	w.exit, w.err = exit, err
	return w.enter(stepFinished)
}

func (w *podWork) set() *appsv1.StatefulSet { return w.sync.set }

func (w *podWork) ordered() bool { return !burst(w.sync.set) }

func (w *podWork) decide(*apiserver.Response) (sim.Action, bool) {
	switch w.task {
	case taskClaims:
		return w.decideClaims()
	case taskCondemned:
		return w.decideCondemned()
	default:
		return w.decideReplica()
	}
}

func (w *podWork) decideReplica() (sim.Action, bool) {
	switch phase := w.pod.Status.Phase; {
	case phase == corev1.PodFailed || phase == corev1.PodSucceeded:
		// A new pod is made by the sync that no longer finds this one.
		if terminating(w.pod) {
			return w.finish(true, nil)
		}
		return w.delete()
	case !created(w.pod):
		if w.claimsStale() {
			return w.finish(true, nil)
		}
		w.inside = forCreate
		return w.enter(stepClaims)
	case phase == corev1.PodPending:
		w.inside = forPending
		return w.enter(stepClaims)
	default:
		return w.enter(stepCheck)
	}
}

func (w *podWork) decideClaims() (sim.Action, bool) {
	if w.ownersMatch() {
		return w.finish(false, nil)
	}
	w.inside = forCondemned
	return w.enter(stepOwners)
}

func (w *podWork) decideCondemned() (sim.Action, bool) {
	if terminating(w.pod) {
		return w.finish(true, nil)
	}
	minReady := w.set().Spec.MinReadySeconds
	healthy := runningAndReady(w.pod) && available(w.pod, minReady, w.sync.now)
	if w.ordered() && !healthy && w.pod != w.sync.firstUnavailable {
		return w.finish(true, nil)
	}
	return w.delete()
}

// delete asks for the pod's deletion by its name alone: whoever has that name by then is deleted.
func (w *podWork) delete() (sim.Action, bool) {
	return w.ask(stepDeleted, w.sync.podTarget(w.pod).delete(metav1.DeleteOptions{}))
}

func (w *podWork) deleted(resp *apiserver.Response) (sim.Action, bool) {
	return w.finish(true, failure(resp))
}

// template returns the claim template at hand, or nil after the last.
func (w *podWork) template() *corev1.PersistentVolumeClaim {
	if templates := w.set().Spec.VolumeClaimTemplates; w.next < len(templates) {
		return &templates[w.next]
	}
	return nil
}

func (w *podWork) cachedClaim(template *corev1.PersistentVolumeClaim) *corev1.PersistentVolumeClaim {
	return w.sync.c.cachedClaim(w.set().Namespace, claimName(w.set(), template, ordinalOf(w.pod)))
}

// claimsStale reports whether a pod must not be created yet, as a claim it would use is about to be collected.
func (w *podWork) claimsStale() bool {
	if _, withPod := retention(w.set()); !withPod {
		return false
	}
	return slices.ContainsFunc(w.set().Spec.VolumeClaimTemplates, func(template corev1.PersistentVolumeClaim) bool {
		claim := w.cachedClaim(&template)
		return claim != nil && staleClaim(claim, w.set(), w.pod)
	})
}

// ownersMatch reports whether the cached claims of the pod have the owners that the set's retention policy wants.
func (w *podWork) ownersMatch() bool {
	return !slices.ContainsFunc(w.set().Spec.VolumeClaimTemplates, func(template corev1.PersistentVolumeClaim) bool {
		claim := w.cachedClaim(&template)
		return claim != nil && !claimOwnersMatch(claim, w.set(), w.pod)
	})
}

// createClaims posts each claim that the cache does not have, in the order of their templates (upstream: of a map).
func (w *podWork) createClaims(resp *apiserver.Response) (sim.Action, bool) {
	c := w.sync.c
	if w.asked {
		if err := failure(resp); err != nil {
			name := claimName(w.set(), w.template(), ordinalOf(w.pod))
			w.errs = append(w.errs, fmt.Errorf("failed to create PVC %s: %w", name, err))
		} else {
			c.own.wrote(w.set(), c.claimKind, resp.Revision)
		}
		w.asked = false
		w.next++
	}
	for template := w.template(); template != nil; template = w.template() {
		claim := w.cachedClaim(template)
		if claim == nil {
			claim = newClaim(w.set(), template, ordinalOf(w.pod))
			return w.ask(stepClaims, targetOf(c.claimKind, claim.Namespace, claim.Name).create(claim))
		}
		if claim.DeletionTimestamp != nil {
			w.errs = append(w.errs, fmt.Errorf("pvc %s is being deleted", claim.Name))
		}
		w.next++
	}
	if err := utilerrors.NewAggregate(w.errs); err != nil {
		return w.finish(true, err)
	}
	if w.inside == forCreate {
		return w.ask(stepCreated, w.sync.podTarget(w.pod).create(w.pod.DeepCopy()))
	}
	return w.enter(stepOwners)
}

func (w *podWork) created(resp *apiserver.Response) (sim.Action, bool) {
	w.err = failure(resp)
	if apierrors.IsAlreadyExists(w.err) {
		return w.finish(true, w.err)
	}
	if w.err == nil {
		w.sync.c.own.wrote(w.set(), w.sync.c.podKind, resp.Revision)
	}
	return w.enter(stepOwners)
}

// fixOwners puts each cached claim whose owners are not as the retention policy wants them.
func (w *podWork) fixOwners(resp *apiserver.Response) (sim.Action, bool) {
	c := w.sync.c
	if w.asked {
		if err := failure(resp); err != nil {
			name := claimName(w.set(), w.template(), ordinalOf(w.pod))
			return w.ownersFixed(fmt.Errorf("could not update claim %s for delete policy ownerRefs: %w", name, err))
		}
		c.own.wrote(w.set(), c.claimKind, resp.Revision)
		w.dirty = true
		w.next++
	}
	for template := w.template(); template != nil; template = w.template() {
		claim := w.cachedClaim(template)
		if claim != nil && !claimOwnersMatch(claim, w.set(), w.pod) {
			changed := withOwners(claim, w.set(), w.pod)
			return w.ask(stepOwners, targetOf(c.claimKind, claim.Namespace, claim.Name).update(changed))
		}
		w.next++
	}
	return w.ownersFixed(nil)
}

func (w *podWork) ownersFixed(err error) (sim.Action, bool) {
	switch {
	case w.inside == forConform && err != nil:
		return w.retryConform(err)
	case w.inside == forConform:
		return w.put()
	case err != nil:
		return w.finish(true, err)
	case w.inside == forCondemned:
		return w.finish(false, nil)
	case w.inside == forCreate && (w.err != nil || w.ordered()):
		return w.finish(true, w.err)
	default:
		return w.enter(stepCheck)
	}
}

// check waits for an ordered pod to be ready and available, and then looks whether it is as the set wants it.
func (w *podWork) check(*apiserver.Response) (sim.Action, bool) {
	if w.ordered() && w.sync.unavailable(w.pod) {
		return w.finish(true, nil)
	}
	if identityMatches(w.set(), w.pod) && storageMatches(w.set(), w.pod) && w.ownersMatch() {
		return w.finish(false, nil)
	}
	return w.enter(stepConform)
}

// conform brings a pod into line: one try of the real controller's UpdateStatefulPod.
func (w *podWork) conform(*apiserver.Response) (sim.Action, bool) {
	w.dirty, w.inside = false, forConform
	if !identityMatches(w.set(), w.pod) {
		w.pod = withIdentity(w.set(), w.pod)
		w.dirty = true
	}
	if storageMatches(w.set(), w.pod) {
		return w.enter(stepOwners)
	}
	changed := *w.pod
	changed.Spec.Volumes = volumesFor(w.set(), w.pod)
	w.pod, w.dirty = &changed, true
	return w.enter(stepClaims)
}

func (w *podWork) put() (sim.Action, bool) {
	if !w.dirty {
		return w.finish(false, nil)
	}
	body := *w.pod
	return w.ask(stepPut, w.sync.podTarget(w.pod).update(&body))
}

func (w *podWork) putAnswered(resp *apiserver.Response) (sim.Action, bool) {
	err := failure(resp)
	if err == nil {
		w.sync.c.own.wrote(w.set(), w.sync.c.podKind, resp.Revision)
		return w.finish(false, nil)
	}
	if cached := w.sync.c.cachedPod(w.pod.Namespace, w.pod.Name); cached != nil {
		w.pod = cached
	}
	return w.retryConform(err)
}

// retryConform tries again after a conflict on the pod or on a claim, until the tries are used up.
func (w *podWork) retryConform(err error) (sim.Action, bool) {
	w.failed++
	pause, again := defaultBackoff.after(w.failed)
	if !again || !apierrors.IsConflict(err) {
		return w.finish(true, err)
	}
	w.step = stepPaused
	return sim.Wait(pause), true
}

func (w *podWork) paused(*apiserver.Response) (sim.Action, bool) { return w.enter(stepConform) }

// newPod returns the pod of an ordinal made from a template, as the set creates it.
func newPod(set *appsv1.StatefulSet, template *corev1.PodTemplateSpec, revision string, ordinal int) *corev1.Pod {
	pod := podFromTemplate(template, set, setGVK)
	pod.Name = podName(set, ordinal)
	pod = withIdentity(set, pod)
	pod.Labels[appsv1.StatefulSetRevisionLabel] = revision
	pod.Spec.Hostname, pod.Spec.Subdomain = pod.Name, set.Spec.ServiceName
	pod.Spec.Volumes = volumesFor(set, pod)
	return pod
}

func podName(set *appsv1.StatefulSet, ordinal int) string {
	return set.Name + "-" + strconv.Itoa(ordinal)
}

func identityMatches(set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	ordinal := ordinalOf(pod)
	return ordinal >= 0 && pod.Name == podName(set, ordinal) && pod.Namespace == set.Namespace &&
		pod.Labels[appsv1.StatefulSetPodNameLabel] == pod.Name &&
		pod.Labels[appsv1.PodIndexLabel] == strconv.Itoa(ordinal)
}

// withIdentity returns a copy of the pod that has the name of its ordinal, and the labels of both. An adopted "web-01"
// becomes "web-1", whose update the API server refuses.
func withIdentity(set *appsv1.StatefulSet, pod *corev1.Pod) *corev1.Pod {
	ordinal := ordinalOf(pod)
	changed := *pod
	changed.Namespace, changed.Name = set.Namespace, podName(set, ordinal)
	changed.Labels = cloned(pod.Labels)
	changed.Labels[appsv1.StatefulSetPodNameLabel] = changed.Name
	changed.Labels[appsv1.PodIndexLabel] = strconv.Itoa(ordinal)
	return &changed
}

// storageMatches reports whether the pod has a volume for each claim template, with the right claim.
func storageMatches(set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	for i := range set.Spec.VolumeClaimTemplates {
		template := &set.Spec.VolumeClaimTemplates[i]
		name := claimName(set, template, ordinalOf(pod))
		if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			return v.Name == template.Name && v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == name
		}) {
			return false
		}
	}
	return true
}

// volumesFor returns the volumes of the set's claims followed by the pod's others.
func volumesFor(set *appsv1.StatefulSet, pod *corev1.Pod) []corev1.Volume {
	var volumes []corev1.Volume
	claimed := map[string]bool{}
	for i := range set.Spec.VolumeClaimTemplates {
		template := &set.Spec.VolumeClaimTemplates[i]
		claimed[template.Name] = true
		volumes = append(volumes, corev1.Volume{
			Name: template.Name,
			VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{
				ClaimName: claimName(set, template, ordinalOf(pod)),
			}},
		})
	}
	for _, volume := range pod.Spec.Volumes {
		if !claimed[volume.Name] {
			volumes = append(volumes, volume)
		}
	}
	return volumes
}
