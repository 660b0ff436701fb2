package builtin

import (
	"fmt"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// defaultUtilization is how many percent of its CPU request a pod is to use unless there are other metrics.
const defaultUtilization = 80

// DefaultHorizontalPodAutoscaler fills in defaults: pkg/apis/autoscaling/v2/defaults.go.
func DefaultHorizontalPodAutoscaler(autoscaler *autoscalingv2.HorizontalPodAutoscaler, _ string) {
	spec := &autoscaler.Spec
	fillPointer(&spec.MinReplicas, 1)
	if len(spec.Metrics) == 0 {
		spec.Metrics = []autoscalingv2.MetricSpec{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{
				Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(defaultUtilization)),
			}},
		}}
	}
	if spec.Behavior == nil {
		return
	}
	percent := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}
	pods := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15}
	fillPointer(&spec.Behavior.ScaleUp, autoscalingv2.HPAScalingRules{})
	defaultScaling(spec.Behavior.ScaleUp, pods, percent)
	fillPointer(&spec.Behavior.ScaleUp.StabilizationWindowSeconds, 0)
	fillPointer(&spec.Behavior.ScaleDown, autoscalingv2.HPAScalingRules{})
	defaultScaling(spec.Behavior.ScaleDown, percent)
}

func defaultScaling(rules *autoscalingv2.HPAScalingRules, policies ...autoscalingv2.HPAScalingPolicy) {
	fillPointer(&rules.SelectPolicy, autoscalingv2.MaxChangePolicySelect)
	if rules.Policies == nil {
		rules.Policies = policies
	}
}

// ValidateHorizontalPodAutoscaler checks a new HorizontalPodAutoscaler or an update; pkg/apis/autoscaling/validation/
// validation.go. From 1.37 on it may scale to zero.
func ValidateHorizontalPodAutoscaler(autoscaler, old *autoscalingv2.HorizontalPodAutoscaler, version string) field.ErrorList {
	spec, root := &autoscaler.Spec, field.NewPath("spec")
	if old != nil && canon.Equal(spec, &old.Spec) {
		return nil
	}
	least := int32(1)
	if since(version, 37) || old != nil && old.Spec.MinReplicas != nil && *old.Spec.MinReplicas == 0 {
		least = 0
	}
	var errs field.ErrorList
	if n := spec.MinReplicas; n != nil && *n < least {
		errs = append(errs, field.Invalid(root.Child("minReplicas"), *n, fmt.Sprintf("must be greater than or equal to %d", least)))
	}
	at := root.Child("maxReplicas")
	switch {
	case spec.MaxReplicas == 0:
		errs = append(errs, field.Required(at, "must be set and greater than 0").MarkCoveredByDeclarative())
	case spec.MaxReplicas < 0:
		errs = append(errs, field.Invalid(at, spec.MaxReplicas, "must be greater than or equal to 1").MarkCoveredByDeclarative())
	}
	if n := spec.MinReplicas; n != nil && spec.MaxReplicas < *n {
		errs = append(errs, field.Invalid(at, spec.MaxReplicas, "must be greater than or equal to `minReplicas`"))
	}
	same := old != nil && old.Spec.ScaleTargetRef.APIVersion == spec.ScaleTargetRef.APIVersion &&
		old.Spec.ScaleTargetRef.Kind == spec.ScaleTargetRef.Kind
	errs = join(errs,
		validateScaleTarget(&spec.ScaleTargetRef, same, spec.ScaleTargetRef.Kind == "ReplicationController", root.Child("scaleTargetRef")),
		validateMetrics(spec, root.Child("metrics")),
	)
	if behavior := spec.Behavior; behavior != nil {
		errs = join(errs, validateScaling(behavior.ScaleUp, root.Child("behavior", "scaleUp")),
			validateScaling(behavior.ScaleDown, root.Child("behavior", "scaleDown")))
	}
	return errs
}

// validateScaleTarget is ValidateCrossVersionObjectReference. The apiVersion is not looked at where it stays what it was, and
// need not have a group where core says so.
func validateScaleTarget(ref *autoscalingv2.CrossVersionObjectReference, same, core bool, root *field.Path) field.ErrorList {
	errs := join(pathSegment(ref.Kind, "", root.Child("kind")), pathSegment(ref.Name, "", root.Child("name")))
	if same {
		return errs
	}
	at := root.Child("apiVersion")
	switch gv, err := schema.ParseGroupVersion(ref.APIVersion); {
	case err != nil:
		errs = append(errs, field.Invalid(at, ref.APIVersion, err.Error()))
	case gv.Group == "" && !core:
		errs = append(errs, field.Invalid(at, ref.APIVersion, "apiVersion must specify API group"))
	}
	return errs
}

func validateMetrics(spec *autoscalingv2.HorizontalPodAutoscalerSpec, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	external := false // a metric that can be measured while there are no pods
	for i := range spec.Metrics {
		metric := &spec.Metrics[i]
		errs = append(errs, validateMetric(metric, root.Index(i))...)
		external = external || metric.Type == autoscalingv2.ObjectMetricSourceType || metric.Type == autoscalingv2.ExternalMetricSourceType
	}
	if n := spec.MinReplicas; n != nil && *n == 0 && !external {
		errs = append(errs, field.Forbidden(root, "must specify at least one Object or External metric to support scaling to zero replicas"))
	}
	return errs
}

// metricSource is one of the places of a metric, of which only that of its type may be used.
type metricSource struct {
	metricType autoscalingv2.MetricSourceType
	name       string
	present    bool
	validate   func(at *field.Path) field.ErrorList
}

func sourcesOf(m *autoscalingv2.MetricSpec) []metricSource {
	return []metricSource{
		{autoscalingv2.ObjectMetricSourceType, "object", m.Object != nil, func(at *field.Path) field.ErrorList {
			return join(validateScaleTarget(&m.Object.DescribedObject, false, true, at.Child("describedObject")),
				validateMetricName(m.Object.Metric, at), validateTarget(&m.Object.Target, at.Child("target")),
				requireTarget(m.Object.Target.Value == nil && m.Object.Target.AverageValue == nil, "averageValue",
					"must set either a target value or averageValue", at))
		}},
		{autoscalingv2.ExternalMetricSourceType, "external", m.External != nil, func(at *field.Path) field.ErrorList {
			target := &m.External.Target
			return join(validateMetricName(m.External.Metric, at), validateTarget(target, at.Child("target")),
				requireTarget(target.Value == nil && target.AverageValue == nil, "averageValue",
					"must set either a target value for metric or a per-pod target", at),
				forbidTarget(target.Value != nil && target.AverageValue != nil, "value",
					"may not set both a target value for metric and a per-pod target", at))
		}},
		{autoscalingv2.PodsMetricSourceType, "pods", m.Pods != nil, func(at *field.Path) field.ErrorList {
			return join(validateMetricName(m.Pods.Metric, at), validateTarget(&m.Pods.Target, at.Child("target")),
				requireTarget(m.Pods.Target.AverageValue == nil, "averageValue", "must specify a positive target averageValue", at))
		}},
		{autoscalingv2.ResourceMetricSourceType, "resource", m.Resource != nil, func(at *field.Path) field.ErrorList {
			return join(requireName(string(m.Resource.Name), at), validateResourceTarget(&m.Resource.Target, at))
		}},
		{autoscalingv2.ContainerResourceMetricSourceType, "containerResource", m.ContainerResource != nil,
			func(at *field.Path) field.ErrorList {
				errs := requireName(string(m.ContainerResource.Name), at)
				if name := m.ContainerResource.Name; name != "" {
					errs = append(errs, validateContainerResourceName(name, at.Child("name"))...)
				}
				if container := m.ContainerResource.Container; container == "" {
					errs = append(errs, field.Required(at.Child("container"), "must specify a container"))
				} else {
					errs = append(errs, named(container, validation.IsDNS1123Label, at.Child("container"))...)
				}
				return append(errs, validateResourceTarget(&m.ContainerResource.Target, at)...)
			}},
	}
}

func requireName(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at.Child("name"), "must specify a resource name")}
	}
	return nil
}

func requireTarget(missing bool, name, text string, at *field.Path) field.ErrorList {
	if missing {
		return field.ErrorList{field.Required(at.Child("target", name), text)}
	}
	return nil
}

func forbidTarget(present bool, name, text string, at *field.Path) field.ErrorList {
	if present {
		return field.ErrorList{field.Forbidden(at.Child("target", name), text)}
	}
	return nil
}

func validateResourceTarget(target *autoscalingv2.MetricTarget, at *field.Path) field.ErrorList {
	return join(validateTarget(target, at.Child("target")),
		requireTarget(target.AverageUtilization == nil && target.AverageValue == nil, "averageUtilization",
			"must set either a target raw value or a target utilization", at),
		forbidTarget(target.AverageUtilization != nil && target.AverageValue != nil, "averageValue",
			"may not set both a target raw value and a target utilization", at))
}

func validateMetric(metric *autoscalingv2.MetricSpec, root *field.Path) field.ErrorList {
	types := []autoscalingv2.MetricSourceType{
		autoscalingv2.ContainerResourceMetricSourceType, autoscalingv2.ExternalMetricSourceType,
		autoscalingv2.ObjectMetricSourceType, autoscalingv2.PodsMetricSourceType, autoscalingv2.ResourceMetricSourceType,
	}
	at := root.Child("type")
	var errs field.ErrorList
	if metric.Type == "" {
		errs = append(errs, field.Required(at, "must specify a metric source type"))
	}
	errs = append(errs, supported(metric.Type, types, at)...)
	var present []string
	sources := sourcesOf(metric)
	for _, source := range sources {
		if source.present {
			present = append(present, source.name)
			if len(present) == 1 {
				errs = append(errs, source.validate(root.Child(source.name))...)
			}
		}
	}
	expected := ""
	for _, source := range sources {
		if source.metricType == metric.Type {
			expected = source.name
			if !source.present {
				errs = append(errs, field.Required(root.Child(source.name), "must populate information for the given metric source"))
			}
		}
	}
	if expected == "" {
		errs = append(errs, field.NotSupported(at, metric.Type, types))
	}
	if len(present) == 1 {
		return errs
	}
	slices.Sort(present) // a real server has them in a random order
	for _, name := range present {
		if name != expected {
			errs = append(errs, field.Forbidden(root.Child(name), "must populate the given metric source only"))
		}
	}
	return errs
}

func validateMetricName(metric autoscalingv2.MetricIdentifier, at *field.Path) field.ErrorList {
	return pathSegment(metric.Name, "must specify a metric name", at.Child("metric", "name"))
}

func validateTarget(target *autoscalingv2.MetricTarget, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	if target.Type == "" {
		errs = append(errs, field.Required(root.Child("type"), "must specify a metric target type"))
	}
	switch target.Type {
	case autoscalingv2.UtilizationMetricType, autoscalingv2.ValueMetricType, autoscalingv2.AverageValueMetricType:
	default:
		errs = append(errs, field.Invalid(root.Child("type"), target.Type, "must be either Utilization, Value, or AverageValue"))
	}
	if target.Value != nil && target.Value.Sign() != 1 {
		errs = append(errs, field.Invalid(root.Child("value"), target.Value, "must be positive"))
	}
	if target.AverageValue != nil && target.AverageValue.Sign() != 1 {
		errs = append(errs, field.Invalid(root.Child("averageValue"), target.AverageValue, "must be positive"))
	}
	if n := target.AverageUtilization; n != nil && *n < 1 {
		errs = append(errs, field.Invalid(root.Child("averageUtilization"), n, "must be greater than 0"))
	}
	return errs
}

func validateScaling(rules *autoscalingv2.HPAScalingRules, root *field.Path) field.ErrorList {
	const maxWindow, maxPeriod = 3600, 1800
	var errs field.ErrorList
	between := func(n int32, shown any, most int32, at *field.Path, low string, tooLow bool) {
		if tooLow {
			errs = append(errs, field.Invalid(at, shown, low))
		}
		if n > most {
			errs = append(errs, field.Invalid(at, shown, fmt.Sprintf("must be less than or equal to %d", most)))
		}
	}
	if n := rules.StabilizationWindowSeconds; n != nil {
		between(*n, n, maxWindow, root.Child("stabilizationWindowSeconds"), "must be greater than or equal to zero", *n < 0)
	}
	selects := []autoscalingv2.ScalingPolicySelect{
		autoscalingv2.DisabledPolicySelect, autoscalingv2.MaxChangePolicySelect, autoscalingv2.MinChangePolicySelect}
	if policy := rules.SelectPolicy; policy != nil && !slices.Contains(selects, *policy) {
		errs = append(errs, field.NotSupported(root.Child("selectPolicy"), policy, selects))
	}
	if len(rules.Policies) == 0 {
		errs = append(errs, field.Required(root.Child("policies"), "must specify at least one Policy"))
	}
	for i, policy := range rules.Policies {
		at := root.Child("policies").Index(i)
		errs = append(errs, supported(policy.Type, []autoscalingv2.HPAScalingPolicyType{
			autoscalingv2.PercentScalingPolicy, autoscalingv2.PodsScalingPolicy}, at.Child("type"))...)
		if policy.Value <= 0 {
			errs = append(errs, field.Invalid(at.Child("value"), policy.Value, "must be greater than zero"))
		}
		seconds := policy.PeriodSeconds
		between(seconds, seconds, maxPeriod, at.Child("periodSeconds"), "must be greater than zero", seconds <= 0)
	}
	if rules.Tolerance != nil && rules.Tolerance.Sign() < 0 {
		errs = append(errs, field.Invalid(root.Child("tolerance"), rules.Tolerance.String(), apivalidation.IsNegativeErrorMsg))
	}
	return errs
}

// ValidateHorizontalPodAutoscalerStatus checks a status write.
func ValidateHorizontalPodAutoscalerStatus(autoscaler, _ *autoscalingv2.HorizontalPodAutoscaler, _ string) field.ErrorList {
	status := &autoscaler.Status
	return validateCounts(field.NewPath("status"), replicaCount{"currentReplicas", status.CurrentReplicas},
		replicaCount{"desiredReplicas", status.DesiredReplicas})
}
