package client

import (
	"cmp"
	"slices"
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// mappers keeps the mapper of the kinds table that was asked for last: all runs of a scenario share it.
var mappers struct {
	sync.Mutex
	kinds  *apiserver.Kinds
	mapper meta.RESTMapper
}

// mapperOf returns the REST mapper of the kinds the server has.
func mapperOf(kinds *apiserver.Kinds) meta.RESTMapper {
	mappers.Lock()
	defer mappers.Unlock()
	if mappers.kinds != kinds {
		mappers.kinds, mappers.mapper = kinds, newMapper(kinds)
	}
	return mappers.mapper
}

func newMapper(kinds *apiserver.Kinds) meta.RESTMapper {
	mapper := meta.NewDefaultRESTMapper(preferred(kinds))
	for _, kind := range kinds.All() {
		scope := meta.RESTScopeRoot
		if kind.Namespaced {
			scope = meta.RESTScopeNamespace
		}
		version := kind.GroupVersion()
		mapper.AddSpecific(kind.GroupVersionKind, version.WithResource(kind.Resource), version.WithResource(kind.Singular), scope)
	}
	return mapper
}

// preferred returns the groups and versions of the kinds: groups in the order of the kinds table, and the versions of each as
// discovery prefers them.
func preferred(kinds *apiserver.Kinds) []schema.GroupVersion {
	rank := map[string]int{}
	var versions []schema.GroupVersion
	for _, kind := range kinds.All() {
		gv := kind.GroupVersion()
		if _, ok := rank[gv.Group]; !ok {
			rank[gv.Group] = len(rank)
		}
		if !slices.Contains(versions, gv) {
			versions = append(versions, gv)
		}
	}
	slices.SortStableFunc(versions, func(a, b schema.GroupVersion) int {
		return cmp.Or(rank[a.Group]-rank[b.Group], version.CompareKubeAwareVersionStrings(b.Version, a.Version))
	})
	return versions
}

func formatRevision(revision int64) string { return strconv.FormatInt(revision, 10) }
