package sim

import (
	"cmp"
	"context"

	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/cache"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// informer is a view that an actor follows: its cursor moves when the engine grants it.
type informer struct {
	local

	event  schedule.Event // of the next step, without its occurrence
	thread *thread
	view   *cache.View
	// namespace is the one it is restricted to, empty for all.
	namespace string
	stopped   bool // guarded by engine.mu
	number    uint64
	watch     disturbance
	// unwatched says that its reflector may list but not watch.
	unwatched bool

	handle        func(cache.Delta) // of a racer
	registrations []*registration   // of a process
}

// newInformer makes an informer without its initial list.
func (e *engine) newInformer(actor string, incarnation int, controller string, kind *apiserver.Kind, s cache.Selector) *informer {
	inf := &informer{
		event: schedule.Event{Actor: actor, Incarnation: incarnation, Controller: controller,
			Verb: schedule.Deliver, Kind: kind.Name()},
		thread: e.newThread("", ""),
		view:   cache.New(e.server, kind, s), namespace: s.Namespace,
		number: e.informed,
	}
	e.informed++
	inf.thread.infra = true
	e.informers = append(e.informers, inf)
	return inf
}

// sync delivers the initial list.
func (e *engine) sync(inf *informer) {
	initial := inf.view.Sync()
	e.note(inf.thread, inf.list(), -1)
	e.lagging = true
	for _, delta := range permuted(e, inf.event, initial) {
		inf.deliver(delta)
	}
}

// enabled reports whether there is something to deliver, by the view alone: faults may keep it back, see engine.flows.
func (inf *informer) enabled() bool {
	if inf.stopped {
		return false
	}
	delta, ok := inf.view.Pending()
	if ok {
		inf.event = inf.delivery(delta)
	}
	return ok
}

// delivery names the delivery of one event.
func (inf *informer) delivery(delta cache.Delta) schedule.Event {
	event, key := inf.event, delta.Key()
	event.Verb, event.Namespace, event.Name = schedule.Deliver, key.Namespace, key.Name
	return event
}

// list names the delivery of a whole list.
func (inf *informer) list() schedule.Event {
	event := inf.event
	event.Verb, event.Namespace, event.Name = schedule.Sync, inf.namespace, ""
	return event
}

func (inf *informer) base() *schedule.Event { return &inf.event }
func (inf *informer) owner() *thread        { return inf.thread }
func (inf *informer) order() uint64         { return inf.number }
func (inf *informer) infrastructure() bool  { return true }

// take moves the cursor by one event, or to a new list.
func (inf *informer) take(e *engine) {
	if inf.watch.relist {
		e.relist(inf)
		return
	}
	delta := inf.view.Advance()
	cause, ok := e.commits[inf.view.Revision()]
	if !ok {
		cause = -1
	}
	e.note(inf.thread, inf.event, cause)
	e.history.Records[inf.thread.last].After = delta.Object
	e.lagging = true
	e.resume(inf)
	inf.deliver(delta)
}

func (inf *informer) deliver(delta cache.Delta) {
	if inf.handle != nil {
		inf.handle(delta)
	}
	for _, r := range inf.registrations {
		if !r.removed {
			r.deltas = append(r.deltas, caused{delta, inf.thread.last})
		}
	}
}

// registration is an event handler of a process, with its own buffer of events, as client-go's processorListener: it
// may lag behind the view. Its handler runs in a goroutine of its own, so that it may make calls.
type registration struct {
	local

	process *process
	thread  *thread
	event   schedule.Event
	number  uint64
	feed    chan cache.Delta
	// goroutine is the one the handler runs in.
	goroutine string
	informer  *informer
	deltas    []caused
	initial   int // how many events of the initial list the handler has not handled yet
	busy      bool
	removed   bool
}

// caused is a delta with the record that delivered it.
type caused struct {
	cache.Delta
	cause int
}

func (p *process) newRegistration(inf *informer, name string, handle func(cache.Delta)) *registration {
	e := p.engine
	r := &registration{
		process: p,
		thread:  e.newThread(name, ""),
		event:   inf.event,
		number:  e.registered,
		feed:    make(chan cache.Delta), informer: inf,
	}
	e.registered++
	r.thread.infra = true
	r.event.Verb, r.event.Controller = schedule.Handle, name
	var initial []cache.Delta
	for _, obj := range inf.view.List("") {
		initial = append(initial, cache.Delta{Type: apiserver.Added, Object: obj, Initial: true})
	}
	for _, delta := range permuted(e, inf.event, initial) {
		r.deltas = append(r.deltas, caused{delta, inf.thread.last})
	}
	r.initial = len(r.deltas)
	e.registrations = append(e.registrations, r)
	inf.registrations = append(inf.registrations, r)
	p.spawn(func() {
		e.mu.Lock()
		r.goroutine = goroutineID()
		e.mu.Unlock()
		for delta := range r.feed {
			handle(delta)
			e.mu.Lock()
			r.busy = false
			if r.initial > 0 {
				r.initial--
			}
			e.mu.Unlock()
		}
	})
	return r
}

func (r *registration) enabled() bool {
	if len(r.deltas) == 0 || r.removed || r.process.handlingBusy() {
		return false
	}
	key := r.deltas[0].Key()
	r.event.Namespace, r.event.Name = key.Namespace, key.Name
	return true
}

func (p *process) handlingBusy() bool { return p.handling != nil && p.handling.busy }

func (r *registration) base() *schedule.Event { return &r.event }
func (r *registration) owner() *thread        { return r.thread }
func (r *registration) order() uint64         { return 1<<32 + r.number }
func (r *registration) infrastructure() bool  { return true }

// take runs the handler on one event, until it is done or makes a call.
func (r *registration) take(e *engine) {
	delta := r.deltas[0]
	r.deltas = r.deltas[1:]
	e.note(r.thread, r.event, delta.cause)
	e.pay()
	r.busy, r.process.handling = true, r
	r.feed <- delta.Delta
	e.settle()
}

// Informer is an informer of a program.
type Informer struct {
	process *process
	inner   *informer
}

// Informer starts an informer over a kind and waits for its initial list. Asking again for the same kind,
// representation and selector is the caller's to avoid: every call makes an informer of its own. The error is the context's, or
// that of a server which refuses the list: an *apierrors.StatusError.
func (env *Env) Informer(ctx context.Context, kind *apiserver.Kind, representation string, s cache.Selector) (*Informer, error) {
	p := env.process
	informer := &Informer{process: p}
	watches, err := env.follow(ctx, kind, s)
	if err != nil {
		return nil, err
	}
	var refused error
	err = p.park(ctx, &op{
		event: schedule.Event{Verb: schedule.Sync, Kind: kind.Name(), Name: representation, Namespace: s.Namespace},
		exec: func(o *op) {
			if refused = p.engine.refusesList(kind, s); refused != nil {
				p.engine.note(o.thread, o.event, -1)
				return
			}
			informer.inner = p.engine.newInformer(p.name, p.incarnation, representation, kind, s)
			informer.inner.unwatched = !watches
			p.engine.sync(informer.inner)
		},
	})
	if err = cmp.Or(err, refused); err != nil {
		return nil, err
	}
	return informer, nil
}

// refusesList returns what the server answers to the list that an informer begins with, if it is an error.
func (e *engine) refusesList(kind *apiserver.Kind, s cache.Selector) error {
	if s.Fields == nil || s.Fields.Empty() {
		return nil
	}
	_, err := e.server.StartWatch(&apiserver.Request{
		Verb: schedule.Watch, Kind: kind, Namespace: s.Namespace, LabelSelector: s.Labels, FieldSelector: s.Fields,
	}, false)
	return err
}

// View returns what the informer has been told so far. Programs read it with [Env.CachedGet] and
// [Env.CachedList].
func (i *Informer) View() *cache.View { return i.inner.view }

// Registration is an event handler of a program.
type Registration struct{ inner *registration }

// AddHandler registers an event handler and waits until it has handled the initial list. The name tells the
// registrations of a process apart, and must not depend on the order in which goroutines run.
func (i *Informer) AddHandler(ctx context.Context, name string, handle func(cache.Delta)) (*Registration, error) {
	p := i.process
	registration := &Registration{}
	event := schedule.Event{Verb: schedule.Sync, Kind: i.inner.event.Kind, Name: name}
	err := p.park(ctx, &op{event: event, exec: func(o *op) {
		registration.inner = p.newRegistration(i.inner, name, handle)
		p.engine.note(o.thread, o.event, -1)
	}})
	if err != nil {
		return nil, err
	}
	return registration, p.park(ctx, &op{event: event, ready: func() bool { return registration.inner.initial == 0 }})
}

// Remove takes the handler out: it sees no further events.
func (r *Registration) Remove() {
	e := r.inner.process.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	r.inner.removed = true
}

// Stop ends the informer: its view stays as it is, and its handlers hear of nothing any more.
func (i *Informer) Stop() {
	e := i.process.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	i.inner.stopped = true
}
