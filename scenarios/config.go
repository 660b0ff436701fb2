package scenarios

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/stalemate-dev/stalemate/reactors"
	"github.com/stalemate-dev/stalemate/sim"
)

// Config puts the scenario and its reconcilers together into what the engine runs. Overrides replace reconcilers by the names
// of controllers: {"operator": "clickhouse/patch-a"}.
//
// A scenario with a matrix has no configuration, but each of its [Scenario.Entries] has. That, and a name that the registry does
// not know, of a reconciler or, in the overrides, of a controller, is an [*Error].
func (s *Scenario) Config(registry *Registry, overrides map[string]string) (*sim.Config, error) {
	if s.entries != nil {
		return nil, newError(s.Path, []Diagnostic{s.doc.at("spec.matrix", "spec.matrix: choose an entry to run; "+s.listEntries())})
	}
	return s.config(registry, overrides, s.upgrades())
}

// config is [Scenario.Config] with the upgrades that may come about.
func (s *Scenario) config(registry *Registry, overrides map[string]string, upgrades []upgrade) (*sim.Config, error) {
	chosen, err := s.choose(registry, overrides)
	if err != nil {
		return nil, err
	}
	started, err := registry.upgrades(s.Path, upgrades)
	if err != nil {
		return nil, err
	}
	scheme, err := newScheme(slices.Concat(chosen, started))
	if err != nil {
		return nil, fmt.Errorf("scenario %s: %w", s.Path, err)
	}
	config := &sim.Config{
		Name:       s.Name,
		Kinds:      s.kinds,
		Scheme:     scheme,
		Given:      s.given,
		Unsettled:  s.Manifest.Spec.Settle != nil && !*s.Manifest.Spec.Settle,
		Racers:     s.racers,
		Faults:     s.Manifest.Spec.Faults.simFaults(),
		NewReactor: reactors.New,
		Properties: s.properties,
		Detectors:  detectors(s.Manifest.Spec.Detectors),
		Limits:     s.Manifest.Spec.Limits.limits(),
	}
	for i, controller := range s.Manifest.Spec.Controllers {
		options := ProgramOptions{Scheme: scheme, Reads: controller.Reads}
		process := sim.Process{Name: controller.Name, Program: chosen[i].Program(options), Access: s.access[i]}
		for j, u := range upgrades {
			if u.actor != "" && u.actor != controller.Name {
				continue
			}
			if process.Upgrades == nil {
				process.Upgrades = map[string]sim.Program{}
			}
			if process.Upgrades[u.reconciler] == nil {
				process.Upgrades[u.reconciler] = started[j].Program(options)
			}
		}
		config.Processes = append(config.Processes, process)
	}
	return config, nil
}

// newScheme returns a scheme with client-go's types and those of the reconcilers.
func newScheme(reconcilers []Reconciler) (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("client-go's scheme: %w", err)
	}
	for _, reconciler := range reconcilers {
		if reconciler.AddToScheme == nil {
			continue
		}
		if err := reconciler.AddToScheme(scheme); err != nil {
			return nil, fmt.Errorf("the scheme of reconciler %q: %w", reconciler.Doc, err)
		}
	}
	return scheme, nil
}

// upgrades returns the reconcilers that upgrades name, in their order. The file is what errors come from first.
func (r *Registry) upgrades(file string, upgrades []upgrade) ([]Reconciler, error) {
	var all []Reconciler
	var diagnostics []Diagnostic
	for _, u := range upgrades {
		reconciler, ok := r.Get(u.reconciler)
		if !ok {
			message := fmt.Sprintf("%s: invalid value: %q: %s", u.path, u.reconciler, r.unknown(u.reconciler))
			diagnostics = append(diagnostics, u.doc.at(u.path, message))
		}
		all = append(all, reconciler)
	}
	return all, newError(file, diagnostics)
}

// choose returns the reconciler of each controller.
func (s *Scenario) choose(registry *Registry, overrides map[string]string) ([]Reconciler, error) {
	var diagnostics []Diagnostic
	var chosen []Reconciler
	var names []string
	for i, controller := range s.Manifest.Spec.Controllers {
		names = append(names, controller.Name)
		override, overridden := overrides[controller.Name]
		name := controller.Reconciler
		if overridden {
			name = override
		}
		reconciler, ok := registry.Get(name)
		switch {
		case ok:
			chosen = append(chosen, reconciler)
		case overridden:
			message := fmt.Sprintf("override %s=%s: %s", controller.Name, name, registry.unknown(name))
			diagnostics = append(diagnostics, Diagnostic{File: s.Path, Message: message})
		default:
			path := field.NewPath("spec", "controllers").Index(i).Child("reconciler")
			err := field.Invalid(path, name, registry.unknown(name))
			diagnostics = append(diagnostics, fieldDiagnostics(s.doc, "", field.ErrorList{err})...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(overrides)) {
		if !slices.Contains(names, name) {
			message := fmt.Sprintf("override %s=%s: no such controller%s", name, overrides[name], didYouMeanOr(name, names))
			diagnostics = append(diagnostics, Diagnostic{File: s.Path, Message: message})
		}
	}
	return chosen, newError(s.Path, diagnostics)
}

// limits converts limits; what is not set is left to the engine.
func (l Limits) limits() sim.Limits {
	limits := sim.Limits{VirtualTime: duration(l.VirtualTime), Hold: duration(l.Hold)}
	if l.Steps != nil {
		limits.Steps = int(*l.Steps)
	}
	return limits
}
