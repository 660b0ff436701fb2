package client

import (
	"strconv"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

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
	var versions []schema.GroupVersion
	for _, kind := range kinds.All() {
		versions = append(versions, kind.GroupVersion())
	}
	mapper := meta.NewDefaultRESTMapper(versions)
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

func formatRevision(revision int64) string { return strconv.FormatInt(revision, 10) }
