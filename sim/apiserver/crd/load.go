package crd

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/version"

	"github.com/stalemate-dev/stalemate/sim/apiserver/internal/manifest"
)

// Load reads the CustomResourceDefinitions (apiextensions.k8s.io/v1) of a YAML or JSON text, one for each document; empty
// documents are passed over and not counted. It reports everything that is wrong at once: the error's Unwrap() []error are
// *field.Error values whose fields begin with the place of the document, "document[1].spec.names.kind".
func Load(text []byte) ([]*Definition, error) {
	var definitions []*Definition
	err := manifest.Each(text, func(document []byte, at *field.Path) field.ErrorList {
		loaded, problems := load(document, at)
		if len(problems) == 0 {
			definitions = append(definitions, loaded)
		}
		return problems
	})
	if err != nil {
		return nil, err
	}
	return definitions, nil
}

// load reads one document, which is JSON.
func load(text []byte, at *field.Path) (*Definition, field.ErrorList) {
	var head struct{ APIVersion, Kind string }
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, field.ErrorList{field.Invalid(at, "", "must be an object with apiVersion and kind")}
	}
	if head.Kind != "CustomResourceDefinition" {
		return nil, field.ErrorList{field.NotSupported(at.Child("kind"), head.Kind, []string{"CustomResourceDefinition"})}
	}
	if want := apiextensionsv1.SchemeGroupVersion.String(); head.APIVersion != want {
		return nil, field.ErrorList{field.NotSupported(at.Child("apiVersion"), head.APIVersion, []string{want})}
	}
	var resource apiextensionsv1.CustomResourceDefinition
	if err := json.Unmarshal(text, &resource); err != nil {
		return nil, field.ErrorList{field.Invalid(at, "", err.Error())}
	}
	return define(&resource, at)
}

// define makes a definition of a resource; pkg/apis/apiextensions/validation/validation.go says what is valid.
func define(resource *apiextensionsv1.CustomResourceDefinition, at *field.Path) (*Definition, field.ErrorList) {
	versions, root := resource.Spec.Versions, at.Child("spec")
	errs := append(validateNames(resource, at), checkConversion(resource.Spec.Conversion, root.Child("conversion"))...)
	home, problem := homeVersion(versions, root.Child("versions"))
	if problem != nil {
		return nil, append(errs, problem)
	}
	var first *Definition
	for _, i := range servedVersions(versions, home) {
		d, problems := defineVersion(resource, i, root.Child("versions").Index(i))
		errs = append(errs, problems...)
		if first == nil {
			first = d
		}
		if d != nil && first != nil {
			first.versions = append(first.versions, d)
		}
	}
	if len(errs) > 0 {
		return nil, errs
	}
	for _, d := range first.versions {
		d.versions, d.alone = first.versions, len(first.versions) == 1
	}
	first.noteVersions(versions[home].Storage)
	return first, nil
}

// defineVersion makes the definition of one version of a resource.
func defineVersion(resource *apiextensionsv1.CustomResourceDefinition, index int, at *field.Path) (*Definition, field.ErrorList) {
	spec, v := &resource.Spec, &resource.Spec.Versions[index]
	d := &Definition{
		GroupVersionKind: schema.GroupVersionKind{Group: spec.Group, Version: v.Name, Kind: spec.Names.Kind},
		Plural:           spec.Names.Plural,
		Singular:         cmp.Or(spec.Names.Singular, strings.ToLower(spec.Names.Kind)),
		ShortNames:       spec.Names.ShortNames,
		Categories:       spec.Names.Categories,
		Namespaced:       spec.Scope == apiextensionsv1.NamespaceScoped,
		Warning:          deprecation(spec, v),
		resource:         resource,
	}
	var errs field.ErrorList
	if v.Subresources != nil {
		d.HasStatus = v.Subresources.Status != nil
		d.Scale = v.Subresources.Scale
		errs = checkScale(d.Scale, at.Child("subresources"))
	}
	for _, f := range v.SelectableFields {
		d.SelectableFields = append(d.SelectableFields, f.JSONPath)
	}
	path := at.Child("schema", "openAPIV3Schema")
	if v.Schema == nil || v.Schema.OpenAPIV3Schema == nil {
		return nil, field.ErrorList{field.Required(path, "schemas are required")}
	}
	s, problems := structuralSchema(v.Schema.OpenAPIV3Schema, path)
	if s == nil || len(problems) > 0 {
		return nil, problems
	}
	errs = append(errs, checkSelectable(v.SelectableFields, s, at.Child("selectableFields"))...)
	return d, append(errs, d.compile(s.DeepCopy(), path)...)
}

// servedVersions returns the indexes of the versions that are served, that of home first.
func servedVersions(versions []apiextensionsv1.CustomResourceDefinitionVersion, home int) []int {
	served := []int{home}
	for i, v := range versions {
		if v.Served && i != home {
			served = append(served, i)
		}
	}
	return served
}

// deprecation returns what requests for a version are warned of; defaultDeprecationWarning in
// pkg/apiserver/customresource_handler.go of k8s.io/apiextensions-apiserver v1.36.
func deprecation(spec *apiextensionsv1.CustomResourceDefinitionSpec, v *apiextensionsv1.CustomResourceDefinitionVersion) string {
	switch {
	case !v.Deprecated:
		return ""
	case v.DeprecationWarning != nil:
		return *v.DeprecationWarning
	}
	text := fmt.Sprintf("%s/%s %s is deprecated", spec.Group, v.Name, spec.Names.Kind)
	best := v.Name
	for _, other := range spec.Versions {
		if other.Served && !other.Deprecated && version.CompareKubeAwareVersionStrings(other.Name, best) > 0 {
			best = other.Name
		}
	}
	if best != v.Name {
		text += fmt.Sprintf("; use %s/%s %s", spec.Group, best, spec.Names.Kind)
	}
	return text
}

// noteVersions adds the gaps that come from several versions.
func (d *Definition) noteVersions(stored bool) {
	if !stored {
		d.gaps = append(d.gaps, fmt.Sprintf("%s: the version in which objects are stored is not served: they are stored as %s",
			d.name(), d.Version))
	}
	for _, other := range d.versions[1:] {
		if path := d.defaults.fillsMore(other.defaults, ""); path != "" {
			d.gaps = append(d.gaps, fmt.Sprintf("%s: %s has a default in version %s and none in %s: it is stored also where %s was written",
				d.name(), path, d.Version, other.Version, other.Version))
		}
	}
	if c := d.resource.Spec.Conversion; c != nil && c.Strategy == apiextensionsv1.WebhookConverter {
		d.gaps = append(d.gaps, d.name()+": versions are converted by a webhook, which is not called: they are as with strategy None")
	}
}

// validateNames checks what identifies the kind.
func validateNames(resource *apiextensionsv1.CustomResourceDefinition, at *field.Path) field.ErrorList {
	spec, root := &resource.Spec, at.Child("spec")
	var errs field.ErrorList
	name := func(value string, rule func(string) []string, at *field.Path) {
		if value == "" {
			errs = append(errs, field.Required(at, ""))
			return
		}
		for _, message := range rule(value) {
			errs = append(errs, field.Invalid(at, value, message))
		}
	}
	name(spec.Group, validation.IsDNS1123Subdomain, root.Child("group"))
	name(spec.Names.Plural, validation.IsDNS1035Label, root.Child("names", "plural"))
	lower := func(kind string) []string { return validation.IsDNS1035Label(strings.ToLower(kind)) }
	name(spec.Names.Kind, lower, root.Child("names", "kind"))
	if spec.Names.Singular != "" {
		name(spec.Names.Singular, validation.IsDNS1035Label, root.Child("names", "singular"))
	}
	if want := spec.Names.Plural + "." + spec.Group; resource.Name != want {
		errs = append(errs, field.Invalid(at.Child("metadata", "name"), resource.Name, "must be spec.names.plural+\".\"+spec.group"))
	}
	if spec.Scope != apiextensionsv1.NamespaceScoped && spec.Scope != apiextensionsv1.ClusterScoped {
		errs = append(errs, field.NotSupported(root.Child("scope"), spec.Scope,
			[]apiextensionsv1.ResourceScope{apiextensionsv1.ClusterScoped, apiextensionsv1.NamespaceScoped}))
	}
	if spec.PreserveUnknownFields {
		errs = append(errs, field.Invalid(root.Child("preserveUnknownFields"), true,
			"cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"))
	}
	return errs
}

// homeVersion returns the index of the version that objects are stored in, or of the first one that is served if that is not.
func homeVersion(versions []apiextensionsv1.CustomResourceDefinitionVersion, at *field.Path) (int, *field.Error) {
	stored, served := -1, -1
	seen := map[string]bool{}
	for i, v := range versions {
		if messages := validation.IsDNS1035Label(v.Name); len(messages) > 0 {
			return 0, field.Invalid(at.Index(i).Child("name"), v.Name, messages[0])
		}
		if seen[v.Name] {
			return 0, field.Duplicate(at.Index(i).Child("name"), v.Name)
		}
		seen[v.Name] = true
		if v.Storage && stored >= 0 {
			return 0, field.Invalid(at, "", "must have exactly one version marked as storage version")
		}
		if v.Storage {
			stored = i
		}
		if v.Served && served < 0 {
			served = i
		}
	}
	switch {
	case stored < 0:
		return 0, field.Invalid(at, "", "must have exactly one version marked as storage version")
	case served < 0:
		return 0, field.Invalid(at, "", "no version is served: there would be no such kind")
	case versions[stored].Served:
		return stored, nil
	default:
		return served, nil
	}
}

// structuralSchema converts a schema to the form that pruning and defaulting use, and checks it.
func structuralSchema(props *apiextensionsv1.JSONSchemaProps, at *field.Path) (*structural.Structural, field.ErrorList) {
	var internal apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(props, &internal, nil); err != nil {
		return nil, field.ErrorList{field.Invalid(at, "", err.Error())}
	}
	s, err := structural.NewStructural(&internal)
	if err != nil {
		return nil, field.ErrorList{field.Invalid(at, "", err.Error())}
	}
	return s, structural.ValidateStructural(at, s)
}
