package client

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// scope is what one informer covers: the objects of one namespace, or of all, that its selectors choose.
type scope struct {
	namespace string // empty for all
	config    ctrlcache.Config
}

// coverage is what a cache covers of a kind.
type coverage struct {
	scopes []scope // sorted by namespace
	// several is set if there is an informer for each of some namespaces, and not one for the whole kind. There may be only one
	// of them all the same.
	several bool
}

// coverages finds what a cache covers, by the rules of defaultOpts and New in sigs.k8s.io/controller-runtime/pkg/cache/cache.go,
// v0.24.1.
type coverages struct {
	options  ctrlcache.Options
	byObject map[*apiserver.Kind]ctrlcache.ByObject
}

// newCoverages reads the options of a cache. Kinds that the server does not have are refused, as a real cache does.
func newCoverages(options ctrlcache.Options, kinds *apiserver.Kinds, scheme *runtime.Scheme) (*coverages, error) {
	c := &coverages{options: options, byObject: map[*apiserver.Kind]ctrlcache.ByObject{}}
	var problems []string
	for obj, byObject := range options.ByObject {
		gvk, err := apiutil.GVKForObject(obj, scheme)
		if err != nil {
			problems = append(problems, fmt.Sprintf("failed to determine if %T is namespaced: %v", obj, err))
			continue
		}
		kind := kinds.ByGVK(gvk)
		switch {
		case kind == nil:
			err = &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
			problems = append(problems, fmt.Sprintf("failed to determine if %T is namespaced: %v", obj, err))
		case !kind.Namespaced && byObject.Namespaces != nil:
			problems = append(problems, fmt.Sprintf("type %T is not namespaced, but its ByObject.Namespaces setting is not nil", obj))
		default:
			c.byObject[kind] = byObject
		}
	}
	if len(problems) > 0 {
		slices.Sort(problems) // options are a map
		return nil, fmt.Errorf("cache: %s", problems[0])
	}
	return c, nil
}

// of returns what the cache covers of a kind.
func (c *coverages) of(kind *apiserver.Kind) coverage {
	byObject, configured := c.byObject[kind]
	all := defaultsOf(&c.options)
	own := configOf(byObject)
	namespaces := c.options.DefaultNamespaces
	if configured && byObject.Namespaces != nil {
		namespaces = byObject.Namespaces
	}
	if !kind.Namespaced || len(namespaces) == 0 {
		return coverage{scopes: []scope{{config: asSent(defaulted(own, all))}}}
	}
	result := coverage{several: true}
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		config := defaulted(namespaces[namespace], own)
		if settings, ok := c.options.DefaultNamespaces[namespace]; ok {
			config = defaulted(config, settings)
		}
		config = defaulted(config, all)
		if namespace == ctrlcache.AllNamespaces {
			config.FieldSelector = exceptNamespaces(namespaces, config.FieldSelector)
		}
		result.scopes = append(result.scopes, scope{namespace, asSent(config)})
	}
	return result
}

// find returns the index of the scope that a namespace belongs to.
func (c *coverage) find(namespace string) (int, bool) {
	if !c.several {
		return 0, true
	}
	i := slices.IndexFunc(c.scopes, func(s scope) bool { return s.namespace == namespace })
	if i < 0 {
		i = slices.IndexFunc(c.scopes, func(s scope) bool { return s.namespace == ctrlcache.AllNamespaces })
	}
	return i, i >= 0
}

// asSent makes the selectors what they are on the wire, where those that choose nothing are empty and choose everything.
func asSent(config ctrlcache.Config) ctrlcache.Config {
	if config.LabelSelector != nil && config.LabelSelector.String() == "" {
		config.LabelSelector = nil
	}
	if config.FieldSelector != nil && config.FieldSelector.String() == "" {
		config.FieldSelector = nil
	}
	return config
}

// exceptNamespaces leaves the namespaces that have a scope of their own to it.
func exceptNamespaces(namespaces map[string]ctrlcache.Config, selector fields.Selector) fields.Selector {
	var selectors []fields.Selector
	for _, namespace := range slices.Sorted(maps.Keys(namespaces)) {
		if namespace != metav1.NamespaceAll {
			selectors = append(selectors, fields.OneTermNotEqualSelector("metadata.namespace", namespace))
		}
	}
	if selector != nil {
		selectors = append(selectors, selector)
	}
	return fields.AndSelectors(selectors...)
}

func defaultsOf(o *ctrlcache.Options) ctrlcache.Config {
	return ctrlcache.Config{
		LabelSelector: o.DefaultLabelSelector, FieldSelector: o.DefaultFieldSelector, Transform: o.DefaultTransform,
		UnsafeDisableDeepCopy: o.DefaultUnsafeDisableDeepCopy, SyncPeriod: o.SyncPeriod,
	}
}

func configOf(o ctrlcache.ByObject) ctrlcache.Config {
	return ctrlcache.Config{
		LabelSelector: o.Label, FieldSelector: o.Field, Transform: o.Transform,
		UnsafeDisableDeepCopy: o.UnsafeDisableDeepCopy, SyncPeriod: o.SyncPeriod,
	}
}

// defaulted fills in what a configuration leaves open.
func defaulted(config, from ctrlcache.Config) ctrlcache.Config {
	if config.LabelSelector == nil {
		config.LabelSelector = from.LabelSelector
	}
	if config.FieldSelector == nil {
		config.FieldSelector = from.FieldSelector
	}
	if config.Transform == nil {
		config.Transform = from.Transform
	}
	if config.UnsafeDisableDeepCopy == nil {
		config.UnsafeDisableDeepCopy = from.UnsafeDisableDeepCopy
	}
	if config.SyncPeriod == nil {
		config.SyncPeriod = from.SyncPeriod
	}
	return config
}
