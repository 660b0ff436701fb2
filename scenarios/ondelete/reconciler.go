package ondelete

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// pollInterval is after what time a task that is not done, or failed, is looked at again.
	pollInterval = 10 * time.Second
	// atOnce asks for another pass right away: a zero RequeueAfter would ask for none.
	atOnce = time.Millisecond
)

// reconciler makes one pass per request. It keeps nothing between passes but what is in the SeiNode's status.
type reconciler struct {
	variant variant
	client  client.Client // reads from the caches
	live    client.Reader
	log     logr.Logger
}

// Reconcile makes one pass.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	node := &SeiNode{}
	if err := r.client.Get(ctx, req.NamespacedName, node); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	before := node.DeepCopy()
	if err := r.applyStatefulSet(ctx, node); err != nil {
		return reconcile.Result{}, err
	}
	var after time.Duration
	if r.resolvePlan(node) {
		after = atOnce // a new plan is stored before any of it is done
	} else if node.Status.Plan != nil {
		after = r.execute(ctx, node)
	}
	return reconcile.Result{RequeueAfter: after}, r.flush(ctx, before, node)
}

// resolvePlan drops a plan that is over, and makes one if the image is not rolled out; it reports whether it made one.
func (r *reconciler) resolvePlan(node *SeiNode) (created bool) {
	drifted := node.Spec.Image != node.Status.CurrentImage
	if plan := node.Status.Plan; plan != nil && plan.Phase == PlanActive {
		if !r.variant.replans || plan.Image == node.Spec.Image {
			return false
		}
		drifted = true // whatever that plan has done so far
	}
	node.Status.Plan = nil
	if !drifted {
		return false
	}
	node.Status.Plan = &Plan{Phase: PlanActive, Image: node.Spec.Image}
	for _, t := range tasks {
		node.Status.Plan.Tasks = append(node.Status.Plan.Tasks, PlannedTask{Type: t.name, Status: TaskPending})
	}
	return true
}

// execute does the tasks of the node's plan up to the first that is not done, and returns after what time to go on.
func (r *reconciler) execute(ctx context.Context, node *SeiNode) time.Duration {
	plan := node.Status.Plan
	for i := range plan.Tasks {
		planned := &plan.Tasks[i]
		if planned.Status == TaskComplete {
			continue
		}
		done, err := r.runTask(ctx, node, planned.Type)
		if err != nil {
			r.log.Info("task submission failed, will retry", "task", planned.Type, "error", err.Error())
		}
		if err != nil || !done {
			return pollInterval
		}
		planned.Status = TaskComplete
	}
	plan.Phase = PlanComplete
	return atOnce
}

// flush writes what the pass has learned into the node's status, unless the node was written since it was read.
func (r *reconciler) flush(ctx context.Context, before, node *SeiNode) error {
	if equality.Semantic.DeepEqual(before.Status, node.Status) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.client.Status().Patch(ctx, node, patch); err != nil {
		return fmt.Errorf("status of SeiNode %s: %w", node.Name, err)
	}
	return nil
}
