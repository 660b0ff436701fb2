package builtin

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// MetadataRules is what differs between kinds in the validation of metadata.
type MetadataRules struct {
	Namespaced bool
	// Name checks names on creation; [ValidName] has those of the built-ins.
	Name apivalidation.ValidateNameFunc
	// Checks is what the strategy of the kind checks; [CustomChecks] or one of [MetadataChecks].
	Checks Checks
	// Custom marks custom resources, which since 1.37 repeat errors that built-ins no longer do.
	Custom bool
}

// Checks is what the strategy of a kind checks of metadata in 1.36, after the generic code has: one letter a time, u for what an
// update may not do, f for all that holds of a new object, too. A capital says that finalizers have to be qualified names or
// those of Kubernetes itself, then and on creation: pkg/apis/core/validation/validation.go ValidateObjectMeta and its like. It can
// be seen in how often a cause is listed.
type Checks string

// CustomChecks are those of custom resources and their definitions.
const CustomChecks Checks = "u"

// MetadataChecks returns the checks of a built-in kind, for its main resource and for its status.
func MetadataChecks(kind schema.GroupKind) (main, status Checks) {
	main, status = "U", "U"
	switch kind.Kind {
	case "ConfigMap", "ControllerRevision", "Endpoints", "Ingress", "IngressClass", "PersistentVolumeClaim", "Pod", "Secret",
		"ServiceAccount", "VolumeAttributesClass":
		main = "UF"
	case "ClusterRole", "ClusterRoleBinding", "Job", "Namespace", "Node", "Role", "RoleBinding", "StorageClass":
		main = "FU"
	case "CSINode", "EndpointSlice", "LimitRange", "VolumeAttachment":
		main = "F"
	case "PersistentVolume":
		main = "FF"
	case "RuntimeClass":
		main = "fu"
	case "Lease", "CustomResourceDefinition":
		main, status = CustomChecks, CustomChecks
	case "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
		main = "f"
	case "PodDisruptionBudget":
		main, status = "", ""
	case "CronJob":
		status = ""
	case "Event":
		if kind.Group == "" {
			main = ""
		}
	}
	return main, status
}

// ownFinalizers are the finalizers of Kubernetes itself that are not qualified names.
var ownFinalizers = []string{string(corev1.FinalizerKubernetes), metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents}

func (c Checks) qualified() bool { return strings.ContainsAny(string(c), "UF") }

// ValidName returns the rule for the names of a built-in kind: DNS labels for StatefulSet, Namespace and Service, anything that
// can be part of a path for Event, PodDisruptionBudget and the kinds of RBAC, DNS subdomains for the rest.
func ValidName(kind string) apivalidation.ValidateNameFunc {
	switch kind {
	case "StatefulSet", "Namespace", "Service":
		return apivalidation.NameIsDNSLabel
	case "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding", "Event", "PodDisruptionBudget":
		return path.ValidatePathSegmentName
	default:
		return apivalidation.NameIsDNSSubdomain
	}
}

// ValidateMetadata checks the metadata of a new object (old is nil) or of an update, after the server has set what belongs
// to it: name and namespace, on an update also resourceVersion, uid and creationTimestamp where they were left out.
//
// An update is checked by the generic code (pkg/registry/rest/update.go validateCommonFields in k8s.io/apiserver) and once or
// twice more by the strategy of the kind, so that most causes are listed several times. In 1.37 the strategies of built-ins no
// longer repeat what was said; those of custom resources do.
func ValidateMetadata(meta, old metav1.Object, rules MetadataRules, version string) field.ErrorList {
	root := field.NewPath("metadata")
	if old == nil {
		errs := validateWhole(meta, nil, rules.Namespaced, rules.Name, version, root)
		if rules.Checks.qualified() {
			errs = append(errs, validateFinalizers(meta.GetFinalizers(), root)...)
		}
		return errs
	}
	whole := validateWhole(meta, old, rules.Namespaced, path.ValidatePathSegmentName, version, root)
	update := validateChange(meta, old, version, root)
	errs := join(whole, update)
	for _, check := range rules.Checks {
		switch check {
		case 'f', 'F':
			errs = append(errs, whole...)
		default:
			errs = append(errs, update...)
		}
		if check == 'F' || check == 'U' {
			errs = append(errs, validateFinalizers(meta.GetFinalizers(), root)...)
		}
	}
	if rules.Custom || !since(version, 37) {
		return errs
	}
	return withoutRepeats(errs)
}

// validateChange is ValidateObjectMetaAccessorUpdate in k8s.io/apimachinery pkg/api/validation/objectmeta.go. What the library says
// of owner references are the words of its own version: those of 1.36 take their place, and for 1.37 they have been said.
func validateChange(meta, old metav1.Object, version string, root *field.Path) field.ErrorList {
	errs := apivalidation.ValidateObjectMetaAccessorUpdate(meta, old, root)
	at := root.Child("ownerReferences")
	about := func(prefix *field.Path) func(e *field.Error) bool {
		return func(e *field.Error) bool { return strings.HasPrefix(e.Field, prefix.String()) }
	}
	errs = slices.DeleteFunc(errs, about(at))
	if since(version, 37) {
		return errs
	}
	place := slices.IndexFunc(errs, about(root.Child("managedFields")))
	if place < 0 {
		place = len(errs)
	}
	return slices.Insert(errs, place, validateOwners(meta.GetOwnerReferences(), version, at)...)
}

// validateWhole is ValidateObjectMetaAccessor in k8s.io/apimachinery pkg/api/validation/objectmeta.go, in the words of the version.
func validateWhole(
	meta, old metav1.Object, namespaced bool, name apivalidation.ValidateNameFunc, version string, root *field.Path,
) field.ErrorList {
	sparse := changed(meta, old)
	finalizers, managed := sparse.Finalizers, sparse.ManagedFields
	sparse.Finalizers, sparse.ManagedFields = nil, nil
	errs := apivalidation.ValidateObjectMetaAccessor(sparse, namespaced, name, root)
	if old == nil || !canon.Equal(owners(meta), owners(old)) {
		errs = append(errs, validateOwners(meta.GetOwnerReferences(), version, root.Child("ownerReferences"))...)
	}
	if len(finalizers) > 0 {
		errs = append(errs, apivalidation.ValidateFinalizers(finalizers, root.Child("finalizers"))...)
	}
	if len(managed) > 0 {
		errs = append(errs, metavalidation.ValidateManagedFields(managed, root.Child("managedFields"))...)
	}
	return errs
}

// validateFinalizers is validateKubeFinalizerName.
func validateFinalizers(finalizers []string, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, finalizer := range finalizers {
		if !strings.Contains(finalizer, "/") && !slices.Contains(ownFinalizers, finalizer) {
			errs = append(errs, field.Invalid(root.Child("finalizers").Index(i), finalizer,
				"name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}

// changed returns the metadata without its owner references, and without the collections that are as they were: they were
// valid when they were stored, and most updates, every write of a status among them, leave them alone.
func changed(meta, old metav1.Object) *metav1.ObjectMeta {
	sparse := &metav1.ObjectMeta{
		Name: meta.GetName(), GenerateName: meta.GetGenerateName(), Namespace: meta.GetNamespace(),
		Generation: meta.GetGeneration(), ManagedFields: meta.GetManagedFields(),
	}
	if labels := meta.GetLabels(); old == nil || !maps.Equal(labels, old.GetLabels()) {
		sparse.Labels = labels
	}
	if annotations := meta.GetAnnotations(); old == nil || !maps.Equal(annotations, old.GetAnnotations()) {
		sparse.Annotations = annotations
	}
	if finalizers := meta.GetFinalizers(); old == nil || !slices.Equal(finalizers, old.GetFinalizers()) {
		sparse.Finalizers = finalizers
	}
	return sparse
}

func owners(meta metav1.Object) *[]metav1.OwnerReference {
	references := meta.GetOwnerReferences()
	return &references
}

// withoutRepeats drops errors that were told before.
func withoutRepeats(errs field.ErrorList) field.ErrorList {
	var kept field.ErrorList
	for _, err := range errs {
		if !slices.ContainsFunc(kept, func(k *field.Error) bool { return k.Error() == err.Error() }) {
			kept = append(kept, err)
		}
	}
	return kept
}

// validateOwners checks owner references in the words of the version, which differ: k8s.io/apimachinery
// pkg/api/validation/objectmeta.go, v0.36 and v0.37.
func validateOwners(references []metav1.OwnerReference, version string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	controller := ""
	for i, reference := range references {
		if since(version, 37) {
			errs = append(errs, validateOwner37(reference, at.Index(i))...)
		} else {
			errs = append(errs, validateOwner36(reference, at)...)
		}
		if reference.Controller == nil || !*reference.Controller {
			continue
		}
		name := reference.Kind + "/" + reference.Name
		if controller == "" {
			controller = name
			continue
		}
		errs = append(errs, field.Invalid(at, references, fmt.Sprintf("Only one reference can have Controller set to true. "+
			"Found \"true\" in references for %v and %v", controller, name)))
	}
	return errs
}

func validateOwner36(reference metav1.OwnerReference, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	gvk := schema.FromAPIVersionAndKind(reference.APIVersion, reference.Kind)
	if gvk.Version == "" {
		errs = append(errs, field.Invalid(at.Child("apiVersion"), reference.APIVersion, "version must not be empty"))
	}
	if reference.Kind == "" {
		errs = append(errs, field.Invalid(at.Child("kind"), reference.Kind, "must not be empty"))
	}
	if reference.Name == "" {
		errs = append(errs, field.Invalid(at.Child("name"), reference.Name, "must not be empty"))
	}
	if reference.UID == "" {
		errs = append(errs, field.Invalid(at.Child("uid"), reference.UID, "must not be empty"))
	}
	return append(errs, bannedOwner(reference, gvk, at)...)
}

func validateOwner37(reference metav1.OwnerReference, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	version, err := schema.ParseGroupVersion(reference.APIVersion)
	switch {
	case reference.APIVersion == "":
		errs = append(errs, field.Required(at.Child("apiVersion"), "must not be empty"))
	case err != nil || version.Version == "":
		errs = append(errs, field.Invalid(at.Child("apiVersion"), reference.APIVersion, "must be <group>/<version> or <version>"))
	}
	for _, required := range []struct{ name, value string }{
		{"kind", reference.Kind}, {"name", reference.Name}, {"uid", string(reference.UID)},
	} {
		if required.value == "" {
			errs = append(errs, field.Required(at.Child(required.name), "must not be empty"))
		}
	}
	return append(errs, bannedOwner(reference, version.WithKind(reference.Kind), at)...)
}

func bannedOwner(reference metav1.OwnerReference, gvk schema.GroupVersionKind, at *field.Path) field.ErrorList {
	if _, banned := apivalidation.BannedOwners[gvk]; !banned {
		return nil
	}
	return field.ErrorList{field.Invalid(at, reference, fmt.Sprintf("%s is disallowed from being an owner", gvk))}
}
