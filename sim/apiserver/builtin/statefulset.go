package builtin

import (
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
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

// ValidateStatefulSet checks a new StatefulSet or an update; pkg/apis/apps/validation/validation.go.
func ValidateStatefulSet(set, old *appsv1.StatefulSet, version string) field.ErrorList {
	root := field.NewPath("spec")
	if old == nil {
		errs := append(validateSetSpec(&set.Spec, root), validateSetSelector(&set.Spec, root)...)
		return append(errs, validateSetParts(&set.Spec, root)...)
	}
	if canon.Equal(&set.Spec, &old.Spec) {
		return nil
	}
	errs := validateSetSpec(&set.Spec, root)
	// What is as it was is as valid as it was, and most updates leave the template alone.
	sameTemplate := canon.Equal(&set.Spec.Template, &old.Spec.Template)
	if !sameTemplate || !canon.Equal(set.Spec.Selector, old.Spec.Selector) {
		errs = append(errs, validateSetSelector(&set.Spec, root)...)
	}
	sameParts := sameTemplate && set.Spec.ServiceName == old.Spec.ServiceName &&
		canon.Equal(&set.Spec.VolumeClaimTemplates, &old.Spec.VolumeClaimTemplates)
	// These checks are younger than the kind: an object that fails them may stay as it is.
	if !sameParts && len(validateSetParts(&old.Spec, root)) == 0 {
		errs = append(errs, validateSetParts(&set.Spec, root)...)
	}
	return append(errs, validateSetUpdate(&set.Spec, &old.Spec, root, version)...)
}

// validateSetSpec is ValidateStatefulSetSpec without the selector, the pod and the claims.
func validateSetSpec(spec *appsv1.StatefulSetSpec, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch spec.PodManagementPolicy {
	case appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement:
	default:
		errs = append(errs, field.Invalid(root.Child("podManagementPolicy"), spec.PodManagementPolicy,
			"must be 'OrderedReady' or 'Parallel'"))
	}
	errs = append(errs, validateUpdateStrategy(&spec.UpdateStrategy, root.Child("updateStrategy"))...)
	if policy := spec.PersistentVolumeClaimRetentionPolicy; policy != nil {
		at := root.Child("persistentVolumeClaimRetentionPolicy")
		retention := []appsv1.PersistentVolumeClaimRetentionPolicyType{
			appsv1.DeletePersistentVolumeClaimRetentionPolicyType, appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
		}
		errs = append(errs, oneOf(policy.WhenDeleted, retention, at.Child("whenDeleted"))...)
		errs = append(errs, oneOf(policy.WhenScaled, retention, at.Child("whenScaled"))...)
	}
	errs = append(errs, notNegative(spec.Replicas, root.Child("replicas"))...)
	errs = append(errs, notNegative(&spec.MinReadySeconds, root.Child("minReadySeconds"))...)
	if spec.Ordinals != nil {
		errs = append(errs, notNegative(&spec.Ordinals.Start, root.Child("ordinals.start"))...)
	}
	errs = append(errs, notNegative(spec.RevisionHistoryLimit, root.Child("revisionHistoryLimit"))...)
	template := root.Child("template", "spec")
	if policy := spec.Template.Spec.RestartPolicy; policy != corev1.RestartPolicyAlways {
		errs = append(errs, oneOf(policy, []corev1.RestartPolicy{corev1.RestartPolicyAlways}, template.Child("restartPolicy"))...)
	}
	if spec.Template.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(template.Child("activeDeadlineSeconds"),
			"activeDeadlineSeconds in StatefulSet is not Supported"))
	}
	return errs
}

func validateUpdateStrategy(strategy *appsv1.StatefulSetUpdateStrategy, root *field.Path) field.ErrorList {
	rolling, at := strategy.RollingUpdate, root.Child("rollingUpdate")
	switch {
	case strategy.Type == appsv1.OnDeleteStatefulSetStrategyType && rolling != nil:
		return field.ErrorList{field.Invalid(at, rolling, "only allowed for updateStrategy 'RollingUpdate'")}
	case strategy.Type == appsv1.OnDeleteStatefulSetStrategyType:
		return nil
	case strategy.Type != appsv1.RollingUpdateStatefulSetStrategyType:
		return field.ErrorList{field.Invalid(root, strategy, "must be 'RollingUpdate' or 'OnDelete'")}
	case rolling == nil:
		return nil
	}
	errs := notNegative(rolling.Partition, at.Child("partition"))
	if rolling.MaxUnavailable != nil {
		errs = append(errs, validateMaxUnavailable(rolling.MaxUnavailable, at.Child("maxUnavailable"))...)
	}
	return errs
}

func validateMaxUnavailable(value *intstr.IntOrString, at *field.Path) field.ErrorList {
	if value.Type == intstr.Int {
		if value.IntVal < 0 {
			return field.ErrorList{field.Invalid(at, value.IntVal, apivalidation.IsNegativeErrorMsg)}
		}
	} else if messages := validation.IsValidPercent(value.StrVal); len(messages) > 0 {
		return field.ErrorList{field.Invalid(at, value, "must be an integer or percentage (e.g '5%%')")}
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(value, 100, true)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(at, value, err.Error())}
	case n == 0:
		return field.ErrorList{field.Invalid(at, value, "cannot be 0")}
	case n > 100 && value.Type == intstr.String:
		return field.ErrorList{field.Invalid(at, value, "must not be greater than 100%")}
	default:
		return nil
	}
}

// validateSetSelector checks the selector, and that it selects the pods of the template.
func validateSetSelector(spec *appsv1.StatefulSetSpec, root *field.Path) field.ErrorList {
	at := root.Child("selector")
	var errs field.ErrorList
	if spec.Selector == nil {
		errs = append(errs, field.Required(at, ""))
	} else {
		errs = append(errs, metavalidation.ValidateLabelSelector(spec.Selector, metavalidation.LabelSelectorValidationOptions{}, at)...)
		if len(spec.Selector.MatchLabels)+len(spec.Selector.MatchExpressions) == 0 {
			errs = append(errs, field.Invalid(at, spec.Selector, "empty selector is invalid for statefulset"))
		}
	}
	selector, err := metav1.LabelSelectorAsSelector(spec.Selector)
	if err != nil {
		return append(errs, field.Invalid(at, spec.Selector, ""))
	}
	template := root.Child("template")
	if set := spec.Template.Labels; !selector.Empty() && !selector.Matches(labels.Set(set)) {
		errs = append(errs, field.Invalid(template.Child("metadata", "labels"), set, "`selector` does not match template `labels`"))
	}
	errs = append(errs, metavalidation.ValidateLabels(spec.Template.Labels, template.Child("labels"))...)
	return append(errs, apivalidation.ValidateAnnotations(spec.Template.Annotations, template.Child("annotations"))...)
}

// validateSetParts checks the pod, the claims and the service of a StatefulSet, which Kubernetes does since 1.34. To the
// pod, the claims are volumes.
func validateSetParts(spec *appsv1.StatefulSetSpec, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	pod := spec.Template.Spec
	claims := map[string]bool{}
	for i := range spec.VolumeClaimTemplates {
		claim, at := &spec.VolumeClaimTemplates[i], root.Child("volumeClaimTemplates").Index(i)
		claims[claim.Name] = true
		errs = append(errs, validateClaimSpec(&claim.Spec, at.Child("spec"))...)
	}
	errs = append(errs, validatePodSpec(&pod, claims, root.Child("template", "spec"))...)
	if len(pod.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(root.Child("template", "spec", "ephemeralContainers"),
			"ephemeral containers not allowed in pod template"))
	}
	if spec.ServiceName != "" {
		errs = append(errs, named(spec.ServiceName, validation.IsDNS1123Subdomain, root.Child("serviceName"))...)
	}
	return errs
}

// validateSetUpdate refuses changes of what identifies pods and claims. 1.36 has one text for all of it, 1.37 one error for
// each field.
func validateSetUpdate(spec, old *appsv1.StatefulSetSpec, root *field.Path, version string) field.ErrorList {
	fields := []struct {
		name     string
		new, old any
		shown    func() any
	}{
		{"selector", &spec.Selector, &old.Selector, func() any { return spec.Selector }},
		{"volumeClaimTemplates", &spec.VolumeClaimTemplates, &old.VolumeClaimTemplates,
			func() any { return internalClaims(spec.VolumeClaimTemplates) }},
		{"serviceName", &spec.ServiceName, &old.ServiceName, func() any { return spec.ServiceName }},
		{"podManagementPolicy", &spec.PodManagementPolicy, &old.PodManagementPolicy, func() any { return spec.PodManagementPolicy }},
	}
	var errs field.ErrorList
	for _, f := range fields {
		switch {
		case canon.Equal(f.new, f.old):
		case since(version, 37):
			errs = append(errs, field.Invalid(root.Child(f.name), f.shown(), apivalidation.FieldImmutableErrorMsg))
		default:
			return field.ErrorList{field.Forbidden(root, "updates to statefulset spec for fields other than 'replicas', "+
				"'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "+
				"'minReadySeconds' are forbidden")}
		}
	}
	return errs
}

// ValidateStatefulSetStatus checks a status write; ValidateStatefulSetStatusUpdate in pkg/apis/apps/validation.
func ValidateStatefulSetStatus(set, old *appsv1.StatefulSet, _ string) field.ErrorList {
	status, root := &set.Status, field.NewPath("status")
	counts := []struct {
		name  string
		count int32
		most  bool // bounded by replicas
	}{
		{"replicas", status.Replicas, false}, {"readyReplicas", status.ReadyReplicas, true},
		{"currentReplicas", status.CurrentReplicas, true}, {"updatedReplicas", status.UpdatedReplicas, true},
		{"availableReplicas", status.AvailableReplicas, true},
	}
	var errs field.ErrorList
	for _, c := range counts {
		if c.count < 0 { // a path costs more than the check, and status writes are frequent
			errs = append(errs, notNegative(&c.count, root.Child(c.name))...)
		}
	}
	errs = append(errs, notNegative(&status.ObservedGeneration, root.Child("observedGeneration"))...)
	errs = append(errs, notNegative(status.CollisionCount, root.Child("collisionCount"))...)
	for _, c := range counts {
		if c.most && c.count > status.Replicas {
			errs = append(errs, field.Invalid(root.Child(c.name), c.count, "cannot be greater than status.replicas"))
		}
	}
	if status.AvailableReplicas > status.ReadyReplicas {
		errs = append(errs, field.Invalid(root.Child("availableReplicas"), status.AvailableReplicas,
			"cannot be greater than status.readyReplicas"))
	}
	if before := old.Status.CollisionCount; before != nil && (status.CollisionCount == nil || *status.CollisionCount < *before) {
		var now int32
		if status.CollisionCount != nil {
			now = *status.CollisionCount
		}
		errs = append(errs, field.Invalid(root.Child("collisionCount"), now, "cannot be decremented"))
	}
	return errs
}

// ValidateControllerRevision checks a new ControllerRevision or an update; pkg/apis/apps/validation/validation.go.
func ValidateControllerRevision(revision, old *appsv1.ControllerRevision, _ string) field.ErrorList {
	at := field.NewPath("data")
	var errs field.ErrorList
	if len(revision.Data.Raw) == 0 && revision.Data.Object == nil {
		errs = append(errs, field.Required(at, "data is mandatory"))
	}
	errs = append(errs, notNegative(&revision.Revision, field.NewPath("revision"))...)
	if old != nil && !canon.Equal(&revision.Data, &old.Data) {
		errs = append(errs, field.Invalid(at, revision.Data, apivalidation.FieldImmutableErrorMsg))
	}
	return errs
}

// notNegative refuses a negative number; a nil pointer is none.
func notNegative[N int32 | int64](n *N, at *field.Path) field.ErrorList {
	if n == nil {
		return nil
	}
	return apivalidation.ValidateNonnegativeField(int64(*n), at)
}

// oneOf refuses a value that is not among those given. An empty value is called missing.
func oneOf[S ~string](value S, allowed []S, at *field.Path) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	if value == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return field.ErrorList{field.NotSupported(at, value, allowed)}
}

// named checks a name against a rule of k8s.io/apimachinery/pkg/util/validation.
func named(name string, rule func(string) []string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, message := range rule(name) {
		errs = append(errs, field.Invalid(at, name, message))
	}
	return errs
}

// inRange refuses a number outside of bounds.
func inRange(n, low, high int64, at *field.Path) field.ErrorList {
	if n < low || n > high {
		return field.ErrorList{field.Invalid(at, n, validation.InclusiveRangeError(int(low), int(high)))}
	}
	return nil
}

// maxSeconds is the largest number of seconds a deadline may have.
const maxSeconds = math.MaxInt32
