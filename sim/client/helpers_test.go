package client_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/client"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

func init() {
	ctrl.SetLogger(logr.Discard()) // a logger that no context carries
}

// repetitions is how often every scenario of this package runs, to see that its history is always the same.
const repetitions = 20

var scheme = func() *apiruntime.Scheme {
	scheme := apiruntime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		panic(err)
	}
	return scheme
}()

// configMap makes a ConfigMap with data and labels of the form "key=value"; labels begin with a colon.
func configMap(name string, pairs ...string) *corev1.ConfigMap {
	cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Data: map[string]string{}}
	for _, pair := range pairs {
		key, value, _ := strings.Cut(pair, "=")
		if label, ok := strings.CutPrefix(key, ":"); ok {
			metav1.SetMetaDataLabel(&cm.ObjectMeta, label, value)
		} else {
			cm.Data[key] = value
		}
	}
	return cm
}

func secret(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

func statefulSet(name string) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: labels}, ServiceName: name,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "main"}}},
			},
		},
	}
}

// newConfig makes a scenario of one process, with a manager that is set up by the function.
func newConfig(setup func(ctrl.Manager) error, given ...apiserver.Object) *sim.Config {
	return &sim.Config{
		Name: "test", Kinds: apiserver.NewKinds(apiserver.V136), Scheme: scheme, Unsettled: true, Given: given,
		Processes: []sim.Process{{Name: "operator", Program: client.Manager(scheme, setup)}},
	}
}

// diary collects what programs saw. Every run starts a new one.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) write(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// at returns the virtual time since the run began.
func at() time.Duration { return time.Since(sim.Epoch) }

// play runs a scenario that writes a diary a number of times, and checks that history and diary are the same each time.
func play(t *testing.T, plan sim.Plan, scenario func(*diary) *sim.Config) (*history.History, []string) {
	t.Helper()
	var first *history.History
	var lines []string
	for n := range repetitions {
		d := &diary{}
		h := run(t, scenario(d), plan)
		if n == 0 {
			first, lines = h, d.lines
			continue
		}
		if h.Hash != first.Hash {
			t.Fatalf("run %d differs from the first one:\n%s", n, firstDifference(first, h))
		}
		if !slices.Equal(d.lines, lines) {
			t.Fatalf("run %d: the program saw %q, before it saw %q", n, d.lines, lines)
		}
	}
	return first, lines
}

// run executes a scenario once.
func run(t *testing.T, config *sim.Config, plan sim.Plan) *history.History {
	t.Helper()
	world, err := sim.NewWorld(config)
	if err != nil {
		t.Fatal(err)
	}
	h, err := world.Run(plan)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// expect checks that the scenario ends at rest and that the program saw these lines.
func expect(t *testing.T, plan sim.Plan, scenario func(*diary) *sim.Config, want ...string) *history.History {
	t.Helper()
	h, lines := play(t, plan, scenario)
	if h.Outcome != history.Terminal {
		t.Errorf("outcome is %s (%s)\n%s", h.Outcome, h.Reason, h.Panic)
	}
	if !slices.Equal(lines, want) {
		t.Errorf("the program saw\n\t%s\nwant\n\t%s", strings.Join(lines, "\n\t"), strings.Join(want, "\n\t"))
	}
	if t.Failed() {
		t.Log(dump(h))
	}
	return h
}

func firstDifference(a, b *history.History) string {
	left, right := strings.Split(dump(a), "\n"), strings.Split(dump(b), "\n")
	for i := range min(len(left), len(right)) {
		if left[i] != right[i] {
			return left[i] + "\n" + right[i]
		}
	}
	return fmt.Sprintf("%d and %d lines", len(left), len(right))
}

// dump returns a history on one line a step.
func dump(h *history.History) string {
	var b strings.Builder
	for i, r := range h.Records {
		fmt.Fprintf(&b, "%3d %14s t%d c%d %s %d %s x%d\n", i, r.At, r.Thread, r.Cause, r.Event, r.Code, r.Message, r.Repeats)
	}
	for _, l := range h.Logs {
		fmt.Fprintf(&b, "%14s %s(%s) %s %v\n", l.At, l.Actor, l.Key, l.Message, l.Values)
	}
	fmt.Fprintf(&b, "%s: %s after %d steps", h.Outcome, h.Reason, h.Steps)
	return b.String()
}

// called returns the events of a verb and kind in a history, as "Verb Kind namespace/name".
func called(h *history.History, verbs ...schedule.Verb) []string {
	var calls []string
	for _, r := range h.Records {
		if slices.Contains(verbs, r.Event.Verb) {
			calls = append(calls, fmt.Sprintf("%s %s", r.Event.Verb, r.Event.Object()))
		}
	}
	return calls
}

// reconciler is a function that reconciles.
type reconciler = func(ctx context.Context, request ctrl.Request) (ctrl.Result, error)

// forConfigMaps sets up a controller of ConfigMaps.
func forConfigMaps(m ctrl.Manager, f reconciler) error {
	return ctrl.NewControllerManagedBy(m).For(&corev1.ConfigMap{}).Complete(reconcile.Func(f))
}

// goroutines returns how many goroutines there are when the dying ones are gone.
func goroutines() int {
	n := runtime.NumGoroutine()
	for range 100 {
		time.Sleep(time.Millisecond)
		now := runtime.NumGoroutine()
		if now >= n {
			break
		}
		n = now
	}
	return n
}
