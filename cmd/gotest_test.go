package cmd_test

import (
	"testing"

	ctrl "sigs.k8s.io/controller-runtime"

	widgetv1 "github.com/stalemate-dev/stalemate/cmd/testdata/widget/api/v1"
	"github.com/stalemate-dev/stalemate/cmd/testdata/widget/controller"
	"github.com/stalemate-dev/stalemate/reports"
	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/client"
	"github.com/stalemate-dev/stalemate/sim/explore"
)

func TestWidgetUpdate(t *testing.T) {
	registry := &scenarios.Registry{}
	registry.Add("widget/ours", scenarios.Reconciler{
		AddToScheme: widgetv1.AddToScheme,
		Program: func(o scenarios.ProgramOptions) sim.Program {
			return client.Manager(o.Scheme, func(m ctrl.Manager) error {
				r := &controller.WidgetReconciler{Client: m.GetClient(), Scheme: m.GetScheme()}
				return r.SetupWithManager(m)
			})
		},
	})
	scenario, err := scenarios.Load("testdata/widget/simulation/widget-update.yaml", scenarios.Options{Registry: registry})
	if err != nil {
		t.Fatal(err) // all that is wrong with the file, each with its place
	}
	config, err := scenario.Config(registry, nil)
	if err != nil {
		t.Fatal(err)
	}
	result, err := explore.Run(t.Context(), config, explore.Options{Seed: 1, Runs: 20})
	if err != nil {
		t.Fatal(err)
	}
	if verdict := reports.Judge(result); verdict != reports.Passed {
		result.Variables = config.Properties.Variables() // the report shows how their objects changed
		result.Command = "go test -run " + t.Name()
		if err := reports.Text(t.Output(), result, reports.Options{}); err != nil {
			t.Error(err)
		}
		t.Errorf("%s: %s", scenario.Name, verdict)
	}
}
