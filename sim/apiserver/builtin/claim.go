package builtin

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// ValidatePersistentVolumeClaim checks a new claim or an update; pkg/apis/core/validation/validation.go.
func ValidatePersistentVolumeClaim(claim, old *corev1.PersistentVolumeClaim, version string) field.ErrorList {
	root := field.NewPath("spec")
	if old == nil {
		return validateClaimSpec(&claim.Spec, root)
	}
	if canon.Equal(&claim.Spec, &old.Spec) {
		return nil
	}
	return append(validateClaimSpec(&claim.Spec, root), validateClaimUpdate(claim, old, root, version)...)
}

func validateClaimSpec(spec *corev1.PersistentVolumeClaimSpec, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.Selector != nil {
		errs = append(errs, metavalidation.ValidateLabelSelector(spec.Selector,
			metavalidation.LabelSelectorValidationOptions{}, root.Child("selector"))...)
	}
	modes := root.Child("accessModes")
	errs = append(errs, validateAccessModes(spec.AccessModes, "at least 1 access mode is required", modes)...)
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
		errs = append(errs, supported(*mode, []corev1.PersistentVolumeMode{
			corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem,
		}, root.Child("volumeMode"))...)
	}
	return append(errs, validateDataSources(spec, root)...)
}

// printedPath is what a real server prints where it means to name the field dataSource.
type printedPath struct{}

// validateDataSources checks where the contents of a volume come from.
func validateDataSources(spec *corev1.PersistentVolumeClaimSpec, root *field.Path) field.ErrorList {
	source, ref := spec.DataSource, spec.DataSourceRef
	var errs field.ErrorList
	if source != nil {
		errs = append(errs, validateDataSource(source.APIGroup, source.Kind, source.Name, root.Child("dataSource"))...)
	}
	at := root.Child("dataSourceRef")
	if ref != nil {
		errs = append(errs, validateDataSource(ref.APIGroup, ref.Kind, ref.Name, at)...)
		if namespace := ref.Namespace; namespace != nil && *namespace != "" {
			errs = append(errs, named(*namespace, validation.IsDNS1123Label, at.Child("namespace"))...)
			if source != nil {
				errs = append(errs, field.Invalid(root, printedPath{}, "may not be specified when dataSourceRef.namespace is specified"))
			}
			return errs
		}
	}
	if source != nil && ref != nil && !sameSource(source, ref) {
		errs = append(errs, field.Invalid(root, printedPath{}, "must match dataSourceRef"))
	}
	return errs
}

func sameSource(source *corev1.TypedLocalObjectReference, ref *corev1.TypedObjectReference) bool {
	return canon.Equal(&source.APIGroup, &ref.APIGroup) && source.Kind == ref.Kind && source.Name == ref.Name
}

func validateDataSource(apiGroup *string, kind, name string, at *field.Path) field.ErrorList {
	errs := join(required(name, at.Child("name")), required(kind, at.Child("kind")))
	group := ""
	if apiGroup != nil {
		group = *apiGroup
	}
	switch {
	case group == "" && kind != "PersistentVolumeClaim":
		errs = append(errs, field.Invalid(at, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"))
	case group != "":
		errs = append(errs, named(group, validation.IsDNS1123Subdomain, at.Child("apiGroup"))...)
	}
	return errs
}

// PreparePersistentVolumeClaimUpdate fills in the sources of an update as of a new claim.
func PreparePersistentVolumeClaimUpdate(claim, old *corev1.PersistentVolumeClaim) {
	normalizeDataSources(&claim.Spec, &old.Spec)
}

// normalizeDataSources lets the two fields for the source of a volume say the same where one of them is empty;
// pkg/api/persistentvolumeclaim/util.go. A source of another kind than those that are known is dropped.
func normalizeDataSources(spec, old *corev1.PersistentVolumeClaimSpec) {
	if ref := spec.DataSourceRef; ref != nil && ref.Namespace != nil && *ref.Namespace != "" && (old == nil || old.DataSourceRef == nil) {
		spec.DataSourceRef = nil // needs the gate CrossNamespaceVolumeDataSource, which is off
	}
	used := old != nil && (old.DataSource != nil || old.DataSourceRef != nil)
	if source := spec.DataSource; !used && source != nil && spec.DataSourceRef == nil && !isKnownSource(source) {
		spec.DataSource = nil
	}
	switch source, ref := spec.DataSource, spec.DataSourceRef; {
	case ref != nil && ref.Namespace != nil && *ref.Namespace != "":
	case source != nil && ref == nil:
		spec.DataSourceRef = &corev1.TypedObjectReference{APIGroup: source.APIGroup, Kind: source.Kind, Name: source.Name}
	case ref != nil && source == nil:
		spec.DataSource = &corev1.TypedLocalObjectReference{APIGroup: ref.APIGroup, Kind: ref.Kind, Name: ref.Name}
	}
}

func isKnownSource(source *corev1.TypedLocalObjectReference) bool {
	group := ""
	if source.APIGroup != nil {
		group = *source.APIGroup
	}
	return group == "" && source.Kind == "PersistentVolumeClaim" || group == "snapshot.storage.k8s.io" && source.Kind == "VolumeSnapshot"
}

// validateClaimUpdate refuses changes of a claim's spec but for the volume it is bound to, once, the storage class, once,
// and of a bound claim the size; ValidatePersistentVolumeClaimUpdate.
func validateClaimUpdate(claim, old *corev1.PersistentVolumeClaim, root *field.Path, version string) field.ErrorList {
	rest, before := claim.Spec.DeepCopy(), old.Spec.DeepCopy()
	if before.VolumeName == "" {
		before.VolumeName = rest.VolumeName
	}
	if before.StorageClassName == nil {
		rest.StorageClassName = nil
	}
	oldSize := old.Spec.Resources.Requests[corev1.ResourceStorage]
	newSize := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if claim.Status.Phase == corev1.ClaimBound {
		rest.VolumeAttributesClassName = before.VolumeAttributesClassName
		if rest.Resources.Requests != nil {
			rest.Resources.Requests[corev1.ResourceStorage] = oldSize
		}
	}
	var errs field.ErrorList
	if !canon.Equal(rest, before) {
		errs = append(errs, field.Forbidden(root, "spec is immutable after creation except resources.requests and "+
			"volumeAttributesClassName for bound claims\n"+diff.Diff(internal(before, version), internal(rest, version))))
	}
	if capacity := claim.Status.Capacity[corev1.ResourceStorage]; newSize.Cmp(oldSize) < 0 && newSize.Cmp(capacity) <= 0 {
		// A size that was never reached may be taken back.
		errs = append(errs, field.Forbidden(root.Child("resources", "requests", "storage"),
			"field can not be less than status.capacity"))
	}
	errs = append(errs, immutable(&claim.Spec.VolumeMode, &old.Spec.VolumeMode, claim.Spec.VolumeMode, field.NewPath("volumeMode"))...)
	if current, class := old.Status.CurrentVolumeAttributesClassName, claim.Spec.VolumeAttributesClassName; current != nil {
		const refused = " is forbidden when status.currentVolumeAttributesClassName is not nil"
		switch at := root.Child("volumeAttributesClassName"); {
		case samePointed(class, old.Spec.VolumeAttributesClassName):
		case class == nil:
			errs = append(errs, field.Forbidden(at, "update to nil"+refused))
		case *class == "":
			errs = append(errs, field.Forbidden(at, "update to empty string"+refused))
		}
	}
	return errs
}

// ValidatePersistentVolumeClaimStatus checks a status write.
func ValidatePersistentVolumeClaimStatus(claim, _ *corev1.PersistentVolumeClaim, _ string) field.ErrorList {
	status, root := &claim.Status, field.NewPath("status")
	errs := validateSizes(status.Capacity, root.Child("capacity"))
	at := root.Child("allocatedResourceStatuses")
	for _, name := range sortedNames(status.AllocatedResourceStatuses) {
		errs = append(errs, validateClaimResource(name, at)...)
		if !slices.Contains(resizeStatuses, status.AllocatedResourceStatuses[name]) {
			errs = append(errs, field.NotSupported(at, name, resizeStatuses))
		}
	}
	at = root.Child("allocatedResources")
	for _, name := range sortedNames(status.AllocatedResources) {
		wrong := validateClaimResource(name, at)
		if len(wrong) == 0 {
			wrong = validateSizes(corev1.ResourceList{name: status.AllocatedResources[name]}, at)
		}
		errs = append(errs, wrong...)
	}
	return errs
}

var resizeStatuses = []corev1.ClaimResourceStatus{
	corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible,
	corev1.PersistentVolumeClaimNodeResizeInProgress, corev1.PersistentVolumeClaimNodeResizeInfeasible,
	corev1.PersistentVolumeClaimNodeResizePending,
}

// validateSizes is validateBasicResource for each of some amounts.
func validateSizes(amounts corev1.ResourceList, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sortedNames(amounts) {
		amount := amounts[name]
		if n := amount.Value(); n < 0 {
			errs = append(errs, field.Invalid(at.Key(string(name)), n, "must be a valid resource quantity"))
		}
	}
	return errs
}

// validateClaimResource is validatePersistentVolumeClaimResourceKey.
func validateClaimResource(name corev1.ResourceName, at *field.Path) field.ErrorList {
	if errs := named(string(name), validation.IsQualifiedName, at); len(errs) > 0 {
		return errs
	}
	if name != corev1.ResourceStorage && isNative(name) {
		return field.ErrorList{field.NotSupported(at, name, []string{"storage", "custom resources prefixed with unreserved domain"})}
	}
	return nil
}
