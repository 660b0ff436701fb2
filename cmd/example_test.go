package cmd_test

import (
	"bytes"
	"io"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/cmd"
	widgetv1 "github.com/stalemate-dev/stalemate/cmd/testdata/widget/api/v1"
	"github.com/stalemate-dev/stalemate/cmd/testdata/widget/controller"
	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/client"
)

// A team's own command: the stalemate command with an operator of theirs, as its SetupWithManager sets it up.
func Example() {
	registry := &scenarios.Registry{}
	registry.Add("widget/ours", scenarios.Reconciler{
		Doc:         "the widget operator as it is on main",
		AddToScheme: widgetv1.AddToScheme,
		Program: func(o scenarios.ProgramOptions) sim.Program {
			return client.Manager(o.Scheme, func(m ctrl.Manager) error { // once per run, so everything is made in here
				r := &controller.WidgetReconciler{Client: m.GetClient(), Scheme: m.GetScheme()}
				return r.SetupWithManager(m)
			})
		},
	})
	cmd.Main([]string{"ours", "run", "--runs", "0", widgetUpdate}, &verdict{to: os.Stdout}, os.Stderr, registry)
	// Output: ✓ PASSED  widget-update with operator=widget/ours
}

// A reconciler without a SetupWithManager: its kinds are named here.
func Example_reconcilers() {
	registry := &scenarios.Registry{}
	registry.Add("widget/ours", scenarios.Reconciler{
		AddToScheme: widgetv1.AddToScheme,
		Program: func(o scenarios.ProgramOptions) sim.Program {
			return client.Reconcilers(o.Scheme, client.Reconciler{
				For:  &widgetv1.Widget{},
				Owns: []ctrlclient.Object{&appsv1.StatefulSet{}},
				New: func(d sim.Deps) (reconcile.Reconciler, error) {
					return &controller.WidgetReconciler{Client: d.Client, Scheme: d.Scheme}, nil
				},
			})
		},
	})
	cmd.Main([]string{"ours", "run", "--runs", "0", widgetUpdate}, &verdict{to: os.Stdout}, os.Stderr, registry)
	// Output: ✓ PASSED  widget-update with operator=widget/ours
}

const widgetUpdate = "testdata/widget/simulation/widget-update.yaml"

// verdict is a writer that keeps the first line of a report.
type verdict struct {
	to   io.Writer
	over bool
}

func (v *verdict) Write(p []byte) (int, error) {
	if v.over {
		return len(p), nil
	}
	first, _, over := bytes.Cut(p, []byte("\n"))
	v.over = over
	if _, err := v.to.Write(first); err != nil {
		return 0, err
	}
	return len(p), nil
}
