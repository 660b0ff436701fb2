// Package crd makes kinds out of CustomResourceDefinitions: it reads their YAML, and prunes, defaults and validates custom
// resources as the API server of Kubernetes 1.36 does, with the libraries that it uses itself wherever they are light.
//
//	definitions, err := crd.Load(text)
//	d := definitions[0]
//	d.Prune(object)                     // drop what the schema does not know
//	d.Default(object)                   // fill in what it has defaults for
//	errs := d.Validate(object, stored)  // nil for stored on creation
//
// Objects are the trees of unstructured objects. The metadata of an object is left to the pipeline, but for fields that
// metadata does not have, which Prune drops.
//
// What is not modelled is listed by [Definition.Gaps]: validation rules in CEL, conversion, and other served versions. Of
// validation ratcheting, by which an update is not refused for what it did not change, all is modelled but the matching of
// the items of lists that are no maps, as in a real server.
package crd
