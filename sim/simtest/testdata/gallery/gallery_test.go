// Package gallery_test holds tests that pass or fail for each reason there is. They are run by those of package
// simtest.
package gallery_test

import (
	"context"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/client"
	"github.com/stalemate-dev/stalemate/sim/schedule"
	"github.com/stalemate-dev/stalemate/sim/simtest"
)

// changed lets through what changes what is wanted.
var changed = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return wanted(e.ObjectOld.(*corev1.ConfigMap)) != wanted(e.ObjectNew.(*corev1.ConfigMap))
}}

// variant is an operator that puts what want returns into the note.
func variant(name string, want func(*corev1.ConfigMap) string, ignore func(error) bool) simtest.Option {
	return simtest.Reconciler("note/"+name, nil, client.Reconciler{
		For:           &corev1.ConfigMap{},
		ForPredicates: []predicate.Predicate{changed},
		LiveReads:     true,
		New: func(d sim.Deps) (reconcile.Reconciler, error) {
			return reconcile.Func(func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
				note := &corev1.ConfigMap{}
				if err := d.Client.Get(ctx, r.NamespacedName, note); err != nil {
					return ctrl.Result{}, err
				}
				wanted := want(note)
				if note.Data["have"] == wanted {
					return ctrl.Result{}, nil
				}
				note.Data["have"] = wanted
				if err := d.Client.Update(ctx, note); err != nil && !ignore(err) {
					return ctrl.Result{}, err
				}
				return ctrl.Result{}, nil
			}), nil
		},
	})
}

var count int // of the passes of this process, over all runs

func wanted(note *corev1.ConfigMap) string { return note.Data["want"] }

func nothing(error) bool { return false }

// all are the variants.
func all() []simtest.Option {
	return []simtest.Option{
		variant("good", wanted, nothing),
		variant("buggy", func(*corev1.ConfigMap) string { return "1" }, nothing),
		variant("racy", wanted, apierrors.IsConflict),
		variant("random", random, nothing),
		restless,
	}
}

// random depends on what this process has done before.
func random(note *corev1.ConfigMap) string {
	if wanted(note) == "1" {
		return "1"
	}
	count++
	return strconv.Itoa(count)
}

// restless never comes to rest.
var restless = simtest.Manager("note/restless", nil, func(m ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).Complete(
		reconcile.Func(func(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
			note := &corev1.ConfigMap{}
			if err := m.GetAPIReader().Get(ctx, r.NamespacedName, note); err != nil {
				return ctrl.Result{}, err
			}
			note.Data["have"] += "1"
			return ctrl.Result{}, m.GetClient().Update(ctx, note)
		}))
})

func run(t *testing.T, scenario, variant string, more ...simtest.Option) {
	t.Helper()
	if variant != "" {
		more = append(more, simtest.Replace("operator", "note/"+variant))
	}
	simtest.Run(t, simtest.Scenario(scenario), append(all(), more...)...)
}

func TestGood(t *testing.T)     { run(t, "note.yaml", "good") }
func TestBuggy(t *testing.T)    { run(t, "note.yaml", "buggy") }
func TestRacy(t *testing.T)     { run(t, "note.yaml", "racy") }
func TestRandom(t *testing.T)   { run(t, "note.yaml", "random") }
func TestRestless(t *testing.T) { run(t, "note.yaml", "restless") }
func TestMatrix(t *testing.T)   { run(t, "matrix.yaml", "") }
func TestInvalid(t *testing.T)  { run(t, "invalid.yaml", "good") }
func TestUnknown(t *testing.T)  { run(t, "note.yaml", "goood") }
func TestTwice(t *testing.T)    { run(t, "note.yaml", "", variant("good", wanted, nothing)) }
func TestRuns(t *testing.T)     { run(t, "note.yaml", "good", simtest.Runs(10), simtest.Seed(5)) }
func TestNoRuns(t *testing.T)   { run(t, "note.yaml", "good", simtest.Runs(0)) }

func TestWorld(t *testing.T) {
	w := simtest.NewWorld(t, simtest.Scenario("note.yaml"), append(all(), simtest.Replace("operator", "note/racy"))...)
	for _, reorder := range w.Reorders() {
		w.Check(t, simtest.Course{Schedule: schedule.Schedule{Constraints: []schedule.Constraint{reorder}}})
	}
}
