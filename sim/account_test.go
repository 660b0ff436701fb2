package sim_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/history"
)

// TestPassesAreCounted checks that a run says how the passes of a controller ended.
func TestPassesAreCounted(t *testing.T) {
	n := 0
	h := run(t, newConfig(func(context.Context, ctrlclient.Client, *corev1.ConfigMap) (ctrl.Result, error) {
		if n++; n <= 3 {
			return ctrl.Result{}, errors.New("no")
		}
		return ctrl.Result{}, nil
	}, configMap("a")), sim.Plan{})
	want := []history.Passes{{Actor: "operator", Controller: "configmap", Total: 4, Failed: 3, LastError: "no"}}
	if !slices.Equal(h.Passes, want) {
		t.Errorf("passes are %v, want %v", h.Passes, want)
	}
}

// TestGapOfUnknownKind checks that a call for a kind the server does not have is no secret.
func TestGapOfUnknownKind(t *testing.T) {
	h := run(t, newConfig(func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
		return ctrl.Result{}, ctrlclient.IgnoreNotFound(c.Get(ctx, ctrlclient.ObjectKeyFromObject(cm), &flowcontrolv1.FlowSchema{}))
	}, configMap("a")), sim.Plan{})
	if len(h.Gaps) != 1 || !strings.Contains(h.Gaps[0], "FlowSchema.flowcontrol.apiserver.k8s.io is not modelled") {
		t.Errorf("gaps are %q, want the one of FlowSchema", h.Gaps)
	}
}

// complainer is a racer that finds fault with the scenario.
type complainer struct{}

func (complainer) Start(env sim.RacerEnv) {
	env.Problem("step 1 was refused")
	env.Problem("step 1 was refused") // which is no second problem
}

func TestProblemsAreKept(t *testing.T) {
	config := newConfig(func(context.Context, ctrlclient.Client, *corev1.ConfigMap) (ctrl.Result, error) {
		return ctrl.Result{}, nil
	}, configMap("a"))
	config.Racers = []sim.RacerConfig{{Name: "user", New: func() sim.Racer { return complainer{} }, WithScript: true}}
	if h := run(t, config, sim.Plan{}); !slices.Equal(h.Problems, []string{"user: step 1 was refused"}) {
		t.Errorf("problems are %q", h.Problems)
	}
}

func TestProgramError(t *testing.T) {
	config := newConfig(nil, configMap("a"))
	config.Processes[0].Program = failing{}
	world, err := sim.NewWorld(config)
	if err != nil {
		t.Fatal(err)
	}
	_, err = world.Run(sim.Plan{})
	var failed *sim.ProgramError
	if !errors.As(err, &failed) || failed.Process != "operator" || failed.Err.Error() != "no POD_NAMESPACE" {
		t.Errorf("error is %v, want the program's", err)
	}
}

type failing struct{}

func (failing) Start(context.Context, *sim.Env) error { return errors.New("no POD_NAMESPACE") }
