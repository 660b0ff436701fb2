package detect_test

import (
	"context"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/racer"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/detect"
)

// loopCanaries come to no rest, or do what they need not.
var loopCanaries = []canary{
	{
		name: "says now this, now that", finds: detect.Livelock, also: []detect.Type{detect.HotLoop, detect.WriteChurn},
		world: world{given: []apiserver.Object{app(nil)}, steps: 400},
		buggy: stateless(onApp(func(ctx context.Context, deps sim.Deps, app *unstructured.Unstructured) (ctrl.Result, error) {
			next := map[string]string{"this": "that"}[field(app, "status", "says")]
			if next == "" {
				next = "this"
			}
			setField(app, next, "status", "says")
			return ctrl.Result{}, deps.Live.Status().Update(ctx, app)
		})),
		twins: []twin{{name: "makes up its mind", operator: counting(3, 0)}},
	},
	{
		name: "counts for ever", finds: detect.Livelock,
		world: world{given: []apiserver.Object{app(nil)}, steps: 1500},
		buggy: counting(1<<30, 0),
		twins: []twin{{name: "counts to 120", operator: counting(120, 0)}},
	},
	{
		name: "makes one thing after the other", finds: detect.Livelock,
		world: world{given: []apiserver.Object{app(nil)}, steps: 6000},
		buggy: making(1 << 30),
		twins: []twin{{name: "makes as many as it is to", operator: making(60)}},
	},
	{
		name: "looks all the time", finds: detect.HotLoop,
		world: world{given: []apiserver.Object{app(nil)}},
		buggy: looking(10 * time.Millisecond),
		twins: []twin{
			{name: "looks every minute", operator: looking(time.Minute)},
			{name: "looks all the time while there is something to do", operator: counting(80, time.Millisecond)},
			{name: "looks while somebody else is at it", operator: looking(0),
				world: world{racers: []sim.RacerConfig{user(progressing(52, 50*time.Millisecond)...)}}},
		},
	},
	{
		name: "writes what is there", finds: detect.WriteChurn,
		world: world{given: []apiserver.Object{app(nil), secret("child")}},
		buggy: writing(func(*unstructured.Unstructured) bool { return true }, "Secret"),
		twins: []twin{
			{name: "compares first", operator: writing(func(*unstructured.Unstructured) bool { return false }, "Secret")},
			{name: "writes the status that is there", operator: writing(func(*unstructured.Unstructured) bool { return true }, "status")},
			{name: "says that it is alive", operator: beating()},
		},
	},
	{
		name: "takes back what it says", finds: detect.WriteChurn,
		world: world{given: []apiserver.Object{app(nil)}},
		buggy: busyThenReady(20),
		twins: []twin{
			{name: "does so a few times", operator: busyThenReady(4)},
			{name: "does so when it is asked", operator: busyThenReady(0),
				world: world{racers: []sim.RacerConfig{user(progressing(20, time.Minute)...)}}},
		},
	},
}

// counting counts in the App's status.
func counting(to int, pause time.Duration) operator {
	return stateless(onApp(func(ctx context.Context, deps sim.Deps, app *unstructured.Unstructured) (ctrl.Result, error) {
		n, _ := strconv.Atoi(field(app, "status", "count"))
		if n >= to {
			return ctrl.Result{}, nil
		}
		setField(app, strconv.Itoa(n+1), "status", "count")
		return ctrl.Result{RequeueAfter: pause}, deps.Live.Status().Update(ctx, app)
	}))
}

// making makes Secrets, one in a pass.
func making(count int) operator {
	return func() pass {
		made := 0
		return onApp(func(ctx context.Context, deps sim.Deps, app *unstructured.Unstructured) (ctrl.Result, error) {
			if made >= count {
				return ctrl.Result{}, nil
			}
			made++
			err := deps.Live.Create(ctx, owned(secret("made-"+strconv.Itoa(made)), app))
			return ctrl.Result{RequeueAfter: time.Millisecond}, ctrlclient.IgnoreAlreadyExists(err)
		})
	}
}

// looking looks at the App again and again.
func looking(every time.Duration) operator {
	return stateless(onApp(func(context.Context, sim.Deps, *unstructured.Unstructured) (ctrl.Result, error) {
		return ctrl.Result{RequeueAfter: every}, nil
	}))
}

// progressing are changes of the App by somebody else.
func progressing(n int, every time.Duration) []racer.UserStep {
	var steps []racer.UserStep
	for i := range n {
		steps = append(steps, patch(time.Duration(i+1)*every, "App", "app", `{"spec":{"at":"`+strconv.Itoa(i)+`"}}`))
	}
	return steps
}

// writing writes the child, or the App's status, every minute, as it is.
func writing(writes func(*unstructured.Unstructured) bool, what string) operator {
	return stateless(onApp(func(ctx context.Context, deps sim.Deps, app *unstructured.Unstructured) (ctrl.Result, error) {
		again := ctrl.Result{RequeueAfter: time.Minute}
		if !writes(app) {
			return again, nil
		}
		if what == "status" {
			setField(app, "yes", "status", "ready")
			return again, deps.Live.Status().Update(ctx, app)
		}
		return again, deps.Live.Update(ctx, secret("child"))
	}))
}

// beating writes the time into the App's status.
func beating() operator {
	return stateless(onApp(func(ctx context.Context, deps sim.Deps, app *unstructured.Unstructured) (ctrl.Result, error) {
		setField(app, time.Now().UTC().Format(time.RFC3339), "status", "seen")
		err := deps.Live.Status().Update(ctx, app)
		if apierrors.IsConflict(err) {
			err = nil
		}
		return ctrl.Result{RequeueAfter: time.Minute}, err
	}))
}

// busyThenReady says in each pass that it is busy, and then that it is ready. It comes back by itself a number of times.
func busyThenReady(times int) operator {
	return func() pass {
		passes := 0
		return onApp(func(ctx context.Context, deps sim.Deps, app *unstructured.Unstructured) (ctrl.Result, error) {
			if field(app, "status", "for") == field(app, "spec", "at") && passes >= times && field(app, "status", "phase") == "ready" {
				return ctrl.Result{}, nil
			}
			if passes++; passes > times && times > 0 {
				return ctrl.Result{}, nil
			}
			for _, phase := range []string{"busy", "ready"} {
				setField(app, phase, "status", "phase")
				setField(app, field(app, "spec", "at"), "status", "for")
				if err := deps.Live.Status().Update(ctx, app); err != nil {
					return ctrl.Result{}, ctrlclient.IgnoreNotFound(err)
				}
			}
			if times > 0 {
				return ctrl.Result{RequeueAfter: time.Minute}, nil
			}
			return ctrl.Result{}, nil
		})
	}
}
