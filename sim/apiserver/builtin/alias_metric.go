package builtin

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
)

// The metrics of autoscaling/v1 are flat, as they are in its annotations; pkg/apis/autoscaling/v1/conversion.go.

func metricToV1(metric *autoscalingv2.MetricSpec) autoscalingv1.MetricSpec {
	converted := autoscalingv1.MetricSpec{Type: autoscalingv1.MetricSourceType(metric.Type)}
	if m := metric.Object; m != nil {
		converted.Object = &autoscalingv1.ObjectMetricSource{
			Target: autoscalingv1.CrossVersionObjectReference(m.DescribedObject), MetricName: m.Metric.Name, Selector: m.Metric.Selector,
			TargetValue: orZero(m.Target.Value), AverageValue: m.Target.AverageValue,
		}
	}
	if m := metric.Pods; m != nil {
		converted.Pods = &autoscalingv1.PodsMetricSource{
			MetricName: m.Metric.Name, Selector: m.Metric.Selector, TargetAverageValue: orZero(m.Target.AverageValue)}
	}
	if m := metric.Resource; m != nil {
		converted.Resource = &autoscalingv1.ResourceMetricSource{
			Name: m.Name, TargetAverageUtilization: m.Target.AverageUtilization, TargetAverageValue: m.Target.AverageValue}
	}
	if m := metric.ContainerResource; m != nil {
		converted.ContainerResource = &autoscalingv1.ContainerResourceMetricSource{
			Name: m.Name, Container: m.Container, TargetAverageUtilization: m.Target.AverageUtilization,
			TargetAverageValue: m.Target.AverageValue}
	}
	if m := metric.External; m != nil {
		converted.External = &autoscalingv1.ExternalMetricSource{
			MetricName: m.Metric.Name, MetricSelector: m.Metric.Selector, TargetValue: m.Target.Value,
			TargetAverageValue: m.Target.AverageValue}
	}
	return converted
}

func metricFromV1(metric *autoscalingv1.MetricSpec) autoscalingv2.MetricSpec {
	converted := autoscalingv2.MetricSpec{Type: autoscalingv2.MetricSourceType(metric.Type)}
	if m := metric.Object; m != nil {
		target := autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: &m.TargetValue}
		if m.AverageValue != nil {
			target = autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: m.AverageValue}
			if !m.TargetValue.IsZero() {
				target.Value = &m.TargetValue
			}
		}
		converted.Object = &autoscalingv2.ObjectMetricSource{
			DescribedObject: autoscalingv2.CrossVersionObjectReference(m.Target), Target: target,
			Metric: autoscalingv2.MetricIdentifier{Name: m.MetricName, Selector: m.Selector},
		}
	}
	if m := metric.Pods; m != nil {
		converted.Pods = &autoscalingv2.PodsMetricSource{
			Metric: autoscalingv2.MetricIdentifier{Name: m.MetricName, Selector: m.Selector},
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.AverageValueMetricType, AverageValue: &m.TargetAverageValue},
		}
	}
	if m := metric.Resource; m != nil {
		converted.Resource = &autoscalingv2.ResourceMetricSource{
			Name: m.Name, Target: resourceTarget(m.TargetAverageUtilization, m.TargetAverageValue)}
	}
	if m := metric.ContainerResource; m != nil {
		converted.ContainerResource = &autoscalingv2.ContainerResourceMetricSource{
			Name: m.Name, Container: m.Container, Target: resourceTarget(m.TargetAverageUtilization, m.TargetAverageValue)}
	}
	if m := metric.External; m != nil {
		target := autoscalingv2.MetricTarget{Type: autoscalingv2.ValueMetricType, Value: m.TargetValue, AverageValue: m.TargetAverageValue}
		if m.TargetValue == nil {
			target.Type = autoscalingv2.AverageValueMetricType
		}
		converted.External = &autoscalingv2.ExternalMetricSource{
			Metric: autoscalingv2.MetricIdentifier{Name: m.MetricName, Selector: m.MetricSelector}, Target: target}
	}
	return converted
}

func resourceTarget(percent *int32, value *resource.Quantity) autoscalingv2.MetricTarget {
	target := autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: percent, AverageValue: value}
	if percent == nil {
		target.Type = autoscalingv2.AverageValueMetricType
	}
	return target
}

func orZero(quantity *resource.Quantity) resource.Quantity {
	if quantity == nil {
		return resource.Quantity{}
	}
	return *quantity
}

func metricStatusToV1(metric *autoscalingv2.MetricStatus) autoscalingv1.MetricStatus {
	converted := autoscalingv1.MetricStatus{Type: autoscalingv1.MetricSourceType(metric.Type)}
	if m := metric.Object; m != nil {
		converted.Object = &autoscalingv1.ObjectMetricStatus{
			Target: autoscalingv1.CrossVersionObjectReference(m.DescribedObject), MetricName: m.Metric.Name, Selector: m.Metric.Selector,
			CurrentValue: orZero(m.Current.Value), AverageValue: m.Current.AverageValue,
		}
	}
	if m := metric.Pods; m != nil {
		converted.Pods = &autoscalingv1.PodsMetricStatus{
			MetricName: m.Metric.Name, Selector: m.Metric.Selector, CurrentAverageValue: orZero(m.Current.AverageValue)}
	}
	if m := metric.Resource; m != nil {
		converted.Resource = &autoscalingv1.ResourceMetricStatus{
			Name: m.Name, CurrentAverageUtilization: m.Current.AverageUtilization,
			CurrentAverageValue: orZero(m.Current.AverageValue)}
	}
	if m := metric.ContainerResource; m != nil {
		converted.ContainerResource = &autoscalingv1.ContainerResourceMetricStatus{
			Name: m.Name, Container: m.Container, CurrentAverageUtilization: m.Current.AverageUtilization,
			CurrentAverageValue: orZero(m.Current.AverageValue)}
	}
	if m := metric.External; m != nil {
		converted.External = &autoscalingv1.ExternalMetricStatus{
			MetricName: m.Metric.Name, MetricSelector: m.Metric.Selector, CurrentValue: orZero(m.Current.Value),
			CurrentAverageValue: m.Current.AverageValue}
	}
	return converted
}

func metricStatusFromV1(metric *autoscalingv1.MetricStatus) autoscalingv2.MetricStatus {
	converted := autoscalingv2.MetricStatus{Type: autoscalingv2.MetricSourceType(metric.Type)}
	if m := metric.Object; m != nil {
		converted.Object = &autoscalingv2.ObjectMetricStatus{
			DescribedObject: autoscalingv2.CrossVersionObjectReference(m.Target),
			Metric:          autoscalingv2.MetricIdentifier{Name: m.MetricName, Selector: m.Selector},
			Current:         autoscalingv2.MetricValueStatus{Value: &m.CurrentValue, AverageValue: m.AverageValue},
		}
	}
	if m := metric.Pods; m != nil {
		converted.Pods = &autoscalingv2.PodsMetricStatus{
			Metric:  autoscalingv2.MetricIdentifier{Name: m.MetricName, Selector: m.Selector},
			Current: autoscalingv2.MetricValueStatus{AverageValue: &m.CurrentAverageValue},
		}
	}
	if m := metric.Resource; m != nil {
		converted.Resource = &autoscalingv2.ResourceMetricStatus{Name: m.Name, Current: autoscalingv2.MetricValueStatus{
			AverageUtilization: m.CurrentAverageUtilization, AverageValue: &m.CurrentAverageValue}}
	}
	if m := metric.ContainerResource; m != nil {
		converted.ContainerResource = &autoscalingv2.ContainerResourceMetricStatus{
			Name: m.Name, Container: m.Container, Current: autoscalingv2.MetricValueStatus{
				AverageUtilization: m.CurrentAverageUtilization, AverageValue: &m.CurrentAverageValue}}
	}
	if m := metric.External; m != nil {
		converted.External = &autoscalingv2.ExternalMetricStatus{
			Metric:  autoscalingv2.MetricIdentifier{Name: m.MetricName, Selector: m.MetricSelector},
			Current: autoscalingv2.MetricValueStatus{Value: &m.CurrentValue, AverageValue: m.CurrentAverageValue},
		}
	}
	return converted
}
