package cmd

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim/live"
)

// TestConfirmExit checks the exit codes of the outcomes.
func TestConfirmExit(t *testing.T) {
	for name, test := range map[string]struct {
		result live.Result
		want   Exit
	}{
		"confirmed":                      {live.Result{Outcome: live.Confirmed, Rested: true, SimulationBroken: true}, ExitBroken},
		"confirmed, without rest":        {live.Result{Outcome: live.Confirmed, SimulationBroken: true}, ExitBroken},
		"confirmed, unlike in simulated": {live.Result{Outcome: live.Confirmed, Rested: true}, ExitBroken},
		"not applicable":                 {live.Result{Outcome: live.NotApplicable, SimulationBroken: true}, ExitInconclusive},
		"not at rest":                    {live.Result{Outcome: live.NotConfirmed, SimulationBroken: true}, ExitInconclusive},
		"not confirmed":                  {live.Result{Outcome: live.NotConfirmed, Rested: true, SimulationBroken: true}, ExitStale},
		"fixed":                          {live.Result{Outcome: live.NotConfirmed, Rested: true}, ExitPassed},
	} {
		if got := exitOfConfirmation(&test.result); got != test.want {
			t.Errorf("%s: the exit code is %d, want %d", name, got, test.want)
		}
	}
}

// TestConfirmUsage checks that what is wrong with the command line, or missing on the machine, is said before anything starts.
func TestConfirmUsage(t *testing.T) {
	const schedule = "../scenarios/seinode/testdata/schedules/seinode-restored-v345-default-order.yaml"
	for name, test := range map[string]struct {
		assets string
		args   []string
		want   string
	}{
		"no control plane": {t.TempDir(), []string{schedule}, "KUBEBUILDER_ASSETS"},
		"nothing built":    {"", []string{schedule}, "make -C sim/conformance assets"},
		"no file":          {"", nil, "schedule"},
		"a wrong timeout":  {"", []string{schedule, "--timeout", "0s"}, "--timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("KUBEBUILDER_ASSETS", test.assets)
			t.Setenv("XDG_CACHE_HOME", t.TempDir())
			var stdout, stderr bytes.Buffer
			exit := Main(append([]string{"stalemate", "confirm"}, test.args...), &stdout, &stderr, &scenarios.Registry{})
			if exit != int(ExitUsage) || !strings.Contains(stderr.String(), test.want) {
				t.Errorf("the exit code is %d, and stderr\n%s\nwant %d, and %q", exit, &stderr, ExitUsage, test.want)
			}
		})
	}
}
