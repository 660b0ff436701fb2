package sim_test

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/client"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

var testScheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		panic(err)
	}
	return scheme
}()

// reconcileFunc is a reconciler of ConfigMaps for a test.
type reconcileFunc func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error)

// program runs the function on every ConfigMap, on live reads.
func program(f reconcileFunc) sim.Program {
	return client.Reconcilers(testScheme, client.Reconciler{
		For: &corev1.ConfigMap{},
		New: func(deps sim.Deps) (reconcile.Reconciler, error) {
			return reconcile.Func(func(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
				cm := &corev1.ConfigMap{}
				if err := deps.Live.Get(ctx, request.NamespacedName, cm); err != nil {
					return ctrl.Result{}, ctrlclient.IgnoreNotFound(err)
				}
				return f(ctx, deps.Live, cm)
			}), nil
		},
	})
}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

func newConfig(f reconcileFunc, given ...apiserver.Object) *sim.Config {
	return &sim.Config{
		Name: "test", Kinds: apiserver.NewKinds(apiserver.V136), Scheme: testScheme, Unsettled: true, Given: given,
		Processes: []sim.Process{{Name: "operator", Program: program(f)}},
	}
}

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

// set writes a value into a ConfigMap.
func set(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap, value string) error {
	cm.Data = map[string]string{"value": value}
	return c.Update(ctx, cm)
}

// value returns the value that the ConfigMap was last written with.
func value(h *history.History) string {
	last := ""
	for _, r := range h.Records {
		if cm, ok := r.After.(*corev1.ConfigMap); ok && r.Committed != 0 {
			last = cm.Data["value"]
		}
	}
	return last
}

// horizonTest is an operator, and how a run of it is to end.
type horizonTest struct {
	name    string
	f       reconcileFunc
	outcome history.Outcome
	value   string // of the ConfigMap at the end of a terminal run
}

// TestHorizon checks that a terminal state is told from one that will still change, whatever keeps the operator busy.
func TestHorizon(t *testing.T) {
	for _, test := range slices.Concat(quietOperators, busyOperators, lateOperators) {
		t.Run(test.name, func(t *testing.T) {
			config := newConfig(test.f, configMap("a"), lock)
			config.Limits.Steps = 3000
			h := run(t, config, sim.Plan{})
			if h.Outcome != test.outcome {
				t.Fatalf("outcome is %s (%s), want %s", h.Outcome, h.Reason, test.outcome)
			}
			if test.outcome == history.Terminal && value(h) != test.value {
				t.Errorf("value is %q at the end, want %q", value(h), test.value)
			}
		})
	}
}

var lock = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "lock"}}

// quietOperators do nothing that counts, again and again.
var quietOperators = []horizonTest{
	{"at rest", func(context.Context, ctrlclient.Client, *corev1.ConfigMap) (ctrl.Result, error) {
		return ctrl.Result{}, nil
	}, history.Terminal, ""},
	{"requeues for ever", func(context.Context, ctrlclient.Client, *corev1.ConfigMap) (ctrl.Result, error) {
		return ctrl.Result{RequeueAfter: 30 * time.Second}, nil
	}, history.Terminal, ""},
	{"requeues every second for ever", func(context.Context, ctrlclient.Client, *corev1.ConfigMap) (ctrl.Result, error) {
		return ctrl.Result{RequeueAfter: time.Second}, nil
	}, history.Terminal, ""},
	{"fails for ever", func(context.Context, ctrlclient.Client, *corev1.ConfigMap) (ctrl.Result, error) {
		return ctrl.Result{}, errors.New("no")
	}, history.Terminal, ""},
	{"polls for ever in a pass", func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
		for cm.Data == nil {
			time.Sleep(time.Minute)
			if err := c.Get(ctx, ctrlclient.ObjectKeyFromObject(cm), cm); err != nil {
				return ctrl.Result{}, err
			}
		}
		return ctrl.Result{}, nil
	}, history.Terminal, ""},
	{"holds a lease", func(ctx context.Context, c ctrlclient.Client, _ *corev1.ConfigMap) (ctrl.Result, error) {
		held := &coordinationv1.Lease{}
		if err := c.Get(ctx, ctrlclient.ObjectKeyFromObject(lock), held); err != nil {
			return ctrl.Result{}, err
		}
		holder := "me" + strconv.Itoa(int(time.Now().Unix()))
		held.Spec.HolderIdentity = &holder
		return ctrl.Result{RequeueAfter: 2 * time.Second}, c.Update(ctx, held)
	}, history.Terminal, ""},
	{"swallows an error and never comes back",
		func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
			cm.ResourceVersion = "1"
			_ = set(ctx, c, cm, "lost")
			return ctrl.Result{}, nil
		}, history.Terminal, ""},
}

// busyOperators never come to rest.
var busyOperators = []horizonTest{
	{"goes back and forth", func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
		if cm.Data["value"] == "on" {
			return ctrl.Result{}, set(ctx, c, cm, "off")
		}
		return ctrl.Result{}, set(ctx, c, cm, "on")
	}, history.Livelock, ""},
	{"never ends", func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
		return ctrl.Result{}, set(ctx, c, cm, cm.Data["value"]+"x")
	}, history.Inconclusive, ""},
}

// lateOperators do what counts late.
var lateOperators = []horizonTest{
	{"acts after a long requeue", func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
		if time.Since(sim.Epoch) < 40*time.Minute {
			return ctrl.Result{RequeueAfter: 40 * time.Minute}, nil
		}
		if cm.Data != nil {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, set(ctx, c, cm, "late")
	}, history.Terminal, "late"},
	{"acts after many requeues", func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
		if time.Since(sim.Epoch) < 25*time.Minute {
			return ctrl.Result{RequeueAfter: 10 * time.Second}, nil
		}
		if cm.Data != nil {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, set(ctx, c, cm, "late")
	}, history.Terminal, "late"},
	{"acts after many errors", func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
		if cm.Data != nil {
			return ctrl.Result{}, nil
		}
		if time.Since(sim.Epoch) < 15*time.Minute {
			return ctrl.Result{}, errors.New("not yet")
		}
		return ctrl.Result{}, set(ctx, c, cm, "late")
	}, history.Terminal, "late"},
	{"acts after a long sleep in its pass",
		func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
			if cm.Data != nil {
				return ctrl.Result{}, nil
			}
			time.Sleep(40 * time.Minute)
			return ctrl.Result{}, set(ctx, c, cm, "late")
		}, history.Terminal, "late"},
}

func TestPanicIsAFinding(t *testing.T) {
	h := run(t, newConfig(func(context.Context, ctrlclient.Client, *corev1.ConfigMap) (ctrl.Result, error) {
		var nothing *corev1.Pod
		return ctrl.Result{}, errors.New(nothing.Name)
	}, configMap("a")), sim.Plan{})
	if h.Outcome != history.Panicked || !h.Failed() {
		t.Errorf("outcome is %s, want %s", h.Outcome, history.Panicked)
	}
	if regexp.MustCompile(`0x[0-9a-f]|goroutine \d`).MatchString(h.Panic) {
		t.Errorf("panic has addresses or numbers that differ from run to run:\n%s", h.Panic)
	}
	if !strings.Contains(h.Panic, "nil pointer dereference") || !strings.Contains(h.Panic, "TestPanicIsAFinding") {
		t.Errorf("panic lacks its value or its stack:\n%s", h.Panic)
	}
}

// TestStuck checks that the watchdog names the goroutine that waits for a lock which another one holds across a call.
func TestStuck(t *testing.T) {
	var mu sync.Mutex
	config := newConfig(func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		return ctrl.Result{}, c.Get(ctx, ctrlclient.ObjectKeyFromObject(cm), cm)
	}, configMap("a"))
	config.Processes = append(config.Processes, sim.Process{Name: "second", Program: config.Processes[0].Program})
	config.Limits.Stuck = 300 * time.Millisecond
	world, err := sim.NewWorld(config)
	if err != nil {
		t.Fatal(err)
	}
	// The first process is held in the middle of its call, with the lock, until the second, which wants the lock, has made one.
	get := schedule.Event{Actor: "operator", Incarnation: 1, Key: "default/a", Verb: schedule.Get, Kind: "ConfigMap",
		Namespace: "default", Name: "a", Occurrence: 2}
	other := get
	other.Actor = "second"
	_, err = world.Run(sim.Plan{Constraints: []schedule.Constraint{{Event: get, Waits: other}}})
	var stuck *sim.StuckError
	if !errors.As(err, &stuck) {
		t.Fatalf("error is %v, want a StuckError", err)
	}
	if len(stuck.Goroutines) != 1 || !strings.Contains(stuck.Goroutines[0], "sync.Mutex.Lock") ||
		!strings.Contains(stuck.Goroutines[0], "sim_test.TestStuck") {
		t.Errorf("goroutines are %q, want the one that waits for the lock in TestStuck", stuck.Goroutines)
	}
}

// TestConstraint checks that a held step waits for what it is to wait for, and not for ever.
func TestConstraint(t *testing.T) {
	write := func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
		if cm.Data != nil {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, set(ctx, c, cm, cm.Name)
	}
	config := newConfig(write, configMap("a"), configMap("b"))
	event := func(name string) schedule.Event {
		return schedule.Event{Actor: "operator", Incarnation: 1, Key: "default/" + name, Verb: schedule.Update,
			Kind: "ConfigMap", Namespace: "default", Name: name, Occurrence: 1}
	}
	other := config.Processes[0]
	other.Name = "other"
	config.Processes = append(config.Processes, other)
	held := event("a")
	waits := event("a")
	waits.Actor = "other"

	h := run(t, config, sim.Plan{Constraints: []schedule.Constraint{{Event: held, Waits: waits}}})
	if c := h.Constraints[0]; !c.Held || !c.Matched {
		t.Errorf("constraint: held %v, matched %v; want both", c.Held, c.Matched)
	}
	if first := firstWrite(h); first.Event != waits {
		t.Errorf("first write is %s, want %s", first.Event, waits)
	}

	waits.Occurrence = 9
	h = run(t, config, sim.Plan{Constraints: []schedule.Constraint{{Event: held, Waits: waits}}})
	if c := h.Constraints[0]; !c.Held || c.Matched {
		t.Errorf("constraint on what never happens: held %v, matched %v; want held only", c.Held, c.Matched)
	}
	if h.Outcome != history.Terminal || h.End < 2*time.Minute {
		t.Errorf("run ended %s after %s, want it terminal, and later than the bound on holds", h.Outcome, h.End)
	}
}

func firstWrite(h *history.History) history.Record {
	for _, r := range h.Records {
		if r.Event.Verb.IsWrite() && r.Event.Name == "a" {
			return r
		}
	}
	return history.Record{}
}
