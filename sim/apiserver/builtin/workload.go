package builtin

import (
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// What the workloads (Deployment, ReplicaSet, ReplicationController, DaemonSet, Job) have in common.

// join appends lists of errors.
func join(lists ...field.ErrorList) field.ErrorList { return slices.Concat(lists...) }

// immutable refuses a change. Old and new are pointers, so that comparing them costs no copy; shown is what the error prints,
// which is the new value without the pointer.
func immutable(value, old, shown any, at *field.Path) field.ErrorList {
	if canon.Equal(value, old) {
		return nil
	}
	return field.ErrorList{field.Invalid(at, shown, apivalidation.FieldImmutableErrorMsg)}
}

// Declared returns the errors as a server reports them that takes some of its rules from declarations in the types, as 1.37
// does for the rules that are marked here: those errors come last, and say less. Of the rules that 1.36 checks twice, 1.37
// says what is wrong once.
func Declared(errs field.ErrorList, version string) field.ErrorList {
	if len(errs) == 0 || !since(version, 37) {
		return errs
	}
	var rest, declared field.ErrorList
	seen := map[string]bool{}
	for _, e := range errs {
		text := e.Error()
		switch {
		case seen[text]:
		case !e.CoveredByDeclarative:
			rest = append(rest, e)
		default:
			if e.Type == field.ErrorTypeRequired {
				e.Detail = ""
			} else if e.Detail == apivalidation.FieldImmutableErrorMsg {
				e.BadValue = nil
			}
			declared = append(declared, e)
		}
		seen[text] = true
	}
	return append(rest, declared...)
}

// notMismatched is what is said of a template whose labels its selector does not select.
const notMismatched = "`selector` does not match template `labels`"

// validatePodTemplate is ValidatePodTemplateSpec in pkg/apis/core/validation/validation.go.
func validatePodTemplate(template *corev1.PodTemplateSpec, root *field.Path, version string) field.ErrorList {
	errs := join(
		metavalidation.ValidateLabels(template.Labels, root.Child("labels")),
		apivalidation.ValidateAnnotations(template.Annotations, root.Child("annotations")),
		validatePodSpec(&template.Spec, root.Child("spec"), version),
	)
	if len(template.Spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(root.Child("spec", "ephemeralContainers"), "ephemeral containers not allowed in pod template"))
	}
	return errs
}

// validateAlwaysRunning checks what the template of a workload that keeps its pods running may not say.
func validateAlwaysRunning(spec *corev1.PodSpec, kind string, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	if policy := spec.RestartPolicy; policy != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(root.Child("restartPolicy"), policy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(root.Child("activeDeadlineSeconds"), "activeDeadlineSeconds in "+kind+" is not Supported"))
	}
	return errs
}

// validateReplicaTemplate checks the selector and the template of a Deployment or ReplicaSet, which share their texts:
// ValidatePodTemplateSpecForReplicaSet in pkg/apis/apps/validation/validation.go.
func validateReplicaTemplate(selector *metav1.LabelSelector, template *corev1.PodTemplateSpec, root *field.Path,
	version string,
) field.ErrorList {
	at := root.Child("selector")
	var errs field.ErrorList
	if selector == nil {
		errs = append(errs, field.Required(at, ""))
	} else {
		errs = append(errs, validateSelector(selector, at)...)
		if isEmptySelector(selector) {
			errs = append(errs, field.Invalid(at, selector, "empty selector is invalid for deployment"))
		}
	}
	mismatch, err := mismatched(selector, template.Labels, len(errs) == 0)
	if err != nil {
		return append(errs, field.Invalid(at, selector, "invalid label selector"))
	}
	at = root.Child("template")
	if mismatch {
		errs = append(errs, field.Invalid(at.Child("metadata", "labels"), template.Labels, notMismatched))
	}
	return join(errs, validatePodTemplate(template, at, version), validateAlwaysRunning(&template.Spec, "ReplicaSet", at.Child("spec")))
}

func validateSelector(selector *metav1.LabelSelector, at *field.Path) field.ErrorList {
	return metavalidation.ValidateLabelSelector(selector, metavalidation.LabelSelectorValidationOptions{}, at)
}

// mismatched reports whether a selector that is not empty does not select labels, or that it cannot be read. Of one that is valid
// it is mostly seen without reading it.
func mismatched(selector *metav1.LabelSelector, set map[string]string, valid bool) (bool, error) {
	if valid && len(selector.MatchExpressions) == 0 {
		for name, value := range selector.MatchLabels {
			if have, ok := set[name]; !ok || have != value {
				return true, nil
			}
		}
		return false, nil
	}
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && !parsed.Empty() && !parsed.Matches(labels.Set(set)), err
}

func isEmptySelector(selector *metav1.LabelSelector) bool {
	return len(selector.MatchLabels)+len(selector.MatchExpressions) == 0
}

// validateIntOrPercent is ValidatePositiveIntOrPercent in pkg/apis/apps/validation/validation.go.
func validateIntOrPercent(value intstr.IntOrString, at *field.Path) field.ErrorList {
	if value.Type == intstr.Int {
		return apivalidation.ValidateNonnegativeField(int64(value.IntVal), at)
	}
	var errs field.ErrorList
	for _, message := range validation.IsValidPercent(value.StrVal) {
		errs = append(errs, field.Invalid(at, value, message))
	}
	return errs
}

// atMostAll refuses more than 100 %: IsNotMoreThan100Percent.
func atMostAll(value intstr.IntOrString, at *field.Path) field.ErrorList {
	if value.Type == intstr.String && intOrPercent(value) > 100 && len(validation.IsValidPercent(value.StrVal)) == 0 {
		return field.ErrorList{field.Invalid(at, value, "must not be greater than 100%")}
	}
	return nil
}

// intOrPercent returns the number, of percents or of pods: getIntOrPercentValue.
func intOrPercent(value intstr.IntOrString) int {
	if value.Type == intstr.Int {
		return int(value.IntVal)
	}
	n, _ := strconv.Atoi(strings.TrimSuffix(value.StrVal, "%"))
	return n
}

// replicaCount is a number in the status of a workload.
type replicaCount struct {
	name  string
	count int32
}

// validateCounts refuses negative numbers, in the order given.
func validateCounts(root *field.Path, counts ...replicaCount) field.ErrorList {
	var errs field.ErrorList
	for _, c := range counts {
		if c.count < 0 { // a path costs more than the check, and status writes are frequent
			errs = append(errs, notNegative(&c.count, root.Child(c.name))...)
		}
	}
	return errs
}

// validateWithin refuses numbers that are larger than the number of replicas.
func validateWithin(replicas int32, root *field.Path, counts ...replicaCount) field.ErrorList {
	var errs field.ErrorList
	for _, c := range counts {
		if c.count > replicas {
			errs = append(errs, field.Invalid(root.Child(c.name), c.count, "cannot be greater than status.replicas"))
		}
	}
	return errs
}

// validateAvailable refuses more available replicas than ready ones.
func validateAvailable(available, ready int32, root *field.Path) field.ErrorList {
	if available > ready {
		return field.ErrorList{field.Invalid(root.Child("availableReplicas"), available, "cannot be greater than readyReplicas")}
	}
	return nil
}

// notDecremented refuses that the count of hash collisions goes down.
func notDecremented(count, old *int32, root *field.Path) field.ErrorList {
	if old == nil || count != nil && *count >= *old {
		return nil
	}
	var now int32
	if count != nil {
		now = *count
	}
	return field.ErrorList{field.Invalid(root.Child("collisionCount"), now, "cannot be decremented")}
}
