package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/client"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// TestRestOfManager checks what an operator's main does besides setting up controllers: none of it may fail, and raw HTTP is
// refused in words.
func TestRestOfManager(t *testing.T) {
	expect(t, sim.Plan{}, func(d *diary) *sim.Config {
		return newConfig(func(m ctrl.Manager) error {
			m.GetWebhookServer().Register("/validate", &webhook.Admission{Handler: admission.HandlerFunc(
				func(context.Context, admission.Request) admission.Response { return admission.Allowed("") })})
			_, err := m.GetHTTPClient().Get(m.GetConfig().Host + "/api")
			d.write("%v", err)
			m.GetLogger().Info("set up")
			namespaced, err := m.GetClient().IsObjectNamespaced(&corev1.Namespace{})
			d.write("%v", namespaced)
			return errors.Join(err, m.AddHealthzCheck("healthz", healthz.Ping), m.AddReadyzCheck("readyz", healthz.Ping),
				m.AddMetricsServerExtraHandler("/x", http.NotFoundHandler()))
		})
	}, `Get "http://stalemate.invalid/api": GET /api: raw HTTP to the API server is not simulated in this way of running an `+
		`operator; use the manager's client`, "false")
}

// TestSetUpError checks that a set-up which fails is the run's error.
func TestSetUpError(t *testing.T) {
	world, err := sim.NewWorld(newConfig(func(ctrl.Manager) error { return errors.New("no") }))
	if err != nil {
		t.Fatal(err)
	}
	if _, err = world.Run(sim.Plan{}); err == nil || !strings.Contains(err.Error(), `process "operator" does not start: no`) {
		t.Errorf("error is %v, want the set-up's", err)
	}
}

// TestHeldCache checks that a manager which gives up waiting for a cache ends its process, which is then started again, and that
// it is the set-up's fault where the default order comes to the same.
func TestHeldCache(t *testing.T) {
	scenario := func(timeout time.Duration) func(*diary) *sim.Config {
		return func(d *diary) *sim.Config {
			return newConfig(func(m ctrl.Manager) error {
				return ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).
					WithOptions(controller.Options{CacheSyncTimeout: timeout}).
					Complete(nothing(d))
			}, configMap("a"))
		}
	}
	plan := sim.Plan{Constraints: []schedule.Constraint{{
		Event: schedule.Event{Actor: "operator", Verb: schedule.Sync, Kind: "ConfigMap", Occurrence: 1},
		Waits: schedule.Event{Actor: "nobody", Verb: schedule.Start, Occurrence: 1},
	}}}
	h, _ := play(t, plan, scenario(time.Minute))
	if last := h.Records[len(h.Records)-1]; last.Event.String() != "operator[2](default/a) Dequeue #1" || last.At < 70*time.Second {
		t.Errorf("the last step is %s at %s, want the pass after the second start", last.Event, last.At)
	}
	if len(h.Unfinished) > 0 || len(h.Logs) == 0 || !strings.Contains(fmt.Sprint(h.Logs), "timed out waiting for cache to be synced") {
		t.Errorf("unfinished are %q, and the logs are %v", h.Unfinished, h.Logs)
	}
	world, err := sim.NewWorld(scenario(time.Nanosecond)(&diary{}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := world.Run(plan); err == nil || !strings.HasPrefix(err.Error(), `process "operator" does not start: runnable `) {
		t.Errorf("error is %v, want the set-up's", err)
	}
}

// TestWokenGoroutine checks that a goroutine which an event handler wakes makes calls of its own, whatever its context.
func TestWokenGoroutine(t *testing.T) {
	h := expect(t, sim.Plan{}, func(d *diary) *sim.Config {
		return newConfig(func(m ctrl.Manager) error {
			woken := make(chan string)
			hear := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, obj ctrlclient.Object) []reconcile.Request {
				woken <- obj.GetName()
				err := m.GetAPIReader().Get(ctx, key("a"), &corev1.ConfigMap{})
				if err != nil {
					d.write("%v", err)
				}
				return nil
			})
			err := m.Add(manager.RunnableFunc(func(context.Context) error {
				for name := range woken {
					if err := m.GetAPIReader().Get(context.Background(), key(name), &corev1.Secret{}); err != nil {
						return err
					}
				}
				return nil
			}))
			return errors.Join(err,
				ctrl.NewControllerManagedBy(m).Named("hearing").Watches(&corev1.Secret{}, hear).Complete(nothing(d)))
		}, configMap("a"), secret("x"), secret("y"))
	})
	handlers := map[int]bool{}
	for _, r := range h.Records {
		switch {
		case r.Event.Verb == schedule.Handle:
			handlers[r.Thread] = true
		case r.Event.Verb == schedule.Get && handlers[r.Thread] != (r.Event.Kind == "ConfigMap"):
			t.Errorf("%s: is it the handler's? %v", r.Event, handlers[r.Thread])
		}
	}
	if calls := called(h, schedule.Get); len(calls) != 3 { // the handler's second one is a poll
		t.Errorf("calls are %q, want one of the handler and two of the goroutine", calls)
	}
}

// TestCancelledSiblings checks goroutines of a pass whose calls end because one of them has failed.
func TestCancelledSiblings(t *testing.T) {
	expect(t, sim.Plan{}, onceWith(func(ctx context.Context, m ctrl.Manager, d *diary) error {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		results := make(chan string)
		for i := range 6 {
			go func() {
				time.Sleep(time.Duration(i%2) * time.Minute)
				err := m.GetClient().Create(ctx, configMap(fmt.Sprintf("child-%d", i/2), "n="+fmt.Sprint(i%2)))
				if err != nil {
					cancel(err)
				}
				results <- fmt.Sprintf("%d: %v", i, err)
			}()
		}
		lines := make([]string, 6)
		for range lines {
			line := <-results
			lines[line[0]-'0'] = line
		}
		d.lines = append(d.lines, lines...)
		return nil
	}, configMap("a")), "0: <nil>", `1: configmaps "child-0" already exists`, "2: <nil>", "3: context canceled", "4: <nil>",
		"5: context canceled")
}

// TestTwoProcesses checks two processes of one program, which share nothing but the server.
func TestTwoProcesses(t *testing.T) {
	h := expect(t, sim.Plan{}, func(d *diary) *sim.Config {
		config := newConfig(func(m ctrl.Manager) error {
			passes := 0
			return forConfigMaps(m, func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
				passes++
				cm := &corev1.ConfigMap{}
				if err := m.GetClient().Get(ctx, request.NamespacedName, cm); err != nil {
					return ctrl.Result{}, err
				}
				d.write("pass %d sees %q", passes, cm.Data["n"])
				if len(cm.Data["n"]) > 2 {
					return ctrl.Result{}, nil
				}
				cm.Data = map[string]string{"n": cm.Data["n"] + "x"}
				return ctrl.Result{}, m.GetClient().Update(ctx, cm)
			})
		}, configMap("a"))
		config.Processes = append(config.Processes, sim.Process{Name: "other", Program: config.Processes[0].Program})
		return config
	}, `pass 1 sees ""`, `pass 1 sees "x"`, `pass 2 sees "xx"`, `pass 2 sees "xxx"`, `pass 3 sees "xxx"`)
	actors := map[string]int{}
	for _, r := range h.Records {
		if r.Event.Verb == schedule.Update {
			actors[r.Event.Actor]++
		}
	}
	if len(actors) != 2 {
		t.Errorf("updates by actors are %v, want some of both", actors)
	}
}

// TestReconcilers checks the shorter way in: what a reconciler is made of, what it is called, and what its events enqueue.
func TestReconcilers(t *testing.T) {
	h := expect(t, sim.Plan{}, func(d *diary) *sim.Config {
		config := newConfig(nil, configMap("a"))
		reconciler := func(live bool) client.Reconciler {
			return client.Reconciler{
				For: &corev1.ConfigMap{}, Owns: []ctrlclient.Object{&corev1.Secret{}}, LiveReads: live,
				New: func(deps sim.Deps) (reconcile.Reconciler, error) {
					return reconcile.Func(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
						cm := &corev1.ConfigMap{}
						if err := deps.Client.Get(ctx, request.NamespacedName, cm); err != nil {
							return ctrl.Result{}, err
						}
						owned := secret("owned")
						err := errors.Join(ctrl.SetControllerReference(cm, owned, deps.Scheme),
							deps.Live.Get(ctx, request.NamespacedName, cm), deps.APIReader.Get(ctx, request.NamespacedName, cm))
						if err != nil {
							return ctrl.Result{}, err
						}
						deps.Recorder.Event(cm, corev1.EventTypeNormal, "Seen", "seen")
						deps.Log.Info("seen")
						d.write("live %v", live)
						return ctrl.Result{}, ctrlclient.IgnoreAlreadyExists(deps.Client.Create(ctx, owned))
					}), nil
				},
			}
		}
		second := reconciler(true)
		second.Name = "second"
		config.Processes[0].Program = client.Reconcilers(scheme, reconciler(false), second)
		return config
	}, "live false", "live true", "live false") // the second one has not begun when its Secret comes
	controllers := map[string]bool{}
	for _, r := range h.Records {
		if r.Event.Key != "" {
			controllers[r.Event.Controller] = true
		}
		if event, ok := r.After.(*corev1.Event); ok && event.ReportingController != "configmap" && event.ReportingController != "second" {
			t.Errorf("Event is reported by %q", event.ReportingController)
		}
	}
	if len(controllers) != 2 || !controllers["configmap"] || !controllers["second"] {
		t.Errorf("controllers are %v, want configmap and second", controllers)
	}
}
