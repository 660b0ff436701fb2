package detect_test

import (
	"context"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/detect"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// outcomeCanaries come to another end for an error.
var outcomeCanaries = []canary{
	{
		name: "takes no notice of an error", finds: detect.SwallowedError,
		world: world{given: []apiserver.Object{app(nil)}, rules: atCreates(schedule.Forbidden, schedule.ServiceUnavailable)},
		buggy: creating(func(*unstructured.Unstructured, error) (bool, error) { return false, nil }),
		twins: []twin{
			{name: "returns it", operator: creating(func(_ *unstructured.Unstructured, err error) (bool, error) { return false, err })},
			{name: "tries again", operator: creating(func(*unstructured.Unstructured, error) (bool, error) { return true, nil })},
			{name: "says so", operator: creating(func(app *unstructured.Unstructured, _ error) (bool, error) {
				setField(app, "failed", "status", "phase")
				return false, nil
			})},
			{name: "in a world where it comes to nothing", operator: creating(
				func(*unstructured.Unstructured, error) (bool, error) { return false, nil }),
				world: world{given: []apiserver.Object{app(nil), secret("child")}}},
		},
	},
	{
		name: "makes another one", finds: detect.Divergence,
		world: world{given: []apiserver.Object{app(nil)}, rules: atCreates(schedule.LostResponse)},
		buggy: naming(""),
		twins: []twin{{name: "names it itself", operator: naming("child")}},
	},
}

// creating makes a child, writes the status of the App, and does something about the error.
func creating(meets func(*unstructured.Unstructured, error) (again bool, err error)) operator {
	return stateless(onApp(func(ctx context.Context, deps sim.Deps, app *unstructured.Unstructured) (ctrl.Result, error) {
		if field(app, "status", "phase") != "" {
			return ctrl.Result{}, nil
		}
		err := ctrlclient.IgnoreAlreadyExists(deps.Live.Create(ctx, owned(secret("child"), app)))
		done := "done"
		if err != nil {
			again, err := meets(app, err)
			if err != nil || again {
				return ctrl.Result{Requeue: again}, err //nolint:staticcheck // operators still do
			}
			if phase := field(app, "status", "phase"); phase != "" {
				done = phase
			}
		}
		setField(app, done, "status", "phase")
		return ctrl.Result{}, deps.Live.Status().Update(ctx, app)
	}))
}

// naming makes a child until that works; without a name the server makes one.
func naming(name string) operator {
	return stateless(onApp(func(ctx context.Context, deps sim.Deps, app *unstructured.Unstructured) (ctrl.Result, error) {
		if field(app, "status", "phase") == "done" {
			return ctrl.Result{}, nil
		}
		child := secret(name)
		child.GenerateName = "child-"
		if err := deps.Live.Create(ctx, owned(child, app)); err != nil && !apierrors.IsAlreadyExists(err) {
			return ctrl.Result{}, err
		}
		setField(app, "done", "status", "phase")
		return ctrl.Result{}, deps.Live.Status().Update(ctx, app)
	}))
}
