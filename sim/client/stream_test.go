package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// breaker breaks watches, as a fault says.
type breaker struct{ fault schedule.Fault }

var _ sim.Streamer = breaker{}

func (breaker) Before(*sim.Door) {}
func (breaker) After(*sim.Door)  {}

func (b breaker) Deliver(s *sim.Stream) {
	if b.fault.Type == schedule.Relist {
		s.Relist(b.fault.For)
	} else {
		s.Lag(b.fault.For)
	}
}

func newBreaker(fault schedule.Fault) (sim.Reactor, error) { return breaker{fault}, nil }

// watchFault is a fault at the n-th delivery of an object of the namespace default.
func watchFault(fault schedule.FaultType, lasts time.Duration, kind, name string, n int) schedule.Fault {
	at := schedule.Event{Actor: "operator", Incarnation: 1, Verb: schedule.Deliver, Kind: kind, Namespace: "default", Name: name,
		Occurrence: n}
	return schedule.Fault{Type: fault, At: at, Params: schedule.Params{For: lasts}}
}

// faulty lets faults strike at the watches of a scenario.
func faulty(config *sim.Config) *sim.Config {
	config.NewReactor = newBreaker
	return config
}

// witness writes down the events that a handler sees, with the data of their objects.
func witness(d *diary) handler.Funcs {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	data := func(obj ctrlclient.Object) string {
		return fmt.Sprintf("%s=%s", obj.GetName(), obj.(*corev1.ConfigMap).Data["value"])
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, _ queue) {
			d.write("create %s initial=%v", data(e.Object), e.IsInInitialList)
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ queue) {
			line := fmt.Sprintf("update %s to %s", data(e.ObjectOld), data(e.ObjectNew))
			if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
				line += ", another UID"
			}
			if e.ObjectOld.GetResourceVersion() == e.ObjectNew.GetResourceVersion() {
				line += ", the same revision"
			}
			if e.ObjectOld == e.ObjectNew {
				line += ", the same copy"
			}
			d.write("%s", line)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ queue) {
			d.write("delete %s unknown=%v", data(e.Object), e.DeleteStateUnknown)
		},
	}
}

// put writes a value into a ConfigMap, which it makes if there is none.
func put(ctx context.Context, c ctrlclient.Client, name, value string) func() error {
	return func() error {
		cm := configMap(name, "value="+value)
		if err := c.Create(ctx, cm); err == nil {
			return nil
		}
		return c.Update(ctx, cm)
	}
}

func remove(ctx context.Context, c ctrlclient.Client, name string) func() error {
	return func() error { return c.Delete(ctx, configMap(name)) }
}

// lostChanges are changes that come to pass while a watch is broken.
var lostChanges = []struct {
	name    string
	given   []apiserver.Object
	changes func(ctx context.Context, c ctrlclient.Client) []func() error
	first   string   // the object whose first delivery the fault strikes at
	dropped []string // what the handler is told if the watch goes on from where it was
	relist  []string // and by a new list
}{
	{
		name: "coalesced", given: []apiserver.Object{configMap("a", "value=0")}, first: "a",
		changes: func(ctx context.Context, c ctrlclient.Client) []func() error {
			return []func() error{put(ctx, c, "a", "1"), put(ctx, c, "a", "2"), put(ctx, c, "a", "3")}
		},
		dropped: []string{"update a=0 to a=1", "update a=1 to a=2", "update a=2 to a=3"},
		relist:  []string{"update a=0 to a=3"},
	},
	{
		name: "missed", given: []apiserver.Object{configMap("a", "value=0")}, first: "b",
		changes: func(ctx context.Context, c ctrlclient.Client) []func() error {
			return []func() error{put(ctx, c, "b", "1"), remove(ctx, c, "b")}
		},
		dropped: []string{"create b=1 initial=false", "delete b=1 unknown=false"},
		relist:  []string{"update a=0 to a=0, the same revision"},
	},
	{
		name: "tombstone", given: []apiserver.Object{configMap("a", "value=0")}, first: "a",
		changes: func(ctx context.Context, c ctrlclient.Client) []func() error {
			return []func() error{put(ctx, c, "a", "1"), remove(ctx, c, "a")}
		},
		dropped: []string{"update a=0 to a=1", "delete a=1 unknown=false"},
		relist:  []string{"delete a=0 unknown=true"},
	},
	{
		name: "recreated", given: []apiserver.Object{configMap("a", "value=0")}, first: "a",
		changes: func(ctx context.Context, c ctrlclient.Client) []func() error {
			return []func() error{remove(ctx, c, "a"), put(ctx, c, "a", "0")}
		},
		dropped: []string{"delete a=0 unknown=false", "create a=0 initial=false"},
		relist:  []string{"update a=0 to a=0, another UID"},
	},
	{
		name: "everything", first: "c",
		given: []apiserver.Object{configMap("b", "value=0"), configMap("c", "value=0"), configMap("d", "value=0")},
		changes: func(ctx context.Context, c ctrlclient.Client) []func() error {
			return []func() error{remove(ctx, c, "c"), put(ctx, c, "a", "1"), put(ctx, c, "d", "1"), remove(ctx, c, "b")}
		},
		dropped: []string{"delete c=0 unknown=false", "create a=1 initial=false", "update d=0 to d=1", "delete b=0 unknown=false"},
		relist:  []string{"delete b=0 unknown=true", "delete c=0 unknown=true", "create a=1 initial=false", "update d=0 to d=1"},
	},
}

// TestRelistEvents checks what a handler is told of changes that its informer's watch lost, with a relist and, for
// comparison, with a watch that only drops, and without a fault.
func TestRelistEvents(t *testing.T) {
	for _, test := range lostChanges {
		for fault, want := range map[schedule.FaultType][]string{
			schedule.WatchDrop: test.dropped, schedule.Relist: test.relist, "": test.dropped,
		} {
			t.Run(test.name+" "+string(fault), func(t *testing.T) {
				plan := sim.Plan{}
				if fault != "" {
					plan.Faults = []schedule.Fault{watchFault(fault, 10*time.Second, "ConfigMap", test.first, 1)}
				}
				_, lines := play(t, plan, func(d *diary) *sim.Config {
					return faulty(newConfig(func(m ctrl.Manager) error {
						err := script(m, func(ctx context.Context, c ctrlclient.Client) error {
							return inTurn(test.changes(ctx, c)...)
						})
						if err != nil {
							return err
						}
						return ctrl.NewControllerManagedBy(m).Named("witness").Watches(&corev1.ConfigMap{}, witness(d)).
							Complete(nothing(d))
					}, test.given...))
				})
				got := strings.Join(lines[len(test.given):], "\n")
				if got != strings.Join(want, "\n") {
					t.Errorf("the handler was told\n%s\nwant\n%s", got, strings.Join(want, "\n"))
				}
			})
		}
	}
}

// TestPredicatesAtRelist checks what predicates make of the updates of a new list: a StatefulSet that was deleted and created
// again is at generation 1 as its predecessor was, so that GenerationChangedPredicate keeps it from the controller.
func TestPredicatesAtRelist(t *testing.T) {
	tests := []struct {
		name              string
		predicate         predicate.Predicate
		recreated, resync bool // whether it lets pass an update to another UID, and one at the same revision
	}{
		{"none", predicate.Funcs{}, true, true},
		{"generation", predicate.GenerationChangedPredicate{}, false, false},
		{"revision", predicate.ResourceVersionChangedPredicate{}, true, false},
	}
	for _, test := range tests {
		for _, recreated := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s recreated=%v", test.name, recreated), func(t *testing.T) {
				target, want := "other", test.resync
				if recreated {
					target, want = "web", test.recreated
				}
				plan := sim.Plan{Faults: []schedule.Fault{watchFault(schedule.Relist, 10*time.Second, "StatefulSet", target, 1)}}
				_, lines := play(t, plan, func(d *diary) *sim.Config {
					return faulty(newConfig(func(m ctrl.Manager) error {
						err := script(m, func(ctx context.Context, c ctrlclient.Client) error {
							d.write("-")
							set := statefulSet(target)
							return inTurn(
								func() error { return ctrlclient.IgnoreNotFound(c.Delete(ctx, set)) },
								func() error { return c.Create(ctx, statefulSet(target)) },
							)
						})
						if err != nil {
							return err
						}
						return ctrl.NewControllerManagedBy(m).For(&appsv1.StatefulSet{}, builder.WithPredicates(test.predicate)).
							Complete(nothing(d))
					}, statefulSet("web")))
				})
				got := strings.Join(lines, " ")
				reconciled := strings.Contains(got[strings.Index(got, "-"):], "web")
				if reconciled != want {
					t.Errorf("the program saw %q; want web reconciled after the new list: %v", got, want)
				}
			})
		}
	}
}

// TestRelistPriority checks that what a new list shows of objects that have not changed waits behind what has, as
// handler.WithLowPriorityWhenUnchanged wants it, and that its additions are no initial ones.
func TestRelistPriority(t *testing.T) {
	plan := sim.Plan{Faults: []schedule.Fault{watchFault(schedule.Relist, 10*time.Second, "ConfigMap", "b", 1)}}
	_, lines := play(t, plan, func(d *diary) *sim.Config {
		return faulty(newConfig(func(m ctrl.Manager) error {
			if err := script(m, func(ctx context.Context, c ctrlclient.Client) error {
				d.write("-")
				return inTurn(put(ctx, c, "b", "1"), put(ctx, c, "c", "1"))
			}); err != nil {
				return err
			}
			watched := predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
				if e.ObjectNew.GetName() == "a" {
					d.write("a again")
				}
				return true
			}}
			return ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}, builder.WithPredicates(watched)).
				Complete(reconcile.Func(func(_ context.Context, request ctrl.Request) (ctrl.Result, error) {
					d.write("%s", request.Name)
					time.Sleep(time.Second) // long enough for all keys to be queued
					return ctrl.Result{}, nil
				}))
		}, configMap("a"), configMap("b")))
	})
	if got, want := strings.Join(lines, " "), "a b - a again b c a"; got != want {
		t.Errorf("the program saw %q, want %q", got, want)
	}
}

// TestCachedReadsInTheGap checks what a program reads from a cache whose watch is broken: what it was told last, by index and
// by name, until the new list; live reads see the truth.
func TestCachedReadsInTheGap(t *testing.T) {
	read := func(ctx context.Context, m ctrl.Manager, d *diary, when string) error {
		byValue := func(value string) string {
			list := &corev1.ConfigMapList{}
			if err := m.GetClient().List(ctx, list, ctrlclient.MatchingFields{"value": value}); err != nil {
				return err.Error()
			}
			var names []string
			for i := range list.Items {
				names = append(names, list.Items[i].Name)
			}
			return strings.Join(names, ",")
		}
		cached, live := &corev1.ConfigMap{}, &corev1.ConfigMap{}
		key := ctrlclient.ObjectKey{Namespace: "default", Name: "a"}
		if err := errors.Join(m.GetClient().Get(ctx, key, cached), m.GetAPIReader().Get(ctx, key, live)); err != nil {
			return err
		}
		d.write("%s: cached %s, live %s, 0 is %s, 1 is %s", when, cached.Data["value"], live.Data["value"], byValue("0"), byValue("1"))
		return nil
	}
	plan := sim.Plan{Faults: []schedule.Fault{watchFault(schedule.Relist, 10*time.Second, "ConfigMap", "a", 1)}}
	expect(t, plan, func(d *diary) *sim.Config {
		return faulty(newConfig(func(m ctrl.Manager) error {
			if err := m.GetCache().IndexField(context.Background(), &corev1.ConfigMap{}, "value",
				func(o ctrlclient.Object) []string { return []string{o.(*corev1.ConfigMap).Data["value"]} }); err != nil {
				return err
			}
			return script(m, func(ctx context.Context, c ctrlclient.Client) error {
				say := func(when string) func() error { return func() error { return read(ctx, m, d, when) } }
				return inTurn(say("before"), put(ctx, c, "a", "1"), put(ctx, c, "c", "1"), remove(ctx, c, "b"), say("in the gap"),
					func() error { time.Sleep(10 * time.Second); return nil }, say("after"))
			})
		}, configMap("a", "value=0"), configMap("b", "value=0")))
	},
		"before: cached 0, live 0, 0 is a,b, 1 is ",
		"in the gap: cached 0, live 1, 0 is a,b, 1 is ",
		"after: cached 1, live 1, 0 is , 1 is a,c")
}

// TestOneCacheLags checks that only the informer that a fault strikes at waits: a cache of another kind, and one of another
// form of the same kind, go on, so that an effect is seen before its cause.
func TestOneCacheLags(t *testing.T) {
	plan := sim.Plan{Faults: []schedule.Fault{watchFault(schedule.CacheLag, time.Minute, "ConfigMap", "a", 1)}}
	expect(t, plan, func(d *diary) *sim.Config {
		return faulty(newConfig(func(m ctrl.Manager) error {
			if err := script(m, func(ctx context.Context, c ctrlclient.Client) error {
				return inTurn(
					func() error { return c.Create(ctx, configMap("a")) },
					func() error { return c.Create(ctx, secret("b")) },
					func() error { return c.Create(ctx, configMap("c")) },
				)
			}); err != nil {
				return err
			}
			say := func(kind string) handler.Funcs {
				type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
				return handler.Funcs{CreateFunc: func(_ context.Context, e event.CreateEvent, _ queue) {
					d.write("%s %s at %s", kind, e.Object.GetName(), at().Round(time.Second))
				}}
			}
			return ctrl.NewControllerManagedBy(m).Named("witness").
				Watches(&corev1.ConfigMap{}, say("ConfigMap")).Watches(&corev1.Secret{}, say("Secret")).
				WatchesMetadata(&corev1.ConfigMap{}, say("metadata")).Complete(nothing(d))
		}))
	}, "metadata a at 1m0s", "Secret b at 1m1s", "metadata c at 1m2s", "ConfigMap a at 2m0s", "ConfigMap c at 2m0s")
}

// TestTombstoneOwner checks that the owner of an object that was lost is enqueued by what was last known of it.
func TestTombstoneOwner(t *testing.T) {
	plan := sim.Plan{Faults: []schedule.Fault{watchFault(schedule.Relist, 10*time.Second, "Secret", "child", 2)}}
	expect(t, plan, func(d *diary) *sim.Config {
		return faulty(newConfig(func(m ctrl.Manager) error {
			own := func(ctx context.Context, c ctrlclient.Client, owner string) (*corev1.Secret, error) {
				cm, child := &corev1.ConfigMap{}, secret("child")
				if err := c.Get(ctx, ctrlclient.ObjectKey{Namespace: "default", Name: owner}, cm); err != nil {
					return nil, err
				}
				return child, ctrl.SetControllerReference(cm, child, m.GetScheme())
			}
			err := m.Add(manager.RunnableFunc(func(ctx context.Context) error {
				time.Sleep(time.Minute)
				c := m.GetClient()
				return inTurn(
					func() error {
						child, err := own(ctx, c, "old")
						return errors.Join(err, c.Create(ctx, child))
					},
					func() error {
						d.write("-")
						child, err := own(ctx, c, "new")
						return errors.Join(err, c.Update(ctx, child))
					},
					func() error { return c.Delete(ctx, secret("child")) },
				)
			}))
			if err != nil {
				return err
			}
			return ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).Owns(&corev1.Secret{}).Complete(nothing(d))
		}, configMap("old"), configMap("new")))
	}, "new", "old", "old", "-", "old")
}
