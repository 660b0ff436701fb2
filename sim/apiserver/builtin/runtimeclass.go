package builtin

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// DefaultRuntimeClass rounds the overhead up.
func DefaultRuntimeClass(class *nodev1.RuntimeClass, _ string) {
	if class.Overhead != nil {
		defaultAmounts(class.Overhead.PodFixed)
	}
}

// ValidateRuntimeClass checks a new RuntimeClass or an update; pkg/apis/node/validation/validation.go.
func ValidateRuntimeClass(class, old *nodev1.RuntimeClass, version string) field.ErrorList {
	at := field.NewPath("handler")
	var frozen, errs field.ErrorList
	if old != nil {
		frozen = immutable(&class.Handler, &old.Handler, class.Handler, at).MarkCoveredByDeclarative()
	}
	if since(version, 37) {
		errs, frozen = frozen, nil
	}
	if class.Handler == "" {
		errs = append(errs, field.Required(at, "").MarkCoveredByDeclarative())
	} else {
		errs = append(errs, named(class.Handler, validation.IsDNS1123Label, at).MarkCoveredByDeclarative()...)
	}
	if class.Overhead != nil {
		errs = append(errs, validateResources(&corev1.ResourceRequirements{Limits: class.Overhead.PodFixed}, field.NewPath("overhead"))...)
	}
	if scheduling := class.Scheduling; scheduling != nil {
		root := field.NewPath("scheduling")
		errs = append(errs, metavalidation.ValidateLabels(scheduling.NodeSelector, root.Child("nodeSelector"))...)
		errs = append(errs, validateRuntimeTolerations(scheduling.Tolerations, version, root.Child("tolerations"))...)
	}
	return append(errs, frozen...)
}

func validateRuntimeTolerations(tolerations []corev1.Toleration, version string, root *field.Path) field.ErrorList {
	errs := validateTolerations(tolerations, root)
	seen := map[corev1.Toleration]bool{}
	for i, t := range tolerations {
		key := corev1.Toleration{Key: t.Key, Operator: t.Operator, Value: t.Value, Effect: t.Effect}
		if seen[key] {
			errs = append(errs, field.Duplicate(root.Index(i), internal(t, version)))
		}
		seen[key] = true
	}
	return errs
}

// MergeTolerations returns the tolerations of both lists but for those that others include; pkg/util/tolerations/
// tolerations.go.
func MergeTolerations(first, second []corev1.Toleration) []corev1.Toleration {
	all := append(slices.Clip(first), second...)
	var merged []corev1.Toleration
	for i := range all {
		redundant := false
		for j := range merged {
			redundant = redundant || toleratesMore(&merged[j], &all[i])
		}
		for j := i + 1; j < len(all) && !redundant; j++ { // of equal ones the first stays
			redundant = !canon.Equal(&all[i], &all[j]) && toleratesMore(&all[j], &all[i])
		}
		if !redundant {
			merged = append(merged, all[i])
		}
	}
	return merged
}

// toleratesMore reports whether wide tolerates all that t does.
func toleratesMore(wide, t *corev1.Toleration) bool {
	switch {
	case canon.Equal(t, wide):
		return true
	case t.Key != wide.Key && (wide.Key != "" || wide.Operator != corev1.TolerationOpExists):
		return false
	case t.Effect != wide.Effect && wide.Effect != "":
		return false
	case wide.Effect == corev1.TaintEffectNoExecute && wide.TolerationSeconds != nil &&
		(t.TolerationSeconds == nil || *t.TolerationSeconds > *wide.TolerationSeconds):
		return false
	}
	switch wide.Operator {
	case corev1.TolerationOpEqual, "":
		return t.Operator == corev1.TolerationOpEqual && t.Value == wide.Value
	default:
		return wide.Operator == corev1.TolerationOpExists
	}
}
