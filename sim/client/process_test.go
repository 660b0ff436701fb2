package client_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// namedRequest is a request of an operator's own type.
type namedRequest struct{ name string }

// customController sets up a controller with requests of another type, whose queue is controller-runtime's own.
func customController(m ctrl.Manager, f reconcile.TypedFunc[namedRequest]) error {
	c, err := controller.NewTyped("custom", m, controller.TypedOptions[namedRequest]{Reconciler: f, MaxConcurrentReconciles: 2})
	if err != nil {
		return err
	}
	funcs := handler.TypedFuncs[*corev1.ConfigMap, namedRequest]{
		CreateFunc: func(_ context.Context, e event.TypedCreateEvent[*corev1.ConfigMap], q workqueue.TypedRateLimitingInterface[namedRequest]) {
			q.Add(namedRequest{e.Object.Name})
		},
	}
	return c.Watch(source.TypedKind(m.GetCache(), &corev1.ConfigMap{}, funcs))
}

// TestCustomRequests checks a controller whose requests are of a type of their own.
func TestCustomRequests(t *testing.T) {
	h := expect(t, sim.Plan{}, func(d *diary) *sim.Config {
		failed := false
		return newConfig(func(m ctrl.Manager) error {
			return customController(m, func(ctx context.Context, request namedRequest) (ctrl.Result, error) {
				cm := &corev1.ConfigMap{}
				err := m.GetClient().Get(ctx, types.NamespacedName{Namespace: "default", Name: request.name}, cm)
				d.write("%s: %v at %s", request.name, err, at().Round(time.Millisecond))
				if request.name == "b" && !failed {
					failed = true
					return ctrl.Result{}, errors.New("no")
				}
				return ctrl.Result{}, err
			})
		}, configMap("a"), configMap("b"))
	}, "a: <nil> at 0s", "b: <nil> at 0s", "b: <nil> at 5ms")
	for _, r := range h.Records {
		if r.Event.Verb == schedule.CachedGet && r.Event.Controller != "" {
			t.Errorf("%s is taken for a call of an event handler", r.Event)
		}
	}
}

// TestPanics checks that a panic is a finding, wherever it happens in code that controller-runtime calls, and whether it
// would recover from it or not.
func TestPanics(t *testing.T) {
	boom := func() { panic("boom") }
	reconciling := func(m ctrl.Manager, recovers bool) error {
		return ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).
			WithOptions(controller.Options{RecoverPanic: &recovers}).
			Complete(reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) {
				boom()
				return ctrl.Result{}, nil
			}))
	}
	tests := map[string]func(ctrl.Manager) error{
		"reconciler":              func(m ctrl.Manager) error { return reconciling(m, true) },
		"reconciler, no recovery": func(m ctrl.Manager) error { return reconciling(m, false) },
		"runnable": func(m ctrl.Manager) error {
			return m.Add(manager.RunnableFunc(func(context.Context) error { boom(); return nil }))
		},
		"reconciler of own request": func(m ctrl.Manager) error {
			return customController(m, func(context.Context, namedRequest) (ctrl.Result, error) { boom(); return ctrl.Result{}, nil })
		},
		"index function": func(m ctrl.Manager) error {
			if err := m.GetFieldIndexer().IndexField(context.Background(), &corev1.ConfigMap{}, "x",
				func(ctrlclient.Object) []string { boom(); return nil }); err != nil {
				return err
			}
			return forConfigMaps(m, func(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
				return ctrl.Result{}, m.GetClient().List(ctx, &corev1.ConfigMapList{}, ctrlclient.MatchingFields{"x": "1"})
			})
		},
		"map function": func(m ctrl.Manager) error {
			return ctrl.NewControllerManagedBy(m).Named("mapped").Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(
				func(context.Context, ctrlclient.Object) []reconcile.Request { boom(); return nil })).Complete(nothing(&diary{}))
		},
	}
	for name, setup := range tests {
		t.Run(name, func(t *testing.T) {
			h, _ := play(t, sim.Plan{}, func(*diary) *sim.Config { return newConfig(setup, configMap("a")) })
			if h.Outcome != history.Panicked || !strings.HasPrefix(h.Panic, "operator: boom") || !strings.Contains(h.Panic, "TestPanics") {
				t.Errorf("outcome is %s, panic is %q; want boom, with its stack", h.Outcome, h.Panic)
			}
		})
	}
}

// TestReconciliationTimeout checks that the context of a pass ends when its time is up, also while a call is parked.
func TestReconciliationTimeout(t *testing.T) {
	held := schedule.Event{Actor: "operator", Incarnation: 1, Key: "default/a", Verb: schedule.Update, Kind: "ConfigMap",
		Namespace: "default", Name: "a", Occurrence: 1}
	never := held
	never.Occurrence = 9
	scenario := func(d *diary) *sim.Config {
		config := newConfig(func(m ctrl.Manager) error {
			f := func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
				err := m.GetClient().Update(ctx, configMap("a", "n=1"))
				d.write("%v at %s", err, at().Round(time.Millisecond))
				return ctrl.Result{}, err
			}
			return ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).
				WithOptions(controller.Options{ReconciliationTimeout: 10 * time.Second}).Complete(reconcile.Func(f))
		}, configMap("a"))
		config.Limits.Hold = 15 * time.Second
		return config
	}
	expect(t, sim.Plan{Constraints: []schedule.Constraint{{Event: held, Waits: never}}}, scenario,
		"context deadline exceeded at 10s", "<nil> at 15.001s", "<nil> at 15.002s")
}

// fanOut reconciles with goroutines that make calls side by side: equal reads, and different and equal writes.
func fanOut(m ctrl.Manager, d *diary) error {
	return forConfigMaps(m, func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
		if request.Name != "a" {
			return ctrl.Result{}, nil
		}
		var group sync.WaitGroup
		errs := make([]error, 12)
		for i := range errs {
			group.Go(func() {
				cm := &corev1.ConfigMap{}
				if errs[i] = m.GetAPIReader().Get(ctx, key("a"), cm); errs[i] != nil {
					return
				}
				if i%3 == 0 {
					patch := fmt.Appendf(nil, `{"data":{"n%d":"1"}}`, i)
					errs[i] = m.GetClient().Patch(ctx, configMap("a"), ctrlclient.RawPatch(types.MergePatchType, patch))
				} else {
					errs[i] = ctrlclient.IgnoreAlreadyExists(m.GetClient().Create(ctx, configMap(fmt.Sprintf("child-%d", i))))
				}
			})
		}
		group.Wait()
		d.write("%v", errors.Join(errs...))
		return ctrl.Result{}, nil
	})
}

// TestFanOut checks that goroutines which one pass starts side by side are always put in the same order.
func TestFanOut(t *testing.T) {
	var hashes []uint64
	for _, procs := range []int{1, 2} {
		func() {
			defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
			for range 50 {
				h := run(t, newConfig(func(m ctrl.Manager) error { return fanOut(m, &diary{}) }, configMap("a")), sim.Plan{})
				hashes = append(hashes, h.Hash)
			}
		}()
	}
	slices.Sort(hashes)
	if hashes = slices.Compact(hashes); len(hashes) != 1 {
		t.Errorf("100 runs have %d different histories", len(hashes))
	}
}

// TestGoroutineOutlivesItsPass checks calls of a goroutine that a pass has started and left behind: they are the pass's still.
func TestGoroutineOutlivesItsPass(t *testing.T) {
	h := expect(t, sim.Plan{}, onceWith(func(ctx context.Context, m ctrl.Manager, d *diary) error {
		go func() {
			for range 3 {
				time.Sleep(20 * time.Second)
				err := m.GetAPIReader().Get(ctx, key("a"), &corev1.ConfigMap{})
				d.write("%v at %s", err, at().Round(time.Second))
			}
			d.write("%v", m.GetClient().Update(ctx, configMap("a", "n=1")))
			time.Sleep(3 * time.Hour) // longer than the run
			d.write("at the end of the process")
		}()
		d.write("pass ends")
		return nil
	}, configMap("a")), "pass ends", "<nil> at 20s", "<nil> at 40s", "<nil> at 1m0s", "<nil>", "at the end of the process")
	if len(h.Unfinished) > 0 {
		t.Errorf("unfinished are %q, want none", h.Unfinished)
	}
	for _, r := range h.Records {
		if r.Event.Verb == schedule.Get && r.Event.Key != "default/a" {
			t.Errorf("%s does not belong to the pass", r.Event)
		}
	}
}

// TestLeakedGoroutines checks that goroutines which never end are named, and keep the run from nothing else.
func TestLeakedGoroutines(t *testing.T) {
	h := expect(t, sim.Plan{}, onceWith(func(context.Context, ctrl.Manager, *diary) error {
		forever := make(chan struct{})
		go func() { <-forever }()
		go func() { time.Sleep(1000 * time.Hour) }()
		return nil
	}, configMap("a")))
	if len(h.Unfinished) != 2 || !strings.HasPrefix(h.Unfinished[0], "a goroutine that has not ended: chan receive in ") ||
		!strings.HasPrefix(h.Unfinished[1], "a goroutine that has not ended: sleep in ") ||
		!strings.Contains(h.Unfinished[1], "TestLeakedGoroutines") || !strings.Contains(h.Unfinished[1], "process_test.go:") {
		t.Errorf("unfinished are %q, want both goroutines, with their places", h.Unfinished)
	}
}

// TestRunnables checks runnables that are no controllers: with a ticker, added before and after the start, one that ends.
func TestRunnables(t *testing.T) {
	expect(t, sim.Plan{}, func(d *diary) *sim.Config {
		return newConfig(func(m ctrl.Manager) error {
			ticking := manager.RunnableFunc(func(ctx context.Context) error {
				ticker := time.NewTicker(time.Minute)
				defer ticker.Stop()
				for n := 1; ; n++ {
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-ticker.C:
					}
					if n <= 3 {
						err := m.GetClient().Create(ctx, configMap(fmt.Sprintf("tick-%d", n)))
						d.write("tick at %s: %v", at().Round(time.Second), err)
					}
				}
			})
			adding := manager.RunnableFunc(func(ctx context.Context) error {
				<-m.Elected()
				return m.Add(manager.RunnableFunc(func(ctx context.Context) error {
					list := &corev1.ConfigMapList{}
					err := m.GetClient().List(ctx, list)
					d.write("%d at the start: %v", len(list.Items), err)
					return err
				}))
			})
			return errors.Join(m.Add(ticking), m.Add(adding))
		}, configMap("a"))
	}, "1 at the start: <nil>", "tick at 1m0s: <nil>", "tick at 2m0s: <nil>", "tick at 3m0s: <nil>")
}

// TestRunnableError checks that a runnable which fails ends the run with an error, as it would end the process.
func TestRunnableError(t *testing.T) {
	world, err := sim.NewWorld(newConfig(func(m ctrl.Manager) error {
		return m.Add(manager.RunnableFunc(func(context.Context) error { return errors.New("no") }))
	}))
	if err != nil {
		t.Fatal(err)
	}
	const want = `process "operator" does not start: runnable manager.RunnableFunc: no`
	if _, err = world.Run(sim.Plan{}); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error is %v, want the runnable's", err)
	}
}

// TestLateController checks a controller that another one adds: it is known by its name, while the first one is still the
// process's only one.
func TestLateController(t *testing.T) {
	h := expect(t, sim.Plan{}, onceWith(func(ctx context.Context, m ctrl.Manager, d *diary) error {
		return ctrl.NewControllerManagedBy(m).Named("late").For(&corev1.Secret{}).Complete(reconcile.Func(
			func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
				d.write("%s", request)
				return ctrl.Result{}, m.GetClient().Get(ctx, request.NamespacedName, &corev1.Secret{})
			}))
	}, configMap("a"), secret("s")), "default/s")
	for _, r := range h.Records {
		if want := map[string]string{"default/a": "", "default/s": "late"}; r.Event.Controller != want[r.Event.Key] && r.Event.Key != "" {
			t.Errorf("%s has controller %q, want %q", r.Event, r.Event.Controller, want[r.Event.Key])
		}
	}
}

// TestRecorders checks that both kinds of recorders write Events: the first of a kind creates one, later ones count it up.
func TestRecorders(t *testing.T) {
	h := expect(t, sim.Plan{}, onceWith(func(ctx context.Context, m ctrl.Manager, d *diary) error {
		cm := &corev1.ConfigMap{}
		if err := m.GetClient().Get(ctx, key("a"), cm); err != nil {
			return err
		}
		old, current := m.GetEventRecorderFor("old"), m.GetEventRecorder("new")
		for range 3 {
			old.Event(cm, corev1.EventTypeNormal, "Same", "the same")
			old.Eventf(cm, corev1.EventTypeWarning, "Same", "number %d", 1)
			current.Eventf(cm, nil, corev1.EventTypeNormal, "Same", "Testing", "the same")
		}
		old.AnnotatedEventf(cm, map[string]string{"a": "1"}, corev1.EventTypeNormal, "Other", "annotated")
		old.Event(cm, "Odd", "Other", "of no type that there is")
		time.Sleep(time.Second)
		list := &corev1.EventList{}
		if err := m.GetAPIReader().List(ctx, list); err != nil {
			return err
		}
		var texts []string
		for _, e := range list.Items {
			count := e.Count
			if e.Series != nil {
				count = e.Series.Count
			}
			texts = append(texts, fmt.Sprintf("%s %s %s %q of %s %s by %s%s: %d", e.Namespace, e.Type, e.Reason, e.Message,
				e.InvolvedObject.Kind, e.InvolvedObject.Name, e.ReportingController, e.Annotations["a"], count))
		}
		slices.Sort(texts)
		d.lines = append(d.lines, texts...)
		return nil
	}, configMap("a")),
		`default Normal Other "annotated" of ConfigMap a by old1: 1`,
		`default Normal Same "the same" of ConfigMap a by new: 2`,
		`default Normal Same "the same" of ConfigMap a by old: 3`,
		`default Warning Same "number 1" of ConfigMap a by old: 3`)
	if creates, patches := called(h, schedule.Create), called(h, schedule.Patch); len(creates) != 4 || len(patches) != 5 {
		t.Errorf("%d Events created, %d counted up; want 4 and 5", len(creates), len(patches))
	}
}

// TestLogs checks how an operator's lines are kept: with its own values, without those that controller-runtime adds, and
// without addresses.
func TestLogs(t *testing.T) {
	h := expect(t, sim.Plan{}, onceWith(func(ctx context.Context, _ ctrl.Manager, _ *diary) error {
		logger := log.FromContext(ctx).WithName("mine").WithValues("shard", 1)
		logger.Info("found", "name", "x", "object", configMap("b"), "request", reconcile.Request{NamespacedName: key("c")},
			"list", []*corev1.ObjectReference{{Name: "y"}}, "channel", make(chan int), "none", nil, "missing", (*corev1.Pod)(nil))
		logger.Error(errors.New("no"), "failed")
		logger.V(4).Info("in detail")
		logger.V(5).Info("in too much detail")
		return nil
	}, configMap("a")))
	var lines []string
	for _, l := range h.Logs {
		if l.Key == "default/a" {
			lines = append(lines, fmt.Sprintf("%s %d %s %s", l.Logger, l.Level, l.Message, strings.Join(l.Values, " ")))
		}
	}
	want := []string{
		`mine 0 found shard=1 name=x object=default/b request=default/c list=[{"name":"y"}] channel=<chan int> none=<nil> missing=<*v1.Pod>`,
		"mine -1 failed shard=1 error=no", "mine 4 in detail shard=1",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("lines are\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

// TestNoLeak checks that a run leaves no goroutine behind.
func TestNoLeak(t *testing.T) {
	world, err := sim.NewWorld(newConfig(func(m ctrl.Manager) error {
		if err := m.Add(manager.RunnableFunc(func(ctx context.Context) error {
			for range time.Tick(time.Minute) {
				if err := m.GetClient().Get(ctx, key("a"), &corev1.ConfigMap{}); err != nil {
					return err
				}
			}
			return nil
		})); err != nil {
			return err
		}
		return errors.Join(fanOut(m, &diary{}), customController(m, func(context.Context, namedRequest) (ctrl.Result, error) {
			return ctrl.Result{RequeueAfter: time.Minute}, nil
		}))
	}, configMap("a")))
	if err != nil {
		t.Fatal(err)
	}
	before := goroutines()
	for range 100 {
		if _, err := world.Run(sim.Plan{}); err != nil {
			t.Fatal(err)
		}
	}
	if after := goroutines(); after > before {
		t.Errorf("%d goroutines after 100 runs, %d before", after, before)
	}
}
