package builtin

import (
	"fmt"
	"slices"
	"strings"

	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/api/validation/path"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MetadataRules is what differs between kinds in the validation of metadata.
type MetadataRules struct {
	Namespaced bool
	// Name checks names on creation; [ValidName] has those of the built-ins.
	Name apivalidation.ValidateNameFunc
	// Custom marks custom resources, which since 1.37 repeat errors that built-ins no longer do.
	Custom bool
}

// ValidName returns the rule for the names of a built-in kind: DNS labels for StatefulSet and Namespace, DNS labels that
// start with a letter for Service, DNS subdomains for the rest.
func ValidName(kind string) apivalidation.ValidateNameFunc {
	switch kind {
	case "StatefulSet", "Namespace":
		return apivalidation.NameIsDNSLabel
	case "Service":
		return apivalidation.NameIsDNS1035Label
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
	if old == nil {
		errs := apivalidation.ValidateObjectMetaAccessor(meta, rules.Namespaced, rules.Name, root)
		return inWordsOf(version, errs, meta)
	}
	errs := apivalidation.ValidateObjectMetaAccessor(meta, rules.Namespaced, path.ValidatePathSegmentName, root)
	update := apivalidation.ValidateObjectMetaAccessorUpdate(meta, old, root)
	errs = append(errs, update...)
	if rules.Custom || !since(version, 37) {
		errs = append(errs, update...)
	} else {
		errs = withoutRepeats(errs)
	}
	return inWordsOf(version, errs, meta)
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

// inWordsOf puts errors about owner references, which come from the libraries of 1.36, into the words of 1.37: it names the
// reference and calls what is missing required.
func inWordsOf(version string, errs field.ErrorList, meta metav1.Object) field.ErrorList {
	const owners = "metadata.ownerReferences"
	ofOwner := func(err *field.Error) bool { return strings.HasPrefix(err.Field, owners+".") }
	if !since(version, 37) || !slices.ContainsFunc(errs, ofOwner) {
		return errs
	}
	kept := slices.DeleteFunc(errs, ofOwner)
	for i, owner := range meta.GetOwnerReferences() {
		at := fmt.Sprintf("%s[%d]", owners, i)
		_, version, versioned := strings.Cut(owner.APIVersion, "/")
		if owner.APIVersion == "" || versioned && version == "" {
			kept = append(kept, field.Invalid(field.NewPath(at, "apiVersion"), owner.APIVersion, "version must not be empty"))
		}
		for _, required := range []struct{ name, value string }{
			{"kind", owner.Kind}, {"name", owner.Name}, {"uid", string(owner.UID)},
		} {
			if required.value == "" {
				kept = append(kept, field.Required(field.NewPath(at, required.name), "must not be empty"))
			}
		}
	}
	return kept
}
