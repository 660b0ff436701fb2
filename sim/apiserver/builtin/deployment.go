package builtin

import (
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// DefaultDeployment fills in defaults: pkg/apis/apps/v1/defaults.go.
func DefaultDeployment(deployment *appsv1.Deployment, _ string) {
	spec := &deployment.Spec
	fillPointer(&spec.Replicas, 1)
	fill(&spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	if spec.Strategy.Type == appsv1.RollingUpdateDeploymentStrategyType {
		fillPointer(&spec.Strategy.RollingUpdate, appsv1.RollingUpdateDeployment{})
		fillPointer(&spec.Strategy.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
		fillPointer(&spec.Strategy.RollingUpdate.MaxSurge, intstr.FromString("25%"))
	}
	fillPointer(&spec.RevisionHistoryLimit, 10)
	fillPointer(&spec.ProgressDeadlineSeconds, 600)
	defaultPodSpec(&spec.Template.Spec)
}

// ValidateDeployment checks a new Deployment or an update; pkg/apis/apps/validation/validation.go.
func ValidateDeployment(deployment, old *appsv1.Deployment, version string) field.ErrorList {
	spec, root := &deployment.Spec, field.NewPath("spec")
	if old != nil && canon.Equal(spec, &old.Spec) {
		return nil
	}
	errs := join(
		notNegative(spec.Replicas, root.Child("replicas")),
		validateReplicaTemplate(spec.Selector, &spec.Template, root, version),
		validateDeploymentStrategy(&spec.Strategy, version, root.Child("strategy")),
		notNegative(&spec.MinReadySeconds, root.Child("minReadySeconds")),
		notNegative(spec.RevisionHistoryLimit, root.Child("revisionHistoryLimit")),
	)
	if seconds := spec.ProgressDeadlineSeconds; seconds != nil {
		at := root.Child("progressDeadlineSeconds")
		errs = append(errs, notNegative(seconds, at)...)
		if *seconds <= spec.MinReadySeconds {
			errs = append(errs, field.Invalid(at, seconds, "must be greater than minReadySeconds"))
		}
	}
	if old != nil {
		errs = append(errs, immutable(&spec.Selector, &old.Spec.Selector, spec.Selector, root.Child("selector"))...)
	}
	return errs
}

func validateDeploymentStrategy(strategy *appsv1.DeploymentStrategy, version string, root *field.Path) field.ErrorList {
	rolling, at := strategy.RollingUpdate, root.Child("rollingUpdate")
	switch {
	case strategy.Type == appsv1.RecreateDeploymentStrategyType && rolling != nil:
		return field.ErrorList{field.Forbidden(at, "may not be specified when strategy `type` is 'Recreate'")}
	case strategy.Type == appsv1.RecreateDeploymentStrategyType:
		return nil
	case strategy.Type != appsv1.RollingUpdateDeploymentStrategyType:
		return field.ErrorList{field.NotSupported(root, internal(strategy, version), []appsv1.DeploymentStrategyType{
			appsv1.RecreateDeploymentStrategyType, appsv1.RollingUpdateDeploymentStrategyType})}
	}
	unavailable, surge := *rolling.MaxUnavailable, *rolling.MaxSurge // defaulted
	errs := join(
		validateIntOrPercent(unavailable, at.Child("maxUnavailable")),
		validateIntOrPercent(surge, at.Child("maxSurge")),
	)
	if intOrPercent(unavailable) == 0 && intOrPercent(surge) == 0 {
		errs = append(errs, field.Invalid(at.Child("maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0"))
	}
	return append(errs, atMostAll(unavailable, at.Child("maxUnavailable"))...)
}

// ValidateDeploymentStatus checks a status write.
func ValidateDeploymentStatus(deployment, old *appsv1.Deployment, _ string) field.ErrorList {
	status, root := &deployment.Status, field.NewPath("status")
	updated := replicaCount{"updatedReplicas", status.UpdatedReplicas}
	ready := replicaCount{"readyReplicas", status.ReadyReplicas}
	available := replicaCount{"availableReplicas", status.AvailableReplicas}
	return join(
		notNegative(&status.ObservedGeneration, root.Child("observedGeneration")),
		validateCounts(root, replicaCount{"replicas", status.Replicas}, updated, ready, available,
			replicaCount{"unavailableReplicas", status.UnavailableReplicas}),
		notNegative(status.TerminatingReplicas, root.Child("terminatingReplicas")),
		notNegative(status.CollisionCount, root.Child("collisionCount")),
		validateWithin(status.Replicas, root, updated, ready, available),
		validateAvailable(status.AvailableReplicas, status.ReadyReplicas, root),
		notDecremented(status.CollisionCount, old.Status.CollisionCount, root),
	)
}

// DefaultReplicaSet fills in defaults: pkg/apis/apps/v1/defaults.go.
func DefaultReplicaSet(set *appsv1.ReplicaSet, _ string) {
	fillPointer(&set.Spec.Replicas, 1)
	defaultPodSpec(&set.Spec.Template.Spec)
}

// ValidateReplicaSet checks a new ReplicaSet or an update; pkg/apis/apps/validation/validation.go.
func ValidateReplicaSet(set, old *appsv1.ReplicaSet, version string) field.ErrorList {
	spec, root := &set.Spec, field.NewPath("spec")
	if old != nil && canon.Equal(spec, &old.Spec) {
		return nil
	}
	errs := join(
		notNegative(spec.Replicas, root.Child("replicas")),
		notNegative(&spec.MinReadySeconds, root.Child("minReadySeconds")),
		validateReplicaTemplate(spec.Selector, &spec.Template, root, version),
	)
	if old != nil {
		errs = append(errs, immutable(&spec.Selector, &old.Spec.Selector, spec.Selector, root.Child("selector"))...)
	}
	return errs
}

// ValidateReplicaSetStatus checks a status write.
func ValidateReplicaSetStatus(set, _ *appsv1.ReplicaSet, _ string) field.ErrorList {
	status, root := &set.Status, field.NewPath("status")
	return join(
		validateReplicas(status.Replicas, status.FullyLabeledReplicas, status.ReadyReplicas, status.AvailableReplicas,
			status.ObservedGeneration, root, notNegative(status.TerminatingReplicas, root.Child("terminatingReplicas"))),
	)
}

// validateReplicas checks the status that ReplicaSet and ReplicationController share; others are the errors that come between
// those of single numbers and those of their relations.
func validateReplicas(replicas, labeled, ready, available int32, generation int64, root *field.Path,
	others field.ErrorList,
) field.ErrorList {
	labeledCount := replicaCount{"fullyLabeledReplicas", labeled}
	readyCount := replicaCount{"readyReplicas", ready}
	availableCount := replicaCount{"availableReplicas", available}
	return join(
		validateCounts(root, replicaCount{"replicas", replicas}, labeledCount, readyCount, availableCount),
		notNegative(&generation, root.Child("observedGeneration")),
		others,
		validateWithin(replicas, root, labeledCount, readyCount, availableCount),
		validateAvailable(available, ready, root),
	)
}

// DefaultReplicationController fills in defaults: pkg/apis/core/v1/defaults.go. The selector and the controller's own labels
// are those of the template unless they are given.
func DefaultReplicationController(controller *corev1.ReplicationController, _ string) {
	spec := &controller.Spec
	if template := spec.Template; template != nil {
		if len(template.Labels) > 0 {
			if len(spec.Selector) == 0 {
				spec.Selector = template.Labels
			}
			if len(controller.Labels) == 0 {
				controller.Labels = template.Labels
			}
		}
		defaultPodSpec(&template.Spec)
	}
	fillPointer(&spec.Replicas, 1)
}

// ValidateReplicationController checks a new ReplicationController or an update; pkg/apis/core/validation/validation.go.
func ValidateReplicationController(controller, old *corev1.ReplicationController, version string) field.ErrorList {
	spec, root := &controller.Spec, field.NewPath("spec")
	if old != nil && canon.Equal(spec, &old.Spec) {
		return nil
	}
	errs := notNegative(&spec.MinReadySeconds, root.Child("minReadySeconds"))
	if len(spec.Selector) == 0 {
		errs = append(errs, field.Required(root.Child("selector"), ""))
	}
	errs = append(errs, notNegative(spec.Replicas, root.Child("replicas"))...)
	at := root.Child("template")
	if spec.Template == nil {
		return append(errs, field.Required(at, ""))
	}
	selector := labels.SelectorFromSet(spec.Selector)
	if set := labels.Set(spec.Template.Labels); !selector.Empty() && !selector.Matches(set) {
		errs = append(errs, field.Invalid(at.Child("metadata", "labels"), spec.Template.Labels, notMismatched))
	}
	return join(errs, validatePodTemplate(spec.Template, at, version),
		validateAlwaysRunning(&spec.Template.Spec, "ReplicationController", at.Child("spec")))
}

// ValidateReplicationControllerStatus checks a status write.
func ValidateReplicationControllerStatus(controller, _ *corev1.ReplicationController, _ string) field.ErrorList {
	status := &controller.Status
	return validateReplicas(status.Replicas, status.FullyLabeledReplicas, status.ReadyReplicas, status.AvailableReplicas,
		status.ObservedGeneration, field.NewPath("status"), nil)
}

// DefaultDaemonSet fills in defaults: pkg/apis/apps/v1/defaults.go.
func DefaultDaemonSet(set *appsv1.DaemonSet, _ string) {
	spec := &set.Spec
	fill(&spec.UpdateStrategy.Type, appsv1.RollingUpdateDaemonSetStrategyType)
	if spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		fillPointer(&spec.UpdateStrategy.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
		fillPointer(&spec.UpdateStrategy.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
	}
	if rolling := spec.UpdateStrategy.RollingUpdate; rolling != nil { // internally they are no pointers
		fillPointer(&rolling.MaxUnavailable, intstr.FromInt32(0))
		fillPointer(&rolling.MaxSurge, intstr.FromInt32(0))
	}
	fillPointer(&spec.RevisionHistoryLimit, 10)
	defaultPodSpec(&spec.Template.Spec)
	setTemplateCount(set, templateCount(set)) // conversion always writes it
}

// The annotation in which apps/v1 keeps a field that only its predecessors show; pkg/apis/apps/v1/conversion.go.
const templateGeneration = appsv1.DeprecatedTemplateGeneration

// PrepareDaemonSet starts the count of the templates; pkg/registry/apps/daemonset/strategy.go PrepareForCreate.
func PrepareDaemonSet(set *appsv1.DaemonSet) {
	if templateCount(set) < 1 {
		setTemplateCount(set, 1)
	}
}

// KeepDaemonSet counts the templates; PrepareForUpdate.
func KeepDaemonSet(set, old *appsv1.DaemonSet) {
	count := templateCount(old)
	if !canon.Equal(&set.Spec.Template, &old.Spec.Template) {
		count++
	}
	setTemplateCount(set, count)
}

// KeepTemplateCount does so where the status is written; daemonSetStatusStrategy.
func KeepTemplateCount(set, old *appsv1.DaemonSet, _ metav1.Time) {
	setTemplateCount(set, templateCount(old))
}

// ValidateDaemonSet checks a new DaemonSet or an update; pkg/apis/apps/validation/validation.go.
func ValidateDaemonSet(set, old *appsv1.DaemonSet, version string) field.ErrorList {
	spec, root := &set.Spec, field.NewPath("spec")
	if old != nil && canon.Equal(spec, &old.Spec) {
		return nil
	}
	var errs field.ErrorList
	if old != nil {
		errs = append(errs, immutable(&spec.Selector, &old.Spec.Selector, spec.Selector, root.Child("selector"))...)
	}
	errs = append(errs, validateSelector(spec.Selector, root.Child("selector"))...)
	at := root.Child("template")
	if selector, err := metav1.LabelSelectorAsSelector(spec.Selector); err == nil && !selector.Matches(labels.Set(spec.Template.Labels)) {
		errs = append(errs, field.Invalid(at.Child("metadata", "labels"), spec.Template.Labels, notMismatched))
	}
	if spec.Selector != nil && isEmptySelector(spec.Selector) {
		errs = append(errs, field.Invalid(root.Child("selector"), spec.Selector, "empty selector is invalid for daemonset"))
	}
	return join(errs,
		validatePodTemplate(&spec.Template, at, version),
		validateAlwaysRunning(&spec.Template.Spec, "DaemonSet", at.Child("spec")),
		notNegative(&spec.MinReadySeconds, root.Child("minReadySeconds")),
		validateDaemonStrategy(&spec.UpdateStrategy, version, root.Child("updateStrategy")),
		notNegative(spec.RevisionHistoryLimit, root.Child("revisionHistoryLimit")),
	)
}

func validateDaemonStrategy(strategy *appsv1.DaemonSetUpdateStrategy, version string, root *field.Path) field.ErrorList {
	switch strategy.Type {
	case appsv1.OnDeleteDaemonSetStrategyType:
		return nil
	case appsv1.RollingUpdateDaemonSetStrategyType:
	default:
		return field.ErrorList{field.NotSupported(root, internal(strategy, version), []appsv1.DaemonSetUpdateStrategyType{
			appsv1.RollingUpdateDaemonSetStrategyType, appsv1.OnDeleteDaemonSetStrategyType})}
	}
	rolling, at := strategy.RollingUpdate, root.Child("rollingUpdate") // defaulted
	unavailable, surge := *rolling.MaxUnavailable, *rolling.MaxSurge
	errs := join(
		validateIntOrPercent(unavailable, at.Child("maxUnavailable")),
		validateIntOrPercent(surge, at.Child("maxSurge")),
		atMostAll(unavailable, at.Child("maxUnavailable")),
		atMostAll(surge, at.Child("maxSurge")),
	)
	switch hasUnavailable, hasSurge := intOrPercent(unavailable) != 0, intOrPercent(surge) != 0; {
	case hasUnavailable && hasSurge:
		errs = append(errs, field.Invalid(at.Child("maxSurge"), surge, "may not be set when maxUnavailable is non-zero"))
	case !hasUnavailable && !hasSurge:
		errs = append(errs, field.Required(at.Child("maxUnavailable"), "cannot be 0 when maxSurge is 0"))
	}
	return errs
}

// ValidateDaemonSetStatus checks a status write.
func ValidateDaemonSetStatus(set, old *appsv1.DaemonSet, _ string) field.ErrorList {
	status, root := &set.Status, field.NewPath("status")
	return join(
		validateCounts(root,
			replicaCount{"currentNumberScheduled", status.CurrentNumberScheduled},
			replicaCount{"numberMisscheduled", status.NumberMisscheduled},
			replicaCount{"desiredNumberScheduled", status.DesiredNumberScheduled},
			replicaCount{"numberReady", status.NumberReady}),
		notNegative(&status.ObservedGeneration, root.Child("observedGeneration")),
		validateCounts(root,
			replicaCount{"updatedNumberScheduled", status.UpdatedNumberScheduled},
			replicaCount{"numberAvailable", status.NumberAvailable},
			replicaCount{"numberUnavailable", status.NumberUnavailable}),
		notNegative(status.CollisionCount, root.Child("collisionCount")),
		notDecremented(status.CollisionCount, old.Status.CollisionCount, root),
	)
}

// templateCount returns how many templates a DaemonSet has had, zero if it does not say.
func templateCount(set *appsv1.DaemonSet) int64 {
	n, err := strconv.ParseInt(set.Annotations[templateGeneration], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// setTemplateCount writes only where something changes: the annotations may be shared with a stored object.
func setTemplateCount(set *appsv1.DaemonSet, n int64) {
	text := strconv.FormatInt(n, 10)
	if set.Annotations[templateGeneration] == text {
		return
	}
	annotations := maps.Clone(set.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[templateGeneration] = text
	set.Annotations = annotations
}
