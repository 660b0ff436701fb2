package builtin

import (
	"fmt"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// What drivers of storage work with: pkg/apis/storage/v1/defaults.go and pkg/apis/storage/validation/validation.go.

// DefaultCSIDriver fills in defaults.
func DefaultCSIDriver(driver *storagev1.CSIDriver, _ string) {
	spec := &driver.Spec
	fillPointer(&spec.AttachRequired, true)
	fillPointer(&spec.PodInfoOnMount, false)
	fillPointer(&spec.StorageCapacity, false)
	fillPointer(&spec.FSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy)
	if len(spec.VolumeLifecycleModes) == 0 {
		spec.VolumeLifecycleModes = []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent}
	}
	fillPointer(&spec.RequiresRepublish, false)
	fillPointer(&spec.SELinuxMount, false)
}

// ValidateCSIDriver checks a new CSIDriver or an update.
func ValidateCSIDriver(driver, old *storagev1.CSIDriver, _ string) field.ErrorList {
	spec, root := &driver.Spec, field.NewPath("spec")
	var errs field.ErrorList
	policies := []storagev1.FSGroupPolicy{
		storagev1.FileFSGroupPolicy, storagev1.NoneFSGroupPolicy, storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy,
	}
	if policy := spec.FSGroupPolicy; policy != nil && !slices.Contains(policies, *policy) {
		errs = append(errs, field.NotSupported(root.Child("fsGroupPolicy"), policy, policies))
	}
	errs = append(errs, validateTokenRequests(spec.TokenRequests, root.Child("tokenRequests"))...)
	for _, mode := range spec.VolumeLifecycleModes {
		errs = append(errs, supported(mode, []storagev1.VolumeLifecycleMode{
			storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral,
		}, root.Child("volumeLifecycleModes"))...)
	}
	if period := spec.NodeAllocatableUpdatePeriodSeconds; period != nil && *period < 10 {
		errs = append(errs, field.Invalid(root.Child("nodeAllocatableUpdatePeriodSeconds"), *period,
			"must be greater than or equal to 10 seconds"))
	}
	if in := spec.ServiceAccountTokenInSecrets; in != nil && len(spec.TokenRequests) == 0 {
		errs = append(errs, field.Invalid(root.Child("serviceAccountTokenInSecrets"), in,
			"serviceAccountTokenInSecrets is set but no tokenRequests are specified"))
	}
	if old == nil {
		return errs
	}
	was := &old.Spec
	return join(errs,
		immutable(&spec.AttachRequired, &was.AttachRequired, spec.AttachRequired, root.Child("attachedRequired")), // sic
		immutable(&spec.VolumeLifecycleModes, &was.VolumeLifecycleModes, spec.VolumeLifecycleModes, root.Child("volumeLifecycleModes")),
	)
}

func validateTokenRequests(requests []storagev1.TokenRequest, root *field.Path) field.ErrorList {
	const least, most = 600, 1 << 32
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, request := range requests {
		at := root.Index(i)
		if seen[request.Audience] {
			errs = append(errs, field.Duplicate(at.Child("audience"), request.Audience))
			continue
		}
		seen[request.Audience] = true
		at = at.Child("expirationSeconds")
		switch seconds := request.ExpirationSeconds; {
		case seconds == nil:
		case *seconds < least:
			errs = append(errs, field.Invalid(at, *seconds, "may not specify a duration less than 10 minutes"))
		case *seconds > most:
			errs = append(errs, field.Invalid(at, *seconds, "may not specify a duration larger than 2^32 seconds"))
		}
	}
	return errs
}

// ValidateCSINode checks a new CSINode or an update.
func ValidateCSINode(node, old *storagev1.CSINode, _ string) field.ErrorList {
	root := field.NewPath("spec", "drivers")
	var errs field.ErrorList
	names := map[string]bool{}
	for i := range node.Spec.Drivers {
		driver, at := &node.Spec.Drivers[i], root.Index(i)
		errs = append(errs, validateNodeDriver(driver, at)...)
		if names[driver.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), driver.Name))
		}
		names[driver.Name] = true
		errs = append(errs, validateTopologyKeys(driver.TopologyKeys, at)...)
	}
	if old == nil {
		return errs
	}
	for _, was := range old.Spec.Drivers {
		for _, driver := range node.Spec.Drivers {
			if was.Name == driver.Name {
				was.Allocatable, driver.Allocatable = nil, nil // it may change
				errs = append(errs, immutable(&driver, &was, internal(driver, ""), root)...)
			}
		}
	}
	return errs
}

func validateNodeDriver(driver *storagev1.CSINodeDriver, at *field.Path) field.ErrorList {
	const maxID = 192
	errs := validateDriverName(driver.Name, at.Child("name"))
	errs = append(errs, required(driver.NodeID, at.Child("nodeID"))...)
	if len(driver.NodeID) > maxID {
		errs = append(errs, field.Invalid(at.Child("nodeID"), driver.NodeID, fmt.Sprintf("must be %d characters or less", maxID)))
	}
	if driver.Allocatable != nil {
		errs = append(errs, notNegative(driver.Allocatable.Count, at.Child("allocatable", "count"))...)
	}
	return errs
}

func validateTopologyKeys(keys []string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, key := range keys {
		errs = append(errs, required(key, at)...)
		if slices.Contains(keys[:i], key) {
			errs = append(errs, field.Duplicate(at, key))
		}
		errs = append(errs, named(key, validation.IsQualifiedName, at)...)
	}
	return errs
}

// ValidateVolumeAttachment checks a new VolumeAttachment, an update or a write of the status.
func ValidateVolumeAttachment(attachment, old *storagev1.VolumeAttachment, version string) field.ErrorList {
	spec, root := &attachment.Spec, field.NewPath("spec")
	errs := validateAttacher(spec.Attacher, version, root.Child("attacher"))
	source, at := &spec.Source, root.Child("source")
	const one = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
	switch name := source.PersistentVolumeName; {
	case name == nil && source.InlineVolumeSpec == nil:
		errs = append(errs, field.Required(at, one))
	case name != nil && source.InlineVolumeSpec != nil:
		errs = append(errs, field.Forbidden(at, one))
	case name != nil && *name == "":
		errs = append(errs, field.Required(at.Child("persistentVolumeName"), "must specify non empty persistentVolumeName"))
	}
	errs = append(errs, named(spec.NodeName, validation.IsDNS1123Subdomain, root.Child("nodeName"))...)
	status := field.NewPath("status")
	size := 0
	for key, value := range attachment.Status.AttachmentMetadata {
		size += len(key) + len(value)
	}
	if size > maxAttachmentMetadata {
		errs = append(errs, field.TooLong(status.Child("attachmentMetadata"), "", maxAttachmentMetadata))
	}
	errs = append(errs, validateVolumeError(attachment.Status.AttachError, version, status.Child("attachError"))...)
	errs = append(errs, validateVolumeError(attachment.Status.DetachError, version, status.Child("detachError"))...)
	if name := source.PersistentVolumeName; name != nil {
		errs = append(errs, named(*name, validation.IsDNS1123Subdomain, field.NewPath("spec.source.persistentVolumeName"))...)
	}
	if old == nil || canon.Equal(spec, &old.Spec) {
		return errs
	}
	return append(errs, field.Invalid(root, internal(spec, version), apivalidation.FieldImmutableErrorMsg).MarkCoveredByDeclarative())
}

// validateAttacher checks the name of a driver, which 1.37 does by declaration, in words of its own.
func validateAttacher(name, version string, at *field.Path) field.ErrorList {
	errs := validateDriverName(name, at)
	for _, e := range errs {
		if since(version, 37) && e.Type == field.ErrorTypeInvalid {
			e.Detail = strings.NewReplacer("a lowercase RFC", "an RFC", "of lower case alphanumeric", "of alphanumeric",
				"'example.com'", "'Example.com'").Replace(e.Detail)
		}
	}
	return errs
}

// The limits of what is noted about an attachment.
const maxAttachmentMetadata, maxVolumeErrorMessage = 256 * 1024, 1024

func validateVolumeError(e *storagev1.VolumeError, version string, at *field.Path) field.ErrorList {
	if e == nil {
		return nil
	}
	var errs field.ErrorList
	if len(e.Message) > maxVolumeErrorMessage {
		said := maxAttachmentMetadata // 1.36 names the other limit
		if since(version, 37) {
			said = maxVolumeErrorMessage
		}
		errs = append(errs, field.TooLong(at.Child("message"), "", said))
	}
	if e.ErrorCode != nil && *e.ErrorCode < 0 {
		errs = append(errs, inRange(int64(*e.ErrorCode), 0, 1<<31-1, at.Child("errorCode"))...)
	}
	return errs
}

// ValidateVolumeAttributesClass checks a new VolumeAttributesClass or an update.
func ValidateVolumeAttributesClass(class, old *storagev1.VolumeAttributesClass, _ string) field.ErrorList {
	var errs field.ErrorList
	if old != nil && class.DriverName != old.DriverName {
		errs = append(errs, field.Forbidden(field.NewPath("driverName"), "updates to driverName are forbidden."))
	}
	at := field.NewPath("parameters")
	if old != nil && !canon.Equal(&class.Parameters, &old.Parameters) {
		errs = append(errs, field.Forbidden(at, "updates to parameters are forbidden."))
	}
	if class.DriverName == "" {
		errs = append(errs, field.Required(field.NewPath("driverName"), ""))
	} else {
		errs = append(errs, named(strings.ToLower(class.DriverName), validation.IsQualifiedName, field.NewPath("driverName"))...)
	}
	errs = append(errs, validateParameters(class.Parameters, at)...)
	if len(class.Parameters) == 0 {
		errs = append(errs, field.Required(at, "must contain at least one key/value pair"))
	}
	return errs
}
