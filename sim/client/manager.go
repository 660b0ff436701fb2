package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	ctrl "sigs.k8s.io/controller-runtime"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/stalemate-dev/stalemate/sim"
)

func init() {
	// client-go's default handlers sleep when errors come faster than once a millisecond, by a package variable that
	// outlives a bubble: after a run the next one's clock lies before it, and the sleep would last for years. They log, too,
	// in real time. What is handed to them is not lost: controllers report their errors through their loggers.
	utilruntime.ErrorHandlers = nil
	// A controller recovers a panic of its reconciler, tells these handlers, and retries as after an error, which hides a bug.
	others := utilruntime.PanicHandlers
	utilruntime.PanicHandlers = []func(context.Context, any){func(ctx context.Context, value any) {
		if env, ok := ctx.Value(envContextKey{}).(*sim.Env); ok {
			env.Panicked(value, debug.Stack())
			return
		}
		for _, handle := range others {
			handle(ctx, value)
		}
	}}
}

// envContextKey finds the run in the context of a runnable; controllerContextKey finds the name of the controller.
type (
	envContextKey        struct{}
	controllerContextKey struct{}
)

// Manager makes a program of a manager's set-up: the part of an operator's main between making the manager and starting
// it, with its unmodified SetupWithManager calls. The scheme must know the operator's types. [WithOptions] takes the options
// that main makes the manager with.
func Manager(scheme *runtime.Scheme, setup func(ctrl.Manager) error, options ...Option) sim.Program {
	return &program{scheme: scheme, setup: setup, settings: newSettings(options)}
}

type program struct {
	scheme   *runtime.Scheme
	setup    func(ctrl.Manager) error
	settings *settings
	rules    queueRules
}

// Start implements sim.Program.
func (p *program) Start(ctx context.Context, env *sim.Env) error {
	m := newManager(recorder.Provider.GetEventRecorder, env, p.scheme, &p.rules)
	if err := m.configure(ctx, p.settings); err != nil {
		return fmt.Errorf("manager: %w", err)
	}
	quiet()
	if err := p.setup(m); err != nil {
		return err
	}
	return m.Start(ctx)
}

// quiet keeps controller-runtime from complaining on stderr that nobody has called log.SetLogger, if nobody has: it does so when a
// package-level logger is used more than half a minute after the start of the program, which in simulated time is at once. The
// first to set a logger wins, so that one which was set before the simulation stays.
var quiet = sync.OnceFunc(func() { log.SetLogger(logr.New(log.NullLogSink{})) })

// simManager is a manager over a run. R is the type of recorder that GetEventRecorder returns, which differs between the
// versions of controller-runtime we support; newManager infers it.
type simManager[R any] struct {
	// Manager is nil. It stands for methods that later versions of controller-runtime add to the interface, so that ours
	// compiles with them; who calls one sees a nil dereference that names it.
	manager.Manager

	env       *sim.Env
	scheme    *runtime.Scheme
	mapper    meta.RESTMapper
	informers *informers
	live      *liveClient
	client    client.Client
	options   *ctrl.Options
	log       logr.Logger
	elected   chan struct{}
	hooks     webhook.Server
	mux       *webhookMux // of hooks
	registry  conversion.Registry
	events    *eventSender
	adopter   *adopter

	mu        sync.Mutex
	runnables []manager.Runnable
	running   context.Context // nil before Start
}

var _ manager.Manager = newManager(recorder.Provider.GetEventRecorder, nil, runtime.NewScheme(), nil)

// newManager makes a manager, which is still to be configured. The first argument only tells the type of recorder.
func newManager[R any](
	_ func(recorder.Provider, string) R, env *sim.Env, scheme *runtime.Scheme, rules *queueRules,
) *simManager[R] {
	m := &simManager[R]{env: env, scheme: scheme, elected: make(chan struct{})}
	if env == nil {
		return m
	}
	codec := newCodec(env.Kinds(), scheme, env.Gap)
	m.mapper = mapperOf(env.Kinds())
	adds := &addBuffer{}
	m.adopter = &adopter{env: env, rules: rules, adds: adds}
	m.informers = newInformers(env, codec, adds)
	m.live = &liveClient{env: env, server: env, codec: codec, mapper: m.mapper}
	m.log = logr.New(&logSink{env: env, ctx: context.Background()})
	m.mux = &webhookMux{ServeMux: http.NewServeMux(), env: env}
	m.hooks, m.registry = webhook.NewServer(webhook.Options{WebhookMux: m.mux.ServeMux}), conversion.NewRegistry()
	m.events = &eventSender{client: m.live, scheme: scheme, sent: map[string]*sentEvent{}}
	close(m.elected)
	return m
}

// configure makes the manager's cache and client as the options say. The context is that of the process.
func (m *simManager[R]) configure(ctx context.Context, s *settings) (err error) {
	if err := s.check(); err != nil {
		return err
	}
	m.options = &s.options
	m.informers.life = ctx
	if m.informers.coverages, err = newCoverages(s.options.Cache, m.env.Kinds(), m.scheme); err != nil {
		return err
	}
	m.client, err = s.newClient(m.live, m.informers.handle(), m.scheme)
	return err
}

// Add implements manager.Manager.
func (m *simManager[R]) Add(r manager.Runnable) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running != nil {
		m.start(m.running, r)
		return nil
	}
	m.runnables = append(m.runnables, r)
	return nil
}

// Start implements manager.Manager. Caches come first, as in a real manager; then everything else starts at once.
func (m *simManager[R]) Start(ctx context.Context) error {
	m.env.ServeWebhooks(m.mux)
	m.informers.begin()
	m.mu.Lock()
	m.running = ctx
	var names []string
	for _, r := range m.runnables {
		if name, ok := controllerName(r); ok {
			names = append(names, name)
		}
	}
	m.env.Controllers(names)
	for _, r := range m.runnables {
		m.start(ctx, r)
	}
	m.mu.Unlock()
	<-ctx.Done()
	return nil
}

// start starts a runnable with a context that says whose calls are made with it.
func (m *simManager[R]) start(ctx context.Context, r manager.Runnable) {
	ctx = context.WithValue(ctx, envContextKey{}, m.env)
	name, isController := controllerName(r)
	if isController {
		ctx = context.WithValue(ctx, controllerContextKey{}, name)
	}
	if !m.adopter.adopt(r) {
		ctx = m.env.As(ctx, name)
	}
	m.env.Go(func() {
		if err := r.Start(ctx); err != nil && !errors.Is(err, context.Canceled) {
			m.env.Exit(fmt.Errorf("runnable %T: %w", r, m.informers.explain(err)))
		}
	})
}

// Elected implements manager.Manager. The process always leads.
func (m *simManager[R]) Elected() <-chan struct{} { return m.elected }

// GetHTTPClient implements cluster.Cluster.
func (m *simManager[R]) GetHTTPClient() *http.Client {
	return &http.Client{Transport: noTransport{m.env}}
}

// GetConfig implements cluster.Cluster.
func (m *simManager[R]) GetConfig() *rest.Config {
	return &rest.Config{Host: "http://stalemate.invalid", Transport: noTransport{m.env}, QPS: -1}
}

// noTransport refuses raw HTTP.
type noTransport struct{ env *sim.Env }

// RoundTrip implements http.RoundTripper.
func (t noTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	t.env.Gap("raw HTTP to the API server, as a clientset made from the manager's rest.Config sends it, is refused")
	return nil, fmt.Errorf("%s %s: raw HTTP to the API server is not simulated in this way of running an operator; "+
		"use the manager's client", r.Method, r.URL.Path)
}

// GetCache implements cluster.Cluster.
func (m *simManager[R]) GetCache() ctrlcache.Cache { return m.informers.handle() }

// GetScheme implements cluster.Cluster.
func (m *simManager[R]) GetScheme() *runtime.Scheme { return m.scheme }

// GetClient implements cluster.Cluster.
func (m *simManager[R]) GetClient() client.Client { return m.client }

// GetAPIReader implements cluster.Cluster.
func (m *simManager[R]) GetAPIReader() client.Reader { return m.live }

// GetFieldIndexer implements cluster.Cluster.
func (m *simManager[R]) GetFieldIndexer() client.FieldIndexer { return m.informers.handle() }

// GetRESTMapper implements cluster.Cluster.
func (m *simManager[R]) GetRESTMapper() meta.RESTMapper { return m.mapper }

// GetEventRecorderFor implements recorder.Provider.
func (m *simManager[R]) GetEventRecorderFor(name string) record.EventRecorder {
	return &eventRecorder{eventSource{m.events, name}}
}

// GetEventRecorder implements recorder.Provider.
func (m *simManager[R]) GetEventRecorder(name string) R {
	return any(&eventsRecorder{eventSource{m.events, name}}).(R)
}

// GetLogger implements manager.Manager.
func (m *simManager[R]) GetLogger() logr.Logger { return m.log }

// GetControllerOptions implements manager.Manager. Controllers' names are unique within a process, which is what a run
// has; the check in controller-runtime is over all that one test binary ever started.
func (m *simManager[R]) GetControllerOptions() config.Controller {
	options, skip := m.options.Controller, true
	options.SkipNameValidation, options.Logger = &skip, m.log
	return options
}

// GetWebhookServer implements manager.Manager. The webhooks that are registered with it answer, from the manager's start on, the
// webhook configurations in the store that name their paths. It has no port and no certificates, and is never started itself.
func (m *simManager[R]) GetWebhookServer() webhook.Server { return m.hooks }

// webhookMux serves the webhooks of a manager.
type webhookMux struct {
	*http.ServeMux
	env *sim.Env
}

// ServeHTTP implements http.Handler. The context says whose webhook it is, if that panics.
func (m *webhookMux) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.ServeMux.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), envContextKey{}, m.env)))
}

// GetConverterRegistry implements manager.Manager.
func (m *simManager[R]) GetConverterRegistry() conversion.Registry { return m.registry }

// AddMetricsServerExtraHandler implements manager.Manager. There is no metrics server.
func (m *simManager[R]) AddMetricsServerExtraHandler(string, http.Handler) error { return nil }

// AddHealthzCheck implements manager.Manager. There is nobody to ask.
func (m *simManager[R]) AddHealthzCheck(string, healthz.Checker) error { return nil }

// AddReadyzCheck implements manager.Manager. There is nobody to ask.
func (m *simManager[R]) AddReadyzCheck(string, healthz.Checker) error { return nil }
