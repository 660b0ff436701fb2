package racer

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
	"github.com/stalemate-dev/stalemate/sim/history"
)

// recordedKinds are the kinds whose objects a recording tells of.
var recordedKinds = []string{"StatefulSet", "Deployment", "ReplicaSet", "Pod", "ControllerRevision"}

// member is a racer that plays in a trace.
type member struct {
	name string
	new  func() sim.Racer
}

// controllers returns the controllers that ran when a script was recorded: those of the kinds it creates, and those that take
// part in every deletion.
func controllers(recorded *trace, c cast, audit *audit) []member {
	creates := func(kinds ...string) bool {
		return slices.ContainsFunc(recorded.Script, func(s traceStep) bool {
			return s.created != nil && slices.Contains(kinds, s.created.GetObjectKind().GroupVersionKind().Kind)
		})
	}
	members := []member{
		{"gc", func() sim.Racer { return NewGarbageCollector(GarbageCollectorOptions{}) }},
		{"namespaces", func() sim.Racer { return NewNamespaceController(NamespaceControllerOptions{}) }},
	}
	if creates("StatefulSet") {
		members = append(members, member{"kcm", func() sim.Racer {
			return audit.watch(NewStatefulSetController(StatefulSetControllerOptions{Version: audit.version}))
		}})
	}
	if creates("Deployment", "ReplicaSet") {
		members = append(members, member{"deployments", func() sim.Racer {
			return audit.watch(NewDeploymentController(DeploymentControllerOptions{Version: audit.version, ReplicaSets: !c.scheduler}))
		}})
	}
	if creates("Deployment", "ReplicaSet") && c.scheduler {
		members = append(members, member{"replicasets", func() sim.Racer {
			return audit.watch(NewReplicaSetController(ReplicaSetControllerOptions{}))
		}})
	}
	return members
}

// kubelet returns the options of a cast's kubelet.
func (c cast) kubelet() KubeletOptions {
	return KubeletOptions{Binds: !c.scheduler, WaitsForFinalizers: c.waits}
}

func newTraceScheduler() sim.Racer { return NewScheduler(SchedulerOptions{Nodes: []string{"node1"}}) }

// outcome is how a run of a script ended.
type outcome struct {
	final []traceState
	audit *audit
}

// compare compares what is left with what was recorded.
func (o *outcome) compare(t *testing.T, run string, recorded *trace) {
	t.Helper()
	if diff := cmp.Diff(o.audit.comparable(recorded.Final), o.audit.comparable(o.final)); diff != "" {
		t.Errorf("%s: final state (-recorded +simulated):\n%s", run, diff)
	}
}

// playOnDriver plays a script without the engine and returns what is left.
func playOnDriver(t *testing.T, version apiserver.Version, recorded *trace, c cast, random *rand.Rand) *outcome {
	t.Helper()
	d := newDriver(t, version)
	d.random = random
	final := d.play(recorded, c)
	d.finish()
	return final
}

// play plays a script, checks what must hold in every order and returns what is left.
func (d *driver) play(recorded *trace, c cast) *outcome {
	d.t.Helper()
	d.namespace = traceNamespace
	d.must(d.target("Namespace", traceNamespace).create(newNamespace(traceNamespace)))
	checked := newAudit(d.server.Kinds().Version())
	for _, member := range controllers(recorded, c, checked) {
		d.start(member.name, member.new())
	}
	if c.scheduler {
		d.start("scheduler", newTraceScheduler())
	}
	kubelet := d.start("kubelet", NewKubelet(c.kubelet()))
	for i := range recorded.Script {
		step := &recorded.Script[i]
		switch {
		case step.created != nil:
			d.createInScript(step)
		case step.Patch != nil:
			d.patch(step.Patch.Kind, named(step.Patch.Kind, step.Patch.Name), string(step.Patch.Merge))
		case step.Delete != nil:
			d.delete(step.Delete.Kind, named(step.Delete.Kind, step.Delete.Name), step.Delete.PropagationPolicy)
		case step.Settle:
			d.settle()
		case !*step.Kubelet:
			d.stop(kubelet)
		case !slices.Contains(d.actors, kubelet):
			kubelet = d.start("kubelet", NewKubelet(c.kubelet()))
		}
	}
	d.settle()
	log := func(kind string) []apiserver.Event { return d.server.Log(d.kind(kind)) }
	list := func(kind string) []apiserver.Object { return d.server.List(d.kind(kind), d.namespace) }
	checked.checkLog(log)
	checked.report(d.t)
	return &outcome{finalState(log, list), checked}
}

func (d *driver) createInScript(step *traceStep) {
	d.t.Helper()
	for {
		object := step.created.DeepCopyObject().(apiserver.Object)
		kind := d.server.Kinds().Of(object)
		request := d.target(kind.Name(), object.GetName()).create(object)
		request.Namespace = object.GetNamespace()
		err := failure(d.do("test", request))
		if err == nil {
			return
		}
		if step.RetryWhile == "" || apierrors.ReasonForError(err) != step.RetryWhile {
			d.t.Fatalf("create: %v", err)
		}
		d.run(1)
	}
}

// phase is the virtual time a script leaves the controllers to settle. A random walk holds single calls back for up to
// about a minute.
const phase = 2 * time.Hour

// playOnEngine plays a script on the engine and returns what is left.
func playOnEngine(t *testing.T, version apiserver.Version, recorded *trace, c cast, plan sim.Plan) *outcome {
	t.Helper()
	var seen *witness
	checked := newAudit(version)
	world, err := sim.NewWorld(traceConfig(recorded, c, checked, func() sim.Racer {
		seen = &witness{}
		return seen
	}))
	if err != nil {
		t.Fatal(err)
	}
	run, err := world.Run(plan)
	if err != nil {
		t.Fatal(err)
	}
	if run.Outcome != history.Terminal {
		t.Errorf("seed %d: the run is %s: %s", plan.Seed, run.Outcome, run.Reason)
	}
	for _, problem := range run.Problems {
		t.Errorf("seed %d: %s", plan.Seed, problem)
	}
	checked.checkLog(seen.log)
	checked.report(t)
	return &outcome{finalState(seen.log, seen.list), checked}
}

// traceConfig returns the scenario that a script makes.
func traceConfig(recorded *trace, c cast, audit *audit, witness func() sim.Racer) *sim.Config {
	var user UserOptions
	var switches []time.Duration
	at, running := time.Duration(0), true
	for _, step := range recorded.Script {
		switch {
		case step.Settle:
			at += phase
		case step.Kubelet != nil && *step.Kubelet != running:
			running = *step.Kubelet
			switches = append(switches, at)
		case step.Kubelet == nil:
			user.Steps = append(user.Steps, step.asUser(at))
		}
	}
	config := &sim.Config{
		Name: "trace", Kinds: apiserver.NewKinds(audit.version), Unsettled: true,
		Given:  []apiserver.Object{newNamespace(traceNamespace)},
		Limits: sim.Limits{Steps: 100_000, VirtualTime: 100 * time.Hour},
		Racers: []sim.RacerConfig{{Name: "witness", New: witness}},
	}
	add := func(name string, make func() sim.Racer) {
		config.Racers = append(config.Racers, sim.RacerConfig{Name: name, New: make})
	}
	for _, member := range controllers(recorded, c, audit) {
		add(member.name, member.new)
	}
	if c.scheduler {
		add("scheduler", newTraceScheduler)
	}
	add("kubelet", func() sim.Racer { return &interrupted{Racer: NewKubelet(c.kubelet()), switches: switches} })
	config.Racers = append(config.Racers, sim.RacerConfig{Name: "user", WithScript: true, New: func() sim.Racer { return NewUser(user) }})
	return config
}

func (s *traceStep) asUser(at time.Duration) UserStep {
	step := UserStep{At: at, RetryWhile: s.RetryWhile}
	switch {
	case s.created != nil:
		step.Create = &UserCreate{Kind: s.created.GetObjectKind().GroupVersionKind().Kind, Object: s.created}
	case s.Patch != nil:
		step.Patch = &UserPatch{
			Kind: s.Patch.Kind, Namespace: traceNamespace, Name: named(s.Patch.Kind, s.Patch.Name), Type: types.MergePatchType, Data: s.Patch.Merge,
		}
		if s.Patch.Kind == "Namespace" {
			step.Patch.Namespace = ""
		}
	default:
		step.Delete = &UserDelete{Kind: s.Delete.Kind, Namespace: traceNamespace, Name: named(s.Delete.Kind, s.Delete.Name)}
		if s.Delete.Kind == "Namespace" {
			step.Delete.Namespace = ""
		}
		if policy := s.Delete.PropagationPolicy; policy != "" {
			step.Delete.Options.PropagationPolicy = &policy
		}
	}
	return step
}

// interrupted is a racer that stands still from each odd of its switches to the next: it begins no pass, and makes up for
// those when it goes on.
type interrupted struct {
	sim.Racer
	switches []time.Duration
}

func (i *interrupted) Start(env sim.RacerEnv) {
	wrapped := &interruptedEnv{RacerEnv: env, began: env.Now(), switches: i.switches}
	for at, moment := range i.switches {
		if at%2 == 1 {
			env.After("again", moment, wrapped.resume)
		}
	}
	i.Racer.Start(wrapped)
}

type interruptedEnv struct {
	sim.RacerEnv
	began    time.Time
	switches []time.Duration
	missed   []func()
}

func (e *interruptedEnv) still() bool {
	passed := 0
	for _, moment := range e.switches {
		if e.Now().Sub(e.began) >= moment {
			passed++
		}
	}
	return passed%2 == 1
}

func (e *interruptedEnv) resume() {
	missed := e.missed
	e.missed = nil
	for _, add := range missed {
		add()
	}
}

func (e *interruptedEnv) Queue(name string, workers int, begin func(key string) sim.Task) sim.RacerQueue {
	var queue sim.RacerQueue
	queue = e.RacerEnv.Queue(name, workers, func(key string) sim.Task {
		if e.still() {
			e.missed = append(e.missed, func() { queue.Add(key) })
			return idle{}
		}
		return begin(key)
	})
	return queue
}

// idle is a pass that does nothing.
type idle struct{}

func (idle) Next(*apiserver.Response) sim.Action { return sim.Done() }

// witness is a racer that does nothing but look.
type witness struct {
	views  map[string]*cache.View
	events map[string][]apiserver.Event
}

func (w *witness) Start(env sim.RacerEnv) {
	w.views, w.events = map[string]*cache.View{}, map[string][]apiserver.Event{}
	for _, kind := range recordedKinds {
		w.views[kind] = env.Informer(env.Kind(kind), func(d cache.Delta) {
			w.events[kind] = append(w.events[kind], apiserver.Event{Type: d.Type, Object: d.Object, Prev: d.Old})
		})
	}
}

func (w *witness) log(kind string) []apiserver.Event { return w.events[kind] }

func (w *witness) list(kind string) []apiserver.Object {
	return w.views[kind].List(traceNamespace)
}
