package detect_test

import (
	"context"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/racer"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/detect"
)

// writerCanaries write what others write.
var writerCanaries = []canary{
	{
		name: "fights over a field", finds: detect.CompetingWriters,
		world: world{given: []apiserver.Object{app(map[string]any{"size": "1"})},
			racers: []sim.RacerConfig{user(resizing("2", "2", "2", "2")...)}},
		buggy: stateless(onApp(func(ctx context.Context, deps sim.Deps, app *unstructured.Unstructured) (ctrl.Result, error) {
			if field(app, "spec", "size") == "1" {
				return ctrl.Result{}, nil
			}
			setField(app, "1", "spec", "size")
			return ctrl.Result{}, deps.Live.Update(ctx, app)
		})),
		twins: []twin{
			{name: "says what it sees", operator: echoing()},
			{name: "writes as often, but what it was asked for",
				world:    world{racers: []sim.RacerConfig{user(resizing("2", "3", "4", "5", "6")...)}},
				operator: echoing()},
		},
	},
	{
		name: "writes the kubelet's conditions", finds: detect.ForeignStatus,
		world: world{given: []apiserver.Object{app(nil), pod()}},
		buggy: condition(corev1.PodReady),
		twins: []twin{
			{name: "writes a condition of its own", operator: condition("example.com/ready")},
			{name: "writes the status of its own resource", operator: counting(3, 0)},
			{name: "writes metadata", operator: stateless(onApp(func(ctx context.Context, deps sim.Deps, _ *unstructured.Unstructured) (
				ctrl.Result, error) {
				return ctrl.Result{}, deps.Live.Patch(ctx, pod(), merge(`{"metadata":{"labels":{"seen":"yes"}}}`))
			}))},
		},
	},
	{
		name: "writes the status of a job", finds: detect.ForeignStatus,
		world: world{given: []apiserver.Object{app(nil), job("")}},
		buggy: jobStatus(),
		twins: []twin{{name: "it manages", world: world{given: []apiserver.Object{app(nil), job("example.com/queue")}}, operator: jobStatus()}},
	},
}

// resizing sets the App's size, once a minute, and labels it in between.
func resizing(sizes ...string) []racer.UserStep {
	var steps []racer.UserStep
	for i, size := range sizes {
		at := time.Duration(i+1) * time.Minute
		steps = append(steps, patch(at, "App", "app", `{"spec":{"size":"`+size+`"}}`),
			patch(at+time.Second, "App", "app", `{"metadata":{"labels":{"size":"`+size+`"}}}`),
			patch(at+2*time.Second, "App", "app", `{"metadata":{"labels":{"size":null}}}`))
	}
	return steps
}

// echoing says in the App's status what size it has.
func echoing() operator {
	return stateless(onApp(func(ctx context.Context, deps sim.Deps, app *unstructured.Unstructured) (ctrl.Result, error) {
		if field(app, "status", "size") == field(app, "spec", "size") {
			return ctrl.Result{}, nil
		}
		setField(app, field(app, "spec", "size"), "status", "size")
		return ctrl.Result{}, deps.Live.Status().Update(ctx, app)
	}))
}

func merge(body string) ctrlclient.Patch {
	return ctrlclient.RawPatch(types.MergePatchType, []byte(body))
}

func pod() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: object("pod"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
}

// condition sets a condition of the pod.
func condition(of corev1.PodConditionType) operator {
	return stateless(onApp(func(ctx context.Context, deps sim.Deps, _ *unstructured.Unstructured) (ctrl.Result, error) {
		p := pod()
		if err := deps.Live.Get(ctx, ctrlclient.ObjectKeyFromObject(p), p); err != nil {
			return ctrl.Result{}, err
		}
		p.Status.Conditions = []corev1.PodCondition{{Type: of, Status: corev1.ConditionTrue}}
		return ctrl.Result{}, deps.Live.Status().Update(ctx, p)
	}))
}

func job(managedBy string) *batchv1.Job {
	j := &batchv1.Job{ObjectMeta: object("job"), Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: pod().Spec}}}
	j.Spec.Template.Spec.RestartPolicy = corev1.RestartPolicyNever
	if managedBy != "" {
		j.Spec.ManagedBy = &managedBy
	}
	return j
}

// jobStatus says how many pods of the job are active.
func jobStatus() operator {
	return stateless(onApp(func(ctx context.Context, deps sim.Deps, _ *unstructured.Unstructured) (ctrl.Result, error) {
		j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "job"}}
		err := deps.Live.Status().Patch(ctx, j, merge(`{"status":{"active":1}}`))
		if apierrors.IsNotFound(err) {
			err = nil
		}
		return ctrl.Result{}, err
	}))
}
