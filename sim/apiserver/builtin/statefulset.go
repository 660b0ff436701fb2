package builtin

import (
	"encoding/json"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// PrepareStatefulSet drops fields whose feature gate is off before 1.37: who sends them owns them all the same;
// pkg/registry/apps/statefulset/strategy.go dropStatefulSetDisabledFields.
func PrepareStatefulSet(set *appsv1.StatefulSet) {
	rolling := set.Spec.UpdateStrategy.RollingUpdate
	if rolling == nil || rolling.MaxUnavailable == nil {
		return
	}
	kept := *rolling // it may be shared with what the client sent
	kept.MaxUnavailable = nil
	set.Spec.UpdateStrategy.RollingUpdate = &kept
}

// PrepareStatefulSetUpdate does so for an update.
func PrepareStatefulSetUpdate(set, _ *appsv1.StatefulSet) { PrepareStatefulSet(set) }

// ValidateStatefulSet checks a new StatefulSet or an update; pkg/apis/apps/validation/validation.go.
func ValidateStatefulSet(set, old *appsv1.StatefulSet, version string) field.ErrorList {
	root := field.NewPath("spec")
	if old == nil {
		return join(validateSetSpec(&set.Spec, nil, root, version), validateSetPods(&set.Spec, false, root, version))
	}
	if canon.Equal(&set.Spec, &old.Spec) {
		return nil
	}
	errs := validateSetSpec(&set.Spec, &old.Spec, root, version)
	// What is as it was is as valid as it was, and most updates leave the template alone.
	if !canon.Equal(&set.Spec.Template, &old.Spec.Template) || !canon.Equal(set.Spec.Selector, old.Spec.Selector) ||
		!canon.Equal(&set.Spec.VolumeClaimTemplates, &old.Spec.VolumeClaimTemplates) {
		// The checks of the pod are younger than the kind: an object that fails them may stay as it is.
		broken := len(validateSetSpec(&old.Spec, &old.Spec, nil, version))+len(validateSetPods(&old.Spec, false, nil, version)) > 0
		errs = append(errs, validateSetPods(&set.Spec, broken, root, version)...)
	}
	return append(errs, validateSetUpdate(&set.Spec, &old.Spec, root, version)...)
}

// validateSetSpec is ValidateStatefulSetSpec up to the selector and the template.
func validateSetSpec(spec, old *appsv1.StatefulSetSpec, root *field.Path, version string) field.ErrorList {
	var errs field.ErrorList
	switch spec.PodManagementPolicy {
	case appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement:
	default:
		errs = append(errs, field.Invalid(root.Child("podManagementPolicy"), spec.PodManagementPolicy,
			"must be 'OrderedReady' or 'Parallel'"))
	}
	errs = append(errs, validateUpdateStrategy(&spec.UpdateStrategy, root.Child("updateStrategy"), version)...)
	if policy := spec.PersistentVolumeClaimRetentionPolicy; policy != nil {
		at := root.Child("persistentVolumeClaimRetentionPolicy")
		retention := []appsv1.PersistentVolumeClaimRetentionPolicyType{
			appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType,
		}
		errs = append(errs, supported(policy.WhenDeleted, retention, at.Child("whenDeleted"))...)
		errs = append(errs, supported(policy.WhenScaled, retention, at.Child("whenScaled"))...)
	}
	if old == nil { // they cannot change
		for i := range spec.VolumeClaimTemplates {
			claim, at := &spec.VolumeClaimTemplates[i], root.Child("volumeClaimTemplates").Index(i)
			errs = append(errs, validateClaimSpec(&claim.Spec, at.Child("spec"))...)
		}
	}
	errs = append(errs, notNegative(spec.Replicas, root.Child("replicas"))...)
	errs = append(errs, notNegative(&spec.MinReadySeconds, root.Child("minReadySeconds"))...)
	if spec.Ordinals != nil {
		errs = append(errs, notNegative(&spec.Ordinals.Start, root.Child("ordinals.start"))...)
	}
	if old == nil && spec.ServiceName != "" {
		errs = append(errs, named(spec.ServiceName, validation.IsDNS1123Label, root.Child("serviceName"))...)
	}
	return errs
}

func validateUpdateStrategy(strategy *appsv1.StatefulSetUpdateStrategy, root *field.Path, version string) field.ErrorList {
	rolling, at := strategy.RollingUpdate, root.Child("rollingUpdate")
	switch {
	case strategy.Type == appsv1.OnDeleteStatefulSetStrategyType && rolling != nil:
		return field.ErrorList{field.Invalid(at, internal(rolling, version), "only allowed for updateStrategy 'RollingUpdate'")}
	case strategy.Type == appsv1.OnDeleteStatefulSetStrategyType:
		return nil
	case strategy.Type != appsv1.RollingUpdateStatefulSetStrategyType:
		return field.ErrorList{field.Invalid(root, internal(strategy, version), "must be 'RollingUpdate' or 'OnDelete'")}
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

// validateSetPods checks the selector, and the template that it has to select. Broken tells that the object was stored before
// its template was checked.
func validateSetPods(spec *appsv1.StatefulSetSpec, broken bool, root *field.Path, version string) field.ErrorList {
	at := root.Child("selector")
	var errs field.ErrorList
	if spec.Selector == nil {
		errs = append(errs, field.Required(at, ""))
	} else {
		errs = append(errs, validateSelector(spec.Selector, at)...)
		if isEmptySelector(spec.Selector) {
			errs = append(errs, field.Invalid(at, spec.Selector, "empty selector is invalid for statefulset"))
		}
	}
	always := validateAlwaysRunning(&spec.Template.Spec, "StatefulSet", root.Child("template", "spec"))
	mismatch, err := mismatched(spec.Selector, spec.Template.Labels, len(errs) == 0)
	if err != nil {
		return append(append(errs, field.Invalid(at, spec.Selector, "")), always...)
	}
	at = root.Child("template")
	if set := spec.Template.Labels; mismatch {
		errs = append(errs, field.Invalid(at.Child("metadata", "labels"), set, notMismatched))
	}
	if !broken {
		errs = append(errs, validatePodTemplate(setTemplate(spec), at, version)...)
	}
	errs = append(errs, metavalidation.ValidateLabels(spec.Template.Labels, at.Child("labels"))...)
	errs = append(errs, apivalidation.ValidateAnnotations(spec.Template.Annotations, at.Child("annotations"))...)
	return append(errs, always...)
}

// setTemplate returns what is checked of the template: the claims are volumes of the pod, whose name and domain are given.
func setTemplate(spec *appsv1.StatefulSetSpec) *corev1.PodTemplateSpec {
	template := spec.Template
	pod := &template.Spec
	pod.Subdomain, pod.Hostname = "", ""
	if len(spec.VolumeClaimTemplates) == 0 {
		return &template
	}
	var volumes []corev1.Volume
	has := func(name string) func(corev1.Volume) bool {
		return func(v corev1.Volume) bool { return v.Name == name }
	}
	for i := range spec.VolumeClaimTemplates {
		if name := spec.VolumeClaimTemplates[i].Name; !slices.ContainsFunc(volumes, has(name)) {
			volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name},
			}})
		}
	}
	claims := volumes
	for _, volume := range pod.Volumes {
		if !slices.ContainsFunc(claims, has(volume.Name)) {
			volumes = append(volumes, volume)
		}
	}
	pod.Volumes = volumes
	return &template
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
			func() any { return internal(spec.VolumeClaimTemplates, version) }},
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
	errs := notNegative(&revision.Revision, field.NewPath("revision"))
	if old != nil {
		return append(errs, immutable(&revision.Data, &old.Data, revision.Data, at)...)
	}
	if revision.Data.Object != nil {
		return errs // it was not decoded, and is an object
	}
	var data any
	err := json.Unmarshal(revision.Data.Raw, &data)
	_, isObject := data.(map[string]any)
	switch {
	case len(revision.Data.Raw) == 0, err == nil && data == nil:
		errs = append(errs, field.Required(at, "data is mandatory"))
	case err != nil:
		errs = append(errs, field.Invalid(at, "<value omitted>", "error parsing data: "+err.Error()))
	case !isObject:
		errs = append(errs, field.Required(at, "data must be a valid JSON object"))
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

// supported refuses a value that is not among those given, an empty one too.
func supported[S ~string](value S, allowed []S, at *field.Path) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
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
