package client

import (
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/sim"
)

// Reconciler describes one controller for people who have a reconciler, and no SetupWithManager to go with it.
type Reconciler struct {
	// Name of the controller; the lower-case kind of For if empty.
	Name string
	// For is the kind that is reconciled, and ForPredicates filter its events.
	For           client.Object
	ForPredicates []predicate.Predicate
	// Owns are kinds whose events enqueue their controlling owner.
	Owns []client.Object
	// Watches are further kinds, each with a handler of its own.
	Watches []Watch
	// MaxConcurrentReconciles is the number of workers; 1 if zero.
	MaxConcurrentReconciles int
	// LiveReads makes Deps.Client read from the server instead of from the informers' caches.
	LiveReads bool
	// New makes the reconciler, once per start of the process.
	New func(sim.Deps) (reconcile.Reconciler, error)
}

// Watch is a kind that is watched, with the handler of its events.
type Watch struct {
	Object     client.Object
	Handler    handler.EventHandler
	Predicates []predicate.Predicate
}

// Reconcilers makes a program of controllers that share one process. The scheme must know their types.
func Reconcilers(scheme *runtime.Scheme, controllers ...Reconciler) sim.Program {
	return Manager(scheme, SetUp(controllers...))
}

// SetUp returns the set-up of controllers that share one process, for [Manager] and its options.
func SetUp(controllers ...Reconciler) func(ctrl.Manager) error {
	return func(m ctrl.Manager) error {
		for i := range controllers {
			if err := controllers[i].setUp(m); err != nil {
				return err
			}
		}
		return nil
	}
}

func (r *Reconciler) setUp(m ctrl.Manager) error {
	if r.For == nil || r.New == nil {
		return errors.New("reconciler: For and New must be set")
	}
	name := r.Name
	if name == "" {
		gvk, err := apiutil.GVKForObject(r.For, m.GetScheme())
		if err != nil {
			return fmt.Errorf("reconciler for %T: %w", r.For, err)
		}
		name = strings.ToLower(gvk.Kind)
	}
	inner, err := r.New(r.deps(m, name))
	if err != nil {
		return fmt.Errorf("reconciler for %T: %w", r.For, err)
	}
	b := builder.ControllerManagedBy(m).Named(name).
		For(r.For, builder.WithPredicates(r.ForPredicates...)).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.MaxConcurrentReconciles})
	for _, owned := range r.Owns {
		b = b.Owns(owned)
	}
	for _, w := range r.Watches {
		b = b.Watches(w.Object, w.Handler, builder.WithPredicates(w.Predicates...))
	}
	return b.Complete(inner)
}

func (r *Reconciler) deps(m ctrl.Manager, name string) sim.Deps {
	live := m.GetAPIReader().(client.Client)
	deps := sim.Deps{
		Client: m.GetClient(), Live: live, APIReader: live,
		Scheme: m.GetScheme(), RESTMapper: m.GetRESTMapper(),
		Recorder: m.GetEventRecorderFor(name), Log: m.GetLogger(),
	}
	if r.LiveReads {
		deps.Client = live
	}
	return deps
}
