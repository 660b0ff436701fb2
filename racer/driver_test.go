package racer

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
)

// driver runs racers against an API server without the engine. In its default order caches are fed first, then whoever
// has been ready for longest goes; with a seed any enabled step may be next.
type driver struct {
	t      *testing.T
	server *apiserver.Server
	// namespace is where the test's own objects are; "default" unless it says otherwise.
	namespace string
	now       time.Time
	random    *rand.Rand
	actors    []*driverEnv
	since     int
	calls     []string // "actor verb kind/subresource name -> code", in order
	logs      []string
	commit    time.Time // of the last commit
	seen      map[apiserver.Object]string
	// refuse, if set, answers a request instead of the server.
	refuse func(actor string, r *apiserver.Request) *apiserver.Response
	// after, if set, is called after each request.
	after func(actor string, r *apiserver.Request)
	// breaks, if set, says whether an informer's watch breaks before the event that is pending.
	breaks func() bool
}

func newDriver(t *testing.T, version apiserver.Version) *driver {
	d := &driver{t: t, namespace: "default", now: time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC), seen: map[apiserver.Object]string{}}
	d.server = apiserver.NewServer(apiserver.NewKinds(version), func() time.Time { return d.now })
	t.Cleanup(d.finish)
	return d
}

// finish checks at the end of a run that nobody has changed what he was handed.
func (d *driver) finish() {
	d.t.Helper()
	d.checkUnchanged()
	d.seen = nil
}

// start adds a racer.
func (d *driver) start(name string, racer sim.Racer) *driverEnv {
	env := &driverEnv{d: d, name: name}
	d.actors = append(d.actors, env)
	racer.Start(env)
	for _, informer := range env.informers {
		for _, delta := range informer.view.Sync() {
			informer.deliver(delta)
		}
	}
	return env
}

// stop takes a racer out: it takes no further step.
func (d *driver) stop(env *driverEnv) {
	d.actors = slices.DeleteFunc(d.actors, func(e *driverEnv) bool { return e == env })
}

// quiet is how long nothing must be committed for a run to have settled.
const quiet = time.Hour

// settle runs until nothing is left to do or nothing has been committed for a long time.
func (d *driver) settle() {
	d.t.Helper()
	d.commit = d.now
	for range 50000 {
		if !d.step() {
			return
		}
		if d.now.Sub(d.commit) > quiet {
			return
		}
	}
	d.t.Fatalf("not settled after 50000 steps; last calls:\n%s", strings.Join(d.calls[max(0, len(d.calls)-40):], "\n"))
}

// run takes up to n steps.
func (d *driver) run(n int) {
	for range n {
		if !d.step() {
			return
		}
	}
}

// choice is a step that could be taken.
type choice struct {
	rank, since int
	take        func()
}

func (d *driver) step() bool {
	d.now = d.now.Add(time.Microsecond)
	choices := d.choices()
	if len(choices) == 0 {
		next, ok := d.deadline()
		if !ok {
			return false
		}
		d.now = next
		if choices = d.choices(); len(choices) == 0 {
			return true // a key came due that is being worked on
		}
	}
	slices.SortStableFunc(choices, func(a, b choice) int {
		if a.rank != b.rank {
			return a.rank - b.rank
		}
		return a.since - b.since
	})
	pick := 0
	if d.random != nil {
		pick = d.random.IntN(len(choices))
	}
	choices[pick].take()
	return true
}

func (d *driver) choices() []choice {
	var choices []choice
	for _, env := range d.actors {
		for _, informer := range env.informers {
			if _, ok := informer.view.Pending(); ok && !informer.held {
				choices = append(choices, choice{take: informer.advance})
			}
		}
		for _, queue := range env.queues {
			queue.promote()
			if at := queue.next(); at >= 0 {
				choices = append(choices, choice{1, queue.ready[at].since, func() { queue.dequeue(at) }})
			}
			for _, worker := range queue.working {
				if worker.call != nil {
					choices = append(choices, choice{1, worker.since, func() { worker.do() }})
				}
			}
		}
		for _, timer := range env.timers {
			if !timer.at.After(d.now) {
				choices = append(choices, choice{1, timer.since, func() { env.fire(timer) }})
			}
		}
	}
	return choices
}

func (d *driver) deadline() (next time.Time, ok bool) {
	consider := func(at time.Time) {
		if !ok || at.Before(next) {
			next, ok = at, true
		}
	}
	for _, env := range d.actors {
		for _, timer := range env.timers {
			consider(timer.at)
		}
		for _, queue := range env.queues {
			for _, waiting := range queue.waiting {
				consider(waiting.at)
			}
		}
	}
	return next, ok
}

func (d *driver) stamp() int { d.since++; return d.since }

// do executes a request as an actor.
func (d *driver) do(actor string, r *apiserver.Request) *apiserver.Response {
	name := r.Kind.Kind
	if r.Subresource != "" {
		name += "/" + r.Subresource
	}
	call := fmt.Sprintf("%s %s %s %s", actor, r.Verb, name, r.Name)
	if set, ok := r.Object.(*appsv1.StatefulSet); ok && r.Subresource == "status" {
		call += statusText(&set.Status)
	}
	var resp *apiserver.Response
	if d.refuse != nil {
		resp = d.refuse(actor, r)
	}
	if resp == nil {
		resp = d.server.Do(r)
	}
	d.calls = append(d.calls, fmt.Sprintf("%s -> %d", call, resp.Code))
	if resp.Committed > 0 {
		d.commit = d.now
	}
	d.see(resp.Object)
	for _, item := range resp.Items {
		d.see(item)
	}
	if d.after != nil {
		d.after(actor, r)
	}
	return resp
}

// statusText shows the counters of a status; c=u says that its revisions are equal.
func statusText(s *appsv1.StatefulSetStatus) string {
	text := fmt.Sprintf(" {gen=%d repl=%d ready=%d cur=%d upd=%d", s.ObservedGeneration, s.Replicas, s.ReadyReplicas,
		s.CurrentReplicas, s.UpdatedReplicas)
	if s.CurrentRevision == s.UpdateRevision {
		text += " c=u"
	}
	return text + "}"
}

// see notes how an object looked when an actor was handed it.
func (d *driver) see(obj apiserver.Object) {
	if obj == nil {
		return
	}
	if _, ok := d.seen[obj]; !ok && d.seen != nil {
		d.seen[obj] = encode(d.t, obj)
	}
}

// checkUnchanged fails if an object that an actor was handed has changed since.
func (d *driver) checkUnchanged() {
	d.t.Helper()
	for obj, before := range d.seen {
		if after := encode(d.t, obj); after != before {
			d.t.Errorf("object was changed by who read it:\nbefore %s\nafter  %s", before, after)
		}
	}
}

func encode(t *testing.T, obj any) string {
	t.Helper()
	data, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func (d *driver) kind(name string) *apiserver.Kind { return d.server.Kinds().ByName(name) }

// must makes a request as the test itself, and fails if the server refuses it.
func (d *driver) must(r *apiserver.Request) apiserver.Object {
	d.t.Helper()
	resp := d.do("test", r)
	if resp.Err != nil {
		d.t.Fatalf("%s %s %s: %v", r.Verb, r.Kind.Kind, r.Name, resp.Err)
	}
	return resp.Object
}

func (d *driver) target(kind, name string) target {
	return target{kind: d.kind(kind), namespace: d.namespace, name: name, manager: "test"}
}

func (d *driver) create(kind string, obj apiserver.Object) apiserver.Object {
	d.t.Helper()
	obj.SetNamespace(d.namespace)
	return d.must(d.target(kind, obj.GetName()).create(obj))
}

func (d *driver) patch(kind, name, merge string) apiserver.Object {
	d.t.Helper()
	return d.must(d.target(kind, name).patch(types.MergePatchType, []byte(merge)))
}

func (d *driver) patchStatus(kind, name, merge string) {
	d.t.Helper()
	d.must(d.target(kind, name).patchStatus(types.MergePatchType, []byte(merge)))
}

func (d *driver) delete(kind, name string, policy metav1.DeletionPropagation) {
	d.t.Helper()
	var options metav1.DeleteOptions
	if policy != "" {
		options.PropagationPolicy = &policy
	}
	d.must(d.target(kind, name).delete(options))
}

func (d *driver) get(kind, name string) apiserver.Object {
	return d.server.Get(d.kind(kind), d.namespace, name)
}

func (d *driver) names(kind string) []string {
	var names []string
	for _, obj := range d.server.List(d.kind(kind), d.namespace) {
		names = append(names, obj.GetName())
	}
	return names
}

// writes returns the calls of an actor but its reads, and forgets all calls.
func (d *driver) writes(actor string) []string {
	var writes []string
	for _, call := range d.calls {
		rest, ok := strings.CutPrefix(call, actor+" ")
		if ok && !strings.HasPrefix(rest, "Get ") && !strings.HasPrefix(rest, "List ") {
			writes = append(writes, strings.TrimSuffix(strings.TrimSuffix(rest, " -> 200"), " -> 201"))
		}
	}
	d.calls = nil
	return writes
}

func newStatusError(code int32, reason metav1.StatusReason) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: string(reason)}}
}
