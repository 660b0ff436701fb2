package sim_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/client"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/property"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// twice is a racer that patches the ConfigMap "a" twice in one pass, without a break.
type twice struct {
	kind  *apiserver.Kind
	calls int
}

func (r *twice) Start(env sim.RacerEnv) {
	r.kind = env.Kind("ConfigMap")
	env.Queue("passes", 1, func(string) sim.Task { return r }).AddAfter("pass", time.Minute)
}

func (r *twice) Next(*apiserver.Response) sim.Action {
	r.calls++
	if r.calls > 2 {
		return sim.Done()
	}
	return sim.Call(&apiserver.Request{Verb: schedule.Patch, Kind: r.kind, Namespace: "default", Name: "a",
		PatchType: types.MergePatchType, PatchData: []byte(`{"metadata":{"labels":{"n":"` + string(rune('0'+r.calls)) + `"}}}`)})
}

// heldUpdate is a scenario with an operator that updates "a" once, and a racer that patches it twice a minute later.
func heldUpdate() (config *sim.Config, update, patch schedule.Event) {
	config = newConfig(func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
		if cm.Data != nil {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, set(ctx, c, cm, "x")
	}, configMap("a"))
	config.Racers = []sim.RacerConfig{{Name: "racer", WithScript: true, New: func() sim.Racer { return &twice{} }}}
	update = schedule.Event{Actor: "operator", Incarnation: 1, Key: "default/a", Verb: schedule.Update, Kind: "ConfigMap",
		Namespace: "default", Name: "a", Occurrence: 1}
	patch = schedule.Event{Actor: "racer", Key: "pass", Verb: schedule.Patch, Kind: "ConfigMap", Namespace: "default", Name: "a"}
	return config, update, patch
}

// TestReleasedComesNext checks that a held step comes right after what it waits for: also between two steps of a thread
// that the default order takes without a break.
func TestReleasedComesNext(t *testing.T) {
	for occurrence, want := range map[int]string{
		1: "[racer operator racer]",
		2: "[racer racer operator]",
	} {
		config, update, patch := heldUpdate()
		patch.Occurrence = occurrence
		h := run(t, config, sim.Plan{Constraints: []schedule.Constraint{{Event: update, Waits: patch}}})
		var writers []string
		for _, r := range h.Records {
			if r.Event.Verb.IsWrite() && len(writers) < 3 {
				writers = append(writers, r.Event.Actor)
			}
		}
		if got := fmt.Sprint(writers); got != want {
			t.Errorf("held for patch %d, the writes are by %s, want %s", occurrence, got, want)
		}
	}
}

// written is the property that the operator's update comes within ten seconds.
var written = struct {
	variables   []property.Variable
	definitions []property.Definition
}{
	[]property.Variable{{Name: "cm", Kind: "ConfigMap", Namespace: "default", ObjectName: "a"}},
	[]property.Definition{{Name: "written", Type: property.Eventually, Within: 10 * time.Second,
		Rule: `cm.?data["value"].orValue("") == "x"`}},
}

// TestHoldsSettle checks from when on the span of an Eventually counts: from the end of the last hold, also of one that was
// in vain.
func TestHoldsSettle(t *testing.T) {
	kinds := apiserver.NewKinds(apiserver.V136)
	set, errs := property.Compile(coreKinds{kinds}, written.variables, written.definitions)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	for name, occurrence := range map[string]int{"matched": 2, "in vain": 9} {
		config, update, patch := heldUpdate()
		config.Kinds, config.Properties = kinds, set
		patch.Occurrence = occurrence
		h := run(t, config, sim.Plan{Constraints: []schedule.Constraint{{Event: update, Waits: patch}}})
		if v := h.Verdicts[0]; v.Status != property.Held || v.At < time.Minute {
			t.Errorf("%s: %s is %s at %s, %s", name, v.Property.Name, v.Status, v.At, v.Note)
		}
		if h.Outcome != history.Terminal {
			t.Errorf("%s: the run ended %s: %s", name, h.Outcome, h.Reason)
		}
	}
}

// TestHeldForTheBound checks that a hold in vain lasts for its bound, to the step.
func TestHeldForTheBound(t *testing.T) {
	config, update, _ := heldUpdate()
	config.Limits.Hold = 7 * time.Second
	config.Racers = nil
	standard := run(t, config, sim.Plan{})
	h := run(t, config, sim.Plan{Constraints: []schedule.Constraint{{Event: update, Waits: schedule.Event{Actor: "nobody"}}}})
	at := func(h *history.History) time.Duration { return firstWrite(h).At }
	if late := at(h) - at(standard); late < 7*time.Second || late > 7*time.Second+10*time.Millisecond {
		t.Errorf("the held step is %s late, want 7s", late)
	}
}

// alarm is a racer that sets a timer.
type alarm struct{}

func (alarm) Start(env sim.RacerEnv) { env.After("alarm", time.Second, func() { env.Log("rings") }) }

// TestHeldTimer checks that a timer can be held, and fires when its hold ends.
func TestHeldTimer(t *testing.T) {
	config := newConfig(nil)
	config.Limits.Hold = 7 * time.Second
	config.Processes = nil
	config.Racers = []sim.RacerConfig{{Name: "clock", New: func() sim.Racer { return alarm{} }}}
	event := schedule.Event{Actor: "clock", Verb: schedule.Timer, Name: "alarm", Occurrence: 1}
	h := run(t, config, sim.Plan{Constraints: []schedule.Constraint{{Event: event, Waits: schedule.Event{Actor: "nobody"}}}})
	if len(h.Logs) != 1 || h.Logs[0].At < 8*time.Second || h.Logs[0].At > 8*time.Second+10*time.Millisecond {
		t.Errorf("the log is %+v, want that the alarm rings after 8s", h.Logs)
	}
}

// TestHeldDequeue checks that what a queue hands out goes by the name of its controller, also for constraints.
func TestHeldDequeue(t *testing.T) {
	config := newConfig(nil, configMap("a"), &corev1.Secret{ObjectMeta: configMap("a").ObjectMeta})
	idle := func(sim.Deps) (reconcile.Reconciler, error) {
		return reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) { return ctrl.Result{}, nil }), nil
	}
	config.Processes[0].Program = client.Reconcilers(testScheme,
		client.Reconciler{For: &corev1.ConfigMap{}, New: idle}, client.Reconciler{For: &corev1.Secret{}, New: idle})
	var first, second schedule.Event
	for _, r := range run(t, config, sim.Plan{}).Records {
		if r.Event.Verb == schedule.Dequeue {
			first, second = second, r.Event
		}
	}
	if first.Controller == "" || first.Controller == second.Controller {
		t.Fatalf("keys are handed out as %q and %q, want two controllers", first, second)
	}
	h := run(t, config, sim.Plan{Constraints: []schedule.Constraint{{Event: first, Waits: second}}})
	if !h.Constraints[0].Held || !h.Constraints[0].Matched {
		t.Errorf("the constraint came to %+v, want held and matched", h.Constraints[0])
	}
}

// TestHoldThatIsOver checks that a hold which ended by its bound disturbs nothing when the event it was for comes at last.
func TestHoldThatIsOver(t *testing.T) {
	kinds := apiserver.NewKinds(apiserver.V136)
	labelled := property.Definition{Name: "labelled", Type: property.Eventually, Within: 10 * time.Second,
		Rule: `cm.metadata.?labels["n"].orValue("") != ""`}
	set, errs := property.Compile(coreKinds{kinds}, written.variables, []property.Definition{labelled})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	config, update, patch := heldUpdate()
	config.Kinds, config.Properties, config.Limits.Hold = kinds, set, 7*time.Second
	config.Racers[0].WithScript = false
	patch.Occurrence = 1
	h := run(t, config, sim.Plan{Constraints: []schedule.Constraint{{Event: update, Waits: patch}}})
	if v := h.Verdicts[0]; v.Status != property.Broken || v.At < time.Minute {
		t.Errorf("%s is %s at %s, %s; want it broken, as its span begins when the hold ends", v.Property.Name, v.Status, v.At, v.Note)
	}
}
