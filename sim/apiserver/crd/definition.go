package crd

import (
	"maps"
	"reflect"
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// Definition is what a CustomResourceDefinition says of its kind in one version. It is not changed after Load, and may be used
// by several goroutines at once.
type Definition struct {
	schema.GroupVersionKind
	Plural     string
	Singular   string
	ShortNames []string
	Categories []string
	Namespaced bool
	HasStatus  bool
	// Scale says where the scale subresource finds its values; nil if there is no such subresource.
	Scale *apiextensionsv1.CustomResourceSubresourceScale
	// SelectableFields are the JSON paths (".spec.color") that field selectors may use.
	SelectableFields []string
	// Warning is what every request for the version is warned of, because it is deprecated; empty if it is not.
	Warning string

	resource   *apiextensionsv1.CustomResourceDefinition
	versions   []*Definition // see Versions
	alone      bool          // there is no other version
	structural *structural.Structural
	openAPI    *spec.Schema
	defaults   *node
	embedded   bool            // objects hold other objects, whose metadata is checked too
	header     map[string]bool // what every object has that the schema restricts: apiVersion, kind, metadata
	unique     bool            // there are lists that may hold nothing twice
	whole      *validate.SchemaValidator
	fields     map[string]*validate.SchemaValidator // by top-level field; nil if the whole has rules of its own
	status     *validate.SchemaValidator            // of a status alone
	checker    func() RuleChecker                   // of the validation rules; nil for none
	gaps       []string
}

// Schema returns the schema of the kind with Kubernetes' extensions, as it is published, to be read only.
func (d *Definition) Schema() *spec.Schema { return d.openAPI }

// Gaps lists what the CustomResourceDefinition asks for that is not modelled, in a fixed order.
func (d *Definition) Gaps() []string { return d.gaps }

// HasScale says whether there is a scale subresource.
func (d *Definition) HasScale() bool { return d.Scale != nil }

// Versions returns the kind in every version that is served: first the one in which objects are stored, then the others in the
// order in which they are written. If the one in which they are stored is not served, another comes first.
func (d *Definition) Versions() []*Definition { return d.versions }

// Resource returns the CustomResourceDefinition as it was written, to be read only.
func (d *Definition) Resource() *apiextensionsv1.CustomResourceDefinition { return d.resource }

func (d *Definition) name() string { return d.Plural + "." + d.Group }

// Convert returns an object of any version as one of this version, as the conversion strategy None does it: it says that it is of
// this version, loses the fields that it does not have and gets its defaults. The object is not changed.
func (d *Definition) Convert(object map[string]any) map[string]any {
	converted := runtime.DeepCopyJSON(object)
	converted["apiVersion"] = d.GroupVersion().String()
	d.Prune(converted)
	d.Default(converted)
	return converted
}

// Prune drops the fields that the schema does not know, in place.
func (d *Definition) Prune(object map[string]any) {
	pruning.Prune(object, d.structural, true)
	if d.embedded {
		// What cannot be decoded as the metadata of an embedded object is dropped too. It cannot fail when told to drop.
		_ = objectmeta.Coerce(nil, object, d.structural, false, true)
	}
	if metadata, ok := object["metadata"].(map[string]any); ok {
		for name := range metadata {
			if !metadataFields[name] {
				delete(metadata, name)
			}
		}
	}
}

// PruneUnknown drops what [Definition.Prune] drops, and returns the paths of the fields that neither the schema nor the metadata
// of objects know, in the order in which a real server warns of them: schemaCoercingDecoder in
// pkg/apiserver/customresource_handler.go of k8s.io/apiextensions-apiserver v1.36.
func (d *Definition) PruneUnknown(object map[string]any) []string {
	_, _, unknown, err := objectmeta.GetObjectMetaWithOptions(object,
		objectmeta.ObjectMetaOptions{DropMalformedFields: true, ReturnUnknownFieldPaths: true})
	if err != nil {
		unknown = nil // what is no metadata at all is refused later
	}
	track := structural.UnknownFieldPathOptions{TrackUnknownFieldPaths: true}
	unknown = append(unknown, pruning.PruneWithOptions(object, d.structural, true, track)...)
	if d.embedded {
		_, inside := objectmeta.CoerceWithOptions(nil, object, d.structural, false,
			objectmeta.CoerceOptions{ReturnUnknownFieldPaths: true})
		unknown = append(unknown, inside...)
	}
	return unknown
}

// CheckEmbedded returns what cannot be read of the apiVersion, kind and metadata of the objects within an object, nil if there is
// nothing: then their metadata is tidy afterwards. A request is refused for it, while it is dropped from what is read.
func (d *Definition) CheckEmbedded(object map[string]any) *field.Error {
	if !d.embedded {
		return nil
	}
	return objectmeta.Coerce(nil, object, d.structural, false, false)
}

// metadataFields are the fields of metav1.ObjectMeta.
var metadataFields = map[string]bool{
	"name": true, "generateName": true, "namespace": true, "selfLink": true, "uid": true, "resourceVersion": true,
	"generation": true, "creationTimestamp": true, "deletionTimestamp": true, "deletionGracePeriodSeconds": true,
	"labels": true, "annotations": true, "ownerReferences": true, "finalizers": true, "managedFields": true,
}

// restricted returns what every object has of which a schema says more than its type.
func restricted(s *structural.Structural) map[string]bool {
	found := map[string]bool{"metadata": len(s.Properties["metadata"].Properties) > 0}
	for _, name := range []string{"apiVersion", "kind"} {
		rules := s.Properties[name].ValueValidation
		found[name] = rules != nil && !reflect.ValueOf(*rules).IsZero()
	}
	return found
}

// Default fills in defaults, in place, and drops nulls where the schema allows none.
func (d *Definition) Default(object map[string]any) { d.defaults.fill(object, false) }

// DefaultApplied does so for an object that was merged by an apply. It is not read again, which is where a null that is not allowed
// would be dropped: unstructuredDefaulter and unstructuredSchemaCoercer of pkg/apiserver/customresource_handler.go in
// k8s.io/apiextensions-apiserver v1.36.
func (d *Definition) DefaultApplied(object map[string]any) { d.defaults.fill(object, true) }

// compile makes all that is needed of a schema.
func (d *Definition) compile(s *structural.Structural, at *field.Path) field.ErrorList {
	c := compiler{definition: d}
	d.structural = s
	d.openAPI = s.ToKubeOpenAPI()
	fixIntOrString(d.openAPI)
	d.defaults = c.node(s, at)
	if len(c.errs) > 0 {
		return c.errs
	}
	if c.ruled && rules != nil {
		if errs := rules.Review(s, at); len(errs) > 0 {
			return errs
		}
		compile := rules.Compile
		d.checker = sync.OnceValue(func() RuleChecker { return compile(s) })
	}
	d.whole = validate.NewSchemaValidator(d.openAPI, nil, "", strfmt.Default)
	if independent(s.ValueValidation) {
		d.fields = map[string]*validate.SchemaValidator{}
		for name, property := range d.openAPI.Properties {
			d.fields[name] = validate.NewSchemaValidator(&property, nil, name, strfmt.Default)
		}
	}
	d.header = restricted(s)
	if status, ok := d.openAPI.Properties["status"]; ok {
		d.status = validate.NewSchemaValidator(&status, nil, "", strfmt.Default)
	}
	return nil
}

// independent says whether an object is valid if each of its fields is.
func independent(v *structural.ValueValidation) bool {
	return v == nil || len(v.AllOf)+len(v.AnyOf)+len(v.OneOf) == 0 && v.Not == nil &&
		v.MinProperties == nil && v.MaxProperties == nil
}

// fixIntOrString gives the types to int-or-string schemas that the conversion leaves untyped.
func fixIntOrString(s *spec.Schema) {
	if s == nil {
		return
	}
	if _, ok := s.Extensions["x-kubernetes-int-or-string"]; ok {
		s.Type = spec.StringOrArray{"integer", "string"}
	}
	for name, property := range s.Properties {
		fixIntOrString(&property)
		s.Properties[name] = property
	}
	if s.Items != nil {
		fixIntOrString(s.Items.Schema)
	}
	if s.AdditionalProperties != nil {
		fixIntOrString(s.AdditionalProperties.Schema)
	}
}

// compiler walks a schema once, in a fixed order.
type compiler struct {
	definition *Definition
	ruled      bool // there are validation rules
	errs       field.ErrorList
}

// node returns what defaulting needs of a schema, and notes its gaps and errors.
func (c *compiler) node(s *structural.Structural, at *field.Path) *node {
	if s == nil {
		return nil
	}
	c.pruneDefault(s)
	n := &node{nullable: s.Nullable, value: s.Default.Object}
	c.definition.embedded = c.definition.embedded || s.XEmbeddedResource
	c.definition.unique = c.definition.unique || s.XListType != nil && *s.XListType != "atomic"
	c.noteRules(s.XValidations, at)
	c.checkDefault(s, at.Child("default"))
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		child := c.node(&property, at.Child("properties").Key(name))
		if n.properties == nil {
			n.properties = map[string]*node{}
		}
		n.properties[name] = child
		if child.value != nil {
			n.defaulted = append(n.defaulted, name)
		}
	}
	n.items = c.node(s.Items, at.Child("items"))
	if s.AdditionalProperties != nil {
		n.additional = c.node(s.AdditionalProperties.Structural, at.Child("additionalProperties"))
	}
	return n
}

// pruneDefault drops from a default what the schema does not know; PruneDefaults in pkg/apiserver/schema/defaulting/prune.go.
func (c *compiler) pruneDefault(s *structural.Structural) {
	if s.Default.Object == nil {
		return
	}
	value := runtime.DeepCopyJSONValue(s.Default.Object)
	_ = objectmeta.Coerce(nil, value, s, false, true) // it cannot fail when told to drop
	pruning.Prune(value, s, false)
	s.Default.Object = value
}

// checkDefault refuses a default that is itself not valid.
func (c *compiler) checkDefault(s *structural.Structural, at *field.Path) {
	if s.Default.Object == nil || len(c.errs) > 0 {
		return
	}
	openAPI := s.ToKubeOpenAPI()
	fixIntOrString(openAPI)
	result := validate.NewSchemaValidator(openAPI, nil, "", strfmt.Default).Validate(s.Default.Object)
	c.errs = append(c.errs, fieldErrors(result, at)...)
}
