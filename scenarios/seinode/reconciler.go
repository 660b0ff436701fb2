package seinode

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/sim"
)

// finalizer holds a SeiNode until the operator has seen that it is deleted.
const finalizer = "sei.io/seinode-finalizer"

// statusPoll is how often a running node is looked at with nothing to do. In the original that is every 30 s; nothing but the
// number of passes at rest depends on it, and what they cost.
const statusPoll = 10 * time.Minute

// reconciler makes one pass per request. It keeps nothing between passes.
type reconciler struct {
	variant variant
	client  client.Client // a manager's: reads come from caches, and writes go to the server
	reader  client.Reader // live
	log     logr.Logger
}

func newReconciler(v variant, deps sim.Deps) *reconciler {
	return &reconciler{variant: v, client: deps.Client, reader: deps.APIReader, log: deps.Log}
}

// pass is one pass over one node.
type pass struct {
	*reconciler
	// node is the node as it was read. What the pass finds out goes into its status, in memory, until the pass ends.
	node *SeiNode
	// before is the node as the server has it, as far as the pass knows.
	before *SeiNode
}

// Reconcile makes one pass. A write of the status that fails loses all that the pass found out.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	node := &SeiNode{}
	if err := r.client.Get(ctx, req.NamespacedName, node); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	p := &pass{reconciler: r, node: node}
	if node.DeletionTimestamp != nil {
		return reconcile.Result{}, p.finalize(ctx)
	}
	if controllerutil.AddFinalizer(node, finalizer) {
		if err := r.client.Update(ctx, node); err != nil {
			return reconcile.Result{}, err
		}
	}
	p.before = node.DeepCopy()
	if err := p.reconcileStatefulSet(ctx); err != nil {
		return reconcile.Result{}, fmt.Errorf("reconciling statefulset: %w", err)
	}
	if node.Spec.Paused {
		return reconcile.Result{}, p.flush(ctx)
	}
	result := p.reconcilePlan(ctx)
	if err := p.flush(ctx); err != nil {
		return reconcile.Result{}, err
	}
	if node.Status.Phase == PhaseRunning && !node.Status.Plan.active() {
		result = reconcile.Result{RequeueAfter: statusPoll}
	}
	return result, nil
}

// reconcileStatefulSet brings the set up to date, and takes note of which one it is.
func (p *pass) reconcileStatefulSet(ctx context.Context) error {
	set, err := p.variant.sync(p, ctx)
	if err != nil || set == nil {
		return err
	}
	p.node.Status.StatefulSet = &StatefulSetRef{Name: set.Name, UID: set.UID}
	return nil
}

// reconcilePlan makes a plan, which the next pass begins with, or goes on with the one there is.
func (p *pass) reconcilePlan(ctx context.Context) reconcile.Result {
	began := p.node.Status.Plan.active()
	p.resolvePlan()
	switch {
	case !p.node.Status.Plan.active():
		return reconcile.Result{}
	case !began:
		return reconcile.Result{RequeueAfter: atOnce}
	default:
		return p.executePlan(ctx)
	}
}

// flush writes the status, if it has changed, unless somebody has written the node since it was read.
func (p *pass) flush(ctx context.Context) error {
	if equality.Semantic.DeepEqual(p.before.Status, p.node.Status) {
		return nil
	}
	lock := client.MergeFromWithOptions(p.before, client.MergeFromWithOptimisticLock{})
	if err := p.client.Status().Patch(ctx, p.node, lock); err != nil {
		return fmt.Errorf("flushing status: %w", err)
	}
	return nil
}

// finalize lets a deleted node go. Its set and service follow it: they are its dependents.
func (p *pass) finalize(ctx context.Context) error {
	if !controllerutil.ContainsFinalizer(p.node, finalizer) {
		return nil
	}
	p.before = p.node.DeepCopy()
	p.node.Status.Phase = PhaseTerminating
	if err := p.flush(ctx); err != nil {
		return err
	}
	controllerutil.RemoveFinalizer(p.node, finalizer)
	return p.client.Update(ctx, p.node)
}
