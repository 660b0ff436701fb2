package sim_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// calls writes the requests of the operator's passes, each with its code and how often it was repeated.
func calls(h *history.History) []string {
	var texts []string
	for _, r := range h.Records {
		if r.Event.Verb.IsRequest() && r.Event.Actor == "operator" {
			texts = append(texts, fmt.Sprintf("%s %s #%d %d x%d", r.Event.Verb, r.Event.Object(), r.Event.Occurrence, r.Code, r.Repeats))
		}
	}
	return texts
}

// TestPolls checks which requests are one event: the same again, on what is as it was.
func TestPolls(t *testing.T) {
	wedged := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a", Finalizers: []string{"example.com/f"}}}
	tests := []struct {
		name string
		f    reconcileFunc
		want []string
	}{
		{"reads after sleeps, until the object changes",
			func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
				for cm.Labels["n"] == "" {
					time.Sleep(7 * time.Second)
					if err := c.Get(ctx, ctrlclient.ObjectKeyFromObject(cm), cm); err != nil {
						return ctrl.Result{}, err
					}
				}
				return ctrl.Result{}, nil
			},
			[]string{"Get ConfigMap default/a #1 200 x8", "Get ConfigMap default/a #2 200 x1"}},
		{"reads in one go are no poll",
			func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
				return ctrl.Result{}, c.Get(ctx, ctrlclient.ObjectKeyFromObject(cm), cm)
			},
			[]string{"Get ConfigMap default/a #1 200 x0", "Get ConfigMap default/a #2 200 x0",
				"Get ConfigMap default/a #3 200 x0", "Get ConfigMap default/a #4 200 x0"}},
		{"deletes of what is being deleted",
			func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
				for range 5 {
					if err := c.Delete(ctx, wedged.DeepCopy()); err != nil {
						return ctrl.Result{}, err
					}
					time.Sleep(time.Second)
				}
				return ctrl.Result{}, nil
			},
			[]string{"Get ConfigMap default/a #1 200 x0", "Delete Secret default/a #1 200 x0",
				"Delete Secret default/a #2 200 x8", // also those of the second pass
				"Get ConfigMap default/a #2 200 x0"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			config, _, _ := heldUpdate()
			config.Given = append(config.Given, wedged)
			config.Processes[0].Program = program(test.f)
			got := calls(run(t, config, sim.Plan{}))
			if !slices.Equal(got, test.want) {
				t.Errorf("calls are %q, want %q", got, test.want)
			}
		})
	}
}

// retried is a scenario whose operator creates a Secret, at first with a label that is refused.
func retried() *sim.Config {
	attempts := 0
	return newConfig(func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
		child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
		if attempts++; attempts == 1 {
			child.Labels = map[string]string{"///": ""}
		}
		err := c.Create(ctx, child)
		if apierrors.IsInvalid(err) {
			return ctrl.Result{}, err
		}
		return ctrl.Result{}, ctrlclient.IgnoreAlreadyExists(err)
	}, configMap("a"))
}

// TestRetriedWrite checks that a write with another content is another event, which can be held and is judged, although
// what it finds is as it was.
func TestRetriedWrite(t *testing.T) {
	config := retried()
	set, errs := property.Compile(coreKinds{config.Kinds}, nil, []property.Definition{
		{Name: "no-secrets", Type: property.Request, Rule: "response.code != 201",
			Match: &schedule.Selector{Verbs: []schedule.Verb{schedule.Create}, Kind: "Secret"}}})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	config.Properties = set
	create := schedule.Event{Actor: "operator", Incarnation: 1, Key: "default/a", Verb: schedule.Create, Kind: "Secret",
		Namespace: "default", Name: "a", Occurrence: 2}
	h := run(t, config, sim.Plan{Constraints: []schedule.Constraint{{Event: create, Waits: schedule.Event{Actor: "nobody"}}}})
	if !h.Constraints[0].Held {
		t.Errorf("the second attempt was not held; calls are %q", calls(h))
	}
	if v := h.Verdicts[0]; v.Status != property.Broken || v.Evaluations != 2 {
		t.Errorf("%s is %s after %d evaluations, want it broken by the second", v.Property.Name, v.Status, v.Evaluations)
	}
}

// TestDelaysSettle checks that what a walk delays does not count against the operator: the span of an Eventually begins
// after the last delay.
func TestDelaysSettle(t *testing.T) {
	kinds := apiserver.NewKinds(apiserver.V136)
	set, errs := property.Compile(coreKinds{kinds}, written.variables, written.definitions)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	config, _, _ := heldUpdate()
	config.Kinds, config.Properties, config.Racers = kinds, set, nil
	world, err := sim.NewWorld(config)
	if err != nil {
		t.Fatal(err)
	}
	late := 0
	for seed := range int64(200) {
		h, err := world.Run(sim.Plan{Seed: seed, Strategy: explore.NewWalk(seed)})
		if err != nil {
			t.Fatal(err)
		}
		if v := h.Verdicts[0]; v.Status != property.Held {
			t.Errorf("seed %d: %s is %s: %s", seed, v.Property.Name, v.Status, v.Note)
		} else if v.At > 10*time.Second {
			late++
		}
	}
	if late == 0 {
		t.Error("no walk was late")
	}
}
