package leaderworkerset

import (
	"context"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/sim"
)

// Reasons of the operator's events.
const (
	reasonFailed      = "FailedCreate"
	reasonProgressing = "GroupsProgressing"
	reasonUpdating    = "GroupsUpdating"
	reasonRevision    = "CreatingRevision"
)

// reconciler makes one pass per request. It keeps nothing between passes.
type reconciler struct {
	variant  variant
	client   client.Client
	log      logr.Logger
	recorder record.EventRecorder
}

func newReconciler(v variant, deps sim.Deps) *reconciler {
	return &reconciler{variant: v, client: deps.Client, log: deps.Log, recorder: deps.Recorder}
}

// pass is one pass over one LWS.
type pass struct {
	*reconciler
	key types.NamespacedName
	// lws is as it was read in the first step; its status is what the pass has to say.
	lws *LeaderWorkerSet
}

// Reconcile makes one pass.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	p := &pass{reconciler: r, key: req.NamespacedName, lws: &LeaderWorkerSet{}}
	if err := r.client.Get(ctx, p.key, p.lws); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if p.lws.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	set, err := p.getSet(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	if set != nil && r.variant.notYet != nil && r.variant.notYet(p.lws, set) {
		return reconcile.Result{RequeueAfter: retryDelay}, nil
	}
	return p.reconcile(ctx, set)
}

// reconcile is what follows step 2. Set is the leaders' set that was found, nil if there is none.
func (p *pass) reconcile(ctx context.Context, set *appsv1.StatefulSet) (reconcile.Result, error) {
	revision, err := p.currentRevision(ctx, set)
	if err != nil {
		return reconcile.Result{}, err
	}
	updated, err := p.updatedRevision(ctx, set, revision)
	if err != nil {
		return reconcile.Result{}, err
	}
	if updated != nil {
		revision = updated
	}
	key := keyOf(revision)
	if err := p.reconcileSet(ctx, set, key, updated != nil); err != nil {
		return reconcile.Result{}, err
	}
	if err := p.createService(ctx); err != nil {
		p.event(corev1.EventTypeWarning, reasonFailed, "Failed to create headless service for error: %v", err)
		return reconcile.Result{}, err
	}
	done, err := p.updateStatus(ctx, key)
	if apierrors.IsConflict(err) {
		return reconcile.Result{Requeue: true}, nil //nolint:staticcheck // SA1019: as the original does it
	}
	if err != nil || !done {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, p.truncateRevisions(ctx, key)
}

// reconcileSet is steps 5 and 6, with their events.
func (p *pass) reconcileSet(ctx context.Context, set *appsv1.StatefulSet, key string, begins bool) error {
	r, err := p.rollout(ctx, set, key, begins)
	if err != nil {
		return err
	}
	if err := p.applySet(ctx, r, key); err != nil {
		if set == nil {
			p.event(corev1.EventTypeWarning, reasonFailed, "Failed to create leader statefulset %s", p.lws.Name)
		}
		return err
	}
	if set == nil {
		p.event(corev1.EventTypeNormal, reasonProgressing, "Created leader statefulset %s", p.lws.Name)
	} else if before := partitionOf(set); !begins && before != r.partition {
		p.event(corev1.EventTypeNormal, reasonUpdating, "Updating replicas %d to %d", before, r.partition)
	}
	return nil
}

func (p *pass) event(kind, reason, format string, args ...any) {
	p.recorder.Eventf(p.lws, kind, reason, format, args...)
}
