package crd

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// The names of the models that every kind shares, as they are in a real server's OpenAPI.
const (
	metaModel  = "io.k8s.apimachinery.pkg.apis.meta.v1."
	refToModel = "#/components/schemas/"
)

// ApplyModels returns the schemas by which server-side apply merges objects of the kind, by model name. The one of the kind
// names it in the extension x-kubernetes-group-version-kind; buildKubeNative of pkg/controller/openapi/builder/builder.go and
// buildOpenAPIModelsForApply of pkg/apiserver/customresource_handler.go, k8s.io/apiextensions-apiserver v1.36. The maps are
// the caller's.
func (d *Definition) ApplyModels() map[string]*spec.Schema {
	root := d.structural.Unfold().ToKubeOpenAPI()
	addEmbedded(root)
	return ObjectModels(d.GroupVersionKind, root)
}

// ObjectModels returns the schemas of a kind, by model name: the one given, to which it adds what every object has, and those
// of the metadata.
func ObjectModels(gvk schema.GroupVersionKind, root *spec.Schema) map[string]*spec.Schema {
	addObjectProperties(root)
	root.AddExtension("x-kubernetes-group-version-kind", []any{
		map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind},
	})
	models := metaModels()
	models[gvk.Group+"."+gvk.Version+"."+gvk.Kind] = root
	return models
}

// addObjectProperties gives a schema what every object has.
func addObjectProperties(s *spec.Schema) {
	s.SetProperty("apiVersion", *spec.StringProperty())
	s.SetProperty("kind", *spec.StringProperty())
	s.SetProperty("metadata", *spec.RefSchema(refToModel + metaModel + "ObjectMeta"))
}

// addEmbedded does so for the schemas of objects within objects.
func addEmbedded(s *spec.Schema) {
	for name, property := range s.Properties {
		addEmbedded(&property)
		s.Properties[name] = property
	}
	if s.Items != nil && s.Items.Schema != nil {
		addEmbedded(s.Items.Schema)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		addEmbedded(s.AdditionalProperties.Schema)
	}
	if embedded, _ := s.Extensions.GetBool("x-kubernetes-embedded-resource"); embedded {
		addObjectProperties(s)
	}
}

// metaModels returns the schemas of the metadata of objects, by model name: which lists of it are sets or maps, and what is
// merged as a whole; the struct tags and markers of metav1.ObjectMeta, v1.36.
func metaModels() map[string]*spec.Schema {
	text, date, number := *spec.StringProperty(), *spec.DateTimeProperty(), *spec.Int64Property()
	meta := object(map[string]spec.Schema{
		"name": text, "generateName": text, "namespace": text, "selfLink": text, "uid": text, "resourceVersion": text,
		"generation": number, "creationTimestamp": date, "deletionTimestamp": date, "deletionGracePeriodSeconds": number,
		"labels": *spec.MapProperty(&text), "annotations": *spec.MapProperty(&text),
		"finalizers":      list(text, "set"),
		"ownerReferences": list(*spec.RefSchema(refToModel + metaModel + "OwnerReference"), "map", "uid"),
		"managedFields":   list(*spec.RefSchema(refToModel + metaModel + "ManagedFieldsEntry"), "atomic"),
	})
	always := *spec.StringProperty().WithDefault("")
	owner := object(map[string]spec.Schema{
		"apiVersion": always, "kind": always, "name": always, "uid": always,
		"controller": *spec.BooleanProperty(), "blockOwnerDeletion": *spec.BooleanProperty(),
	})
	owner.AddExtension("x-kubernetes-map-type", "atomic")
	entry := object(map[string]spec.Schema{
		"manager": text, "operation": text, "apiVersion": text, "time": date, "fieldsType": text, "fieldsV1": object(nil),
		"subresource": text,
	})
	return map[string]*spec.Schema{
		metaModel + "ObjectMeta": &meta, metaModel + "OwnerReference": &owner, metaModel + "ManagedFieldsEntry": &entry,
	}
}

func object(properties map[string]spec.Schema) spec.Schema {
	return spec.Schema{SchemaProps: spec.SchemaProps{Type: spec.StringOrArray{"object"}, Properties: properties}}
}

func list(items spec.Schema, kind string, keys ...any) spec.Schema {
	s := *spec.ArrayProperty(&items)
	s.AddExtension("x-kubernetes-list-type", kind)
	if len(keys) > 0 {
		s.AddExtension("x-kubernetes-list-map-keys", keys)
	}
	return s
}
