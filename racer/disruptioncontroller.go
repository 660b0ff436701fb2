package racer

import (
	"fmt"
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
)

// DisruptionController plays kube-controller-manager's disruption controller (pkg/controller/disruption, v1.36.3): it computes
// the status of PodDisruptionBudgets, on which evictions depend, and takes the condition DisruptionTarget back from pods that were
// not deleted after all.
//
// It looks at a budget when the budget or one of its pods changes; not when the number of replicas does that a controller of the
// pods is to have. The many budgets of one pod are not looked at but for the first, as on a real cluster.
type DisruptionController struct {
	env         sim.RacerEnv
	queue       sim.RacerQueue
	stale       sim.RacerQueue
	pods        *cache.View
	budgets     *cache.View
	deployments *cache.View
	scaled      map[schema.GroupKind]*cache.View // whose number of replicas it knows without asking
}

// disruptionTimeout is how long a pod may take from its eviction to its deletion: DeletionTimeout and stalePodDisruptionTimeout of
// disruption.go.
const disruptionTimeout = 2 * time.Minute

// NewDisruptionController returns the controller for one run.
func NewDisruptionController() *DisruptionController {
	return &DisruptionController{scaled: map[schema.GroupKind]*cache.View{}}
}

// Start implements [sim.Racer].
func (d *DisruptionController) Start(env sim.RacerEnv) {
	d.env = env
	budgetKind, podKind := env.Kind("PodDisruptionBudget"), env.Kind("Pod")
	d.queue = env.Queue("disruption", 1, func(key string) sim.Task {
		return &budgetSync{controller: d, scales: map[types.UID]int32{}, target: targetAt(budgetKind, key)}
	})
	d.stale = env.Queue("stale-pod-disruption", 1, func(key string) sim.Task {
		return &staleDisruption{controller: d, target: targetAt(podKind, key)}
	})
	for _, name := range []string{"ReplicationController", "ReplicaSet", "StatefulSet"} {
		kind := env.Kind(name)
		d.scaled[kind.GroupKind()] = env.Informer(kind, nil)
	}
	d.deployments = env.Informer(env.Kind("Deployment"), nil)
	d.budgets = env.Informer(budgetKind, func(delta cache.Delta) {
		d.queue.Add(keyOf(delta.Object))
	})
	d.pods = env.Informer(podKind, d.handlePod)
}

func (d *DisruptionController) handlePod(delta cache.Delta) {
	pod := delta.Object.(*corev1.Pod)
	for _, obj := range d.budgets.List(pod.Namespace) {
		if budget := obj.(*policyv1.PodDisruptionBudget); guards(budget, pod) {
			d.queue.Add(keyOf(budget))
			break
		}
	}
	if delta.Type == apiserver.Deleted {
		return
	}
	if in, ok := d.staleIn(pod); ok {
		d.stale.AddAfter(keyOf(pod), in)
	}
}

// guards reports whether a budget is about a pod. A selector that selects everything counts, as evictions take it.
func guards(budget *policyv1.PodDisruptionBudget, pod *corev1.Pod) bool {
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(pod.Labels))
}

// budgetSync is one pass over one budget: trySync.
type budgetSync struct {
	controller *DisruptionController
	target     target
	budget     *policyv1.PodDisruptionBudget
	pods       []*corev1.Pod
	next       int // of the pods, whose controller comes next
	scales     map[types.UID]int32
	asked      *metav1.OwnerReference // whose scale is being read
	written    bool
	recheck    time.Duration
}

// Next implements [sim.Task].
func (s *budgetSync) Next(resp *apiserver.Response) sim.Action {
	switch {
	case s.budget == nil:
		return s.begin()
	case s.written:
		return s.over(failure(resp))
	default:
		return s.scaleRead(resp)
	}
}

func (s *budgetSync) over(err error) sim.Action {
	if err != nil {
		return sim.Fail(err)
	}
	if s.recheck > 0 {
		s.controller.queue.AddAfter(keyOf(s.budget), s.recheck)
	}
	return sim.Done()
}

func (s *budgetSync) begin() sim.Action {
	budget, ok := s.controller.budgets.Get(s.target.namespace, s.target.name).(*policyv1.PodDisruptionBudget)
	if !ok {
		return sim.Done()
	}
	s.budget = budget
	for _, obj := range s.controller.pods.List(budget.Namespace) {
		if pod := obj.(*corev1.Pod); guards(budget, pod) {
			s.pods = append(s.pods, pod)
		}
	}
	return s.findScales()
}

// countsPods reports whether the budget is met by a number of pods, whoever controls them.
func (s *budgetSync) countsPods() bool {
	spec := &s.budget.Spec
	return spec.MaxUnavailable == nil && (spec.MinAvailable == nil || spec.MinAvailable.Type == intstr.Int)
}

// findScales finds out how many replicas the controllers of the pods are to have; getExpectedScale. It asks the server for the
// scale of a controller of a kind that it does not know. Pods without a controller are not counted.
func (s *budgetSync) findScales() sim.Action {
	for ; s.next < len(s.pods) && !s.countsPods(); s.next++ {
		pod := s.pods[s.next]
		ref := metav1.GetControllerOf(pod)
		if ref == nil {
			continue
		}
		if _, known := s.scales[ref.UID]; known {
			continue
		}
		gv, err := schema.ParseGroupVersion(ref.APIVersion)
		if err != nil {
			return s.failSafe(err)
		}
		if view := s.controller.scaled[gv.WithKind(ref.Kind).GroupKind()]; view != nil {
			if owner := view.Get(pod.Namespace, ref.Name); owner != nil && owner.GetUID() == ref.UID {
				uid, scale := s.controller.scaleOf(view.Kind(), owner)
				s.scales[uid] = scale
				continue
			}
		}
		return s.ask(ref, gv)
	}
	return s.update()
}

// scaleOf returns the scale of a controller: for a ReplicaSet that belongs to a Deployment that of the Deployment.
func (d *DisruptionController) scaleOf(kind *apiserver.Kind, owner apiserver.Object) (types.UID, int32) {
	if ref := metav1.GetControllerOf(owner); kind.Kind == "ReplicaSet" && ref != nil && ref.Kind == "Deployment" {
		if deployment, ok := d.deployments.Get(owner.GetNamespace(), ref.Name).(*appsv1.Deployment); ok && deployment.UID == ref.UID {
			return deployment.UID, *deployment.Spec.Replicas
		}
	}
	replicas, _, _ := kind.Scale.Read(owner)
	return owner.GetUID(), replicas
}

// ask reads the scale of a controller from the server.
func (s *budgetSync) ask(ref *metav1.OwnerReference, gv schema.GroupVersion) sim.Action {
	i := slices.IndexFunc(s.controller.env.Kinds(), func(k *apiserver.Kind) bool { return k.GroupVersionKind == gv.WithKind(ref.Kind) })
	if i < 0 {
		return s.failSafe(&meta.NoKindMatchError{GroupKind: gv.WithKind(ref.Kind).GroupKind(), SearchedVersions: []string{gv.Version}})
	}
	kind := s.controller.env.Kinds()[i]
	if kind.Scale == nil {
		return s.failSafe(fmt.Errorf("%s does not implement the scale subresource", kind.GroupResource()))
	}
	s.asked = ref
	return sim.Call(target{kind: kind, namespace: s.target.namespace, name: ref.Name}.scale())
}

func (s *budgetSync) scaleRead(resp *apiserver.Response) sim.Action {
	err := failure(resp)
	switch {
	case err == nil && resp.Object.GetUID() == s.asked.UID:
		s.scales[s.asked.UID] = resp.Object.(*autoscalingv1.Scale).Spec.Replicas
		return s.findScales()
	case err == nil || apierrors.IsNotFound(err):
		return s.failSafe(fmt.Errorf("found no controllers for pod %q", s.pods[s.next].Name))
	case apierrors.IsConflict(err):
		return sim.Fail(err)
	default:
		return s.failSafe(err)
	}
}

// expected returns how many pods there are to be, and how many of them healthy; getExpectedPodCount.
func (s *budgetSync) expected() (pods, healthy int32, err error) {
	spec := &s.budget.Spec
	for _, scale := range s.scales {
		pods += scale
	}
	var amount int
	switch {
	case spec.MaxUnavailable != nil:
		amount, err = intstr.GetScaledValueFromIntOrPercent(spec.MaxUnavailable, int(pods), true)
		healthy = max(pods-int32(amount), 0)
	case spec.MinAvailable == nil:
	case spec.MinAvailable.Type == intstr.Int:
		pods, healthy = int32(len(s.pods)), spec.MinAvailable.IntVal
	default:
		amount, err = intstr.GetScaledValueFromIntOrPercent(spec.MinAvailable, int(pods), true)
		healthy = int32(amount)
	}
	return pods, healthy, err
}

// update writes the status, if it is another one; updatePdbStatus.
func (s *budgetSync) update() sim.Action {
	pods, desired, err := s.expected()
	if err != nil {
		return s.failSafe(err)
	}
	status := policyv1.PodDisruptionBudgetStatus{
		DesiredHealthy: desired, ExpectedPods: pods, DisruptedPods: s.disrupted(), ObservedGeneration: s.budget.Generation,
		Conditions: slices.Clone(s.budget.Status.Conditions),
	}
	now := s.controller.env.Now()
	for _, pod := range s.pods {
		at, evicted := status.DisruptedPods[pod.Name]
		leaves := evicted && at.Add(disruptionTimeout).After(now)
		if !leaves && !terminating(pod) && podReady(pod) {
			status.CurrentHealthy++
		}
	}
	if pods > 0 {
		status.DisruptionsAllowed = max(status.CurrentHealthy-desired, 0)
	}
	condition := metav1.Condition{
		Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.InsufficientPodsReason,
		ObservedGeneration: status.ObservedGeneration, LastTransitionTime: metav1.NewTime(now),
	}
	if status.DisruptionsAllowed > 0 {
		condition.Status, condition.Reason = metav1.ConditionTrue, policyv1.SufficientPodsReason
	}
	if s.upToDate(&status, condition) {
		return s.over(nil)
	}
	meta.SetStatusCondition(&status.Conditions, condition)
	return s.write(status)
}

// disrupted returns the evicted pods that are still to be deleted; buildDisruptedPodMap. The others have had their time.
func (s *budgetSync) disrupted() map[string]metav1.Time {
	now, waiting := s.controller.env.Now(), map[string]metav1.Time{}
	for _, pod := range s.pods {
		at, ok := s.budget.Status.DisruptedPods[pod.Name]
		if !ok || terminating(pod) {
			continue
		}
		if left := at.Add(disruptionTimeout).Sub(now); left >= 0 {
			waiting[pod.Name] = at
			if s.recheck == 0 || left < s.recheck {
				s.recheck = max(left, 1)
			}
		}
	}
	return waiting
}

// upToDate reports whether the budget has the status already.
func (s *budgetSync) upToDate(status *policyv1.PodDisruptionBudgetStatus, condition metav1.Condition) bool {
	old := &s.budget.Status
	written := meta.FindStatusCondition(old.Conditions, condition.Type)
	return old.CurrentHealthy == status.CurrentHealthy && old.DesiredHealthy == status.DesiredHealthy &&
		old.ExpectedPods == status.ExpectedPods && old.DisruptionsAllowed == status.DisruptionsAllowed &&
		old.ObservedGeneration == s.budget.Generation &&
		maps.EqualFunc(old.DisruptedPods, status.DisruptedPods, func(a, b metav1.Time) bool { return a.Equal(&b) }) &&
		written != nil && written.Status == condition.Status && written.Reason == condition.Reason
}

func (s *budgetSync) write(status policyv1.PodDisruptionBudgetStatus) sim.Action {
	written := *s.budget
	written.Status = status
	s.written = true
	return sim.Call(s.target.updateStatus(&written))
}

// failSafe allows no disruptions after an error, and says why.
func (s *budgetSync) failSafe(err error) sim.Action {
	status := *s.budget.Status.DeepCopy()
	status.DisruptionsAllowed, s.recheck = 0, 0
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: policyv1.DisruptionAllowedCondition, Status: metav1.ConditionFalse, Reason: policyv1.SyncFailedReason, Message: err.Error(),
		ObservedGeneration: status.ObservedGeneration, LastTransitionTime: metav1.NewTime(s.controller.env.Now()),
	})
	return s.write(status)
}

// staleIn returns in how long the condition of a pod that was to be disrupted is stale, and whether it has one that can be;
// nonTerminatingPodHasStaleDisruptionCondition.
func (d *DisruptionController) staleIn(pod *corev1.Pod) (time.Duration, bool) {
	condition := podCondition(pod, corev1.DisruptionTarget)
	if condition == nil || condition.Status != corev1.ConditionTrue || condition.Reason == corev1.PodReasonTerminationByKubelet ||
		terminating(pod) || terminal(pod) {
		return 0, false
	}
	return max(condition.LastTransitionTime.Add(disruptionTimeout).Sub(d.env.Now()), 0), true
}

// staleDisruption is one pass over a pod whose condition may be stale: syncStalePodDisruption.
type staleDisruption struct {
	controller *DisruptionController
	target     target
	written    bool
}

// Next implements [sim.Task].
func (s *staleDisruption) Next(resp *apiserver.Response) sim.Action {
	if s.written {
		return over(failure(resp))
	}
	d := s.controller
	pod, ok := d.pods.Get(s.target.namespace, s.target.name).(*corev1.Pod)
	if !ok {
		return sim.Done()
	}
	switch in, ok := d.staleIn(pod); {
	case !ok:
		return sim.Done()
	case in > 0:
		d.stale.AddAfter(keyOf(pod), in)
		return sim.Done()
	}
	reset := *pod
	reset.Status.Conditions = slices.Clone(pod.Status.Conditions)
	i := slices.IndexFunc(reset.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.DisruptionTarget })
	reset.Status.Conditions[i] = corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(d.env.Now()),
		ObservedGeneration: pod.Generation,
	}
	s.written = true
	return sim.Call(s.target.updateStatus(&reset))
}
