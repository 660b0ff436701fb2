package scenarios

import (
	"cmp"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/property"
)

// loadKinds makes the kinds table: the built-ins of the Kubernetes version, and the custom resources of the definitions. It
// returns nil if a definition is wrong: then names of kinds mean nothing.
func (l *loader) loadKinds() *apiserver.Kinds {
	version := apiserver.Version(cmp.Or(l.manifest.Spec.KubernetesVersion, string(versions[0])))
	return apiserver.NewKinds(version)
}

// propertyKinds shows a kinds table to the compiler of properties.
type propertyKinds struct {
	kinds *apiserver.Kinds
}

// Lookup implements [property.Kinds].
func (p propertyKinds) Lookup(name string) (property.Kind, bool) {
	row := p.kinds.ByName(name)
	if row == nil {
		return property.Kind{}, false
	}
	return property.Kind{GroupVersionKind: row.GroupVersionKind, Type: row.Type}, true
}
