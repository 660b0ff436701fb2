package cmd_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	widgetv1 "github.com/stalemate-dev/stalemate/cmd/testdata/widget/api/v1"
	"github.com/stalemate-dev/stalemate/cmd/testdata/widget/controller"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/client"
	"github.com/stalemate-dev/stalemate/sim/simtest"
)

// The operator as it is, with its unmodified SetupWithManager.
func TestWidgetUpdate(t *testing.T) {
	simtest.Run(t, simtest.Scenario("testdata/widget/simulation/widget-update.yaml"),
		simtest.Manager("widget/ours", widgetv1.AddToScheme, func(m ctrl.Manager) error {
			r := &controller.WidgetReconciler{Client: m.GetClient(), Scheme: m.GetScheme()}
			return r.SetupWithManager(m)
		}))
}

// A reconciler without a SetupWithManager: its kinds are named here.
func TestWidgetUpdateByReconciler(t *testing.T) {
	simtest.Run(t, simtest.Scenario("testdata/widget/simulation/widget-update.yaml"),
		simtest.Reconciler("widget/ours", widgetv1.AddToScheme, client.Reconciler{
			For:  &widgetv1.Widget{},
			Owns: []ctrlclient.Object{&appsv1.StatefulSet{}},
			New: func(d sim.Deps) (reconcile.Reconciler, error) {
				return &controller.WidgetReconciler{Client: d.Client, Scheme: d.Scheme}, nil
			},
		}))
}
