package builtin

import (
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/stalemate-dev/stalemate/sim/canon"
)

// DefaultCustomResourceDefinition fills in defaults: pkg/apis/apiextensions/v1/defaults.go of k8s.io/apiextensions-apiserver.
func DefaultCustomResourceDefinition(definition *apiextensionsv1.CustomResourceDefinition, _ string) {
	spec := &definition.Spec
	fill(&spec.Names.Singular, strings.ToLower(spec.Names.Kind))
	if spec.Names.Kind != "" {
		fill(&spec.Names.ListKind, spec.Names.Kind+"List")
	}
	fillPointer(&spec.Conversion, apiextensionsv1.CustomResourceConversion{Strategy: apiextensionsv1.NoneConverter})
	if hook := spec.Conversion.Webhook; hook != nil && hook.ClientConfig != nil && hook.ClientConfig.Service != nil {
		fillPointer(&hook.ClientConfig.Service.Port, 443)
	}
	if len(definition.Status.StoredVersions) == 0 {
		PrepareCustomResourceDefinition(definition)
	}
}

// PrepareCustomResourceDefinition notes in the status in which version its objects are stored;
// pkg/registry/customresourcedefinition/strategy.go of k8s.io/apiextensions-apiserver.
func PrepareCustomResourceDefinition(definition *apiextensionsv1.CustomResourceDefinition) {
	storage := slices.IndexFunc(definition.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Storage })
	if storage < 0 {
		return
	}
	if name := definition.Spec.Versions[storage].Name; !slices.Contains(definition.Status.StoredVersions, name) {
		definition.Status.StoredVersions = append(slices.Clip(definition.Status.StoredVersions), name)
	}
}

// KeepStoredVersions does the same for an update, which has the stored status.
func KeepStoredVersions(definition, _ *apiextensionsv1.CustomResourceDefinition) {
	PrepareCustomResourceDefinition(definition)
}

// ValidateCustomResourceDefinition checks a new definition or an update as far as names and versions go, and that each version
// has a schema; pkg/apis/apiextensions/validation/validation.go of k8s.io/apiextensions-apiserver. What schemas say is not
// looked at.
func ValidateCustomResourceDefinition(definition, old *apiextensionsv1.CustomResourceDefinition, _ string) field.ErrorList {
	spec, root := &definition.Spec, field.NewPath("spec")
	if old != nil && canon.Equal(spec, &old.Spec) {
		return nil
	}
	var errs field.ErrorList
	if name := spec.Names.Plural + "." + spec.Group; old == nil && definition.Name != name {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), definition.Name, "must be spec.names.plural+\".\"+spec.group"))
	}
	switch at := root.Child("group"); {
	case spec.Group == "":
		errs = append(errs, field.Required(at, ""))
	case len(validation.IsDNS1123Subdomain(spec.Group)) > 0:
		errs = append(errs, named(spec.Group, validation.IsDNS1123Subdomain, at)...)
	case !strings.Contains(spec.Group, "."):
		errs = append(errs, field.Invalid(at, spec.Group, "should be a domain with at least one dot"))
	}
	errs = append(errs, oneOf(spec.Scope, []apiextensionsv1.ResourceScope{
		apiextensionsv1.ClusterScoped, apiextensionsv1.NamespaceScoped}, root.Child("scope"))...)
	errs = join(errs, validateVersions(spec.Versions, root), validateResourceNames(&spec.Names, root.Child("names")))
	if old == nil || !isEstablished(old) {
		return errs
	}
	return join(errs,
		immutable(&spec.Scope, &old.Spec.Scope, spec.Scope, root.Child("scope")),
		immutable(&spec.Names.Kind, &old.Spec.Names.Kind, spec.Names.Kind, root.Child("names", "kind")),
		immutable(&spec.Group, &old.Spec.Group, spec.Group, root.Child("group")),
		immutable(&spec.Names.Plural, &old.Spec.Names.Plural, spec.Names.Plural, root.Child("names", "plural")),
	)
}

func isEstablished(definition *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(definition.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
		return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
	})
}

func validateVersions(versions []apiextensionsv1.CustomResourceDefinitionVersion, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	storage, names := 0, map[string]bool{}
	unique := true
	for i, version := range versions {
		at := root.Child("versions").Index(i)
		if version.Storage {
			storage++
		}
		unique = unique && !names[version.Name]
		names[version.Name] = true
		if version.Schema == nil || version.Schema.OpenAPIV3Schema == nil {
			errs = append(errs, field.Required(at.Child("schema", "openAPIV3Schema"), ""))
		}
		for _, message := range validation.IsDNS1035Label(version.Name) {
			errs = append(errs, field.Invalid(at.Child("name"), version.Name, message))
		}
	}
	if !unique {
		errs = append(errs, field.Invalid(root.Child("versions"), internal(versions, ""), "must contain unique version names"))
	}
	if storage != 1 {
		errs = append(errs, field.Invalid(root.Child("versions"), internal(versions, ""),
			"must have exactly one version marked as storage version"))
	}
	return errs
}

func validateResourceNames(names *apiextensionsv1.CustomResourceDefinitionNames, root *field.Path) field.ErrorList {
	var errs field.ErrorList
	check := func(name, value string) {
		if value == "" {
			errs = append(errs, field.Required(root.Child(name), ""))
			return
		}
		if messages := validation.IsDNS1035Label(strings.ToLower(value)); len(messages) > 0 {
			text := strings.Join(messages, ",")
			if name == "kind" || name == "listKind" {
				text = fmt.Sprintf("may have mixed case, but should otherwise match: %s", text)
			}
			errs = append(errs, field.Invalid(root.Child(name), value, text))
		}
	}
	check("plural", names.Plural)
	check("singular", names.Singular)
	check("kind", names.Kind)
	check("listKind", names.ListKind)
	if names.Kind != "" && names.Kind == names.ListKind {
		errs = append(errs, field.Invalid(root.Child("listKind"), names.ListKind, "kind and listKind may not be the same"))
	}
	return errs
}
