package builtin

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// ValidatePersistentVolumeClaim checks a new claim or an update; pkg/apis/core/validation/validation.go.
func ValidatePersistentVolumeClaim(claim, old *corev1.PersistentVolumeClaim, _ string) field.ErrorList {
	root := field.NewPath("spec")
	if old == nil {
		return validateClaimSpec(&claim.Spec, root)
	}
	if canon.Equal(&claim.Spec, &old.Spec) {
		return nil
	}
	return append(validateClaimSpec(&claim.Spec, root), validateClaimUpdate(claim, old, root)...)
}

func validateClaimSpec(spec *corev1.PersistentVolumeClaimSpec, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.Selector != nil {
		errs = append(errs, metavalidation.ValidateLabelSelector(spec.Selector,
			metavalidation.LabelSelectorValidationOptions{}, root.Child("selector"))...)
	}
	modes := root.Child("accessModes")
	if len(spec.AccessModes) == 0 {
		errs = append(errs, field.Required(modes, "at least 1 access mode is required"))
	}
	for _, mode := range spec.AccessModes {
		errs = append(errs, oneOf(mode, []corev1.PersistentVolumeAccessMode{
			corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod,
		}, modes)...)
	}
	if len(spec.AccessModes) > 1 && slices.Contains(spec.AccessModes, corev1.ReadWriteOncePod) {
		errs = append(errs, field.Forbidden(modes, "may not use ReadWriteOncePod with other access modes"))
	}
	storage := root.Child("resources").Key(string(corev1.ResourceStorage))
	size, ok := spec.Resources.Requests[corev1.ResourceStorage]
	switch {
	case !ok:
		errs = append(errs, field.Required(storage, ""))
	case size.Sign() <= 0:
		errs = append(errs, field.Invalid(storage, size.String(), "must be greater than zero"))
	}
	if class := spec.StorageClassName; class != nil && *class != "" {
		errs = append(errs, named(*class, validation.IsDNS1123Subdomain, root.Child("storageClassName"))...)
	}
	if mode := spec.VolumeMode; mode != nil {
		errs = append(errs, oneOf(*mode, []corev1.PersistentVolumeMode{
			corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem,
		}, root.Child("volumeMode"))...)
	}
	return errs
}

// validateClaimUpdate refuses changes of a claim's spec but for the volume it is bound to, once, the storage class, once,
// and of a bound claim the size; ValidatePersistentVolumeClaimUpdate.
func validateClaimUpdate(claim, old *corev1.PersistentVolumeClaim, root *field.Path) field.ErrorList {
	rest := claim.Spec.DeepCopy()
	if old.Spec.VolumeName == "" {
		rest.VolumeName = ""
	}
	if old.Spec.StorageClassName == nil {
		rest.StorageClassName = nil
	}
	rest.VolumeAttributesClassName = old.Spec.VolumeAttributesClassName
	oldSize := old.Spec.Resources.Requests[corev1.ResourceStorage]
	newSize := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if claim.Status.Phase == corev1.ClaimBound && rest.Resources.Requests != nil {
		rest.Resources.Requests[corev1.ResourceStorage] = oldSize
	}
	var errs field.ErrorList
	if !canon.Equal(rest, &old.Spec) {
		errs = append(errs, field.Forbidden(root, "spec is immutable after creation except resources.requests and "+
			"volumeAttributesClassName for bound claims\n"+diff.Diff(&old.Spec, rest)))
	}
	if capacity := claim.Status.Capacity[corev1.ResourceStorage]; newSize.Cmp(oldSize) < 0 && newSize.Cmp(capacity) <= 0 {
		// A size that was never reached may be taken back.
		errs = append(errs, field.Forbidden(root.Child("resources", "requests", "storage"),
			"field can not be less than status.capacity"))
	}
	if !canon.Equal(&claim.Spec.VolumeMode, &old.Spec.VolumeMode) {
		errs = append(errs, field.Invalid(root.Child("volumeMode"), claim.Spec.VolumeMode, apivalidation.FieldImmutableErrorMsg))
	}
	return errs
}

// ValidatePersistentVolumeClaimStatus checks a status write.
func ValidatePersistentVolumeClaimStatus(claim, _ *corev1.PersistentVolumeClaim, _ string) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sortedNames(claim.Status.Capacity) {
		errs = append(errs, amountNotNegative(claim.Status.Capacity[name], field.NewPath("status", "capacity").Key(string(name)))...)
	}
	return errs
}

// internalClaim is a claim as the server's internal type prints in an error: Kubernetes' internal types have no JSON
// names. Only the metadata, which is shared with the served type, has its usual form.
type internalClaim struct {
	metav1.TypeMeta
	metav1.ObjectMeta
	Spec   internalClaimSpec
	Status internalClaimStatus
}

type internalClaimSpec struct {
	AccessModes []corev1.PersistentVolumeAccessMode
	Selector    *metav1.LabelSelector
	Resources   struct {
		Limits, Requests map[corev1.ResourceName]resource.Quantity
	}
	VolumeName                string
	StorageClassName          *string
	VolumeMode                *corev1.PersistentVolumeMode
	DataSource                *internalReference
	DataSourceRef             *internalReference
	VolumeAttributesClassName *string
}

type internalReference struct {
	APIGroup  *string
	Kind      string
	Name      string
	Namespace *string `json:",omitempty"`
}

// internalClaimStatus has only the phase: a claim template has no other status.
type internalClaimStatus struct {
	Phase                            corev1.PersistentVolumeClaimPhase
	AccessModes                      []corev1.PersistentVolumeAccessMode
	Capacity                         map[corev1.ResourceName]resource.Quantity
	Conditions                       []any
	AllocatedResources               map[corev1.ResourceName]resource.Quantity
	AllocatedResourceStatuses        map[corev1.ResourceName]string
	CurrentVolumeAttributesClassName *string
	ModifyVolumeStatus               *struct{}
	HealthStatus                     *struct{}
}

func internalClaims(claims []corev1.PersistentVolumeClaim) []internalClaim {
	internal := make([]internalClaim, len(claims))
	for i := range claims {
		from, to := &claims[i].Spec, &internal[i].Spec
		internal[i].ObjectMeta = claims[i].ObjectMeta
		internal[i].Status.Phase = claims[i].Status.Phase
		to.AccessModes, to.Selector = from.AccessModes, from.Selector
		to.Resources.Limits, to.Resources.Requests = from.Resources.Limits, from.Resources.Requests
		to.VolumeName, to.StorageClassName, to.VolumeMode = from.VolumeName, from.StorageClassName, from.VolumeMode
		to.VolumeAttributesClassName = from.VolumeAttributesClassName
		if s := from.DataSource; s != nil {
			to.DataSource = &internalReference{APIGroup: s.APIGroup, Kind: s.Kind, Name: s.Name}
		}
		if s := from.DataSourceRef; s != nil {
			to.DataSourceRef = &internalReference{APIGroup: s.APIGroup, Kind: s.Kind, Name: s.Name, Namespace: s.Namespace}
		}
	}
	return internal
}
