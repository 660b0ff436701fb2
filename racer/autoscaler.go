package racer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
)

// HorizontalPodAutoscalerOptions configures a [HorizontalPodAutoscaler]. Exactly one of Name and Target says what it is about.
type HorizontalPodAutoscalerOptions struct {
	// Namespace is that of the object or the target.
	Namespace string
	// Name is that of a HorizontalPodAutoscaler object, which says what to scale and between which bounds.
	Name string
	// Target is what to scale where there is no such object. It is scaled to what is recommended, at once and without bounds, as
	// autoscalers of other makes do it.
	Target ScaleTarget
	// Recommends are the numbers of replicas that the metrics would lead to, from one time to the next, in this order. Before
	// the first one, the number there is is just right.
	Recommends []Recommendation
	// Every is the virtual time between two passes; zero means 15 s, the default of --horizontal-pod-autoscaler-sync-period.
	Every time.Duration
}

// ScaleTarget names an object of a kind with a scale subresource.
type ScaleTarget struct {
	Kind, Name string
}

// Recommendation is a number of replicas that is right from some time on.
type Recommendation struct {
	// At is the time since the script began.
	At time.Duration
	// Replicas is the number.
	Replicas int32
}

// HorizontalPodAutoscaler plays kube-controller-manager's horizontal pod autoscaler (pkg/controller/podautoscaler/horizontal.go,
// v1.36.3) for one target: every so often, and when a recommendation begins, GET scale, PUT scale if the number of replicas is not the
// wanted one, and PUT of its own status. There are no metrics: what they would lead to is given. Bounds, the limit of scaling up (to 4
// or twice as many) and the five minutes before scaling down are those of the real one.
//
// Left out is spec.behavior of an autoscaler, which is reported as a problem of the scenario.
type HorizontalPodAutoscaler struct {
	options HorizontalPodAutoscalerOptions
	env     sim.RacerEnv
	queue   sim.RacerQueue
	kind    *apiserver.Kind
	view    *cache.View
	right   *int32 // the number of replicas that was recommended last; nil before that
	recent  []recentRecommendation
}

// recentRecommendation is what a pass recommended, and when.
type recentRecommendation struct {
	replicas int32
	at       time.Time
}

// stabilization is how long the highest recommendation counts: --horizontal-pod-autoscaler-downscale-stabilization.
const stabilization = 5 * time.Minute

// NewHorizontalPodAutoscaler returns the autoscaler for one run.
func NewHorizontalPodAutoscaler(options HorizontalPodAutoscalerOptions) *HorizontalPodAutoscaler {
	options.Every = cmp.Or(options.Every, 15*time.Second)
	options.Recommends = slices.Clone(options.Recommends)
	return &HorizontalPodAutoscaler{options: options}
}

// Start implements [sim.Racer].
func (a *HorizontalPodAutoscaler) Start(env sim.RacerEnv) {
	a.env = env
	a.kind = env.Kind("HorizontalPodAutoscaler")
	a.queue = env.Queue("horizontalpodautoscaler", 1, func(key string) sim.Task { return &scalePass{autoscaler: a, key: key} })
	if a.options.Name == "" {
		a.queue.AddAfter(a.key(), a.options.Every)
		return
	}
	a.view = env.Informer(a.kind, func(d cache.Delta) {
		if keyOf(d.Object) == a.key() && d.Type != apiserver.Deleted {
			a.queue.AddAfter(a.key(), a.options.Every)
		}
	})
}

// key returns the one key of the queue.
func (a *HorizontalPodAutoscaler) key() string {
	return key(a.options.Namespace, cmp.Or(a.options.Name, a.options.Target.Name))
}

// ScriptBegins implements [sim.ScriptListener]: from here the times of recommendations count.
func (a *HorizontalPodAutoscaler) ScriptBegins() {
	for _, r := range a.options.Recommends {
		a.env.After(fmt.Sprintf("recommend %d", r.Replicas), r.At, func() {
			a.right = &r.Replicas
			a.queue.Add(a.key())
		})
	}
}

// recommended returns the number of replicas that is right at present.
func (a *HorizontalPodAutoscaler) recommended(current int32) int32 {
	if a.right == nil {
		return current
	}
	return *a.right
}

// stabilized returns the highest recommendation of the last minutes, and notes this one: stabilizeRecommendation.
func (a *HorizontalPodAutoscaler) stabilized(replicas int32) int32 {
	now, highest := a.env.Now(), replicas
	a.recent = slices.DeleteFunc(a.recent, func(r recentRecommendation) bool { return now.Sub(r.at) > stabilization })
	for _, r := range a.recent {
		highest = max(highest, r.replicas)
	}
	a.recent = append(a.recent, recentRecommendation{replicas, now})
	return highest
}

// scalePass is one pass: reconcileAutoscaler.
type scalePass struct {
	autoscaler *HorizontalPodAutoscaler
	key        string
	step       scalingStep

	object  *autoscalingv2.HorizontalPodAutoscaler // a copy, whose status the pass changes; nil if there is none
	before  autoscalingv2.HorizontalPodAutoscalerStatus
	target  target
	scale   *autoscalingv1.Scale
	current int32
	wanted  int32
	tries   int
	putErr  error
	err     error // ends the pass, after the status is written
}

type scalingStep uint8

const (
	scalingBegin scalingStep = iota
	scalingRead
	scalingPut
	scalingReread
	scalingStatus
)

// Next implements [sim.Task].
func (s *scalePass) Next(resp *apiserver.Response) sim.Action {
	switch s.step {
	case scalingBegin:
		return s.begin()
	case scalingRead:
		return s.read(resp)
	case scalingPut:
		if resp == nil { // after a pause
			return s.put()
		}
		return s.putAnswered(resp)
	case scalingReread:
		if failure(resp) == nil {
			s.scale = resp.Object.(*autoscalingv1.Scale)
		}
		return s.putAgain()
	default:
		return s.over(failure(resp))
	}
}

// over ends the pass. The next one comes at the usual time, whatever became of this one.
func (s *scalePass) over(err error) sim.Action {
	if err != nil {
		s.autoscaler.env.Log(fmt.Sprintf("autoscaling %s: %v", s.key, err))
	}
	s.autoscaler.queue.AddAfter(s.key, s.autoscaler.options.Every)
	return sim.Done()
}

func (s *scalePass) begin() sim.Action {
	a := s.autoscaler
	namespace, name := splitKey(s.key)
	if a.options.Name == "" {
		return s.ask(a.env.Kind(a.options.Target.Kind), namespace, a.options.Target.Name)
	}
	object, ok := a.view.Get(namespace, name).(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		a.recent = nil // another object of the name begins anew
		return sim.Done()
	}
	if object.Spec.Behavior != nil {
		a.env.Problem(fmt.Sprintf("HorizontalPodAutoscaler %s: spec.behavior is not played; leave it out", s.key))
		return sim.Done()
	}
	s.object, s.before = object.DeepCopy(), object.Status
	ref := object.Spec.ScaleTargetRef
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return s.noScale(fmt.Errorf("invalid API version in scale target reference: %w", err))
	}
	i := slices.IndexFunc(a.env.Kinds(), func(k *apiserver.Kind) bool { return k.GroupKind() == gv.WithKind(ref.Kind).GroupKind() })
	if i < 0 {
		return s.noScale(fmt.Errorf("no matches for kind %q in group %q", ref.Kind, gv.Group))
	}
	return s.ask(a.env.Kinds()[i], namespace, ref.Name)
}

// ask reads the scale.
func (s *scalePass) ask(kind *apiserver.Kind, namespace, name string) sim.Action {
	if kind == nil {
		s.autoscaler.env.Problem(fmt.Sprintf("no kind %q in this scenario: nothing to scale", s.autoscaler.options.Target.Kind))
		return sim.Done()
	}
	s.target = targetOf(kind, namespace, name)
	s.step = scalingRead
	return sim.Call(s.target.scale())
}

func (s *scalePass) read(resp *apiserver.Response) sim.Action {
	if err := failure(resp); err != nil {
		return s.noScale(err)
	}
	s.scale = resp.Object.(*autoscalingv1.Scale)
	s.current = s.scale.Spec.Replicas
	if s.object == nil {
		s.wanted = s.autoscaler.recommended(s.current)
	} else {
		s.condition(autoscalingv2.AbleToScale, corev1.ConditionTrue, "SucceededGetScale",
			"the HPA controller was able to get the target's current scale")
		if len(s.autoscaler.recent) == 0 {
			s.autoscaler.stabilized(s.current)
		}
		s.decide()
	}
	if s.wanted == s.current {
		return s.writeStatus(false)
	}
	return s.put()
}

// noScale ends a pass that could not learn how many replicas there are.
func (s *scalePass) noScale(err error) sim.Action {
	s.err = fmt.Errorf("failed to query scale subresource: %w", err)
	if s.object == nil {
		return s.over(s.err)
	}
	s.condition(autoscalingv2.AbleToScale, corev1.ConditionFalse, "FailedGetScale",
		fmt.Sprintf("the HPA controller was unable to get the target's current scale: %v", err))
	return s.updateStatus()
}

// decide finds the number of replicas that the target is to have, within the bounds of the object.
func (s *scalePass) decide() {
	spec := &s.object.Spec
	least := int32(1)
	if spec.MinReplicas != nil {
		least = *spec.MinReplicas
	}
	switch {
	case s.current == 0:
		s.wanted = 0
		s.condition(autoscalingv2.ScalingActive, corev1.ConditionFalse, "ScalingDisabled",
			"scaling is disabled since the replica count of the target is zero")
	case s.current > spec.MaxReplicas:
		s.wanted = spec.MaxReplicas
	case s.current < least:
		s.wanted = least
	default:
		s.normalize(s.autoscaler.recommended(s.current), least)
	}
}

// normalize brings a recommendation within what is allowed: normalizeDesiredReplicas, convertDesiredReplicasWithRules.
func (s *scalePass) normalize(recommended, least int32) {
	s.condition(autoscalingv2.ScalingActive, corev1.ConditionTrue, "ValidMetricFound",
		"the HPA was able to successfully calculate a replica count from its script")
	stabilized := s.autoscaler.stabilized(recommended)
	reason, message := "ReadyForNewScale", "recommended size matches current size"
	if stabilized != recommended {
		reason, message = "ScaleDownStabilized",
			"recent recommendations were higher than current one, applying the highest recent recommendation"
	}
	s.condition(autoscalingv2.AbleToScale, corev1.ConditionTrue, reason, message)

	most := s.object.Spec.MaxReplicas
	tooMany, because := "TooManyReplicas", "the desired replica count is more than the maximum replica count"
	if limit := int32(math.Max(2*float64(s.current), 4)); most > limit {
		most = limit
		tooMany, because = "ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate"
	}
	s.wanted = stabilized
	limited := corev1.ConditionTrue
	switch {
	case stabilized < least:
		s.wanted = least
		reason, message = "TooFewReplicas", "the desired replica count is less than the minimum replica count"
	case stabilized > most:
		s.wanted = most
		reason, message = tooMany, because
	default:
		limited = corev1.ConditionFalse
		reason, message = "DesiredWithinRange", "the desired count is within the acceptable range"
	}
	s.condition(autoscalingv2.ScalingLimited, limited, reason, message)
}

func (s *scalePass) put() sim.Action {
	s.step = scalingPut
	scale := *s.scale
	scale.Spec.Replicas = s.wanted
	request := s.target.update(&scale)
	request.Subresource = "scale"
	return sim.Call(request)
}

// putAnswered takes the answer to the write of the scale. After any error the scale is read again, for another try that is only made
// after a conflict.
func (s *scalePass) putAnswered(resp *apiserver.Response) sim.Action {
	if s.putErr = failure(resp); s.putErr == nil {
		s.condition(autoscalingv2.AbleToScale, corev1.ConditionTrue, "SucceededRescale",
			fmt.Sprintf("the HPA controller was able to update the target scale to %d", s.wanted))
		return s.writeStatus(true)
	}
	s.tries++
	s.step = scalingReread
	return sim.Call(s.target.scale())
}

func (s *scalePass) putAgain() sim.Action {
	if pause, again := defaultRetry.after(s.tries); again && apierrors.IsConflict(s.putErr) {
		s.step = scalingPut
		return sim.Wait(pause)
	}
	s.err = fmt.Errorf("failed to rescale: %w", s.putErr)
	s.condition(autoscalingv2.AbleToScale, corev1.ConditionFalse, "FailedUpdateScale",
		fmt.Sprintf("the HPA controller was unable to update the target scale: %v", s.putErr))
	if s.object != nil {
		s.wanted = s.object.Status.DesiredReplicas
	}
	return s.writeStatus(false)
}

// writeStatus sets the numbers of the status: setStatus.
func (s *scalePass) writeStatus(rescaled bool) sim.Action {
	if s.object == nil {
		return s.over(s.err)
	}
	status := &s.object.Status
	status.CurrentReplicas, status.DesiredReplicas = s.current, s.wanted
	if rescaled {
		status.LastScaleTime = &metav1.Time{Time: s.autoscaler.env.Now()}
	}
	return s.updateStatus()
}

// updateStatus writes the status if it is another one.
func (s *scalePass) updateStatus() sim.Action {
	if apiequality.Semantic.DeepEqual(&s.before, &s.object.Status) {
		return s.over(s.err)
	}
	if s.err != nil {
		s.autoscaler.env.Log(fmt.Sprintf("autoscaling %s: %v", s.key, s.err))
	}
	s.step = scalingStatus
	return sim.Call(targetOf(s.autoscaler.kind, s.object.Namespace, s.object.Name).updateStatus(s.object))
}

// condition sets a condition of the status, if there is one: setConditionInList.
func (s *scalePass) condition(
	kind autoscalingv2.HorizontalPodAutoscalerConditionType, is corev1.ConditionStatus, reason, message string,
) {
	if s.object == nil {
		return
	}
	conditions := s.object.Status.Conditions
	i := slices.IndexFunc(conditions, func(c autoscalingv2.HorizontalPodAutoscalerCondition) bool { return c.Type == kind })
	if i < 0 {
		conditions = append(conditions, autoscalingv2.HorizontalPodAutoscalerCondition{Type: kind})
		i = len(conditions) - 1
	}
	if conditions[i].Status != is {
		conditions[i].LastTransitionTime = metav1.NewTime(s.autoscaler.env.Now())
	}
	conditions[i].Status, conditions[i].Reason, conditions[i].Message = is, reason, message
	s.object.Status.Conditions = conditions
}
