package racer

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
)

// GarbageCollectorOptions configures a [GarbageCollector].
type GarbageCollectorOptions struct {
	// Delay is how long an object waits, in virtual time, before the collector looks at it; zero means not at all. A
	// busy collector on a large cluster takes seconds to minutes. A deletion that cascades waits at every level.
	Delay time.Duration
	// Workers is how many objects are looked at at a time; zero means 20, the default of --concurrent-gc-syncs.
	Workers int
}

// GarbageCollector plays kube-controller-manager's garbage collector (pkg/controller/garbagecollector, v1.36.3). It has
// an informer on every kind but Event, builds a graph of owners and dependents from what they deliver, and checks each
// suspect with live reads before it deletes, patches or orphans.
type GarbageCollector struct {
	options  GarbageCollectorOptions
	env      sim.RacerEnv
	toDelete sim.RacerQueue
	toOrphan sim.RacerQueue
	graph    graph
	views    map[*apiserver.Kind]*cache.View
	orphans  map[string]*node // the owners that were queued to be orphaned; one may have left the graph since
}

// NewGarbageCollector returns the collector for one run.
func NewGarbageCollector(options GarbageCollectorOptions) *GarbageCollector {
	options.Workers = cmp.Or(options.Workers, 20)
	return &GarbageCollector{options: options, views: map[*apiserver.Kind]*cache.View{}, orphans: map[string]*node{}}
}

// Start implements [sim.Racer].
func (g *GarbageCollector) Start(env sim.RacerEnv) {
	g.env = env
	g.graph = newGraph(g)
	g.toDelete = env.Queue("attempt-to-delete", g.options.Workers, func(key string) sim.Task {
		return &deleteAttempt{gc: g, node: g.graph.byKey[key]}
	})
	g.toOrphan = env.Queue("attempt-to-orphan", g.options.Workers, func(key string) sim.Task {
		return &orphanAttempt{gc: g, node: g.orphans[key]}
	})
	// Custom resources own workloads and these own pods: from the end of the table on, the initial lists show most
	// owners before their dependents, which saves a live read for each.
	for _, kind := range slices.Backward(preferred(env.Kinds())) {
		if kind.GroupVersionKind.Kind != "Event" {
			g.views[kind] = env.Informer(kind, g.graph.handler(kind).handle)
		}
	}
}

func (g *GarbageCollector) suspect(n *node) { g.add(g.toDelete, n) }

func (g *GarbageCollector) orphan(n *node) {
	g.orphans[n.key] = n
	g.add(g.toOrphan, n)
}

func (g *GarbageCollector) add(queue sim.RacerQueue, n *node) {
	if g.options.Delay > 0 {
		queue.AddAfter(n.key, g.options.Delay)
		return
	}
	queue.Add(n.key)
}

// kindOf finds the kind that an owner reference names, or nil.
func (g *GarbageCollector) kindOf(apiVersion, kind string) *apiserver.Kind {
	for _, k := range g.env.Kinds() {
		if k.GroupVersionKind.Kind == kind && k.GroupVersion().String() == apiVersion {
			return k
		}
	}
	return nil
}

// preferred returns the kinds that discovery prefers: one version of each resource.
func preferred(kinds []*apiserver.Kind) []*apiserver.Kind {
	seen := map[schema.GroupResource]bool{}
	var all []*apiserver.Kind
	for _, kind := range kinds {
		if kind.Alias == nil && !seen[kind.GroupResource()] {
			seen[kind.GroupResource()] = true
			all = append(all, kind)
		}
	}
	return all
}

// cached returns an object as the collector's informer has it, nil if it does not; getMetadata of patch.go.
func (g *GarbageCollector) cached(t target) apiserver.Object {
	if view := g.views[t.kind]; view != nil {
		return view.Get(t.namespace, t.name)
	}
	return nil
}

// target returns the object behind a node for calls, or an error if the server has no such kind.
func (g *GarbageCollector) target(id identity) (target, error) {
	kind := g.kindOf(id.apiVersion, id.kind)
	if kind == nil {
		return target{}, fmt.Errorf("%s: unable to get REST mapping for %s/%s", id, id.apiVersion, id.kind)
	}
	t := target{kind: kind, namespace: id.namespace, name: id.name, manager: managerControllers}
	if !kind.Namespaced {
		t.namespace = ""
	}
	return t, nil
}

var (
	errUnobserved    = errors.New("item has not been observed via an informer yet")
	errDeleteRefused = errors.New("its delete was a conflict, and not because it changed with the owners it had")
)

// attemptStep is what an attempt waits for the answer to.
type attemptStep uint8

const (
	attemptBegin      attemptStep = iota
	attemptItem                   // a live read of the item
	attemptOwner                  // of one of its owners
	attemptPatch                  // a strategic patch of its owners
	attemptMergeRead              // a live read for a merge patch, where a strategic one is not supported and no informer has the item
	attemptMergePatch             // that patch
	attemptDelete
	attemptReread // a live read after a conflict
	attemptRetry  // a delete without the revision
	attemptFinalize
)

// deleteAttempt looks at one suspect: GET it, GET its owners, then patch or delete it, or do nothing.
type deleteAttempt struct {
	gc   *GarbageCollector
	node *node
	step attemptStep

	id       identity // of the node when the attempt began; a virtual node may get another
	target   target
	latest   apiserver.Object
	refs     []metav1.OwnerReference
	next     int
	solid    int
	dangling []types.UID
	waiting  []types.UID
	policy   metav1.DeletionPropagation
	finalize *finalizerRemoval
	unblocks bool // the patch is to make the references not block, and a delete follows
}

// Next implements [sim.Task].
func (a *deleteAttempt) Next(resp *apiserver.Response) sim.Action {
	switch a.step {
	case attemptBegin:
		return a.begin()
	case attemptItem:
		return a.itemRead(resp)
	case attemptOwner:
		return a.ownerRead(resp)
	case attemptPatch, attemptMergePatch, attemptMergeRead:
		return a.patchAnswered(resp)
	case attemptDelete, attemptReread, attemptRetry:
		return a.deleteAnswered(resp)
	case attemptFinalize:
		if action, yield := a.finalize.run(resp); yield {
			return action
		}
		return a.over(a.finalize.err)
	default:
		return a.over(failure(resp))
	}
}

func (a *deleteAttempt) call(step attemptStep, request *apiserver.Request) sim.Action {
	a.step = step
	return sim.Call(request)
}

// over ends the attempt. A node that is only virtual stays suspect until an informer shows it, or a read shows that it
// does not exist.
func (a *deleteAttempt) over(err error) sim.Action {
	switch {
	case err != nil:
		return sim.Fail(fmt.Errorf("item %s: %w", a.node.identity, err))
	case a.node.virtual:
		return sim.Fail(errUnobserved)
	default:
		return sim.Done()
	}
}

func (a *deleteAttempt) begin() sim.Action {
	if a.node == nil || a.gc.graph.byUID[a.node.uid] != a.node {
		return sim.Done() // it has left the graph since it was queued
	}
	if a.node.beingDeleted && !a.node.deletingDependents {
		return a.over(nil)
	}
	a.id = a.node.identity
	t, err := a.gc.target(a.id)
	if err != nil {
		return a.over(err)
	}
	if t.kind.Namespaced && t.namespace == "" {
		return sim.Done() // known only from a cluster-scoped dependent, which cannot say where it is
	}
	a.target = t
	return a.call(attemptItem, t.get())
}

func (a *deleteAttempt) itemRead(resp *apiserver.Response) sim.Action {
	err := failure(resp)
	if apierrors.IsNotFound(err) || err == nil && resp.Object.GetUID() != a.node.uid {
		a.gc.graph.virtualDelete(a.id)
		return sim.Done()
	}
	if err != nil {
		return a.over(err)
	}
	a.latest = resp.Object
	if a.node.deletingDependents {
		return a.deletingDependents()
	}
	a.refs = a.latest.GetOwnerReferences()
	if len(a.refs) == 0 {
		return a.over(nil)
	}
	return a.readOwners()
}

// deletingDependents releases a node that is deleted in the foreground once no observed dependent blocks it.
func (a *deleteAttempt) deletingDependents() sim.Action {
	blocking := a.node.blockingDependents()
	for _, dependent := range blocking {
		if !dependent.deletingDependents {
			a.gc.suspect(dependent)
		}
	}
	if len(blocking) > 0 {
		return a.over(nil)
	}
	a.step = attemptFinalize
	a.finalize = &finalizerRemoval{target: a.target, finalizer: metav1.FinalizerDeleteDependents}
	return a.Next(nil)
}

// readOwners asks for the next owner that is not known to be absent, and decides after the last.
func (a *deleteAttempt) readOwners() sim.Action {
	for ; a.next < len(a.refs); a.next++ {
		ref := &a.refs[a.next]
		if a.gc.graph.knownAbsent(ref, a.id.namespace) {
			a.dangling = append(a.dangling, ref.UID)
			continue
		}
		owner, err := a.gc.target(identityOf(ref, a.id.namespace))
		if err != nil {
			return a.over(err)
		}
		if owner.kind.Namespaced && a.id.namespace == "" {
			return sim.Done() // a cluster-scoped object cannot have a namespaced owner, and no retry helps
		}
		return a.call(attemptOwner, owner.get())
	}
	return a.decide()
}

func (a *deleteAttempt) ownerRead(resp *apiserver.Response) sim.Action {
	ref := &a.refs[a.next]
	err := failure(resp)
	switch {
	case apierrors.IsNotFound(err), err == nil && resp.Object.GetUID() != ref.UID:
		a.gc.graph.markAbsent(ref, a.id.namespace)
		a.dangling = append(a.dangling, ref.UID)
	case err != nil:
		return a.over(err)
	case resp.Object.GetDeletionTimestamp() != nil && hasFinalizer(resp.Object, metav1.FinalizerDeleteDependents):
		a.waiting = append(a.waiting, ref.UID)
	default:
		a.solid++
	}
	a.next++
	return a.readOwners()
}

// dropped returns the owners whose references must go: waiting ones too, or they would wait for ever.
func (a *deleteAttempt) dropped() []types.UID { return slices.Concat(a.dangling, a.waiting) }

func (a *deleteAttempt) decide() sim.Action {
	switch {
	case a.solid > 0 && len(a.dropped()) == 0:
		return a.over(nil)
	case a.solid > 0:
		return a.call(attemptPatch,
			a.target.patch(types.StrategicMergePatchType, releasePatch(a.node.uid, a.dropped()...)))
	case len(a.waiting) > 0 && len(a.node.dependents) > 0:
		a.policy = metav1.DeletePropagationForeground
		if slices.ContainsFunc(a.node.sortedDependents(), func(d *node) bool { return d.deletingDependents }) {
			// An owner and a dependent both wait: there may be a cycle, which must not block itself.
			a.unblocks = true
			return a.call(attemptPatch,
				a.target.patch(types.StrategicMergePatchType, unblockPatch(a.node.uid, a.node.owners)))
		}
	case hasFinalizer(a.latest, metav1.FinalizerOrphanDependents):
		a.policy = metav1.DeletePropagationOrphan
	case hasFinalizer(a.latest, metav1.FinalizerDeleteDependents):
		a.policy = metav1.DeletePropagationForeground
	default:
		a.policy = metav1.DeletePropagationBackground
	}
	return a.delete(attemptDelete, a.latest.GetResourceVersion())
}

// patchAnswered goes on after a patch of the item's owners. A custom resource knows no strategic patch: it gets a merge patch of
// what the informer shows, or of what a live read does where the informer has nothing.
func (a *deleteAttempt) patchAnswered(resp *apiserver.Response) sim.Action {
	err := failure(resp)
	switch {
	case a.step == attemptPatch && apierrors.IsUnsupportedMediaType(err):
		if obj := a.gc.cached(a.target); obj != nil {
			return a.mergePatch(obj)
		}
		return a.call(attemptMergeRead, a.target.get())
	case err != nil:
		return a.over(err)
	case a.step == attemptMergeRead:
		return a.mergePatch(resp.Object)
	case a.unblocks:
		return a.delete(attemptDelete, a.latest.GetResourceVersion())
	default:
		return a.over(nil)
	}
}

func (a *deleteAttempt) mergePatch(obj apiserver.Object) sim.Action {
	refs := without(obj.GetOwnerReferences(), a.dropped())
	if a.unblocks {
		refs = slices.Clone(a.node.owners) // as the graph has them
		for i := range refs {
			refs[i] = unblocked(refs[i])
		}
	}
	return a.call(attemptMergePatch, a.target.patch(types.MergePatchType, ownersMergePatch(obj.GetResourceVersion(), refs)))
}

// delete asks for the item's deletion if it still is what was read; an empty revision only checks that it is the item.
func (a *deleteAttempt) delete(step attemptStep, revision string) sim.Action {
	uid := a.node.uid
	preconditions := &metav1.Preconditions{UID: &uid}
	if revision != "" {
		preconditions.ResourceVersion = &revision
	}
	policy := a.policy
	return a.call(step, a.target.delete(metav1.DeleteOptions{Preconditions: preconditions, PropagationPolicy: &policy}))
}

// deleteAnswered tries once more, without the revision, if the item changed but has the same owners: fast writers must
// not starve the collector.
func (a *deleteAttempt) deleteAnswered(resp *apiserver.Response) sim.Action {
	err := failure(resp)
	switch {
	case apierrors.IsNotFound(err):
		a.gc.graph.virtualDelete(a.id)
		return sim.Done()
	case a.step == attemptReread && err == nil:
		if resp.Object.GetUID() != a.node.uid || resp.Object.GetResourceVersion() == a.latest.GetResourceVersion() ||
			!reflect.DeepEqual(resp.Object.GetOwnerReferences(), a.latest.GetOwnerReferences()) {
			return a.over(errDeleteRefused)
		}
		return a.delete(attemptRetry, "")
	case a.step == attemptDelete && apierrors.IsConflict(err):
		return a.call(attemptReread, a.target.get())
	default:
		return a.over(err)
	}
}
