package reactors_test

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// processCanaries are about processes that die in the middle of something.
var processCanaries = []canary{
	{
		name: "keeps in memory what is left to do", by: []schedule.FaultType{schedule.Crash},
		scenario: scenario{given: announced.given, properties: announced.properties,
			next: acting(func() action { return announceThenCreate(nil) })},
		buggy: acting(func() action { return announceThenCreate(&todo{}) }),
		fixed: acting(func() action { return announceThenCreate(nil) }),
	},
	{
		// Another version of the operator is another process, too.
		name: "still keeps in memory what is left to do", by: []schedule.FaultType{schedule.Crash, schedule.Upgrade},
		scenario: announced,
		buggy:    acting(func() action { return announceThenCreate(&todo{}) }),
		fixed:    acting(func() action { return announceThenCreate(nil) }),
	},
	{
		name: "does not know the steps of the version before", by: []schedule.FaultType{schedule.Upgrade},
		scenario: scenario{given: []apiserver.Object{configMap(nil)},
			before: always(takeSteps("prepared")),
			properties: []property.Definition{terminal("gets there",
				`app.?data["step"].orValue("") == "done" && child != null`)}},
		buggy: always(takeSteps("ready")),
		fixed: always(takeSteps("ready", "prepared")),
	},
}

var announced = scenario{given: []apiserver.Object{configMap(nil)}, properties: []property.Definition{
	terminal("announced means done", `app.?data["announced"].orValue("") != "true" || child != null`)}}

// todo is what a process has to remember.
type todo struct{ create bool }

// announceThenCreate announces the child, and then creates it; whether there is one to create it remembers, or looks up each
// time.
func announceThenCreate(memory *todo) action {
	return func(ctx context.Context, deps sim.Deps, app *corev1.ConfigMap) error {
		if memory != nil && app.Data["announced"] == "" {
			memory.create = true
		}
		if err := setData(ctx, deps, app, "announced", "true"); err != nil {
			return err
		}
		if memory != nil && !memory.create {
			return nil
		}
		if err := deps.Live.Create(ctx, secret("app")); ctrlclient.IgnoreAlreadyExists(err) != nil {
			return err
		}
		if memory != nil {
			memory.create = false
		}
		return nil
	}
}

// takeSteps is an operator that writes down its steps, the one in the middle under a name of its own, and that goes on from
// there where it knows the name.
func takeSteps(middle string, alsoKnown ...string) action {
	known := append([]string{middle}, alsoKnown...)
	return func(ctx context.Context, deps sim.Deps, app *corev1.ConfigMap) error {
		if app.Data["step"] == "" {
			if err := setData(ctx, deps, app, "step", middle); err != nil {
				return err
			}
		}
		for _, name := range known {
			if app.Data["step"] != name {
				continue
			}
			if err := deps.Live.Create(ctx, secret("app")); ctrlclient.IgnoreAlreadyExists(err) != nil {
				return err
			}
			return setData(ctx, deps, app, "step", "done")
		}
		return nil
	}
}
