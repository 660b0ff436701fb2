package scenarios

import (
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/stalemate-dev/stalemate/sim"
)

// Config puts the scenario and its reconcilers together into what the engine runs. Overrides replace reconcilers by the names
// of controllers: {"operator": "clickhouse/patch-a"}.
//
// A name that the registry does not know, of a reconciler or, in the overrides, of a controller, is an [*Error].
func (s *Scenario) Config(registry *Registry, overrides map[string]string) (*sim.Config, error) {
	chosen, err := s.choose(registry, overrides)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("scenario %s: client-go's scheme: %w", s.Path, err)
	}
	for i, reconciler := range chosen {
		if reconciler.AddToScheme == nil {
			continue
		}
		if err := reconciler.AddToScheme(scheme); err != nil {
			return nil, fmt.Errorf("scenario %s: the scheme of controller %s: %w", s.Path, s.Manifest.Spec.Controllers[i].Name, err)
		}
	}
	config := &sim.Config{
		Name:       s.Name,
		Kinds:      s.kinds,
		Scheme:     scheme,
		Given:      s.given,
		Unsettled:  s.Manifest.Spec.Settle != nil && !*s.Manifest.Spec.Settle,
		Racers:     s.racers,
		Properties: s.properties,
		Limits:     s.Manifest.Spec.Limits.limits(),
	}
	for i, controller := range s.Manifest.Spec.Controllers {
		options := ProgramOptions{Scheme: scheme, Reads: controller.Reads}
		config.Processes = append(config.Processes, sim.Process{Name: controller.Name, Program: chosen[i].Program(options)})
	}
	return config, nil
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
			message := fmt.Sprintf("override %s=%s: no such controller; there is %s", name, overrides[name], quoted(names))
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
