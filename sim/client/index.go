package client

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/selection"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// index is a program's index over an informer. It is computed in the goroutine that lists, as the function is the program's
// and may panic, and remembered: stored objects are immutable.
type index struct {
	extract client.IndexerFunc
	raw     bool                          // its values hold the namespace, or what stands for all, before what is looked up
	values  map[apiserver.Object][]string // guarded by informers.mu
}

func indexName(field string) string { return "field:" + field }

// addIndexes adds indexes to an informer; none of them if it has one of those names.
func (i *informers) addIndexes(entry *informerEntry, functions map[string]client.IndexerFunc, raw bool) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	conflicts := map[string]struct{}{}
	if entry.removed {
		return errors.New("indexer was not added because it has stopped already")
	}
	for name := range functions {
		if _, ok := entry.indexes[name]; ok || name == toolscache.NamespaceIndex {
			conflicts[name] = struct{}{}
		}
	}
	if len(conflicts) > 0 {
		return fmt.Errorf("indexer conflict: %v", conflicts)
	}
	for name, extract := range functions {
		entry.indexes[name] = &index{extract: extract, raw: raw, values: map[apiserver.Object][]string{}}
	}
	return nil
}

// valuesOf returns what an index finds an object under.
func (i *informers) valuesOf(entry *informerEntry, x *index, stored apiserver.Object) ([]string, error) {
	i.mu.Lock()
	values, ok := x.values[stored]
	i.mu.Unlock()
	if ok {
		return values, nil
	}
	held, err := i.decode(entry, stored) // indexes are of objects as they came, whatever has become of them since
	if err != nil {
		return nil, err
	}
	obj, ok := held.(client.Object)
	if !ok {
		return nil, fmt.Errorf("object of type %T is not an Object", held)
	}
	values = x.extract(obj)
	i.mu.Lock()
	defer i.mu.Unlock()
	x.values[stored] = values
	return values, nil
}

// choose lists as a cache does: by indexes for field selectors, in no guaranteed order, cut off at the limit;
// sigs.k8s.io/controller-runtime/pkg/cache/internal/cache_reader.go.
func (i *informers) choose(
	entry *informerEntry, candidates []apiserver.Object, options *client.ListOptions,
) ([]apiserver.Object, error) {
	if options.FieldSelector != nil {
		var err error
		if candidates, err = i.byIndexes(entry, candidates, options); err != nil {
			return nil, err
		}
	}
	var chosen []apiserver.Object
	for _, obj := range candidates {
		if options.Limit > 0 && int64(len(chosen)) >= options.Limit {
			break
		}
		if options.LabelSelector != nil {
			set, err := i.labelsOf(entry, obj)
			if err != nil {
				return nil, err
			}
			if !options.LabelSelector.Matches(set) {
				continue
			}
		}
		chosen = append(chosen, obj)
	}
	return chosen, nil
}

// byIndexes finds the objects that all requirements of a field selector choose.
func (i *informers) byIndexes(
	entry *informerEntry, candidates []apiserver.Object, options *client.ListOptions,
) ([]apiserver.Object, error) {
	requirements := options.FieldSelector.Requirements()
	inexact := func(r fields.Requirement) bool {
		return r.Operator != selection.Equals && r.Operator != selection.DoubleEquals
	}
	if len(requirements) == 0 || slices.ContainsFunc(requirements, inexact) {
		return nil, errors.New("non-exact field matches are not supported by the cache")
	}
	for n, requirement := range requirements {
		name := indexName(requirement.Field)
		i.mu.Lock()
		x := entry.indexes[name]
		i.mu.Unlock()
		switch {
		case x == nil && n == 0:
			return nil, fmt.Errorf("Index with name %s does not exist", name) //nolint:staticcheck // client-go's own words
		case x == nil:
			return nil, fmt.Errorf("index with name %s does not exist", name)
		}
		value := requirement.Value
		if x.raw {
			value = cmp.Or(options.Namespace, "__all_namespaces") + "/" + value
		}
		var chosen []apiserver.Object
		for _, obj := range candidates {
			values, err := i.valuesOf(entry, x, obj)
			if err != nil {
				return nil, err
			}
			if slices.Contains(values, value) {
				chosen = append(chosen, obj)
			}
		}
		if candidates = chosen; len(candidates) == 0 {
			return nil, nil
		}
	}
	return candidates, nil
}
