package client_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/stalemate-dev/stalemate/sim"
)

// script runs a function as a runnable of the manager, a minute after it has started.
func script(m ctrl.Manager, f func(ctx context.Context, c ctrlclient.Client) error) error {
	return m.Add(manager.RunnableFunc(func(ctx context.Context) error {
		time.Sleep(time.Minute)
		return f(ctx, m.GetClient())
	}))
}

// inTurn does one thing after the other, a second apart.
func inTurn(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
		time.Sleep(time.Second)
	}
	return nil
}

// nothing is a reconciler that writes the names of what it is given.
func nothing(d *diary) reconcile.Func {
	return func(_ context.Context, request ctrl.Request) (ctrl.Result, error) {
		d.write("%s", request.Name)
		return ctrl.Result{}, nil
	}
}

// TestPredicates checks that predicates see the events they are asked about: old and new object of an update, the last
// state at a deletion.
func TestPredicates(t *testing.T) {
	changes := func(m ctrl.Manager, d *diary) error {
		return script(m, func(ctx context.Context, c ctrlclient.Client) error {
			set := statefulSet("web")
			say := func(what string) func() error { return func() error { d.write("- %s", what); return nil } }
			return inTurn(
				say("create"), func() error { return c.Create(ctx, set) },
				say("annotate"), func() error { set.Annotations = map[string]string{"a": "1"}; return c.Update(ctx, set) },
				say("label"), func() error { set.Labels = map[string]string{"l": "1"}; return c.Update(ctx, set) },
				say("scale"), func() error { set.Spec.Replicas = new(int32(2)); return c.Update(ctx, set) },
				say("status"), func() error { set.Status.Replicas = 1; return c.Status().Update(ctx, set) },
				say("delete"), func() error { return c.Delete(ctx, set) },
			)
		})
	}
	tests := []struct {
		name      string
		predicate predicate.Predicate
		passed    string // the changes whose events pass
	}{
		{"none", predicate.Funcs{}, "create annotate label scale status delete"},
		{"generation", predicate.GenerationChangedPredicate{}, "create scale delete"},
		{"labels", predicate.LabelChangedPredicate{}, "create label delete"},
		{"annotations", predicate.AnnotationChangedPredicate{}, "create annotate delete"},
		{"revision", predicate.ResourceVersionChangedPredicate{}, "create annotate label scale status delete"},
		{"generation or labels", predicate.Or[ctrlclient.Object](predicate.GenerationChangedPredicate{},
			predicate.LabelChangedPredicate{}), "create label scale delete"},
		{"not", predicate.Not[ctrlclient.Object](predicate.GenerationChangedPredicate{}), "annotate label status"},
		{"object", predicate.NewPredicateFuncs(func(o ctrlclient.Object) bool { return o.GetLabels()["l"] != "" }),
			"label scale status delete"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, lines := play(t, sim.Plan{}, func(d *diary) *sim.Config {
				return newConfig(func(m ctrl.Manager) error {
					if err := changes(m, d); err != nil {
						return err
					}
					return ctrl.NewControllerManagedBy(m).For(predicateTarget(), builder.WithPredicates(test.predicate)).
						Complete(nothing(d))
				})
			})
			passed, last := "", ""
			for _, line := range lines {
				if line != "web" {
					last = line[len("- "):]
				} else if passed += " " + last; passed[0] == ' ' && len(passed) == len(last)+1 {
					passed = last
				}
			}
			if passed != test.passed {
				t.Errorf("passed are %q, want %q", passed, test.passed)
			}
		})
	}
}

func predicateTarget() ctrlclient.Object { return statefulSet("") }

// TestOwners checks which owners' keys are enqueued: the controlling one, or all, of the old and the new object.
func TestOwners(t *testing.T) {
	owner := func(name string, controls bool) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: name, UID: types.UID(name), Controller: &controls}
	}
	scenario := func(opts ...handler.OwnerOption) func(*diary) *sim.Config {
		return func(d *diary) *sim.Config {
			return newConfig(func(m ctrl.Manager) error {
				err := script(m, func(ctx context.Context, c ctrlclient.Client) error {
					child := secret("child")
					child.OwnerReferences = []metav1.OwnerReference{owner("d", false), owner("c", true), owner("b", false)}
					return inTurn(
						func() error { return c.Create(ctx, child) },
						func() error { d.write("-"); return nil },
						func() error {
							child.OwnerReferences[1] = owner("a", true)
							return c.Update(ctx, child)
						},
						func() error { d.write("-"); return nil },
						func() error { return c.Delete(ctx, child) },
					)
				})
				if err != nil {
					return err
				}
				h := handler.EnqueueRequestForOwner(m.GetScheme(), m.GetRESTMapper(), &corev1.ConfigMap{}, opts...)
				return ctrl.NewControllerManagedBy(m).Named("owners").Watches(&corev1.Secret{}, h).Complete(nothing(d))
			})
		}
	}
	t.Run("controller", func(t *testing.T) {
		expect(t, sim.Plan{}, scenario(handler.OnlyControllerOwner()), "c", "-", "a", "c", "-", "a")
	})
	t.Run("all", func(t *testing.T) {
		expect(t, sim.Plan{}, scenario(), "b", "c", "d", "-", "a", "b", "c", "d", "-", "a", "b", "d")
	})
}

// TestMapFunc checks handlers that call the API, from the cache and live, and for kinds that nobody watches yet: the grant
// that runs them must not deadlock, and what they return keeps its order.
func TestMapFunc(t *testing.T) {
	expect(t, sim.Plan{}, func(d *diary) *sim.Config {
		return newConfig(func(m ctrl.Manager) error {
			toAll := func(ctx context.Context, obj ctrlclient.Object) []reconcile.Request {
				cached, live := &corev1.ConfigMapList{}, &corev1.ConfigMapList{}
				if err := m.GetClient().List(ctx, cached, ctrlclient.InNamespace("default")); err != nil {
					d.write("cached: %v", err)
				}
				if err := m.GetAPIReader().List(ctx, live, ctrlclient.InNamespace("default")); err != nil {
					d.write("live: %v", err)
				}
				pod := &corev1.Pod{}
				err := m.GetClient().Get(ctx, ctrlclient.ObjectKey{Namespace: "default", Name: "nobody"}, pod)
				d.write("%s: %d cached, %d live, %v", obj.GetName(), len(cached.Items), len(live.Items), err)
				var requests []reconcile.Request
				for i := range live.Items {
					last := &live.Items[len(live.Items)-1-i]
					requests = append(requests, reconcile.Request{NamespacedName: ctrlclient.ObjectKeyFromObject(last)})
				}
				return requests
			}
			if err := script(m, func(ctx context.Context, c ctrlclient.Client) error {
				return c.Create(ctx, secret("second"))
			}); err != nil {
				return err
			}
			return ctrl.NewControllerManagedBy(m).Named("mapped").
				Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(toAll)).
				Watches(&corev1.ConfigMap{}, handler.Funcs{}).Complete(nothing(d))
		}, configMap("a"), configMap("b"), secret("first"))
	},
		`first: 2 cached, 2 live, Pod "nobody" not found`, "b", "a",
		`second: 2 cached, 2 live, Pod "nobody" not found`, "b", "a")
}

// TestOwnHandler checks a handler that works on the queue itself.
func TestOwnHandler(t *testing.T) {
	expect(t, sim.Plan{}, func(d *diary) *sim.Config {
		return newConfig(func(m ctrl.Manager) error {
			request := func(name string) reconcile.Request {
				return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
			}
			funcs := handler.Funcs{CreateFunc: func(_ context.Context, e event.CreateEvent,
				q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
				q.AddAfter(request("later"), time.Minute)
				q.AddRateLimited(request("limited"))
				q.AddRateLimited(request("limited"))
				q.Add(request("now"))
				d.write("%d queued, %d failures", q.Len(), q.NumRequeues(request("limited")))
			}}
			f := func(_ context.Context, request ctrl.Request) (ctrl.Result, error) {
				d.write("%s at %s", request.Name, at().Round(time.Millisecond))
				return ctrl.Result{}, nil
			}
			return ctrl.NewControllerManagedBy(m).Named("own").Watches(&corev1.ConfigMap{}, funcs).Complete(reconcile.Func(f))
		}, configMap("a"))
	}, "1 queued, 2 failures", "now at 0s", "limited at 5ms", "later at 1m0s")
}

// TestChannelSource checks events that do not come from the API.
func TestChannelSource(t *testing.T) {
	expect(t, sim.Plan{}, func(d *diary) *sim.Config {
		return newConfig(func(m ctrl.Manager) error {
			events := make(chan event.GenericEvent)
			err := m.Add(manager.RunnableFunc(func(ctx context.Context) error {
				for _, name := range []string{"c", "a", "b"} {
					events <- event.GenericEvent{Object: configMap(name)}
				}
				time.Sleep(time.Minute)
				events <- event.GenericEvent{Object: configMap("later")}
				return nil
			}))
			if err != nil {
				return err
			}
			return ctrl.NewControllerManagedBy(m).Named("channel").
				WatchesRawSource(source.Channel(events, &handler.EnqueueRequestForObject{})).Complete(nothing(d))
		})
	}, "c", "a", "b", "later")
}

// TestSeveralControllers checks controllers that share a process: their events have their names, and two of them may work
// on one object at once.
func TestSeveralControllers(t *testing.T) {
	h := expect(t, sim.Plan{}, func(d *diary) *sim.Config {
		var inside atomic.Int32
		return newConfig(func(m ctrl.Manager) error {
			shared := m.GetCache()
			for _, name := range []string{"second", "first"} {
				c, err := controller.New(name, m, controller.Options{Reconciler: reconcile.Func(
					func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
						inside.Add(1)
						defer inside.Add(-1)
						time.Sleep(time.Second)
						d.write("%s: %s, %d inside", name, request.Name, inside.Load())
						return ctrl.Result{}, m.GetClient().Get(ctx, request.NamespacedName, &corev1.ConfigMap{})
					})})
				if err != nil {
					return err
				}
				// One cache for both, so that its number does not tell the sources apart.
				err = c.Watch(source.Kind(shared, &corev1.ConfigMap{}, &handler.TypedEnqueueRequestForObject[*corev1.ConfigMap]{}))
				if err != nil {
					return err
				}
			}
			return nil
		}, configMap("a"))
	}, "first: a, 2 inside", "second: a, 1 inside")
	reads := map[string]int{}
	for _, r := range h.Records {
		if r.Event.Verb == "CachedGet" {
			reads[r.Event.Controller]++
		}
	}
	if len(reads) != 2 || reads["first"] != 1 || reads["second"] != 1 {
		t.Errorf("reads by controllers are %v, want one of each", reads)
	}
}
