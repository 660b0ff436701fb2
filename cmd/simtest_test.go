package cmd_test

import (
	"fmt"
	"testing"

	"github.com/stalemate-dev/stalemate/cmd"
	"github.com/stalemate-dev/stalemate/reports"
	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/scenarios/clickhouse"
	"github.com/stalemate-dev/stalemate/sim/simtest"
)

// TestCommandAgreesWithTests checks that a test and the command come to the same, execution by execution.
func TestCommandAgreesWithTests(t *testing.T) {
	if testing.Short() {
		t.Skip("a short test has fewer random runs than the command")
	}
	const scenario = "../scenarios/clickhouse/recreate.yaml"
	registry := &scenarios.Registry{}
	clickhouse.Register(registry)
	for variant, want := range map[string]cmd.Exit{"clickhouse/buggy": cmd.ExitBroken, "clickhouse/v0.27.1": cmd.ExitPassed} {
		explored := simtest.Explore(t, simtest.Scenario(scenario), simtest.Registry(registry),
			simtest.Replace("operator", variant), simtest.Seed(7), simtest.Runs(10))
		if broken := explored.Verdict() == reports.Broken; broken != (want == cmd.ExitBroken) {
			t.Errorf("%s: the test's verdict is %s, the command is to exit with %d", variant, explored.Verdict(), want)
		}
		printed, _ := command(t, want, "run", scenario, "--reconciler", "operator="+variant,
			"--seed", fmt.Sprint(explored.Seed), "--runs", "10")
		contains(t, printed, fmt.Sprintf("history hash   %016x over %d executions\n", explored.Hash, explored.Coverage.Executions))
	}
}
