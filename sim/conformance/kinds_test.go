package conformance

import (
	_ "embed"
	"strings"

	"sigs.k8s.io/yaml"
)

// kind is a resource that random requests are about.
type kind struct {
	Path     string // of the version, such as apis/apps/v1
	Resource string
	Kind     string
	Cluster  bool // not in namespaces
	Weight   int
	Scale    bool // has this subresource
	Body     tree
	Changes  []tree // merge patches
	Statuses []tree
	Fields   []string // field selectors
}

// tree is a JSON object.
type tree = map[string]any

//go:embed testdata/kinds.yaml
var kindsFile []byte

// loadKinds returns all kinds, each as often as its weight says.
func loadKinds() ([]*kind, error) {
	var all, weighted []*kind
	if err := yaml.UnmarshalStrict(kindsFile, &all); err != nil {
		return nil, err
	}
	for _, k := range all {
		for range max(1, k.Weight) {
			weighted = append(weighted, k)
		}
	}
	return weighted, nil
}

func (k *kind) apiVersion() string {
	_, version, _ := strings.Cut(k.Path, "/")
	return version
}

// collection is the path of the objects of a namespace, which stands there as $NS.
func (k *kind) collection() string {
	if k.Cluster {
		return "/" + k.Path + "/" + k.Resource
	}
	return "/" + k.Path + "/namespaces/$NS/" + k.Resource
}

// key names an object of the kind among those that a client has seen.
func (k *kind) key(name string) string { return k.Path + "/" + k.Resource + "/" + name }
