package racer

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
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
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// onEngine plays a scenario on the engine: in the default order and in random ones, each twice, and in orders of a sweep. Every run comes to rest, and what is left is always the same text.
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
	play := func(name string, plan sim.Plan) *history.History {
		run, err := world.Run(plan)
		if err != nil {
			t.Fatal(err)
		}
		if run.Outcome != history.Terminal || len(run.Problems) > 0 {
			t.Fatalf("%s: the run is %s: %s, %v", name, run.Outcome, run.Reason, run.Problems)
		}
		if got := left(seen.at); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		return run
	}
	standard := play("default order", sim.Plan{})
	for seed := range int64(6) {
		plan := func() sim.Plan {
			if seed == 0 {
				return sim.Plan{}
			}
			return sim.Plan{Seed: seed, Strategy: explore.NewWalk(seed)}
		}
		name := fmt.Sprintf("seed %d", seed)
		if first, second := play(name, plan()), play(name, plan()); first.Hash != second.Hash {
			t.Errorf("%s: the same plan made two histories", name)
		}
	}
	orders, _ := explore.Candidates(standard, world.Config())
	if len(orders) == 0 {
		t.Error("there is nothing to sweep")
	}
	for i := 0; i < len(orders); i += 1 + len(orders)/sweptOrders() {
		play(orders[i].String(), sim.Plan{Constraints: []schedule.Constraint{orders[i]}})
	}
}

// sweptOrders returns how many orders of a sweep are played, about: every n-th. SIM_RUNS says another number than for every day.
func sweptOrders() int {
	if n, err := strconv.Atoi(os.Getenv("SIM_RUNS")); err == nil && n > 0 {
		return n
	}
	return 100
}

// onlooker is a racer that knows what there is.
type onlooker struct {
	views map[string]*cache.View
}

func (o *onlooker) Start(env sim.RacerEnv) {
	o.views = map[string]*cache.View{}
	for _, kind := range []string{"Job", "Pod", "Node", "StatefulSet", "PodDisruptionBudget", "Deployment", "ReplicaSet"} {
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
// TestRolloutOnEngine rolls a Deployment out to an image that never becomes ready, and back while its pods are still there; and
// recreates all pods of another one.
func TestRolloutOnEngine(t *testing.T) {
	image := func(at time.Duration, image string) UserStep {
		return UserStep{At: at, Patch: &UserPatch{Kind: "Deployment", Namespace: "default", Name: "web", Type: types.StrategicMergePatchType,
			Data: fmt.Appendf(nil, `{"spec":{"template":{"spec":{"containers":[{"name":"app","image":%q}]}}}}`, image)}}
	}
	for name, tt := range map[string]struct {
		change func(*appsv1.Deployment)
		steps  []UserStep
		want   string
	}{
		"to a bad image and back": {surges(1, 0), []UserStep{image(0, "web:bad"), image(20*time.Second, "web:1")},
			"2 of 2 updated, 2 available, complete; 2 of web:1 ready; sets of 0 2"},
		"to a bad image": {surges(1, 0), []UserStep{image(0, "web:bad")},
			"1 of 2 updated, 2 available; 2 of web:1 ready, 1 of web:bad not; sets of 1 2"},
		"all at once": {recreates, []UserStep{image(0, "web:2")},
			"2 of 2 updated, 2 available, complete; 2 of web:2 ready; sets of 0 2"},
	} {
		t.Run(name, func(t *testing.T) {
			deployment := newDeployment(2, tt.change)
			deployment.Namespace = "default"
			deployment.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "web:1"}}
			config := &sim.Config{Name: "rollout", Given: []apiserver.Object{deployment}, Racers: []sim.RacerConfig{
				played("kcm", func() *DeploymentController {
					return NewDeploymentController(DeploymentControllerOptions{ReplicaSets: true})
				}),
				kubelets(KubeletOptions{Binds: true, ReadyAfter: 2 * time.Second, TerminationAfter: 5 * time.Second, Unready: []string{"web:bad"}}),
				script(tt.steps...),
			}}
			onEngine(t, config, tt.want, rolloutSummary)
		})
	}
}

// rolloutSummary is what is left of the only Deployment.
func rolloutSummary(at func(kind, namespace string) []apiserver.Object) string {
	deployment := at("Deployment", "default")[0].(*appsv1.Deployment)
	status := &deployment.Status
	text := fmt.Sprintf("%d of %d updated, %d available", status.UpdatedReplicas, *deployment.Spec.Replicas, status.AvailableReplicas)
	if complete(deployment, status) {
		text += ", complete"
	}
	pods := map[string]int{}
	for _, obj := range at("Pod", "default") {
		pod := obj.(*corev1.Pod)
		state := "not"
		if podReady(pod) {
			state = "ready"
		}
		pods["of "+pod.Spec.Containers[0].Image+" "+state]++
	}
	var parts []string
	for _, state := range slices.Sorted(maps.Keys(pods)) {
		parts = append(parts, fmt.Sprintf("%d %s", pods[state], state))
	}
	var sizes []int
	for _, obj := range at("ReplicaSet", "default") {
		sizes = append(sizes, int(*obj.(*appsv1.ReplicaSet).Spec.Replicas))
	}
	slices.Sort(sizes)
	return fmt.Sprintf("%s; %s; sets of %s", text, strings.Join(parts, ", "), strings.Trim(fmt.Sprint(sizes), "[]"))
}

// TestReplicaSetOnEngine resizes a ReplicaSet before it has come to the size it was to have.
func TestReplicaSetOnEngine(t *testing.T) {
	set := replicasOf(3)
	set.Namespace = "default"
	set.Spec.MinReadySeconds = 3
	size := func(at time.Duration, replicas int) UserStep {
		return UserStep{At: at, Patch: &UserPatch{Kind: "ReplicaSet", Namespace: "default", Name: "web", Type: types.MergePatchType,
			Data: fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas)}}
	}
	config := &sim.Config{Name: "replicas", Given: []apiserver.Object{set}, Racers: []sim.RacerConfig{
		played("kcm", func() *ReplicaSetController { return NewReplicaSetController(ReplicaSetControllerOptions{}) }),
		kubelets(KubeletOptions{Binds: true, ReadyAfter: time.Second, TerminationAfter: 5 * time.Second}),
		script(size(0, 1), size(10*time.Millisecond, 4), size(2*time.Second, 2)),
	}}
	onEngine(t, config, "2 pods, 2 ready and 2 available of 2", func(at func(kind, namespace string) []apiserver.Object) string {
		set := at("ReplicaSet", "default")[0].(*appsv1.ReplicaSet)
		return fmt.Sprintf("%d pods, %d ready and %d available of %d", len(at("Pod", "default")), set.Status.ReadyReplicas,
			set.Status.AvailableReplicas, *set.Spec.Replicas)
	})
}

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
			options.Recommends = []Recommendation{{At: time.Minute, Replicas: 4}, {At: 30 * time.Minute, Replicas: 2}}
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
