package builtin

import (
	"fmt"
	"maps"
	"slices"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// MetadataRules is what differs between kinds in the validation of metadata.
type MetadataRules struct {
	Namespaced bool
	// Name checks names on creation; [ValidName] has those of the built-ins.
	Name apivalidation.ValidateNameFunc
	// Custom marks custom resources, which since 1.37 repeat errors that built-ins no longer do.
	Custom bool
}

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
// An update is checked by the generic code (pkg/registry/rest/update.go validateCommonFields in k8s.io/apiserver) and once
// more by the strategy of the kind, so that most causes are listed twice. In 1.37 the strategies of built-ins no longer
// do so; those of custom resources do.
func ValidateMetadata(meta, old metav1.Object, rules MetadataRules, version string) field.ErrorList {
	root := field.NewPath("metadata")
	validName := rules.Name
	if old != nil {
		validName = path.ValidatePathSegmentName
	}
	errs := apivalidation.ValidateObjectMetaAccessor(changed(meta, old), rules.Namespaced, validName, root)
	if old == nil || !canon.Equal(owners(meta), owners(old)) {
		errs = append(errs, validateOwners(meta.GetOwnerReferences(), version, root.Child("ownerReferences"))...)
	}
	if old == nil {
		return errs
	}
	update := apivalidation.ValidateObjectMetaAccessorUpdate(meta, old, root)
	errs = append(errs, update...)
	if rules.Custom || !since(version, 37) {
		return append(errs, update...)
	}
	return withoutRepeats(errs)
}

// changed returns the metadata without its owner references, and without the collections that are as they were: they were
// valid when they were stored, and most updates, every write of a status among them, leave them alone.
func changed(meta, old metav1.Object) metav1.Object {
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
