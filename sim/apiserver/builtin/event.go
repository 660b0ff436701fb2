package builtin

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// ValidateEvent checks a new event or an update; pkg/apis/core/validation/events.go, for requests in core/v1.
func ValidateEvent(event, _ *corev1.Event, version string) field.ErrorList {
	return validateEvent(event, "reportingComponent", version)
}

// ValidateNewEvent checks a new event or an update, for requests in events.k8s.io/v1: these may not use the old fields, nor
// change what an event says.
func ValidateNewEvent(event, old *corev1.Event, version string) field.ErrorList {
	errs := validateEvent(event, "reportingController", version)
	if old != nil {
		return append(errs, validateEventUpdate(event, old, version)...)
	}
	errs = append(errs, validateSeries(event.Series)...)
	if event.EventTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("eventTime"), ""))
	}
	if event.Type != corev1.EventTypeNormal && event.Type != corev1.EventTypeWarning {
		errs = append(errs, field.Invalid(field.NewPath("type"), "", "has invalid value: "+event.Type))
	}
	for _, unused := range []struct {
		name string
		used bool
	}{
		{"firstTimestamp", !event.FirstTimestamp.IsZero()}, {"lastTimestamp", !event.LastTimestamp.IsZero()},
		{"count", event.Count != 0}, {"source", event.Source != corev1.EventSource{}},
	} {
		if unused.used {
			errs = append(errs, field.Invalid(field.NewPath(unused.name), "", "needs to be unset"))
		}
	}
	return errs
}

func validateSeries(series *corev1.EventSeries) field.ErrorList {
	var errs field.ErrorList
	if series == nil {
		return nil
	}
	if series.Count < 2 {
		errs = append(errs, field.Invalid(field.NewPath("series.count"), "", "should be at least 2"))
	}
	if series.LastObservedTime.IsZero() {
		errs = append(errs, field.Required(field.NewPath("series.lastObservedTime"), ""))
	}
	return errs
}

func validateEventUpdate(event, old *corev1.Event, version string) field.ErrorList {
	var errs field.ErrorList
	if !canon.Equal(event.Series, old.Series) {
		errs = append(errs, validateSeries(event.Series)...)
	}
	for _, f := range []struct {
		name       string
		value, old any
		shown      any
	}{
		{"involvedObject", &event.InvolvedObject, &old.InvolvedObject, internal(event.InvolvedObject, version)},
		{"reason", &event.Reason, &old.Reason, event.Reason},
		{"message", &event.Message, &old.Message, event.Message},
		{"source", &event.Source, &old.Source, internal(event.Source, version)},
		{"firstTimestamp", &event.FirstTimestamp, &old.FirstTimestamp, event.FirstTimestamp},
		{"lastTimestamp", &event.LastTimestamp, &old.LastTimestamp, event.LastTimestamp},
		{"count", &event.Count, &old.Count, event.Count},
		{"reason", &event.Reason, &old.Reason, event.Reason},
		{"type", &event.Type, &old.Type, event.Type},
		{"eventTime", &event.EventTime, &old.EventTime, event.EventTime},
		{"action", &event.Action, &old.Action, event.Action},
		{"related", &event.Related, &old.Related, internal(event.Related, version)},
		{"reportingController", &event.ReportingController, &old.ReportingController, event.ReportingController},
		{"reportingInstance", &event.ReportingInstance, &old.ReportingInstance, event.ReportingInstance},
	} {
		errs = append(errs, immutable(f.value, f.old, f.shown, field.NewPath(f.name))...)
	}
	return errs
}

// validateEvent is legacyValidateEvent: what both APIs ask of an event. The name of one field is that of the API.
func validateEvent(event *corev1.Event, controller, version string) field.ErrorList {
	about := event.InvolvedObject.Namespace
	var errs field.ErrorList
	misplaced := about == "" && event.Namespace != metav1.NamespaceDefault
	if event.EventTime.IsZero() {
		misplaced = misplaced && event.Namespace != "" || about != "" && event.Namespace != about
	} else {
		misplaced = misplaced && event.Namespace != metav1.NamespaceSystem
	}
	if misplaced {
		errs = append(errs, field.Invalid(field.NewPath("involvedObject", "namespace"), about, "does not match event.namespace"))
	}
	if !event.EventTime.IsZero() {
		errs = append(errs, validateEventTexts(event, controller)...)
	}
	if !since(version, 37) {
		errs = append(errs, named(event.Namespace, validation.IsDNS1123Subdomain, field.NewPath("namespace"))...)
	}
	return errs
}

func validateEventTexts(event *corev1.Event, controller string) field.ErrorList {
	var errs field.ErrorList
	if event.ReportingController == "" {
		errs = append(errs, field.Required(field.NewPath(controller), ""))
	}
	errs = append(errs, named(event.ReportingController, validation.IsQualifiedName, field.NewPath(controller))...)
	for _, text := range []struct {
		name, value string
		most        int
		required    bool
	}{
		{"reportingInstance", event.ReportingInstance, 128, true}, {"action", event.Action, 128, true},
		{"reason", event.Reason, 128, true}, {"message", event.Message, 1024, false},
	} {
		at := field.NewPath(text.name)
		if text.required && text.value == "" {
			errs = append(errs, field.Required(at, ""))
		}
		if len(text.value) > text.most {
			errs = append(errs, field.Invalid(at, "", fmt.Sprintf("can have at most %d characters", text.most)))
		}
	}
	return errs
}
