package apiserver

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Load puts an object into the store as LoadAll does.
func (s *Server) Load(obj Object) error { return s.LoadAll([]Object{obj}) }

// LoadAll puts objects into the store as they are written, unlike a create: status, generation, finalizers,
// deletionTimestamp, creationTimestamp and UID are kept. What is not written is defaulted, the UID included, and the result
// must be valid. Namespaces that do not exist are made. An owner reference without a uid gets the one of the object it
// names, in the store or among those that are loaded. The objects are copied. After an error some of them may be in the store
// and others not.
func (s *Server) LoadAll(objects []Object) error {
	loaded := make([]loading, len(objects))
	for i, obj := range objects {
		var err error
		if loaded[i], err = s.prepareLoad(obj); err != nil {
			return err
		}
	}
	for _, l := range loaded {
		if err := s.resolveOwners(l, loaded); err != nil {
			return err
		}
	}
	for _, l := range loaded {
		if err := s.store(l); err != nil {
			return err
		}
	}
	return nil
}

// loading is an object on its way into the store.
type loading struct {
	kind *Kind
	obj  Object
}

func (l loading) String() string {
	return fmt.Sprintf("%s %s", l.kind.Kind, types.NamespacedName{Namespace: l.obj.GetNamespace(), Name: l.obj.GetName()})
}

// prepareLoad fills in what is not written.
func (s *Server) prepareLoad(obj Object) (loading, error) {
	k := s.kinds.Of(obj)
	if k == nil {
		return loading{}, fmt.Errorf("%s %q: no such kind in the kinds table: give its CustomResourceDefinition",
			obj.GetObjectKind().GroupVersionKind(), obj.GetName())
	}
	stored, err := k.StoredCopy(obj)
	if err != nil {
		return loading{}, err
	}
	l := loading{k, stored}
	s.noteUse(k)
	if k.Namespaced && stored.GetNamespace() == "" {
		stored.SetNamespace(metav1.NamespaceDefault)
	}
	k.receive(stored, -1)
	k.settleForm(stored)
	if k.Alias != nil {
		if stored, err = k.Alias.To(stored); err != nil {
			return loading{}, fmt.Errorf("%s: %w", k, err)
		}
		k = k.Alias.Of
		l.kind, l.obj = k, stored
	}
	key := uidKey(k, stored.GetNamespace(), stored.GetName())
	if stored.GetUID() == "" {
		n := s.uids.count(key)
		stored.SetUID(uidFor(key, n))
	}
	s.uids.set(key, s.uids.count(key)+1)
	if created := stored.GetCreationTimestamp(); created.IsZero() {
		stored.SetCreationTimestamp(s.timestamp())
	}
	if k.PrepareCreate != nil {
		written := k.shallowCopy(stored)
		k.PrepareCreate(stored)
		if !k.lacksStatus(written) {
			k.takeStatus(stored, written)
		}
	}
	if stored.GetGeneration() == 0 && k.Generation.counts() {
		stored.SetGeneration(1)
	}
	return l, nil
}

// resolveOwners fills in the UIDs of owner references.
func (s *Server) resolveOwners(l loading, loaded []loading) error {
	refs := l.obj.GetOwnerReferences()
	changed := false
	for i, ref := range refs {
		if ref.UID != "" {
			continue
		}
		uid := s.ownerUID(ref, l.obj.GetNamespace(), loaded)
		if uid == "" {
			return fmt.Errorf("%s: its owner %s %q does not exist: give the owner too, or write the reference's uid",
				l, ref.Kind, ref.Name)
		}
		refs[i].UID = uid
		changed = true
	}
	if changed {
		l.obj.SetOwnerReferences(refs)
	}
	return nil
}

// ownerUID returns the UID of the object that a reference from a namespace names, or nothing.
func (s *Server) ownerUID(ref metav1.OwnerReference, namespace string, loaded []loading) types.UID {
	k := s.kinds.ByGVK(schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind))
	if k == nil {
		return ""
	}
	k = k.behind()
	if !k.Namespaced {
		namespace = ""
	}
	for _, l := range loaded {
		if l.kind == k && l.obj.GetName() == ref.Name && l.obj.GetNamespace() == namespace {
			return l.obj.GetUID()
		}
	}
	if owner := s.Get(k, namespace, ref.Name); owner != nil {
		return owner.GetUID()
	}
	return ""
}

// store validates and commits a loaded object. Only a namespace or a definition may exist already: it takes the place of the one
// that was made without being asked for.
func (s *Server) store(l loading) error {
	existing := s.Get(l.kind, l.obj.GetNamespace(), l.obj.GetName())
	if existing != nil && l.kind.order != namespaceOrder && l.kind.order != definitionOrder {
		return fmt.Errorf("%s exists already: give each object once", l)
	}
	if errs := s.validateNew(l.kind, l.obj); len(errs) > 0 {
		return invalid(l.kind, l.obj.GetName(), errs)
	}
	if name := l.obj.GetNamespace(); name != "" && s.Get(s.kinds.rows[namespaceOrder], "", name) == nil {
		s.addNamespace(name)
	}
	// Who wrote the object is not known, as on a real server that had it before it knew of managedFields.
	s.commitClaim(l.kind, l.obj, existing, claim{
		write: write{by: recorded}, entries: l.obj.GetManagedFields(),
	})
	return nil
}

// addNamespace makes a namespace as a client's create would.
func (s *Server) addNamespace(name string) {
	k := s.kinds.rows[namespaceOrder]
	ns := k.New().(*corev1.Namespace)
	ns.Name = name
	k.receive(ns, -1)
	s.createNew(&Request{Kind: k, FieldManager: "kube-apiserver"}, ns)
}
