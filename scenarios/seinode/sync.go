package seinode

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldOwner is the manager of the fields that the operator applies.
const fieldOwner = client.FieldOwner("seinode-controller")

// syncApplied is the Sync of #345 as it was merged, and of #348: an impostor is deleted, and the rest of the work left to a
// later pass, which the event of the deletion brings about; anything else is applied over.
func (p *pass) syncApplied(ctx context.Context) (*appsv1.StatefulSet, error) {
	desired := p.node.statefulSet()
	if tracked := p.node.Status.StatefulSet; tracked != nil {
		existing := &appsv1.StatefulSet{}
		err := p.client.Get(ctx, client.ObjectKeyFromObject(desired), existing)
		switch {
		case err == nil && existing.UID != tracked.UID:
			if err := p.deleteImpostor(ctx, existing); err != nil {
				return nil, err
			}
			if p.variant.forgetsImpostor {
				p.node.Status.StatefulSet = nil
			}
			return nil, nil
		case err != nil && !apierrors.IsNotFound(err):
			return nil, fmt.Errorf("fetching tracked statefulset: %w", err)
		}
	}
	if err := p.apply(ctx, desired); err != nil {
		return nil, fmt.Errorf("applying statefulset: %w", err)
	}
	return desired, nil
}

// syncTyped is the Sync of #345's first commit (fecd6bd): get, and create, replace or update by what is different.
func (p *pass) syncTyped(ctx context.Context) (*appsv1.StatefulSet, error) {
	desired, existing := p.node.statefulSet(), &appsv1.StatefulSet{}
	err := p.client.Get(ctx, client.ObjectKeyFromObject(desired), existing)
	switch {
	case apierrors.IsNotFound(err):
		if err := p.client.Create(ctx, desired); err != nil {
			return nil, fmt.Errorf("creating statefulset: %w", err)
		}
		return desired, nil
	case err != nil:
		return nil, fmt.Errorf("fetching statefulset: %w", err)
	}
	if tracked := p.node.Status.StatefulSet; tracked != nil && existing.UID != tracked.UID {
		if err := p.deleteImpostor(ctx, existing); err != nil {
			return nil, err
		}
		if err := p.client.Create(ctx, desired); err != nil {
			return nil, fmt.Errorf("recreating statefulset after UID mismatch: %w", err)
		}
		return desired, nil
	}
	if mutate(existing, desired) {
		if err := p.client.Update(ctx, existing); err != nil {
			return nil, fmt.Errorf("updating statefulset: %w", err)
		}
	}
	return existing, nil
}

// deleteImpostor deletes a set by its name: whatever goes by that name now, which need not be the one that was read.
func (p *pass) deleteImpostor(ctx context.Context, set *appsv1.StatefulSet) error {
	if err := p.client.Delete(ctx, set); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting impostor statefulset: %w", err)
	}
	return nil
}

// mutate copies what may be changed of a set from the rendered one, and reports whether anything was different. A template as
// it is rendered is different from any that the API server has stored, for it has no defaults.
func mutate(existing, desired *appsv1.StatefulSet) (changed bool) {
	replicas := replace(&existing.Spec.Replicas, desired.Spec.Replicas)
	template := replace(&existing.Spec.Template, desired.Spec.Template)
	strategy := replace(&existing.Spec.UpdateStrategy, desired.Spec.UpdateStrategy)
	minReady := replace(&existing.Spec.MinReadySeconds, desired.Spec.MinReadySeconds)
	labels := replace(&existing.Labels, desired.Labels)
	annotations := replace(&existing.Annotations, desired.Annotations)
	return replicas || template || strategy || minReady || labels || annotations
}

// replace sets a field and reports whether that changed anything.
func replace[T any](field *T, value T) (changed bool) {
	if equality.Semantic.DeepEqual(*field, value) {
		return false
	}
	*field = value
	return true
}

// apply makes a server-side apply by force, and fills the object with the answer.
func (p *pass) apply(ctx context.Context, obj client.Object) error {
	//nolint:staticcheck // as the original does, with typed objects
	return p.client.Patch(ctx, obj, client.Apply, fieldOwner, client.ForceOwnership)
}
