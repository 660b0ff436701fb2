package racer

import (
	"fmt"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

func newDeployment(replicas int32, change ...func(*appsv1.Deployment)) *appsv1.Deployment {
	set := newSet(replicas)
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.DeploymentSpec{Replicas: set.Spec.Replicas, Selector: set.Spec.Selector, Template: set.Spec.Template},
	}
	for _, f := range change {
		f(deployment)
	}
	return deployment
}

func recreates(d *appsv1.Deployment) { d.Spec.Strategy.Type = appsv1.RecreateDeploymentStrategyType }

func surges(surge, unavailable int) func(*appsv1.Deployment) {
	return func(d *appsv1.Deployment) {
		maxSurge, maxUnavailable := intstr.FromInt(surge), intstr.FromInt(unavailable)
		d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: &maxSurge, MaxUnavailable: &maxUnavailable}
	}
}

// newRolloutDriver returns a driver with the controllers of Deployments and ReplicaSets, a garbage collector and a kubelet.
func newRolloutDriver(t *testing.T) *driver {
	d := newDriver(t, apiserver.V136)
	d.start("kcm", NewDeploymentController(DeploymentControllerOptions{ReplicaSets: true}))
	d.start("gc", NewGarbageCollector(GarbageCollectorOptions{}))
	d.start("kubelet", NewKubelet(KubeletOptions{Binds: true}))
	return d
}

// rolloutWrites returns the writes of the controllers since they were last asked for. ReplicaSets have the numbers of their
// creation; pods have none.
func (d *driver) rolloutWrites() []string {
	var pairs []string
	for _, event := range d.server.Log(d.kind("Pod")) {
		pairs = append(pairs, event.Object.GetName(), "of "+metav1.GetControllerOf(event.Object).Name)
	}
	byPod := strings.NewReplacer(pairs...)
	pairs = nil
	for _, event := range d.server.Log(d.kind("ReplicaSet")) {
		if name := event.Object.GetName(); event.Type == apiserver.Added && !slices.Contains(pairs, name) {
			pairs = append(pairs, name, fmt.Sprintf("rs%d", len(pairs)/2+1))
		}
	}
	bySet := strings.NewReplacer(pairs...)
	writes := d.writes("kcm")
	for i := range writes {
		writes[i] = bySet.Replace(byPod.Replace(writes[i]))
	}
	return writes
}

// TestDeploymentCalls checks the writes, call by call, of what Deployments go through. The conflicts are the real controller's: a
// sync that has written to an object once has not seen its own write when it writes to it again.
func TestDeploymentCalls(t *testing.T) {
	template := func(version string) func(*driver) {
		return func(d *driver) {
			d.patch("Deployment", "web", `{"spec":{"template":{"metadata":{"annotations":{"v":"`+version+`"}}}}}`)
		}
	}
	spec := func(spec string) func(*driver) {
		return func(d *driver) { d.patch("Deployment", "web", `{"spec":`+spec+`}`) }
	}
	remove := func(policy metav1.DeletionPropagation) func(*driver) {
		return func(d *driver) { d.delete("Deployment", "web", policy) }
	}
	type act struct {
		name string
		do   func(d *driver)
	}
	var text strings.Builder
	for _, test := range []struct {
		name       string
		deployment *appsv1.Deployment
		acts       []act
	}{
		{"25%", newDeployment(2), []act{
			{"scale up", spec(`{"replicas":4}`)}, {"scale down", spec(`{"replicas":1}`)}, {"new template", template("2")},
			{"pause, new template", spec(`{"paused":true,"template":{"metadata":{"annotations":{"v":"3"}}}}`)},
			{"resume", spec(`{"paused":false}`)}, {"back to the second template", template("2")},
			{"delete in the foreground", remove(metav1.DeletePropagationForeground)},
		}},
		{"recreate", newDeployment(2, recreates), []act{
			{"new template", template("2")}, {"delete in the background", remove(metav1.DeletePropagationBackground)},
		}},
		{"maxSurge 1, maxUnavailable 0", newDeployment(2, surges(1, 0)), []act{
			{"new template", template("2")}, {"delete, orphan", remove(metav1.DeletePropagationOrphan)},
		}},
	} {
		d := newRolloutDriver(t)
		create := act{"create", func(d *driver) { d.create("Deployment", test.deployment) }}
		for _, act := range append([]act{create}, test.acts...) {
			act.do(d)
			d.settle()
			fmt.Fprintf(&text, "# %s: %s\n", test.name, act.name)
			for _, write := range d.rolloutWrites() {
				fmt.Fprintln(&text, write)
			}
		}
	}
	compareGolden(t, "testdata/deployment-calls.txt", text.String())
}

// compareGolden compares a text with that of a file, which SIM_UPDATE=1 writes.
func compareGolden(t *testing.T, file, text string) {
	t.Helper()
	if os.Getenv("SIM_UPDATE") == "1" {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// refuseWrites returns a function that refuses the first n requests with a verb and kind.
func refuseWrites(verb schedule.Verb, kind string, n int, code int32,
	reason metav1.StatusReason) func(string, *apiserver.Request) *apiserver.Response {
	return func(_ string, r *apiserver.Request) *apiserver.Response {
		if r.Verb != verb || r.Kind.Kind != kind || n == 0 {
			return nil
		}
		n--
		return &apiserver.Response{Code: int(code), Err: newStatusError(code, reason)}
	}
}

// TestDeploymentGivesUp checks that a Deployment whose ReplicaSet cannot be created says so, and is tried 16 times.
func TestDeploymentGivesUp(t *testing.T) {
	d := newRolloutDriver(t)
	d.refuse = refuseWrites(schedule.Create, "ReplicaSet", 100, http.StatusForbidden, metav1.StatusReasonForbidden)
	d.create("Deployment", newDeployment(1))
	d.settle()
	tries := 0
	for _, write := range d.rolloutWrites() {
		if strings.HasPrefix(write, "Create ReplicaSet") {
			tries++
		}
	}
	if tries != 16 {
		t.Errorf("the ReplicaSet was created %d times, want 16", tries)
	}
	status := d.get("Deployment", "web").(*appsv1.Deployment).Status
	if got := deploymentCondition(&status, appsv1.DeploymentProgressing); got == nil || got.Reason != reasonCreateError {
		t.Errorf("condition Progressing is %v, want the reason %s", got, reasonCreateError)
	}
	d.refuse = nil
	d.patch("Deployment", "web", `{"metadata":{"annotations":{"a":"b"}}}`)
	d.settle()
	if got := d.get("Deployment", "web").(*appsv1.Deployment).Status.ReadyReplicas; got != 1 {
		t.Errorf("%d replicas are ready after an event, want 1", got)
	}
}

// TestHashCollision checks that a ReplicaSet of another owner with the name of the Deployment's own makes it take another name.
func TestHashCollision(t *testing.T) {
	d := newRolloutDriver(t)
	defaulted := d.must(d.target("Deployment", "web").create(func() *appsv1.Deployment {
		deployment := newDeployment(0)
		deployment.Namespace = "default"
		return deployment
	}())).(*appsv1.Deployment)
	other := newReplicaSet(defaulted)
	other.OwnerReferences = nil
	other.Spec.Selector.MatchLabels = map[string]string{"app": "other"}
	other.Spec.Template.Labels, other.Labels = map[string]string{"app": "other"}, nil
	d.create("ReplicaSet", other)
	d.settle()
	deployment := d.get("Deployment", "web").(*appsv1.Deployment)
	if got := valueOf(deployment.Status.CollisionCount); got != 1 {
		t.Errorf("collision count is %d, want 1", got)
	}
	if names := d.names("ReplicaSet"); len(names) != 2 {
		t.Errorf("ReplicaSets are %v, want two", names)
	}
}

// TestTemplateHash checks the hash against the name that a real controller gave a ReplicaSet of the same template. It is of the Go
// type of a template, whatever the version of the profile: with libraries of 1.37, where that has a field more, it is another.
func TestTemplateHash(t *testing.T) {
	if _, newer := reflect.TypeFor[storagev1.CSINode]().FieldByName("Status"); newer {
		t.Skip("recorded from v1.36.3, and the libraries are of 1.37")
	}
	d := newRolloutDriver(t)
	d.create("Deployment", newDeployment(1))
	d.settle()
	if got, want := d.names("ReplicaSet"), []string{"web-ff7dcd994"}; !slices.Equal(got, want) {
		t.Errorf("ReplicaSets are %v, want %v", got, want)
	}
}

// TestProportions checks how a Deployment in mid-rollout is scaled.
func TestProportions(t *testing.T) {
	for _, test := range []struct {
		name                    string
		replicas, surge, before int32 // before is the size with its surge that the ReplicaSets know
		sizes, want             []int32
	}{
		{"up", 15, 5, 15, []int32{8, 5}, []int32{13, 7}},
		{"up, the rest to the largest", 20, 3, 13, []int32{6, 4, 3}, []int32{11, 7, 5}},
		{"down", 5, 1, 11, []int32{8, 3}, []int32{4, 2}},
		{"to nothing", 0, 2, 12, []int32{7, 5}, []int32{0, 0}},
		{"not at all", 10, 3, 13, []int32{8, 5}, []int32{8, 5}},
	} {
		t.Run(test.name, func(t *testing.T) {
			deployment := newDeployment(test.replicas, surges(int(test.surge), 1))
			deployment.Spec.Strategy.Type = appsv1.RollingUpdateDeploymentStrategyType
			var sets []*appsv1.ReplicaSet
			for i, size := range test.sizes {
				set := &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Replicas: &size}}
				set.Name = fmt.Sprint("rs", i)
				set.Annotations = map[string]string{maxReplicasAnnotation: fmt.Sprint(test.before)}
				sets = append(sets, set)
			}
			sum := int32(0)
			for i, next := range proportions(deployment, sets) {
				sum += next.size
				if next.size != test.want[i] {
					t.Errorf("%s gets %d, want %d", next.set.Name, next.size, test.want[i])
				}
			}
			if most := test.replicas + test.surge; sum > most {
				t.Errorf("all get %d, want at most %d", sum, most)
			}
		})
	}
}
