package client_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/sim"
)

// TestResults checks what the queue makes of the result of a pass: when, in virtual time, the next pass over the key begins.
func TestResults(t *testing.T) {
	no := errors.New("no")
	tests := []struct {
		name    string
		results []ctrl.Result
		errs    []error
		want    []time.Duration // from the end of a pass to the begin of the next
	}{
		{"success", []ctrl.Result{{}}, []error{nil}, nil},
		{"RequeueAfter", []ctrl.Result{{RequeueAfter: time.Hour}, {}}, []error{nil, nil}, []time.Duration{time.Hour}},
		{"errors back off", make([]ctrl.Result, 6), []error{no, no, no, no, no, nil},
			[]time.Duration{5e6, 10e6, 20e6, 40e6, 80e6}},
		{"Requeue backs off", []ctrl.Result{{Requeue: true}, {Requeue: true}, {}}, []error{nil, nil, nil},
			[]time.Duration{5e6, 10e6}},
		{"errors are forgotten after RequeueAfter", []ctrl.Result{{}, {}, {RequeueAfter: time.Minute}, {}, {}},
			[]error{no, no, nil, no, nil}, []time.Duration{5e6, 10e6, time.Minute, 5e6}},
		{"an error wins over RequeueAfter", []ctrl.Result{{RequeueAfter: time.Minute}, {}}, []error{no, nil}, []time.Duration{5e6}},
		{"a terminal error is not retried", []ctrl.Result{{}}, []error{reconcile.TerminalError(no)}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var gaps []time.Duration
			scenario := func(*diary) *sim.Config {
				gaps = nil
				passes, end := 0, time.Duration(0)
				return newConfig(func(m ctrl.Manager) error {
					return forConfigMaps(m, func(context.Context, ctrl.Request) (ctrl.Result, error) {
						if passes > 0 {
							gaps = append(gaps, at()-end)
						}
						end = at()
						passes++
						return test.results[passes-1], test.errs[passes-1]
					})
				}, configMap("a"))
			}
			expect(t, sim.Plan{}, scenario)
			if len(gaps) != len(test.want) {
				t.Fatalf("passes begin after %v, want %v", gaps, test.want)
			}
			for i, gap := range gaps {
				// Handing out the key is a step, and takes a microsecond and a nanosecond.
				if gap != test.want[i]+time.Microsecond+time.Nanosecond {
					t.Errorf("pass %d begins after %s, want %s and a step", i+2, gap, test.want[i])
				}
			}
		})
	}
}

// TestForgetOnSuccess checks that the back-off starts anew after a success, however the key comes back.
func TestForgetOnSuccess(t *testing.T) {
	expect(t, sim.Plan{}, func(d *diary) *sim.Config {
		failing := []bool{true, true, false, true, false}
		var c ctrlclient.Client
		var last time.Duration
		return newConfig(func(m ctrl.Manager) error {
			c = m.GetClient()
			return forConfigMaps(m, func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
				d.write("%s", (at() - last).Round(time.Millisecond))
				fails := failing[0]
				failing = failing[1:]
				if len(failing) == 2 {
					if err := c.Update(ctx, configMap("a", "n=1")); err != nil { // its event brings the key back
						return ctrl.Result{}, err
					}
				}
				last = at()
				if fails {
					return ctrl.Result{}, errors.New("no")
				}
				return ctrl.Result{}, nil
			})
		}, configMap("a"))
	}, "0s", "5ms", "10ms", "0s", "5ms")
}

// TestSameKeyIsSerial checks that several workers work side by side, but never on one key.
func TestSameKeyIsSerial(t *testing.T) {
	h := expect(t, sim.Plan{}, func(d *diary) *sim.Config {
		var mu sync.Mutex
		running, most := map[string]int{}, 0
		enter := func(name string) {
			mu.Lock()
			defer mu.Unlock()
			running[name]++
			total := 0
			for _, n := range running {
				total += n
			}
			if most < total {
				most = total
				d.write("%d at once", most)
			}
			if running[name] > 1 {
				d.write("%s is reconciled twice at once", name)
			}
		}
		leave := func(name string) {
			mu.Lock()
			defer mu.Unlock()
			running[name]--
		}
		return newConfig(func(m ctrl.Manager) error {
			c := m.GetClient()
			f := func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
				enter(request.Name)
				defer leave(request.Name)
				time.Sleep(time.Second)
				cm := &corev1.ConfigMap{}
				if err := c.Get(ctx, request.NamespacedName, cm); err != nil {
					return ctrl.Result{}, err
				}
				if len(cm.Data["n"]) < 3 {
					cm.Data = map[string]string{"n": cm.Data["n"] + "x"}
					if err := c.Update(ctx, cm); err != nil {
						return ctrl.Result{}, err
					}
				}
				time.Sleep(time.Second) // the event of the update arrives in the middle of this
				return ctrl.Result{}, nil
			}
			return ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).
				WithOptions(controller.Options{MaxConcurrentReconciles: 3}).Complete(reconcile.Func(f))
		}, configMap("a"), configMap("b"), configMap("c"), configMap("d"))
	}, "1 at once", "2 at once", "3 at once")
	if got := len(called(h, "Update")); got != 12 {
		t.Errorf("%d updates, want 3 for each of 4 objects", got)
	}
}

// TestPriorities checks that objects of the initial list come after what happened since: their priority is lower.
func TestPriorities(t *testing.T) {
	scenario := func(usePriorityQueue *bool) func(d *diary) *sim.Config {
		return func(d *diary) *sim.Config {
			return newConfig(func(m ctrl.Manager) error {
				c := m.GetClient()
				f := func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
					d.write("%s", request.Name)
					if request.Name == "a" {
						return ctrl.Result{}, c.Create(ctx, configMap("z"))
					}
					return ctrl.Result{}, nil
				}
				return ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).
					WithOptions(controller.Options{UsePriorityQueue: usePriorityQueue}).Complete(reconcile.Func(f))
			}, configMap("a"), configMap("b"), configMap("c"))
		}
	}
	t.Run("by default", func(t *testing.T) { expect(t, sim.Plan{}, scenario(nil), "a", "z", "b", "c") })
	t.Run("plain queue", func(t *testing.T) { expect(t, sim.Plan{}, scenario(new(false)), "a", "b", "c", "z") })
}

// TestOwnQueue checks that queues which the operator chose keep working. They have goroutines of their own, and the engine
// knows nothing of what they hold.
func TestOwnQueue(t *testing.T) {
	type newQueue = func(string, workqueue.TypedRateLimiter[reconcile.Request]) workqueue.TypedRateLimitingInterface[reconcile.Request]
	priority := func(name string, limiter workqueue.TypedRateLimiter[reconcile.Request],
	) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		return priorityqueue.New(name, func(o *priorityqueue.Opts[reconcile.Request]) { o.RateLimiter = limiter })
	}
	classic := func(_ string, limiter workqueue.TypedRateLimiter[reconcile.Request],
	) workqueue.TypedRateLimitingInterface[reconcile.Request] {
		return workqueue.NewTypedRateLimitingQueue(limiter)
	}
	for name, queue := range map[string]newQueue{"priority": priority, "classic": classic} {
		t.Run(name, func(t *testing.T) {
			expect(t, sim.Plan{}, func(d *diary) *sim.Config {
				passes := 0
				return newConfig(func(m ctrl.Manager) error {
					c := m.GetClient()
					f := func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
						passes++
						d.write("pass %d at %s", passes, at().Round(time.Millisecond))
						switch passes {
						case 1:
							return ctrl.Result{RequeueAfter: 30 * time.Second}, nil
						case 2:
							return ctrl.Result{}, errors.New("no")
						case 3:
							return ctrl.Result{}, c.Update(ctx, configMap("a", "n=1"))
						default:
							return ctrl.Result{}, nil
						}
					}
					return ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).
						WithOptions(controller.Options{NewQueue: queue}).Complete(reconcile.Func(f))
				}, configMap("a"))
			}, "pass 1 at 0s", "pass 2 at 30s", "pass 3 at 30.005s", "pass 4 at 30.006s")
		})
	}
}
