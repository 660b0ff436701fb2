package racer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
)

// identity says which object a node stands for.
type identity struct {
	apiVersion, kind, namespace, name string
	uid                               types.UID
}

// String returns the identity without its UID, which differs from run to run on a real cluster.
func (id identity) String() string { return id.kind + " " + key(id.namespace, id.name) }

// identityOf returns what an owner reference of an object in a namespace points to. Whether the owner has a namespace at
// all is not known yet.
func identityOf(ref *metav1.OwnerReference, namespace string) identity {
	return identity{apiVersion: ref.APIVersion, kind: ref.Kind, namespace: namespace, name: ref.Name, uid: ref.UID}
}

// points reports whether a dependent in a namespace refers to exactly this identity.
func (id identity) points(ref *metav1.OwnerReference, namespace string) bool {
	return id.apiVersion == ref.APIVersion && id.kind == ref.Kind && id.name == ref.Name && id.uid == ref.UID &&
		(id.namespace == "" || id.namespace == namespace)
}

// A virtual node is looked up under one name after the other, ever more slowly: 5 ms, doubling to more than a quarter of an hour.
// A real collector does not slow down below the 10 keys a second of its queue, and never comes to rest.
const (
	lookupPause = 5 * time.Millisecond
	maxLookups  = 18
)

// node is an object of the graph, or an owner that somebody refers to and no informer has shown: a virtual node.
type node struct {
	identity
	key        string
	owners     []metav1.OwnerReference
	dependents map[types.UID]*node

	virtual            bool
	lookups            int // names under which a virtual node was not found
	beingDeleted       bool
	deletingDependents bool
}

// sortedDependents returns the dependents in the order of their keys.
func (n *node) sortedDependents() []*node {
	return slices.SortedFunc(maps.Values(n.dependents), func(a, b *node) int { return cmp.Compare(a.key, b.key) })
}

// blockingDependents returns the dependents whose references block the deletion of the node.
func (n *node) blockingDependents() []*node {
	return slices.DeleteFunc(n.sortedDependents(), func(dependent *node) bool {
		return !slices.ContainsFunc(dependent.owners, func(ref metav1.OwnerReference) bool {
			return ref.UID == n.uid && blocks(&ref)
		})
	})
}

// splitDependents parts the dependents by whether their references to the node name this identity. One that refers to it in
// several ways can be in both; partitionDependents.
func (n *node) splitDependents(id identity) (matching, others []*node) {
	for _, dependent := range n.sortedDependents() {
		match, mismatch := false, false
		for i := range dependent.owners {
			if ref := &dependent.owners[i]; ref.UID == n.uid {
				points := id.points(ref, dependent.namespace)
				match, mismatch = match || points, mismatch || !points
			}
		}
		if match {
			matching = append(matching, dependent)
		}
		if mismatch {
			others = append(others, dependent)
		}
	}
	return matching, others
}

// compare orders identities as referenceLessThan does.
func (id identity) compare(other identity) int {
	return cmp.Or(cmp.Compare(id.kind, other.kind), cmp.Compare(id.apiVersion, other.apiVersion),
		cmp.Compare(id.namespace, other.namespace), cmp.Compare(id.name, other.name))
}

// alternative returns under which other name the dependents know the UID of an identity that does not exist: the one that comes
// next in the order of identities, or the first; getAlternateOwnerIdentity.
func (id identity) alternative(dependents []*node) (identity, bool) {
	var names []identity
	for _, dependent := range dependents {
		for i := range dependent.owners {
			ref := &dependent.owners[i]
			if ref.UID != id.uid || id.points(ref, dependent.namespace) {
				continue
			}
			name := identityOf(ref, dependent.namespace)
			if id.namespace == "" && name.apiVersion == id.apiVersion && name.kind == id.kind {
				name.namespace = "" // the kind is known to have no namespaces
			}
			names = append(names, name)
		}
	}
	slices.SortFunc(names, identity.compare)
	for _, name := range names {
		if id.compare(name) < 0 {
			return name, true
		}
	}
	if len(names) == 0 || names[0] == id {
		return identity{}, false
	}
	return names[0], true
}

// graph is the collector's picture of who owns whom, as its informers tell it
// (pkg/controller/garbagecollector/graph_builder.go, v1.36).
type graph struct {
	gc     *GarbageCollector
	byUID  map[types.UID]*node
	byKey  map[string]*node
	named  map[string]int // how many UIDs have had a name
	absent map[identity]bool
}

func newGraph(gc *GarbageCollector) graph {
	return graph{
		gc: gc, byUID: map[types.UID]*node{}, byKey: map[string]*node{}, named: map[string]int{},
		absent: map[identity]bool{},
	}
}

// monitor feeds the events of one kind to the graph.
type monitor struct {
	graph *graph
	kind  *apiserver.Kind
}

func (g *graph) handler(kind *apiserver.Kind) monitor { return monitor{graph: g, kind: kind} }

func (m monitor) handle(d cache.Delta) {
	id := identity{
		apiVersion: m.kind.GroupVersion().String(), kind: m.kind.GroupVersionKind.Kind,
		namespace: d.Object.GetNamespace(), name: d.Object.GetName(), uid: d.Object.GetUID(),
	}
	if d.Type == apiserver.Deleted {
		m.graph.deleted(id)
		return
	}
	m.graph.changed(id, d.Old, d.Object)
}

// insert adds a node. Its key holds no UID: the first object of a name has the name, its successors a number after it.
func (g *graph) insert(id identity) *node {
	name := id.kind + "/" + key(id.namespace, id.name)
	g.named[name]++
	n := &node{identity: id, key: name, dependents: map[types.UID]*node{}}
	if count := g.named[name]; count > 1 {
		n.key = fmt.Sprintf("%s#%d", name, count)
	}
	g.byUID[id.uid], g.byKey[n.key] = n, n
	return n
}

// changed takes an added or updated object. An update from another object of the same name adds a node, and leaves the one of
// the other where it is, as if that were still there: the graph builder does not look at the UID of the old object.
func (g *graph) changed(id identity, old, obj apiserver.Object) {
	n := g.byUID[id.uid]
	if n == nil {
		n = g.insert(id)
		n.deletingDependents = deletesWith(obj, metav1.FinalizerDeleteDependents)
	} else if n.virtual {
		g.observe(n, id)
	}
	g.setOwners(n, obj.GetOwnerReferences())
	n.beingDeleted = n.beingDeleted || obj.GetDeletionTimestamp() != nil
	switch {
	case startsWith(old, obj, metav1.FinalizerOrphanDependents):
		g.gc.orphan(n)
	case startsWith(old, obj, metav1.FinalizerDeleteDependents):
		n.deletingDependents = true
		for _, dependent := range n.sortedDependents() {
			g.gc.suspect(dependent)
		}
		g.gc.suspect(n)
	}
}

// startsWith reports whether the change is the one that started a deletion with this finalizer.
func startsWith(old, obj apiserver.Object, finalizer string) bool {
	return deletesWith(obj, finalizer) && !deletesWith(old, finalizer)
}

// deletesWith reports whether there is an object that is being deleted and has the finalizer.
func deletesWith(obj apiserver.Object, finalizer string) bool {
	return obj != nil && obj.GetDeletionTimestamp() != nil && hasFinalizer(obj, finalizer)
}

// observe makes a virtual node real. Dependents that know it under another name are suspect.
func (g *graph) observe(n *node, id identity) {
	n.virtual = false
	if n.identity == id {
		return
	}
	_, others := n.splitDependents(id)
	for _, dependent := range others {
		g.gc.suspect(dependent)
	}
	n.identity = id
}

// setOwners moves a node to its present owners.
func (g *graph) setOwners(n *node, refs []metav1.OwnerReference) {
	old := n.owners
	n.owners = refs
	for i := range old {
		now := refOf(refs, old[i].UID)
		if blocks(&old[i]) && (now == nil || !blocks(now)) {
			if owner := g.byUID[old[i].UID]; owner != nil { // whether it waits for its dependents or not
				g.gc.suspect(owner)
			}
		}
		if now == nil {
			g.detach(n, old[i].UID)
		}
	}
	for i := range refs {
		if refOf(old, refs[i].UID) == nil {
			g.attach(n, &refs[i])
		}
	}
}

func refOf(refs []metav1.OwnerReference, uid types.UID) *metav1.OwnerReference {
	for i := range refs {
		if refs[i].UID == uid {
			return &refs[i]
		}
	}
	return nil
}

// attach makes a node a dependent of an owner. An owner nobody has seen becomes a virtual node that is looked up. A
// reference that does not agree with what is known of the owner makes the dependent suspect, and so does a virtual owner without
// a namespace: it may be a namespaced one that a cluster-scoped object refers to. addDependentToOwners.
func (g *graph) attach(n *node, ref *metav1.OwnerReference) {
	owner := g.byUID[ref.UID]
	if owner == nil {
		owner = g.insert(identityOf(ref, n.namespace))
		owner.virtual = true
		owner.dependents[n.uid] = n
		g.gc.suspect(owner)
		return
	}
	owner.dependents[n.uid] = n
	if !owner.points(ref, n.namespace) || owner.virtual && owner.namespace == "" && n.namespace != "" {
		g.gc.suspect(n)
	}
}

func (g *graph) detach(n *node, owner types.UID) {
	if o := g.byUID[owner]; o != nil {
		delete(o.dependents, n.uid)
	}
}

// wakeDeleting has an owner that waits for its dependents look at them again.
func (g *graph) wakeDeleting(owner types.UID) {
	if o := g.byUID[owner]; o != nil && o.deletingDependents {
		g.gc.suspect(o)
	}
}

// deleted takes a deletion that an informer delivered.
func (g *graph) deleted(id identity) {
	if n := g.byUID[id.uid]; n != nil {
		g.remove(n, id)
	}
}

// virtualDelete takes a deletion that a live read found. It is only as good as the name that was read.
func (g *graph) virtualDelete(id identity) {
	n := g.byUID[id.uid]
	if n == nil {
		return
	}
	matching, others := n.splitDependents(id)
	if n.virtual && len(others) == 0 || !n.virtual && n.identity == id {
		g.remove(n, id)
		return
	}
	if len(matching) > 0 {
		g.absent[id] = true
		for _, dependent := range matching {
			g.gc.suspect(dependent)
		}
	}
	if n.virtual && n.identity == id {
		// Others know the same UID under another name: that one has to be looked up too.
		name, ok := id.alternative(others)
		if !ok {
			return
		}
		n.identity = name
		n.lookups++
		g.gc.toDelete.AddAfter(n.key, lookupPause<<min(n.lookups, maxLookups))
	}
}

// remove takes a node out of the graph; its dependents have lost an owner, and its owners may have lost what blocks them.
func (g *graph) remove(n *node, id identity) {
	delete(g.byUID, n.uid)
	delete(g.byKey, n.key)
	for i := range n.owners {
		g.detach(n, n.owners[i].UID)
	}
	if len(n.dependents) > 0 {
		g.absent[id] = true
	}
	for _, dependent := range n.sortedDependents() {
		g.gc.suspect(dependent)
	}
	for i := range n.owners {
		g.wakeDeleting(n.owners[i].UID)
	}
}

// markAbsent notes that a live read did not find an owner; its UID never comes back.
func (g *graph) markAbsent(ref *metav1.OwnerReference, namespace string) {
	if kind := g.gc.kindOf(ref.APIVersion, ref.Kind); kind != nil && !kind.Namespaced {
		namespace = ""
	}
	g.absent[identityOf(ref, namespace)] = true
}

// knownAbsent reports whether an owner is known not to exist, in the dependent's namespace or without one.
func (g *graph) knownAbsent(ref *metav1.OwnerReference, namespace string) bool {
	return g.absent[identityOf(ref, namespace)] || g.absent[identityOf(ref, "")]
}
