package builtin

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// The labels that a Job's pods have besides those of its template, with and without a prefix.
var (
	jobNameLabels = []string{"job-name", batchv1.JobNameLabel}
	jobUIDLabels  = []string{"controller-uid", batchv1.ControllerUidLabel}
)

// DefaultJob fills in defaults: pkg/apis/batch/v1/defaults.go. As there, labels that come from the template are the template's own
// map, so that what [PrepareJob] adds to the one is in the other too.
func DefaultJob(job *batchv1.Job, _ string) {
	if set := job.Spec.Template.Labels; len(set) > 0 && len(job.Labels) == 0 {
		job.Labels = set
	}
	spec := &job.Spec
	if spec.Parallelism == nil {
		fillPointer(&spec.Completions, 1)
	}
	fillPointer(&spec.Parallelism, 1)
	limit := int32(6)
	if spec.BackoffLimitPerIndex != nil {
		limit = math.MaxInt32
	}
	fillPointer(&spec.BackoffLimit, limit)
	fillPointer(&spec.CompletionMode, batchv1.NonIndexedCompletion)
	fillPointer(&spec.Suspend, false)
	replacement := batchv1.TerminatingOrFailed
	if spec.PodFailurePolicy != nil {
		replacement = batchv1.Failed
	}
	fillPointer(&spec.PodReplacementPolicy, replacement)
	fillPointer(&spec.ManualSelector, false)
	defaultJobTemplate(spec)
}

// defaultJobTemplate fills in what also the job template of a CronJob gets.
func defaultJobTemplate(spec *batchv1.JobSpec) {
	if policy := spec.PodFailurePolicy; policy != nil {
		for i := range policy.Rules {
			for j := range policy.Rules[i].OnPodConditions {
				fill(&policy.Rules[i].OnPodConditions[j].Status, corev1.ConditionTrue)
			}
		}
	}
	defaultPodSpec(&spec.Template.Spec)
}

// PrepareJob generates the selector and the labels of the pods from the name and the UID of a new Job, unless it has a selector
// of its own; pkg/registry/batch/job/strategy.go generateSelector. Labels that the template has already are kept, and refused
// by the validation if they are others.
func PrepareJob(job *batchv1.Job) {
	spec := &job.Spec
	if spec.ManualSelector != nil && *spec.ManualSelector {
		return
	}
	labels := maps.Clone(spec.Template.Labels) // what the client sent is still needed as it was, to tell who owns it
	if labels == nil {
		labels = map[string]string{}
	}
	addLabels(labels, jobNameLabels, job.Name)
	addLabels(labels, jobUIDLabels, string(job.UID))
	named := job.GenerateName == "" || !strings.HasPrefix(job.Name, job.GenerateName) // otherwise it was copied, to be tried again
	if named && len(job.Labels) > 0 && reflect.ValueOf(job.Labels).Pointer() == reflect.ValueOf(spec.Template.Labels).Pointer() {
		job.Labels = labels
	}
	spec.Template.Labels = labels
	selector := metav1.LabelSelector{}
	if spec.Selector != nil {
		selector = *spec.Selector
	}
	if selector.MatchLabels = maps.Clone(selector.MatchLabels); selector.MatchLabels == nil {
		selector.MatchLabels = map[string]string{}
	}
	addLabels(selector.MatchLabels, []string{batchv1.ControllerUidLabel}, string(job.UID))
	spec.Selector = &selector
}

// RereadJob gives a Job without labels those of its template, which a new one gets after it was decoded; it reports whether it did.
func RereadJob(job, _ *batchv1.Job) bool {
	if len(job.Labels) > 0 || len(job.Spec.Template.Labels) == 0 {
		return false
	}
	job.Labels = maps.Clone(job.Spec.Template.Labels)
	return true
}

func addLabels(set map[string]string, names []string, value string) {
	for _, name := range names {
		if _, ok := set[name]; !ok {
			set[name] = value
		}
	}
}

// ValidateJob checks a new Job or an update; pkg/apis/batch/validation/validation.go. In 1.36 an update is validated like a new
// object and then once more, so that causes are listed twice.
func ValidateJob(job, old *batchv1.Job, version string) field.ErrorList {
	root := field.NewPath("spec")
	switch {
	case old == nil:
		return join(validateGeneratedSelector(job, true), validateWholeJobSpec(&job.Spec, root, version), validateIndexedName(job))
	case canon.Equal(&job.Spec, &old.Spec) && job.UID == old.UID:
		return nil
	}
	update := join(validateWholeJobSpec(&job.Spec, root, version), validateJobUpdate(job, old, root, version))
	if since(version, 37) {
		return append(update, validateIndexedName(job)...)
	}
	prefixed := old.Spec.Template.Labels[batchv1.JobNameLabel] != "" && old.Spec.Template.Labels[batchv1.ControllerUidLabel] != ""
	return join(validateGeneratedSelector(job, prefixed), validateWholeJobSpec(&job.Spec, root, version), validateIndexedName(job), update)
}

// validateGeneratedSelector checks that the labels and the selector are the generated ones, of which those with a prefix came
// later.
func validateGeneratedSelector(job *batchv1.Job, prefixed bool) field.ErrorList {
	if manual := job.Spec.ManualSelector; manual != nil && *manual || job.Spec.Selector == nil {
		return nil
	}
	at := field.NewPath("spec", "template", "metadata")
	expected := labels.Set{}
	var errs field.ErrorList
	for i := range jobUIDLabels {
		if i == 1 && !prefixed {
			break
		}
		for _, label := range []struct{ name, value string }{{jobUIDLabels[i], string(job.UID)}, {jobNameLabels[i], job.Name}} {
			expected[label.name] = label.value
			errs = append(errs, validateHasLabel(job.Spec.Template.Labels, label.name, label.value, at)...)
		}
	}
	if selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector); err == nil && !selector.Matches(expected) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "selector"), job.Spec.Selector, "`selector` not auto-generated"))
	}
	return errs
}

// validateHasLabel is ValidateHasLabel in pkg/apis/core/validation/validation.go.
func validateHasLabel(set map[string]string, name, value string, at *field.Path) field.ErrorList {
	actual, ok := set[name]
	at = at.Child("labels").Key(name)
	switch {
	case !ok:
		return field.ErrorList{field.Required(at, fmt.Sprintf("must be '%s'", value))}
	case actual != value:
		return field.ErrorList{field.Invalid(at, set, fmt.Sprintf("must be '%s'", value))}
	default:
		return nil
	}
}

// validateIndexedName checks that the name leaves room for the index of a pod.
func validateIndexedName(job *batchv1.Job) field.ErrorList {
	spec := &job.Spec
	if !indexed(spec) || spec.Completions == nil || *spec.Completions <= 0 {
		return nil
	}
	hostname := fmt.Sprintf("%s-%d", job.Name, *spec.Completions-1)
	if len(validation.IsDNS1123Label(hostname)) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), job.Name,
		"will not able to create pod with invalid DNS label: "+hostname)}
}

func indexed(spec *batchv1.JobSpec) bool {
	return spec.CompletionMode != nil && *spec.CompletionMode == batchv1.IndexedCompletion
}

// validateWholeJobSpec is ValidateJobSpec: the specification with its selector.
func validateWholeJobSpec(spec *batchv1.JobSpec, root *field.Path, version string) field.ErrorList {
	errs := validateJobSpec(spec, root, version)
	if spec.Selector == nil {
		errs = append(errs, field.Required(root.Child("selector"), ""))
	} else {
		errs = append(errs, validateSelector(spec.Selector, root.Child("selector"))...)
	}
	if selector, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil && !selector.Matches(labels.Set(spec.Template.Labels)) {
		errs = append(errs, field.Invalid(root.Child("template", "metadata", "labels"), spec.Template.Labels, notMismatched))
	}
	return errs
}

// The limits of pkg/apis/batch/validation/validation.go.
const (
	maxIndexedParallelism = 100_000
	manyCompletions       = 100_000
	maxOfMany             = 10_000 // parallelism and failed indexes of a Job with many completions and a limit per index
	maxManagedByLength    = 63
	maxPolicyRules        = 20
	maxExitCodes          = 255
	maxIndexesLength      = 64 * 1024
)

// validateJobSpec is validateJobSpec: what a Job and the template of a CronJob have in common.
func validateJobSpec(spec *batchv1.JobSpec, root *field.Path, version string) field.ErrorList {
	errs := join(
		notNegative(spec.Parallelism, root.Child("parallelism")),
		notNegative(spec.Completions, root.Child("completions")),
		notNegative(spec.ActiveDeadlineSeconds, root.Child("activeDeadlineSeconds")),
		notNegative(spec.BackoffLimit, root.Child("backoffLimit")),
		notNegative(spec.TTLSecondsAfterFinished, root.Child("ttlSecondsAfterFinished")),
		notNegative(spec.BackoffLimitPerIndex, root.Child("backoffLimitPerIndex")),
		notNegative(spec.MaxFailedIndexes, root.Child("maxFailedIndexes")),
	)
	if spec.MaxFailedIndexes != nil && spec.BackoffLimitPerIndex == nil {
		errs = append(errs, field.Required(root.Child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"))
	}
	if by := spec.ManagedBy; by != nil {
		errs = append(errs, validation.IsDomainPrefixedPath(root.Child("managedBy"), *by)...)
		if len(*by) > maxManagedByLength {
			errs = append(errs, field.TooLong(root.Child("managedBy"), "", maxManagedByLength))
		}
	}
	errs = append(errs, validateCompletionMode(spec, root)...)
	if spec.PodFailurePolicy != nil {
		errs = append(errs, validateFailurePolicy(spec, root.Child("podFailurePolicy"))...)
	}
	if policy := spec.SuccessPolicy; policy != nil && !indexed(spec) {
		errs = append(errs, field.Invalid(root.Child("successPolicy"), internal(*policy, version), "requires indexed completion mode"))
	} else if policy != nil {
		errs = append(errs, validateSuccessPolicy(spec, root.Child("successPolicy"))...)
	}
	return join(errs,
		validateReplacementPolicy(spec, root.Child("podReplacementPolicy")),
		validatePodTemplate(&spec.Template, root.Child("template"), version),
		validateJobRestarts(spec, root.Child("template", "spec", "restartPolicy")))
}

func validateCompletionMode(spec *batchv1.JobSpec, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	if mode := spec.CompletionMode; mode != nil && *mode != batchv1.NonIndexedCompletion && *mode != batchv1.IndexedCompletion {
		errs = append(errs, field.NotSupported(root.Child("completionMode"), mode, []batchv1.CompletionMode{
			batchv1.NonIndexedCompletion, batchv1.IndexedCompletion}))
	}
	if indexed(spec) {
		return append(errs, validateIndexed(spec, root)...)
	}
	if spec.CompletionMode != nil && *spec.CompletionMode != batchv1.NonIndexedCompletion {
		return errs
	}
	const text = "requires indexed completion mode"
	if n := spec.BackoffLimitPerIndex; n != nil {
		errs = append(errs, field.Invalid(root.Child("backoffLimitPerIndex"), *n, text))
	}
	if n := spec.MaxFailedIndexes; n != nil {
		errs = append(errs, field.Invalid(root.Child("maxFailedIndexes"), *n, text))
	}
	return errs
}

// validateIndexed checks what only an indexed Job has.
func validateIndexed(spec *batchv1.JobSpec, root *field.Path) field.ErrorList {
	failed, at := spec.MaxFailedIndexes, root.Child("maxFailedIndexes")
	var errs field.ErrorList
	tooMany := func(n *int32, most int32, at *field.Path, condition string) {
		if n != nil && *n > most {
			errs = append(errs, field.Invalid(at, *n, fmt.Sprintf("must be less than or equal to %d%s", most, condition)))
		}
	}
	if spec.Completions == nil {
		errs = append(errs, field.Required(root.Child("completions"), "when completion mode is Indexed"))
	}
	tooMany(spec.Parallelism, maxIndexedParallelism, root.Child("parallelism"), " when completion mode is Indexed")
	if spec.Completions != nil && failed != nil && *failed > *spec.Completions {
		errs = append(errs, field.Invalid(at, *failed, "must be less than or equal to completions"))
	}
	tooMany(failed, maxIndexedParallelism, at, "")
	if spec.Completions == nil || *spec.Completions <= manyCompletions || spec.BackoffLimitPerIndex == nil {
		return errs
	}
	if failed == nil {
		errs = append(errs, field.Required(at, fmt.Sprintf("must be specified when completions is above %d", manyCompletions)))
	}
	many := fmt.Sprintf(" when completions are above %d and used with backoff limit per index", manyCompletions)
	tooMany(spec.Parallelism, maxOfMany, root.Child("parallelism"), many)
	tooMany(failed, maxOfMany, at, many)
	return errs
}

func validateReplacementPolicy(spec *batchv1.JobSpec, at *field.Path) field.ErrorList {
	policy := spec.PodReplacementPolicy
	allowed := []batchv1.PodReplacementPolicy{batchv1.Failed}
	if spec.PodFailurePolicy == nil {
		allowed = append(allowed, batchv1.TerminatingOrFailed)
	}
	if policy == nil || slices.Contains(allowed, *policy) {
		return nil
	}
	return field.ErrorList{field.NotSupported(at, *policy, allowed)}
}

func validateJobRestarts(spec *batchv1.JobSpec, at *field.Path) field.ErrorList {
	allowed := []corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever}
	switch policy := spec.Template.Spec.RestartPolicy; {
	case policy == corev1.RestartPolicyAlways || policy == "":
		return field.ErrorList{field.Required(at, `valid values: "OnFailure", "Never"`)}
	case !slices.Contains(allowed, policy):
		return field.ErrorList{field.NotSupported(at, policy, allowed)}
	case spec.PodFailurePolicy != nil && policy != corev1.RestartPolicyNever:
		return field.ErrorList{field.Invalid(at, policy, `only "Never" is supported when podFailurePolicy is specified`)}
	default:
		return nil
	}
}

func validateFailurePolicy(spec *batchv1.JobSpec, root *field.Path) field.ErrorList {
	rules, at := spec.PodFailurePolicy.Rules, root.Child("rules")
	var errs field.ErrorList
	if len(rules) > maxPolicyRules {
		errs = append(errs, field.TooMany(at, len(rules), maxPolicyRules))
	}
	var containers []string
	for _, group := range [][]corev1.Container{spec.Template.Spec.Containers, spec.Template.Spec.InitContainers} {
		for i := range group {
			containers = append(containers, group[i].Name)
		}
	}
	for i := range rules {
		errs = append(errs, validateFailureRule(spec, &rules[i], containers, at.Index(i))...)
	}
	return errs
}

func validateFailureRule(spec *batchv1.JobSpec, rule *batchv1.PodFailurePolicyRule, containers []string,
	root *field.Path,
) field.ErrorList {
	actions := []batchv1.PodFailurePolicyAction{batchv1.PodFailurePolicyActionCount, batchv1.PodFailurePolicyActionFailIndex,
		batchv1.PodFailurePolicyActionFailJob, batchv1.PodFailurePolicyActionIgnore}
	var errs field.ErrorList
	if rule.Action == batchv1.PodFailurePolicyActionFailIndex && spec.BackoffLimitPerIndex == nil {
		errs = append(errs, field.Invalid(root.Child("action"), rule.Action, "requires the backoffLimitPerIndex to be set"))
	} else {
		errs = append(errs, listed(rule.Action, actions, root.Child("action"))...)
	}
	if rule.OnExitCodes != nil {
		errs = append(errs, validateExitCodes(rule.OnExitCodes, containers, root.Child("onExitCodes"))...)
	}
	conditions, at := rule.OnPodConditions, root.Child("onPodConditions")
	if len(conditions) > maxPolicyRules {
		errs = append(errs, field.TooMany(at, len(conditions), maxPolicyRules))
	}
	for i := range conditions {
		errs = append(errs, named(string(conditions[i].Type), validation.IsQualifiedName, at.Index(i).Child("type"))...)
		errs = append(errs, listed(conditions[i].Status, []corev1.ConditionStatus{
			corev1.ConditionFalse, corev1.ConditionTrue, corev1.ConditionUnknown}, at.Index(i).Child("status"))...)
	}
	switch {
	case rule.OnExitCodes != nil && len(conditions) > 0:
		errs = append(errs, field.Invalid(root, field.OmitValueType{}, "specifying both OnExitCodes and OnPodConditions is not supported"))
	case rule.OnExitCodes == nil && len(conditions) == 0:
		errs = append(errs, field.Invalid(root, field.OmitValueType{}, "specifying one of OnExitCodes and OnPodConditions is required"))
	}
	return errs
}

// listed refuses a value that is not among those given, which it lists also where the value is missing.
func listed[S ~string](value S, allowed []S, at *field.Path) field.ErrorList {
	switch {
	case value == "":
		return field.ErrorList{field.Required(at, fmt.Sprintf("valid values: %q", allowed))}
	case !slices.Contains(allowed, value):
		return field.ErrorList{field.NotSupported(at, value, allowed)}
	default:
		return nil
	}
}

func validateExitCodes(codes *batchv1.PodFailurePolicyOnExitCodesRequirement, containers []string, root *field.Path) field.ErrorList {
	errs := listed(codes.Operator, []batchv1.PodFailurePolicyOnExitCodesOperator{
		batchv1.PodFailurePolicyOnExitCodesOpIn, batchv1.PodFailurePolicyOnExitCodesOpNotIn}, root.Child("operator"))
	if name := codes.ContainerName; name != nil && !slices.Contains(containers, *name) {
		errs = append(errs, field.Invalid(root.Child("containerName"), *name,
			"must be one of the container or initContainer names in the pod template"))
	}
	at := root.Child("values")
	switch n := len(codes.Values); {
	case n == 0:
		errs = append(errs, field.Invalid(at, codes.Values, "at least one value is required"))
	case n > maxExitCodes:
		errs = append(errs, field.TooMany(at, n, maxExitCodes))
	}
	for i, code := range codes.Values {
		if code == 0 && codes.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn {
			errs = append(errs, field.Invalid(at.Index(i), code, "must not be 0 for the In operator"))
		}
		if slices.Contains(codes.Values[:i], code) {
			errs = append(errs, field.Duplicate(at.Index(i), code))
		}
	}
	if !slices.IsSorted(codes.Values) {
		errs = append(errs, field.Invalid(at, codes.Values, "must be ordered"))
	}
	return errs
}

func validateSuccessPolicy(spec *batchv1.JobSpec, root *field.Path) field.ErrorList {
	rules, at := spec.SuccessPolicy.Rules, root.Child("rules")
	var errs field.ErrorList
	if len(rules) == 0 {
		errs = append(errs, field.Required(at, "at least one rules must be specified when the successPolicy is specified"))
	}
	if len(rules) > maxPolicyRules {
		errs = append(errs, field.TooMany(at, len(rules), maxPolicyRules))
	}
	if spec.Completions == nil {
		return errs // a real server crashes on the rules: the missing completions are told anyway
	}
	for i := range rules {
		errs = append(errs, validateSuccessRule(&rules[i], *spec.Completions, at.Index(i))...)
	}
	return errs
}

func validateSuccessRule(rule *batchv1.SuccessPolicyRule, completions int32, root *field.Path) field.ErrorList {
	count, indexes := rule.SucceededCount, rule.SucceededIndexes
	var errs field.ErrorList
	if count == nil && indexes == nil {
		errs = append(errs, field.Required(root, "at least one of succeededCount or succeededIndexes must be specified"))
	}
	var total int32
	if indexes != nil {
		at := root.Child("succeededIndexes")
		if len(*indexes) > maxIndexesLength {
			errs = append(errs, field.TooLong(at, "", maxIndexesLength))
		}
		var err error
		if total, err = parseIndexes(*indexes, completions); err != nil {
			errs = append(errs, field.Invalid(at, *indexes, "error parsing succeededIndexes: "+err.Error()))
		}
	}
	if count == nil {
		return errs
	}
	at := root.Child("succeededCount")
	errs = append(errs, notNegative(count, at)...)
	const text = "must be less than or equal to %d (the number of %s)"
	if *count > completions {
		errs = append(errs, field.Invalid(at, *count, fmt.Sprintf(text, completions, "specified completions")))
	}
	if indexes != nil && *count > total {
		errs = append(errs, field.Invalid(at, *count, fmt.Sprintf(text, total, "indexes in the specified succeededIndexes field")))
	}
	return errs
}

// validateJobUpdate refuses changes of what identifies the pods; ValidateJobSpecUpdate.
func validateJobUpdate(job, old *batchv1.Job, root *field.Path, version string) field.ErrorList {
	spec, before := &job.Spec, &old.Spec
	return join(
		validateCompletionsUpdate(spec, before, root.Child("completions")),
		immutable(&spec.Selector, &before.Selector, spec.Selector, root.Child("selector")),
		validateJobTemplateUpdate(job, old, root, version),
		immutable(&spec.CompletionMode, &before.CompletionMode, spec.CompletionMode, root.Child("completionMode")),
		immutable(&spec.PodFailurePolicy, &before.PodFailurePolicy, internal(spec.PodFailurePolicy, version), root.Child("podFailurePolicy")),
		immutable(&spec.BackoffLimitPerIndex, &before.BackoffLimitPerIndex, spec.BackoffLimitPerIndex, root.Child("backoffLimitPerIndex")),
		immutable(&spec.ManagedBy, &before.ManagedBy, spec.ManagedBy, root.Child("managedBy")),
		immutable(&spec.SuccessPolicy, &before.SuccessPolicy, internal(spec.SuccessPolicy, version), root.Child("successPolicy")),
	)
}

// validateCompletionsUpdate lets only an indexed Job change how often it is to complete, together with its parallelism.
func validateCompletionsUpdate(spec, old *batchv1.JobSpec, at *field.Path) field.ErrorList {
	switch {
	case !indexed(spec):
		return immutable(&spec.Completions, &old.Completions, spec.Completions, at)
	case spec.Completions == nil || canon.Equal(&spec.Completions, &old.Completions):
		return nil
	case *spec.Completions != *spec.Parallelism:
		return field.ErrorList{field.Invalid(at, spec.Completions, "can only be modified in tandem with spec.parallelism")}
	default:
		return nil
	}
}

// validateJobTemplateUpdate lets the template of a suspended Job without pods change where pods are scheduled and what they
// request; validatePodTemplateUpdate.
func validateJobTemplateUpdate(job, old *batchv1.Job, root *field.Path, version string) field.ErrorList {
	at, template := root.Child("template"), &job.Spec.Template
	suspended := old.Spec.Suspend != nil && *old.Spec.Suspend
	idle := suspended && old.Status.Active == 0 &&
		(old.Status.StartTime == nil || hasCondition(&old.Status, batchv1.JobSuspended, corev1.ConditionTrue))
	if !idle {
		return immutable(template, &old.Spec.Template, internal(template, version), at)
	}
	before := old.Spec.Template.DeepCopy()
	adoptScheduling(before, template)
	for _, group := range []struct{ now, before []corev1.Container }{
		{template.Spec.Containers, before.Spec.Containers}, {template.Spec.InitContainers, before.Spec.InitContainers},
	} {
		for i := range group.now {
			if len(group.now) == len(group.before) && group.now[i].Name == group.before[i].Name {
				group.before[i].Resources = group.now[i].Resources
			}
		}
	}
	return immutable(&template.Spec, &before.Spec, internal(template.Spec, version), root.Child("template.spec"))
}

// adoptScheduling makes a template say the same as another about where pods are scheduled.
func adoptScheduling(template, from *corev1.PodTemplateSpec) {
	spec, other := &template.Spec, &from.Spec
	switch {
	case other.Affinity == nil && spec.Affinity != nil:
		spec.Affinity.NodeAffinity = nil
		if *spec.Affinity == (corev1.Affinity{}) {
			spec.Affinity = nil
		}
	case other.Affinity != nil:
		fillPointer(&spec.Affinity, corev1.Affinity{})
		spec.Affinity.NodeAffinity = other.Affinity.NodeAffinity
	}
	spec.NodeSelector, spec.Tolerations, spec.SchedulingGates = other.NodeSelector, other.Tolerations, other.SchedulingGates
}

func hasCondition(status *batchv1.JobStatus, conditionType batchv1.JobConditionType, value corev1.ConditionStatus) bool {
	return slices.ContainsFunc(status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == conditionType && c.Status == value
	})
}

// parseIndexes returns how many indexes a text like "1,3-5" names; validateIndexesFormat.
func parseIndexes(text string, completions int32) (int32, error) {
	if text == "" {
		return 0, nil
	}
	total, last := int32(0), int32(-1)
	for interval := range strings.SplitSeq(text, ",") {
		first, end, err := parseInterval(interval, completions)
		switch {
		case err != nil:
			return 0, err
		case total > 0 && last >= first:
			return 0, fmt.Errorf("non-increasing order, previous: %d, current: %d", last, first)
		}
		total += end - first + 1
		last = end
	}
	return total, nil
}

// parseInterval reads "3" or "3-5".
func parseInterval(text string, completions int32) (first, last int32, err error) {
	parts := strings.Split(text, "-")
	if len(parts) > 2 {
		return 0, 0, fmt.Errorf("the fragment %q violates the requirement that an index interval can have at most two parts "+
			"separated by '-'", text)
	}
	if first, err = parseIndex(parts[0], completions); err != nil || len(parts) == 1 {
		return first, first, err
	}
	if last, err = parseIndex(parts[1], completions); err != nil {
		return 0, 0, err
	}
	if first >= last {
		return 0, 0, fmt.Errorf("non-increasing order, previous: %d, current: %d", first, last)
	}
	return first, last, nil
}

func parseIndex(text string, completions int32) (int32, error) {
	n, err := strconv.Atoi(text)
	switch {
	case err != nil:
		return 0, fmt.Errorf("cannot convert string to integer for index: %q", text)
	case n >= int(completions):
		return 0, fmt.Errorf("too large index: %q", text)
	default:
		return int32(n), nil
	}
}
