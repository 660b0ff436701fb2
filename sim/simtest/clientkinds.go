package simtest

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/apiserver/crd"
	"github.com/stalemate-dev/stalemate/sim/apiserver/handler"
	"github.com/stalemate-dev/stalemate/sim/client"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// definitions are the custom resources that a builder was given.
type definitions struct{ paths []string }

// tables keeps the kinds tables that were made, by their version and definitions: the tests of a package share one or a few.
var tables sync.Map

type tableKey struct {
	version     apiserver.Version
	definitions [sha256.Size]byte
}

// table returns the kinds table of a version with the definitions. It belongs to others, too.
func (d definitions) table(version apiserver.Version) (*apiserver.Kinds, error) {
	key := tableKey{version: version}
	var texts [][]byte
	for _, path := range d.paths {
		read, err := readDefinitions(path)
		if err != nil {
			return nil, fmt.Errorf("WithCRDs: %w", err)
		}
		texts = append(texts, read...)
	}
	if len(texts) > 0 {
		key.definitions = sha256.Sum256(bytes.Join(texts, []byte("\n---\n")))
	}
	if known, ok := tables.Load(key); ok {
		return known.(*apiserver.Kinds), nil
	}
	kinds := apiserver.NewKinds(version)
	for _, text := range texts {
		all, err := crd.Load(text)
		if err != nil {
			return nil, fmt.Errorf("WithCRDs: %w", err)
		}
		for _, definition := range all {
			if _, err := kinds.AddCRD(definition); err != nil {
				return nil, fmt.Errorf("WithCRDs: %w", err)
			}
		}
	}
	known, _ := tables.LoadOrStore(key, kinds)
	return known.(*apiserver.Kinds), nil
}

// readDefinitions reads a file, or those of a folder that hold definitions.
func readDefinitions(path string) ([][]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		text, err := os.ReadFile(path)
		return [][]byte{text}, err
	}
	var texts [][]byte
	err = filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(name)) {
			return err
		}
		text, err := os.ReadFile(name)
		if bytes.Contains(text, []byte("CustomResourceDefinition")) && entry.Name() != "kustomization.yaml" {
			texts = append(texts, text)
		}
		return err
	})
	if err == nil && len(texts) == 0 {
		err = fmt.Errorf("no file in %s holds a CustomResourceDefinition", path)
	}
	return texts, err
}

// clientKinds are the kinds of a server that learns of those without a definition as the client uses them.
type clientKinds struct {
	local  *handler.Local
	scheme *runtime.Scheme
	given  meta.RESTMapper // by the test; nil if it gave none
	table  atomic.Pointer[apiserver.Kinds]

	mu       sync.Mutex
	noStatus map[schema.GroupVersionKind]bool
	// unsettled are the kinds of which it is not known whether they have namespaces, until there is an object of them. They are
	// taken to have some.
	unsettled map[schema.GroupVersionKind]bool
	all       sync.Once
}

var _ client.Kinds = &clientKinds{}

func newClientKinds(local *handler.Local, table *apiserver.Kinds, scheme *runtime.Scheme, mapper meta.RESTMapper) *clientKinds {
	k := &clientKinds{
		local: local, scheme: scheme, given: mapper,
		noStatus: map[schema.GroupVersionKind]bool{}, unsettled: map[schema.GroupVersionKind]bool{},
	}
	k.table.Store(table)
	return k
}

// configure does what the builder says about kinds.
func (k *clientKinds) configure(b *ClientBuilder) error {
	for _, obj := range b.noStatus {
		gvk, err := apiutil.GVKForObject(obj, b.scheme)
		if err != nil {
			return fmt.Errorf("WithoutStatusSubresource: %w", err)
		}
		if k.table.Load().ByGVK(gvk) != nil {
			return fmt.Errorf("WithoutStatusSubresource: what %s has is known: leave it out", gvk.GroupKind())
		}
		k.noStatus[gvk] = true
	}
	for _, obj := range b.status {
		kind, err := k.of(obj)
		if err != nil {
			return fmt.Errorf("WithStatusSubresource: %w", err)
		}
		if !kind.HasStatus {
			return fmt.Errorf("WithStatusSubresource: %s has no subresource status on a server: leave it out", kind)
		}
	}
	for _, obj := range b.unchecked {
		kind, err := k.of(obj)
		if err != nil {
			return fmt.Errorf("WithoutValidation: %w", err)
		}
		k.change(func(table *apiserver.Kinds) { table.WithoutValidation(kind) })
	}
	return nil
}

// of returns the kind of an object.
func (k *clientKinds) of(obj ctrlclient.Object) (*apiserver.Kind, error) {
	gvk, err := apiutil.GVKForObject(obj, k.scheme)
	if err != nil {
		return nil, err
	}
	if kind := k.ByGVK(gvk); kind != nil {
		return kind, nil
	}
	return nil, fmt.Errorf("no server has the kind %s", gvk)
}

// change replaces the table by a changed one. The caller holds the lock, or nobody else knows of k yet.
func (k *clientKinds) change(change func(*apiserver.Kinds)) {
	table := k.table.Load().Clone()
	change(table)
	k.local.Use(func(s *apiserver.Server) {
		s.Extend(table)
		k.table.Store(table)
	})
}

// ByGVK implements client.Kinds. A kind that is neither built in nor defined follows the rules of custom resources.
func (k *clientKinds) ByGVK(gvk schema.GroupVersionKind) *apiserver.Kind {
	if kind := k.table.Load().ByGVK(gvk); kind != nil {
		return kind
	}
	if gvk.Kind == "" || gvk.Version == "" || gvk.Version == runtime.APIVersionInternal || strings.HasSuffix(gvk.Group, metaGroup) {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if kind := k.table.Load().ByGVK(gvk); kind != nil {
		return kind // somebody else was faster
	}
	var kind *apiserver.Kind
	k.change(func(table *apiserver.Kinds) { kind = k.learn(table, gvk) })
	return kind
}

// metaGroup is the group of what is no resource, as PartialObjectMetadata.
const metaGroup = "meta.k8s.io"

// learn adds a kind to a table.
func (k *clientKinds) learn(table *apiserver.Kinds, gvk schema.GroupVersionKind) *apiserver.Kind {
	if k.builtIn(gvk) {
		kind, _ := table.AddUnknown(gvk) // it is not there yet, so that there is no error
		k.unsettled[gvk] = true
		return kind
	}
	guess, _ := meta.UnsafeGuessKindToResource(gvk)
	plural, namespaced := guess.Resource, true
	if mapping := k.mapping(gvk); mapping != nil {
		plural, namespaced = mapping.Resource.Resource, mapping.Scope.Name() == meta.RESTScopeNameNamespace
	} else {
		k.unsettled[gvk] = true
	}
	status := !k.noStatus[gvk]
	if obj, err := k.scheme.New(gvk); err == nil {
		status = status && hasStatus(obj)
	}
	kind, _ := table.AddType(gvk, plural, namespaced, status)
	return kind
}

// mapping returns what the test's REST mapper knows about a kind, nil if there is none or it knows nothing.
func (k *clientKinds) mapping(gvk schema.GroupVersionKind) *meta.RESTMapping {
	if k.given == nil {
		return nil
	}
	mapping, err := k.given.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil
	}
	return mapping
}

// Place implements client.Kinds. A kind without a definition has no namespaces if the first object of it is created without one.
func (k *clientKinds) Place(req *apiserver.Request) *apiserver.Kind {
	kind := req.Kind
	creates := req.Verb == schedule.Create && req.Subresource == "" || req.PatchType == types.ApplyPatchType
	if !kind.Custom() || !kind.Namespaced || req.Namespace != "" || req.Name == "" && !creates {
		return kind
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if current := k.table.Load().ByGVK(kind.GroupVersionKind); current != kind {
		return current
	}
	if !k.isUnsettled(kind) {
		return kind
	}
	if !creates { // there is nothing of the kind, and it may still come to have namespaces
		return k.table.Load().Clone().WithoutNamespaces(kind)
	}
	k.change(func(table *apiserver.Kinds) { kind = table.WithoutNamespaces(kind) })
	delete(k.unsettled, kind.GroupVersionKind)
	return kind
}

// isUnsettled reports whether a kind may yet turn out to have no namespaces. The caller holds the lock.
func (k *clientKinds) isUnsettled(kind *apiserver.Kind) bool {
	if k.unsettled[kind.GroupVersionKind] {
		k.local.Use(func(s *apiserver.Server) {
			if len(s.Log(kind)) > 0 {
				delete(k.unsettled, kind.GroupVersionKind)
			}
		})
	}
	return k.unsettled[kind.GroupVersionKind]
}

// withoutNamespaces returns the kind of an object that was given without a namespace: one that has none if that is not known of the
// kind and no object that was given has a namespace.
func (k *clientKinds) withoutNamespaces(kind *apiserver.Kind, given []ctrlclient.Object) *apiserver.Kind {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !kind.Namespaced || !k.isUnsettled(kind) {
		return kind
	}
	for _, obj := range given {
		if gvk, err := apiutil.GVKForObject(obj, k.scheme); err == nil && gvk == kind.GroupVersionKind && obj.GetNamespace() != "" {
			return kind
		}
	}
	k.change(func(table *apiserver.Kinds) { kind = table.WithoutNamespaces(kind) })
	delete(k.unsettled, kind.GroupVersionKind)
	return kind
}

// Mapper implements client.Kinds.
func (k *clientKinds) Mapper() meta.RESTMapper {
	if k.given != nil {
		return k.given
	}
	k.learnScheme()
	return client.NewRESTMapper(k.table.Load())
}

// builtIn reports whether a kind is one of Kubernetes itself: those that are not in the table are not modelled.
func (k *clientKinds) builtIn(gvk schema.GroupVersionKind) bool {
	t, ok := k.scheme.AllKnownTypes()[gvk]
	return ok && strings.HasPrefix(t.PkgPath(), "k8s.io/api/")
}

// learnScheme learns of all types of the scheme that are not Kubernetes' own.
func (k *clientKinds) learnScheme() {
	k.all.Do(func() {
		byName := func(a, b schema.GroupVersionKind) int { return strings.Compare(a.String(), b.String()) }
		for _, gvk := range slices.SortedFunc(maps.Keys(k.scheme.AllKnownTypes()), byName) {
			list := gvk.GroupVersion().WithKind(gvk.Kind + "List")
			if k.builtIn(gvk) || !k.scheme.Recognizes(list) {
				continue
			}
			if obj, err := k.scheme.New(gvk); err == nil {
				if _, ok := obj.(ctrlclient.Object); ok {
					k.ByGVK(gvk)
				}
			}
		}
	})
}
