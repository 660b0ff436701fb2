package explore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/racer"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
)

// TestFindings checks that two bugs of one reconciler are two findings, and that one bug is one, by however many orders.
func TestFindings(t *testing.T) {
	labels := func(at time.Duration, value string) racer.UserStep {
		return after(at, mergePatch(fmt.Sprintf(`{"metadata":{"labels":{"a":%q}}}`, value)))
	}
	build := func(steps ...racer.UserStep) *sim.Config {
		return scenario{
			given:  []apiserver.Object{configMap("app", map[string]string{"want": "1"})},
			racers: []sim.RacerConfig{user(steps...)},
			properties: []property.Definition{
				terminal("done-means-had", `child == null || app.?data["have"].orValue("") == "1"`),
				terminal("seen-means-label", `app.?data["seen"].orValue("") == app.?metadata.labels["a"].orValue("none")`),
			},
		}.build()(t, announce(
			func(ctx context.Context, deps sim.Deps, app *corev1.ConfigMap) error { // forgets to look again
				if seen := app.Labels["a"]; seen != "" && app.Data["seen"] == "" {
					return setData(ctx, deps, app, "seen", seen)
				}
				return nil
			},
			func(ctx context.Context, deps sim.Deps, app *corev1.ConfigMap) error { // swallows a conflict
				_, err := applyThenMark(func(error) bool { return true })(ctx, deps, ctrlclient.ObjectKeyFromObject(app))
				return err
			},
		))
	}

	annotation := after(20*time.Second, mergePatch(`{"metadata":{"annotations":{"c":"d"}}}`))
	one := explored(t, build(labels(10*time.Second, "x"), annotation), explore.Options{Runs: -1})
	if len(one.Findings) != 1 || one.Findings[0].Also == 0 {
		t.Errorf("findings of one bug: %v, want one, seen several times", signatures(one))
	}
	two := explored(t, build(labels(10*time.Second, "x"), labels(20*time.Second, "y")), explore.Options{Runs: -1})
	if len(two.Findings) < 2 {
		t.Errorf("findings of two bugs: %v, want two", signatures(two))
	}
}

func signatures(r *history.Result) []string {
	var texts []string
	for _, f := range r.Findings {
		texts = append(texts, fmt.Sprintf("%s (and %d more)", f.Signature, f.Also))
	}
	return texts
}

// TestFound checks that the exploration tells of each finding at once, and ends when it is told to.
func TestFound(t *testing.T) {
	c := sweepCanaries[0]
	enough := errors.New("enough")
	var told []history.Finding
	_, err := explore.Run(t.Context(), c.config(t, c.buggy), explore.Options{Runs: -1, Found: func(f *history.Finding) error {
		told = append(told, *f)
		return enough
	}})
	if !errors.Is(err, enough) || len(told) != 1 || told[0].Strategy != explore.Sweep || told[0].Execution < 3 {
		t.Errorf("told of %v, error is %v; want one finding of the sweep, and the error", told, err)
	}
}

// TestShrinking checks that the executions which shrink a finding are counted, apart from the others, and that a finding is not
// lost if the exploration is ended while it is shrunk.
func TestShrinking(t *testing.T) {
	for _, ended := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		last := explore.Progress{}
		result, err := explore.Run(ctx, twoStep(t, true), explore.Options{Seed: 1, Runs: 400, Revealed: -1,
			Progress: func(p explore.Progress) {
				if last = p; ended && p.Shrinking == 5 {
					cancel()
				}
			}})
		cancel()
		if ended != errors.Is(err, context.Canceled) || !ended && err != nil || len(result.Findings) == 0 {
			t.Fatalf("ended: %v; error is %v, findings are %q", ended, err, signatures(result))
		}
		executions, shrinking := 0, 0
		for _, s := range result.Strategies {
			executions, shrinking = executions+s.Executions, shrinking+s.Shrinking
		}
		if executions != result.Coverage.Executions || shrinking != last.Shrinking || last.Executions != executions || shrinking < 5 {
			t.Errorf("of %+v, %d executions shrank; the last progress was %+v", result.Coverage, shrinking, last)
		}
		if s := result.Findings[0].Schedule; s.Origin.Minimal == ended || ended && s.Size() <= 2 {
			t.Errorf("ended: %v; the first finding has %d elements, minimal: %v", ended, s.Size(), s.Origin.Minimal)
		}
	}
}

// TestBudget checks that the sweep ends with the budget of real time, which needs a clock, and says that it is not complete.
func TestBudget(t *testing.T) {
	c := sweepCanaries[0]
	var now time.Time
	result := explored(t, c.config(t, c.buggy), explore.Options{For: 5 * time.Second,
		Clock:    func() time.Time { return now },
		Progress: func(explore.Progress) { now = now.Add(time.Second) },
	})
	sweep := result.Strategies[1]
	if sweep.Name != explore.Sweep || sweep.Executions != 1 || sweep.Complete {
		t.Errorf("after four executions of the default order, which took four of five seconds, the sweep is %+v", sweep)
	}
	if _, err := explore.Run(t.Context(), c.config(t, c.buggy), explore.Options{For: time.Second}); err == nil {
		t.Error("a budget of time without a clock is accepted")
	}
}

// TestNondeterminism checks that an operator whose runs differ is named as such, with the first step that does.
func TestNondeterminism(t *testing.T) {
	starts := 0
	tests := []struct {
		name        string
		f           reconcileFunc
		first, both string // what is said of the first execution, and of either
	}{
		{"map order", func(ctx context.Context, deps sim.Deps, key types.NamespacedName) (ctrl.Result, error) {
			names := map[string]bool{}
			for i := range 40 {
				names[fmt.Sprintf("child-%d", i)] = true
			}
			for name := range names {
				child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: name}}
				if err := deps.Live.Create(ctx, child); err != nil {
					return ctrl.Result{}, ctrlclient.IgnoreAlreadyExists(err)
				}
			}
			return ctrl.Result{}, nil
		}, "", "Create Secret default/child-"},
		{"a counter that outlives the process", announce(func(ctx context.Context, deps sim.Deps, app *corev1.ConfigMap) error {
			if app.Data["count"] != "" {
				return nil
			}
			starts++
			return setData(ctx, deps, app, "count", fmt.Sprint(starts))
		}), "operator(default/app) Update ConfigMap default/app #1", "another object"},
		{"a change of mind in later runs", announce(func(ctx context.Context, deps sim.Deps, app *corev1.ConfigMap) error {
			if starts++; starts > 6 { // in the second run of the sweep, before its step is held
				return createChild(ctx, deps, app)
			}
			return deps.Live.Get(ctx, ctrlclient.ObjectKeyFromObject(app), app)
		}), "operator(default/app) Get ConfigMap default/app #", "operator(default/app) Create Secret default/app #1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			starts = 0
			config := scenario{
				given:      []apiserver.Object{configMap("app", nil)},
				racers:     []sim.RacerConfig{user(after(10*time.Second, mergePatch(`{"metadata":{"labels":{"a":"b"}}}`)))},
				properties: alwaysThere,
			}.build()(t, test.f)
			result, err := explore.Run(t.Context(), config, explore.Options{Runs: -1})
			var diverged *explore.NondeterminismError
			if !errors.As(err, &diverged) {
				t.Fatalf("error is %v, result %v; want a NondeterminismError", err, result)
			}
			if !strings.HasPrefix(diverged.First, test.first) || !strings.Contains(diverged.First+diverged.Second, test.both) {
				t.Errorf("error is %v, want it to name %q and %q", err, test.first, test.both)
			}
		})
	}
}
