package simtest

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/stalemate-dev/stalemate/scenarios"
	"github.com/stalemate-dev/stalemate/sim"
	"github.com/stalemate-dev/stalemate/sim/apiserver"
	"github.com/stalemate-dev/stalemate/sim/apiserver/rbac"
	"github.com/stalemate-dev/stalemate/sim/client"
	"github.com/stalemate-dev/stalemate/sim/detect"
)

// Subject is what is tested: a [Scenario] or a [Config].
type Subject struct {
	path   string
	config *sim.Config
}

// Scenario is the scenario of a YAML file, by its path relative to the package's folder. The reconcilers that it names
// are added by [Manager], [Reconciler] or [Registry].
func Scenario(path string) Subject { return Subject{path: path} }

// Config is a scenario as a Go value.
func Config(config *sim.Config) Subject { return Subject{config: config} }

// Option says more about a test.
type Option func(*options)

// options are what the options of a test come to.
type options struct {
	registry  scenarios.Registry
	overrides map[string]string
	seed      int64
	runs      int // notGiven, or the number
	reactors  []func() sim.Reactor
	webhooks  []apiserver.Hook
	access    map[string]*rbac.Access // by controllers
	detectors map[detect.Type]bool
	err       error
}

const (
	defaultSeed = 1
	notGiven    = -1
)

func newOptions(opts []Option) (*options, error) {
	o := &options{seed: defaultSeed, runs: notGiven, overrides: map[string]string{}}
	for _, option := range opts {
		option(o)
	}
	return o, o.err
}

// Registry adds all reconcilers of a registry.
func Registry(registry *scenarios.Registry) Option {
	return func(o *options) {
		for _, name := range registry.Names() {
			reconciler, _ := registry.Get(name)
			o.add(name, reconciler)
		}
	}
}

// Manager adds an operator by its manager's set-up: the part of its main between making the manager and starting it,
// with its unmodified SetupWithManager calls. Scenarios name it in spec.controllers[].reconciler. addToScheme adds the
// operator's own types to those of client-go; it may be nil. Options like [client.WithOptions], with what main gives to
// ctrl.NewManager, say what the manager is like.
func Manager(
	name string, addToScheme func(*runtime.Scheme) error, setup func(ctrl.Manager) error, options ...client.Option,
) Option {
	return program(name, addToScheme, func(p scenarios.ProgramOptions) sim.Program {
		return client.Manager(p.Scheme, setup, options...)
	})
}

// Reconciler adds an operator by its reconcilers, for people who have no SetupWithManager to go with them: what each is
// for, owns and watches, and how it is made. They share one process.
func Reconciler(name string, addToScheme func(*runtime.Scheme) error, controllers ...client.Reconciler) Option {
	return program(name, addToScheme, func(p scenarios.ProgramOptions) sim.Program {
		described := slices.Clone(controllers)
		for i := range described {
			described[i].LiveReads = p.LiveReads(described[i].LiveReads)
		}
		return client.Reconcilers(p.Scheme, described...)
	})
}

func program(name string, addToScheme func(*runtime.Scheme) error, make func(scenarios.ProgramOptions) sim.Program) Option {
	return func(o *options) { o.add(name, scenarios.Reconciler{AddToScheme: addToScheme, Program: make}) }
}

func (o *options) add(name string, reconciler scenarios.Reconciler) {
	if _, taken := o.registry.Get(name); taken {
		o.err = fmt.Errorf("reconciler %q is added twice: leave one out", name)
		return
	}
	o.registry.Add(name, reconciler)
}

// Replace runs another reconciler than the scenario says: Replace("operator", "clickhouse/patch-a") is what
// `--reconciler operator=clickhouse/patch-a` is to the command.
func Replace(controller, reconciler string) Option {
	return func(o *options) { o.overrides[controller] = reconciler }
}

// Reactors puts reactors of the test's own at the API server's door, in front of the faults of the scenario: they see every
// request of every run, from the begin of the script on. Each run makes its own, as they may hold state. They are part of the
// test, not of the scenario: a schedule of what is found with them does not name them, and is replayed by this test only.
func Reactors(makers ...func() sim.Reactor) Option {
	return func(o *options) {
		if slices.ContainsFunc(makers, func(make func() sim.Reactor) bool { return make == nil }) {
			o.err = errors.New("simtest.Reactors: a maker is nil: give functions that each return a new sim.Reactor")
		}
		o.reactors = append(o.reactors, makers...)
	}
}

// Webhooks adds admission webhooks of others than the operator under test, as functions: a policy engine, a sidecar injector. The
// operator's own need no option: what it registers with its manager answers the webhook configurations among the scenario's
// objects. See [sim.Config.Webhooks]; like reactors, they are part of the test, not of the scenario.
func Webhooks(hooks ...apiserver.Hook) Option {
	return func(o *options) { o.webhooks = append(o.webhooks, hooks...) }
}

// Roles gives a controller only the rights that are in files or directories of its roles, relative to the package's folder, as
// spec.controllers[].rbac of a scenario does: what they do not allow is answered with 403, and the report says which rule is
// missing. It takes the place of what the scenario says.
func Roles(controller string, files ...string) Option {
	return func(o *options) {
		access, err := scenarios.LoadRoles(controller, scenarios.ServiceAccount{}, files...)
		if err != nil {
			o.err = fmt.Errorf("simtest.Roles: %w", err)
			return
		}
		if o.access == nil {
			o.access = map[string]*rbac.Access{}
		}
		o.access[controller] = access
	}
}

// Detector switches one of the detectors that need no property on or off, as spec.detectors of a scenario does, and in place of
// what the scenario says. Where nothing is said those are on that `stalemate list` shows without a remark.
func Detector(t detect.Type, on bool) Option {
	return func(o *options) {
		if !slices.Contains(detect.Types(), t) {
			o.err = fmt.Errorf("simtest.Detector: there is no detector %q: take one of package detect", t)
		}
		if o.detectors == nil {
			o.detectors = map[detect.Type]bool{}
		}
		o.detectors[t] = on
	}
}

// configured returns a scenario's configuration with the reactors and webhooks of the test, which come after its own, the roles
// and the detectors. A Go value that says nothing of detectors has those that a file without a word of them has.
func (o *options) configured(config *sim.Config) (*sim.Config, error) {
	with := *config
	if with.Detectors == nil {
		with.Detectors = detect.NewSet(nil)
	}
	for _, t := range slices.Sorted(maps.Keys(o.detectors)) {
		with.Detectors = with.Detectors.With(t, o.detectors[t])
	}
	with.Reactors = slices.Concat(config.Reactors, o.reactors)
	with.Webhooks = slices.Concat(config.Webhooks, o.webhooks)
	with.Processes = slices.Clone(config.Processes)
	for _, name := range slices.Sorted(maps.Keys(o.access)) {
		i := slices.IndexFunc(with.Processes, func(p sim.Process) bool { return p.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("simtest.Roles(%q): scenario %q has no such controller", name, config.Name)
		}
		with.Processes[i].Access = o.access[name]
	}
	return &with, nil
}

// Seed is the seed of the first random run; the others count on from it. It is 1 if not given, as for the command.
func Seed(seed int64) Option { return func(o *options) { o.seed = seed } }

// Runs is the number of random runs after the sweep, 0 for none. It is explore.DefaultRuns if not given, as for the
// command.
func Runs(n int) Option {
	return func(o *options) {
		if n < 0 {
			o.err = fmt.Errorf("simtest.Runs(%d): want a number of runs, 0 for none", n)
		}
		o.runs = n
	}
}
