package builtin

import (
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// jobState is what the conditions of a Job say.
type jobState struct {
	complete, failed, failing, succeeding, suspended bool
}

func stateOf(status *batchv1.JobStatus) jobState {
	is := func(conditionType batchv1.JobConditionType) bool {
		return hasCondition(status, conditionType, corev1.ConditionTrue)
	}
	return jobState{
		complete: is(batchv1.JobComplete), failed: is(batchv1.JobFailed), failing: is(batchv1.JobFailureTarget),
		succeeding: is(batchv1.JobSuccessCriteriaMet), suspended: is(batchv1.JobSuspended),
	}
}

func (s jobState) finished() bool { return s.complete || s.failed }

// ValidateJobStatus checks a status write; ValidateJobUpdateStatus in pkg/apis/batch/validation/validation.go with the options
// of getStatusValidationOptions in pkg/registry/batch/job/strategy.go. Most rules are younger than the kind: what was wrong
// already may stay so.
func ValidateJobStatus(job, old *batchv1.Job, version string) field.ErrorList {
	root := field.NewPath("status")
	now, before := stateOf(&job.Status), stateOf(&old.Status)
	return join(
		validateJobNumbers(&job.Status, root),
		validateJobConditions(job, old, now, before, root),
		validateJobEnd(job, old, now, before, root, version),
		validateJobIndexes(job, old, root),
		validateJobPods(&job.Status, &old.Status, now, before, root),
		validateSuccessCriteria(job, now, root),
		validateJobTransition(job, old, now, before, root),
	)
}

func validateJobNumbers(status *batchv1.JobStatus, root *field.Path) field.ErrorList {
	errs := join(
		validateCounts(root, replicaCount{"active", status.Active}, replicaCount{"succeeded", status.Succeeded},
			replicaCount{"failed", status.Failed}),
		notNegative(status.Ready, root.Child("ready")),
		notNegative(status.Terminating, root.Child("terminating")),
	)
	if status.UncountedTerminatedPods == nil {
		return errs
	}
	seen := map[types.UID]bool{}
	for _, group := range []struct {
		name string
		uids []types.UID
	}{{"succeeded", status.UncountedTerminatedPods.Succeeded}, {"failed", status.UncountedTerminatedPods.Failed}} {
		for i, uid := range group.uids {
			at := root.Child("uncountedTerminatedPods", group.name).Index(i)
			switch {
			case uid == "":
				errs = append(errs, field.Invalid(at, uid, "must not be empty"))
			case seen[uid]:
				errs = append(errs, field.Duplicate(at, uid))
			}
			seen[uid] = true
		}
	}
	return errs
}

// validateJobConditions checks that the conditions agree with each other and with the times.
func validateJobConditions(job, old *batchv1.Job, now, before jobState, root *field.Path) field.ErrorList {
	at, status := root.Child("conditions"), &job.Status
	var errs field.ErrorList
	if now.complete && now.failed && (!before.complete || !before.failed) {
		errs = append(errs, field.Invalid(at, field.OmitValueType{}, "cannot set Complete=True and Failed=true conditions"))
	}
	if now.complete && now.failing && (!before.complete || !before.failing) {
		errs = append(errs, field.Invalid(at, field.OmitValueType{}, "cannot set Complete=True and FailureTarget=true conditions"))
	}
	at = root.Child("completionTime")
	completed := !sameTime(status.CompletionTime, old.Status.CompletionTime)
	if now.complete != before.complete || completed {
		switch {
		case status.CompletionTime != nil && !now.complete:
			errs = append(errs, field.Invalid(at, status.CompletionTime, "cannot set completionTime when there is no Complete=True condition"))
		case status.CompletionTime == nil && now.complete:
			errs = append(errs, field.Required(at, "completionTime is required for Complete jobs"))
		}
	}
	started := !sameTime(status.StartTime, old.Status.StartTime)
	if (started || completed) && status.StartTime != nil && status.CompletionTime != nil && status.CompletionTime.Before(status.StartTime) {
		errs = append(errs, field.Invalid(at, status.CompletionTime, "must be equal to or after `startTime`"))
	}
	return errs
}

func sameTime(a, b *metav1.Time) bool { return a == b || a != nil && b != nil && *a == *b }

// validateJobEnd checks what a Job that ends must have.
func validateJobEnd(job, old *batchv1.Job, now, before jobState, root *field.Path, version string) field.ErrorList {
	at, status := root.Child("conditions"), &job.Status
	var errs field.ErrorList
	failedIndexes := !canon.Equal(&status.FailedIndexes, &old.Status.FailedIndexes)
	if (now.failed != before.failed || failedIndexes) && now.failed && !now.failing {
		errs = append(errs, field.Invalid(at, field.OmitValueType{},
			"cannot set Failed=True condition without the FailureTarget=true condition"))
	}
	if (now.complete != before.complete || now.succeeding != before.succeeding) && now.complete && !now.succeeding {
		errs = append(errs, field.Invalid(at, field.OmitValueType{},
			"cannot set Complete=True condition without the SuccessCriteriaMet=true condition"))
	}
	ends := now.finished() != before.finished()
	if (ends || status.Active != old.Status.Active) && now.finished() && status.Active > 0 {
		errs = append(errs, field.Invalid(root.Child("active"), status.Active, "active>0 is invalid for finished job"))
	}
	nothingToDo := job.Spec.Suspend != nil && *job.Spec.Suspend && job.Spec.Completions != nil && *job.Spec.Completions == 0
	started := !sameTime(status.StartTime, old.Status.StartTime)
	if (ends || started) && !nothingToDo && now.finished() && status.StartTime == nil {
		errs = append(errs, field.Required(root.Child("startTime"), "startTime is required for finished job"))
	}
	uncounted := status.UncountedTerminatedPods
	changed := ends || !canon.Equal(&uncounted, &old.Status.UncountedTerminatedPods)
	if changed && now.finished() && uncounted != nil && len(uncounted.Failed)+len(uncounted.Succeeded) > 0 {
		errs = append(errs, field.Invalid(root.Child("uncountedTerminatedPods"), internal(uncounted, version), "must be empty for finished job"))
	}
	return errs
}

func validateJobIndexes(job, old *batchv1.Job, root *field.Path) field.ErrorList {
	status, spec := &job.Status, &job.Spec
	completed, failed := status.CompletedIndexes, status.FailedIndexes
	completedChanged := completed != old.Status.CompletedIndexes
	failedChanged := !canon.Equal(&failed, &old.Status.FailedIndexes)
	at, failedAt := root.Child("completedIndexes"), root.Child("failedIndexes")
	var errs field.ErrorList
	if completedChanged && spec.Completions != nil {
		if _, err := parseIndexes(completed, *spec.Completions); err != nil {
			errs = append(errs, field.Invalid(at, completed, "error parsing completedIndexes: "+err.Error()))
		}
	}
	if failedChanged && failed != nil && spec.Completions != nil && spec.BackoffLimitPerIndex != nil {
		if _, err := parseIndexes(*failed, *spec.Completions); err != nil {
			errs = append(errs, field.Invalid(failedAt, failed, "error parsing failedIndexes: "+err.Error()))
		}
	}
	if completedChanged && completed != "" && !indexed(spec) {
		errs = append(errs, field.Invalid(at, completed, "cannot set non-empty completedIndexes when non-indexed completion mode"))
	}
	if failedChanged && failed != nil && spec.BackoffLimitPerIndex == nil {
		errs = append(errs, field.Invalid(failedAt, *failed, "cannot set non-null failedIndexes when backoffLimitPerIndex is null"))
	}
	if (failedChanged || completedChanged) && failed != nil && spec.Completions != nil {
		if n, ok := commonIndex(completed, *failed, *spec.Completions); ok {
			errs = append(errs, field.Invalid(failedAt, *failed, fmt.Sprintf("failedIndexes and completedIndexes overlap at index: %d", n)))
		}
	}
	return errs
}

// commonIndex returns the first index that two texts name both. What of them cannot be read is passed over: it is told elsewhere.
func commonIndex(completed, failed string, completions int32) (int32, bool) {
	for a := range strings.SplitSeq(completed, ",") {
		first, last, err := parseInterval(a, completions)
		if err != nil {
			continue
		}
		for b := range strings.SplitSeq(failed, ",") {
			otherFirst, otherLast, err := parseInterval(b, completions)
			if err == nil && first <= otherLast && otherFirst <= last {
				return max(first, otherFirst), true
			}
		}
	}
	return 0, false
}

func validateJobPods(status, old *batchv1.JobStatus, now, before jobState, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	changed := now.finished() != before.finished() || !canon.Equal(&status.Terminating, &old.Terminating)
	if changed && now.finished() && status.Terminating != nil && *status.Terminating > 0 {
		errs = append(errs, field.Invalid(root.Child("terminating"), status.Terminating, "terminating>0 is invalid for finished job"))
	}
	changed = status.Active != old.Active || !canon.Equal(&status.Ready, &old.Ready)
	if changed && status.Ready != nil && *status.Ready > status.Active {
		errs = append(errs, field.Invalid(root.Child("ready"), *status.Ready, "cannot set more ready pods than active"))
	}
	return errs
}

func validateSuccessCriteria(job *batchv1.Job, now jobState, root *field.Path) field.ErrorList {
	at := root.Child("conditions")
	var errs field.ErrorList
	if now.succeeding && now.failed {
		errs = append(errs, field.Invalid(at, field.OmitValueType{}, "cannot set SuccessCriteriaMet=True and Failed=true conditions"))
	}
	if now.succeeding && now.failing {
		errs = append(errs, field.Invalid(at, field.OmitValueType{}, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions"))
	}
	if job.Spec.SuccessPolicy != nil && !now.succeeding && now.complete {
		errs = append(errs, field.Invalid(at, field.OmitValueType{},
			"cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"))
	}
	return errs
}

// validateJobTransition refuses that what has ended goes on, and that counts go down; ValidateJobStatusUpdate.
func validateJobTransition(job, old *batchv1.Job, now, before jobState, root *field.Path) field.ErrorList {
	at, status := root.Child("conditions"), &job.Status
	var errs field.ErrorList
	for _, terminal := range []struct {
		name        string
		now, before bool
	}{{"Failed", now.failed, before.failed}, {"Complete", now.complete, before.complete}, {"FailureTarget", now.failing, before.failing}} {
		if terminal.before && !terminal.now {
			errs = append(errs, field.Invalid(at, field.OmitValueType{}, "cannot disable the terminal "+terminal.name+"=True condition"))
		}
	}
	if status.Failed < old.Status.Failed {
		errs = append(errs, field.Invalid(root.Child("failed"), status.Failed, "cannot decrease the failed counter"))
	}
	scalable := indexed(&job.Spec) && canon.Equal(&job.Spec.Completions, &job.Spec.Parallelism)
	if !scalable && status.Succeeded < old.Status.Succeeded {
		errs = append(errs, field.Invalid(root.Child("succeeded"), status.Succeeded, "cannot decrease the succeeded counter"))
	}
	if end := old.Status.CompletionTime; end != nil && status.CompletionTime != nil && !sameTime(end, status.CompletionTime) {
		errs = append(errs, field.Invalid(root.Child("completionTime"), status.CompletionTime, apivalidation.FieldImmutableErrorMsg))
	}
	resuming := before.suspended && hasCondition(status, batchv1.JobSuspended, corev1.ConditionFalse)
	suspended := job.Spec.Suspend != nil && *job.Spec.Suspend
	if start := old.Status.StartTime; start != nil && !resuming && !suspended && !sameTime(start, status.StartTime) {
		errs = append(errs, field.Invalid(root.Child("startTime"), status.StartTime, "field is immutable for unsuspended job once set"))
	}
	if before.succeeding && !now.succeeding {
		errs = append(errs, field.Invalid(at, field.OmitValueType{}, "cannot disable the SuccessCriteriaMet=True condition"))
	}
	if before.complete && !before.succeeding && now.succeeding {
		errs = append(errs, field.Invalid(at, field.OmitValueType{},
			"cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"))
	}
	return errs
}
