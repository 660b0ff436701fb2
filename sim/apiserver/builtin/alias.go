package builtin

import (
	"encoding/json"
	"maps"
	"slices"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EventFromNew returns a core/v1 Event that says what one of events.k8s.io/v1 does; pkg/apis/events/v1/conversion.go.
func EventFromNew(event *eventsv1.Event) *corev1.Event {
	old := &corev1.Event{
		TypeMeta:            metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta:          event.ObjectMeta,
		InvolvedObject:      event.Regarding,
		Reason:              event.Reason,
		Message:             event.Note,
		Source:              event.DeprecatedSource,
		FirstTimestamp:      event.DeprecatedFirstTimestamp,
		LastTimestamp:       event.DeprecatedLastTimestamp,
		Count:               event.DeprecatedCount,
		Type:                event.Type,
		EventTime:           event.EventTime,
		Action:              event.Action,
		Related:             event.Related,
		ReportingController: event.ReportingController,
		ReportingInstance:   event.ReportingInstance,
	}
	if event.Series != nil {
		old.Series = &corev1.EventSeries{Count: event.Series.Count, LastObservedTime: event.Series.LastObservedTime}
	}
	return old
}

// EventToNew returns the events.k8s.io/v1 form of a core/v1 Event.
func EventToNew(event *corev1.Event) *eventsv1.Event {
	converted := &eventsv1.Event{
		TypeMeta:                 metav1.TypeMeta{APIVersion: "events.k8s.io/v1", Kind: "Event"},
		ObjectMeta:               event.ObjectMeta,
		EventTime:                event.EventTime,
		ReportingController:      event.ReportingController,
		ReportingInstance:        event.ReportingInstance,
		Action:                   event.Action,
		Reason:                   event.Reason,
		Regarding:                event.InvolvedObject,
		Related:                  event.Related,
		Note:                     event.Message,
		Type:                     event.Type,
		DeprecatedSource:         event.Source,
		DeprecatedFirstTimestamp: event.FirstTimestamp,
		DeprecatedLastTimestamp:  event.LastTimestamp,
		DeprecatedCount:          event.Count,
	}
	if event.Series != nil {
		converted.Series = &eventsv1.EventSeries{Count: event.Series.Count, LastObservedTime: event.Series.LastObservedTime}
	}
	return converted
}

// The annotations in which autoscaling/v1 shows what it has no fields for; pkg/apis/autoscaling/annotations.go.
const (
	metricsAnnotation    = "autoscaling.alpha.kubernetes.io/metrics"
	statusesAnnotation   = "autoscaling.alpha.kubernetes.io/current-metrics"
	conditionsAnnotation = "autoscaling.alpha.kubernetes.io/conditions"
	behaviorAnnotation   = "autoscaling.alpha.kubernetes.io/behavior"
)

var autoscalerAnnotations = []string{metricsAnnotation, statusesAnnotation, conditionsAnnotation, behaviorAnnotation}

// DefaultHorizontalPodAutoscalerV1 fills in defaults: pkg/apis/autoscaling/v1/defaults.go. The default metric comes with the
// conversion.
func DefaultHorizontalPodAutoscalerV1(autoscaler *autoscalingv1.HorizontalPodAutoscaler, _ string) {
	fillPointer(&autoscaler.Spec.MinReplicas, 1)
}

// AutoscalerToV1 returns the autoscaling/v1 form of an autoscaler; pkg/apis/autoscaling/v1/conversion.go.
func AutoscalerToV1(autoscaler *autoscalingv2.HorizontalPodAutoscaler) *autoscalingv1.HorizontalPodAutoscaler {
	spec, status := &autoscaler.Spec, &autoscaler.Status
	converted := &autoscalingv1.HorizontalPodAutoscaler{
		TypeMeta:   metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "HorizontalPodAutoscaler"},
		ObjectMeta: autoscaler.ObjectMeta,
		Spec: autoscalingv1.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv1.CrossVersionObjectReference(spec.ScaleTargetRef),
			MinReplicas:    spec.MinReplicas, MaxReplicas: spec.MaxReplicas,
		},
		Status: autoscalingv1.HorizontalPodAutoscalerStatus{
			LastScaleTime: status.LastScaleTime, CurrentReplicas: status.CurrentReplicas, DesiredReplicas: status.DesiredReplicas,
			ObservedGeneration: status.ObservedGeneration,
		},
	}
	var others []autoscalingv1.MetricSpec
	for i := range spec.Metrics {
		if percent := cpuUtilization(&spec.Metrics[i]); percent != nil {
			converted.Spec.TargetCPUUtilizationPercentage = percent
		} else {
			others = append(others, metricToV1(&spec.Metrics[i]))
		}
	}
	metrics := make([]autoscalingv1.MetricStatus, len(status.CurrentMetrics))
	for i := range status.CurrentMetrics {
		metrics[i] = metricStatusToV1(&status.CurrentMetrics[i])
		if r := status.CurrentMetrics[i].Resource; r != nil && r.Name == corev1.ResourceCPU && r.Current.AverageUtilization != nil {
			converted.Status.CurrentCPUUtilizationPercentage = r.Current.AverageUtilization
		}
	}
	conditions := make([]autoscalingv1.HorizontalPodAutoscalerCondition, len(status.Conditions))
	for i, c := range status.Conditions {
		conditions[i] = autoscalingv1.HorizontalPodAutoscalerCondition{
			Type: autoscalingv1.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
		}
	}
	annotations := withoutRoundTrip(autoscaler.Annotations)
	annotate(&annotations, metricsAnnotation, others, len(others) > 0)
	annotate(&annotations, statusesAnnotation, metrics, len(metrics) > 0)
	annotate(&annotations, behaviorAnnotation, internal(spec.Behavior, ""), spec.Behavior != nil)
	annotate(&annotations, conditionsAnnotation, conditions, len(conditions) > 0)
	converted.Annotations = annotations
	return converted
}

// cpuUtilization returns the one metric that autoscaling/v1 has a field for, nil if this is another.
func cpuUtilization(metric *autoscalingv2.MetricSpec) *int32 {
	if metric.Type != autoscalingv2.ResourceMetricSourceType || metric.Resource == nil || metric.Resource.Name != corev1.ResourceCPU {
		return nil
	}
	return metric.Resource.Target.AverageUtilization
}

// withoutRoundTrip returns the annotations without those that a conversion made.
func withoutRoundTrip(annotations map[string]string) map[string]string {
	made := func(name string, _ string) bool { return slices.Contains(autoscalerAnnotations, name) }
	for name := range annotations {
		if made(name, "") {
			kept := maps.Clone(annotations)
			maps.DeleteFunc(kept, made)
			return kept
		}
	}
	return annotations
}

// annotate adds an annotation, to a copy.
func annotate(annotations *map[string]string, name string, value any, present bool) {
	if !present {
		return
	}
	data, err := json.Marshal(value)
	if err != nil {
		panic(err) // no value of an API type is without a JSON form
	}
	added := maps.Clone(*annotations)
	if added == nil {
		added = map[string]string{}
	}
	added[name] = string(data)
	*annotations = added
}

// AutoscalerFromV1 returns the autoscaling/v2 form of an autoscaler.
func AutoscalerFromV1(autoscaler *autoscalingv1.HorizontalPodAutoscaler) *autoscalingv2.HorizontalPodAutoscaler {
	spec, status := &autoscaler.Spec, &autoscaler.Status
	converted := &autoscalingv2.HorizontalPodAutoscaler{
		TypeMeta:   metav1.TypeMeta{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler"},
		ObjectMeta: autoscaler.ObjectMeta,
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference(spec.ScaleTargetRef),
			MinReplicas:    spec.MinReplicas, MaxReplicas: spec.MaxReplicas,
		},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{
			LastScaleTime: status.LastScaleTime, CurrentReplicas: status.CurrentReplicas, DesiredReplicas: status.DesiredReplicas,
			ObservedGeneration: status.ObservedGeneration,
		},
	}
	var others []autoscalingv1.MetricSpec
	if read(autoscaler.Annotations, metricsAnnotation, &others) {
		for i := range others {
			converted.Spec.Metrics = append(converted.Spec.Metrics, metricFromV1(&others[i]))
		}
	}
	if percent := spec.TargetCPUUtilizationPercentage; percent != nil {
		converted.Spec.Metrics = append(converted.Spec.Metrics, cpuMetric(percent))
	}
	var behavior autoscalingv2.HorizontalPodAutoscalerBehavior
	if read(autoscaler.Annotations, behaviorAnnotation, &behavior) && behavior != (autoscalingv2.HorizontalPodAutoscalerBehavior{}) {
		converted.Spec.Behavior = &behavior
	}
	var metrics []autoscalingv1.MetricStatus
	switch percent := status.CurrentCPUUtilizationPercentage; {
	case read(autoscaler.Annotations, statusesAnnotation, &metrics):
		for i := range metrics {
			converted.Status.CurrentMetrics = append(converted.Status.CurrentMetrics, metricStatusFromV1(&metrics[i]))
		}
	case percent != nil:
		converted.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricStatus{
				Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: percent}},
		}}
	}
	var conditions []autoscalingv1.HorizontalPodAutoscalerCondition
	if read(autoscaler.Annotations, conditionsAnnotation, &conditions) {
		for _, c := range conditions {
			converted.Status.Conditions = append(converted.Status.Conditions, autoscalingv2.HorizontalPodAutoscalerCondition{
				Type: autoscalingv2.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status,
				LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
			})
		}
	}
	converted.Annotations = withoutRoundTrip(autoscaler.Annotations)
	if len(converted.Spec.Metrics) == 0 {
		converted.Spec.Metrics = []autoscalingv2.MetricSpec{cpuMetric(new(int32(defaultUtilization)))}
	}
	// What the annotation says of the behaviour has the defaults of autoscaling/v2.
	DefaultHorizontalPodAutoscaler(converted, "")
	return converted
}

func cpuMetric(percent *int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{
		Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{
			Type: autoscalingv2.UtilizationMetricType, AverageUtilization: percent,
		}},
	}
}

// read decodes an annotation; one that cannot be read is passed over.
func read(annotations map[string]string, name string, into any) bool {
	text, ok := annotations[name]
	return ok && json.Unmarshal([]byte(text), into) == nil
}
