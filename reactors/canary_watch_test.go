package reactors_test

import (
	"cmp"
	"context"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/racer"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/client"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// watchCanaries are about caches that are behind, and about what a list does not tell.
var watchCanaries = []canary{
	{
		name: "expects its cache to follow within 20 seconds", by: []schedule.FaultType{schedule.CacheLag},
		scenario: oneChild,
		buggy:    expecting(20*time.Second, numbered), fixed: expecting(20*time.Second, fixedName),
	},
	{
		// A watch that drops is one that lags, if only for a moment; so is one that lists again.
		name:     "expects its cache to follow within half a second",
		by:       []schedule.FaultType{schedule.CacheLag, schedule.WatchDrop, schedule.Relist},
		scenario: oneChild,
		buggy:    expecting(500*time.Millisecond, numbered), fixed: expecting(500*time.Millisecond, fixedName),
	},
	{
		// It does ask the server about what takes longer, be it a lag or a new list.
		name: "takes what it is told of late for somebody else's", by: []schedule.FaultType{schedule.WatchDrop},
		scenario: scenario{given: []apiserver.Object{configMap(nil)},
			properties: []property.Definition{terminal("knows its own", `app.?data["child"].orValue("") == "own"`)}},
		buggy: always(recognize(false)), fixed: always(recognize(true)),
	},
	{
		name: "takes a new object of the same name for the old one", by: []schedule.FaultType{schedule.Relist},
		scenario: scenario{
			settled: true, given: []apiserver.Object{configMap(nil), secret("app")},
			racers: []sim.RacerConfig{user(
				racer.UserStep{At: 10 * time.Second, Delete: &racer.UserDelete{Kind: "Secret", Namespace: "default", Name: "app"}},
				racer.UserStep{At: 10500 * time.Millisecond, Create: &racer.UserCreate{Kind: "Secret", Object: secret("app")}})},
			properties: []property.Definition{terminal("knows the child",
				`child == null || app.?data["child"].orValue("") == child.metadata.uid`)},
		},
		buggy: remembering(false), fixed: remembering(true),
	},
}

var oneChild = scenario{given: []apiserver.Object{configMap(nil)},
	properties: []property.Definition{invariant("one child", "size(children) <= 1"), terminal("a child", "size(children) == 1")}}

func numbered(n int) string { return fmt.Sprintf("app-%d", n) }

func fixedName(int) string { return "app" }

// expecting is an operator that creates a child unless its cache shows one, and that expects to see it there within a span.
func expecting(span time.Duration, name func(int) string) operator {
	return reconciling(func(deps sim.Deps) pass {
		var created time.Time
		children := 0
		return func(ctx context.Context, key types.NamespacedName) (ctrl.Result, error) {
			list := &corev1.SecretList{}
			if err := deps.Client.List(ctx, list, ctrlclient.InNamespace(key.Namespace)); err != nil || len(list.Items) > 0 {
				return ctrl.Result{}, err
			}
			again := ctrl.Result{RequeueAfter: 100 * time.Millisecond}
			if !created.IsZero() && time.Since(created) < span {
				return again, nil
			}
			err := deps.Live.Create(ctx, secret(name(children)))
			if ctrlclient.IgnoreAlreadyExists(err) == nil {
				created = time.Now()
				children++
			}
			return again, ctrlclient.IgnoreAlreadyExists(err)
		}
	})
}

// recognize creates a child unless its cache shows one, and writes down whose it is: its own, if the cache follows within half
// a second, or if the server says so after 0.9 s. One that is careful takes it for its own in any case.
func recognize(careful bool) action {
	return func(ctx context.Context, deps sim.Deps, app *corev1.ConfigMap) error {
		key := ctrlclient.ObjectKeyFromObject(app)
		err := deps.Client.Get(ctx, key, &corev1.Secret{})
		if err == nil || app.Data["child"] != "" {
			return setData(ctx, deps, app, "child", cmp.Or(app.Data["child"], "own"))
		}
		if err := deps.Live.Create(ctx, secret("app")); ctrlclient.IgnoreAlreadyExists(err) != nil {
			return err
		}
		created := time.Now()
		for deps.Client.Get(ctx, key, &corev1.Secret{}) != nil {
			if time.Since(created) > 900*time.Millisecond {
				if err := deps.Live.Get(ctx, key, &corev1.Secret{}); err != nil {
					return err
				}
				return setData(ctx, deps, app, "child", "own")
			}
			time.Sleep(100 * time.Millisecond)
		}
		if !careful && time.Since(created) > 500*time.Millisecond {
			return setData(ctx, deps, app, "child", "foreign")
		}
		return setData(ctx, deps, app, "child", "own")
	}
}

// remembering is an operator that writes down which object the child is: the one it saw first, until it is told that this was
// deleted. A careful one also looks whether an update is of the same object.
func remembering(careful bool) operator {
	return func() sim.Program {
		return client.Manager(testScheme, func(m ctrl.Manager) error {
			known := &atomic.Value{}
			known.Store(types.UID(""))
			live := m.GetAPIReader().(ctrlclient.Client)
			return ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).
				Watches(&corev1.Secret{}, forgetting(known, careful)).
				Complete(reconcile.Func(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
					return ctrl.Result{}, noteChild(ctx, live, request.NamespacedName, known)
				}))
		})
	}
}

// forgetting is the handler of the child's events.
func forgetting(known *atomic.Value, careful bool) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(obj ctrlclient.Object, q queue) {
		q.Add(reconcile.Request{NamespacedName: ctrlclient.ObjectKeyFromObject(obj)})
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { add(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if careful && e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
				known.Store(types.UID(""))
			}
			add(e.ObjectNew, q)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			known.Store(types.UID(""))
			add(e.Object, q)
		},
	}
}

func noteChild(ctx context.Context, live ctrlclient.Client, key types.NamespacedName, known *atomic.Value) error {
	app, child := &corev1.ConfigMap{}, &corev1.Secret{}
	if err := live.Get(ctx, key, app); err != nil {
		return ctrlclient.IgnoreNotFound(err)
	}
	if err := live.Get(ctx, key, child); err != nil {
		return ctrlclient.IgnoreNotFound(err)
	}
	if known.Load() == types.UID("") {
		known.Store(child.UID)
	}
	return setData(ctx, sim.Deps{Live: live}, app, "child", string(known.Load().(types.UID)))
}
