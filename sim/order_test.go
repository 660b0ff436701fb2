package sim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlclient "sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/stalemate-dev/stalemate/racer"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/history"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// updates and patches select the operator's updates and the racer's patches in the scenario of heldUpdate.
var (
	updates = schedule.Selector{Actor: "operator", Verbs: []schedule.Verb{schedule.Update}}
	patches = schedule.Selector{Actor: "racer", Verbs: []schedule.Verb{schedule.Patch}}
)

// nth returns the selector of the n-th occurrence.
func nth(s schedule.Selector, n int) schedule.Selector {
	s.Occurrence = n
	return s
}

// writers3 returns who made the first three writes of a run.
func writers3(h *history.History) string {
	var writers []string
	for _, r := range h.Records {
		if r.Event.Verb.IsWrite() && len(writers) < 3 {
			writers = append(writers, r.Event.Actor)
		}
	}
	return strings.Join(writers, " ")
}

// TestOrderBySelectors checks that an order comes to the same run as the names it finds, and tells them.
func TestOrderBySelectors(t *testing.T) {
	tests := []struct {
		name  string
		order schedule.Order
		waits int // the patch it waits for, zero if the order finds nothing to hold or to wait for
		want  string
	}{
		{"first of each", schedule.Order{Hold: updates, Until: patches}, 1, "racer operator racer"},
		{"twice", schedule.Order{Hold: updates, Until: patches, Times: 2}, 2, "racer racer operator"},
		{"the second", schedule.Order{Hold: updates, Until: nth(patches, 2)}, 2, "racer racer operator"},
		{"the first update", schedule.Order{Hold: nth(updates, 1), Until: patches}, 1, "racer operator racer"},
		{"no second update", schedule.Order{Hold: nth(updates, 2), Until: patches}, 0, "operator racer racer"},
		{"too often", schedule.Order{Hold: updates, Until: patches, Times: 3}, 0, "racer racer operator"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			config, update, patch := heldUpdate()
			h := run(t, config, sim.Plan{Constraints: []schedule.Constraint{{Order: &test.order}}})
			if got := writers3(h); got != test.want {
				t.Errorf("the writes are by %s, want %s", got, test.want)
			}
			c := h.Constraints[0]
			if c.Order != &test.order {
				t.Errorf("the constraint is %+v, without its order", c)
			}
			if patch.Occurrence = test.waits; test.waits == 0 {
				if c.Matched {
					t.Errorf("the constraint came to %+v, want it unmatched", c)
				}
				return
			}
			if !c.Held || !c.Matched || c.Event != update || c.Waits != patch {
				t.Errorf("the constraint came to %+v", c)
			}
			named := run(t, config, sim.Plan{Constraints: []schedule.Constraint{{Event: c.Event, Waits: c.Waits}}})
			if named.Hash != h.Hash {
				t.Errorf("by names the run has hash %x, want %x", named.Hash, h.Hash)
			}
		})
	}
}

// patcher is a racer that patches the ConfigMap "a" at times of its own.
type patcher struct{ times []time.Duration }

func (p *patcher) Start(env sim.RacerEnv) {
	queue := env.Queue("passes", 1, func(key string) sim.Task { return &patching{env.Kind("ConfigMap"), key} })
	for _, at := range p.times {
		queue.AddAfter(at.String(), at)
	}
}

// patching is one pass of a patcher.
type patching struct {
	kind  *apiserver.Kind
	label string // empty when it is done
}

func (p *patching) Next(*apiserver.Response) sim.Action {
	label := p.label
	if label == "" {
		return sim.Done()
	}
	p.label = ""
	return sim.Call(&apiserver.Request{Verb: schedule.Patch, Kind: p.kind, Namespace: "default", Name: "a",
		PatchType: types.MergePatchType, PatchData: []byte(`{"metadata":{"labels":{"n":"` + label + `"}}}`)})
}

// TestBetween checks that a between counts pairs of a read and the write that rests on it, and what it waits for only from
// the read on.
func TestBetween(t *testing.T) {
	for pair, want := range map[int]string{
		1: "racer at 500ms, operator #1 refused, operator #2 done, operator #3 done",
		2: "operator #1 done, racer at 500ms, racer at 10s, operator #2 refused",
	} {
		config := newConfig(func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
			if n := len(cm.Data["value"]); n == 2 || n == 1 && cm.Labels == nil {
				return ctrl.Result{}, nil
			}
			return ctrl.Result{}, set(ctx, c, cm, cm.Data["value"]+"x")
		}, configMap("a"))
		config.Racers = []sim.RacerConfig{{Name: "racer", New: func() sim.Racer {
			return &patcher{times: []time.Duration{500 * time.Millisecond, 10 * time.Second}}
		}}}
		h := run(t, config, sim.Plan{Constraints: []schedule.Constraint{{Order: &schedule.Order{
			Hold: nth(updates, pair), From: schedule.Get, Until: patches}}}})
		if c := h.Constraints[0]; !c.Held || !c.Matched || c.Event.Occurrence != pair || c.Waits.Actor != "racer" {
			t.Errorf("pair %d: the constraint came to %+v", pair, c)
		}
		var writes []string
		for _, r := range h.Records {
			switch {
			case !r.Event.Verb.IsWrite():
			case r.Event.Actor == "racer":
				writes = append(writes, "racer at "+r.At.Round(100*time.Millisecond).String())
			case r.Code == 409:
				writes = append(writes, fmt.Sprintf("operator #%d refused", r.Event.Occurrence))
			default:
				writes = append(writes, fmt.Sprintf("operator #%d done", r.Event.Occurrence))
			}
		}
		if got := strings.Join(writes, ", "); !strings.HasPrefix(got, want) {
			t.Errorf("pair %d: the writes are %s, want %s", pair, got, want)
		}
	}
}

// TestReturn checks that the way back of a response may be held, and waited for: the commit takes place all the same.
func TestReturn(t *testing.T) {
	config, update, patch := heldUpdate()
	patch.Occurrence = 1
	back := update
	back.Return = true
	plain := run(t, config, sim.Plan{})
	if slices.ContainsFunc(plain.Records, func(r history.Record) bool { return r.Event.Return }) {
		t.Error("a response comes back as a step of its own, though nothing names it")
	}

	// Everything the operator does after its update comes after the patch.
	h := run(t, config, sim.Plan{Constraints: []schedule.Constraint{{Event: back, Waits: patch}}})
	at := func(h *history.History, e schedule.Event) int {
		return slices.IndexFunc(h.Records, func(r history.Record) bool { return r.Event == e })
	}
	committed, patched, returned := at(h, update), at(h, patch), at(h, back)
	keepsCachesFresh := func(r history.Record) bool {
		return r.Event.Verb == schedule.Deliver || r.Event.Verb == schedule.Handle
	}
	if committed < 0 || committed > patched || returned < patched || !h.Constraints[0].Held || !h.Constraints[0].Matched ||
		slices.ContainsFunc(h.Records[patched+1:returned], func(r history.Record) bool { return !keepsCachesFresh(r) }) {
		t.Errorf("the update is record %d, the patch %d, the way back %d, the constraint %+v", committed, patched, returned,
			h.Constraints[0])
	}
	if held := h.Records[returned].Held; held < 59*time.Second {
		t.Errorf("the response is held for %s, want a minute", held)
	}
	if h.Hash == plain.Hash {
		t.Error("the hash is the same")
	}

	// By selectors it is the same.
	returns := updates
	returns.Return = true
	selected := run(t, config, sim.Plan{Constraints: []schedule.Constraint{{Order: &schedule.Order{Hold: returns, Until: patches}}}})
	if selected.Hash != h.Hash || selected.Constraints[0].Event != back {
		t.Errorf("by selectors the run has hash %x, want %x; %+v", selected.Hash, h.Hash, selected.Constraints[0])
	}

	// A racer's response, and one that is waited for.
	second, patchBack := patch, patch
	second.Occurrence, patchBack.Return = 2, true
	h = run(t, config, sim.Plan{Constraints: []schedule.Constraint{{Event: patchBack, Waits: schedule.Event{Actor: "nobody"}}}})
	if first, next := at(h, patch), at(h, second); h.Records[next].At-h.Records[first].At < 120*time.Second {
		t.Errorf("the racer goes on at %s, after its patch at %s; want its response held", h.Records[next].At, h.Records[first].At)
	}
	h = run(t, config, sim.Plan{Constraints: []schedule.Constraint{{Event: update, Waits: patchBack}}})
	if update, back := at(h, update), at(h, patchBack); back < 0 || update < back || update > at(h, second) || !h.Constraints[0].Matched {
		t.Errorf("the update is record %d, after the way back in %d", update, back)
	}
}

// TestReturnTooLate checks that a call whose context ends before its response is back has an error, and has been carried out.
func TestReturnTooLate(t *testing.T) {
	var failure error
	config := newConfig(func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
		if cm.Data != nil {
			return ctrl.Result{}, nil
		}
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		failure = set(short, c, cm, "x")
		return ctrl.Result{}, nil
	}, configMap("a"))
	returns := updates
	returns.Return = true
	h := run(t, config, sim.Plan{Constraints: []schedule.Constraint{
		{Order: &schedule.Order{Hold: returns, Until: schedule.Selector{Actor: "nobody"}}}}})
	if !errors.Is(failure, context.DeadlineExceeded) || value(h) != "x" {
		t.Errorf("the call's error is %v and the value %q, want that it was carried out and has no answer", failure, value(h))
	}
	if c := h.Constraints[0]; !c.Held || c.Matched {
		t.Errorf("the constraint came to %+v", c)
	}
}

// TestLatencies checks that a named step is late by its span, once: a request, a poll that is not the first of its name, and
// a timer.
func TestLatencies(t *testing.T) {
	config, update, _ := heldUpdate()
	update.Incarnation = 0 // as a file has it
	late := func(h *history.History) time.Duration { return firstWrite(h).At }
	plain := late(run(t, config, sim.Plan{}))
	h := run(t, config, sim.Plan{Latencies: []schedule.Latency{{At: update, For: 7 * time.Second}}})
	if got := late(h) - plain; got < 7*time.Second || got > 7*time.Second+time.Millisecond {
		t.Errorf("the update is %s late, want 7s", got)
	}

	polls := newConfig(func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
		for range 3 {
			time.Sleep(time.Second)
			if err := c.Get(ctx, ctrlclient.ObjectKeyFromObject(cm), cm); err != nil {
				return ctrl.Result{}, err
			}
		}
		return ctrl.Result{}, nil
	}, configMap("a"))
	get := update
	get.Verb = schedule.Get
	last := func(h *history.History) time.Duration {
		i := slices.IndexFunc(h.Records, func(r history.Record) bool { return r.Event.Verb == schedule.Get })
		return h.Records[i].LastAt
	}
	want := last(run(t, polls, sim.Plan{})) + 7*time.Second
	for repeat := range 4 {
		h := run(t, polls, sim.Plan{Latencies: []schedule.Latency{{At: get, Repeat: repeat, For: 7 * time.Second}}})
		if got := last(h) - want; got < 0 || got > time.Millisecond {
			t.Errorf("with read %d late the last one is at %s, want %s", repeat, last(h), want)
		}
	}

	clock := newConfig(nil)
	clock.Processes = nil
	clock.Racers = []sim.RacerConfig{{Name: "clock", New: func() sim.Racer { return alarm{} }}}
	rings := schedule.Event{Actor: "clock", Verb: schedule.Timer, Name: "alarm", Occurrence: 1}
	h = run(t, clock, sim.Plan{Latencies: []schedule.Latency{{At: rings, For: 3 * time.Second}}})
	if len(h.Logs) != 1 || h.Logs[0].At < 4*time.Second || h.Logs[0].At > 4*time.Second+time.Millisecond || len(h.Constraints) != 0 {
		t.Errorf("the log is %+v, want that the alarm rings after 4s; constraints %v", h.Logs, h.Constraints)
	}
}

// TestSkip checks that a run leaves out steps of the script.
func TestSkip(t *testing.T) {
	config := newConfig(nil)
	config.Processes = nil
	create := func(name string) racer.UserStep {
		return racer.UserStep{Create: &racer.UserCreate{Kind: "ConfigMap", Object: configMap(name)}}
	}
	user := func() sim.Racer {
		return racer.NewUser(racer.UserOptions{Steps: []racer.UserStep{create("a"), create("b"), create("c")}})
	}
	config.Racers = []sim.RacerConfig{{Name: "user", WithScript: true, New: user}, {Name: "cluster", New: user}}
	h := run(t, config, sim.Plan{Skip: []int{0, 2}})
	var made []string
	for _, r := range h.Records {
		if r.Event.Verb == schedule.Create && r.Event.Actor == "user" {
			made = append(made, r.Event.Name)
		}
	}
	if !slices.Equal(made, []string{"b"}) || len(h.Unfinished) != 0 {
		t.Errorf("the user created %v, want b; unfinished: %v", made, h.Unfinished)
	}
	if !slices.ContainsFunc(h.Records, func(r history.Record) bool { return r.Event.Actor == "cluster" && r.Event.Name == "c" }) {
		t.Error("a racer that is not of the script left out a step")
	}
}

// TestLockInPatch checks that a patch with a resourceVersion carries it.
func TestLockInPatch(t *testing.T) {
	for name, patch := range map[string]ctrlclient.Patch{
		"merge": ctrlclient.MergeFromWithOptions(configMap("a"), ctrlclient.MergeFromWithOptimisticLock{}),
		"raw":   ctrlclient.RawPatch(types.StrategicMergePatchType, []byte(`{"metadata":{"labels":{"resourceVersion":"5"}}}`)),
	} {
		config := newConfig(func(ctx context.Context, c ctrlclient.Client, cm *corev1.ConfigMap) (ctrl.Result, error) {
			if cm.Labels != nil {
				return ctrl.Result{}, nil
			}
			if name == "merge" {
				patch = ctrlclient.MergeFromWithOptions(cm.DeepCopy(), ctrlclient.MergeFromWithOptimisticLock{})
			}
			cm.Labels = map[string]string{"resourceVersion": "5"}
			return ctrl.Result{}, c.Patch(ctx, cm, patch)
		}, configMap("a"))
		h := run(t, config, sim.Plan{})
		w := firstWrite(h)
		if locked := w.Carried != 0 && w.ReadsFrom >= 0; locked != (name == "merge") {
			t.Errorf("%s: the patch carries %d and rests on record %d", name, w.Carried, w.ReadsFrom)
		}
	}
}

// BenchmarkConstraints measures a run under many constraints.
func BenchmarkConstraints(b *testing.B) {
	config := writers()
	world, err := sim.NewWorld(config)
	if err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{0, 100} {
		var constraints []schedule.Constraint
		for i := range n {
			constraints = append(constraints, schedule.Constraint{
				Event: schedule.Event{Actor: "nobody", Verb: schedule.Get, Occurrence: i + 1},
				Waits: schedule.Event{Actor: "nobody", Verb: schedule.Update, Occurrence: i + 1}})
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, err := world.Run(sim.Plan{Constraints: constraints}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
