package patterns

import (
	"context"

	coordinationv1 "k8s.io/api/coordination/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// leaderIdentity is the holder of the Lease who leads at first; whoever else holds it, the other instance leads.
const leaderIdentity = "leader"

// election lets one of two instances of the operator work: a script gives the Lease "operator" from one to the other. As in a
// manager with leader election the caches of both are filled all the time, and an instance that is elected begins with all
// the apps that its caches hold. They may be behind those of its predecessor, and so it acts on a past that its predecessor
// has left behind: time goes backwards, as it does in Sieve's bugs for an operator that is restarted and then connected to
// an API server that lags.
//
// A restart by itself cannot do that any more: since client-go v0.35 the first list of an informer is a consistent read
// (WatchListClient; tools/cache/reflector.go, rewatchResourceVersion).
type election struct {
	clients
	inner reconcile.Reconciler
	first bool // this is the instance that leads at first
}

// setUpElected is setUp for one of two instances.
func (p *pattern) setUpElected(m ctrl.Manager, v variant, first bool) error {
	c := clientsOf(m)
	everyApp := func(ctx context.Context, _ client.Object) []reconcile.Request {
		var apps AppList
		if err := c.List(ctx, &apps); err != nil {
			return nil // of a cache, only when the process ends
		}
		var requests []reconcile.Request
		for i := range apps.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&apps.Items[i])})
		}
		return requests
	}
	return p.newController(m).
		Watches(&coordinationv1.Lease{}, handler.EnqueueRequestsFromMapFunc(everyApp)).
		Complete(&election{clients: c, inner: reconcile.AsReconciler(c.Client, v.new(m)), first: first})
}

// Reconcile passes on what is the leader's to do.
func (e *election) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	lease := &coordinationv1.Lease{}
	if err := e.live.Get(ctx, client.ObjectKey{Namespace: req.Namespace, Name: operator}, lease); err != nil {
		return reconcile.Result{}, err
	}
	if holder := lease.Spec.HolderIdentity; holder == nil || (*holder == leaderIdentity) != e.first {
		return reconcile.Result{}, nil
	}
	return e.inner.Reconcile(ctx, req)
}
