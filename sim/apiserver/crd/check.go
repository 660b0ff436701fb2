package crd

import (
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// What else a server refuses in a definition, by pkg/apis/apiextensions/validation/validation.go of k8s.io/apiextensions-apiserver
// v1.36. The paths are those of the server's internal form, as it tells them.

// checkConversion checks how versions are converted; validateCustomResourceConversion.
func checkConversion(c *apiextensionsv1.CustomResourceConversion, at *field.Path) field.ErrorList {
	if c == nil {
		return nil
	}
	configured := c.Webhook != nil && c.Webhook.ClientConfig != nil
	client := at.Child("webhookClientConfig")
	switch c.Strategy {
	case apiextensionsv1.WebhookConverter:
		switch {
		case !configured:
			return field.ErrorList{field.Required(client, "required when strategy is set to Webhook")}
		case (c.Webhook.ClientConfig.URL == nil) == (c.Webhook.ClientConfig.Service == nil):
			return field.ErrorList{field.Required(client, "exactly one of url or service is required")}
		}
	case apiextensionsv1.NoneConverter:
		if configured {
			return field.ErrorList{field.Forbidden(client, "should not be set when strategy is not set to Webhook")}
		}
	case "":
		return field.ErrorList{field.Required(at.Child("strategy"), "")}
	default:
		known := []apiextensionsv1.ConversionStrategyType{apiextensionsv1.NoneConverter, apiextensionsv1.WebhookConverter}
		return field.ErrorList{field.NotSupported(at.Child("strategy"), c.Strategy, known)}
	}
	return nil
}

// checkScale checks where the subresource scale finds its numbers; ValidateCustomResourceDefinitionSubresources.
func checkScale(s *apiextensionsv1.CustomResourceSubresourceScale, at *field.Path) field.ErrorList {
	if s == nil {
		return nil
	}
	var errs field.ErrorList
	check := func(name, path, hint string, roots ...string) {
		at := at.Child("scale." + name)
		switch {
		case path == "":
			errs = append(errs, field.Required(at, ""))
		case path[0] != '.':
			errs = append(errs, field.Invalid(at, path, "must be a simple json path starting with ."))
		case !hasAnyPrefix(path, roots):
			errs = append(errs, field.Invalid(at, path, "should be a json path under "+hint))
		}
	}
	check("specReplicasPath", s.SpecReplicasPath, ".spec", ".spec.")
	check("statusReplicasPath", s.StatusReplicasPath, ".status", ".status.")
	if s.LabelSelectorPath != nil && *s.LabelSelectorPath != "" {
		check("labelSelectorPath", *s.LabelSelectorPath, "either .spec or .status", ".spec.", ".status.")
	}
	return errs
}

func hasAnyPrefix(text string, prefixes []string) bool {
	for _, prefix := range prefixes {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return false
}

// maxSelectableFields is MaxSelectableFields.
const maxSelectableFields = 8

// checkSelectable checks what field selectors may select by; ValidateCustomResourceSelectableFields.
func checkSelectable(selectable []apiextensionsv1.SelectableField, s *structural.Structural, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, f := range selectable {
		path, at := f.JSONPath, at.Index(i).Child("jsonPath")
		found := fieldAt(s, path)
		switch {
		case path == "":
			errs = append(errs, field.Required(at, ""))
		case found == nil:
			errs = append(errs, field.Invalid(at, path, "is an invalid path: does not refer to a valid field"))
		case strings.HasPrefix(path, ".metadata."):
			errs = append(errs, field.Invalid(at, path, "must not point to fields in metadata"))
		case found.Type != "string" && found.Type != "boolean" && found.Type != "integer":
			errs = append(errs, field.Invalid(at, path, "must point to a field of type string, boolean or integer. "+
				"Enum string fields and strings with formats are allowed."))
		case seen[path]:
			errs = append(errs, field.Duplicate(at, path))
		}
		seen[path] = true
	}
	if len(seen) > maxSelectableFields {
		errs = append(errs, field.TooMany(at, len(seen), maxSelectableFields))
	}
	return errs
}

// fieldAt returns the schema of the field that a path like .spec.mode leads to, nil if there is none.
func fieldAt(s *structural.Structural, path string) *structural.Structural {
	rest, ok := strings.CutPrefix(path, ".")
	if !ok {
		return nil
	}
	for name := range strings.SplitSeq(rest, ".") {
		next, ok := s.Properties[name]
		if !ok {
			return nil
		}
		s = &next
	}
	return s
}
