// Package crd makes kinds out of CustomResourceDefinitions: it reads their YAML, and prunes, defaults and validates custom
// resources as the API server of Kubernetes 1.36 does, with the libraries that it uses itself wherever they are light. Where they
// are not, a test compares the outcome with theirs for random schemas and objects.
//
//	definitions, err := crd.Load(text)
//	d := definitions[0]
//	d.Prune(object)                     // drop what the schema does not know
//	d.Default(object)                   // fill in what it has defaults for
//	errs := d.Validate(object, stored)  // nil for stored on creation
//
// A definition stands for one version of a kind; [Definition.Versions] has the others that are served. Objects are the trees of
// unstructured objects. The metadata of an object is left to the pipeline, but for fields that metadata does not have, which Prune
// drops, and what a schema says of names.
//
// Validation rules in CEL are checked if the package crd/cel is imported. What is not modelled is listed by [Definition.Gaps]:
// those rules otherwise, conversion by a webhook, and defaults that only some versions have. Of a definition itself names,
// versions and the form of its schemas are checked; a real server refuses more, such as rules that may cost too much.
package crd
