package builtin

import (
	"fmt"
	"path"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// DefaultStorageClass fills in defaults: pkg/apis/storage/v1/defaults.go.
func DefaultStorageClass(class *storagev1.StorageClass, _ string) {
	fillPointer(&class.ReclaimPolicy, corev1.PersistentVolumeReclaimDelete)
	fillPointer(&class.VolumeBindingMode, storagev1.VolumeBindingImmediate)
}

// ValidateStorageClass checks a new StorageClass or an update; pkg/apis/storage/validation/validation.go.
func ValidateStorageClass(class, old *storagev1.StorageClass, _ string) field.ErrorList {
	at := field.NewPath("provisioner")
	var errs field.ErrorList
	if class.Provisioner == "" {
		errs = append(errs, field.Required(at, ""))
	} else {
		errs = append(errs, named(strings.ToLower(class.Provisioner), validation.IsQualifiedName, at)...)
	}
	errs = append(errs, validateParameters(class.Parameters, field.NewPath("parameters"))...)
	reclaims := []corev1.PersistentVolumeReclaimPolicy{corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain}
	if policy := class.ReclaimPolicy; policy != nil && *policy != "" && !slices.Contains(reclaims, *policy) {
		errs = append(errs, field.NotSupported(field.NewPath("reclaimPolicy"), policy, reclaims))
	}
	modes := []storagev1.VolumeBindingMode{storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer}
	if mode := class.VolumeBindingMode; mode != nil && !slices.Contains(modes, *mode) {
		errs = append(errs, field.NotSupported(field.NewPath("volumeBindingMode"), mode, modes))
	}
	if old == nil {
		return errs
	}
	frozen := join(
		immutable(&class.Parameters, &old.Parameters, class.Parameters, field.NewPath("parameters")),
		immutable(&class.Provisioner, &old.Provisioner, class.Provisioner, at),
		immutable(&class.ReclaimPolicy, &old.ReclaimPolicy, class.ReclaimPolicy, field.NewPath("reclaimPolicy")),
		immutable(&class.VolumeBindingMode, &old.VolumeBindingMode, class.VolumeBindingMode, field.NewPath("volumeBindingMode")),
	)
	return append(errs, frozen.MarkCoveredByDeclarative()...)
}

func validateParameters(parameters map[string]string, at *field.Path) field.ErrorList {
	const maxCount, maxSize = 512, 256 * 1024
	if len(parameters) > maxCount {
		return field.ErrorList{field.TooLong(at, "", maxCount)}
	}
	size := 0
	var errs field.ErrorList
	for key, value := range parameters {
		if key == "" {
			errs = append(errs, field.Invalid(at, key, "field can not be empty."))
		}
		size += len(key) + len(value)
	}
	if size > maxSize {
		errs = append(errs, field.TooLong(at, "", maxSize))
	}
	return errs
}

// DefaultPersistentVolume fills in defaults: pkg/apis/core/v1/defaults.go.
func DefaultPersistentVolume(volume *corev1.PersistentVolume, _ string) {
	fill(&volume.Status.Phase, corev1.VolumePending)
	spec := &volume.Spec
	fill(&spec.PersistentVolumeReclaimPolicy, corev1.PersistentVolumeReclaimRetain)
	fillPointer(&spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	defaultAmounts(spec.Capacity)
	if spec.HostPath != nil {
		fillPointer(&spec.HostPath.Type, corev1.HostPathUnset)
	}
	if spec.ISCSI != nil {
		fill(&spec.ISCSI.ISCSIInterface, "default")
	}
}

// PreparePersistentVolume sets the status of a new volume; pkg/registry/core/persistentvolume/strategy.go.
func PreparePersistentVolume(volume *corev1.PersistentVolume) {
	created := volume.CreationTimestamp
	volume.Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumePending, LastPhaseTransitionTime: &created}
}

// ValidatePersistentVolume checks a new volume or an update; pkg/apis/core/validation/validation.go.
func ValidatePersistentVolume(volume, old *corev1.PersistentVolume, version string) field.ErrorList {
	if old == nil {
		return validateVolumeSpec(&volume.Spec)
	}
	if canon.Equal(&volume.Spec, &old.Spec) {
		return nil
	}
	errs := validateVolumeSpec(&volume.Spec)
	return join(errs, errs, validateVolumeUpdate(&volume.Spec, &old.Spec, version)) // an update is checked twice like a new object
}

func validateVolumeSpec(spec *corev1.PersistentVolumeSpec) field.ErrorList {
	root := field.NewPath("spec")
	errs := join(
		validateAccessModes(spec.AccessModes, "", root.Child("accessModes")),
		validateCapacity(spec.Capacity, root.Child("capacity")),
	)
	if policy := spec.PersistentVolumeReclaimPolicy; policy != "" {
		errs = append(errs, supported(policy, []corev1.PersistentVolumeReclaimPolicy{
			corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRecycle, corev1.PersistentVolumeReclaimRetain,
		}, root.Child("persistentVolumeReclaimPolicy"))...)
	}
	if affinity := spec.NodeAffinity; affinity != nil {
		if affinity.Required == nil {
			errs = append(errs, field.Required(root.Child("nodeAffinity", "required"), "must specify required node constraints"))
		} else {
			errs = append(errs, validateNodeSelector(affinity.Required, root.Child("nodeAffinity", "required"))...)
		}
	}
	errs = append(errs, validatePersistentSource(spec, root)...)
	if host := spec.HostPath; host != nil && path.Clean(host.Path) == "/" &&
		spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle {
		errs = append(errs, field.Forbidden(root.Child("persistentVolumeReclaimPolicy"), "may not be 'recycle' for a hostPath mount of '/'"))
	}
	if class := spec.StorageClassName; class != "" {
		errs = append(errs, named(class, validation.IsDNS1123Subdomain, root.Child("storageClassName"))...)
	}
	if mode := spec.VolumeMode; mode != nil {
		errs = append(errs, supported(*mode, []corev1.PersistentVolumeMode{
			corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem,
		}, root.Child("volumeMode"))...)
	}
	return errs
}

// validateAccessModes checks the access modes of a volume or a claim; missing is what is said where there are none.
func validateAccessModes(modes []corev1.PersistentVolumeAccessMode, missing string, at *field.Path) field.ErrorList {
	if len(modes) == 0 {
		return field.ErrorList{field.Required(at, missing)}
	}
	known := []corev1.PersistentVolumeAccessMode{
		corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod,
	}
	var errs field.ErrorList
	alone, others := false, false
	for _, mode := range modes {
		switch {
		case !slices.Contains(known, mode):
			errs = append(errs, field.NotSupported(at, mode, known))
		case mode == corev1.ReadWriteOncePod:
			alone = true
		default:
			others = true
		}
	}
	if alone && others {
		errs = append(errs, field.Forbidden(at, "may not use ReadWriteOncePod with other access modes"))
	}
	return errs
}

func validateCapacity(capacity corev1.ResourceList, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(capacity) == 0 {
		errs = append(errs, field.Required(at, ""))
	}
	if _, ok := capacity[corev1.ResourceStorage]; !ok || len(capacity) > 1 {
		errs = append(errs, field.NotSupported(at, capacity, []corev1.ResourceName{corev1.ResourceStorage}))
	}
	for _, name := range sortedNames(capacity) {
		amount := capacity[name]
		if amount.Sign() < 0 {
			errs = append(errs, field.Invalid(at.Key(string(name)), amount.Value(), "must be a valid resource quantity"))
		}
		if amount.Sign() <= 0 {
			errs = append(errs, field.Invalid(at.Key(string(name)), amount.String(), "must be greater than zero"))
		}
	}
	return errs
}

// validatePersistentSource checks that there is one place where the volume is, and what operators say of the usual ones.
func validatePersistentSource(spec *corev1.PersistentVolumeSpec, root *field.Path) field.ErrorList {
	var names []string
	for f, value := range reflect.ValueOf(&spec.PersistentVolumeSource).Elem().Fields() {
		if !value.IsNil() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	var errs field.ErrorList
	require := func(missing bool, at *field.Path, text string) {
		if missing {
			errs = append(errs, field.Required(at, text))
		}
	}
	switch {
	case spec.HostPath != nil:
		errs = validateHostPath(spec.HostPath, root.Child("hostPath"))
	case spec.NFS != nil:
		errs = validateNFS(spec.NFS, root.Child("nfs"))
	case spec.Local != nil:
		require(spec.Local.Path == "", root.Child("local", "path"), "")
		require(spec.NodeAffinity == nil, root.Child("nodeAffinity"), "Local volume requires node affinity")
	case spec.CSI != nil:
		errs = validateDriverName(spec.CSI.Driver, root.Child("csi", "driver"))
		require(spec.CSI.VolumeHandle == "", root.Child("csi", "volumeHandle"), "")
	}
	switch len(names) {
	case 0:
		errs = append(errs, field.Required(root, "must specify a volume type"))
	case 1:
	default:
		for _, name := range names[1:] {
			errs = append(errs, field.Forbidden(root.Child(name), "may not specify more than 1 volume type"))
		}
	}
	return errs
}

func validateVolumeUpdate(spec, old *corev1.PersistentVolumeSpec, version string) field.ErrorList {
	var errs field.ErrorList
	source := &spec.PersistentVolumeSource
	if spec.CSI != nil && old.CSI != nil && old.CSI.ControllerExpandSecretRef == nil && spec.CSI.ControllerExpandSecretRef != nil {
		source = source.DeepCopy() // it may be added
		source.CSI.ControllerExpandSecretRef = nil
	}
	if !canon.Equal(source, &old.PersistentVolumeSource) {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "persistentvolumesource"),
			"spec.persistentvolumesource is immutable after creation\n"+
				diff.Diff(internal(&old.PersistentVolumeSource, version), internal(source, version))))
	}
	errs = append(errs, immutable(&spec.VolumeMode, &old.VolumeMode, spec.VolumeMode, field.NewPath("volumeMode"))...)
	if old.NodeAffinity != nil && !canon.Equal(spec.NodeAffinity, generalLabels(old.NodeAffinity, spec.NodeAffinity)) {
		errs = append(errs, field.Invalid(field.NewPath("nodeAffinity"), internal(spec.NodeAffinity, version),
			apivalidation.FieldImmutableErrorMsg+", except for updating from beta label to GA"))
	}
	if class := old.VolumeAttributesClassName; class != nil && spec.VolumeAttributesClassName == nil {
		errs = append(errs, field.Forbidden(field.NewPath("spec", "volumeAttributesClassName"), "update from non-nil value to nil is forbidden"))
	}
	return errs
}

// generalLabels returns the old affinity with the labels that became generally available, where the new one has them;
// getMaskNodeSelectorLabelChangeEqualities. As there, a label may also be replaced with none, which is refused elsewhere.
func generalLabels(old, now *corev1.VolumeNodeAffinity) *corev1.VolumeNodeAffinity {
	if now == nil || now.Required == nil || old.Required == nil {
		return old
	}
	out := old.DeepCopy()
	terms, wanted := out.Required.NodeSelectorTerms, now.Required.NodeSelectorTerms
	for i := range terms[:min(len(terms), len(wanted))] {
		for j := range terms[i].MatchExpressions[:min(len(terms[i].MatchExpressions), len(wanted[i].MatchExpressions))] {
			key, want := &terms[i].MatchExpressions[j].Key, wanted[i].MatchExpressions[j].Key
			if betaLabels[*key] == want {
				*key = want
			}
		}
	}
	return out
}

var betaLabels = map[string]string{
	corev1.LabelFailureDomainBetaZone:   corev1.LabelTopologyZone,
	corev1.LabelFailureDomainBetaRegion: corev1.LabelTopologyRegion,
	corev1.LabelInstanceType:            corev1.LabelInstanceTypeStable,
	"beta.kubernetes.io/os":             corev1.LabelOSStable,
	"beta.kubernetes.io/arch":           corev1.LabelArchStable,
}

// DefaultPriorityClass fills in defaults: pkg/apis/scheduling/v1/defaults.go.
func DefaultPriorityClass(class *schedulingv1.PriorityClass, _ string) {
	fillPointer(&class.PreemptionPolicy, corev1.PreemptLowerPriority)
}

// SystemPriorities are the classes that every cluster has; pkg/apis/scheduling/v1/helpers.go.
var SystemPriorities = map[string]int32{
	"system-node-critical":    2_000_001_000,
	"system-cluster-critical": 2_000_000_000,
}

// maxPriority is the highest priority that is not reserved.
const maxPriority = 1_000_000_000

// ValidatePriorityClass checks a new PriorityClass or an update; pkg/apis/scheduling/validation/validation.go.
func ValidatePriorityClass(class, old *schedulingv1.PriorityClass, _ string) field.ErrorList {
	at := field.NewPath("value")
	if old != nil {
		var errs field.ErrorList
		if class.Value != old.Value {
			errs = append(errs, field.Forbidden(at, "may not be changed in an update."))
		}
		return append(errs, immutable(&class.PreemptionPolicy, &old.PreemptionPolicy, class.PreemptionPolicy,
			field.NewPath("preemptionPolicy"))...)
	}
	var errs field.ErrorList
	if strings.HasPrefix(class.Name, "system-") {
		if reason := refuseSystemPriority(class); reason != "" {
			errs = append(errs, field.Forbidden(field.NewPath("metadata", "name"),
				"priority class names with 'system-' prefix are reserved for system use only. error: "+reason))
		}
	} else if class.Value > maxPriority {
		errs = append(errs, field.Forbidden(at, fmt.Sprintf("maximum allowed value of a user defined priority is %d", maxPriority)))
	}
	return append(errs, oneOf(*class.PreemptionPolicy, []corev1.PreemptionPolicy{ // defaulted
		corev1.PreemptLowerPriority, corev1.PreemptNever,
	}, field.NewPath("preemptionPolicy"))...)
}

func refuseSystemPriority(class *schedulingv1.PriorityClass) string {
	value, ok := SystemPriorities[class.Name]
	switch {
	case !ok:
		return class.Name + " is not a known system priority class"
	case value != class.Value:
		return fmt.Sprintf("value of %s PriorityClass must be %d", class.Name, value)
	case class.GlobalDefault:
		return fmt.Sprintf("globalDefault of %s PriorityClass must be false", class.Name)
	default:
		return ""
	}
}

// PreparePersistentVolumeStatus notes when the phase of a volume changed; pkg/registry/core/persistentvolume/strategy.go.
func PreparePersistentVolumeStatus(volume, old *corev1.PersistentVolume, now metav1.Time) {
	status, before := &volume.Status, &old.Status
	since := status.LastPhaseTransitionTime
	switch {
	case status.Phase == before.Phase && since == nil:
		status.LastPhaseTransitionTime = before.LastPhaseTransitionTime
	case status.Phase != before.Phase && (since == nil || since.Equal(before.LastPhaseTransitionTime)):
		status.LastPhaseTransitionTime = &now
	}
}
