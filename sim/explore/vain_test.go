package explore_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/stalemate-dev/stalemate/racer"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/property"
)

// impatient asks every 30 s whether the Secret "signal" is gone yet, and puts another one in its place. After 100 s it gives up, and
// leaves a Secret "app" behind.
func impatient(ctx context.Context, deps sim.Deps, key types.NamespacedName) (ctrl.Result, error) {
	again := ctrl.Result{RequeueAfter: 30 * time.Second}
	err := deps.Live.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: "signal"}, &corev1.Secret{})
	switch {
	case apierrors.IsNotFound(err):
		return ctrl.Result{}, deps.Live.Create(ctx, secret("signal"))
	case time.Since(sim.Epoch) > 100*time.Second:
		return ctrl.Result{}, createChild(ctx, deps, configMap(key.Name, nil))
	default:
		return again, err
	}
}

// TestHeldInVain checks that a finding that came about as a step was held in vain says that the step is late, so that every element
// of its schedule finds its event.
func TestHeldInVain(t *testing.T) {
	remove := racer.UserStep{Delete: &racer.UserDelete{Kind: "Secret", Namespace: "default", Name: "signal"}}
	config := scenario{
		given:      []apiserver.Object{configMap("app", nil), secret("signal")},
		racers:     []sim.RacerConfig{user(after(10*time.Second, remove))},
		properties: []property.Definition{terminal("nothing-left", `child == null`)},
	}.build()(t, impatient)
	result := explored(t, config, explore.Options{Runs: -1})
	if len(result.Findings) != 1 {
		t.Fatalf("findings are %q, want one; the default order is %s", signatures(result), steps(result.Default))
	}
	s := result.Findings[0].Schedule
	if len(s.Constraints) != 0 || len(s.Latencies) != 1 || s.Latencies[0].At.Actor != "user" || !s.Origin.Minimal {
		t.Errorf("the schedule is %+v", s)
	}
	checkReplays(t, config, s)

	kept := explored(t, config, explore.Options{Runs: -1, Shrink: -1}).Findings[0]
	if len(kept.Schedule.Constraints) != 1 || kept.Run.Constraints[0].Matched || !kept.Run.Constraints[0].Held {
		t.Errorf("what is not shrunk has constraints %v, want one that was held in vain", kept.Run.Constraints)
	}
}
