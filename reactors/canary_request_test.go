package reactors_test

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// requestCanaries are about errors in place of an answer.
var requestCanaries = []canary{
	{
		name: "gives up after one conflict", by: []schedule.FaultType{schedule.Conflict},
		scenario: scenario{given: []apiserver.Object{configMap(nil)},
			properties: []property.Definition{terminal("ready", `app.?data["ready"].orValue("") == "true"`)}},
		buggy: acting(func() action { return getReady(map[types.UID]bool{}) }),
		fixed: acting(func() action { return getReady(nil) }),
	},
	creation("takes a refused object for hopeless", schedule.Invalid, apierrors.IsInvalid),
	creation("takes a missing permission for lasting", schedule.Forbidden, apierrors.IsForbidden),
	creation("drops what the server has no time for", schedule.TooManyRequests, apierrors.IsTooManyRequests),
	creation("takes an internal error for a refusal", schedule.InternalError, apierrors.IsInternalError),
	creation("takes a storage without an answer for one that has written", schedule.ServerTimeout, apierrors.IsServerTimeout),
	creation("takes an API that is away for one that is not installed", schedule.ServiceUnavailable,
		apierrors.IsServiceUnavailable),
	creation("takes a timeout for a write that was made", schedule.Timeout, apierrors.IsTimeout),
	{
		name: "cleans up after what it cannot find", by: []schedule.FaultType{schedule.NotFound},
		scenario: scenario{given: []apiserver.Object{configMap(nil), secret("app")},
			properties: []property.Definition{terminal("the child stays", "child != null")}},
		buggy: cleaningUp(func(ctx context.Context, deps sim.Deps) error {
			return ctrlclient.IgnoreNotFound(deps.Live.Delete(ctx, secret("app")))
		}),
		fixed: cleaningUp(func(context.Context, sim.Deps) error { return nil }), // the garbage collector's task
	},
	{
		// client-go's own attempts go on within the deadline of the call, and the server takes its time until it gives up.
		name: "has no patience with the server",
		by: []schedule.FaultType{schedule.TooManyRequests, schedule.ServerTimeout, schedule.Timeout, schedule.Delay,
			schedule.Wedge},
		scenario: scenario{given: []apiserver.Object{configMap(nil)},
			properties: []property.Definition{terminal("a child", "child != null")}},
		buggy: always(createWithin(500*time.Millisecond, func(err error) bool { return errors.Is(err, context.DeadlineExceeded) })),
		fixed: always(createWithin(500*time.Millisecond, func(error) bool { return false })),
	},
}

// getReady marks the ConfigMap as ready; conflicted, if not nil, are the objects that it has given up.
func getReady(conflicted map[types.UID]bool) action {
	return func(ctx context.Context, deps sim.Deps, app *corev1.ConfigMap) error {
		if conflicted[app.UID] {
			return nil
		}
		err := setData(ctx, deps, app, "ready", "true")
		if apierrors.IsConflict(err) && conflicted != nil {
			conflicted[app.UID] = true
			return nil
		}
		return err
	}
}

// creation is an operator that creates a child, and takes an error of one type for a reason to leave it at that.
func creation(name string, by schedule.FaultType, forgives func(error) bool) canary {
	return canary{
		name: name, by: []schedule.FaultType{by},
		scenario: scenario{given: []apiserver.Object{configMap(nil)},
			properties: []property.Definition{terminal("a child", "child != null")}},
		buggy: always(createWithin(time.Hour, forgives)),
		fixed: always(createWithin(time.Hour, func(error) bool { return false })),
	}
}

// createWithin creates the child, and forgives errors.
func createWithin(span time.Duration, forgives func(error) bool) action {
	return func(ctx context.Context, deps sim.Deps, _ *corev1.ConfigMap) error {
		ctx, cancel := context.WithTimeout(ctx, span)
		defer cancel()
		err := deps.Live.Create(ctx, secret("app"))
		if err == nil || apierrors.IsAlreadyExists(err) || forgives(err) {
			return nil
		}
		return err
	}
}

// cleaningUp is an operator that does something once its object is gone.
func cleaningUp(gone func(context.Context, sim.Deps) error) operator {
	return reconciling(func(deps sim.Deps) pass {
		return func(ctx context.Context, key types.NamespacedName) (ctrl.Result, error) {
			err := deps.Live.Get(ctx, key, &corev1.ConfigMap{})
			if apierrors.IsNotFound(err) {
				return ctrl.Result{}, gone(ctx, deps)
			}
			return ctrl.Result{}, err
		}
	})
}
