package racer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
	"github.com/stalemate-dev/stalemate/sim/explore"
	"github.com/stalemate-dev/stalemate/sim/history"
)

// onEngine plays a scenario on the engine, in the default order and in random ones, each twice. What is left is always the same text.
func onEngine(t *testing.T, config *sim.Config, want string, left func(at func(kind, namespace string) []apiserver.Object) string) {
	t.Helper()
	var seen *onlooker
	config.Kinds = apiserver.NewKinds(apiserver.V136)
	config.Limits = sim.Limits{Steps: 50_000, VirtualTime: 100 * time.Hour}
	config.Racers = append(config.Racers, sim.RacerConfig{Name: "onlooker", New: func() sim.Racer {
		seen = &onlooker{}
		return seen
	}})
	world, err := sim.NewWorld(config)
	if err != nil {
		t.Fatal(err)
	}
	for seed := range int64(6) {
		hashes := map[string]bool{}
		for range 2 {
			plan := sim.Plan{Seed: seed}
			if seed > 0 {
				plan.Strategy = explore.NewWalk(seed)
			}
			run, err := world.Run(plan)
			if err != nil {
				t.Fatal(err)
			}
			if run.Outcome != history.Terminal || len(run.Problems) > 0 {
				t.Fatalf("seed %d: the run is %s: %s, %v", seed, run.Outcome, run.Reason, run.Problems)
			}
			hashes[fmt.Sprint(run.Hash)] = true
			if got := left(seen.at); got != want {
				t.Errorf("seed %d: %s, want %s", seed, got, want)
			}
		}
		if len(hashes) != 1 {
			t.Errorf("seed %d: the same plan made two histories", seed)
		}
	}
}

// onlooker is a racer that knows what there is.
type onlooker struct {
	views map[string]*cache.View
}

func (o *onlooker) Start(env sim.RacerEnv) {
	o.views = map[string]*cache.View{}
	for _, kind := range []string{"Job", "Pod", "Node", "StatefulSet", "PodDisruptionBudget"} {
		o.views[kind] = env.Informer(env.Kind(kind), nil)
	}
}

func (o *onlooker) at(kind, namespace string) []apiserver.Object {
	return o.views[kind].List(namespace)
}

func played[T sim.Racer](name string, make func() T) sim.RacerConfig {
	return sim.RacerConfig{Name: name, New: func() sim.Racer { return make() }}
}

func statefulSets() sim.RacerConfig {
	return played("kcm", func() *StatefulSetController {
		return NewStatefulSetController(StatefulSetControllerOptions{Version: apiserver.V136})
	})
}

func kubelets(options KubeletOptions) sim.RacerConfig {
	return played("kubelet", func() *Kubelet { return NewKubelet(options) })
}

func script(steps ...UserStep) sim.RacerConfig {
	user := played("user", func() *User { return NewUser(UserOptions{Steps: steps}) })
	user.WithScript = true
	return user
}

func TestJobOnEngine(t *testing.T) {
	job := newJob(inParallel(2, 4), byIndex)
	job.Namespace = "default"
	config := &sim.Config{Name: "job", Racers: []sim.RacerConfig{
		played("jobs", NewJobController),
		kubelets(KubeletOptions{Binds: true, CompletesAfter: 10 * time.Second, Fails: []PodFailure{times(1)}}),
		script(
			UserStep{Create: &UserCreate{Kind: "Job", Object: job}},
			UserStep{At: 3 * time.Second, Patch: &UserPatch{Kind: "Job", Namespace: "default", Name: "work",
				Type: types.MergePatchType, Data: []byte(`{"spec":{"suspend":true}}`)}},
			UserStep{At: 8 * time.Second, Patch: &UserPatch{Kind: "Job", Namespace: "default", Name: "work",
				Type: types.MergePatchType, Data: []byte(`{"spec":{"suspend":false}}`)}},
		),
	}}
	onEngine(t, config, "[0-3] 4 succeeded true, 0 finalizers", func(at func(kind, namespace string) []apiserver.Object) string {
		finalizers := 0
		for _, pod := range at("Pod", "default") {
			finalizers += len(pod.GetFinalizers())
		}
		job := at("Job", "default")[0].(*batchv1.Job)
		return fmt.Sprintf("[%s] %d succeeded %t, %d finalizers",
			job.Status.CompletedIndexes, job.Status.Succeeded, jobFinished(job), finalizers)
	})
}

// TestLostNodeOnEngine settles on two nodes, and loses one of them when the script begins, which then deletes its Node object.
func TestLostNodeOnEngine(t *testing.T) {
	lost := []Outage{{Node: "n1", At: 5 * time.Second}}
	set := newSet(2)
	set.Namespace = "default"
	config := &sim.Config{Name: "lost-node", Given: []apiserver.Object{set}, Racers: []sim.RacerConfig{
		statefulSets(),
		played("nodes", func() *NodeLifecycle { return NewNodeLifecycle(NodeLifecycleOptions{Lost: lost}) }),
		played("scheduler", func() *Scheduler { return NewScheduler(SchedulerOptions{}) }),
		kubelets(KubeletOptions{Lost: lost}),
		script(UserStep{At: time.Hour, Delete: &UserDelete{Kind: "Node", Name: "n1"}}),
	}}
	for _, name := range []string{"n1", "n2"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		config.Given = append(config.Given, node)
	}
	onEngine(t, config, "web-0 on n2 ready true, web-1 on n2 ready true", func(at func(kind, namespace string) []apiserver.Object) string {
		var pods []string
		for _, obj := range at("Pod", "default") {
			pod := obj.(*corev1.Pod)
			pods = append(pods, fmt.Sprintf("%s on %s ready %t", pod.Name, pod.Spec.NodeName, podReady(pod)))
		}
		return strings.Join(pods, ", ")
	})
}

func TestAutoscalerOnEngine(t *testing.T) {
	set := newSet(1)
	set.Namespace = "default"
	object := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "scaler"}}
	object.Spec.MaxReplicas = 3
	object.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web"}
	for name, options := range map[string]HorizontalPodAutoscalerOptions{
		"with an object":    {Name: "scaler"},
		"without an object": {Target: ScaleTarget{Kind: "StatefulSet", Name: "web"}},
	} {
		t.Run(name, func(t *testing.T) {
			options.Namespace = "default"
			options.Recommends = []Recommendation{{At: time.Minute, Replicas: 4}, {At: 3 * time.Hour, Replicas: 2}}
			config := &sim.Config{Name: "autoscaler", Given: []apiserver.Object{set, object}, Racers: []sim.RacerConfig{
				statefulSets(), kubelets(KubeletOptions{Binds: true}),
				played("hpa", func() *HorizontalPodAutoscaler { return NewHorizontalPodAutoscaler(options) }),
			}}
			onEngine(t, config, "2 of 2", func(at func(kind, namespace string) []apiserver.Object) string {
				set := at("StatefulSet", "default")[0].(*appsv1.StatefulSet)
				return fmt.Sprintf("%d of %d", set.Status.ReadyReplicas, *set.Spec.Replicas)
			})
		})
	}
}

// TestScaleIsRecordedAsObject checks that the record of a write of a scale holds the object that was scaled, before and after.
func TestScaleIsRecordedAsObject(t *testing.T) {
	set := newSet(1)
	set.Namespace = "default"
	options := HorizontalPodAutoscalerOptions{Namespace: "default", Target: ScaleTarget{Kind: "StatefulSet", Name: "web"},
		Recommends: []Recommendation{{Replicas: 3}}}
	world, err := sim.NewWorld(&sim.Config{Name: "scale", Kinds: apiserver.NewKinds(apiserver.V136), Given: []apiserver.Object{set},
		Limits: sim.Limits{Steps: 5000, VirtualTime: time.Hour},
		Racers: []sim.RacerConfig{played("hpa", func() *HorizontalPodAutoscaler { return NewHorizontalPodAutoscaler(options) })}})
	if err != nil {
		t.Fatal(err)
	}
	run, err := world.Run(sim.Plan{})
	if err != nil {
		t.Fatal(err)
	}
	writes := 0
	for _, r := range run.Records {
		if r.Event.Subresource != "scale" || r.Committed == 0 {
			continue
		}
		writes++
		before, _ := r.Before.(*appsv1.StatefulSet)
		after, ok := r.After.(*appsv1.StatefulSet)
		if !ok || before == nil || *before.Spec.Replicas != 1 || *after.Spec.Replicas != 3 || after.Spec.ServiceName == "" {
			t.Errorf("%s: %T before, %T after; want the StatefulSet with 1 and 3 replicas", r.Event, r.Before, r.After)
		}
	}
	if writes != 1 {
		t.Errorf("the scale was written %d times, want once", writes)
	}
}

// TestEvictionOnEngine drains a StatefulSet that a budget guards, one pod of it at a time: each is evicted once, none while another
// one is missing.
func TestEvictionOnEngine(t *testing.T) {
	set := newSet(3)
	set.Namespace = "default"
	one := intstr.FromInt32(1)
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"}}
	budget.Spec.MaxUnavailable = &one
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	var drain *drainer
	drained := played("drain", func() *drainer {
		drain = &drainer{t: t, pods: []string{"web-0", "web-1", "web-2"}}
		return drain
	})
	drained.WithScript = true
	config := &sim.Config{Name: "eviction", Given: []apiserver.Object{set, budget}, Racers: []sim.RacerConfig{
		statefulSets(), kubelets(KubeletOptions{Binds: true, ReadyAfter: 2 * time.Second, TerminationAfter: 20 * time.Second}),
		played("disruption", NewDisruptionController), drained,
	}}
	onEngine(t, config, "3 evicted, refused true, 3 ready, 1 allowed", func(at func(kind, namespace string) []apiserver.Object) string {
		set, budget := at("StatefulSet", "default")[0].(*appsv1.StatefulSet), at("PodDisruptionBudget", "default")[0]
		return fmt.Sprintf("%d evicted, refused %t, %d ready, %d allowed", drain.evicted, drain.refused > 0, set.Status.ReadyReplicas,
			budget.(*policyv1.PodDisruptionBudget).Status.DisruptionsAllowed)
	})
}

// drainer evicts pods at the same time, again and again every five seconds, until each is evicted, as kubectl drain does.
type drainer struct {
	t                *testing.T
	pods             []string
	view             *cache.View
	evicted, refused int
}

func (d *drainer) Start(env sim.RacerEnv) {
	queue := env.Queue("evictions", len(d.pods), func(key string) sim.Task {
		return &drained{drainer: d, target: target{kind: env.Kind("Pod"), namespace: "default", name: key, manager: managerUser}}
	})
	d.view = env.Informer(env.Kind("Pod"), nil)
	for _, pod := range d.pods {
		queue.Add(pod)
	}
}

type drained struct {
	*drainer
	target target
}

func (d *drained) Next(resp *apiserver.Response) sim.Action {
	if resp == nil {
		request := d.target.create(&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: d.target.name}})
		request.Subresource = "eviction"
		return sim.Call(request)
	}
	switch err := failure(resp); {
	case err == nil:
		d.evicted++
		return sim.Done()
	case apierrors.IsTooManyRequests(err):
		d.refused++
		return sim.Wait(5 * time.Second)
	default:
		d.t.Errorf("eviction of %s: %v", d.target.name, err)
		return sim.Done()
	}
}
