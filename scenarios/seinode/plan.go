package seinode

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// atOnce is how soon a pass that has made a plan is followed by the one that begins with it.
	atOnce = time.Millisecond
	// taskPoll is how soon a task is tried again that is not done, or has failed.
	taskPoll = 10 * time.Second
)

// resolvePlan clears a plan that is complete, and makes one if the node does not run its image.
func (p *pass) resolvePlan() {
	status := &p.node.Status
	if status.Plan.active() {
		return
	}
	status.Plan = nil
	if status.CurrentImage == p.node.Spec.Image {
		return
	}
	status.Plan = &Plan{Phase: PlanActive, Tasks: []Task{
		{Type: TaskApplyStatefulSet, Status: TaskPending},
		{Type: TaskApplyService, Status: TaskPending},
		{Type: TaskObserveImage, Status: TaskPending},
	}}
}

// executePlan does tasks in their order until one is not done. What it says of them stays in memory until the pass ends.
func (p *pass) executePlan(ctx context.Context) reconcile.Result {
	plan := p.node.Status.Plan
	for i := range plan.Tasks {
		task := &plan.Tasks[i]
		if task.Status == TaskComplete {
			continue
		}
		done, err := p.execute(ctx, task.Type)
		if err != nil {
			p.log.Info("task failed, will retry", "task", task.Type, "error", err.Error())
		}
		if !done {
			return reconcile.Result{RequeueAfter: taskPoll}
		}
		task.Status = TaskComplete
	}
	plan.Phase = PlanComplete
	p.node.Status.Phase = PhaseRunning
	return reconcile.Result{RequeueAfter: atOnce}
}

// execute does a task, and reports whether it is done.
func (p *pass) execute(ctx context.Context, task TaskType) (done bool, err error) {
	switch task {
	case TaskApplyStatefulSet:
		set, err := p.variant.sync(p, ctx)
		return set != nil, err // the status is not told which set that is
	case TaskApplyService:
		err := p.apply(ctx, p.node.service())
		return err == nil, err
	case TaskObserveImage:
		return p.observeImage(ctx)
	default:
		return false, fmt.Errorf("task %q: no such type", task)
	}
}

// observeImage is done when the set's rollout is. It reads the set live.
func (p *pass) observeImage(ctx context.Context) (done bool, err error) {
	set := &appsv1.StatefulSet{}
	if err := p.reader.Get(ctx, client.ObjectKeyFromObject(p.node), set); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	status := &set.Status
	if status.ObservedGeneration < set.Generation || set.Spec.Replicas == nil || status.UpdatedReplicas < *set.Spec.Replicas {
		return false, nil
	}
	p.node.Status.CurrentImage = p.node.Spec.Image
	return true, nil
}
