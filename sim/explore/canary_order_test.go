package explore_test

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/racer"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// defaultOrderCanaries hold bugs that need no race.
var defaultOrderCanaries = []canary{
	{
		name: "ready before the child exists",
		config: scenario{
			given: []apiserver.Object{configMap("app", nil)},
			properties: []property.Definition{{Name: "ready-means-child", Type: property.Always,
				Rule: `app.?data["ready"].orValue("") != "true" || child != null`}},
		}.build(),
		buggy:    announce(announceReady, createChild),
		fixed:    announce(createChild, announceReady),
		strategy: explore.DefaultOrder,
		broken:   []string{"ready-means-child"},
	},
	{
		name:     "panics on an object without data",
		config:   scenario{given: []apiserver.Object{configMap("app", nil)}, properties: alwaysThere}.build(),
		buggy:    announce(func(_ context.Context, _ sim.Deps, app *corev1.ConfigMap) error { app.Data["x"] = ""; return nil }),
		fixed:    announce(announceReady),
		strategy: explore.DefaultOrder,
		broken:   []string{"panic"},
	},
	lateCanary("by a long requeue", func(wait bool) reconcileFunc {
		return func(ctx context.Context, deps sim.Deps, key types.NamespacedName) (ctrl.Result, error) {
			if left := 15*time.Minute - time.Since(sim.Epoch); !wait || left > 0 {
				return ctrl.Result{RequeueAfter: max(left, 15*time.Minute)}, nil
			}
			return announce(announceReady)(ctx, deps, key)
		}
	}),
	lateCanary("by short requeues", func(wait bool) reconcileFunc {
		return func(ctx context.Context, deps sim.Deps, key types.NamespacedName) (ctrl.Result, error) {
			if !wait || time.Since(sim.Epoch) < 15*time.Minute {
				return ctrl.Result{RequeueAfter: 10 * time.Second}, nil
			}
			return announce(announceReady)(ctx, deps, key)
		}
	}),
	lateCanary("by polls in the pass", func(wait bool) reconcileFunc {
		return func(ctx context.Context, deps sim.Deps, key types.NamespacedName) (ctrl.Result, error) {
			for !wait || time.Since(sim.Epoch) < 15*time.Minute {
				time.Sleep(30 * time.Second)
				if err := deps.Live.Get(ctx, key, &corev1.ConfigMap{}); err != nil {
					return ctrl.Result{}, err
				}
			}
			return announce(announceReady)(ctx, deps, key)
		}
	}),
	lateCanary("by failing until then", func(wait bool) reconcileFunc {
		return func(ctx context.Context, deps sim.Deps, key types.NamespacedName) (ctrl.Result, error) {
			if !wait || time.Since(sim.Epoch) < 15*time.Minute {
				return ctrl.Result{}, errors.New("not yet")
			}
			return announce(announceReady)(ctx, deps, key)
		}
	}),
}

// alwaysThere is a property that holds as long as nobody deletes the ConfigMap.
var alwaysThere = []property.Definition{{Name: "there", Type: property.Always, Rule: "app != null"}}

// lateCanary is an operator that does its work 15 minutes late, which is longer than the least horizon: it must not be
// judged before. Its twin never does.
func lateCanary(name string, make func(wait bool) reconcileFunc) canary {
	return canary{
		name: "acts late " + name,
		config: scenario{
			given:      []apiserver.Object{configMap("app", nil)},
			properties: []property.Definition{terminal("ready", `app.?data["ready"].orValue("") == "true"`)},
		}.build(),
		buggy: make(false), fixed: make(true), strategy: explore.DefaultOrder, broken: []string{"ready"},
	}
}

type action func(ctx context.Context, deps sim.Deps, app *corev1.ConfigMap) error

// announce carries out actions on the ConfigMap, one after the other.
func announce(actions ...action) reconcileFunc {
	return func(ctx context.Context, deps sim.Deps, key types.NamespacedName) (ctrl.Result, error) {
		app := &corev1.ConfigMap{}
		if err := deps.Live.Get(ctx, key, app); err != nil {
			return ctrl.Result{}, ctrlclient.IgnoreNotFound(err)
		}
		for _, act := range actions {
			if err := act(ctx, deps, app); err != nil {
				return ctrl.Result{}, err
			}
		}
		return ctrl.Result{}, nil
	}
}

func announceReady(ctx context.Context, deps sim.Deps, app *corev1.ConfigMap) error {
	return setData(ctx, deps, app, "ready", "true")
}

func setData(ctx context.Context, deps sim.Deps, app *corev1.ConfigMap, key, value string) error {
	if app.Data[key] == value {
		return nil
	}
	if app.Data == nil {
		app.Data = map[string]string{}
	}
	app.Data[key] = value
	return deps.Live.Update(ctx, app)
}

func createChild(ctx context.Context, deps sim.Deps, app *corev1.ConfigMap) error {
	err := deps.Live.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name}})
	return ctrlclient.IgnoreAlreadyExists(err)
}

// sweepCanaries hold bugs that one reorder of two conflicting steps brings out.
var sweepCanaries = []canary{
	{
		name: "conflict taken for success",
		config: scenario{
			given:      []apiserver.Object{configMap("app", map[string]string{"want": "1"})},
			racers:     []sim.RacerConfig{user(after(10*time.Second, mergePatch(`{"metadata":{"labels":{"a":"b"}}}`)))},
			properties: []property.Definition{terminal("done-means-had", `child == null || app.?data["have"].orValue("") == "1"`)},
		}.build(),
		buggy:    applyThenMark(func(err error) bool { return apierrors.IsConflict(err) }),
		fixed:    applyThenMark(func(error) bool { return false }),
		strategy: explore.Sweep,
		broken:   []string{"done-means-had"},
	},
	{
		name: "lost update by a patch without a lock",
		config: withSecondProcess(scenario{
			given: []apiserver.Object{configMap("app", map[string]string{"members": ""})},
			properties: []property.Definition{terminal("both-joined",
				`app.?data["members"].orValue("").contains("operator") && app.data["members"].contains("second")`)},
		}.build()),
		buggy: join(func(app *corev1.ConfigMap) ctrlclient.Patch { return ctrlclient.MergeFrom(app) }),
		fixed: join(func(app *corev1.ConfigMap) ctrlclient.Patch {
			return ctrlclient.MergeFromWithOptions(app, ctrlclient.MergeFromWithOptimisticLock{})
		}),
		strategy: explore.Sweep,
		broken:   []string{"both-joined"},
	},
	{
		name: "deletes what was renewed",
		config: scenario{
			given: []apiserver.Object{configMap("app", map[string]string{"expired": "true"}), secret("app")},
			racers: []sim.RacerConfig{user(
				after(10*time.Second, mergePatch(`{"data":{"expired":null}}`)),
				after(10*time.Second, racer.UserStep{Patch: &racer.UserPatch{Kind: "Secret", Namespace: "default", Name: "app",
					Data: []byte(`{"metadata":{"labels":{"renewed":"true"}}}`)}}))},
			properties: []property.Definition{{Name: "never-deletes-renewed", Type: property.Request,
				Rule:  `response.code != 200 || child == null || !("renewed" in child.?metadata.labels.orValue({}))`,
				Match: &schedule.Selector{Actor: "operator", Verbs: []schedule.Verb{schedule.Delete}, Kind: "Secret"}}},
		}.build(),
		buggy: deleteExpired(func(*corev1.Secret) ctrlclient.DeleteOption { return ctrlclient.GracePeriodSeconds(0) }),
		fixed: deleteExpired(func(found *corev1.Secret) ctrlclient.DeleteOption {
			return ctrlclient.Preconditions{ResourceVersion: &found.ResourceVersion}
		}),
		strategy: explore.Sweep,
		broken:   []string{"never-deletes-renewed"},
	},
	{
		name: "gives up for good after one error",
		config: scenario{
			given: []apiserver.Object{configMap("app", nil), secret("app")},
			racers: []sim.RacerConfig{
				cleaner(5 * time.Second),
				user(after(10*time.Second, mergePatch(`{"data":{"want":"1"}}`))),
			},
			properties: []property.Definition{{Name: "comes-up", Type: property.Eventually, Within: 5 * time.Minute,
				Rule: `app.?data["phase"].orValue("") == "Up"`}},
		}.build(),
		buggy:    bringUp(func(app *corev1.ConfigMap) bool { return app.Data["phase"] == "Failed" }),
		fixed:    bringUp(func(*corev1.ConfigMap) bool { return false }),
		strategy: explore.Sweep,
		broken:   []string{"comes-up"},
	},
	{
		name: "swallows the second conflict", // needs two reorders, which only the walk makes
		config: scenario{
			given: []apiserver.Object{configMap("app", map[string]string{"want": "1"})},
			racers: []sim.RacerConfig{{Name: "annotator", WithScript: true, New: func() sim.Racer {
				return racer.NewAnnotator(racer.AnnotatorOptions{Kind: "ConfigMap", Namespace: "default", Name: "app",
					Interval: 5 * time.Millisecond, Times: 10})
			}}},
			properties: []property.Definition{terminal("done-means-had", `child == null || app.?data["have"].orValue("") == "1"`)},
		}.build(),
		buggy:    applyTwice(func(err error) bool { return apierrors.IsConflict(err) }),
		fixed:    applyTwice(func(error) bool { return false }),
		strategy: explore.RandomWalk,
		broken:   []string{"done-means-had"},
		runs:     1000,
	},
}

// after sets the time of a step.
func after(at time.Duration, step racer.UserStep) racer.UserStep {
	step.At = at
	return step
}

// cleaner is a second user, who deletes the Secret.
func cleaner(at time.Duration) sim.RacerConfig {
	config := user(after(at, racer.UserStep{Delete: &racer.UserDelete{Kind: "Secret", Namespace: "default", Name: "app"}}))
	config.Name = "cleaner"
	return config
}

// applyThenMark writes what is wanted, and then a child as the mark that this is done.
func applyThenMark(ignore func(error) bool) reconcileFunc {
	return announce(func(ctx context.Context, deps sim.Deps, app *corev1.ConfigMap) error {
		if err := deps.Live.Get(ctx, ctrlclient.ObjectKeyFromObject(app), &corev1.Secret{}); !apierrors.IsNotFound(err) {
			return err
		}
		if err := setData(ctx, deps, app, "have", app.Data["want"]); err != nil && !ignore(err) {
			return err
		}
		return createChild(ctx, deps, app)
	})
}

// applyTwice does the same with another attempt after a conflict.
func applyTwice(ignore func(error) bool) reconcileFunc {
	return announce(func(ctx context.Context, deps sim.Deps, app *corev1.ConfigMap) error {
		if err := deps.Live.Get(ctx, ctrlclient.ObjectKeyFromObject(app), &corev1.Secret{}); !apierrors.IsNotFound(err) {
			return err
		}
		err := setData(ctx, deps, app, "have", "1")
		if apierrors.IsConflict(err) {
			if err := deps.Live.Get(ctx, ctrlclient.ObjectKeyFromObject(app), app); err != nil {
				return err
			}
			err = setData(ctx, deps, app, "have", "1")
		}
		if err != nil && !ignore(err) {
			return err
		}
		return createChild(ctx, deps, app)
	})
}

type memberKey struct{}

// withSecondProcess adds a process "second" that runs the same program; each knows its name from the context.
func withSecondProcess(build func(testing.TB, reconcileFunc) *sim.Config) func(testing.TB, reconcileFunc) *sim.Config {
	return func(t testing.TB, f reconcileFunc) *sim.Config {
		config := build(t, f)
		config.Processes = nil
		for _, name := range []string{"operator", "second"} {
			config.Processes = append(config.Processes, sim.Process{Name: name, Program: program(
				func(ctx context.Context, deps sim.Deps, key types.NamespacedName) (ctrl.Result, error) {
					return f(context.WithValue(ctx, memberKey{}, name), deps, key)
				}, nil)})
		}
		return config
	}
}

// join adds the process to the members listed in the ConfigMap.
func join(patch func(*corev1.ConfigMap) ctrlclient.Patch) reconcileFunc {
	return announce(func(ctx context.Context, deps sim.Deps, app *corev1.ConfigMap) error {
		member := ctx.Value(memberKey{}).(string)
		if app.Data[member] == "joined" {
			return nil
		}
		joined := app.DeepCopy()
		joined.Data = maps.Clone(app.Data)
		joined.Data["members"] += " " + member
		joined.Data[member] = "joined"
		return deps.Live.Patch(ctx, joined, patch(app))
	})
}

// deleteExpired deletes the Secret of a ConfigMap that says it has expired.
func deleteExpired(guard func(*corev1.Secret) ctrlclient.DeleteOption) reconcileFunc {
	return announce(func(ctx context.Context, deps sim.Deps, app *corev1.ConfigMap) error {
		found := &corev1.Secret{}
		err := deps.Live.Get(ctx, ctrlclient.ObjectKeyFromObject(app), found)
		if err != nil || app.Data["expired"] != "true" || found.Labels["renewed"] == "true" {
			return ctrlclient.IgnoreNotFound(err)
		}
		return ctrlclient.IgnoreNotFound(deps.Live.Delete(ctx, found, guard(found)))
	})
}

// bringUp creates the child of a ConfigMap that is wanted, and says how that went.
func bringUp(hopeless func(*corev1.ConfigMap) bool) reconcileFunc {
	return announce(func(ctx context.Context, deps sim.Deps, app *corev1.ConfigMap) error {
		if app.Data["want"] == "" || app.Data["phase"] == "Up" || hopeless(app) {
			return nil
		}
		child := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name}}
		if err := deps.Live.Create(ctx, child); err != nil {
			return errors.Join(err, setData(ctx, deps, app, "phase", "Failed"))
		}
		return setData(ctx, deps, app, "phase", "Up")
	})
}
