package reactors_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/stalemate-dev/stalemate/reactors"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// The second update of a StatefulSet is carried out, and its answer lost: an operator that takes the error for a failure
// would be wrong.
func ExampleReaction() {
	ctx := context.Background()
	web := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	clientset := fake.NewClientset(web)
	reaction, err := reactors.Reaction(
		schedule.Selector{Verbs: []schedule.Verb{schedule.Update}, Kind: "StatefulSet", Occurrence: 2},
		schedule.Fault{Type: schedule.LostResponse}, clientset.Tracker())
	if err != nil {
		fmt.Println(err)
		return
	}
	clientset.PrependReactor("*", "*", reaction)

	sets := clientset.AppsV1().StatefulSets("default")
	for _, generation := range []int64{1, 2} {
		web.Generation = generation
		_, err := sets.Update(ctx, web, metav1.UpdateOptions{})
		fmt.Println("update:", err)
	}
	stored, err := sets.Get(ctx, "web", metav1.GetOptions{})
	fmt.Println("generation:", stored.Generation, err)
	// Output:
	// update: <nil>
	// update: Put "https://10.96.0.1:443/apis/apps/v1/namespaces/default/statefulsets/web": EOF
	// generation: 2 <nil>
}

func podOf(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

func createPod(ctx context.Context, c *fake.Clientset) error {
	_, err := c.CoreV1().Pods("default").Create(ctx, podOf("new"), metav1.CreateOptions{})
	return err
}

func updatePod(ctx context.Context, c *fake.Clientset) error {
	_, err := c.CoreV1().Pods("default").Update(ctx, podOf("a"), metav1.UpdateOptions{})
	return err
}

// patchPod patches twice: first without a lock, and then with one.
func patchPod(ctx context.Context, c *fake.Clientset) error {
	for _, patch := range []string{`{"metadata":{"labels":{"x":"y"}}}`, `{"metadata":{"labels":{"x":"z"},"resourceVersion":"5"}}`} {
		if _, err := c.CoreV1().Pods("default").Patch(ctx, "a", types.MergePatchType, []byte(patch), metav1.PatchOptions{},
			"status"); err != nil {
			return fmt.Errorf("%s: %w", patch, err)
		}
	}
	return nil
}

func removePod(ctx context.Context, c *fake.Clientset) error {
	return c.CoreV1().Pods("default").Delete(ctx, "a", metav1.DeleteOptions{})
}

func removePodAt(ctx context.Context, c *fake.Clientset) error {
	revision := "5"
	return c.CoreV1().Pods("default").Delete(ctx, "a", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{
		ResourceVersion: &revision}})
}

func listPods(ctx context.Context, c *fake.Clientset) error {
	_, err := c.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
	return err
}

var status = "status"

const modified = `Operation cannot be fulfilled on pods "a": the object has been modified; please apply your changes to the latest ` +
	`version and try again`

// reactions are faults at calls of a fake.
var reactions = []struct {
	name  string
	match schedule.Selector
	fault schedule.Fault
	call  func(context.Context, *fake.Clientset) error
	want  string
	pods  int // that are there afterwards
}{
	{"refused create", schedule.Selector{Kind: "Pod"}, schedule.Fault{Type: schedule.Invalid}, createPod,
		`Pod "new" is invalid: spec: Forbidden: the object is refused by a fault of the simulation`, 1},
	{"create refused at all", schedule.Selector{}, schedule.Fault{Type: schedule.Forbidden}, createPod,
		`pods is forbidden: User "system:serviceaccount:default:default" cannot create resource "pods" in API group "" ` +
			`in the namespace "default"`, 1},
	{"lost create", schedule.Selector{Name: "new"}, schedule.Fault{Type: schedule.LostResponse}, createPod,
		`Post "https://10.96.0.1:443/api/v1/namespaces/default/pods": EOF`, 2},
	{"lost create by a timeout", schedule.Selector{Name: "new"},
		schedule.Fault{Type: schedule.LostResponse, Params: schedule.Params{Means: schedule.RequestTimeout}}, createPod,
		`Timeout: request did not complete within requested timeout - context deadline exceeded`, 2},
	{"create applied twice", schedule.Selector{Kind: "Pod"}, schedule.Fault{Type: schedule.AppliedTwice}, createPod,
		`pods "new" already exists`, 2},
	{"delete applied twice", schedule.Selector{Kind: "Pod"}, schedule.Fault{Type: schedule.AppliedTwice}, removePod,
		`pods "a" not found`, 0},
	{"update applied twice", schedule.Selector{Kind: "Pod"}, schedule.Fault{Type: schedule.AppliedTwice}, updatePod, modified, 1},
	{"conflict of an update", schedule.Selector{Kind: "Pod"}, schedule.Fault{Type: schedule.Conflict}, updatePod, modified, 1},
	{"conflict of a patch", schedule.Selector{Kind: "Pod", Subresource: &status}, schedule.Fault{Type: schedule.Conflict}, patchPod,
		`{"metadata":{"labels":{"x":"z"},"resourceVersion":"5"}}: ` + modified, 1},
	{"conflict of a delete", schedule.Selector{Kind: "Pod"}, schedule.Fault{Type: schedule.Conflict}, removePodAt,
		`Operation cannot be fulfilled on Pod "a": the ResourceVersion in the precondition (5) does not match the ` +
			`ResourceVersion in record (6). The object might have been modified`, 1},
	{"no conflict of a delete without a lock", schedule.Selector{Kind: "Pod"}, schedule.Fault{Type: schedule.Conflict}, removePod, "", 0},
	{"list", schedule.Selector{Verbs: []schedule.Verb{schedule.List}},
		schedule.Fault{Type: schedule.ServiceUnavailable, Params: schedule.Params{RetryAfter: -1}}, listPods,
		`the server is currently unable to handle the request (get pods)`, 1},
	{"another kind", schedule.Selector{Kind: "Secret"}, schedule.Fault{Type: schedule.Invalid}, createPod, "", 2},
	{"another group", schedule.Selector{Kind: "Pod.example.com"}, schedule.Fault{Type: schedule.Forbidden}, removePod, "", 0},
	{"another verb", schedule.Selector{Kind: "Pod"}, schedule.Fault{Type: schedule.NotFound}, listPods, "", 1},
}

// TestReactions checks each verb of a fake with each kind of fault that it can have.
func TestReactions(t *testing.T) {
	for _, test := range reactions {
		t.Run(test.name, func(t *testing.T) {
			clientset := fake.NewClientset(podOf("a"))
			reaction, err := reactors.Reaction(test.match, test.fault, clientset.Tracker())
			if err != nil {
				t.Fatal(err)
			}
			clientset.PrependReactor("*", "*", reaction)
			got := ""
			if err := test.call(t.Context(), clientset); err != nil {
				got = err.Error()
			}
			if got != test.want {
				t.Errorf("the client sees %q, want %q", got, test.want)
			}
			if err := listPods(t.Context(), clientset); err != nil && test.want != "" {
				t.Errorf("it strikes a second time: %v", err)
			}
			pods, err := clientset.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
			if err != nil || len(pods.Items) != test.pods {
				t.Errorf("%d pods are there (%v), want %d", len(pods.Items), err, test.pods)
			}
		})
	}
}

// TestReactionRefuses checks that what a fake cannot do is said, and not left out.
func TestReactionRefuses(t *testing.T) {
	tracker := fake.NewClientset().Tracker()
	for _, faultType := range []schedule.FaultType{schedule.Delay, schedule.Wedge, schedule.Crash, schedule.CacheLag,
		schedule.WatchDrop, schedule.Relist, schedule.LateDelete} {
		_, err := reactors.Reaction(schedule.Selector{}, schedule.Fault{Type: faultType}, tracker)
		if err == nil || !strings.Contains(err.Error(), "a clientset's fake cannot bring it about") {
			t.Errorf("%s: %v", faultType, err)
		}
	}
	tests := []struct {
		name  string
		match schedule.Selector
		fault schedule.Fault
		want  string
	}{
		{"competing write", schedule.Selector{},
			schedule.Fault{Type: schedule.Conflict, Params: schedule.Params{Means: schedule.CompetingWrite}},
			"fault Conflict CompetingWrite at any actor any verb: a clientset's fake cannot bring it about: use the simulated server"},
		{"unknown fault", schedule.Selector{}, schedule.Fault{Type: "Flood"}, `fault "Flood": the type is unknown`},
		{"no tracker", schedule.Selector{}, schedule.Fault{Type: schedule.LostResponse},
			"fault LostResponse: the tracker is nil: give the clientset's, which carries the request out"},
		{"an actor", schedule.Selector{Actor: "operator", Key: "a/b"}, schedule.Fault{Type: schedule.Timeout},
			"match: a clientset's fake knows no actor: leave it out\nmatch: a clientset's fake knows no key: leave it out"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			reaction, err := reactors.Reaction(test.match, test.fault, nil)
			if reaction != nil || err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got %v, want %s", err, test.want)
			}
		})
	}
}

// TestReactionKeepsReasons checks that the errors survive the fake's own wrapping.
func TestReactionKeepsReasons(t *testing.T) {
	clientset := fake.NewClientset()
	reaction, err := reactors.Reaction(schedule.Selector{}, schedule.Fault{Type: schedule.TooManyRequests}, nil)
	if err != nil {
		t.Fatal(err)
	}
	clientset.PrependReactor("get", "pods", reaction)
	_, err = clientset.CoreV1().Pods("default").Get(t.Context(), "a", metav1.GetOptions{})
	if delay, suggested := apierrors.SuggestsClientDelay(err); !apierrors.IsTooManyRequests(err) || !suggested || delay != 1 {
		t.Errorf("got %v", err)
	}
}
