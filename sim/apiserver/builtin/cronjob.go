package builtin

import (
	"regexp"
	"strings"
	"time"
	_ "time/tzdata" // a time zone is one or not whatever the machine has installed

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// maxCronJobName leaves room for what the controller appends to the name of a CronJob to name a Job.
const maxCronJobName = 52

// DefaultCronJob fills in defaults: pkg/apis/batch/v1/defaults.go. The Job template gets only the defaults of its pods: the
// others are filled in when the Job is created.
func DefaultCronJob(job *batchv1.CronJob, _ string) {
	spec := &job.Spec
	fill(&spec.ConcurrencyPolicy, batchv1.AllowConcurrent)
	fillPointer(&spec.Suspend, false)
	fillPointer(&spec.SuccessfulJobsHistoryLimit, 3)
	fillPointer(&spec.FailedJobsHistoryLimit, 1)
	defaultJobTemplate(&spec.JobTemplate.Spec)
}

// ValidateCronJob checks a new CronJob or an update; pkg/apis/batch/validation/validation.go.
func ValidateCronJob(job, old *batchv1.CronJob, version string) field.ErrorList {
	spec, root := &job.Spec, field.NewPath("spec")
	if old != nil && canon.Equal(spec, &old.Spec) {
		return nil
	}
	errs := join(
		validateSchedule(spec, old, root.Child("schedule")),
		notNegative(spec.StartingDeadlineSeconds, root.Child("startingDeadlineSeconds")),
	)
	if zone := spec.TimeZone; zone != nil && (old == nil || !canon.Equal(&spec.TimeZone, &old.Spec.TimeZone)) {
		errs = append(errs, validateTimeZone(*zone, root.Child("timeZone"))...)
	}
	template, at := &spec.JobTemplate.Spec, root.Child("jobTemplate", "spec")
	errs = join(errs,
		oneOf(spec.ConcurrencyPolicy, []batchv1.ConcurrencyPolicy{
			batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent,
		}, root.Child("concurrencyPolicy")),
		validateJobSpec(template, at, version),
	)
	if template.Selector != nil {
		errs = append(errs, field.Invalid(at.Child("selector"), template.Selector, "`selector` will be auto-generated"))
	}
	if template.ManualSelector != nil && *template.ManualSelector {
		errs = append(errs, field.NotSupported(at.Child("manualSelector"), template.ManualSelector, []string{"nil", "false"}))
	}
	errs = join(errs,
		notNegative(spec.SuccessfulJobsHistoryLimit, root.Child("successfulJobsHistoryLimit")),
		notNegative(spec.FailedJobsHistoryLimit, root.Child("failedJobsHistoryLimit")),
	)
	if old == nil && len(job.Name) > maxCronJobName {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), job.Name, "must be no more than 52 characters"))
	}
	return errs
}

func validateSchedule(spec *batchv1.CronJobSpec, old *batchv1.CronJob, at *field.Path) field.ErrorList {
	if spec.Schedule == "" {
		return field.ErrorList{field.Required(at, "").MarkCoveredByDeclarative()}
	}
	var errs field.ErrorList
	if err := parseSchedule(spec.Schedule); err != nil {
		errs = append(errs, field.Invalid(at, spec.Schedule, err.Error()))
	}
	if !strings.Contains(spec.Schedule, "TZ") {
		return errs
	}
	switch had := old != nil && strings.Contains(old.Spec.Schedule, "TZ"); {
	case !had:
		errs = append(errs, field.Invalid(at, spec.Schedule, "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"))
	case spec.TimeZone != nil:
		errs = append(errs, field.Invalid(at, spec.Schedule, "cannot use both timeZone field and TZ or CRON_TZ in schedule"))
	}
	return errs
}

var zonePart = regexp.MustCompile(`^[A-Za-z\.\-_0-9+]{1,14}$`)

func validateTimeZone(zone string, at *field.Path) field.ErrorList {
	if zone == "" {
		return field.ErrorList{field.Invalid(at, zone, "timeZone must be nil or non-empty string")}
	}
	for part := range strings.SplitSeq(zone, "/") {
		if part == "." || part == ".." || strings.HasPrefix(part, "-") || !zonePart.MatchString(part) {
			return field.ErrorList{field.Invalid(at, zone, "unknown time zone "+zone)}
		}
	}
	var errs field.ErrorList
	if strings.EqualFold(zone, "Local") {
		errs = append(errs, field.Invalid(at, zone,
			"timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"))
	}
	if _, err := time.LoadLocation(zone); err != nil {
		errs = append(errs, field.Invalid(at, zone, err.Error()))
	}
	return errs
}
