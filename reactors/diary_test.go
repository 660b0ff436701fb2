package reactors_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/client"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// diary is what an operator writes down of a run, so that a test sees what it saw.
type diary struct {
	begin time.Time
	lines []string
}

// write adds a line, with the virtual time in tenths of a second: what a call takes itself does not show in it.
func (d *diary) write(format string, args ...any) {
	at := time.Since(d.begin).Truncate(100 * time.Millisecond)
	d.lines = append(d.lines, fmt.Sprintf("%s ", at)+fmt.Sprintf(format, args...))
}

// once is an operator that does something once in each of its lives, and writes down how that went.
func (d *diary) once(f func(ctx context.Context, live ctrlclient.Client)) operator {
	return func() sim.Program {
		return client.Reconcilers(testScheme, client.Reconciler{For: &corev1.ConfigMap{},
			New: func(deps sim.Deps) (reconcile.Reconciler, error) {
				done := false
				if d.begin.IsZero() {
					d.begin = time.Now()
				}
				return reconcile.Func(func(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
					if !done {
						done = true
						f(ctx, deps.Live)
					}
					return ctrl.Result{}, nil
				}), nil
			}})
	}
}

// watching is an operator that writes down what it is told of Secrets.
func (d *diary) watching() operator {
	return d.watchingAnd(func(context.Context, ctrlclient.Client) {})
}

// watchingAnd is watching, and an operator that does something in each pass over the ConfigMap.
func (d *diary) watchingAnd(f func(context.Context, ctrlclient.Client)) operator {
	return func() sim.Program {
		return client.Manager(testScheme, func(m ctrl.Manager) error {
			type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
			if d.begin.IsZero() {
				d.begin = time.Now()
			}
			return ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).
				Watches(&corev1.Secret{}, handler.Funcs{
					CreateFunc: func(_ context.Context, e event.CreateEvent, _ queue) {
						initial := ""
						if e.IsInInitialList {
							initial = ", initial"
						}
						d.write("created %s %s%s", e.Object.GetName(), e.Object.GetLabels()["n"], initial)
					},
					UpdateFunc: func(_ context.Context, e event.UpdateEvent, _ queue) {
						what := "same object"
						if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
							what = "another object"
						}
						d.write("updated %s %s to %s, %s", e.ObjectNew.GetName(), e.ObjectOld.GetLabels()["n"], e.ObjectNew.GetLabels()["n"], what)
					},
					DeleteFunc: func(_ context.Context, e event.DeleteEvent, _ queue) {
						d.write("deleted %s %s, tombstone %t", e.Object.GetName(), e.Object.GetLabels()["n"], e.DeleteStateUnknown)
					},
				}).
				Complete(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
					f(ctx, m.GetAPIReader().(ctrlclient.Client))
					return reconcile.Result{}, nil
				}))
		})
	}
}

// run executes the scenario with faults, all of which must strike, and returns its history.
func (d *diary) run(t *testing.T, s scenario, o operator, faults ...schedule.Fault) *history.History {
	t.Helper()
	h := d.try(t, s, o, faults...)
	for _, f := range h.Faults {
		if !f.Struck {
			t.Fatalf("%s did not strike%s", f.Fault, steps(h))
		}
	}
	return h
}

// try executes the scenario with faults.
func (d *diary) try(t *testing.T, s scenario, o operator, faults ...schedule.Fault) *history.History {
	t.Helper()
	world, err := sim.NewWorld(s.config(t, o))
	if err != nil {
		t.Fatal(err)
	}
	d.begin, d.lines = time.Time{}, nil
	return execute(t, world, faults...)
}

// expect compares the diary.
func (d *diary) expect(t *testing.T, h *history.History, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, d.lines); diff != "" {
		t.Errorf("diary (-want +got):\n%s%s", diff, steps(h))
	}
}

// at is a fault at the first event that the operator makes of a verb, on the ConfigMap or on Secrets.
func at(t schedule.FaultType, verb schedule.Verb, kind string, p schedule.Params) schedule.Fault {
	return schedule.Fault{Type: t, Select: &schedule.Selector{Actor: "operator", Verbs: []schedule.Verb{verb}, Kind: kind}, Params: p}
}

// attempts returns the answers that one call got, as the server and client-go saw them: code, and whether client-go tried
// again.
func attempts(h *history.History, verb schedule.Verb) []string {
	var all []string
	for i := range h.Records {
		if r := &h.Records[i]; r.Event.Actor == "operator" && r.Event.Verb == verb && !r.Event.Return {
			text := fmt.Sprint(r.Code)
			if r.Retry {
				text += " again"
			}
			if r.Committed != 0 {
				text += " committed"
			}
			all = append(all, text)
		}
	}
	return slices.Clip(all)
}
