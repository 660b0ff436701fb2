package live

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	simclient "github.com/stalemate-dev/stalemate/sim/client"
	"github.com/stalemate-dev/stalemate/sim/schedule"
)

// process is one start of a program under test: a real manager of controller-runtime, with real caches and queues, behind the
// gate.
type process struct {
	cluster     *cluster
	config      *sim.Process
	program     sim.Program
	incarnation int
	cancel      context.CancelFunc
	ended       chan struct{}
	dead        atomic.Bool

	mu     sync.Mutex
	sole   bool             // there is one controller: its name adds nothing to those of events
	seen   map[string]int64 // the revision that the informers of a kind were told of last
	pauses map[*apiserver.Kind]*pauses
	err    error
}

// start starts a program once more.
func (c *cluster) start(config *sim.Process, program sim.Program, incarnation int) (*process, error) {
	ctx, cancel := context.WithCancel(c.ctx)
	p := &process{cluster: c, config: config, program: program, incarnation: incarnation, cancel: cancel, ended: make(chan struct{}),
		seen: map[string]int64{}, pauses: map[*apiserver.Kind]*pauses{}}
	g := c.gate
	v := visit{event: schedule.Event{Actor: config.Name, Incarnation: incarnation, Verb: schedule.Start}}
	v.key = threadKey{actor: config.Name, incarnation: incarnation}
	if err := g.comeUp(ctx, &v); err != nil {
		cancel()
		return nil, err
	}
	g.done(&v, Step{}, 0)
	m, err := p.manager()
	if err != nil {
		cancel()
		return nil, fmt.Errorf("process %s: %w", config.Name, err)
	}
	go func() {
		defer close(p.ended)
		if err := m.Start(ctx); err != nil && ctx.Err() == nil {
			p.mu.Lock()
			p.err = err
			p.mu.Unlock()
			c.fail(fmt.Errorf("process %s: %w", config.Name, err))
		}
	}()
	return p, nil
}

// manager makes the real manager, and sets the program up on it.
func (p *process) manager() (ctrl.Manager, error) {
	setup, options, ok := simclient.Parts(p.program)
	if !ok {
		return nil, errors.New("the program is not made of a set-up of managers, so that there is no real manager to run it on")
	}
	config := rest.CopyConfig(p.cluster.plane.Config)
	config.UserAgent, config.QPS = p.config.Name, -1
	config.ContentType, config.AcceptContentTypes = "application/json", "application/json"
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return &transport{process: p, inner: inner} })
	options.Scheme = p.cluster.config.Scheme
	options.Metrics = metricsserver.Options{BindAddress: "0"}
	options.HealthProbeBindAddress, options.PprofBindAddress = "0", "0"
	options.LeaderElection = false
	options.Logger = logr.Discard()
	options.GracefulShutdownTimeout = new(time.Second)
	options.Controller.SkipNameValidation = new(true)
	options.NewClient = p.newClient
	if hooks := p.cluster.hooks; hooks != nil {
		options.WebhookServer = webhook.NewServer(webhook.Options{
			Host: hooks.LocalServingHost, Port: hooks.LocalServingPort, CertDir: hooks.LocalServingCertDir,
		})
	}
	inner, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, err
	}
	m := &gatedManager{Manager: inner, process: p}
	m.live, err = client.New(inner.GetConfig(), client.Options{
		HTTPClient: inner.GetHTTPClient(), Scheme: inner.GetScheme(), Mapper: inner.GetRESTMapper(),
	})
	if err != nil {
		return nil, err
	}
	if err := setup(m); err != nil {
		return nil, err
	}
	p.sole = m.controllers == 1
	return m, nil
}

// isDead reports whether the process has died.
func (p *process) isDead() bool { return p.dead.Load() }

// kill ends the process: what it asks for from now on fails.
func (p *process) kill() {
	p.dead.Store(true)
	p.cancel()
}

// crash kills the process, and starts its successor after a while.
func (p *process) crash(f schedule.Fault) {
	p.kill()
	p.cluster.gate.began(threadKey{})
	go func() {
		defer p.cluster.gate.ended()
		<-p.ended
		sleep(p.cluster.ctx, f.For)
		program := p.program
		if f.Type == schedule.Upgrade {
			program = p.config.Upgrades[f.Reconciler]
		}
		next, err := p.cluster.start(p.config, program, p.incarnation+1)
		if err != nil {
			if p.cluster.ctx.Err() == nil { // else the run is over, which is no failure
				p.cluster.fail(err)
			}
			return
		}
		p.cluster.replace(p, next)
	}()
}

// thread returns the thread of the pass that a context belongs to, or that of the process itself.
func (p *process) thread(ctx context.Context) threadKey {
	if key, ok := ctx.Value(passContextKey{}).(threadKey); ok {
		return key
	}
	return threadKey{actor: p.config.Name, incarnation: p.incarnation}
}

// name completes the name of a step of the process.
func (p *process) name(v *visit) {
	v.event.Actor, v.event.Incarnation = p.config.Name, p.incarnation
	v.event.Controller, v.event.Key = v.key.controller, v.key.key
	if p.sole {
		v.event.Controller = ""
	}
}

// delivered notes what the informers of a kind know.
func (p *process) delivered(kind *apiserver.Kind, revision int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[kind.Name()] = max(p.seen[kind.Name()], revision)
}

func (p *process) revisionSeen(kind *apiserver.Kind) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[kind.Name()]
}

// pauses keep an informer from watching.
type pauses struct {
	mu   sync.Mutex
	ends time.Time
}

func (p *process) pausesOf(kind *apiserver.Kind) *pauses {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pauses[kind] == nil {
		p.pauses[kind] = &pauses{}
	}
	return p.pauses[kind]
}

func (p *pauses) until(t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ends = t
}

func (p *pauses) wait(ctx context.Context) error {
	p.mu.Lock()
	ends := p.ends
	p.mu.Unlock()
	sleep(ctx, time.Until(ends))
	return ctx.Err()
}

// gatedManager is a real manager whose controllers say what they work on.
type gatedManager struct {
	ctrl.Manager
	process     *process
	live        client.Client
	controllers int
}

// GetAPIReader returns a client that reads from the server, and writes, too.
func (m *gatedManager) GetAPIReader() client.Reader { return m.live }

// Add adds a runnable. A controller's passes are watched, see adopter in sim/client.
func (m *gatedManager) Add(r manager.Runnable) error {
	value := reflect.ValueOf(r)
	if value.Kind() == reflect.Pointer && value.Elem().Kind() == reflect.Struct {
		name, do := value.Elem().FieldByName("Name"), value.Elem().FieldByName("Do")
		if name.IsValid() && do.IsValid() && do.CanSet() {
			m.controllers++
			if inner, ok := reflect.TypeAssert[reconcile.Reconciler](do); ok {
				do.Set(reflect.ValueOf(&passes{process: m.process, controller: name.String(), inner: inner}))
			}
		}
	}
	return m.Manager.Add(r)
}

// passes are those of one controller.
type passes struct {
	process    *process
	controller string
	inner      reconcile.Reconciler
}

// Reconcile implements [reconcile.Reconciler].
func (r *passes) Reconcile(ctx context.Context, request reconcile.Request) (result reconcile.Result, err error) {
	p := r.process
	if p.isDead() {
		return result, errDied
	}
	g := p.cluster.gate
	key := threadKey{actor: p.config.Name, incarnation: p.incarnation, controller: r.controller, key: request.String()}
	v := visit{event: schedule.Event{Verb: schedule.Dequeue}, key: key}
	p.name(&v)
	if err := g.comeUp(ctx, &v); err != nil {
		return result, err
	}
	g.done(&v, Step{}, 0)
	g.began(key)
	defer g.ended()
	defer func() {
		if value := recover(); value != nil {
			p.cluster.panicked(fmt.Sprintf("%v\n%s", value, debug.Stack()))
			err = fmt.Errorf("panic: %v", value)
		}
	}()
	return r.inner.Reconcile(context.WithValue(ctx, passContextKey{}, key), request)
}

// newClient makes the manager's client, whose reads from the cache come by the gate.
func (p *process) newClient(config *rest.Config, options client.Options) (client.Client, error) {
	inner, err := client.New(config, options)
	if err != nil || options.Cache == nil {
		return inner, err
	}
	c := &gatedClient{Client: inner, process: p, unstructured: options.Cache.Unstructured, live: map[schema.GroupVersionKind]bool{}}
	for _, obj := range options.Cache.DisableFor {
		gvk, err := apiutil.GVKForObject(obj, inner.Scheme())
		if err != nil {
			return nil, err
		}
		c.live[gvk] = true
	}
	return c, nil
}

// gatedClient is the client of a manager: its reads from the cache are steps, too.
type gatedClient struct {
	client.Client
	process      *process
	unstructured bool
	live         map[schema.GroupVersionKind]bool
}

// Get implements [client.Client].
func (c *gatedClient) Get(ctx context.Context, key client.ObjectKey, obj client.Object, options ...client.GetOption) (err error) {
	kind := c.cached(obj)
	if kind == nil {
		return c.Client.Get(ctx, key, obj, options...)
	}
	event := schedule.Event{Verb: schedule.CachedGet, Kind: kind.Name(), Namespace: key.Namespace, Name: key.Name}
	c.read(ctx, event, func() int64 {
		fresh := reflect.New(reflect.TypeOf(obj).Elem()).Interface().(client.Object)
		if fresh.GetObjectKind().SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind()); c.Client.Get(ctx, key, fresh) != nil {
			return 0
		}
		return number(fresh.GetResourceVersion())
	}, func() { err = c.Client.Get(ctx, key, obj, options...) })
	return err
}

// List implements [client.Client].
func (c *gatedClient) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) (err error) {
	kind := c.cached(list)
	if kind == nil {
		return c.Client.List(ctx, list, options...)
	}
	o := client.ListOptions{}
	o.ApplyOptions(options)
	event := schedule.Event{Verb: schedule.CachedList, Kind: kind.Name(), Namespace: o.Namespace}
	c.read(ctx, event, func() int64 { return c.process.revisionSeen(kind) }, func() { err = c.Client.List(ctx, list, options...) })
	return err
}

// cached returns the kind of an object that is read from the cache, and nil for one that is not.
func (c *gatedClient) cached(obj any) *apiserver.Kind {
	typed, ok := obj.(client.Object)
	list, isList := obj.(client.ObjectList)
	var gvk schema.GroupVersionKind
	var err error
	switch {
	case isList:
		gvk, err = apiutil.GVKForObject(list, c.Scheme())
		gvk.Kind = strings.TrimSuffix(gvk.Kind, "List")
	case ok:
		gvk, err = apiutil.GVKForObject(typed, c.Scheme())
	}
	if err != nil || c.live[gvk] || !c.unstructured && untyped(obj) {
		return nil
	}
	return c.process.cluster.kinds.ByGVK(gvk)
}

// read reads from the cache, as a step.
func (c *gatedClient) read(ctx context.Context, event schedule.Event, sight func() int64, read func()) {
	p := c.process
	v := visit{event: event, key: p.thread(ctx), sight: sight}
	p.name(&v)
	if p.cluster.gate.comeUp(ctx, &v) != nil { // reading from memory goes on when the context has ended
		read()
		return
	}
	found := sight()
	read()
	p.cluster.gate.done(&v, Step{}, found)
}

// untyped reports whether an object is read without its Go type, which by default no cache is asked for.
func untyped(obj any) bool {
	_, ok := obj.(runtime.Unstructured)
	return ok
}
