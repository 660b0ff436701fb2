package reactors_test

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// commitCanaries are about writes whose answers do not arrive, and objects that do not go when they are told to.
var commitCanaries = []canary{
	{
		name: "tries another name when the connection breaks", by: []schedule.FaultType{schedule.LostResponse},
		scenario: scenario{given: []apiserver.Object{configMap(nil)},
			properties: []property.Definition{terminal("one child", "size(children) == 1")}},
		buggy: always(createNamed(func(attempt int) string { return fmt.Sprintf("app-%d", attempt) })),
		fixed: always(createNamed(func(int) string { return "app-0" })),
	},
	{
		name: "takes its own object for somebody else's", by: []schedule.FaultType{schedule.AppliedTwice},
		scenario: scenario{given: []apiserver.Object{configMap(nil)},
			properties: []property.Definition{terminal("accepted", `app.?data["phase"].orValue("") == "Up"`)}},
		buggy: always(bringUp(func(*corev1.Secret) bool { return false })),
		fixed: always(bringUp(func(found *corev1.Secret) bool { return found.Labels["app"] == "app" })),
	},
	{
		name: "replaces what is not gone yet", by: []schedule.FaultType{schedule.LateDelete},
		scenario: scenario{given: []apiserver.Object{configMap(nil), secret("app")},
			properties: []property.Definition{terminal("replaced", `child.?metadata.labels["app"].orValue("") == "app"`)}},
		buggy: always(replaceChild(apierrors.IsAlreadyExists)),
		fixed: always(replaceChild(func(error) bool { return false })),
	},
}

// createNamed creates the child, under the next name where an attempt got no answer.
func createNamed(name func(attempt int) string) action {
	return func(ctx context.Context, deps sim.Deps, _ *corev1.ConfigMap) error {
		for attempt := range 3 {
			err := deps.Live.Create(ctx, secret(name(attempt)))
			var status apierrors.APIStatus
			if err == nil || errors.As(err, &status) {
				return ctrlclient.IgnoreAlreadyExists(err)
			}
		}
		return errors.New("no connection")
	}
}

// labelled returns the child as the operator makes it.
func labelled() *corev1.Secret {
	child := secret("app")
	child.Labels = map[string]string{"app": "app"}
	return child
}

// bringUp creates the child unless it is there, and says how that went. If one came up in between, it looks whether that is
// its own.
func bringUp(own func(*corev1.Secret) bool) action {
	return func(ctx context.Context, deps sim.Deps, app *corev1.ConfigMap) error {
		if app.Data["phase"] != "" {
			return nil
		}
		found := &corev1.Secret{}
		err := deps.Live.Get(ctx, ctrlclient.ObjectKeyFromObject(app), found)
		if apierrors.IsNotFound(err) {
			err = deps.Live.Create(ctx, labelled())
			if apierrors.IsAlreadyExists(err) {
				if err := deps.Live.Get(ctx, ctrlclient.ObjectKeyFromObject(app), found); err != nil {
					return err
				}
				if !own(found) {
					return setData(ctx, deps, app, "phase", "Taken")
				}
				err = nil
			}
		}
		if err != nil {
			return err
		}
		return setData(ctx, deps, app, "phase", "Up")
	}
}

// replaceChild deletes the child of an old make, and creates one of its own.
func replaceChild(forgives func(error) bool) action {
	return func(ctx context.Context, deps sim.Deps, app *corev1.ConfigMap) error {
		found := &corev1.Secret{}
		err := deps.Live.Get(ctx, ctrlclient.ObjectKeyFromObject(app), found)
		switch {
		case err == nil && found.Labels["app"] == "app":
			return nil
		case err == nil:
			err = deps.Live.Delete(ctx, found)
		}
		if ctrlclient.IgnoreNotFound(err) != nil {
			return err
		}
		if err := deps.Live.Create(ctx, labelled()); err != nil && !forgives(err) {
			return err
		}
		return nil
	}
}
