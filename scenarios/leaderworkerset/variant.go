package leaderworkerset

import (
	"context"
	"errors"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
	simclient "github.com/stalemate-dev/stalemate/sim/client"
)

// retryDelay is when a set that is in the way is looked at again.
const retryDelay = 5 * time.Second

// variant is what differs between the versions of the operator: two decisions.
type variant struct {
	name string
	doc  string

	// notYet says that the set found in step 2 is none to go on from yet; nil for a version that goes on from any.
	notYet func(*LeaderWorkerSet, *appsv1.StatefulSet) bool
	// reusesRevision makes step 3 take a revision that holds the same already, as an earlier pass leaves one that did not get as
	// far as the set. Otherwise it creates one more, under the next number.
	reusesRevision bool
}

// variants are the versions that can be chosen in a scenario, oldest first.
var variants = []variant{
	{
		name: "leaderworkerset/buggy",
		doc:  "lws before #733: goes on from the StatefulSet of a deleted LeaderWorkerSet of the same name (#732)",
	},
	{
		name:   "leaderworkerset/fixed",
		doc:    "lws with #733: waits while the StatefulSet is being deleted",
		notYet: beingDeleted,
	},
	{
		name: "leaderworkerset/hardened",
		doc:  "our own: also waits while another LeaderWorkerSet controls the StatefulSet, and takes the revision of a pass that failed",
		notYet: func(lws *LeaderWorkerSet, set *appsv1.StatefulSet) bool {
			return beingDeleted(lws, set) || ofAnother(lws, set)
		},
		reusesRevision: true,
	},
}

func beingDeleted(_ *LeaderWorkerSet, set *appsv1.StatefulSet) bool {
	return set.DeletionTimestamp != nil
}

func ofAnother(lws *LeaderWorkerSet, set *appsv1.StatefulSet) bool {
	owner := metav1.GetControllerOfNoCopy(set)
	return owner != nil && owner.UID != lws.UID
}

// Register adds the variants to a registry.
func Register(r *scenarios.Registry) {
	for _, v := range variants {
		v.register(r)
	}
}

func (v variant) register(r *scenarios.Registry) {
	r.Add(v.name, scenarios.Reconciler{
		Doc:         v.doc,
		AddToScheme: AddToScheme,
		Program: func(o scenarios.ProgramOptions) sim.Program {
			setUp := simclient.SetUp(v.controller(o.LiveReads(false)))
			return simclient.Manager(o.Scheme, func(m ctrl.Manager) error { return errors.Join(serveWebhooks(m), setUp(m)) })
		},
	})
}

// controller plugs the variant in, with the triggers of the original.
func (v variant) controller(liveReads bool) simclient.Reconciler {
	return simclient.Reconciler{
		For:       &LeaderWorkerSet{},
		Owns:      []client.Object{&appsv1.StatefulSet{}, &corev1.Service{}},
		Watches:   []simclient.Watch{{Object: &appsv1.StatefulSet{}, Handler: handler.EnqueueRequestsFromMapFunc(named)}},
		LiveReads: liveReads,
		New: func(deps sim.Deps) (reconcile.Reconciler, error) {
			return newReconciler(v, deps), nil
		},
	}
}

// named maps an object to the LWS that its label names.
func named(_ context.Context, obj client.Object) []reconcile.Request {
	return []reconcile.Request{{
		NamespacedName: types.NamespacedName{Namespace: obj.GetNamespace(), Name: obj.GetLabels()[labelName]},
	}}
}
