package apiserver

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/stalemate-dev/stalemate/sim/apiserver/crd"
	"github.com/stalemate-dev/stalemate/sim/canon"
)

// AddCRD adds a custom resource by its definition, in every version that is served, and returns it in the version in which its
// objects are stored. The other versions are aliases of that one. What of the definition is not modelled is a fidelity gap once
// the kind is used.
func (k *Kinds) AddCRD(definition *crd.Definition) (*Kind, error) {
	for _, d := range definition.Versions() {
		if k.byGVK[d.GroupVersionKind] != nil {
			return nil, fmt.Errorf("kind %s is in the kinds table already: define it once", d.GroupVersionKind)
		}
	}
	models := func() map[string]*spec.Schema {
		all := map[string]*spec.Schema{}
		for _, d := range definition.Versions() {
			maps.Copy(all, d.ApplyModels())
		}
		return all
	}
	home := definedRow(definition)
	home.applyModels = models
	k.add(home)
	for _, d := range definition.Versions()[1:] {
		row := definedRow(d)
		row.applyModels = models
		row.Alias = &Alias{Of: home, To: conversion(definition), From: conversion(d)}
		k.add(row)
	}
	k.established = append(k.established, established(definition.Resource(), k.version))
	return home, nil
}

// conversion returns what shows an object in the version of a definition.
func conversion(to *crd.Definition) func(Object) (Object, error) {
	return func(obj Object) (Object, error) {
		return &unstructured.Unstructured{Object: to.Convert(rawContent(obj))}, nil
	}
}

// definedRow is the row of a custom resource in one version.
func definedRow(definition *crd.Definition) *Kind {
	row := customRow(definition.GroupVersionKind, definition.Plural, definition.Namespaced, definition.HasStatus)
	row.Schema = definition.Schema()
	row.Singular, row.ShortNames, row.Categories = definition.Singular, definition.ShortNames, definition.Categories
	row.gaps, row.warning = definition.Gaps(), definition.Warning
	row.Default = func(obj Object) {
		content := rawContent(obj)
		definition.Prune(content)
		definition.Default(content)
	}
	row.defaultApplied = func(obj Object) {
		content := rawContent(obj)
		definition.Prune(content)
		definition.DefaultApplied(content)
	}
	row.embedded = func(obj Object) *field.Error { return definition.CheckEmbedded(rawContent(obj)) }
	row.PruneUnknown = func(obj Object) []string { return definition.PruneUnknown(rawContent(obj)) }
	row.Validate = func(obj, old Object, _ Version) field.ErrorList {
		return definition.Validate(rawContent(obj), rawContent(old))
	}
	row.ValidateStatus = func(obj, old Object, _ Version) field.ErrorList {
		return definition.ValidateStatus(rawContent(obj), rawContent(old))
	}
	if definition.HasRules() {
		row.checkRules = func(obj, old Object, found field.ErrorList) field.ErrorList {
			return definition.CheckRules(rawContent(obj), rawContent(old), found)
		}
	}
	if s := definition.Scale; s != nil {
		row.Scale = customScale(s)
	}
	row.Fields = map[string]func(Object) string{}
	for _, path := range definition.SelectableFields {
		label := strings.TrimPrefix(path, ".")
		steps := strings.Split(label, ".")
		row.Fields[label] = func(obj Object) string {
			value, found, err := unstructured.NestedFieldNoCopy(rawContent(obj), steps...)
			if !found || err != nil || value == nil {
				return ""
			}
			return fmt.Sprint(value)
		}
	}
	return row
}

// customScale is how the scale subresource reads and writes a custom resource; scaleFromCustomResource and
// scaleUpdatedObjectInfo in pkg/registry/customresource/etcd.go of k8s.io/apiextensions-apiserver v1.36.
func customScale(paths *apiextensionsv1.CustomResourceSubresourceScale) *Scale {
	steps := func(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }
	specSteps, statusSteps := steps(paths.SpecReplicasPath), steps(paths.StatusReplicasPath)
	var selectorSteps []string
	if p := paths.LabelSelectorPath; p != nil && *p != "" {
		selectorSteps = steps(*p)
	}
	read := func(obj Object) (values scaleValues, err error) {
		content := rawContent(obj)
		wanted, found, specErr := unstructured.NestedInt64(content, specSteps...)
		there, _, statusErr := unstructured.NestedInt64(content, statusSteps...)
		values = scaleValues{spec: int32(wanted), status: int32(there), found: found}
		if selectorSteps != nil {
			values.selector, _, err = unstructured.NestedString(content, selectorSteps...)
		}
		return values, cmp.Or(specErr, statusErr, err)
	}
	path := make([]any, len(specSteps))
	for i, step := range specSteps {
		path[i] = step
	}
	return &Scale{
		Read: func(obj Object) (int32, int32, string) {
			values, _ := read(obj)
			return values.spec, values.status, values.selector
		},
		Write: func(obj Object, replicas int32) {
			content := rawContent(obj)
			for _, step := range specSteps[:len(specSteps)-1] {
				below := maps.Clone(asMap(content[step]))
				if below == nil {
					below = map[string]any{}
				}
				content[step], content = below, below
			}
			content[specSteps[len(specSteps)-1]] = int64(replicas)
		},
		values:   read,
		at:       paths.SpecReplicasPath,
		replicas: fieldpath.MakePathOrDie(path...),
	}
}

func asMap(value any) map[string]any {
	m, _ := value.(map[string]any)
	return m
}

// scaleValues is what the scale subresource shows of a custom resource.
type scaleValues struct {
	spec, status int32
	selector     string
	found        bool // there is a number of replicas that is asked for
}

// noReplicas is the number of replicas of a custom resource that does not say how many it wants, before a change is applied.
const noReplicas = -1 << 31

// readScale returns the Scale of an object before a request reads or changes it, as which a custom resource may not be able to be
// shown.
func (k *Kind) readScale(obj Object, reads bool) (*autoscalingv1.Scale, *statusError) {
	scale := k.scaleOf(obj)
	if k.Scale.values == nil {
		return scale, nil
	}
	switch values, err := k.Scale.values(obj); {
	case err != nil:
		return nil, plain(err.Error())
	case !values.found && reads:
		return nil, apierrors.NewInternalError(fmt.Errorf("the spec replicas field %q does not exist", k.Scale.at))
	case !values.found:
		scale.Spec.Replicas = noReplicas
	}
	return scale, nil
}

// checkScale refuses a Scale that is to be written.
func (k *Kind) checkScale(name string, scale *autoscalingv1.Scale) *statusError {
	switch {
	case k.Scale.values == nil:
		return checkReplicas(name, scale)
	case scale.Spec.Replicas == noReplicas:
		return badRequest("the spec replicas field %q cannot be empty", k.Scale.at)
	default:
		return nil // the rules of the kind are checked
	}
}

// warnFinalizers warns of the names of finalizers that a write to a custom resource adds; generateWarningsFromObj and
// validateKubeFinalizerName in pkg/registry/customresource of k8s.io/apiextensions-apiserver v1.36.
func (r *Request) warnFinalizers(obj, old Object) {
	if !r.Kind.Custom() || rawMeta(obj)["finalizers"] == nil {
		return
	}
	var had []string
	if old != nil {
		if canon.Equal(rawMeta(obj)["finalizers"], rawMeta(old)["finalizers"]) {
			return
		}
		had = old.GetFinalizers()
	}
	added := slices.DeleteFunc(obj.GetFinalizers(), func(name string) bool { return slices.Contains(had, name) })
	slices.Sort(added)
	const advice = " to avoid accidental conflicts with other finalizer writers"
	for _, name := range slices.Compact(added) {
		for _, message := range validation.IsQualifiedName(name) {
			r.warnings = append(r.warnings, fmt.Sprintf("metadata.finalizers: %q: %s", name, message))
		}
		switch {
		case strings.Contains(name, "/"), name == metav1.FinalizerOrphanDependents, name == metav1.FinalizerDeleteDependents,
			name == string(corev1.FinalizerKubernetes):
		case strings.Contains(name, "."):
			r.warnings = append(r.warnings, fmt.Sprintf(
				"metadata.finalizers: %q: prefer a domain-qualified finalizer name including a path (/)"+advice, name))
		default:
			r.warnings = append(r.warnings, fmt.Sprintf("metadata.finalizers: %q: prefer a domain-qualified finalizer name"+advice, name))
		}
	}
}
